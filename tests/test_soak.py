"""Two hundred clients that put, get, list, remove and are killed, and one restart among it; nothing is lost or left.

`BP_SOAK_SECONDS=1800 BP_SOAK_OUT=DIR pytest -s tests/test_soak.py` is the long one; DIR gets all samples and a plot.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from clients import need, run
from conftest import MakeFacility
from facility import Facility
from soak import watch
from soak.crowd import CLIENTS, WORKERS, Crowd, Outage
from soak.doors import Door, Http, Root
from soak.journal import ABSENT, Journal, sum_of
from storm import check_catalogue

SECONDS = float(os.environ.get("BP_SOAK_SECONDS", "40"))
OUT = Path(os.environ.get("BP_SOAK_OUT", Path(__file__).parents[1] / "target" / "soak"))
SEED = int(os.environ.get("BP_SEED", secrets.randbelow(1 << 31)))

RESTART = 0.25
"""When the daemon is killed, as a part of the time: so early that the one after it is watched for long enough."""

MEMORY_GROWTH = 1.25
MEMORY_SLACK_BYTES = 16 << 20
"""Memory may grow by this factor and so many bytes between the first third and the end: what allocators keep."""

OTHER_DOOR: dict[str, Callable[[Facility], Door]] = {
    "root": lambda facility: Http(facility.http),
    "xrdcp": lambda facility: Http(facility.http),
    "bindings": lambda facility: Http(facility.http),
    "http": lambda facility: Root(facility.root),
    "curl": lambda facility: Root(facility.root),
    "bp": lambda facility: Root(facility.root),
}
"""Where the files of each kind of client are looked at in the end: not where they came in."""


def test_two_hundred_clients(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("xrdcp", "xrdfs", "curl")
    print(f"\nBP_SEED={SEED} BP_SOAK_SECONDS={SECONDS:g}: {CLIENTS} clients")
    facility = make_facility()
    facility.keep_ports()
    facility.up()
    facility.bp("mkdir", "/soak")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    crowd, eyes = Crowd(facility, scratch, SEED), watch.Watch(facility, max(SECONDS / 300, 0.5))
    crowd.start()
    be_used(crowd, RESTART * SECONDS)
    begin = time.time()
    facility.kill()
    facility.up()
    outage = Outage(begin, time.time())
    be_used(crowd, (1 - RESTART) * SECONDS)
    crowd.stop()
    eyes.stop()
    eyes.write(OUT)
    print(watch.table(eyes.samples))
    journals = crowd.read_journals()
    done = {kind: sum(journal.acknowledged for journal in some) for kind, some in journals.items()}
    print(f"acknowledged: {done}; clients killed: {crowd.kills}; plot: {OUT / 'soak.svg'}")
    assert all(done.values()), "a kind of clients has done nothing"
    check_complaints(journals, outage)
    check_nothing_is_left(facility)
    check_content(facility, journals)
    check_memory(eyes.of(facility.pid))
    facility.wait_removals()
    facility.down()
    check_catalogue(facility)
    # Each of these has a session of its own; the bindings share theirs.
    raw = sum(count for kind, count in WORKERS if kind == "root")
    assert max(sample.root_sessions for sample in eyes.samples) >= raw, "sessions are counted"


def be_used(crowd: Crowd, seconds: float) -> None:
    """Let the clients go on, and kill one now and then."""
    never, end = threading.Event(), time.monotonic() + seconds
    pause = min(max(SECONDS / 200, 1.0), 5.0)
    while time.monotonic() < end:
        never.wait(crowd.rng.uniform(0.5, 1.5) * pause)
        crowd.kill_one()


def check_complaints(journals: dict[str, list[Journal]], outage: Outage) -> None:
    """See that no client read what it must not, or was refused or cut off without a reason."""
    trouble = [
        f"{journal.file.stem}: {text}" for some in journals.values() for journal in some for text in journal.trouble
    ]
    assert not trouble, f"{len(trouble)} complaints:\n" + "\n".join(trouble[:20])
    # Programs are killed one by one: for those any time is a good one to break off.
    lost = [
        f"{journal.file.stem}: {one.time:.3f} {one.text}"
        for kind, some in journals.items()
        for journal in some
        for one in journal.lost
        if kind in ("root", "http", "bindings") and not outage.explains(one.time)
    ]
    assert not lost, f"{len(lost)} connections broke without a reason (restart at {outage}):\n" + "\n".join(lost[:20])


def check_content(facility: Facility, journals: dict[str, list[Journal]]) -> None:
    """Read every file by another door than it came in, and see that there is no other."""
    wait_until(lambda: f"these are still being written: {half_written(facility)}", lambda: not half_written(facility))
    listed = set(facility.bp("ls", "-R", "/soak").out.split())
    known: set[str] = set()
    for kind, some in journals.items():
        door = OTHER_DOOR[kind](facility)
        for journal in some:
            for path in journal.paths():
                known.add(path)
                data = door.get(path)
                found, allowed = ABSENT if data is None else sum_of(data), journal.allowed(path)
                assert found in allowed, f"{path} holds {found}, not {allowed}"
        door.close()
    for path in listed:
        is_directory = path.endswith("/") or path.count("/") < 3
        assert is_directory or path in known, f"{path} is nobody's"


def half_written(facility: Facility) -> list[str]:
    """List names whose first writer has not closed them."""
    homes = [entry["name"] for entry in facility.call("list", path="/soak")["entries"]]
    return [
        f"/soak/{home}/{entry['name']}"
        for home in homes
        for entry in facility.call("list", path=f"/soak/{home}")["entries"]
        if entry.get("state") == "writing"
    ]


def check_nothing_is_left(facility: Facility) -> None:
    """See that sessions and open files are as few as those of a daemon that has just been started."""
    idle = idle_daemon(facility.directory.with_name("other"))

    def left() -> dict[str, int]:
        now = watch.look(facility, 0)
        now = replace(now, fds=now.fds - watch.kept_objects(facility))
        return {
            what: getattr(now, what) - getattr(idle, what)
            for what in ("root_sessions", "http_sessions", "fds")
            if getattr(now, what) > getattr(idle, what)
        }

    wait_until(lambda: f"this is more than an idle daemon has: {left()}", lambda: not left())


def idle_daemon(directory: Path) -> watch.Sample:
    """Look at a daemon that has nothing to do, in a facility of its own, while its rooms come and go."""
    other = Facility(directory)
    other.create(volume_size="64MiB", volumes=4, slots=6, drives=2, cpus=2)
    other.up()
    run("xrdfs", other.root, "stat", "/")
    looks, never = [], threading.Event()
    for _ in range(10):
        never.wait(0.2)
        looks.append(watch.look(other, 0))
    other.down()
    most = {what: max(getattr(one, what) for one in looks) for what in ("http_sessions", "fds")}
    # The only client has left.
    return replace(looks[-1], root_sessions=0, **most)


def check_memory(samples: list[watch.Sample]) -> None:
    """See that memory is flat."""
    first, last = watch.memory_around(samples, 1 / 3), watch.memory_around(samples, 0.9)
    print(f"memory after the first third: {first / 2**20:.1f} MiB, at the end: {last / 2**20:.1f} MiB")
    assert last <= first * MEMORY_GROWTH + MEMORY_SLACK_BYTES, f"memory grew from {first:.0f} to {last:.0f} bytes"


def wait_until(what: Callable[[], str], is_so: Callable[[], bool], deadline: float = 60) -> None:
    """Look again, without a connection that is kept, until it is so."""
    end, never = time.monotonic() + deadline, threading.Event()
    while not is_so():
        assert time.monotonic() < end, f"after {deadline} s {what()}"
        never.wait(0.2)
