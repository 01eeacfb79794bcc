"""What a worker does for jobs: processors of their own, scripts, files on its host, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clients import DEADLINE, run
from facility import Facility, Json, binaries
from test_batch import SHELL, Gate, wait_begun

PROCESSORS = "grep Cpus_allowed_list /proc/self/status"


def processors(facility: Facility, job: int) -> set[int]:
    """Return the processors that a job has printed by `PROCESSORS`."""
    facility.wait_until(f"job {job} has printed", lambda: "\t" in facility.bp("log", str(job)).text)
    found: set[int] = set()
    for part in facility.bp("log", str(job)).text.split("\t")[1].strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor only")
def test_two_jobs_on_two_processors_do_not_share_one(facility: Facility, shared: Path) -> None:
    gate = Gate(shared / "gate")
    jobs = [facility.submit("--", *SHELL, f"{PROCESSORS}; read line <{gate.path}") for _ in range(2)]
    for job in jobs:
        wait_begun(facility, job)
    first, second = (processors(facility, job) for job in jobs)
    assert (len(first), len(second)) == (1, 1)
    assert first != second
    gate.open(2)
    for job in jobs:
        assert facility.wait_job(job)["state"] == "done"
    gate.close()


def test_a_job_that_asks_for_all_processors_has_them(facility: Facility) -> None:
    count = len(os.sched_getaffinity(0))
    job = facility.submit("--cpus", str(count), "--", *SHELL, PROCESSORS)
    assert facility.wait_job(job)["state"] == "done"
    assert processors(facility, job) == os.sched_getaffinity(0)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor only")
def test_a_job_cannot_take_other_processors_where_a_group_holds_it(facility: Facility) -> None:
    take = f"import os; os.sched_setaffinity(0, {os.sched_getaffinity(0)}); print(len(os.sched_getaffinity(0)))"
    job = facility.submit("--", sys.executable, "-c", take)
    info = facility.wait_job(job)
    assert info["state"] == "done", info
    if any(limit.startswith("cpus") for limit in info.get("not_enforced", [])):
        pytest.skip("this host lets nobody make cpuset groups")
    assert facility.bp("log", str(job)).out == "1\n"


def submit(facility: Facility, **spec: object) -> int:
    """Submit a job by its specification."""
    return int(facility.call("submit", spec={"name": "job", **spec})["job"])


def ended(facility: Facility, **spec: object) -> Json:
    """Submit a job by its specification and wait for its end."""
    return facility.wait_job(submit(facility, **spec))


@pytest.mark.parametrize("first_line", ["", "#!/bin/sh\n", f"#!{sys.executable}\n"])
def test_a_script_gets_its_arguments_as_they_are(facility: Facility, first_line: str) -> None:
    arguments = ["two words", "", "a\nb", "'\"$x*", "ü"]
    shell = "printf '%s|' \"$@\"\n"
    text = "import sys\nfor word in sys.argv[1:]: print(word, end='|')\n" if "python" in first_line else shell
    info = ended(facility, script=first_line + text, command=arguments)
    assert info["state"] == "done", info
    assert facility.bp("log", str(info["id"])).out.rstrip("\n") == "".join(f"{word}|" for word in arguments)


def test_a_job_prints_to_files_of_the_host_in_its_working_directory(facility: Facility, tmp_path: Path) -> None:
    script = "echo out; echo err >&2; pwd >here\n"
    info = ended(facility, script=script, directory=str(tmp_path), stdout="%x-%j.out", command=[])
    assert info["state"] == "done", info
    assert (tmp_path / f"job-{info['id']}.out").read_text() == "out\nerr\n"
    assert (tmp_path / "here").read_text() == f"{tmp_path}\n"
    assert facility.bp("log", str(info["id"])).out == "out\nerr\n"


def test_a_file_without_a_directory_is_said_before_anything_runs(facility: Facility, shared: Path) -> None:
    info = ended(facility, script=f"touch {shared}/ran", stdout=str(shared / "missing" / "out"), command=[])
    assert info["state"] == "failed"
    assert f"{shared}/missing/out" in info["reason"]
    assert not (shared / "ran").exists()


def test_grandchildren_in_sessions_of_their_own_end_with_the_job(facility: Facility) -> None:
    # Nobody else sleeps for so long.
    mark = f"sleep 1000.{os.getpid()}"
    info = ended(facility, script=f"(setsid {mark} &) & {mark} & sleep 0.2\n", command=[])
    assert info["state"] == "done", info
    left = subprocess.run(["pgrep", "-f", mark], capture_output=True, check=False)
    assert left.returncode == 1, left.stdout


def test_who_ignores_the_signal_to_end_is_killed(facility: Facility) -> None:
    info = ended(
        facility,
        script="trap '' TERM\nwhile :; do sleep 1; done\n",
        command=[],
        resources={"cpus": 1, "memory_bytes": 0, "wall": 500},
    )
    assert info["state"] == "failed"
    assert info["exit"] == "wall_limit"


def test_who_prints_a_gigabyte_is_ended_by_its_limit(facility: Facility) -> None:
    info = ended(facility, command=["/bin/sh", "-c", "exec head -c 1073741824 /dev/zero"])
    assert info["state"] == "failed"
    assert "standard output" in info["reason"]


def test_a_drained_worker_gets_no_jobs(facility: Facility) -> None:
    facility.wait_until(
        "the worker has asked for jobs", lambda: any(one["load"] for one in facility.status()["workers"])
    )
    (worker,) = facility.bp_json("worker", "list")
    assert not worker["is_draining"]
    assert worker["load"]["scratch_free_bytes"] > 0
    facility.bp("worker", "drain", worker["name"])
    job = submit(facility, command=["/bin/true"])
    assert facility.bp("worker", "list").text.count("drained") == 1
    assert facility.job(job)["state"] == "queued"
    facility.bp("worker", "resume", worker["name"])
    assert facility.wait_job(job)["state"] == "done"
    assert "no worker" in facility.bp_fails("worker", "drain", "other").text


def test_a_program_runs_as_a_job_as_if_it_ran_here(facility: Facility, tmp_path: Path) -> None:
    done = facility.bp("run", "--", *SHELL, "echo out; echo err >&2; exit 3", check=False)
    assert (done.code, done.out) == (3, "out\n")
    assert "err" in done.err
    words = ("--facility", str(facility.directory), "run", "--here", "--", *SHELL, "pwd; echo $FROM_HERE")
    here = run(str(binaries() / "bp"), *words, cwd=tmp_path, env={"FROM_HERE": "mine"})
    assert here.out == f"{tmp_path}\nmine\n"


@pytest.mark.parametrize("times", [1, 2])
def test_who_interrupts_a_program_cancels_its_job(facility: Facility, shared: Path, times: int) -> None:
    begun = shared / "begun"
    os.mkfifo(begun)
    # The first interrupt is ignored by the program, so that there is a moment for the second.
    script = f"trap '' TERM; echo >{begun}; exec /bin/sleep 1000"
    words = [binaries() / "bp", "--facility", facility.directory, "run", "--", *SHELL, script]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as program:
        with begun.open() as pipe:
            pipe.readline()
        for _ in range(times):
            program.send_signal(signal.SIGINT)
            facility.wait_until("its job is being ended", lambda: is_cancelled(facility, 1))
        assert program.wait(DEADLINE) == 130
    assert facility.wait_job(1)["state"] == "cancelled"


def is_cancelled(facility: Facility, job: int) -> bool:
    """Tell whether somebody has cancelled a job."""
    info = facility.job(job)
    return info["state"] == "cancelled" or "is being ended" in str(info.get("reason"))


def test_top_shows_who_runs_what(facility: Facility, shared: Path) -> None:
    gate = shared / "gate"
    os.mkfifo(gate)
    job = facility.submit("--name", "longest", "--", "/bin/cat", gate)
    facility.wait_until("it runs", lambda: facility.job(job)["state"] == "running")
    text = facility.bp("top").out
    assert "1 job running" in text
    assert "longest" in text
    seen = [json.loads(line) for line in facility.bp("--json", "top", "-n", "2", "--every", "200ms").out.splitlines()]
    assert [[one["id"] for one in look["running"]] for look in seen] == [[job], [job]]
    facility.bp("cancel", str(job))
