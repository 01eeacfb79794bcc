"""A program that locks bytes of a file, as it is told.

It is a process of its own, not a fork of the tests: libraries that those have loaded start threads in forks, and nobody
is told of a deadlock whose program has another thread that could give a lock back.
"""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clients import DEADLINE

SPAWN = multiprocessing.get_context("spawn")


def work(path: Path, pipe: Any) -> None:
    """Do what comes through the pipe, and answer with 0 or the number of the error."""

    def interrupted(*_: object) -> None:
        raise InterruptedError(errno.EINTR, "a signal came")

    signal.signal(signal.SIGUSR1, interrupted)
    fd = os.open(path, os.O_RDWR)
    while (order := pipe.recv()) is not None:
        try:
            if isinstance(order, bytes):
                if order:
                    os.pwrite(fd, order, 0)
                else:
                    os.fsync(fd)
            else:
                fcntl.lockf(fd, order[0], 1, order[1])
        except OSError as failed:
            pipe.send(failed.errno)
        else:
            pipe.send(0)


class Locker:
    """The program, seen from the test."""

    def __init__(self, path: Path) -> None:
        """Start it."""
        self.pipe, end = SPAWN.Pipe()
        self.process = SPAWN.Process(target=work, args=(path, end))
        self.process.start()

    def start(self, byte: int, how: int = fcntl.LOCK_EX) -> None:
        """Have it lock a byte; it may wait."""
        self.pipe.send((how, byte))

    def outcome(self) -> int:
        """Wait until it has the lock, or the number with which it failed."""
        assert self.pipe.poll(DEADLINE), "it waits for ever"
        return self.pipe.recv()

    def lock(self, byte: int, how: int = fcntl.LOCK_EX) -> int:
        """Have it lock a byte, and wait for that."""
        self.start(byte, how)
        return self.outcome()

    def write(self, data: bytes) -> None:
        """Have it write to the file."""
        self.pipe.send(data)
        assert self.outcome() == 0

    def sync(self) -> int:
        """Have it make durable what it wrote; the number with which that failed."""
        self.pipe.send(b"")
        return self.outcome()

    def is_waiting(self) -> bool:
        """Tell whether it has not answered."""
        return not self.pipe.poll(0)


@contextmanager
def lockers(*paths: Path) -> Iterator[list[Locker]]:
    """Start programs; they are killed at the end."""
    programs = [Locker(path) for path in paths]
    try:
        yield programs
    finally:
        for program in programs:
            program.process.kill()
            program.process.join()
