"""Bad input to the batch service, and faults of jobs and clocks, that no other file has: each ends in a defined state.

Others: `test_batch.py` (ends, limits, shepherds), `test_job_ends.py` (memory, what cannot be executed, outputs),
`test_worker_jobs.py` (arguments, sessions, signals, a gigabyte), `test_jobs_identity.py` (forged ends, a full disk),
`test_queues.py` (what no worker has), `test_roles.py` (a worker's host that dies, or is turned away).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clients import DEADLINE, run
from conftest import MakeFacility
from facility import Facility, binaries
from test_batch import SHELL, Gate, ended, gate, wait_begun  # noqa: F401
from test_clocks import HOUR, Clock


def test_an_unknown_queue_is_named_with_the_next_step(facility: Facility) -> None:
    refused = facility.bp_fails("submit", "--queue", "nowhere", "--", "/bin/true")
    assert "nowhere" in refused.err
    assert "bp queue" in refused.err
    assert facility.bp_json("jobs", "-a")["jobs"] == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("#BP --nonsense", "nonsense"),
        ("#BP --cpus=many", "many"),
        ("#BP --wall", "wall"),
        ("#BP 'unclosed", "is not closed"),
    ],
)
def test_a_malformed_directive_is_named(facility: Facility, tmp_path: Path, line: str, word: str) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{line}\n/bin/true\n")
    refused = facility.bp_fails("submit", "--script", script)
    assert word in refused.err
    assert facility.bp_json("jobs", "-a")["jobs"] == []


@pytest.mark.parametrize(
    ("program", "line", "word"),
    [
        ("sbatch", "#SBATCH --cpus-per-task=many", "many"),
        ("sbatch", "#SBATCH --time=soon", "--time"),
        ("sbatch", "#SBATCH 'unclosed", "is not closed"),
        ("qsub", "#PBS -l walltime=soon", "soon"),
        ("qsub", "#PBS -p high", "high"),
    ],
)
def test_a_malformed_directive_of_others_is_named(
    facility: Facility, tmp_path: Path, program: str, line: str, word: str
) -> None:
    facility.bp("shims", str(tmp_path / "bin"))
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{line}\n/bin/true\n")
    refused = run(
        str(tmp_path / "bin" / program), script, env={"BP_FACILITY": str(facility.directory)}, cwd=tmp_path, check=False
    )
    assert refused.code != 0
    assert word in refused.err
    assert facility.bp_json("jobs", "-a")["jobs"] == []


def test_a_command_gets_its_arguments_as_they_are(facility: Facility) -> None:
    arguments = ["two words", "", "a\nb", "'\"$x*;|&", "ü", "--", "-n"]
    info = ended(facility, "--", "/usr/bin/printf", "%s|", *arguments)
    assert info["state"] == "done", info
    assert facility.bp("log", str(info["id"])).out.rstrip("\n") == "".join(f"{word}|" for word in arguments)


def test_a_job_that_closes_its_files_ends_as_it_says(facility: Facility) -> None:
    script = "exec 0<&- 1>&- 2>&-; for file in /proc/self/fd/*; do :; done; exit 5"
    assert ended(facility, "--", *SHELL, script)["exit"] == {"code": 5}


def test_an_end_by_a_signal_is_told_as_such_and_as_a_shell_does(facility: Facility) -> None:
    done = facility.bp("run", "--", *SHELL, "kill -SEGV $$", check=False)
    assert done.code == 128 + 11
    assert "signal 11" in done.err
    assert facility.job(1)["exit"] == {"signal": 11}


def test_a_clock_that_is_set_ends_no_job_and_forgives_none(
    make_facility: MakeFacility,
    tmp_path: Path,
    gate: Gate,  # noqa: F811
) -> None:
    """Only the calendar of the daemon jumps; limits are spans, and go on."""
    clock = Clock(tmp_path / "clock")
    made = make_facility(cpus=2)
    made.expect_log("clock stepped")
    made.environment.update(clock.environment)
    made.up()
    goes_on = made.submit("--wall", "1h", "--", *SHELL, f"read line <{gate.path}; exit 4")
    wait_begun(made, goes_on)
    clock.set(48 * HOUR)
    made.wait_until("the head has seen it", lambda: made.log.read_text().count("clock stepped") == 1)
    assert made.job(goes_on)["state"] == "running", "its limit is an hour that it ran, not one of the calendar"
    assert ended(made, "--wall", "1s", "--", "/bin/sleep", "1000")["exit"] == "wall_limit"
    clock.set(-48 * HOUR)
    made.wait_until("and again", lambda: made.log.read_text().count("clock stepped") == 2)
    assert ended(made, "--wall", "1s", "--", "/bin/sleep", "1000")["exit"] == "wall_limit"
    gate.open()
    assert made.wait_job(goes_on)["exit"] == {"code": 4}


def test_a_script_from_standard_input_may_be_anything(facility: Facility) -> None:
    words = [binaries() / "bp", "--facility", facility.directory, "submit", "--script", "-"]
    for text in (b"", b"\x00\xff\xfe", b"exit 6\n", b"#!/nowhere/at/all\n"):
        done = subprocess.run(words, input=text, capture_output=True, timeout=DEADLINE, check=False)
        if done.returncode != 0:
            assert b"error: " in done.stderr
            continue
        info = facility.wait_job(int(done.stdout))
        assert info["state"] in ("done", "failed")
        assert info["state"] == "done" or info["reason"], "a failure has a reason"
    last = facility.bp_json("jobs", "-a")["jobs"][0]
    assert last["state"] == "failed"
    assert "/nowhere/at/all" in last["reason"]
