"""Two mounts of one facility: what programs do on one of them, others see on the other one at once."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from clients import DEADLINE, fails, make_bytes, need, run
from facility import Facility, kill_and_wait
from mounting import FORK, both, in_child, in_children, mounted, mounts, names_in, need_mounts, pid_of, shared

__all__ = ["both", "mounts", "shared"]


def lock(fd: int, kind: str, how: int, start: int = 0, length: int = 0) -> None:
    """Lock an open file in one of the two ways."""
    if kind == "flock":
        fcntl.flock(fd, how)
    else:
        fcntl.lockf(fd, how, length, start)


def can_lock(path: Path, kind: str, how: int, start: int = 0, length: int = 0) -> bool:
    """Try to lock a file, without waiting."""
    fd = os.open(path, os.O_RDWR)
    try:
        lock(fd, kind, how | fcntl.LOCK_NB, start, length)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(fd)


# One mount


def test_a_file_is_written_read_and_changed_in_place(both: tuple[Path, Path]) -> None:
    here, there = both
    data = make_bytes(3_000_001, 1)
    (here / "file").write_bytes(data)
    assert (here / "file").read_bytes() == (there / "file").read_bytes() == data
    with (there / "file").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"changed")
    changed = data[:1_000_000] + b"changed" + data[1_000_007:]
    assert (here / "file").read_bytes() == changed
    assert (here / "file").stat().st_size == len(data)
    os.truncate(here / "file", 10)
    os.truncate(here / "file", 20)
    assert (there / "file").read_bytes() == data[:10] + bytes(10)


def test_a_file_that_is_sealed_is_changed_in_place(shared: Facility, both: tuple[Path, Path]) -> None:
    here, there = both
    data = make_bytes(2_000_000, 2)
    shared.put_bytes(data, f"/{here.name}/file")
    with (here / "file").open("r+b") as file:
        file.write(b"new")
    assert (there / "file").read_bytes() == b"new" + data[3:]
    assert shared.read(f"/{here.name}/file") == b"new" + data[3:]


def test_names_are_made_moved_and_removed(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "directory").mkdir()
    (here / "directory" / "file").write_text("text")
    (there / "directory").rename(there / "moved")
    assert (here / "moved" / "file").read_text() == "text"
    with pytest.raises(OSError, match="not empty"):
        (here / "moved").rmdir()
    (here / "other").write_text("other")
    (here / "other").replace(here / "moved" / "file")
    assert (there / "moved" / "file").read_text() == "other"
    (there / "moved" / "file").unlink()
    (here / "moved").rmdir()
    assert names_in(there) == set()


def test_a_directory_that_does_not_fit_into_one_answer_is_listed_whole(both: tuple[Path, Path]) -> None:
    here, there = both
    names = {f"{number:03}-{'n' * 200}" for number in range(300)}
    for name in names:
        (here / name).touch()
    assert names_in(there) == names
    assert {entry.name for entry in os.scandir(there) if entry.is_file()} == names


def test_attributes_are_set(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "file").write_text("text")
    (here / "file").chmod(0o640)
    os.utime(here / "file", (1, 1_000_000))
    seen = (there / "file").stat()
    assert (oct(seen.st_mode), seen.st_mtime, seen.st_size) == ("0o100640", 1_000_000, 4)
    assert (seen.st_uid, seen.st_nlink) == (os.getuid(), 1)
    space = os.statvfs(here)
    assert 0 < space.f_bavail <= space.f_blocks


def test_links_are_followed_by_mounts_and_refused_by_doors(shared: Facility, both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "directory").mkdir()
    (here / "directory" / "file").write_text("text")
    (here / "link").symlink_to("directory/file")
    (here / "way").symlink_to("directory")
    (here / "loose").symlink_to("n" * 255 + "/ä")
    assert (there / "link").readlink() == Path("directory/file")
    assert (there / "link").read_text() == (there / "way" / "file").read_text() == "text"
    (there / "way" / "new").write_text("new")
    assert names_in(here / "directory") == {"file", "new"}
    assert (there / "link").lstat().st_size == len("directory/file")
    assert stat.S_ISLNK((there / "loose").lstat().st_mode)
    assert not (there / "loose").exists()
    os.utime(there / "loose", (1, 1_000_000), follow_symlinks=False)
    assert (here / "loose").lstat().st_mtime == 1_000_000
    path = f"/{here.name}"
    assert f"{path}/link is a symbolic link, not a file" in shared.bp_fails("cat", f"{path}/link").err
    assert "symbolic link" in fails("xrdcp", "-f", shared.url(f"{path}/link"), "/dev/null").err
    assert "symbolic link, not a directory" in shared.bp_fails("ls", f"{path}/way/file").err
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{shared.http}{path}/link")
    with refused.value as answer:
        assert (answer.code, b"symbolic link" in answer.read()) == (501, True)
    assert "lrwxrwxrwx" in shared.bp("ls", "-l", path).out
    shared.bp("mv", f"{path}/link", f"{path}/directory/link")
    shared.bp("rm", f"{path}/loose")
    assert names_in(there) == {"directory", "way"}
    (here / "directory" / "link").unlink()
    assert (there / "directory" / "file").read_text() == "text"


def test_special_files_are_those_of_the_host(both: tuple[Path, Path]) -> None:
    here, there = both
    os.mkfifo(here / "pipe")
    os.mknod(here / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(here / "socket"))
    kinds = {entry.name: stat.S_IFMT(entry.stat().st_mode) for entry in there.iterdir()}
    assert kinds == {"pipe": stat.S_IFIFO, "null": stat.S_IFCHR, "socket": stat.S_IFSOCK}
    assert (there / "null").stat().st_rdev == os.makedev(1, 3)
    writer = FORK.Process(target=(there / "pipe").write_text, args=("through the pipe",))
    writer.start()
    # The pipe of a host is in its kernel: both ends are opened through the same mount.
    assert (there / "pipe").read_text() == "through the pipe"
    writer.join(DEADLINE)
    assert writer.exitcode == 0


def test_attributes_of_users_and_of_the_facility(shared: Facility, both: tuple[Path, Path]) -> None:
    here, there = both
    file = here / "file"
    file.write_text("text")
    os.setxattr(file, "user.colour", b"blue\0green")
    assert os.listxattr(there / "file") == ["user.colour"]
    assert os.getxattr(there / "file", "user.colour") == b"blue\0green"
    os.setxattr(there / "file", "user.colour", b"", os.XATTR_REPLACE)
    assert os.getxattr(file, "user.colour") == b""
    for call, number in [
        (lambda: os.setxattr(file, "user.colour", b"", os.XATTR_CREATE), errno.EEXIST),
        (lambda: os.setxattr(file, "user.none", b"", os.XATTR_REPLACE), errno.ENODATA),
        (lambda: os.removexattr(file, "user.none"), errno.ENODATA),
        (lambda: os.getxattr(file, "user.bp.none"), errno.ENODATA),
        (lambda: os.setxattr(file, "user.bp.state", b"lost"), errno.EPERM),
        (lambda: os.setxattr(file, "trusted.x", b""), errno.EOPNOTSUPP),
        (lambda: os.setxattr(file, "user.large", b"x" * 65537), errno.E2BIG),
    ]:
        with pytest.raises(OSError) as refused:  # noqa: PT011  the number is what matters
            call()
        assert refused.value.errno == number
    assert os.getxattr(file, "user.bp.state") == b"live"
    described = run("curl", "-fsI", "-H", "Want-Digest: adler32", f"{shared.http}/{here.name}/file").out
    assert f"{zlib.adler32(b'text'):08x}" in described, "HEAD waits for the seal, as GET does"
    file.write_text("text")
    run("xrdcp", "-f", shared.url(f"/{here.name}/file"), "/dev/null")
    assert os.getxattr(file, "user.bp.state") == b"online"
    assert os.getxattr(there / "file", "user.bp.adler32").decode() == f"{zlib.adler32(b'text'):08x}"
    assert os.getxattr(file, "user.bp.disks") == b"main/disk1"
    os.removexattr(there / "file", "user.colour")
    assert os.listxattr(file) == []


def test_what_is_missing_is_refused_by_number(both: tuple[Path, Path]) -> None:
    here, _ = both
    (here / "file").touch()
    for call, number in [
        (lambda: os.link(here, here / "link"), errno.EPERM),
        (lambda: os.close(os.open(here, os.O_TMPFILE | os.O_RDWR)), errno.EOPNOTSUPP),
        (lambda: (here / "file").symlink_to("elsewhere"), errno.EEXIST),
        (lambda: (here / "file").readlink(), errno.EINVAL),
        (lambda: (here / ("n" * 256)).mkdir(), errno.ENAMETOOLONG),
        (lambda: (here / "file").mkdir(), errno.EEXIST),
        (lambda: names_in(here / "file"), errno.ENOTDIR),
    ]:
        with pytest.raises(OSError) as refused:  # noqa: PT011  the number is what matters
            call()
        assert refused.value.errno == number


# Locks


@pytest.mark.parametrize("kind", ["flock", "fcntl"])
def test_locks_hold_between_mounts(both: tuple[Path, Path], kind: str) -> None:
    here, there = both
    (here / "file").write_text("x" * 100)
    exclusive, shared = fcntl.LOCK_EX, fcntl.LOCK_SH
    fd = os.open(here / "file", os.O_RDWR)
    lock(fd, kind, exclusive)
    for place in both:
        assert not in_child(can_lock, place / "file", kind, exclusive)
        assert not in_child(can_lock, place / "file", kind, shared)
    os.close(fd)
    assert in_child(waits_for_lock, there / "file", kind, exclusive)
    fd = os.open(here / "file", os.O_RDWR)
    lock(fd, kind, shared)
    assert in_child(can_lock, there / "file", kind, shared)
    assert not in_child(can_lock, there / "file", kind, exclusive)
    other = "fcntl" if kind == "flock" else "flock"
    assert in_child(can_lock, there / "file", other, exclusive), "they know nothing of each other"
    os.close(fd)


def waits_for_lock(path: Path, kind: str, how: int) -> bool:
    """Lock a file, and wait for that."""
    fd = os.open(path, os.O_RDWR)
    lock(fd, kind, how)
    os.close(fd)
    return True


def test_ranges_are_locked_apart(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "file").write_text("x" * 100)
    fd = os.open(here / "file", os.O_RDWR)
    lock(fd, "fcntl", fcntl.LOCK_EX, 20, 10)
    assert in_child(can_lock, there / "file", "fcntl", fcntl.LOCK_EX, 0, 20)
    assert in_child(can_lock, there / "file", "fcntl", fcntl.LOCK_EX, 30, 0)
    assert not in_child(can_lock, there / "file", "fcntl", fcntl.LOCK_EX, 25, 1)
    assert not in_child(can_lock, there / "file", "fcntl", fcntl.LOCK_EX, 29, 0)
    lock(fd, "fcntl", fcntl.LOCK_UN, 20, 5)
    assert in_child(can_lock, there / "file", "fcntl", fcntl.LOCK_EX, 20, 5)
    os.close(fd)


def hold(path: Path, ready: Any) -> None:
    """Lock a file until this process is killed."""
    fd = os.open(path, os.O_RDWR)
    lock(fd, "fcntl", fcntl.LOCK_EX)
    ready.set()
    signal.pause()


@contextmanager
def holder(path: Path) -> Iterator[Any]:
    """Have a process hold a lock."""
    ready = FORK.Event()
    process = FORK.Process(target=hold, args=(path, ready))
    process.start()
    try:
        assert ready.wait(DEADLINE)
        yield process
    finally:
        process.kill()
        process.join()


def test_who_waits_gets_the_lock_of_a_process_that_is_killed(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "file").touch()
    with holder(there / "file") as process:
        assert not can_lock(here / "file", "fcntl", fcntl.LOCK_EX)
        process.kill()
        assert in_child(waits_for_lock, here / "file", "fcntl", fcntl.LOCK_EX)


def waits_in(mount: Path) -> bool:
    """Tell whether a lock is waited for through a mount."""
    threads = Path(f"/proc/{pid_of(mount)}/task").iterdir()
    return any((thread / "comm").read_text() == "mount-lock\n" for thread in threads)


def test_a_process_that_waits_for_a_lock_can_be_killed(
    shared: Facility, mounts: tuple[Path, Path], both: tuple[Path, Path]
) -> None:
    here, there = both
    (here / "file").touch()
    with holder(there / "file") as process:
        waiting = FORK.Process(target=waits_for_lock, args=(here / "file", "fcntl", fcntl.LOCK_EX))
        waiting.start()
        shared.wait_until("it waits for the answer of the mount", lambda: waits_in(mounts[0]))
        waiting.kill()
        waiting.join(DEADLINE)
        assert waiting.exitcode == -signal.SIGKILL
        process.kill()
        assert in_child(waits_for_lock, here / "file", "fcntl", fcntl.LOCK_EX), "the one that was killed has it not"


def count(path: Path, times: int) -> None:
    """Add one to a number in a file under a lock, again and again."""
    for _ in range(times):
        fd = os.open(path, os.O_RDWR)
        lock(fd, "fcntl", fcntl.LOCK_EX)
        number = int(os.pread(fd, 20, 0) or b"0")
        os.pwrite(fd, b"%020d" % (number + 1), 0)
        os.close(fd)


def test_a_counter_under_locks_loses_nothing(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "counter").write_text("0" * 20)
    in_children(count, [(place / "counter", 25) for place in (here, there, here, there)])
    assert int((there / "counter").read_text()) == 100


# Coherence


def test_the_next_open_sees_what_was_written(both: tuple[Path, Path]) -> None:
    for turn in range(25):
        writer, reader = both if turn % 2 else both[::-1]
        (writer / "file").write_text(f"{turn}" * (turn + 1))
        assert (reader / "file").read_text() == f"{turn}" * (turn + 1)


def test_an_open_file_shows_what_is_written_truncated_and_appended(both: tuple[Path, Path]) -> None:
    here, there = both
    writer = os.open(here / "file", os.O_RDWR | os.O_CREAT)
    reader = os.open(there / "file", os.O_RDWR)
    for turn in range(25):
        os.pwrite(writer, b"%064d" % turn, 0)
        assert os.pread(reader, 64, 0) == b"%064d" % turn
        os.ftruncate(writer, turn * 10)
        assert os.fstat(reader).st_size == turn * 10
    os.close(writer)
    os.close(reader)


def test_names_are_seen_at_once(both: tuple[Path, Path]) -> None:
    here, there = both
    for turn in range(25):
        (here / f"f{turn}").touch()
        assert f"f{turn}" in names_in(there)
        (there / f"f{turn}").rename(there / f"g{turn}")
        assert not (here / f"f{turn}").exists()
        assert (here / f"g{turn}").exists()


def replace(path: Path, times: int) -> None:
    """Move new files to a name."""
    for number in range(times):
        new = path.with_name(f"new{number}")
        new.touch()
        new.replace(path)


def test_a_name_whose_file_is_replaced_is_there_all_the_time(both: tuple[Path, Path]) -> None:
    here, there = both
    (there / "name").touch()
    replacing = FORK.Process(target=replace, args=(here / "name", 100))
    replacing.start()
    while replacing.is_alive():
        assert (there / "name").stat().st_size == 0
        (there / "name").open("rb").close()
    assert replacing.exitcode == 0


def append(path: Path, tag: str, times: int) -> None:
    """Write lines to the end of a file."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for turn in range(times):
        os.write(fd, f"{tag}{turn:06}\n".encode())
    os.close(fd)


def test_appends_of_both_are_all_there(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "file").touch()
    in_children(append, [(here / "file", "a", 50), (there / "file", "b", 50)])
    lines = (here / "file").read_text().splitlines()
    assert sorted(lines) == sorted(f"{tag}{turn:06}" for tag in "ab" for turn in range(50))


def make_all(directory: Path, names: list[str]) -> int:
    """Make files that must not exist; how many this process made."""
    won = 0
    for name in names:
        with suppress(FileExistsError):
            os.close(os.open(directory / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            won += 1
    return won


def test_a_file_that_must_not_exist_is_made_once(both: tuple[Path, Path]) -> None:
    names = [f"x{turn}" for turn in range(50)]
    assert sum(in_children(make_all, [(place, names) for place in both])) == len(names)


def test_a_file_that_is_removed_lives_until_it_is_closed(both: tuple[Path, Path]) -> None:
    here, there = both
    fd = os.open(here / "file", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"live")
    (there / "file").unlink()
    assert not (here / "file").exists()
    assert os.pread(fd, 4, 0) == b"live"
    os.pwrite(fd, b"still", 0)
    assert os.pread(fd, 5, 0) == b"still"
    os.close(fd)


def test_mapped_pages_are_seen_after_msync(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "file").write_bytes(bytes(8192))
    with (here / "file").open("r+b") as file, mmap.mmap(file.fileno(), 8192) as pages:
        pages[4096:4100] = b"mmap"
        pages.flush()
        assert (there / "file").read_bytes()[4096:4100] == b"mmap"


def insert(path: Path, tag: str, times: int) -> None:
    """Put rows into a database."""
    with sqlite3.connect(path, timeout=DEADLINE) as database:
        for turn in range(times):
            database.execute("insert into rows values (?)", (f"{tag}{turn}",))
            database.commit()


def test_a_database_with_writers_on_both_keeps_its_integrity(both: tuple[Path, Path]) -> None:
    here, there = both
    with sqlite3.connect(here / "rows.db") as database:
        database.execute("create table rows (name text primary key)")
    in_children(insert, [(here / "rows.db", "a", 5), (there / "rows.db", "b", 5)])
    with sqlite3.connect(there / "rows.db") as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        assert database.execute("select count(*) from rows").fetchone() == (10,)


# Doors


def test_doors_read_what_mounts_write_and_the_other_way_round(
    shared: Facility, both: tuple[Path, Path], tmp_path: Path
) -> None:
    need("xrdcp")
    here, there = both
    for turn in range(3):
        data, path = make_bytes(1_500_000 + turn, turn), f"/{here.name}/file"
        (here / "file").write_bytes(data)
        run("xrdcp", "-f", shared.url(path), tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == data
        with urllib.request.urlopen(shared.http + path) as answer:
            assert answer.read() == data
        data = make_bytes(1_000_000 + turn, 10 + turn)
        (tmp_path / "new").write_bytes(data)
        run("xrdcp", "-f", tmp_path / "new", shared.url(path))
        assert (here / "file").read_bytes() == (there / "file").read_bytes() == data


# Mounting


def test_a_part_is_mounted_and_unmounted(shared: Facility, both: tuple[Path, Path], tmp_path: Path) -> None:
    here, _ = both
    (here / "deep").mkdir()
    place = tmp_path / "part"
    place.mkdir()
    log = tmp_path / "part.log"
    shared.bp("mount", "--log", log, f"/{here.name}", place)
    assert names_in(place) == {"deep"}
    (place / "file").write_text("text")
    with (place / "file").open():
        assert "--lazy" in shared.bp_fails("umount", place).err
    others = [mount["host"] for mount in shared.bp_json("lease")["mounts"]]
    shared.bp("umount", place)
    assert not os.path.ismount(place)
    # The command waits for it.
    assert "unmounted" in log.read_text()
    left = [mount["host"] for mount in shared.bp_json("lease")["mounts"]]
    assert left == [where for where in others if str(place) not in where]
    assert (here / "file").read_text() == "text"
    assert "nothing is mounted" in shared.bp_fails("umount", place).err


def test_a_mount_that_cannot_be_says_why(shared: Facility, tmp_path: Path) -> None:
    refused = shared.bp_fails("mount", "--log", tmp_path / "log", "/no/such/directory", tmp_path)
    assert "/no/such/directory" in refused.err
    refused = shared.bp_fails("mount", "--log", tmp_path / "log", "/", tmp_path / "nowhere")
    assert "nowhere" in refused.err
    refused = fails(shared.bin / "bp", "-f", tmp_path, "mount", "--log", tmp_path / "log", tmp_path)
    assert str(tmp_path) in refused.err


def test_a_signal_unmounts_and_nothing_is_lost(shared: Facility, both: tuple[Path, Path], tmp_path: Path) -> None:
    here, _ = both
    place = tmp_path / "other"
    with mounted(shared, place):
        fd = os.open(place / here.name / "file", os.O_RDWR | os.O_CREAT)
        os.write(fd, b"not closed")
        os.kill(pid_of(place), signal.SIGTERM)
        shared.wait_until("it is unmounted", lambda: not os.path.ismount(place))
    with suppress(OSError):
        os.close(fd)
    assert (here / "file").read_bytes() == b"not closed"


def test_a_mount_that_was_killed_is_mounted_again(shared: Facility, tmp_path: Path) -> None:
    place = tmp_path / "killed"
    place.mkdir()
    shared.bp("mount", "--log", tmp_path / "killed.log", place)
    kill_and_wait(pid_of(place))
    with pytest.raises(OSError) as gone:  # noqa: PT011  the number is what matters
        names_in(place)
    assert gone.value.errno == errno.ENOTCONN
    with mounted(shared, place):
        names_in(place)


def test_calls_wait_for_a_head_that_is_started_anew(make_facility: Callable[..., Facility], tmp_path: Path) -> None:
    need_mounts()
    facility = make_facility()
    facility.keep_ports()
    facility.up()
    with mounted(facility, tmp_path / "m") as place:
        (place / "before").write_text("before")
        facility.kill()
        waiting = subprocess.Popen(["cat", place / "before"], stdout=subprocess.PIPE)
        facility.up()
        assert waiting.communicate(timeout=DEADLINE)[0] == b"before"
        (place / "after").write_text("after")
        assert (place / "after").read_text() == "after"


def change(path: Path) -> None:
    """Write to a file."""
    with path.open("r+b") as file:
        file.write(b"x")


def keep_open(path: Path, data: bytes, ready: Any) -> None:
    """Write to a file, and have it open until killed."""
    with path.open("r+b", buffering=0) as file:
        if data:
            file.write(data)
        ready.set()
        signal.pause()


@contextmanager
def kept_open(path: Path, data: bytes = b"") -> Iterator[None]:
    """Have a process of its own keep a file open."""
    ready = FORK.Event()
    process = FORK.Process(target=keep_open, args=(path, data, ready))
    process.start()
    assert ready.wait(DEADLINE)
    try:
        yield
    finally:
        process.kill()
        process.join(DEADLINE)


@contextmanager
def frozen(mount: Path) -> Iterator[None]:
    """Stop the process of a mount for a while. This process has no file open there: its children would close it."""
    pid = pid_of(mount)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_grant_that_came_for_a_process_that_was_killed_is_given_back(
    shared: Facility, mounts: tuple[Path, Path], both: tuple[Path, Path]
) -> None:
    here, there = both
    (here / "file").write_bytes(b".here")
    with kept_open(here / "file"), kept_open(there / "file", b"t"):
        with frozen(mounts[1]):
            killed = FORK.Process(target=change, args=(here / "file",))
            killed.start()
            shared.wait_until("the other one's grant is asked back", lambda: "asked back" in shared.bp("lease").out)
            killed.kill()
            killed.join(DEADLINE)
        in_child(change, here / "file")
    assert (there / "file").read_bytes() == b"xhere"
