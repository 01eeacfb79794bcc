"""ROOT files through `root://`, read by uproot and fsspec-xrootd."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot

from clients import has_bindings, missing, run
from facility import Facility

ENTRIES = 200_000

READER = """
import json, sys, zlib
import numpy as np, uproot

url, step = sys.argv[1], sys.argv[2]
sums = {}
if step == "whole":
    with uproot.open(url) as file:
        tree = file["events"]
        for name, column in tree.arrays(library="np").items():
            sums[name] = zlib.adler32(np.ascontiguousarray(column).tobytes())
        sums["hist"] = zlib.adler32(file["hist"].values().tobytes())
else:
    for chunk in uproot.iterate({url: "events"}, ["mass"], step_size=7_777, library="np"):
        sums["mass"] = zlib.adler32(chunk["mass"].tobytes(), sums.get("mass", 1))
print(json.dumps(sums))
"""


def columns() -> dict[str, np.ndarray]:
    """Make an n-tuple."""
    rng = np.random.default_rng(1)
    return {
        "run": np.repeat(np.arange(ENTRIES // 1000, dtype=np.int32), 1000),
        "mass": rng.normal(91.2, 2.5, ENTRIES),
        "charge": rng.choice(np.array([-1, 1], dtype=np.int8), ENTRIES),
    }


@pytest.fixture
def root_file(tmp_path: Path) -> Path:
    """Write a ROOT file with a tree of many baskets and a histogram."""
    path, data = tmp_path / "events.root", columns()
    with uproot.recreate(path) as file:
        tree = file.mktree("events", {name: column.dtype for name, column in data.items()})
        for start in range(0, ENTRIES, 20_000):
            tree.extend({name: column[start : start + 20_000] for name, column in data.items()})
        file["hist"] = np.histogram(data["mass"], bins=100, range=(80, 100))
    return path


def read(url: str | Path, step: str) -> dict[str, int]:
    """Read in a process of its own: the client library keeps threads that outlive a test."""
    sums: dict[str, int] = json.loads(run(sys.executable, "-W", "error", "-c", READER, url, step).out)
    return sums


@pytest.mark.parametrize("step", ["whole", "chunks"])
@pytest.mark.parametrize("where", ["online", "nearline"])
def test_columns_are_the_same_by_root(facility: Facility, root_file: Path, step: str, where: str) -> None:
    if not has_bindings(sys.executable):
        missing("the wheel xrootd")
    facility.put(root_file, "/events.root")
    if where == "nearline":
        facility.archive_and_evict("/events.root")
    remote = read(facility.url("/events.root"), step)
    assert remote == read(root_file, step)
    assert remote["mass"]


ALONE = """
import sys

if sys.argv[3] == "alone":
    sys.modules["fsspec_xrootd"] = sys.modules["XRootD"] = None

import backplane, fsspec, uproot

facility = backplane.connect(sys.argv[1])
print(fsspec.get_filesystem_class("root").__module__.partition(".")[0])
with uproot.open(facility.url(sys.argv[2])) as file:
    print(len(file["events"].arrays(["mass"], library="np")["mass"]))
"""


@pytest.mark.parametrize("beside", ["alone", "fsspec-xrootd"])
def test_urls_of_the_package_are_read_without_further_ado(facility: Facility, root_file: Path, beside: str) -> None:
    """With nothing but uproot installed; where fsspec-xrootd is there, it stays what reads `root://`."""
    if beside != "alone" and not has_bindings(sys.executable):
        missing("the wheel xrootd")
    facility.put(root_file, "/events.root")
    words = [sys.executable, "-W", "error", "-c", ALONE, facility.directory, "/events.root", beside]
    reader = "backplane" if beside == "alone" else "fsspec_xrootd"
    assert run(*words).out.split() == [reader, str(ENTRIES)]


def test_columns_are_the_same_by_http(facility: Facility, root_file: Path) -> None:
    facility.put(root_file, "/events.root")
    local = tmp_copy(facility, root_file)
    assert read(local, "whole") == read(root_file, "whole")


def tmp_copy(facility: Facility, beside: Path) -> Path:
    """Copy out through the HTTP door."""
    copy = beside.with_suffix(".copy.root")
    copy.write_bytes(facility.read("/events.root"))
    return copy
