"""Processes that use shared files at random through one mount, and write down all that they do for `history`."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from history import BLOCK, CELL, FOREIGN, Journal, Json, decode, encode

FORK = multiprocessing.get_context("fork")
FILES = 3
"""Files of blocks."""
BLOCKS = 12
"""Blocks of a file."""
NAMES = 2
PAUSE = 0.05
"""Seconds until something is tried again after a failure."""


def block_files() -> list[str]:
    """Name the files of blocks."""
    return [f"blocks{number}" for number in range(FILES)]


def prepare(directory: Path) -> None:
    """Make the files that exist from the start."""
    for name in (*block_files(), "log", "counter"):
        (directory / name).touch()


class Load:
    """What one process does.

    Parameters
    ----------
    journal
        Where it writes down what it does.
    directory
        Where the files are, through a mount.
    label
        A file that has the name of the mount; it gets another one when it is mounted again.
    seed
        From which all that it does follows.
    """

    def __init__(self, journal: Journal, directory: Path, label: Path, seed: str) -> None:
        self.journal, self.directory, self.label = journal, directory, label
        self.rng = random.Random(seed)
        self.opens = 0
        self.writes = 0

    def run(self, stop: Event) -> None:
        """Work until told to stop. What fails is in the journal, and something else is done next."""
        tasks = (self.use_blocks, self.use_blocks, self.use_blocks, self.append, self.use_names, self.count)
        while not stop.is_set():
            try:
                self.rng.choice(tasks)()
            except OSError:
                stop.wait(PAUSE)

    @contextmanager
    def opened(self, file: str, flags: int) -> Iterator[tuple[int, Json]]:
        """Open a file; yields what its operations have in common. Each close is an operation, too."""
        mount = self.label.read_text()
        fd = os.open(self.directory / file, flags | os.O_CREAT, 0o644)
        self.opens += 1
        common = {"mount": mount, "file": file, "fd": self.opens}
        try:
            if self.label.read_text() != mount:
                raise OSError(errno.EAGAIN, "it was mounted again meanwhile")
            yield fd, common
        finally:
            self.journal.record("close", lambda: os.close(fd), **common)

    def value(self, file: str, block: int) -> str:
        """Make a value that nobody has written before."""
        self.writes += 1
        return f"{file}/{block}/{self.journal.process}-{self.writes}"

    def use_blocks(self) -> None:
        """Read and write some blocks."""
        file = self.rng.choice(block_files())
        with self.opened(file, os.O_RDWR) as (fd, common):
            for _ in range(self.rng.randrange(1, 8)):
                block = self.rng.randrange(BLOCKS)
                count = self.rng.randrange(1, min(BLOCKS - block, 4) + 1)
                action = self.rng.random()
                if action < 0.4:
                    self.write_blocks(fd, common, block, count)
                elif action < 0.85:
                    self.read_blocks(fd, common, block, count)
                else:
                    self.journal.record("sync", lambda: os.fsync(fd), **common)

    def write_blocks(self, fd: int, common: Json, block: int, count: int) -> None:
        """Write blocks at once."""
        values = [self.value(common["file"], number) for number in range(block, block + count)]
        data = b"".join(map(encode, values))
        self.journal.record(
            "write", lambda: whole(os.pwrite(fd, data, block * BLOCK), data), **common, block=block, values=values
        )

    def read_blocks(self, fd: int, common: Json, block: int, count: int) -> None:
        """Read blocks at once."""

        def work() -> Json:
            data = os.pread(fd, count * BLOCK, block * BLOCK)
            cut = [data[at * BLOCK : (at + 1) * BLOCK] for at in range(count)]
            return {"values": [decode(one, common["file"], number) for number, one in enumerate(cut, block)]}

        self.journal.record("read", work, **common, block=block)

    def append(self) -> None:
        """Append records, or read all of them."""
        if self.rng.random() < 0.3:
            with self.opened("log", os.O_RDONLY) as (fd, common):
                self.journal.record("whole", lambda: {"values": records(fd)}, **common)
            return
        with self.opened("log", os.O_WRONLY | os.O_APPEND) as (fd, common):
            for _ in range(self.rng.randrange(1, 4)):
                self.writes += 1
                value = f"{self.journal.process}-{self.writes}"
                data = value.encode().ljust(CELL - 1, b".") + b"\n"
                self.journal.record("append", lambda: whole(os.write(fd, data), data), **common, values=[value])  # noqa: B023
            if self.rng.random() < 0.5:
                self.journal.record("sync", lambda: os.fsync(fd), **common)

    def use_names(self) -> None:
        """Move a new file to a name, look at the name, or remove it."""
        name = f"name{self.rng.randrange(NAMES)}"
        path = self.directory / name
        common = {"mount": self.label.read_text(), "file": name, "fd": 0}
        action = self.rng.random()
        if action < 0.5:
            self.journal.record("stat", lambda: {"values": [str(path.stat().st_ino)]}, **common)
        elif action < 0.7:
            self.journal.record("unlink", path.unlink, **common)
        else:
            self.writes += 1
            new = self.directory / f"new-{self.journal.process}-{self.writes}"
            fd = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            number = str(os.fstat(fd).st_ino)
            os.close(fd)
            self.journal.record("put", lambda: new.rename(path) and None, **common, values=[number])

    def count(self) -> None:
        """Count a number up under a lock."""
        with self.opened("counter", os.O_RDWR) as (fd, common):

            def work() -> Json:
                fcntl.lockf(fd, fcntl.LOCK_EX)
                number = int(os.pread(fd, 20, 0) or b"0")
                data = b"%020d" % (number + 1)
                whole(os.pwrite(fd, data, 0), data)
                os.fsync(fd)
                return {"values": [str(number), str(number + 1)]}

            self.journal.record("count", work, **common)


def whole(count: int, data: bytes) -> None:
    """Fail if not all was written."""
    if count != len(data):
        raise OSError(errno.EIO, f"{count} of {len(data)} bytes were written")


def records(fd: int) -> list[str]:
    """Read all records that were appended."""
    data = b""
    while piece := os.read(fd, 1 << 20):
        data += piece
    cells = [data[at : at + CELL] for at in range(0, len(data), CELL)]
    ours = [cell.endswith(b".\n") and len(cell) == CELL for cell in cells]
    return [cell.decode().rstrip(".\n") if good else FOREIGN for cell, good in zip(cells, ours, strict=True)]


def look(directory: Path, journal: Path, mount: str) -> None:
    """Read everything once."""
    label = journal.with_suffix(".label")
    label.write_text(mount)
    load = Load(Journal(journal, journal.name), directory, label, "look")
    for file in block_files():
        with load.opened(file, os.O_RDONLY) as (fd, common):
            load.read_blocks(fd, common, 0, BLOCKS)
    with load.opened("log", os.O_RDONLY) as (fd, common):
        load.journal.record("whole", lambda: {"values": records(fd)}, **common)
    for number in range(NAMES):
        path = directory / f"name{number}"
        common = {"mount": mount, "file": path.name, "fd": 0}
        try:
            load.journal.record("stat", lambda: {"values": [str(path.stat().st_ino)]}, **common)  # noqa: B023
        except FileNotFoundError:
            continue


def start(load: Load, stop: Event) -> BaseProcess:
    """Begin to work in a process of its own."""
    process = FORK.Process(target=load.run, args=(stop,), name=load.journal.process, daemon=True)
    process.start()
    return process
