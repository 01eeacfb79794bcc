"""Missing transverse energy of the events with two jets above 40 GeV."""


def run(chain):
    return chain.hist("MET.pt", where="sum(Jet.pt > 40) >= 2", bins=100, range=(0, 2000))
