"""The disk that forgets keeps what was synced, and forgets the rest: else the tests of power cuts say nothing."""

from __future__ import annotations

import fcntl
import mmap
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from power import Disk, disk, lines, need_forget_fs, sync

CUTS = 12

COMMITS = """
import sqlite3, sys
catalogue = sqlite3.connect(sys.argv[1], isolation_level=None)
catalogue.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
catalogue.execute(f"PRAGMA synchronous = {sys.argv[3]}")
catalogue.execute("PRAGMA wal_autocheckpoint = 20")
number = catalogue.execute("SELECT coalesce(max(number), 0) FROM done").fetchone()[0]
while True:
    number += 1
    catalogue.execute("INSERT INTO done VALUES (?, ?)", (number, "x" * (number * 37 % 5000)))
    print(number, flush=True)
"""


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Disk]:
    """Mount an empty disk."""
    need_forget_fs()
    with disk(tmp_path / "disk", seed=1) as mounted:
        yield mounted


def commits_lost(forgetful: Disk, journal: str, synchronous: str) -> int:
    """Count commits that SQLite acknowledged and that are gone after power cuts, and databases that are damaged."""
    database = forgetful.directory / "done.sqlite"
    made = sqlite3.connect(database)
    made.execute("CREATE TABLE done (number INTEGER PRIMARY KEY, filler TEXT)")
    made.close()
    sync(forgetful.directory)
    sync(database)
    lost = 0
    for cut in range(CUTS):
        words = [sys.executable, "-c", COMMITS, database, journal, synchronous]
        environment = {**os.environ, **forgetful.environment}
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as program:
            acknowledged = int(lines(program, 20 + 31 * cut)[-1])
            forgetful.cut()
            assert program.stdout is not None
            acknowledged = max([acknowledged, *map(int, program.stdout.read().split())])
        try:
            with closing(sqlite3.connect(database)) as left:
                assert left.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                (found,) = left.execute("SELECT coalesce(max(number), 0) FROM done").fetchone()
        except (sqlite3.DatabaseError, AssertionError):
            return lost + 1
        lost += max(0, acknowledged - found)
    return lost


@pytest.mark.parametrize(("journal", "synchronous"), [("WAL", "FULL"), ("DELETE", "EXTRA"), ("PERSIST", "FULL")])
def test_sqlite_loses_nothing_that_it_synced(forgetful: Disk, journal: str, synchronous: str) -> None:
    assert commits_lost(forgetful, journal, synchronous) == 0


# With FULL it does not sync the directory after it has deleted the journal, as its manual says.
@pytest.mark.parametrize(("journal", "synchronous"), [("WAL", "OFF"), ("WAL", "NORMAL"), ("DELETE", "FULL")])
def test_sqlite_loses_what_it_did_not_sync(forgetful: Disk, journal: str, synchronous: str) -> None:
    assert commits_lost(forgetful, journal, synchronous) > 0


def test_it_is_a_file_system(forgetful: Disk) -> None:
    here = forgetful.directory
    (here / "a").mkdir()
    (here / "a" / "file").write_bytes(b"one")
    os.link(here / "a" / "file", here / "second")
    (here / "link").symlink_to("a/file")
    os.mkfifo(here / "pipe")
    assert (here / "link").read_bytes() == b"one"
    assert (here / "second").stat().st_nlink == 2
    (here / "a" / "file").rename(here / "a" / "moved")
    assert {entry.name for entry in here.iterdir()} == {"a", "second", "link", "pipe"}
    (here / "many").mkdir()
    for number in range(1000):
        (here / "many" / f"file-{number:04}").touch()
    assert len(list((here / "many").iterdir())) == 1000
    (here / "second").chmod(0o600)
    os.chown(here / "second", 7, 8)
    os.utime(here / "second", ns=(1_000_000_001, 2_000_000_002))
    about = (here / "a" / "moved").stat()
    assert (about.st_mode & 0o777, about.st_uid, about.st_gid, about.st_mtime_ns) == (0o600, 7, 8, 2_000_000_002)
    with (here / "second").open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 10_000)
        mapped = mmap.mmap(file.fileno(), 10_000)
        mapped[5000:5006] = b"mapped"
        mapped.flush()
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (here / "second").unlink()
        assert os.pread(file.fileno(), 6, 5000) == b"mapped"
        assert os.lseek(file.fileno(), 0, os.SEEK_DATA) == 0
    direct = os.open(here / "direct", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    block = mmap.mmap(-1, 8192)
    block.write(b"d" * 8192)
    assert os.pwrite(direct, block, 4096) == 8192
    os.close(direct)
    assert (here / "direct").read_bytes() == bytes(4096) + b"d" * 8192
    assert os.statvfs(here).f_bavail > 0


def test_each_way_to_sync_keeps_a_file(forgetful: Disk) -> None:
    here = forgetful.directory
    for _ in range(CUTS):
        for name, flags in (("fsync", 0), ("fdatasync", 0), ("dsync", os.O_DSYNC), ("sync", os.O_SYNC), ("mmap", 0)):
            file = os.open(here / name, os.O_CREAT | os.O_RDWR | os.O_TRUNC | flags)
            os.write(file, name.encode() * 3000)
            if name == "mmap":
                mapped = mmap.mmap(file, 9000)
                mapped[:6] = b"mapped"
                mapped.flush()
            elif not flags:
                getattr(os, name)(file)
            os.close(file)
        sync(here)
        forgetful.cut()
        for name in ("fsync", "fdatasync", "dsync", "sync"):
            assert (here / name).read_bytes() == name.encode() * 3000, name
        assert (here / "mmap").read_bytes()[:6] == b"mapped"
