"""Transverse mass of the missing energy and the leading lepton beside the best Z, in events with three leptons."""


def run(chain):
    leptons = chain.define("lepton", "concat(Muon, Electron)").where("count(lepton) >= 3")
    pairs = leptons.define("p", "pairs(lepton)").define(
        "pair", "p[p.a.charge != p.b.charge and p.a.source == p.b.source]"
    )
    best = pairs.where("count(pair) > 0").define("z", "pair[argclosest((pair.a + pair.b).mass, 91.2)]")
    others = best.define("other", "lepton[lepton.index != z.a.index and lepton.index != z.b.index]")
    lead = others.define("lead", "other[argmax(other.pt)]")
    mass = "sqrt(2 * lead.pt * MET.pt * (1 - cos(MET.phi - lead.phi)))"
    return lead.hist(mass, bins=100, range=(15, 250))
