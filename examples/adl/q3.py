"""Transverse momentum of the jets with |eta| < 1."""


def run(chain):
    return chain.hist("Jet.pt[abs(Jet.eta) < 1]", bins=100, range=(15, 60))
