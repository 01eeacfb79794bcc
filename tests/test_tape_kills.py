"""The tape server is killed at any moment, under load, again and again; what is archived stays, and is whole."""

from __future__ import annotations

import os
import random
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import MakeFacility
from facility import Facility
from host import Host
from tape_life import DEADLINE, SMALL_BELOW, Life, LifeFile
from test_libraries import MADE

KILLS = int(os.environ.get("BP_KILLS", "3"))
SEED = int(os.environ.get("BP_SEED", secrets.randbelow(1 << 31)))
DIRECTORY = "/life"
EXPECTED = (
    # A kill met a drive; the head tells who lost what, and tries again.
    r"tape (session ended early|request failed)",
    # The end of a cartridge is the drive's to say.
    r"the drive warned of its end",
)


@pytest.fixture(params=["virtual", "emulated"])
def tape(request: pytest.FixtureRequest, make_facility: MakeFacility, tmp_path: Path) -> Iterator[Host]:
    """Start a facility whose tape server is a process of its own, with two drives and four volumes."""
    facility = make_facility(drives=0, volumes=0)
    facility.configure("bundle_below", f'"{SMALL_BELOW}B"')
    for pattern in EXPECTED:
        facility.expect_log(pattern)
    facility.keep_ports()
    facility.up()
    host = Host(facility, tmp_path / "t1", "t1", ("tape",), drives=0, volumes=0)
    host.join()
    with (host.directory / "facility.toml").open("a") as file:
        section = MADE.format(name="lib2", kind=request.param, prefix="XA")
        file.write(
            section.replace("volumes = 3", "volumes = 4").replace("slots = 4", "slots = 6").replace("8MiB", "256MiB")
        )
    host.up()
    yield host
    host.down()


class Load:
    """Files that are put, archived, evicted and staged, and what the facility said of them."""

    def __init__(self, facility: Facility, scratch: Path, rng: random.Random) -> None:
        self.facility = facility
        self.rng = rng
        self.life = Life(facility, [], scratch)
        self.archived: set[str] = set()
        self.lock = threading.Lock()
        self.stop = threading.Event()

    def put(self, count: int) -> None:
        """Put files, small and large ones, and ask for tape copies."""
        first = len(self.life.files)
        made = []
        for number in range(first, first + count):
            size = self.rng.randrange(SMALL_BELOW) if self.rng.random() < 0.5 else self.rng.randrange(3_000_000)
            made.append(LifeFile(f"{DIRECTORY}/d{number // 10:03}/f{number:05}", size, number))
        known = self.life.files
        self.life.files = {file.path: file for file in made}
        self.life.put_all()
        self.life.each("archive", list(self.life.files))
        self.life.files = {**known, **self.life.files}

    def look(self) -> None:
        """Note which files the facility says to be on tape: from now on they must be."""
        for path in self.life.files:
            state = self.facility.state(path)
            assert state in ("online", "both", "nearline"), f"{path} is {state}"
            if path in self.archived:
                assert state != "online", f"{path} was archived"
            elif state != "online":
                self.archived.add(path)

    def read_back(self, count: int) -> None:
        """Evict and stage some of the archived files, so that only tapes have them meanwhile."""
        some = self.rng.sample(sorted(self.archived), min(count, len(self.archived)))
        for path in some:
            # What is being recalled, or was evicted before, is no failure.
            self.facility.bp("evict", path, check=False)
        if some:
            self.life.each("stage", some)

    def check_visible(self) -> None:
        """Read what is said to be on disk: it is whole."""
        for path in self.rng.sample(sorted(self.life.files), min(10, len(self.life.files))):
            if self.facility.state(path) != "nearline":
                assert self.facility.read(path) == self.life.files[path].content, path

    def run(self) -> None:
        """Put and read back until it is told to stop; whoever has the lock sees no step half done."""
        while not self.stop.is_set():
            with self.lock:
                self.put(self.rng.randrange(2, 8))
            with self.lock:
                self.read_back(self.rng.randrange(6))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run beside the caller."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self.run)
            try:
                yield
            finally:
                self.stop.set()
            # What went wrong there is told here.
            done.result()


def wait_some_events(facility: Facility, count: int) -> None:
    """Wait for a number of changes of the facility, and then for a drive that works."""
    with facility.events(DEADLINE) as events:
        for _ in events:
            count -= 1
            if count <= 0 and any(drive["phase"] != "idle" for drive in facility.status()["drives"]):
                return


def test_what_is_archived_survives_kills_of_the_tape_server(tape: Host, tmp_path: Path) -> None:
    print(f"\nBP_SEED={SEED} BP_KILLS={KILLS}")
    rng, facility = random.Random(SEED), tape.facility
    load, met = Load(facility, tmp_path / "scratch", random.Random(SEED + 1)), 0
    with load.running():
        for kill in range(1, KILLS + 1):
            wait_some_events(facility, rng.randrange(12))
            tape.kill()
            met += any(row["state"] == "active" for row in facility.status()["requests"])
            with load.lock:
                load.look()
                load.check_visible()
                print(f"kill {kill}: {len(load.archived)} of {len(load.life.files)} files archived")
            tape.start()
    print(f"{met} of {KILLS} kills met a session")
    facility.wait_until("the tape server is back", tape.is_available)
    facility.bp("archive", "-q", "-r", "--wait", DIRECTORY, deadline=DEADLINE)
    load.look()
    assert load.archived == set(load.life.files)
    facility.wait_until("nothing waits", lambda: facility.status()["requests_len"] == 0, DEADLINE)
    facility.bp("evict", "-q", "-r", DIRECTORY, deadline=DEADLINE)
    facility.wait_removals(DEADLINE)
    assert facility.objects_on_disk() == {}, "half a file was left"
    load.life.stage_all(rng)
    load.life.compare_all()
    # No kill is the fault of a drive or a volume.
    status = facility.status()
    assert {volume["state"] for volume in status["volumes"]} <= {"blank", "appendable", "full"}
    assert [drive["trouble"] for drive in status["drives"]] == [None, None]
