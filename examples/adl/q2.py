"""Transverse momentum of all jets."""


def run(chain):
    return chain.hist("Jet.pt", bins=100, range=(15, 60))
