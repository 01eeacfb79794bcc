"""Waiting is free: what waits is woken by what it waits for, and takes little memory."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from pathlib import Path

from clients import DEADLINE, write_file
from conftest import MakeFacility
from facility import Facility, Json

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.wait import WAITRESP, Session, memory_bytes

WAITS = 2000
"""Opens that wait; enough for what each takes to be seen beside everything else."""
CALLS = 250
"""Opens of one session: a session may have 256 calls under way."""
BYTES_EACH_MAX = 8 << 10
"""The goal of docs/tape.md; a build for development takes five KiB."""


def put_away(facility: Facility, tmp_path: Path) -> None:
    """Make a file that is on tape only, on a volume that cannot be read."""
    facility.bp("put", write_file(tmp_path / "sample", 1000), "/f")
    facility.bp("archive", "--wait", "/f")
    facility.bp("evict", "/f")
    facility.bp("admin", "volume", "set", facility.status()["volumes"][0]["vid"], "suspect")


def test_a_waiting_open_takes_little_memory(make_facility: MakeFacility, tmp_path: Path) -> None:
    """Thousands of opens of nearline files wait, and the facility answers others."""
    facility = make_facility(volumes=1)
    facility.up()
    put_away(facility, tmp_path)
    endpoints = json.loads((facility.directory / "endpoints.json").read_text())
    host, port = endpoints["root"].removeprefix("root://").rsplit(":", 1)
    sessions = [Session((host, int(port))) for _ in range(WAITS // CALLS)]
    before = memory_bytes(endpoints["pid"])
    for number in range(WAITS):
        sessions[number // CALLS].open(number % CALLS + 1, "/f")
    for number in range(WAITS):
        assert sessions[number // CALLS].answer() == WAITRESP
    assert memory_bytes(endpoints["pid"]) - before <= WAITS * BYTES_EACH_MAX
    assert facility.state("/f") == "nearline"
    for session in sessions:
        session.socket.close()


class Waiting(threading.Thread):
    """A call that waits for a change of what its caller has seen."""

    def __init__(self, facility: Facility, seen: str) -> None:
        super().__init__()
        self.facility, self.seen = facility, seen
        self.reply: Json | None = None
        self.tag: str | None = None

    def run(self) -> None:
        """Make the call."""
        self.reply, self.tag = ask(self.facility, f"wait=60s&seen={self.seen}")


def ask(facility: Facility, query: str) -> tuple[Json, str | None]:
    """Wait for the file; yields the reply and its tag."""
    connection: http.client.HTTPConnection = facility.connect(2 * DEADLINE)
    try:
        body = json.dumps({"paths": ["/f"], "want": "online"})
        headers = {"content-type": "application/json"}
        connection.request("POST", f"/api/v1/await?{query}", body, headers)
        answer = connection.getresponse()
        reply: Json = json.loads(answer.read())
        assert answer.status == 200, reply
        return reply, answer.getheader("x-backplane-reply-tag")
    finally:
        connection.close()


def test_a_person_who_waits_is_told_of_a_change_at_once(make_facility: MakeFacility, tmp_path: Path) -> None:
    """The tag of a pending reply holds the next one back until there is something new."""
    facility = make_facility(volumes=1)
    facility.up()
    put_away(facility, tmp_path)
    facility.bp("stage", "/f")
    first, tag = ask(facility, "wait=0s")
    assert first["files"][0]["waits"]
    assert tag
    # Whoever has seen something else is answered at once.
    assert ask(facility, "wait=60s&seen=0") == (first, tag)
    waiting = Waiting(facility, tag)
    waiting.start()
    facility.bp("admin", "volume", "set", facility.status()["volumes"][0]["vid"], "full")
    waiting.join(DEADLINE)
    assert not waiting.is_alive()
    assert waiting.reply is not None
    assert (waiting.reply, waiting.tag) != (first, tag)
    # A facility that stops in the middle of a session says so in its log.
    facility.bp("wait", "--online", "/f")
    facility.wait_until("idle drives", lambda: all(drive["phase"] == "idle" for drive in facility.status()["drives"]))
