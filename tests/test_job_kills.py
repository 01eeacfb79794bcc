"""Jobs under kill -9: no acknowledged submission is lost, no job runs twice, and no exit code is invented.

`BP_ACK_JOBS=500` and `BP_KILL_SECONDS=600` make the long forms: `make test-job-kills`.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import pytest

from clients import DEADLINE
from conftest import MakeFacility
from facility import ApiError, Facility, Json, kill_and_wait

ACK_JOBS = int(os.environ.get("BP_ACK_JOBS", "60"))
KILL_SECONDS = float(os.environ.get("BP_KILL_SECONDS", "15"))
SEED = int(os.environ.get("BP_SEED", secrets.randbelow(1 << 31)))

EXPECTED = (
    r"batch::.*(unreachable|retrying)",
    r"cannot tell the shepherd to end .*No such file",
    # What is killed here besides the daemon.
    r"the shepherd died; the run is lost",
)


OVER = ("done", "failed", "cancelled")
"""States that a job never leaves."""


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
    rng: random.Random = field(default_factory=random.Random)
    begun: Path = Path("/dev/null")
    """Where each job of the load writes its key when it begins."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Numbers of jobs by key."""
    codes: dict[int, int] = field(default_factory=dict)
    """What each job of the load exits with."""
    repeated: int = 0
    is_stopped: bool = False

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

    def load(self) -> None:
        """Submit jobs of all lengths until somebody stops it."""
        while not self.is_stopped:
            code, key = self.rng.randrange(8), f"load-{len(self.codes)}"
            length = self.rng.randrange(100_000)
            script = f"echo {key} >>{self.begun}; i=0; while [ $i -lt {length} ]; do i=$((i+1)); done; exit {code}"
            self.codes[self.submit(["/bin/sh", "-c", script], key, name=key)] = code
            # As many as the worker can run, and some that wait: the load never ends and never grows.
            while len(self.codes) >= 20 and not self.is_stopped:
                oldest = sorted(self.codes)[-20]
                with suppress(OSError, HTTPException, ApiError, json.JSONDecodeError):
                    if self.facility.call("await_jobs", wait=1, ids=[oldest])["jobs"][0]["state"] in OVER:
                        break
                IS_UP.wait(DEADLINE)


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


def shepherds(facility: Facility) -> list[int]:
    """Find the shepherds of a facility's jobs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "inner" in words and any(word.startswith(str(facility.directory)) for word in words):
                found.append(int(process.name))
    return found


def test_kill_of_anything_loses_no_job_and_no_exit_code(site: Facility, shared: Path) -> None:
    print(f"\nBP_SEED={SEED} BP_KILL_SECONDS={KILL_SECONDS}")
    rng = random.Random(SEED)
    submitter = Submitter(site, rng, begun=shared / "begun")
    thread = threading.Thread(target=submitter.load, daemon=True)
    thread.start()
    end, kills, murders = time.monotonic() + KILL_SECONDS, 0, 0
    while time.monotonic() < end and thread.is_alive():
        if rng.random() < 0.5:
            while not (victims := shepherds(site)) and time.monotonic() < end:
                thread.join(0.02)
            with suppress(ProcessLookupError, IndexError):
                kill_and_wait(rng.choice(victims))
                murders += 1
        else:
            # Counted in jobs, not in seconds: the same moments on a slow machine.
            target = len(submitter.codes) + rng.randrange(2, 8)
            while len(submitter.codes) < target and thread.is_alive() and time.monotonic() < end:
                thread.join(0.05)
            restart(site)
            kills += 1
    submitter.is_stopped = True
    thread.join(DEADLINE)
    assert not thread.is_alive()
    infos = [site.wait_job(number, DEADLINE) for number in submitter.codes]
    lost = [info["id"] for info in infos if info["exit"] == "lost"]
    wrong = [
        (info["id"], info["exit"], submitter.codes[info["id"]])
        for info in infos
        if info["id"] not in lost and info["exit"] != {"code": submitter.codes[info["id"]]}
    ]
    print(
        f"{kills} ends of the daemon, {murders} of shepherds, {len(infos)} jobs, {len(lost)} lost with their shepherd"
    )
    assert kills > 0, "the load was disturbed"
    assert murders > 0, "shepherds were killed, too"
    assert len(infos) > kills, "there was load"
    assert wrong == [], "exit codes are those of the jobs"
    assert len(lost) <= murders, "nothing is lost but with its shepherd"
    assert all(info["state"] == "failed" for info in infos if info["id"] in lost), "lost is never success"
    # A run that was ordered and had not begun is ordered again.
    begun = Counter(submitter.begun.read_text().splitlines())
    assert set(begun) <= set(submitter.acknowledged)
    assert [key for key, count in begun.items() if count > 1] == [], "nothing begins twice that nobody allowed to"
