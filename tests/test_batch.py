"""Jobs: held, run, ended, archived, and told apart."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import DEADLINE, until
from conftest import MakeFacility
from facility import Facility, Json, kill_and_wait

SHELL = ("/bin/sh", "-c")


class Gate:
    """Keeps a job running until it is opened: the job reads from a pipe with a name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        # For reading and writing: neither side ever blocks in its open.
        self._pipe = os.open(path, os.O_RDWR)

    def open(self, jobs: int = 1) -> None:
        """Let jobs go on."""
        os.write(self._pipe, b"go\n" * jobs)

    def is_unread(self) -> bool:
        """Tell whether nobody has taken what was written."""
        return bool(select.select([self._pipe], [], [], 0)[0])

    def close(self) -> None:
        """Give the pipe back."""
        os.close(self._pipe)


@pytest.fixture
def gate(shared: Path) -> Iterator[Gate]:
    """Make a gate."""
    made = Gate(shared / "gate")
    yield made
    made.close()


def wait_state(facility: Facility, job: int, state: str) -> None:
    """Wait until a job is in a state."""
    facility.wait_until(f"job {job} is {state}", lambda: facility.job(job)["state"] == state)


def wait_begun(facility: Facility, job: int) -> None:
    """Wait until the process of a job runs."""
    facility.wait_until(
        f"job {job} has begun",
        lambda: facility.job(job)["state"] == "running" and not facility.job(job).get("reason"),
    )


def ended(facility: Facility, *words: str | Path) -> Json:
    """Submit a job and wait for its end."""
    return facility.wait_job(facility.submit(*words))


# Ends


@pytest.mark.parametrize("code", [0, 1, 3, 42, 127, 255])
def test_exit_codes(facility: Facility, code: int) -> None:
    job = facility.bp("submit", "--wait", "--", *SHELL, f"exit {code}", check=False)
    assert job.code == code
    info = facility.job(1)
    assert info["exit"] == {"code": code}
    assert info["state"] == ("done" if code == 0 else "failed")
    assert info.get("reason") == (None if code == 0 else f"exit code {code}")


@pytest.mark.parametrize("signal", [6, 9, 11, 15])
def test_signals(facility: Facility, signal: int) -> None:
    info = ended(facility, "--", *SHELL, f"kill -{signal} $$")
    assert (info["state"], info["exit"]) == ("failed", {"signal": signal})
    assert info["reason"] == f"ended by signal {signal}"


def test_a_program_that_is_not_there(facility: Facility) -> None:
    info = ended(facility, "--", "/no/such/program")
    assert info["state"] == "failed"
    assert "not_started" in info["exit"]
    assert "/no/such/program" in info["reason"]


def test_the_wall_limit(facility: Facility, gate: Gate) -> None:
    info = ended(facility, "--wall", "1s", "--", "/bin/cat", gate.path)
    assert (info["state"], info["exit"]) == ("failed", "wall_limit")
    assert "wall time limit" in info["reason"]
    assert 1000 <= info["usage"]["wall"] < 30_000


def test_open_files_are_many_for_the_daemon_and_as_usual_for_jobs(facility: Facility) -> None:
    found = re.search(r"Max open files +(\d+) +(\d+)", Path(f"/proc/{facility.pid}/limits").read_text())
    assert found
    assert found[1] == found[2]
    job = facility.submit("--", *SHELL, "ulimit -Sn")
    assert facility.wait_job(job)["state"] == "done"
    assert int(facility.bp("log", str(job)).out) == min(1024, int(found[2]))


def test_the_whole_tree_ends_with_the_job(facility: Facility, gate: Gate, shared: Path) -> None:
    note = shared / "pid"
    job = facility.submit("--", *SHELL, f"/bin/cat {gate.path} & echo $! > {note}; exit 5")
    assert facility.wait_job(job)["exit"] == {"code": 5}
    gate.open()
    assert gate.is_unread(), "a child outlives its job"


def test_cancel(facility: Facility, gate: Gate) -> None:
    running = facility.submit("--cpus", "2", "--", "/bin/cat", gate.path)
    queued = facility.submit("--", "/bin/true")
    wait_begun(facility, running)
    facility.bp("cancel", str(queued))
    assert facility.wait_job(queued)["state"] == "cancelled"
    facility.bp("cancel", str(running))
    info = facility.wait_job(running)
    assert (info["state"], info["exit"]) == ("cancelled", "cancelled")
    assert facility.bp_fails("cancel", "99").code == 3
    assert facility.status()["workers"][0]["cpus_used"] == 0


def test_the_log(facility: Facility) -> None:
    facility.bp("submit", "--wait", "--", *SHELL, "echo out; echo err >&2; head -c 900000 /dev/zero | tr '\\0' x")
    log = facility.bp("log", "1")
    assert log.out.startswith("out\nxxx")
    assert log.out.endswith("x" * 1000)
    assert "bytes are left out here" in log.out
    assert 64 << 10 < len(log.out) <= 300 << 10
    assert log.err == "err\n"
    assert facility.bp_fails("log", "99").code == 3


def test_the_log_of_a_job_that_runs(facility: Facility, gate: Gate) -> None:
    script = f"echo early; echo err >&2; read x < {gate.path}; echo late"
    job = facility.submit("--", "/bin/sh", "-c", script)
    wait_begun(facility, job)
    facility.wait_until("it has printed", lambda: "early\n" in facility.bp("log", str(job)).out)
    log = facility.bp("log", str(job))
    assert (log.out, log.err) == ("early\n", "err\n")
    words = [facility.bin / "bp", "-f", facility.directory, "log", "-f", str(job)]
    follower = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    assert follower.stdout.readline() == "early\n"
    gate.open()
    out, err = follower.communicate(timeout=DEADLINE)
    assert (out, err, follower.returncode) == ("late\n", "err\n", 0)
    # What is over is shown as it is kept.
    assert facility.bp("log", "--follow", str(job)).out == "early\nlate\n"


def test_a_job_that_prints_a_lot_is_followed_with_gaps_that_are_told(facility: Facility, gate: Gate) -> None:
    script = f"yes 0123456 | head -c {3 << 20}; echo >&2; read x < {gate.path}; echo end"
    job = facility.submit("--", "/bin/sh", "-c", script)
    wait_begun(facility, job)
    facility.wait_until("it has printed", lambda: facility.bp("log", str(job)).err.endswith("]\n\n"))
    log = facility.bp("log", str(job))
    assert 1 << 19 < len(log.out) <= 1 << 20
    assert "omitted]" in log.err
    gate.open()
    facility.wait_job(job)


def test_only_its_owner_follows_a_job(facility: Facility, gate: Gate) -> None:
    job = facility.submit("--", "/bin/sh", "-c", f"read x < {gate.path}")
    wait_begun(facility, job)
    assert facility.bp_fails("--user", "eve", "log", "-f", str(job)).code == 5
    assert facility.bp_fails("log", "-f", "99").code == 3
    gate.open()
    facility.wait_job(job)


def test_outputs_are_directories_and_what_matches_a_pattern(facility: Facility) -> None:
    script = (
        "mkdir -p plots/deep; echo 1 >plots/a; echo 2 >plots/deep/b; "
        "for n in run1 run2 run7 .run3; do echo $n >$n.root; done"
    )
    outputs = ["plots/:/out/plots", "run[1-5].root:/out", "run[7]*:/out/others"]
    words = [word for output in outputs for word in ("--output", output)]
    info = ended(facility, *words, "--", "/bin/sh", "-c", script)
    assert info["state"] == "done", info
    found = [line.split()[-1] for line in facility.bp("find", "--type", "f", "/out").out.splitlines()]
    assert sorted(found) == [
        "/out/others/run7.root", "/out/plots/a", "/out/plots/deep/b", "/out/run1.root", "/out/run2.root",
    ]  # fmt: skip
    assert facility.read("/out/plots/deep/b") == b"2\n"
    # In paths of commands patterns mean the same.
    assert facility.bp("cat", "/out/run[!1].root").out == "run2\n"
    nothing = ended(facility, "--output", "run[8-9]*:/out", "--", "/bin/true")
    assert nothing["state"] == "failed"
    assert "matches output" in nothing["reason"]


def test_the_environment(facility: Facility, sample: Path) -> None:
    facility.put(sample, "/in")
    script = (
        'echo "$GREETING $BP_JOB_ID $BP_FACILITY $BP_CPUS $(pwd) $BP_SCRATCH $HOME"; ls; wc -c < given; '
        f"{facility.bin / 'bp'} --json stat /in"
    )
    facility.bp("submit", "--wait", "--env", "GREETING=hallo", "--input", "/in:given", "--", *SHELL, script)
    words = facility.bp("log", "1").out.split()
    assert words[:4] == ["hallo", "1", facility.http, "1"]
    assert words[4] == words[5] == words[6]
    assert words[7:9] == ["given", "1234567"]
    assert json.loads(" ".join(words[9:]))["size"] == 1234567, "the job's client finds the facility"


# Slots


def test_two_slots_and_reasons(facility: Facility, gate: Gate) -> None:
    jobs = [facility.submit("--", *SHELL, f"read go < {gate.path}") for _ in range(3)]
    for job in jobs[:2]:
        wait_begun(facility, job)
    third = facility.job(jobs[2])
    assert third["state"] == "queued"
    assert third["reason"].startswith("waits for 1 of the CPU slots; 2 of 2 busy; no job goes before it; group root")
    gate.open()
    wait_begun(facility, jobs[2])
    gate.open(2)
    assert {facility.wait_job(job)["state"] for job in jobs} == {"done"}
    assert "no worker has 3 CPU slots" in facility.bp_fails("submit", "--cpus", "3", "--", "/bin/true").text


# Files


def test_a_held_job_runs_by_itself(facility: Facility, sample: Path) -> None:
    facility.put(sample, "/in1")
    facility.put(sample, "/in2")
    facility.archive_and_evict("/in1")
    facility.call("set_volume_state", vid="BP0001", state="suspect")
    words = ("--input", "/in1", "--input", "/in2", "--output", "sum:/out/sum", "--archive")
    job = facility.submit(*words, "--", *SHELL, "cat in1 in2 | wc -c > sum")
    held = facility.job(job)
    assert held["state"] == "held"
    assert "1 of 2 inputs are not online; /in1 volume BP0001 is suspect" in held["reason"]
    assert facility.status()["workers"][0]["cpus_used"] == 0, "a held job has no slot"
    facility.call("set_volume_state", vid="BP0001", state="appendable")
    assert facility.wait_job(job)["state"] == "done"
    assert facility.state("/out/sum") == "both", "done means that the outputs are on tape"
    assert facility.read("/out/sum").split() == [b"2469134"]
    # The job's pins are gone.
    facility.bp("evict", "/in1")


def test_inputs_are_pinned_while_the_job_lives(facility: Facility, sample: Path, gate: Gate) -> None:
    facility.put(sample, "/in")
    facility.bp("archive", "--wait", "/in")
    job = facility.submit("--input", "/in", "--", *SHELL, f"read go < {gate.path}")
    assert f"pinned by job {job}" in facility.bp_fails("evict", "/in").text
    gate.open()
    facility.wait_job(job)
    facility.bp("evict", "/in")


def test_outputs_are_archived_before_the_job_is_done(facility: Facility) -> None:
    job = facility.submit("--output", "o:/o", "--archive", "--", *SHELL, "echo result > o")
    states = []

    def is_over() -> bool:
        states.append(facility.job(job)["state"])
        if states[-1] == "done":
            assert facility.state("/o") == "both"
        return states[-1] in ("done", "failed")

    facility.wait_until("the job is over", is_over)
    assert states[-1] == "done"


def test_an_archiving_job_waits_for_tape(make_facility: MakeFacility) -> None:
    facility = make_facility(volumes=1, drives=1)
    facility.up()
    facility.call("set_volume_state", vid="BP0001", state="suspect")
    job = facility.submit("--output", "o:/o", "--archive", "--", *SHELL, "echo result > o")
    wait_state(facility, job, "archiving")
    assert "1 of 1 outputs are not on tape; /o no volume has free space" in facility.job(job)["reason"]
    assert facility.status()["workers"][0]["cpus_used"] == 0
    facility.call("set_volume_state", vid="BP0001", state="blank")
    assert facility.wait_job(job)["state"] == "done"
    assert facility.state("/o") == "both"


def test_a_missing_input_fails_at_once(facility: Facility) -> None:
    refused = facility.bp_fails("submit", "--input", "/missing", "--", "/bin/true")
    assert refused.code == 3
    assert "/missing" in refused.text
    assert facility.bp_json("jobs", "-a")["jobs"] == []


def test_a_missing_output_fails_the_job(facility: Facility) -> None:
    info = ended(facility, "--output", "there:/there", "--output", "missing:/missing", "--", *SHELL, "echo > there")
    assert info["state"] == "failed"
    assert "output_failed" in info["exit"]
    assert "missing" in info["reason"]


def test_a_failed_job_stores_nothing(facility: Facility) -> None:
    info = ended(facility, "--output", "o:/o", "--", *SHELL, "echo partial > o; exit 1")
    assert info["exit"] == {"code": 1}
    assert facility.bp("stat", "/o", check=False).code == 3


@pytest.mark.parametrize("trick", ["ln -s /etc/passwd o", "ln -s ../../../key o", "mkfifo o", "mkdir o"])
def test_an_output_must_be_a_plain_file(facility: Facility, trick: str) -> None:
    info = ended(facility, "--output", "o:/o", "--", *SHELL, trick)
    assert info["state"] == "failed", "what a job links to is not its output"
    assert facility.bp("stat", "/o", check=False).code == 3


@pytest.mark.parametrize(
    "words",
    [
        ("--output", "../o:/o", "--", "/bin/true"),
        ("--input", "/in:../x", "--", "/bin/true"),
        ("--input", "/in:a", "--input", "/in2:a", "--", "/bin/true"),
        ("--cpus", "0", "--", "/bin/true"),
        ("--wall", "0s", "--", "/bin/true"),
        ("--env", "=x", "--", "/bin/true"),
        ("--output", "o:/console", "--", "/bin/true"),
        ("--output", "o:/in/o", "--", "/bin/true"),
        ("--output", "a:/o", "--output", "b:/o", "--", "/bin/true"),
        ("--output", "a:/o", "--output", "b:/o/b", "--", "/bin/true"),
        ("--output", "o:/in", "--", "/bin/true"),
        ("--memory", "64", "--", "/bin/true"),
        ("--name", "x" * 256, "--", "/bin/true"),
        ("--name", "a\nb", "--", "/bin/true"),
        ("--", ""),
    ],
)
def test_jobs_that_make_no_sense_are_refused(facility: Facility, sample: Path, words: tuple[str, ...]) -> None:
    facility.put(sample, "/in")
    facility.put(sample, "/in2")
    facility.bp_fails("submit", *words)
    assert facility.bp_json("jobs", "-a")["jobs"] == []


# Ends of the daemon and of shepherds


def test_a_job_goes_on_while_the_daemon_is_away(make_facility: MakeFacility, gate: Gate, shared: Path) -> None:
    facility = make_facility()
    facility.keep_ports()
    facility.up()
    note = shared / "note"
    script = f"echo begun >> {note}; read go < {gate.path}; echo result > o; exit 0"
    job = facility.submit("--output", "o:/o", "--", *SHELL, script)
    wait_begun(facility, job)
    facility.down()
    facility.up()
    assert facility.job(job)["state"] == "running"
    gate.open()
    info = facility.wait_job(job)
    assert (info["state"], info["exit"], info["attempt"]) == ("done", {"code": 0}, 1)
    assert facility.read("/o") == b"result\n"
    assert note.read_text() == "begun\n"


def test_outputs_are_stored_though_the_doors_have_moved(facility: Facility, gate: Gate) -> None:
    facility.expect_log("copy failed; retrying")
    job = facility.submit("--output", "o:/o", "--", *SHELL, f"read go < {gate.path}; echo result > o")
    wait_begun(facility, job)
    facility.down()
    facility.up()
    gate.open()
    assert facility.wait_job(job, deadline=5)["state"] == "done"


def test_a_job_that_ends_while_the_daemon_is_dead(facility: Facility, gate: Gate, shared: Path) -> None:
    note = shared / "note"
    job = facility.submit("--", *SHELL, f"read go < {gate.path}; echo $$ > {note}; exit 7")
    wait_begun(facility, job)
    started = shepherd_of(facility, job)
    facility.kill()
    gate.open()
    wait_process(started)
    facility.up()
    assert facility.wait_job(job)["exit"] == {"code": 7}


def test_a_killed_shepherd_is_a_lost_job_and_never_a_success(facility: Facility, gate: Gate) -> None:
    facility.expect_log("the shepherd died; the run is lost")
    job = facility.submit("--output", "o:/o", "--", *SHELL, f"echo > o; read go < {gate.path}; exit 0")
    wait_begun(facility, job)
    kill_and_wait(shepherd_of(facility, job))
    info = facility.wait_job(job)
    assert (info["state"], info["exit"]) == ("failed", "lost")
    assert info["attempt"] == 1, "what has begun is not begun again"
    assert facility.bp("stat", "/o", check=False).code == 3


def test_a_shepherd_killed_while_the_daemon_is_dead(facility: Facility, gate: Gate) -> None:
    facility.expect_log("the shepherd died; the run is lost")
    job = facility.submit("--", *SHELL, f"read go < {gate.path}; exit 0")
    wait_begun(facility, job)
    shepherd = shepherd_of(facility, job)
    facility.kill()
    kill_and_wait(shepherd)
    facility.up()
    info = facility.wait_job(job)
    assert (info["state"], info["exit"]) == ("failed", "lost")


def shepherd_of(facility: Facility, job: int) -> int:
    """Find the process that stays with a job."""
    record = facility.directory / "batch" / "runs" / f"{job}.1" / "control" / "started.json"
    # The head is told that a run begins before its shepherd is started.
    until(f"job {job} has a shepherd", record.exists)
    return int(json.loads(record.read_text())["pid"])


def wait_process(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 60)[0], f"process {pid} goes on"
    finally:
        os.close(handle)
