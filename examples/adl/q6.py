"""The three jets whose mass is closest to 172.5 GeV: their transverse momentum, and their highest b-tag."""

from backplane import HistRequest


def run(chain):
    triples = chain.where("count(Jet) >= 3").define("t", "triples(Jet)")
    top = triples.define("top", "t[argclosest((t.a + t.b + t.c).mass, 172.5)]")
    pt = HistRequest("(top.a + top.b + top.c).pt", bins=100, range=(15, 40))
    tag = HistRequest("max(top.a.btag, top.b.btag, top.c.btag)", bins=100, range=(0, 1))
    return tuple(top.hists([pt, tag]))
