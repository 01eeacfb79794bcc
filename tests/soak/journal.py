"""What a client asked for and what was acknowledged, written so that it outlives the client.

One line is one `write`, so whoever is killed leaves whole lines. A path may hold what was acknowledged last, or
anything that was begun after that.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

ABSENT = "absent"
"""What stands for no file."""


def sum_of(data: bytes) -> str:
    """Name a content: its sum and its size."""
    return f"{zlib.adler32(data):08x}-{len(data)}"


def make_content(seed: int, size: int, noise: bytes) -> bytes:
    """Make bytes that differ from seed to seed, at the speed of a copy."""
    block = struct.pack(">Q", seed) + noise[seed % 4096 :]
    return (block * (size // len(block) + 1))[:size]


@dataclass(frozen=True)
class Lost:
    """A connection that broke, which only a restart of the daemon may cause."""

    time: float
    text: str


class Journal:
    """The notes of one process.

    Parameters
    ----------
    file
        Where they are; what is there already is read first.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.trouble: list[str] = []
        self.lost: list[Lost] = []
        self.acknowledged = 0
        self._allowed: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        if file.exists():
            for line in file.read_text().splitlines():
                self._take(*line.split("\t", 3))
        self._fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def close(self) -> None:
        """Stop writing."""
        os.close(self._fd)

    def _take(self, when: str, verb: str, path: str, what: str) -> None:
        if verb == "begin":
            self._allowed.setdefault(path, {ABSENT}).add(what)
        elif verb == "end":
            self._allowed[path] = {what}
            self.acknowledged += 1
        elif verb == "lost":
            self.lost.append(Lost(float(when), what))
        else:
            self.trouble.append(f"{when} {path}: {what}")

    def _note(self, verb: str, path: str, what: str) -> None:
        when = f"{time.time():.3f}"
        what = " ".join(what.split())[:500]
        with self._lock:
            os.write(self._fd, f"{when}\t{verb}\t{path}\t{what}\n".encode())
            self._take(when, verb, path, what)

    def begin(self, path: str, what: str) -> None:
        """Note that a path may hold this from now on."""
        self._note("begin", path, what)

    def end(self, path: str, what: str) -> None:
        """Note that this is acknowledged."""
        self._note("end", path, what)

    def lose(self, path: str, why: object) -> None:
        """Note that a connection broke."""
        self._note("lost", path, f"{why!r}")

    def complain(self, path: str, why: object) -> None:
        """Note what must not be."""
        self._note("trouble", path, f"{why}")

    def allowed(self, path: str) -> set[str]:
        """List what a path may hold."""
        with self._lock:
            return set(self._allowed.get(path, {ABSENT}))

    def paths(self) -> list[str]:
        """List all paths that were ever begun."""
        with self._lock:
            return sorted(self._allowed)
