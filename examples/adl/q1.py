"""Missing transverse energy of all events."""


def run(chain):
    return chain.hist("MET.pt", bins=100, range=(0, 2000))
