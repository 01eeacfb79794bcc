"""Mounts of a facility, and programs that use them.

A file of tests that names `shared`, `mounts` or `both` in its `__all__` has one facility for all of its tests.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from clients import DEADLINE
from conftest import SMALL, one_facility
from facility import Facility

FORK = multiprocessing.get_context("fork")


def need_mounts() -> None:
    """Go on only where this process may mount."""
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse: `modprobe fuse`")


def pid_of(directory: Path) -> int:
    """Find the process that serves a mount."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"mount"] and os.fsencode(directory) in words:
                return int(entry.name)
    raise AssertionError(f"no process serves {directory}")


@contextmanager
def mounted(facility: Facility, directory: Path, *options: str) -> Iterator[Path]:
    """Mount the facility; it is unmounted at the end, and the log has no error then."""
    # It may be there, and its mount dead, so that it does not look like a directory.
    with suppress(FileExistsError):
        directory.mkdir()
    log = directory.with_suffix(".log")
    facility.bp("mount", *options, "--log", log, directory)
    try:
        yield directory
    finally:
        if os.path.ismount(directory):
            facility.bp("umount", "--lazy", directory)
    facility.wait_until("the mount has ended", lambda: "unmounted" in log.read_text())
    assert "ERROR" not in log.read_text()


def in_child(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do something in a process of its own and take what it returns."""
    with FORK.Pool(1) as pool:
        return pool.apply_async(work, arguments).get(DEADLINE)


def in_children(work: Callable[..., Any], each: list[tuple[Any, ...]]) -> list[Any]:
    """Do something in several processes at once."""
    with FORK.Pool(len(each)) as pool:
        return pool.starmap_async(work, each, chunksize=1).get(DEADLINE)


def names_in(directory: Path) -> set[str]:
    """List a directory."""
    return {entry.name for entry in directory.iterdir()}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Start one facility for all tests of this file."""
    need_mounts()
    with one_facility(tmp_path_factory.mktemp("shared") / "facility", **SMALL) as facility:
        facility.up()
        yield facility


@pytest.fixture(scope="module")
def mounts(shared: Facility, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Mount it twice, as two hosts would."""
    place = tmp_path_factory.mktemp("mounts")
    with mounted(shared, place / "a") as first, mounted(shared, place / "b") as second:
        yield first, second


@pytest.fixture
def both(mounts: tuple[Path, Path], request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Make a directory for one test, and show it in both mounts."""
    name = request.node.name.translate(str.maketrans("[]/", "---"))
    (mounts[0] / name).mkdir()
    return mounts[0] / name, mounts[1] / name
