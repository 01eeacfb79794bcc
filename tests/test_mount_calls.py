"""How many calls a mount makes to the head for what programs do with small files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients import run
from facility import Facility
from mounting import both, mounts, shared

__all__ = ["both", "mounts", "shared"]

FILES = 40
"""Files of one measurement."""
POLLS = 20
"""Calls that come meanwhile: leases are renewed, and the facility is looked at."""

Calls = Callable[[], int]


def calls_so_far(facility: Facility) -> int:
    """Count the calls to the management API since the start."""
    metrics = run("curl", "-sSf", f"{facility.http}/metrics").out
    name = 'backplane_door_requests_total{door="http"} '
    return next(int(line.removeprefix(name)) for line in metrics.splitlines() if line.startswith(name))


@contextmanager
def counted(facility: Facility) -> Iterator[Calls]:
    """Count the calls inside of the block, and while files are closed behind it."""
    before = calls_so_far(facility)
    yield lambda: calls_so_far(facility) - before


def returned(facility: Facility, directory: Path) -> bool:
    """Tell whether no file of a directory is open, or has a grant."""
    used = facility.bp_json("lease")["files"]
    return not any(file["path"].startswith(f"/{directory.name}/") for file in used)


@pytest.fixture
def here(both: tuple[Path, Path]) -> Path:
    """Show a directory whose names are cached."""
    assert not list(both[0].iterdir())
    return both[0]


def close_all(shared: Facility, here: Path) -> None:
    """Wait until the kernel has ended all opens: it does so behind the back of programs."""
    shared.wait_until("all files are closed", lambda: returned(shared, here))


def test_a_small_file_is_made_with_three_calls_and_read_with_two(shared: Facility, here: Path) -> None:
    with counted(shared) as calls:
        for number in range(FILES):
            (here / f"f{number}").write_bytes(b"x" * 1024)
        close_all(shared, here)
        assert calls() <= 3 * FILES + POLLS
    with counted(shared) as calls:
        for number in range(FILES):
            assert len((here / f"f{number}").read_bytes()) == 1024
        close_all(shared, here)
        assert calls() <= 2 * FILES + POLLS


def test_a_file_that_was_written_here_is_looked_at_without_a_call(shared: Facility, here: Path) -> None:
    for number in range(FILES):
        (here / f"f{number}").write_bytes(b"x" * number)
    close_all(shared, here)
    with counted(shared) as calls:
        for number in range(FILES):
            assert (here / f"f{number}").stat().st_size == number
        assert calls() <= POLLS


def test_a_file_is_handed_over_with_one_call_of_the_mount_that_had_it(
    shared: Facility, both: tuple[Path, Path]
) -> None:
    path = "turns"
    (both[0] / path).write_bytes(bytes(8))
    files = [os.open(mount / path, os.O_RDWR) for mount in both]
    try:
        with counted(shared) as calls:
            for turn in range(FILES):
                file = files[turn % 2]
                assert int.from_bytes(os.pread(file, 8, 0), "big") == turn
                os.pwrite(file, (turn + 1).to_bytes(8, "big"), 0)
            # A grant to read and one to write, which may wait; the other mount hears that it is asked, and returns.
            assert calls() <= 7 * FILES + POLLS
    finally:
        for file in files:
            os.close(file)
