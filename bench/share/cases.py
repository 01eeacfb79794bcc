"""What is done in the mounts: each function returns seconds or rates by name."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..measure import run
from .systems import System

Mounts = tuple[Path, Path]
Figures = dict[str, float]

MIB = 1 << 20
DEADLINE_S = 600.0
"""Seconds that a consumer waits for a producer."""


def make_tree(directory: Path, files: int) -> Path:
    """Make an archive of small text files in three levels of directories, always the same."""
    archive = directory / f"tree-{files}.cpio"
    tree = directory / "tree"
    chance = random.Random(1)
    words = [f"word{number}" for number in range(500)]
    for number in range(files):
        place = tree / f"d{number // 1000}" / f"s{number // 50 % 20}"
        place.mkdir(parents=True, exist_ok=True)
        count = chance.choice([300, 1000, 2000, 4000, 8000]) // 7
        text = " ".join(chance.choice(words) for _ in range(count))
        (place / f"f{number}.txt").write_text(text + ("\nNEEDLE\n" if number % 100 == 0 else "\n"))
    shell(directory, f"find tree -depth -print0 | cpio -0 -o --quiet -H newc > {archive}")
    shutil.rmtree(tree)
    return archive


def make_repository(directory: Path, files: int) -> Path:
    """Make a git repository with so many files."""
    repository = directory / "repository"
    for number in range(files):
        place = repository / f"d{number // 100}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"f{number}").write_text(f"{number}\n" * 50)
    identity = "-c user.name=bench -c user.email=bench@localhost"
    shell(repository, f"git init -q && git add . && git {identity} commit -qm files")
    return repository


def shell(directory: Path, script: str) -> str:
    """Run a pipeline in a directory; raise unless every part of it succeeds."""
    return run(["bash", "-o", "pipefail", "-ec", f'cd "{directory}"; {script}']).out


def timed(work: Callable[[], object]) -> float:
    """Measure the seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def tree(system: System, mounts: Mounts, archive: Path) -> Figures:
    """Do what users did in the 1990s: unpack through one mount, look and read through the other, remove."""
    first, second = (mount / "tree-test" for mount in mounts)
    first.mkdir()
    phases = {
        "cpio in": (first, f"cpio -idm --quiet < {archive}"),
        "ls -lR": (second, "ls -lR tree | wc -l"),
        "find": (second, "find tree -type f -size +1k | wc -l"),
        "grep -r": (second, "grep -r -l NEEDLE tree | wc -l"),
        "cpio out": (second, "find tree -print0 | cpio -0 -o --quiet -H newc | wc -c"),
        "rm -r": (first, "rm -r tree"),
    }
    figures = {}
    for name, (directory, script) in phases.items():
        if name == "ls -lR":
            system.forget()
        figures[name] = timed(lambda at=directory, what=script: shell(at, what))
    first.rmdir()
    return figures


def clone(_system: System, mounts: Mounts, repository: Path) -> Figures:
    """Clone a repository, which checks it out, and look through the other mount whether all is as it was."""
    target = mounts[0] / "clone"
    seconds = timed(lambda: run(["git", "clone", "-q", "--no-hardlinks", str(repository), str(target)]))
    status = timed(lambda: run(["git", "-C", str(mounts[1] / "clone"), "status", "--short"]))
    shutil.rmtree(target)
    return {"git clone": seconds, "git status by the other": status}


def metadata(_system: System, mounts: Mounts, program: Path, files: int, threads: int = 4) -> Figures:
    """Operations a second on small files, by several threads of one mount."""
    directory = mounts[0] / "metadata"
    directory.mkdir()
    lines = run([str(program), str(directory), str(files), str(threads)]).out.splitlines()
    shutil.rmtree(directory)
    done = [json.loads(line) for line in lines]
    return {one["op"]: one["operations"] / one["seconds"] for one in done}


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Open a file for the time of a block."""
    fd = os.open(path, flags, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def locks(_system: System, mounts: Mounts, rounds: int) -> Figures:
    """Microseconds of a lock that nobody else wants, and of a lock with eight bytes that go from mount to mount."""
    paths = [mount / "locked" for mount in mounts]
    flags = os.O_RDWR | os.O_CREAT

    def lock_and_unlock(fd: int) -> None:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        fcntl.lockf(fd, fcntl.LOCK_UN)

    def count(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        number = int.from_bytes(os.pread(fd, 8, 0), "little")
        os.pwrite(fd, (number + 1).to_bytes(8, "little"), 0)
        fcntl.flock(fd, fcntl.LOCK_UN)

    with opened(paths[0], flags) as first, opened(paths[1], flags) as second:
        alone = timed(lambda: [lock_and_unlock(first) for _ in range(rounds)])
        both = timed(lambda: [count(fd) for _ in range(rounds) for fd in (first, second)])
        counted = int.from_bytes(os.pread(second, 8, 0), "little")
    if counted != 2 * rounds:
        raise RuntimeError(f"{2 * rounds} increments under locks made {counted}")
    paths[0].unlink()
    return {"lock and unlock": alone / rounds * 1e6, "hand-over": both / (2 * rounds) * 1e6}


def blocks(_system: System, mounts: Mounts, size: int, most: int, is_direct: bool, is_locked: bool) -> Figures:
    """Bytes a second of one writer and then one reader, in blocks of so many bytes."""
    path = mounts[0] / "blocks"
    count = max(1, min(most // size, 2000))
    buffer = mmap.mmap(-1, size)
    buffer.write(os.urandom(min(size, MIB)) * (size // min(size, MIB)))
    view = memoryview(buffer)
    flags = os.O_DIRECT if is_direct else 0

    def each(fd: int, work: Callable[[int], int]) -> None:
        for number in range(count):
            if is_locked:
                fcntl.lockf(fd, fcntl.LOCK_EX, size, number * size)
            if work(number * size) != size:
                raise RuntimeError(f"{path} moved less than it was asked for")
            if is_locked:
                fcntl.lockf(fd, fcntl.LOCK_UN, size, number * size)

    def write() -> None:
        with opened(path, os.O_RDWR | os.O_CREAT | flags) as fd:
            each(fd, lambda offset: os.pwritev(fd, [view], offset))
            os.fsync(fd)

    def read() -> None:
        with opened(path, (os.O_RDWR if is_locked else os.O_RDONLY) | flags) as fd:
            each(fd, lambda offset: os.preadv(fd, [view], offset))

    figures = {"write": count * size / timed(write)}
    _system.forget()
    figures["read"] = count * size / timed(read)
    path.unlink()
    return figures


def producer(_system: System, mounts: Mounts, size: int, consumers: int) -> Figures:
    """Bytes a second that each of several consumers gets of a file while it grows; they take turns with the mounts."""
    made, block = mounts[0] / "produced", b"\1" * MIB
    made.touch()
    ends: list[float] = []

    def consume(path: Path) -> None:
        deadline, offset = time.monotonic() + DEADLINE_S, 0
        with opened(path, os.O_RDONLY) as fd:
            while offset < size and time.monotonic() < deadline:
                got = os.pread(fd, MIB, offset)
                if got.strip(b"\1"):
                    raise RuntimeError(f"{path} shows at {offset} what nobody wrote")
                offset += len(got)
                if not got:
                    time.sleep(0.001)
        ends.append(time.perf_counter())

    threads = [threading.Thread(target=consume, args=(mounts[number % 2] / "produced",)) for number in range(consumers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    with opened(made, os.O_WRONLY) as fd:
        for offset in range(0, size, MIB):
            os.pwrite(fd, block, offset)
    for thread in threads:
        thread.join()
    made.unlink()
    if len(ends) != consumers:
        raise RuntimeError("a consumer did not get everything")
    return {"slowest": size / (max(ends) - began), "fastest": size / (min(ends) - began)}


def compiled(directory: Path) -> Path:
    """Compile the program that makes operations on small files."""
    program = directory / "metadata"
    source = Path(__file__).with_name("metadata.c")
    subprocess.run(["cc", "-O2", "-pthread", "-o", program, source], check=True)
    return program
