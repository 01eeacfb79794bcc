"""The benchmark runs, says what it found, and finds nothing broken. No speed is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clients import DEADLINE, missing
from facility import binaries

ROOT = Path(__file__).resolve().parent.parent
CASES = ["download", "upload", "random.64", "readv", "stat.64", "open.*", "block.64KiB", "block.1MiB", "streams.[28]"]
TABLE_WIDTH = 110


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the benchmark on our own server alone, as briefly as it can."""
    bin_directory = binaries()
    if not (bin_directory / "rfio-load").exists():
        missing(f"rfio-load in {bin_directory}")
    out = tmp_path_factory.mktemp("results")
    brevity = ["--quick", "--size=8", "--runs=2", "--seconds=0.05", "--systems=backplane"]
    cases = [f"--cases={case}" for case in CASES]
    command = [sys.executable, "-m", "bench.rfio", *brevity, *cases, f"--bin={bin_directory}", f"--out={out}"]
    environment = {**os.environ, "PYTHONWARNINGS": "error", "XROOTD6": ""}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2 * DEADLINE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def document(results: Path) -> dict[str, Any]:
    """Read what it wrote."""
    (file,) = results.glob("rfio-*.json")
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def test_every_run_of_our_own_succeeds(document: dict[str, Any]) -> None:
    contenders = [one for case in document["cases"] for one in case["contenders"]]
    assert [one["failed"] for one in contenders if one["failed"]] == []
    ours = [one for one in contenders if one["name"] in ("load>backplane", "bp>backplane")]
    assert len(ours) == len(document["cases"])
    for one in ours:
        assert one["missing"] == ""
        assert len(one["runs"]) == document["options"]["runs"]
        assert one["rate"] > 0
        assert all(run["server_cpu_s"] >= 0 and run["memory"]["resident"] > 0 for run in one["runs"])


def test_a_missing_peer_is_named_and_not_left_out(document: dict[str, Any]) -> None:
    (download,) = [case for case in document["cases"] if case["name"] == "download"]
    (new,) = [one for one in download["contenders"] if one["name"] == "xrdcp6>backplane"]
    assert "XROOTD6" in new["missing"]
    assert new["runs"] == []


def test_targets_are_judged_or_said_not_to_be(document: dict[str, Any]) -> None:
    verdicts = {target["verdict"] for target in document["targets"]}
    assert verdicts == {"not measured"}, "without peers no ratio can be known"
    assert all(target["why"] for target in document["targets"])


def test_tables_fit_and_plots_are_drawn(results: Path) -> None:
    (report,) = results.glob("rfio-*.md")
    tables = [line for line in report.read_text().splitlines() if line.startswith("|")]
    assert len(tables) > 30
    assert [line for line in tables if len(line) > TABLE_WIDTH] == []
    for plot in ("block", "streams"):
        assert {file.suffix for file in results.glob(f"rfio-*-{plot}.*")} == {".png", ".svg"}


def test_the_head_is_measured_on_both_engines(tmp_path: Path) -> None:
    bin_directory = binaries()
    if not (bin_directory / "head-load").exists():
        missing(f"head-load in {bin_directory}")
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        missing("postgresql")
    # Not below a directory that only we may enter: the database server is another user.
    brevity = ["--runs=1", "--seconds=0.05", "--files=2000", "--disk=/tmp"]
    command = [sys.executable, "-m", "bench.head", *brevity, f"--bin={bin_directory}", f"--out={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = tmp_path.glob("head-*.json")
    cases = json.loads(file.read_text())
    assert all(set(engines) == {"sqlite", "postgresql"} for engines in cases.values())
    runs = [run for engines in cases.values() for runs in engines.values() for run in runs]
    assert all(run["operations"] > 0 for run in runs)
    (report,) = tmp_path.glob("head-*.md")
    assert [line for line in report.read_text().splitlines() if len(line) > TABLE_WIDTH] == []


def test_jobs_a_second_are_measured_and_peers_that_are_missing_are_named(tmp_path: Path) -> None:
    out = tmp_path / "batch"
    brevity = ["--jobs=20", "--slurm-jobs=4", "--waiting=1000", "--runs=1", "--place=/tmp"]
    command = [sys.executable, "-m", "bench.batch", *brevity, f"--bin={binaries()}", f"--out={out}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.with_suffix(".json").read_text())
    figures = {one["name"]: one for one in result["figures"]}
    assert {"Backplane, one by one", "Backplane, an array", "xargs -P", "GNU parallel"} < set(figures)
    assert all(bool(one["jobs_s"]) != bool(one["missing"]) for one in figures.values())
    assert figures["Backplane, an array"]["jobs_s"] > 0
    assert result["waiting"]["jobs"] == 1000
    lines = out.with_suffix(".md").read_text().splitlines()
    assert any(line.startswith("| Backplane, one by one | 20 |") for line in lines)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--server=127.0.0.1:1", "--path=/f", "seq", "1MiB", "0"], "depth 0"),
        (["--server=127.0.0.1:1", "--path=/f", "stat"], "without an end"),
        (["--server=127.0.0.1:1", "--path=/f", "--sessions=2", "write", "4KiB", "1", "8KiB"], "the same file"),
    ],
)
def test_the_generator_refuses_what_makes_no_sense(words: list[str], says: str) -> None:
    program = binaries() / "rfio-load"
    if not program.exists():
        missing(str(program))
    done = subprocess.run([program, "run", *words], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert "hint: " in done.stderr
