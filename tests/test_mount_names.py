"""Names of mounts as POSIX has them: several of one file, of any bytes, exchanged; their times, and whose they are."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients import need, run
from facility import Facility
from mounting import both, in_child, mounted, mounts, names_in, shared

__all__ = ["both", "mounts", "shared"]

LIBC = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2


def rename(one: Path, other: Path, flags: int) -> None:
    """Rename with flags, as `renameat2` does."""
    at = -100
    if LIBC.renameat2(at, os.fsencode(one), at, os.fsencode(other), flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def refused(call: Callable[[], Any], number: int) -> bool:
    """Tell whether a call fails with this number."""
    with pytest.raises(OSError) as failure:  # noqa: PT011  the number is what matters
        call()
    return failure.value.errno == number


def test_a_file_has_several_names_through_every_door(shared: Facility, both: tuple[Path, Path], tmp_path: Path) -> None:
    need("xrdcp")
    here, there = both
    (here / "file").write_text("text")
    (here / "deep").mkdir()
    os.link(there / "file", there / "deep" / "link")
    assert (here / "file").samefile(here / "deep" / "link")
    assert (there / "deep" / "link").stat().st_nlink == 2
    (there / "deep" / "link").write_text("changed")
    assert (here / "file").read_text() == "changed"
    path = f"/{here.name}/deep/link"
    run("xrdcp", "-f", shared.url(path), tmp_path / "copy")
    with urllib.request.urlopen(shared.http + path) as answer:
        assert answer.read() == (tmp_path / "copy").read_bytes() == b"changed"
    assert "link" in shared.bp("ls", f"/{here.name}/deep").out
    (tmp_path / "new").write_text("by a door")
    run("xrdcp", "-f", tmp_path / "new", shared.url(path))
    assert (here / "file").read_text() == "by a door"
    shared.bp("rm", f"/{here.name}/file")
    assert names_in(there) == {"deep"}
    assert (there / "deep" / "link").read_text() == "by a door"
    assert (here / "deep" / "link").stat().st_nlink == 1
    (here / "deep" / "link").unlink()
    assert names_in(there / "deep") == set()


def test_a_file_that_is_open_and_has_no_name_has_no_links(both: tuple[Path, Path]) -> None:
    here, there = both
    fd = os.open(here / "file", os.O_RDWR | os.O_CREAT)
    os.link(here / "file", here / "link")
    (there / "file").unlink()
    assert os.fstat(fd).st_nlink == 1
    (there / "link").unlink()
    assert os.fstat(fd).st_nlink == 0
    assert os.write(fd, b"still") == 5
    os.close(fd)


def test_directories_count_those_in_them(both: tuple[Path, Path]) -> None:
    here, there = both
    assert there.stat().st_nlink == 2
    (here / "a" / "b").mkdir(parents=True)
    assert (there.stat().st_nlink, (there / "a").stat().st_nlink) == (3, 3)
    (there / "a" / "b").rename(there / "b")
    assert (here.stat().st_nlink, (here / "a").stat().st_nlink) == (4, 2)
    (here / "b").rmdir()
    assert there.stat().st_nlink == 3


def test_names_are_exchanged_or_not_replaced(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "one").write_text("one")
    (here / "other").mkdir()
    (here / "other" / "below").write_text("below")
    rename(there / "one", there / "other", EXCHANGE)
    assert (here / "other").read_text() == "one"
    assert (here / "one" / "below").read_text() == "below"
    assert refused(lambda: rename(here / "one", here / "none", EXCHANGE), errno.ENOENT)
    assert refused(lambda: rename(here / "one", here / "one" / "below", EXCHANGE), errno.EINVAL)
    assert refused(lambda: rename(here / "one", here / "other", NOREPLACE), errno.EEXIST)
    assert refused(lambda: rename(here / "one", here / "other", EXCHANGE | NOREPLACE), errno.EINVAL)
    rename(here / "other", here / "new", NOREPLACE)
    assert names_in(there) == {"one", "new"}


def test_times_are_kept_to_the_nanosecond(shared: Facility, both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "file").write_text("text")
    os.utime(here / "file", ns=(1_234_567_890_123_456_789, -987_654_321))
    (here / "to come").mkdir()
    os.utime(here / "to come", ns=(1, 4_000_000_000_000_000_003))

    def times(place: Path) -> list[int]:
        found = [(place / name).stat() for name in ("file", "to come")]
        return [time for it in found for time in (it.st_atime_ns, it.st_mtime_ns)]

    expected = [1_234_567_890_123_456_789, -987_654_321, 1, 4_000_000_000_000_000_003]
    assert times(here) == times(there) == expected
    # Sealing changes nothing of that: a door has it sealed.
    shared.bp("cat", f"/{here.name}/file")
    assert times(here) == times(there) == expected
    changed = (there / "file").stat().st_ctime_ns
    (here / "file").chmod(0o600)
    assert (there / "file").stat().st_ctime_ns > changed
    assert times(there) == expected


def test_names_of_any_bytes_come_back(shared: Facility, both: tuple[Path, Path]) -> None:
    here, there = both
    names = [b"\xff\xfe", b"line\nbreak", b"\x7f\x80", "Grüße".encode(), b"\xef\x9f\xbf", b"n" * 255, b"\xff" * 85]
    for name in names:
        with (here / os.fsdecode(name)).open("w") as file:
            file.write(name.hex())
    assert {os.fsencode(entry.name) for entry in there.iterdir()} == set(names)
    for name in names:
        assert (there / os.fsdecode(name)).read_text() == name.hex()
    (there / os.fsdecode(b"\xff\xfe")).rename(there / os.fsdecode(b"\xfd"))
    assert (here / os.fsdecode(b"\xfd")).exists()
    (here / "link").symlink_to(os.fsdecode(b"to \xff"))
    assert os.fsencode((there / "link").readlink()) == b"to \xff"
    for name in (b"n" * 256, b"\xff" * 86):
        assert refused((here / os.fsdecode(name)).mkdir, errno.ENAMETOOLONG)
    # Through doors they are text that a person can type, if need be.
    assert "\uf7fd" in shared.bp("ls", f"/{here.name}").out


def test_forty_links_are_followed_and_no_more(both: tuple[Path, Path]) -> None:
    here, there = both
    (here / "0").write_text("text")
    for level in range(1, 42):
        (here / str(level)).symlink_to(str(level - 1))
    assert (there / "40").read_text() == "text"
    assert refused((there / "41").read_text, errno.ELOOP)
    (here / "0").unlink()
    (here / "0").symlink_to("40")
    assert refused((there / "1").read_text, errno.ELOOP)
    assert (there / "0").readlink() == Path("40")


# Rights of each user


def as_user(uid: int, gids: list[int], work: Callable[..., Any], *arguments: Any) -> Any:
    """Do something with the rights of another user, in a process of its own."""
    return in_child(with_rights, uid, gids, work, arguments)


def with_rights(uid: int, gids: list[int], work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Give up all other rights."""
    os.setgroups(gids)
    os.setgid(gids[0])
    os.setuid(uid)
    return work(*arguments)


def number_of(work: Callable[..., Any], *arguments: Any) -> int:
    """Yield the number of a failure; 0: there is none."""
    try:
        work(*arguments)
    except OSError as failure:
        return failure.errno or -1
    return 0


# Numbers that have no name on any host.
ANN, BOB, PROD = 61_001, 61_002, 61_003


def test_each_user_of_a_host_has_their_own_rights(shared: Facility, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for above in tmp_path.parents:
        if above.stat().st_uid == os.getuid() and above.stat().st_mode & 0o001 == 0:
            above.chmod(above.stat().st_mode | 0o011)
    with mounted(shared, tmp_path / "rights", "--allow-other") as mount:
        mount.chmod(0o755)
        home = mount / "home of ann"
        home.mkdir(mode=0o700)
        os.chown(home, ANN, PROD)
        assert (home.stat().st_uid, home.stat().st_gid) == (ANN, PROD)
        file = home / "file"
        assert as_user(ANN, [PROD], number_of, file.write_text, "secret") == 0
        assert (file.stat().st_uid, file.stat().st_gid) == (ANN, PROD)
        assert as_user(BOB, [BOB], number_of, file.read_text) == errno.EACCES
        # A group counts that is not the first one.
        assert as_user(ANN, [PROD], number_of, os.chmod, home, 0o710) == 0
        assert as_user(ANN, [PROD], number_of, os.chmod, file, 0o640) == 0
        assert as_user(BOB, [BOB, PROD], file.read_text) == "secret"
        assert as_user(BOB, [BOB, PROD], number_of, file.write_text, "x") == errno.EACCES
        assert as_user(BOB, [BOB], number_of, file.read_text) == errno.EACCES
        assert as_user(BOB, [BOB, PROD], number_of, os.chmod, file, 0o666) == errno.EPERM
        assert as_user(ANN, [PROD], number_of, os.chown, file, BOB, -1) == errno.EPERM
        assert as_user(ANN, [PROD], number_of, os.chown, file, -1, BOB) == errno.EPERM
        # What is open stays open, whatever becomes of the way to it.
        assert as_user(ANN, [PROD], reads_after, home, file) == "secret"
        home.chmod(0o700)


def reads_after(directory: Path, file: Path) -> str:
    """Close a directory above a file that is open, and read it."""
    with file.open() as opened:
        directory.chmod(0)
        text = opened.read()
        directory.chmod(0o700)
    return text


def test_writing_takes_set_id_bits_away(shared: Facility, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with mounted(shared, tmp_path / "bits", "--allow-other") as mount:
        mount.chmod(0o755)
        place = mount / "set-id"
        place.mkdir()
        for work in (write_to, truncate):
            file = place / "program"
            file.touch()
            file.chmod(0o6777)
            assert stat.S_IMODE(file.stat().st_mode) == 0o6777
            assert as_user(BOB, [BOB], number_of, work, file) == 0
            assert stat.S_IMODE(file.stat().st_mode) == 0o777


def write_to(file: Path) -> None:
    """Write to the start of a file."""
    fd = os.open(file, os.O_WRONLY)
    os.pwrite(fd, b"x", 0)
    os.close(fd)


def truncate(file: Path) -> None:
    """Set the length of a file."""
    os.truncate(file, 3)
