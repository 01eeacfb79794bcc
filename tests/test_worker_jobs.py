"""What a worker does for jobs: processors of their own, scripts, files on its host, signals."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from facility import Facility
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
