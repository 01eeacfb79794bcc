"""Makes Z → μμ events with Pythia 8 and writes one row per event: the two leading muons.

A batch job runs it in its scratch directory: ``generate_muons.py RUN EVENTS OUTPUT``.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pythia8mc

SETTINGS = [
    "Print:quiet = on",
    "Random:setSeed = on",
    "Beams:eCM = 13000.",
    # Drell-Yan through the Z; its decay is forced to muons.
    "WeakSingleBoson:ffbar2gmZ = on",
    "23:onMode = off",
    "23:onIfAny = 13",
    "PhaseSpace:mHatMin = 50.",
    # Further collisions of the same protons cost most of the time and do not touch these muons.
    "PartonLevel:MPI = off",
]
MUON = 13


def generator(run: int) -> pythia8mc.Pythia:
    """Make a generator whose events depend on nothing but the run number."""
    pythia = pythia8mc.Pythia("", False)
    for setting in [*SETTINGS, f"Random:seed = {run}"]:
        if not pythia.readString(setting):
            sys.exit(f"Pythia does not know the setting {setting!r}")
    if not pythia.init():
        sys.exit("Pythia cannot start")
    return pythia


def muons(event: pythia8mc.Event) -> list[pythia8mc.Particle]:
    """Find the final muons of an event, hardest first."""
    found = [p for p in event if p.isFinal() and abs(p.id()) == MUON]
    return sorted(found, key=lambda p: -p.pT())


def generate(run: int, events: int) -> pa.Table:
    """Make events, as a table with flat columns."""
    pythia = generator(run)
    rows: dict[str, list[float]] = {name: [] for name in schema().names}
    while len(rows["event"]) < events:
        if not pythia.next():
            continue
        pair = muons(pythia.event)[:2]
        if len(pair) < 2:
            continue
        rows["run"].append(run)
        rows["event"].append(len(rows["event"]))
        for place, muon in enumerate(pair, 1):
            rows[f"pt{place}"].append(muon.pT())
            rows[f"eta{place}"].append(muon.eta())
            rows[f"phi{place}"].append(muon.phi())
            rows[f"q{place}"].append(-1 if muon.id() > 0 else 1)
    return pa.table(rows, schema=schema())


def schema() -> pa.Schema:
    """List the columns of the n-tuple; momenta in GeV, angles in radians, charges in units of the electron's."""
    columns = [("run", pa.int32()), ("event", pa.int32())]
    for place in (1, 2):
        columns += [(f"{name}{place}", pa.float32()) for name in ("pt", "eta", "phi")]
        columns += [(f"q{place}", pa.int32())]
    return pa.schema(columns)


def main() -> None:
    """Entry point of the job."""
    run, events, output = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    table = generate(run, events)
    pq.write_table(table, output, compression="zstd", row_group_size=5000)
    print(f"run {run}: {table.num_rows} events in {output}")


if __name__ == "__main__":
    main()
