"""Files of the life of a tape library: made from numbers, put, staged in a random order, and compared byte by byte."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from clients import make_bytes
from facility import ApiError, Facility

DEADLINE = 900.0
"""Seconds for one step of the full life."""
PATHS = 400
"""Paths of one command."""
SMALL_BELOW = 16 << 10
"""Smaller files share tape files."""


class LifeFile(NamedTuple):
    """One file; its bytes follow from its number."""

    path: str
    size: int
    seed: int

    @property
    def content(self) -> bytes:
        """Make its bytes."""
        return make_bytes(self.size, self.seed)

    @property
    def directory(self) -> str:
        """Name the directory that it is in."""
        return self.path.rpartition("/")[0]


def make_files(large: int, small: int, seed: int) -> list[LifeFile]:
    """Choose files: large ones in directories of 8, small ones in directories of 40."""
    rng = random.Random(seed)
    files = []
    for number in range(large):
        size = rng.randrange(SMALL_BELOW, 1_000_000)
        files.append(LifeFile(f"/life/large{number // 8:03}/f{number:05}", size, number))
    for number in range(small):
        size = rng.randrange(4_000) if number % 50 else 0
        files.append(LifeFile(f"/life/small{number // 40:03}/f{number:05}", size, large + number))
    return files


def by_directory(files: Sequence[LifeFile]) -> Iterator[tuple[str, list[LifeFile]]]:
    """Group files."""
    groups = defaultdict(list)
    for file in files:
        groups[file.directory].append(file)
    yield from groups.items()


class Life:
    """A facility and the files that it has.

    Parameters
    ----------
    facility
        Which is up.
    files
        What is put into it.
    scratch
        A directory for local files.
    """

    def __init__(self, facility: Facility, files: list[LifeFile], scratch: Path) -> None:
        self.facility = facility
        self.files = {file.path: file for file in files}
        self.scratch = scratch
        scratch.mkdir()

    def put_all(self) -> None:
        """Copy the files in, a directory at a time."""
        for directory, files in by_directory(list(self.files.values())):
            self.facility.bp("mkdir", "-p", directory)
            locals_ = []
            for file in files:
                local = self.scratch / file.path.rpartition("/")[2]
                local.write_bytes(file.content)
                locals_.append(local)
            self.facility.bp("put", "-q", *locals_, f"{directory}/", deadline=DEADLINE)
            for local in locals_:
                local.unlink()

    def each(self, verb: str, paths: Sequence[str], *options: str) -> None:
        """Run a verb on many paths."""
        for first in range(0, len(paths), PATHS):
            some = paths[first : first + PATHS]
            self.facility.bp(verb, "-q", *options, *some, deadline=DEADLINE)

    def archive_all(self, rng: random.Random) -> None:
        """Ask for tape copies in a random order, as if all directories were written at once, and wait."""
        paths = list(self.files)
        rng.shuffle(paths)
        self.each("archive", paths)
        self.facility.bp("archive", "-q", "-r", "--wait", "/life", deadline=DEADLINE)

    def stage_all(self, rng: random.Random) -> None:
        """Stage all files in a random order; whoever looks meanwhile sees whole files only."""
        paths = list(self.files)
        rng.shuffle(paths)
        with Watcher(self, rng.randrange(1 << 30)):
            self.each("stage", paths)
            self.each("wait", paths, "--online")

    def remove(self, directories: Sequence[str]) -> None:
        """Remove directories with everything in them."""
        self.facility.bp("rm", "-q", "-r", *directories, deadline=DEADLINE)
        self.files = {path: file for path, file in self.files.items() if file.directory not in directories}

    def compare_all(self) -> None:
        """Read every file, and compare every byte."""
        for directory, files in by_directory(list(self.files.values())):
            out = self.scratch / "out"
            out.mkdir()
            self.facility.bp("get", "-q", f"{directory}/*", out, deadline=DEADLINE)
            assert len(list(out.iterdir())) == len(files), directory
            for file in files:
                local = out / file.path.rpartition("/")[2]
                assert local.read_bytes() == file.content, file.path
                local.unlink()
            out.rmdir()

    def switches(self) -> tuple[int, int]:
        """Count, in the order of the tapes, where a file of another directory follows, and directories on volumes.

        The facility must be down.
        """
        rows = self.facility.query(
            "SELECT c.vid, n.parent FROM copy c JOIN node n ON n.id = c.file ORDER BY c.vid, c.fseq, c.member_offset"
        )
        return sum(one != other for one, other in pairwise(rows)), len(set(rows))


class Watcher:
    """A reader that looks at random files all the time: one that is said to be on disk is there as a whole."""

    def __init__(self, life: Life, seed: int) -> None:
        self._facility = life.facility
        self._files = list(life.files.values())
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.wrong: list[str] = []
        self.read = 0

    def _run(self) -> None:
        while not self._stop.is_set():
            file = self._rng.choice(self._files)
            try:
                if self._facility.state(file.path) != "both":
                    # It lets the others work.
                    self._stop.wait(0.005)
                    continue
                if self._facility.read(file.path) != file.content:
                    self.wrong.append(file.path)
                self.read += 1
            except (ApiError, OSError) as cause:
                self.wrong.append(f"{file.path}: {cause}")
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self.wrong == [], "whole files, or none"
