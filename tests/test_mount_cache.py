"""Names and attributes are cached by mounts and kernels; nobody sees an old one after somebody has seen a new one."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from clients import DEADLINE, need, run
from facility import Facility, kill_and_wait
from mounting import FORK, both, mounted, mounts, names_in, need_mounts, pid_of, shared

__all__ = ["both", "mounts", "shared"]

LEASE = 25.0
"""Seconds after which the head takes a mount that does not answer for one that serves nothing from its cache."""
PROCESSES = 8
"""Processes on each mount that work in one directory."""


@pytest.fixture(scope="module")
def facility(shared: Facility) -> Facility:
    """Name the facility of these tests as those of the other doors do."""
    return shared


def look(directory: Path, *names: str) -> dict[str, tuple[int, str] | None]:
    """Look at names in all the ways in which they may be cached."""
    seen: dict[str, tuple[int, str] | None] = {}
    for name in names:
        seen[name] = None
        with suppress(FileNotFoundError):
            found = (directory / name).stat()
            seen[name] = (found.st_size, oct(found.st_mode & 0o7777))
    listed = {entry.name: entry.stat() for entry in os.scandir(directory)}
    for name in names:
        if name in listed:
            assert (listed[name].st_size, oct(listed[name].st_mode & 0o7777)) == seen[name]
        else:
            assert seen[name] is None
    return seen


def test_what_one_mount_changes_the_other_one_sees_at_once(both: tuple[Path, Path]) -> None:
    names = ("file", "moved", "directory")
    for turn in range(20):
        here, there = both if turn % 2 else both[::-1]
        text = "x" * turn
        changes: list[tuple[Callable[[], object], tuple[object, object, object]]] = [
            (lambda p=here, t=text: (p / "file").write_text(t), ((turn, "0o644"), None, None)),
            (lambda p=here: (p / "file").chmod(0o600), ((turn, "0o600"), None, None)),
            (lambda p=here: os.truncate(p / "file", 100), ((100, "0o600"), None, None)),
            (lambda p=here: (p / "file").rename(p / "moved"), (None, (100, "0o600"), None)),
            (lambda p=here: (p / "directory").mkdir(0o755), (None, (100, "0o600"), (0, "0o755"))),
            (lambda p=here: (p / "moved").unlink(), (None, None, (0, "0o755"))),
            (lambda p=here: (p / "directory").rmdir(), (None, None, None)),
        ]
        for change, expected in changes:
            look(there, *names)
            change()
            assert tuple(look(there, *names).values()) == expected
            assert tuple(look(here, *names).values()) == expected


def test_what_doors_change_mounts_see_at_once(facility: Facility, both: tuple[Path, Path]) -> None:
    need("xrdfs")
    here, _ = both
    path = f"/{here.name}"
    root = facility.url("/").rstrip("/")
    names = ("file", "moved", "directory")

    def put(data: bytes) -> None:
        request = urllib.request.Request(f"{facility.http}{path}/file", data=data, method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status in (200, 201, 204)

    for turn in range(3):
        changes: list[tuple[Callable[[], object], tuple[object, object, object]]] = [
            (lambda t=turn: put(b"x" * (10 + t)), ((10 + turn, "0o644"), None, None)),
            (lambda t=turn: put(b"x" * (20 + t)), ((20 + turn, "0o644"), None, None)),
            (lambda: run("xrdfs", root, "chmod", f"{path}/file", "rw-------"), ((20 + turn, "0o600"), None, None)),
            (lambda: run("xrdfs", root, "mv", f"{path}/file", f"{path}/moved"), (None, (20 + turn, "0o600"), None)),
            (
                lambda: run("xrdfs", root, "mkdir", "-mrwxr-xr-x", f"{path}/directory"),
                (None, (20 + turn, "0o600"), (0, "0o755")),
            ),
            (lambda: facility.bp("rm", f"{path}/moved"), (None, None, (0, "0o755"))),
            (lambda: facility.bp("rmdir", f"{path}/directory"), (None, None, None)),
        ]
        for change, expected in changes:
            for place in both:
                look(place, *names)
            change()
            for place in both:
                assert tuple(look(place, *names).values()) == expected


def test_what_is_cached_needs_no_head(facility: Facility, both: tuple[Path, Path]) -> None:
    here, _ = both
    for number in range(20):
        (here / f"f{number}").write_text("x" * number)
    before = look(here, *names_in(here), "none")
    os.kill(facility.pid, signal.SIGSTOP)
    try:
        child = FORK.Process(target=stat_all, args=(here, before))
        child.start()
        # Less than what is left of the lease.
        child.join(10)
        assert child.exitcode == 0
    finally:
        os.kill(facility.pid, signal.SIGCONT)


def stat_all(directory: Path, expected: dict[str, tuple[int, str] | None]) -> None:
    """Look at names as often as a head could not be asked."""
    for _ in range(200):
        for name, seen in expected.items():
            found = None
            with suppress(FileNotFoundError):
                found = (directory / name).stat()
            assert (found is None) == (seen is None)
            assert found is None or found.st_size == seen[0]  # type: ignore[index]


def churn(directory: Path, tag: str, turns: int) -> None:
    """Make, rename and remove names in one directory."""
    for turn in range(turns):
        first, second = directory / f"{tag}-{turn}", directory / f"{tag}-{turn}-moved"
        first.touch()
        first.rename(second)
        assert not first.exists()
        assert second.exists()
        if turn % 2:
            second.unlink()
            assert not second.exists()
        names_in(directory)


def test_many_processes_of_both_work_in_one_directory(both: tuple[Path, Path]) -> None:
    turns = 6
    work = [
        (place, f"{tag}{number}", turns) for place, tag in zip(both, "ab", strict=True) for number in range(PROCESSES)
    ]
    children = [FORK.Process(target=churn, args=arguments) for arguments in work]
    for child in children:
        child.start()
    for child in children:
        child.join(4 * DEADLINE)
    assert [child.exitcode for child in children] == [0] * len(children)
    left = {f"{tag}{number}-{turn}-moved" for tag in "ab" for number in range(PROCESSES) for turn in range(0, turns, 2)}
    assert names_in(both[0]) == names_in(both[1]) == left


def watch(path: Path, old: int, told: str) -> None:
    """Stat a path again and again; note when each look began that has seen the old size."""
    with Path(told).open("w") as notes:
        while True:
            begun = time.monotonic()
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                size = -1
            if size != old:
                print("new", begun, file=notes, flush=True)
                return
            print("old", begun, file=notes, flush=True)


def test_a_frozen_mount_holds_others_up_for_a_lease_and_serves_nothing_old(
    facility: Facility, both: tuple[Path, Path], tmp_path: Path
) -> None:
    here, _ = both
    (here / "file").write_text("old")
    with mounted(facility, tmp_path / "frozen") as place:
        (place / here.name / "file").stat()
        notes = tmp_path / "notes"
        watcher = FORK.Process(target=watch, args=(place / here.name / "file", 3, str(notes)))
        watcher.start()
        facility.wait_until("it looks", lambda: notes.exists() and "old" in notes.read_text())
        pid = pid_of(place)
        os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        try:
            (here / "file").rename(here / "gone")
            done = time.monotonic()
        finally:
            os.kill(pid, signal.SIGCONT)
        watcher.join(DEADLINE)
        assert watcher.exitcode == 0
        looks = [line.split() for line in notes.read_text().splitlines()]
        assert looks[-1][0] == "new"
        assert all(float(when) <= done for what, when in looks if what == "old")
        # It renews the lease when it is waked, so that the bound is seen from there.
        assert done - begun < LEASE + DEADLINE
        assert names_in(place / here.name) == {"gone"}


def test_a_head_that_is_started_again_has_all_mounts_forget(
    make_facility: Callable[..., Facility], tmp_path: Path
) -> None:
    need_mounts()
    facility = make_facility()
    facility.keep_ports()
    facility.up()
    with mounted(facility, tmp_path / "m") as place, mounted(facility, tmp_path / "n") as other:
        for turn in range(2):
            (place / "file").write_text("x" * turn)
            look(other, "file", "none")
            facility.kill()
            facility.up()
            facility.bp("mv", "--replace", "/file", "/none")
            assert (
                look(other, "file", "none")
                == look(place, "file", "none")
                == {
                    "file": None,
                    "none": (turn, "0o644"),
                }
            )


def test_a_mount_that_was_killed_is_waited_for_once(
    facility: Facility, both: tuple[Path, Path], tmp_path: Path
) -> None:
    here, _ = both
    with suppress(FileExistsError):
        (tmp_path / "killed").mkdir()
    facility.bp("mount", "--log", tmp_path / "killed.log", tmp_path / "killed")
    (here / "file").touch()
    (tmp_path / "killed" / here.name / "file").stat()
    kill_and_wait(pid_of(tmp_path / "killed"))
    (here / "file").unlink()
    assert not (here / "file").exists()
    facility.bp("umount", "--lazy", tmp_path / "killed")
