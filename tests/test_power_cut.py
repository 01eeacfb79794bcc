"""The power is cut at any moment, under load, again and again; what any door or mount acknowledged stays true.

`BP_CUTS=20 pytest -s tests/test_power_cut.py` is the long one.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from clients import adler32, make_bytes, need, run
from conftest import SMALL, clean_up
from facility import Facility, Json
from power import Disk, disk, need_forget_fs, sync
from storm import ABSENT, Record, Storm, check_catalogue

CUTS = int(os.environ.get("BP_CUTS", "2"))
SEED = int(os.environ.get("BP_SEED", secrets.randbelow(1 << 31)))

OVER = ("done", "failed", "cancelled")
"""States that a job never leaves."""
BLOCK = 4096
BLOCKS = 40


@dataclass
class PowerStorm(Storm):
    """More clients: over HTTP, of the management API, and programs in a mount.

    Parameters
    ----------
    mount
        A directory in a mount of the facility.
    """

    mount: Path = field(default=Path("/nonexistent"))
    saved: Record = field(default_factory=Record)
    """What was saved in the mount, by name."""
    attributes: dict[str, set[str | None]] = field(default_factory=dict)
    """Values that an attribute of a directory may have, by path."""
    ended: dict[int, Json] = field(default_factory=dict)
    """Jobs that were said to be over, as they were then."""
    logged: bytes = b""
    """What a program in the mount has appended and synced."""
    blocks: dict[int, set[bytes]] = field(default_factory=dict)
    """What each block of a file that is changed in place may hold. Of a block that is torn this says nothing."""

    def _clients(self) -> list[tuple[int, Callable[[random.Random, Path], bool]]]:
        more = [self._http, self._describe, self._watch_jobs, self._save, self._append, self._overwrite]
        return [*super()._clients(), *((0, kind) for kind in more)]

    # Clients

    def _http(self, rng: random.Random, local: Path) -> bool:
        """Write, move or remove a file over HTTP."""
        mine = [path for path in self.record.paths() if path.startswith(f"/storm/{local.name}-")]
        there = [path for path in mine if ABSENT not in self.record.allowed(path)]
        new = f"/storm/{local.name}-{rng.randrange(1 << 40):010x}"
        deed = rng.choice(["PUT", "PUT", "DELETE", "MOVE"]) if there else "PUT"
        if deed == "PUT":
            data = make_bytes(rng.choice([0, 1, 5000, 700_000]), rng.randrange(1 << 40))
            return self._ask("PUT", new, {new: adler32(data)}, data)
        old = rng.choice(there)
        if deed == "DELETE":
            return self._ask("DELETE", old, {old: ABSENT})
        allowed = self.record.allowed(old)
        if len(allowed) != 1:
            return False
        return self._ask("MOVE", old, {old: ABSENT, new: allowed.pop()}, to=new)

    def _ask(self, method: str, path: str, becomes: dict[str, str], body: bytes = b"", to: str = "") -> bool:
        for changed, content in becomes.items():
            self.record.begin(changed, content)
            self.record.note(changed, f"{method} {path} {to} begins")
        status = 0
        with suppress(OSError, EOFError, ValueError):
            connection = self.facility.connect(20)
            try:
                connection.request(method, path, body, {"destination": f"{self.facility.http}{to}"} if to else {})
                status = connection.getresponse().status
            except Exception as cut_off:
                if type(cut_off).__module__ != "http.client":
                    raise
            finally:
                connection.close()
        for changed, content in becomes.items():
            self.record.note(changed, f"{method} {path} {to} ended {status}")
            if status in (201, 204):
                self.record.end(changed, content)
        return status in (201, 204)

    def _describe(self, rng: random.Random, local: Path) -> bool:
        """Make a directory, or set an attribute of one."""
        del local
        certain = [path for path, values in self.attributes.items() if len(values) == 1]
        if not certain or rng.random() < 0.3:
            path = f"/storm-{rng.randrange(1 << 40):010x}"
            with suppress(Exception):
                self.facility.call("mkdir", path=path)
                self.attributes[path] = {None}
                return True
            return False
        path, value = rng.choice(certain), f"{rng.randrange(1 << 40):010x}"
        self.attributes[path].add(value)
        with suppress(Exception):
            self.facility.call("set_attributes", path=path, changes=[{"name": "power", "value": value}])
            self.attributes[path] = {value}
        # They are too many to count.
        return False

    def _watch_jobs(self, rng: random.Random, local: Path) -> bool:
        """Note which jobs are over."""
        del rng, local
        numbers = sorted(set(self.jobs) - set(self.ended))
        if not numbers:
            return False
        with suppress(Exception):
            infos = self.facility.call("jobs", ids=numbers)["jobs"]
            over = {info["id"]: info for info in infos if info["state"] in OVER}
            self.ended.update(over)
            return bool(over)
        return False

    def _save(self, rng: random.Random, local: Path) -> bool:
        """Save a document in the mount as an editor does, make a file without a sync, or remove one."""
        del local
        name = f"document-{rng.randrange(12)}"
        data = make_bytes(rng.choice([0, 10, 9000, 300_000]), rng.randrange(1 << 40))
        deed = rng.choice(["save", "save", "write", "remove"])
        if not is_mounted(self.mount):
            return False
        self.saved.begin(name, ABSENT if deed == "remove" else adler32(data))
        if deed == "write":
            # It is cut first.
            self.saved.begin(name, adler32(b""))
        self.saved.note(name, f"{deed} begins {adler32(data)}")
        try:
            if deed == "save":
                self._save_document(name, data)
            elif deed == "write":
                (self.mount / name).write_bytes(data)
            else:
                self._remove(name)
        except OSError as error:
            self.saved.note(name, f"{deed} ended {error}")
            return False
        self.saved.note(name, f"{deed} ended")
        self.saved.end(name, ABSENT if deed == "remove" else adler32(data))
        return True

    def _save_document(self, name: str, data: bytes) -> None:
        new = self.mount / f"new-{name}"
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.rename(self.mount / name)

    def _remove(self, name: str) -> None:
        # By its directory: below a mount that has ended, and is not there any more, no name is either.
        directory = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
        finally:
            os.close(directory)

    def _append(self, rng: random.Random, local: Path) -> bool:
        """Append to a log in the mount."""
        del local
        line = make_bytes(rng.randrange(1, 3000), rng.randrange(1 << 40))
        with suppress(OSError), (self.mount / "log").open("r+b") as file:
            # What was appended and not acknowledged is overwritten.
            os.pwrite(file.fileno(), line, len(self.logged))
            os.fdatasync(file.fileno())
            self.logged += line
            return True
        return False

    def _overwrite(self, rng: random.Random, local: Path) -> bool:
        """Write blocks in the middle of a file in the mount."""
        del local
        new = {number: make_bytes(BLOCK, rng.randrange(1 << 40)) for number in rng.sample(range(BLOCKS), 3)}
        for number, block in new.items():
            self.blocks.setdefault(number, {bytes(BLOCK)}).add(block)
        with suppress(OSError), (self.mount / "blocks").open("r+b") as file:
            for number, block in new.items():
                os.pwrite(file.fileno(), block, number * BLOCK)
            os.fsync(file.fileno())
            for number, block in new.items():
                self.blocks[number] = {block}
            return True
        return False

    # Checks

    def check_mount(self) -> None:
        """Compare what lies in the mount, as it shows it and as a door does."""
        log = (self.mount / "log").read_bytes()
        assert log[: len(self.logged)] == self.logged, f"of {len(self.logged)} synced bytes some are gone"
        blocks = (self.mount / "blocks").read_bytes()
        for number, allowed in self.blocks.items():
            found = blocks[number * BLOCK : (number + 1) * BLOCK]
            assert len(allowed) > 1 or found in allowed, f"block {number} is not what was synced"
        assert self.facility.read("/mounted/blocks") == blocks
        for name in self.saved.paths():
            self._check_document(name)

    def _check_document(self, name: str) -> None:
        allowed, file = self.saved.allowed(name), self.mount / name
        found = adler32(file.read_bytes()) if file.exists() else ABSENT
        # A file that was cut off while it was written in place may hold any part of it.
        is_certain = len(allowed) == 1
        assert not is_certain or found in allowed, f"{name} is {found}, not {allowed}{self.saved.history(name)}"
        if found != ABSENT:
            assert adler32(self.facility.read(f"/mounted/{name}")) == found, f"{name}: the door shows something else"

    def read_all_mounted(self) -> None:
        """Read all that was written in the mount through a door, also what nobody was promised."""
        for entry in self.facility.call("list", path="/mounted")["entries"]:
            self.facility.read(f"/mounted/{entry['name']}")

    def checksums(self) -> list[Json | None]:
        """Read the checksums of all that was written in the mount; a file that may be changed has none."""
        listed = self.facility.call("list", path="/mounted")["entries"]
        return [self.facility.stat(f"/mounted/{entry['name']}").get("checksums") for entry in listed]

    def check_attributes(self) -> None:
        """Look at the attributes of all directories that were made."""
        for path, allowed in self.attributes.items():
            attributes = self.facility.call("get_attributes", path=path)["attributes"]
            found = next((each["value"] for each in attributes if each["name"] == "power"), None)
            assert found in allowed, f"{path}: attribute {found}, not {allowed}"

    def check_ended_jobs(self) -> None:
        """Look at all jobs again: those that were over have not changed, none is unknown."""
        found = {info["id"]: info for info in self.facility.call("jobs", ids=sorted(self.jobs))["jobs"]}
        assert sorted(found) == sorted(self.jobs), "a job that was acknowledged is unknown"
        for number, before in self.ended.items():
            now = found[number]
            assert (now["state"], now["exit"]) == (before["state"], before["exit"]), f"it was {before}, it is {now}"

    def check_all_jobs(self, deadline: float) -> None:
        """Wait for all jobs: each ran once at most, and what is done has its output."""
        infos = [self.facility.wait_job(number, deadline) for number in sorted(self.jobs)]
        for info in infos:
            job, note = self.jobs[info["id"]], self.scratch / "notes" / info["spec"]["name"]
            text = note.read_text() if note.exists() else ""
            assert text in ("", "begin\n", "begin\nend\n"), f"job {job.number} ran more than once: {text!r} {info}"
            if info["state"] == "done":
                assert text == "begin\nend\n", f"{text!r}: {info}"
                assert job.content is not None, info
                assert self.facility.read(job.output) == job.content, info


def is_mounted(directory: Path) -> bool:
    """Tell whether a directory in a mount can be reached."""
    with suppress(OSError):
        return directory.is_dir()
    return False


@contextmanager
def mounted(power: Disk, facility: Facility, directory: Path) -> Iterator[Path]:
    """Mount the facility, by a program that ends with the power."""
    directory.mkdir()
    mount(power, facility, directory)
    try:
        yield directory
    finally:
        facility.bp("umount", "--lazy", directory, check=False)


def mount(power: Disk, facility: Facility, directory: Path) -> None:
    """Mount the facility, again if need be."""
    env = {"BP_FACILITY": str(facility.directory), **power.environment}
    run(facility.bin / "bp", "mount", "--log", directory.with_suffix(".log"), directory, env=env)


@pytest.fixture
def power(tmp_path: Path) -> Iterator[Disk]:
    """Mount an empty disk."""
    need_forget_fs()
    print(f"\nBP_SEED={SEED} BP_CUTS={CUTS}")
    with disk(tmp_path / "disk", SEED) as mounted_disk:
        yield mounted_disk


@pytest.fixture
def facility(power: Disk) -> Iterator[Facility]:
    """Make a facility on the disk."""
    made = Facility(power.directory / "facility")
    made.environment = power.environment
    made.create(**{**SMALL, "volume_size": "256MiB", "volumes": 6, "slots": 6, "cpus": 4})
    made.keep_ports()
    # The tests have changed it.
    sync(made.directory / "facility.toml")
    # Logs are not synced, and may be torn.
    made.expect_log(r".")
    yield made
    clean_up([made])


def test_a_facility_that_was_made_is_there(power: Disk, facility: Facility) -> None:
    for number in range(4):
        cut_and_start(power, facility)
        facility.put_bytes(b"content", f"/file-{number}")
    cut_and_start(power, facility)
    for number in range(4):
        assert facility.read(f"/file-{number}") == b"content"


def test_acknowledged_is_kept(power: Disk, facility: Facility, tmp_path: Path, shared: Path) -> None:
    need("xrdcp", "xrdfs")
    rng = random.Random(SEED)
    facility.up()
    facility.bp("mkdir", "/storm")
    scratch = shared / "scratch"
    (scratch / "notes").mkdir(parents=True)
    with mounted(power, facility, tmp_path / "mount") as directory:
        # Below a directory that is not there while nothing is mounted.
        programs = directory / "mounted"
        programs.mkdir()
        for name, content in (("log", b""), ("blocks", bytes(BLOCKS * BLOCK))):
            (programs / name).write_bytes(content)
        storm = PowerStorm(facility, scratch, SEED, mount=programs)
        storm.start()
        for number in range(1, CUTS + 1):
            storm.wait_acknowledged(rng.randrange(30, 120), deadline=120)
            # Not after the last acknowledgement, but in the middle of what follows.
            threading.Event().wait(rng.random() * 0.1)
            losses = power.cut()
            print(f"{time.time():.3f} cut {number}: {losses}")
            facility.pid = 0
            facility.up()
            mount(power, facility, directory)
            with storm.paused():
                check(storm, tmp_path / "back")
            print(f"{time.time():.3f} {len(storm.record.certain())} files and {len(storm.jobs)} jobs acknowledged")
        storm.stop()
        check(storm, tmp_path / "back")
        storm.check_all_jobs(deadline=120)
        check_tapes(storm, tmp_path / "back")
        print(f"acknowledged commands: {storm.counts}")
    # What a mount was writing that has died is sealed when somebody wants it.
    storm.read_all_mounted()
    facility.wait_until("all files are sealed", lambda: all(storm.checksums()))
    facility.wait_removals()
    facility.down()
    check_catalogue(facility)


def check(storm: PowerStorm, back: Path) -> None:
    """Compare all that was acknowledged with what is there."""
    storm.read_all(back)
    storm.check_mount()
    storm.check_attributes()
    storm.check_ended_jobs()


def check_tapes(storm: PowerStorm, back: Path) -> None:
    """Write all to tape, read it from there, and compare."""
    storm.check_drained()
    paths = [path for path in storm.record.certain() if storm.facility.stat(path)["size"] > 0]
    for start in range(0, len(paths), 100):
        storm.facility.bp("archive", "--wait", *paths[start : start + 100], deadline=120)
        storm.facility.bp("evict", *paths[start : start + 100], check=False)
    storm.read_all(back)
    storm.check_drained()


def test_files_survive_while_they_are_sealed(power: Disk, facility: Facility, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    facility.up()
    written: dict[str, bytes] = {}

    def sealed() -> int:
        return sum(facility.stat(f"/{name}").get("checksums") is not None for name in written)

    with mounted(power, facility, tmp_path / "mount") as directory:
        # Half as often as the others: files are sealed 10 s after the last write.
        for number in range(max(1, CUTS // 2)):
            before = sealed()
            for name in (f"file-{number}-{index}" for index in range(30)):
                written[name] = make_bytes(rng.choice([1, BLOCK, 100_000]), rng.randrange(1 << 40))
                (directory / name).write_bytes(written[name])
            at_least = before + rng.randrange(1, 25)
            facility.wait_until("some are sealed", lambda least=at_least: sealed() >= least)
            cut_and_start(power, facility)
            mount(power, facility, directory)
            for name, content in written.items():
                assert facility.read(f"/{name}") == content, name
                assert (directory / name).read_bytes() == content, name
    facility.wait_until("all are sealed", lambda: sealed() == len(written))
    facility.wait_removals()
    facility.down()
    check_catalogue(facility)


def test_a_mount_on_another_host_tells_programs_what_was_lost(power: Disk, facility: Facility, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    facility.up()
    directory = tmp_path / "mount"
    directory.mkdir()
    # Without the mark: it goes on, and so does the program that is this test.
    facility.bp("mount", "--log", directory.with_suffix(".log"), directory)
    (directory / "file").touch()
    synced: dict[int, bytes] = {}
    try:
        for _ in range(3):
            new = {number: make_bytes(BLOCK, rng.randrange(1 << 40)) for number in rng.sample(range(300), 60)}
            file = os.open(directory / "file", os.O_RDWR)
            for number, block in new.items():
                os.pwrite(file, block, number * BLOCK)
            cut_and_start(power, facility)
            # Programs that were started meanwhile have closed copies of the file, and nobody looked at the outcome.
            is_synced = succeeds(lambda file=file: os.fsync(file))
            succeeds(lambda file=file: os.close(file))
            cut_and_start(power, facility)
            synced = {number: block for number, block in synced.items() if number not in new}
            if is_synced:
                synced |= new
            found = facility.read("/file")
            for number, block in synced.items():
                assert found[number * BLOCK : (number + 1) * BLOCK] == block, f"block {number} was synced and is gone"
    finally:
        facility.bp("umount", "--lazy", directory, check=False)


def cut_and_start(power: Disk, facility: Facility) -> None:
    """Cut the power, and start the facility again."""
    power.cut()
    facility.pid = 0
    facility.up()


def succeeds(call: Callable[[], None]) -> bool:
    """Tell whether a call of the system succeeds."""
    try:
        call()
    except OSError:
        return False
    return True
