"""`bp events`: what happens in a facility is told once it is durable, to those who ask and to those who follow."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import backplane
from clients import DEADLINE, write_file
from conftest import MakeFacility
from facility import Facility, Json
from host import hosts


def events(facility: Facility, *words: str) -> list[Json]:
    """List what happened."""
    return [json.loads(line) for line in facility.bp("--json", "events", *words).out.splitlines()]


def types(facility: Facility, *words: str) -> list[str]:
    """List the types of what happened."""
    return [event["type"] for event in events(facility, *words)]


def wait_event(facility: Facility, kind: str, text: str = "") -> Json:
    """Wait for an event; returns it."""
    facility.wait_until(
        f"{kind} {text}", lambda: any(re.search(text, event["what"]) for event in events(facility, "--type", kind))
    )
    return next(event for event in events(facility, "--type", kind) if re.search(text, event["what"]))


class Follower:
    """`bp events -f` in the background."""

    def __init__(self, facility: Facility, *words: str) -> None:
        command = [facility.bin / "bp", "--json", "events", "-f", "--facility", facility.directory, *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[Json] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(json.loads(line))

    def end(self) -> None:
        """Interrupt it."""
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def next(self) -> Json:
        """Wait for what happens next."""
        return self.lines.get(timeout=DEADLINE)


@contextmanager
def following(facility: Facility, *words: str) -> Iterator[Follower]:
    """Follow events for a while."""
    follower = Follower(facility, *words)
    try:
        yield follower
    finally:
        follower.end()


def test_what_happens_is_told_and_followed(facility: Facility, tmp_path: Path) -> None:
    with following(facility) as follower:
        first = follower.next()
        assert (first["type"], first["number"]) == ("head.started", 1), first
        drive = facility.status()["drives"][0]["name"]
        facility.bp("admin", "drive", "disable", drive, "--reason", "dirty heads")
        event = follower.next()
        assert (event["type"], event["subject"], event["number"]) == ("drive.disabled", drive, 2), event
        assert "dirty heads" in event["what"], event
        # The subject is an argument of verbs.
        facility.bp("admin", "drive", "enable", event["subject"])
        assert follower.next()["type"] == "drive.enabled"
        job = facility.submit("--", "/bin/false")
        event = follower.next()
        assert (event["type"], event["subject"]) == ("job.failed", str(job)), event
        facility.bp("why", event["subject"])
        # What is refused did not happen.
        facility.bp_fails("admin", "drive", "enable", "nothing")
        facility.put(write_file(tmp_path / "a", 1000), "/a")
        facility.bp("archive", "--wait", "/a")
        event = follower.next()
        assert event["type"] == "volume.loaded", event
        facility.bp("admin", "volume", "set", event["subject"], "full")
        assert follower.next()["type"] == "volume.full"
    everything = events(facility)
    assert [event["number"] for event in everything] == list(range(1, len(everything) + 1))
    shown = facility.bp("events").out
    assert re.search(rf"^\S+ \S+ UTC +job\.failed +job {job} of ", shown, re.M), shown


def test_events_are_chosen_and_end_with_the_head(facility: Facility) -> None:
    job = facility.submit("--", "/bin/true")
    facility.wait_job(job)
    wait_event(facility, "job.done", f"job {job} ")
    assert set(types(facility, "--type", "job.*")) == {"job.done"}
    assert set(types(facility, "--type", "head.*", "--type", "job.done")) == {"head.started", "job.done"}
    assert types(facility, "--type", "none.*") == []
    assert types(facility, "--since", "0s") == []
    assert "job.done" in types(facility, "--since", "1h")
    assert "no type of event" in facility.bp_fails("events", "--type", "x" * 65).text
    before = facility.status()["incarnation"]
    facility.down()
    facility.up()
    (started, *_) = events(facility)
    assert (started["type"], started["number"]) == ("head.started", 1)
    assert f"start {before + 1}" in started["what"], started
    assert "job.done" not in types(facility)


def test_a_follower_goes_on_when_the_head_is_back(facility: Facility) -> None:
    with following(facility, "--type", "head.*", "--type", "job.done") as follower:
        assert follower.next()["type"] == "head.started"
        before = facility.status()["incarnation"]
        for _ in range(2):
            facility.down()
            facility.up()
            before += 1
            event = follower.next()
            assert (event["type"], event["number"]) == ("head.started", 1), event
            assert f"start {before}" in event["what"], event
        facility.wait_job(facility.submit("--", "/bin/true"))
        assert follower.next()["type"] == "job.done"


def test_what_fell_out_is_said(facility: Facility) -> None:
    drive = facility.status()["drives"][0]["name"]
    for _ in range(2100):
        facility.call("disable_drive", drive=drive)
        facility.call("enable_drive", drive=drive)
    shown = facility.bp("events")
    assert re.search(r"\[\d+ earlier events are no longer kept\]", shown.err), shown.err
    assert len(shown.out.splitlines()) == 4096


def test_hosts_and_repairs_are_told(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.expect_log(
        "silent for too long|a client could not reach|list of objects differs|mirror not written|copy failed|silent"
    )
    facility.keep_ports(https=True)
    facility.up()
    with hosts(facility, tmp_path, "d1", "d2") as (first, second):
        assert {event["subject"] for event in events(facility, "--type", "host.joined")} == {"d1", "d2"}
        facility.bp("pool", "set", "main", "--copies=2", "--heard-bound=2s", "--silence-bound=4s")
        first.down()
        assert wait_event(facility, "host.stopped")["subject"] == "d1"
        first.up()
        assert wait_event(facility, "host.back")["subject"] == "d1"
        second.kill()
        assert wait_event(facility, "host.silent")["subject"] == "d2"
        given_up = wait_event(facility, "partition.given_up")["subject"]
        assert given_up == f"main/{second.partition}"
        second.up()
        assert wait_event(facility, "partition.back")["subject"] == given_up


def test_python_tells_events(facility: Facility) -> None:
    drive = facility.status()["drives"][0]["name"]
    python = backplane.connect(facility.directory)
    stream = python.events(follow=True, types=["head.*", "drive.*"])
    assert next(stream)["type"] == "head.started"
    facility.bp("admin", "drive", "disable", drive)
    assert next(stream)["subject"] == drive
    facility.bp("admin", "drive", "enable", drive)
    assert [event["type"] for event in islice(stream, 1)] == ["drive.enabled"]
    assert [event["type"] for event in python.events("drive.*")] == ["drive.disabled", "drive.enabled"]
    assert list(python.events(since_s=0)) == []
