"""A disk that forgets, when the power is cut, what was not synced."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from clients import DEADLINE, missing, until
from facility import binaries

MARK = "BACKPLANE_TEST_POWER"
"""Variable in the environment of all programs that stop when the power is cut."""


def need_forget_fs() -> None:
    """Go on only where a file system of this process can be mounted, and is built."""
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse: `modprobe fuse`")
    if not (binaries() / "forget-fs").exists():
        missing("forget-fs (`cargo build -p forget-fs`)")


class Disk:
    """The disk, mounted on a directory.

    Parameters
    ----------
    directory
        Where it is mounted.
    seed
        What decides what is lost.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.seed = seed
        directory.mkdir(exist_ok=True)
        words = [binaries() / "forget-fs", directory, f"--seed={seed}"]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    @property
    def environment(self) -> dict[str, str]:
        """What a program is given that stops when the power is cut."""
        return {MARK: str(self._process.pid)}

    def cut(self) -> str:
        """Cut the power: all programs that use the disk are killed, and what was not synced is lost.

        Yields what was lost. The disk is mounted again.
        """
        # Before the disk stands still: the environment of a program that waits for it cannot be read.
        marked = self._marked()
        losses = self._say("cut")
        doomed = _with_descendants(marked)
        kill(doomed)
        # Those that wait for the disk end now.
        self._say("mount")
        # A program may have been started since it was looked for.
        until("all programs that were killed have ended", lambda: not kill(doomed | self._marked()))
        return losses

    def end(self) -> None:
        """Unmount it."""
        self._process.communicate(timeout=DEADLINE)
        assert self._process.returncode == 0

    def _say(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, f"forget-fs ended with {self._process.wait(DEADLINE)}"
        return answer.strip()

    def _marked(self) -> set[int]:
        """Find the programs that bear the mark."""
        mark = f"{MARK}={self._process.pid}".encode()
        found = set()
        for pid in pids():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.add(pid)
        return found


def pids() -> list[int]:
    """List all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _with_descendants(programs: set[int]) -> set[int]:
    """Add all that these programs have started."""
    parents: dict[int, int] = {}
    for pid in pids():
        with suppress(OSError):
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    found = set(programs)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def kill(programs: set[int]) -> set[int]:
    """Kill programs; yields those that were there."""
    alive = {pid for pid in programs if _is_alive(pid)}
    for pid in alive:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return alive


def _is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and was not waited for does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    return False


def sync(path: Path) -> None:
    """Sync a file or a directory."""
    opened = os.open(path, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)


@contextmanager
def disk(directory: Path, seed: int) -> Iterator[Disk]:
    """Mount a disk; it is unmounted at the end."""
    mounted = Disk(directory, seed)
    try:
        yield mounted
    finally:
        mounted.end()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Read so many lines of what a program prints."""
    assert process.stdout is not None
    end = time.monotonic() + DEADLINE
    read = []
    for line in process.stdout:
        read.append(line.strip())
        if len(read) == count:
            return read
        assert time.monotonic() < end, f"only {len(read)} of {count} lines in {DEADLINE} s"
    raise AssertionError(f"it ended after {len(read)} lines")
