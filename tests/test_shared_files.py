"""Files that are changed in place from Python, without a mount."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import backplane
from backplane import BusyError, InvalidError, NotFoundError
from clients import DEADLINE, make_bytes, run
from facility import Facility, Json
from mounting import mounts, need_mounts, shared

__all__ = ["mounts", "shared"]

COUNT = """
import sys, backplane
facility = backplane.connect(sys.argv[1])
for _ in range(50):
    with facility.open_shared("/counter", "r+b") as file, file.locked():
        file.write_at(0, b"%d" % (int(file.read_at(0)) + 1))
with facility.open_shared("/lines", "a+b") as lines:
    for _ in range(50):
        lines.write(b"%s\\n" % sys.argv[2].encode())
"""
WAIT = """
import signal, sys, backplane
# Whoever runs tests in the background may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
facility = backplane.connect(sys.argv[1])
with facility.open_shared("/held", "r+b") as file:
    print("waits", flush=True)
    try:
        with file.locked():
            print("locked", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@contextmanager
def program(text: str, facility: Facility, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program in Python, which has to succeed."""
    argv = [sys.executable, "-c", text, str(facility.directory), *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
            assert process.wait(DEADLINE) == 0
        finally:
            process.kill()


def waits(facility: Facility) -> list[Json]:
    """Who waits for a file."""
    return [wait for file in facility.bp_json("lease")["files"] for wait in file["waits"]]


@pytest.fixture
def client(shared: Facility) -> backplane.Facility:
    """Connect as this process."""
    return backplane.connect(shared.directory)


def sessions(facility: Facility) -> list[str]:
    """Sessions of programs in Python."""
    return [it["host"] for it in facility.bp_json("lease")["mounts"] if ":python[" in it["host"]]


def test_what_is_written_is_seen_by_programs_and_mounts_at_once(
    shared: Facility, client: backplane.Facility, mounts: tuple[Path, Path]
) -> None:
    here, there = mounts
    with client.open_shared("/data", "x+b") as file:
        file.write(b"0123456789")
        assert (here / "data").read_bytes() == b"0123456789"
        with (there / "data").open("r+b", buffering=0) as other:
            other.seek(3)
            other.write(b"abc")
            assert file.read_at(0) == b"012abc6789", "nobody has synced or closed"
        file.seek(-1, os.SEEK_END)
        assert file.write(b"xyz") == 3
        assert (file.size, file.tell(), (here / "data").stat().st_size) == (12, 12, 12)
        file.truncate(5)
        file.sync()
        assert shared.bp("cat", "/data").out == "012ab"
        with client.open_shared("/data", "rb") as reader:
            assert reader.read() == b"012ab"
            file.write_at(5, b"more")
            assert reader.read() == b"more"
            with pytest.raises(OSError, match="not writable"):
                reader.write(b"x")
    assert shared.bp("cat", "/data").out == "012abmore"
    with pytest.raises(NotFoundError, match="/nothing"):
        client.open_shared("/nothing", "r+b")
    with pytest.raises(backplane.ExistsError):
        client.open_shared("/data", "x+b")
    with pytest.raises(backplane.IsDirectoryError):
        client.open_shared("/", "r+b")
    with client.open_shared("/data", "w+b") as file:
        assert file.read() == b""


def test_large_pieces_and_holes_come_back(shared: Facility, client: backplane.Facility, tmp_path: Path) -> None:
    content = make_bytes(40 << 20, 1)
    with client.open_shared("/large", "w+b") as file:
        file.write_at(1 << 20, content)
        assert file.read_at(0) == bytes(1 << 20) + content
        buffer = bytearray(5 << 20)
        file.seek(3 << 20)
        assert file.readinto(buffer) == len(buffer)
        assert buffer == content[2 << 20 : 7 << 20]
    assert client.read_bytes("/large") == bytes(1 << 20) + content
    run("xrdcp", "-f", shared.url("/large"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == bytes(1 << 20) + content


def test_counts_under_locks_and_appends_lose_nothing(shared: Facility, client: backplane.Facility) -> None:
    client.write_bytes("/counter", b"0")
    with program(COUNT, shared, "first"), program(COUNT, shared, "second"), program(COUNT, shared, "third"):
        pass
    assert client.read_bytes("/counter") == b"150"
    lines = client.read_bytes("/lines").decode().split()
    assert sorted(lines) == ["first"] * 50 + ["second"] * 50 + ["third"] * 50
    shared.wait_until("they have ended their sessions", lambda: len(sessions(shared)) <= 1)


def test_locks_hold_against_programs_in_mounts(
    shared: Facility, client: backplane.Facility, mounts: tuple[Path, Path]
) -> None:
    here, _ = mounts
    client.write_bytes("/held", b"x")
    with client.open_shared("/held", "r+b") as file, (here / "held").open("r+b") as other:
        with file.locked(0, 10):
            with pytest.raises(BlockingIOError):
                fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 5)
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 10)
        fcntl.lockf(other, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="/held is locked by others"), file.locked(wait=False):
            pass
        with program(WAIT, shared) as waiter:
            assert waiter.stdout is not None
            assert waiter.stdout.readline() == "waits\n"
            shared.wait_until("it waits at the head", lambda: len(waits(shared)) == 1)
            waiter.send_signal(signal.SIGINT)
            assert waiter.stdout.readline() == "interrupted\n"
        shared.wait_until("nobody waits any more", lambda: waits(shared) == [])
        fcntl.lockf(other, fcntl.LOCK_UN)
        with file.locked(wait=False):
            pass


def test_a_lock_is_waited_for_by_threads_of_one_program(shared: Facility, client: backplane.Facility) -> None:
    client.write_bytes("/turns", b"")
    said: list[str] = []
    with client.open_shared("/turns", "r+b") as first, client.open_shared("/turns", "r+b") as second:

        def wait() -> None:
            with second.locked():
                said.append("second")

        with first.locked():
            waiter = threading.Thread(target=wait)
            waiter.start()
            shared.wait_until("the other thread waits", lambda: len(waits(shared)) == 1)
            said.append("first")
        waiter.join(DEADLINE)
    assert said == ["first", "second"]


def test_a_fork_opens_its_own(client: backplane.Facility) -> None:
    client.write_bytes("/forked", b"parent")
    with client.open_shared("/forked", "r+b") as file:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    file.read()
                except InvalidError as refused:
                    code = 0 if "forked" in str(refused) else 2
                with client.open_shared("/forked", "rb") as own:
                    code = code or (0 if own.read() == b"parent" else 3)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        file.write(b"PARENT")
    assert client.read_bytes("/forked") == b"PARENT"


def test_a_file_on_tape_is_recalled_and_changed(make_facility: Callable[..., Facility]) -> None:
    facility = make_facility()
    facility.up()
    facility.put_bytes(b"on tape", "/old")
    facility.archive_and_evict("/old")
    client = backplane.connect(facility.directory)
    with client.open_shared("/old", "r+b") as file:
        file.write_at(3, b"disk")
    assert client.read_bytes("/old") == b"on disk"


def test_the_kernel_has_no_part_in_it(shared: Facility) -> None:
    need_mounts()
    text = (
        "import backplane, sys; f = backplane.connect(sys.argv[1]).open_shared('/x', 'w+b'); f.write(b'1'); f.close()"
    )
    hidden = 'mount --bind /dev/null /dev/fuse && exec "$@"'
    run("unshare", "-m", "sh", "-c", hidden, "sh", sys.executable, "-c", text, shared.directory)
    assert shared.bp("cat", "/x").out == "1"


def test_what_an_evicted_program_had_not_synced_is_lost_and_it_is_told(
    shared: Facility, client: backplane.Facility
) -> None:
    shared.expect_log("the mount was writing to the file when it was evicted")
    file = client.open_shared("/evicted", "w+b")
    file.write(b"synced")
    file.sync()
    file.write(b" and not")
    own = [it for it in shared.bp_json("lease")["mounts"] if it["host"].endswith(f":python[{os.getpid()}]")]
    shared.bp("lease", "evict", str(max(it["client"] for it in own)))
    with pytest.raises(OSError, match="ended"):
        file.sync()
    file.close()
    assert "bp.unsynced" in shared.bp("stat", "/evicted").out
