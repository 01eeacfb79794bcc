"""Runs a command to its end and reads what it cost: its own processor time, and that and the memory of a server."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
DEADLINE_S = 600.0
"""Seconds that one command may take."""
LOOK_S = 0.5
"""Seconds between two looks at the memory of a server."""


class CommandFailedError(Exception):
    """A command ended badly; the text says which and what it printed."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    seconds: float
    cpu_s: float
    out: str


@dataclass
class Memory:
    """Largest memory seen, in bytes: all that is resident, and the anonymous part of it."""

    resident: int = 0
    anonymous: int = 0


@dataclass
class Sample:
    """One run: what was moved or asked, and what it cost."""

    seconds: float
    operations: int
    bytes: int
    server_cpu_s: float | None
    client_cpu_s: float
    memory: Memory
    details: dict[str, object] = field(default_factory=dict)


def run(command: Sequence[str], env: Mapping[str, str] | None = None, deadline_s: float = DEADLINE_S) -> Ended:
    """Run a command to its end; raise unless it succeeds."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})}
    )
    timer = threading.Timer(deadline_s, process.kill)
    timer.start()
    errors: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(process.stderr, errors))
    reader.start()
    try:
        assert process.stdout is not None
        out = process.stdout.read()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        timer.cancel()
    seconds = time.monotonic() - began
    reader.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        said = (b"".join(errors) or out).decode(errors="replace").strip()
        raise CommandFailedError(f"{' '.join(command)}: ended with {process.returncode}: {said[-500:]}")
    return Ended(seconds, usage.ru_utime + usage.ru_stime, out.decode(errors="replace"))


def run_discarding(command: Sequence[str], env: Mapping[str, str] | None = None) -> Ended:
    """Run a command whose output is the data: it goes to the null device, as cheaply as the kernel can."""
    words = ["sh", "-c", 'exec "$@" > /dev/null', "sh", *command]
    return run(words, env)


def _drain(stream: IO[bytes] | None, into: list[bytes]) -> None:
    if stream is not None:
        into.append(stream.read())
        stream.close()


def tree(root: int) -> list[int]:
    """List a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children.setdefault(int(_stat_fields(int(entry.name))[1]), []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        process = queue.pop()
        found.append(process)
        queue.extend(children.get(process, []))
    return found


def _stat_fields(process: int) -> list[str]:
    """Read /proc/PID/stat from the state on: the name before it may have spaces and brackets."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(root: int) -> float:
    """Sum the processor time of a tree: all threads, those that ended, and children that ended."""
    ticks = 0
    for process in tree(root):
        with suppress(OSError):
            ticks += sum(int(value) for value in _stat_fields(process)[11:15])
    return ticks / TICKS_PER_S


def memory_now(root: int) -> Memory:
    """Sum the memory of a tree."""
    total = Memory()
    for process in tree(root):
        with suppress(OSError):
            for line in Path(f"/proc/{process}/status").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name == "VmRSS":
                    total.resident += int(rest.split()[0]) << 10
                elif name == "RssAnon":
                    total.anonymous += int(rest.split()[0]) << 10
    return total


@contextmanager
def watched_memory(root: int | None) -> Iterator[Memory]:
    """Look at the memory of a tree inside the block; the result keeps the largest values."""
    peak, stop = Memory(), threading.Event()
    if root is None:
        yield peak
        return

    def look() -> None:
        while True:
            now = memory_now(root)
            peak.resident = max(peak.resident, now.resident)
            peak.anonymous = max(peak.anonymous, now.anonymous)
            if stop.wait(LOOK_S):
                return

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def sampled(server: int | None, work: Callable[[], Sample]) -> Sample:
    """Do some work and note what the server spent on it."""
    with watched_memory(server) as peak:
        before = cpu_seconds(server) if server is not None else 0.0
        sample = work()
        if server is not None:
            sample.server_cpu_s = cpu_seconds(server) - before
    sample.memory = peak
    return sample
