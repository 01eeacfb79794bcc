"""Sum of the transverse momenta of the jets above 30 GeV that are not within 0.4 of a lepton above 10 GeV."""


def run(chain):
    jets = chain.define("jet", "Jet[Jet.pt > 30]").define("all", "concat(Muon, Electron)")
    lone = jets.define("lepton", "all[all.pt > 10]").define("lone", "jet[not any(deltar(jet, lepton) < 0.4)]")
    return lone.where("count(lone) > 0").hist("sum(lone.pt)", bins=100, range=(15, 200))
