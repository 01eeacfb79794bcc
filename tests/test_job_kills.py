"""Submissions under kill -9: none that was acknowledged is lost, and none is there twice.

`BP_ACK_JOBS=500` makes the long form: `make test-job-kills`.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from http.client import HTTPException

import pytest

from clients import DEADLINE
from conftest import MakeFacility
from facility import ApiError, Facility, Json

ACK_JOBS = int(os.environ.get("BP_ACK_JOBS", "60"))

EXPECTED = (
    r"batch::.*(unreachable|retrying)",
    r"cannot tell the shepherd to end .*No such file",
)


def job(command: list[str], **more: object) -> Json:
    """Say what to run, as the management API wants it."""
    return {"command": command, **more}


IS_UP = threading.Event()
"""The daemon answers, as far as the test knows."""


def restart(facility: Facility) -> None:
    """Kill the daemon and start it."""
    IS_UP.clear()
    facility.kill()
    facility.up()
    IS_UP.set()


@dataclass
class Submitter:
    """Submits jobs, each until it is acknowledged: again with the same key where no answer came."""

    facility: Facility
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Numbers of jobs by key."""
    repeated: int = 0

    def submit(self, command: list[str], key: str, **more: object) -> int:
        """Submit one job."""
        while True:
            try:
                reply = self.facility.call("submit", spec=job(command, **more), key=key)
            except ApiError as failure:
                if failure.status != 503:
                    raise
            except (OSError, HTTPException, json.JSONDecodeError):
                self.repeated += 1
            else:
                self.acknowledged[key] = int(reply["job"])
                return self.acknowledged[key]
            assert IS_UP.wait(DEADLINE), "the daemon comes back"


@pytest.fixture
def site(make_facility: MakeFacility) -> Facility:
    """Make a facility that comes back at the same ports."""
    made = make_facility(cpus=4)
    for pattern in EXPECTED:
        made.expect_log(pattern)
    made.keep_ports()
    made.up()
    IS_UP.set()
    return made


def test_no_acknowledged_submission_is_lost(site: Facility) -> None:
    print(f"\nBP_ACK_JOBS={ACK_JOBS}")
    submitter = Submitter(site)
    at = 0
    while at < ACK_JOBS:
        group = min(5, ACK_JOBS - at)
        for number in range(at, at + group):
            submitter.submit(["/bin/true"], f"ack-{number}", name=f"ack-{number}")
        at += group
        # At once: Slurm loses most of what it acknowledged in the last seconds before such an end.
        restart(site)
    jobs = {entry["id"]: entry for entry in site.call("jobs", limit=ACK_JOBS * 2)["jobs"]}
    lost = [key for key, number in submitter.acknowledged.items() if number not in jobs]
    assert lost == [], f"{len(lost)} of {ACK_JOBS} acknowledged jobs are lost"
    assert {jobs[number]["spec"]["name"] for number in submitter.acknowledged.values()} == set(submitter.acknowledged)
    assert len(jobs) == ACK_JOBS, "the same key never makes a second job"


def test_a_submission_is_killed_in_the_middle(site: Facility) -> None:
    """Kill the daemon while calls are under way: each key has one job in the end, whether the answer came or not."""
    submitters = [Submitter(site) for _ in range(3)]

    def work(number: int) -> None:
        for at in range(max(4, ACK_JOBS // 6)):
            submitters[number].submit(["/bin/true"], f"{number}-{at}", name=f"{number}-{at}")

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        restart(site)
        for thread in threads:
            thread.join(0.3)
    print(f"{sum(one.repeated for one in submitters)} calls without an answer")
    acknowledged = {key: number for one in submitters for key, number in one.acknowledged.items()}
    names = [entry["spec"]["name"] for entry in site.call("jobs", limit=10_000)["jobs"]]
    assert sorted(names) == sorted(acknowledged)
