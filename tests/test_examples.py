"""The programs and configurations of `examples/`: what a newcomer copies has to work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clients import Outcome, run
from conftest import SMALL, MakeFacility
from facility import OWNER, Facility, binaries
from kit import lay_out

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def facility(make_facility: MakeFacility) -> Facility:
    """Start a facility."""
    made = make_facility(**SMALL)
    made.up()
    return made


def example(facility: Facility, *words: str | Path) -> Outcome:
    """Run a program as its reader does: `bp` on the search path, the facility named by the environment."""
    path = f"{binaries()}:/usr/local/bin:/usr/bin:/bin"
    env = {"PATH": path, "LD_LIBRARY_PATH": str(binaries()), "BP_FACILITY": str(facility.directory), "USER": OWNER}
    return run(*words, env=env)


def test_a_job_array_has_an_output_for_each_file(facility: Facility) -> None:
    facility.put_bytes(b"one\n", "/runs/a")
    facility.put_bytes(b"one\ntwo\n", "/runs/b")
    example(facility, EXAMPLES / "job-array.sh", "/runs", "/counts", "--", "wc", "-l")
    assert facility.read("/counts/a.out").split() == [b"1", b"a"]
    assert facility.read("/counts/b.out").split() == [b"2", b"b"]


def test_a_histogram_is_filled_over_a_chain(facility: Facility, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("backplane")
    for number in (1, 2):
        local = tmp_path / f"run{number}.parquet"
        parquet.write_table(arrow.table({"pt": [5.0, 15.0, 15.5, 95.0], "q": [1, 1, -1, 1]}), local)
        facility.put(local, f"/z/run{number}.parquet")
    out = example(facility, sys.executable, EXAMPLES / "histogram.py", "/z/run*.parquet", "pt", "--cut", "q > 0").out
    counts = [int(line.split()[2]) for line in out.splitlines()]
    assert counts == [2, 2, 0, 0, 0, 0, 0, 0, 0, 2]


def test_a_c_program_counts_lines_everywhere(facility: Facility, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    program = lay_out(tmp_path / "kit").c(EXAMPLES / "line-count.c")
    local = tmp_path / "notes"
    local.write_bytes(b"x\n" * 1000)
    facility.put(local, "/notes")
    places = [str(local), "bp:/notes", facility.url("/notes")]
    assert example(facility, program, *places).out == "".join(f"1000 {place}\n" for place in places)


def test_a_facility_runs_with_the_configuration_for_one_host(make_facility: MakeFacility) -> None:
    facility = make_facility(volumes=20, slots=24, volume_size="100GiB")
    # Ports are free ones here; the disk of this host may be small, so its reserve is.
    text = (EXAMPLES / "one-host" / "facility.toml").read_text().replace('reserve = "20GiB"', 'reserve = "1MiB"')
    (facility.directory / "facility.toml").write_text(text)
    facility.up()
    facility.put_bytes(b"x", "/x")
    assert facility.read("/x") == b"x"
    assert len(facility.status()["volumes"]) == 20
