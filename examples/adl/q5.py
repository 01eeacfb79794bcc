"""Missing transverse energy of the events with a pair of muons of opposite charge and a mass of 60 to 120 GeV."""


def run(chain):
    pairs = chain.where("count(Muon) >= 2").define("p", "pairs(Muon)")
    z = pairs.where("any(p.a.charge != p.b.charge and 60 < (p.a + p.b).mass < 120)")
    return z.hist("MET.pt", bins=100, range=(0, 2000))
