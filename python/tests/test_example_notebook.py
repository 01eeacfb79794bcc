"""The notebook of `examples/`: every cell runs in IPython, from tape to a fitted peak."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import backplane

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "z-peak.ipynb"
WAIT_S = 120.0
PEAK = 91.19

# What a kernel does with a notebook, without its sockets: each cell has pictures of its own.
RUN = """
import json, sys
import matplotlib.pyplot
matplotlib.use("Agg")
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        shell.run_cell("".join(cell["source"]), store_history=True).raise_error()
        matplotlib.pyplot.close("all")
space = shell.user_ns
if len(sys.argv) > 2:
    space["figure"].savefig(sys.argv[2], dpi=100)
print(json.dumps({name: float(space[name]) for name in ("mass", "width", "error", "written")}))
"""


def muons(seed: int, events: int) -> pa.Table:
    """Make pairs of muons: half of them of a peak, and half of a falling spectrum."""
    rng = np.random.default_rng(seed)
    mass = np.where(
        rng.random(events) < 0.5, PEAK + 1.25 * rng.standard_cauchy(events), 40 + rng.exponential(30, events)
    )
    mass = np.clip(mass, 20, 400)
    eta1, eta2 = rng.uniform(-2.5, 2.5, (2, events))
    phi1, phi2 = rng.uniform(-np.pi, np.pi, events), rng.uniform(-np.pi, np.pi, events)
    phi2 = phi1 + np.pi + 0.3 * phi2 / np.pi
    product = mass**2 / (2 * (np.cosh(eta1 - eta2) - np.cos(phi1 - phi2)))
    ratio = rng.uniform(0.8, 1.25, events)
    charge = rng.choice(np.array([-1, 1], "i4"), events)
    columns = {"pt1": np.sqrt(product) * ratio, "eta1": eta1, "phi1": phi1, "q1": charge}
    columns |= {"pt2": np.sqrt(product) / ratio, "eta2": eta2, "phi2": phi2}
    same_sign = rng.random(events) < 0.05
    return pa.table(columns | {"q2": np.where(same_sign, charge, -charge)})


def test_the_notebook_goes_from_tape_to_a_fitted_peak(
    start_facility: Callable[..., contextlib.AbstractContextManager[backplane.Facility]], tmp_path: Path
) -> None:
    with start_facility(tmp_path / "facility", cpus=1) as facility:
        facility.mkdir("/data/z", parents=True)
        for number in range(3):
            pq.write_table(muons(number, 40_000), tmp_path / f"run{number}.parquet", row_group_size=10_000)
            facility.put(tmp_path / f"run{number}.parquet", f"/data/z/run{number}.parquet")
        paths = [f"/data/z/run{number}.parquet" for number in range(3)]
        facility.archive(paths, wait_s=WAIT_S)
        facility.evict(paths)
        assert all(facility.stat(path)["state"] == "nearline" for path in paths)
        # BP_NOTEBOOK_PICTURE keeps the picture for the documentation.
        picture = os.environ.get("BP_NOTEBOOK_PICTURE", "")
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(NOTEBOOK), *filter(None, [picture])],
            env=os.environ | {"BP_FACILITY": str(tmp_path / "facility"), "IPYTHONDIR": str(tmp_path / "ipython")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert abs(found["mass"] - PEAK) < 5 * found["error"] + 0.05
        assert 2 < found["width"] < 3
        assert facility.ntuple("/data/z/peak.parquet").entries == found["written"] > 10_000


def test_the_notebook_has_no_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 7
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
