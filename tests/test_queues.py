"""Queues, arrays, dependencies and holds, as users and operators meet them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from facility import Facility
from test_batch import Gate, wait_begun, wait_state

SHELL = ("/bin/sh", "-c")


@pytest.fixture
def gate(shared: Path) -> Iterator[Gate]:
    """Make a gate that keeps jobs running until it is opened."""
    made = Gate(shared / "gate")
    yield made
    made.close()


def submit(facility: Facility, *words: str | Path) -> int:
    """Submit a job; yields its number."""
    return int(facility.bp("submit", *words).out)


def states(facility: Facility, array: int) -> dict[str, int]:
    """Say how many elements of an array are in each state."""
    entry = facility.bp_json("jobs", "--all", str(array))["jobs"][0]
    counts: dict[str, int] = entry["elements"]["states"]
    return counts


def test_an_array_runs_two_at_a_time(facility: Facility, gate: Gate) -> None:
    array = submit(facility, "--array", "1-6%1", "--", *SHELL, f"read line <{gate.path}")
    wait_begun(facility, array)
    assert states(facility, array) == {"running": 1, "queued": 5}
    assert "of its array may run" in facility.bp("why", str(array + 1)).out
    facility.bp("alter", f"{array}_2", "--running-max", "2")
    facility.wait_until("two run", lambda: states(facility, array) == {"running": 2, "queued": 4})
    gate.open(6)
    assert facility.bp("jobs", "--wait", str(array)).code == 0
    assert states(facility, array) == {"done": 6}
    line = facility.bp("jobs", "--all").out
    assert "6 elements: 6 done" in line
    assert f"{array}_3" in facility.bp("jobs", "--all", "--elements").out


def test_outputs_of_an_array_have_names_of_their_own(facility: Facility) -> None:
    refused = facility.bp_fails("submit", "--array", "1-2", "--output", "o:/o", "--", *SHELL, "echo >o")
    assert "%a" in refused.err
    facility.bp("submit", "--wait", "--array", "4-5", "--output", "o:/o_%a", "--", *SHELL, "echo hello >o")
    assert facility.bp("ls", "/").out.split() == ["o_4", "o_5"]


def test_a_chain_of_jobs(facility: Facility) -> None:
    first = submit(facility, "--hold", "--", "true")
    second = submit(facility, "--after", f"ok:{first}", "--", "false")
    third = submit(facility, "--after", f"ok:{second}", "--", "true")
    cleaner = submit(facility, "--after", f"notok:{second}", "--", "true")
    assert "held by its user" in facility.bp("why", str(first)).out
    assert f"job {first} has ended well" in facility.bp("why", str(second)).out
    facility.bp("release", str(first))
    wait_state(facility, cleaner, "done")
    assert [facility.job(job)["state"] for job in (first, second, third)] == ["done", "failed", "held"]
    assert facility.job(third)["waits_for"] == "dependency_never_satisfied"
    facility.bp("cancel", str(third))


def test_operators_stop_disable_and_limit_queues(facility: Facility) -> None:
    facility.bp("queue", "add", "short", "--wall-max", "1h", "--user-run-limit", "1", "--priority", "10")
    facility.bp("queue", "stop", "short")
    job = submit(facility, "--queue", "short", "--", "true")
    assert facility.job(job)["spec"]["resources"]["wall"] == 3_600_000
    assert "queue short is stopped" in facility.bp("why", str(job)).out
    too_long = facility.bp_fails("submit", "--queue", "short", "--wall", "2h", "--", "true")
    assert "queue short gives" in too_long.err
    facility.bp("queue", "disable", "short")
    assert "queue short is disabled" in facility.bp_fails("submit", "--queue", "short", "--", "true").err
    assert "the queues are batch, short" in facility.bp_fails("submit", "--queue", "nowhere", "--", "true").err
    other = submit(facility, "--", "true")
    wait_state(facility, other, "done")
    assert facility.job(job)["state"] == "queued"
    facility.bp("queue", "start", "short")
    wait_state(facility, job, "done")
    facility.bp("queue", "remove", "short")
    assert "short" not in facility.bp("queue", "list").out


def test_a_pipe_queue_routes_and_jobs_move(facility: Facility) -> None:
    for name in ("one", "two"):
        facility.bp("queue", "add", name)
        facility.bp("queue", "stop", name)
    facility.bp("queue", "add", "any", "--to", "one,two")
    jobs = [submit(facility, "--queue", "any", "--", "true") for _ in range(4)]
    assert [facility.job(job)["queue"] for job in jobs] == ["one", "two", "one", "two"]
    facility.bp("move", str(jobs[0]), str(jobs[1]), "batch")
    for job in jobs[:2]:
        wait_state(facility, job, "done")
    assert [facility.job(job)["state"] for job in jobs[2:]] == ["queued", "queued"]


def test_the_same_key_after_a_kill_is_the_same_job(facility: Facility) -> None:
    words = ("--key", "analysis-7", "--array", "1-3", "--hold", "--", "true")
    first = submit(facility, *words)
    facility.kill()
    facility.up()
    assert submit(facility, *words) == first
    assert states(facility, first) == {"held": 3}
    assert facility.bp("release", f"{first}_[1-2]").code == 0
    facility.wait_until("two are done", lambda: states(facility, first) == {"done": 2, "held": 1})


def test_a_failed_job_is_tried_again(facility: Facility, shared: Path) -> None:
    shared.chmod(0o777)
    mark = shared / "mark"
    job = submit(facility, "--retries", "2", "--", *SHELL, f"test -e {mark} || {{ touch {mark}; exit 5; }}")
    facility.wait_until("it failed once", lambda: facility.job(job).get("waits_for") == "retry")
    assert "tried again in" in facility.bp("why", str(job)).out
    facility.bp("alter", str(job), "--begin", "now")
    wait_state(facility, job, "done")
    assert facility.job(job)["attempt"] == 2


def test_what_no_worker_has_names_the_nearest(facility: Facility) -> None:
    facility.bp("submit", "--wait", "--", "true")  # the worker is there
    refused = facility.bp_fails("submit", "--cpus", "99", "--", "true")
    assert "the nearest is" in refused.err
