"""What waits for what: programs that wait for each other, who is told so, and what operators see of it."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clients import DEADLINE, make_bytes, need, run
from conftest import SMALL
from facility import Facility, Json
from locker import lockers
from mounting import mounted, mounts, need_mounts, pid_of, shared

__all__ = ["mounts", "shared"]


def files(facility: Facility) -> dict[str, Json]:
    """Files in use, by path."""
    return {file["path"]: file for file in facility.bp_json("lease")["files"]}


def waits_of(facility: Facility, path: str) -> list[Json]:
    """Who waits for a file."""
    return files(facility).get(path, {}).get("waits", [])


def is_blind(mount: Path) -> bool:
    """Tell whether the kernel hides calls of programs from a mount: then it claims no deadlock."""
    return "/syscall cannot be read" in mount.with_suffix(".log").read_text()


def logs(*mounts: Path) -> str:
    """Read what mounts have written into their logs."""
    return "\n".join(mount.with_suffix(".log").read_text() for mount in mounts)


def test_the_last_of_a_circle_is_told_and_the_others_go_on(shared: Facility, mounts: tuple[Path, Path]) -> None:
    here, there = mounts
    (here / "circle").write_text("abc")
    with lockers(here / "circle", there / "circle", here / "circle") as programs:
        for byte, program in enumerate(programs):
            assert program.lock(byte) == 0
        for byte, program in enumerate(programs[:2]):
            program.start(byte + 1)
            shared.wait_until("it waits", lambda count=byte + 1: len(waits_of(shared, "/circle")) == count)
        programs[2].start(0)
        is_told = programs[2].pipe.poll(DEADLINE / 2)
        assert is_told or any(map(is_blind, mounts)), f"it waits for ever: {logs(*mounts)}"
        if is_told:
            assert programs[2].outcome() == errno.EDEADLK
            assert programs[0].is_waiting()
            assert programs[1].is_waiting()
            programs[2].lock(2, fcntl.LOCK_UN)
        else:
            # One of the programs is killed, and the others go on.
            programs[2].process.kill()
        assert programs[1].outcome() == 0
        programs[1].lock(1, fcntl.LOCK_UN)
        assert programs[0].outcome() == 0


def test_a_mount_that_cannot_see_what_programs_do_claims_no_deadlock(
    shared: Facility, tmp_path: Path, mounts: tuple[Path, Path]
) -> None:
    need("setpriv")
    here, _ = mounts
    (here / "unseen").write_text("abc")
    blind = tmp_path / "blind"
    blind.mkdir()
    log = blind.with_suffix(".log")
    words = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", shared.bin / "bp", "mount"]
    run(*words, "--log", log, blind, env={"BP_FACILITY": str(shared.directory)})
    try:
        with lockers(here / "unseen", blind / "unseen") as (first, second):
            assert first.lock(0) == second.lock(1) == 0
            first.start(1)
            shared.wait_until("it waits", lambda: len(waits_of(shared, "/unseen")) == 1)
            second.start(0)
            shared.wait_until("it says why", lambda: is_blind(blind))
            assert first.is_waiting()
            assert second.is_waiting()
            first.process.kill()
            assert second.outcome() == 0
    finally:
        shared.bp("umount", blind)


def test_who_was_interrupted_waits_no_more_and_is_in_no_circle(shared: Facility, mounts: tuple[Path, Path]) -> None:
    here, there = mounts
    (here / "interrupted").write_text("abc")
    with lockers(here / "interrupted", there / "interrupted") as (first, second):
        assert first.lock(0) == second.lock(1) == 0
        for _ in range(5):
            first.start(1)
            shared.wait_until("it waits", lambda: len(waits_of(shared, "/interrupted")) == 1)
            os.kill(first.process.pid or 0, signal.SIGUSR1)
            assert first.outcome() == errno.EINTR
            assert waits_of(shared, "/interrupted") == [], "the head knows it when the program does"
        second.start(0)
        shared.wait_until("it waits", lambda: len(waits_of(shared, "/interrupted")) == 1)
        assert second.is_waiting()
        first.lock(0, fcntl.LOCK_UN)
        assert second.outcome() == 0
        # What was given up is not taken later, nor what was taken since given back.
        second.lock(1, fcntl.LOCK_UN)
        assert first.lock(1, fcntl.LOCK_EX | fcntl.LOCK_NB) == 0
        assert second.lock(1, fcntl.LOCK_EX | fcntl.LOCK_NB) == errno.EAGAIN


def test_flocks_in_a_circle_wait_as_on_linux(shared: Facility, mounts: tuple[Path, Path]) -> None:
    here, there = mounts
    for name in ("one", "two"):
        (here / name).touch()
    fds = [os.open(mount / name, os.O_RDWR) for mount, name in zip(mounts, ("one", "two"), strict=True)]
    for fd in fds:
        fcntl.flock(fd, fcntl.LOCK_EX)
    waiting = [
        subprocess.Popen(["flock", mount / name, "true"], pass_fds=fds)
        for mount, name in ((here, "two"), (there, "one"))
    ]
    shared.wait_until("both wait", lambda: all(len(waits_of(shared, path)) == 1 for path in ("/one", "/two")))
    for fd in fds:
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)
    assert [process.wait(DEADLINE) for process in waiting] == [0, 0]


def test_operators_see_who_waits_for_whom(shared: Facility, mounts: tuple[Path, Path]) -> None:
    here, there = mounts
    (here / "seen").write_text("abc")
    with lockers(here / "seen", there / "seen") as (first, second):
        assert first.lock(0) == 0
        second.start(0)
        shared.wait_until("it waits", lambda: len(waits_of(shared, "/seen")) == 1)
        [wait] = waits_of(shared, "/seen")
        number = {mount["host"].split(":")[1]: mount["client"] for mount in shared.bp_json("lease")["mounts"]}
        assert wait["client"] == number[str(there)]
        assert wait["what"] == f"an exclusive lock for its process {second.process.pid}"
        assert wait["why"].startswith(f"process {first.process.pid} of mount {number[str(here)]} of ")
        [opened] = [it for it in files(shared)["/seen"]["opens"] if it["client"] == number[str(here)]]
        assert opened["writers"] == 1
        for told in (shared.bp("why", "/seen").out, os.getxattr(here / "seen", "user.bp.waits").decode()):
            assert f"for an exclusive lock for its process {second.process.pid}: process {first.process.pid}" in told
        table = shared.bp("lease").out
        for words in ("waited", "because", "opened by"):
            assert words in table
        second.process.kill()
        shared.wait_until("the wait is gone", lambda: waits_of(shared, "/seen") == [])
    assert "is live" in shared.bp("why", "/seen").out


def test_who_is_evicted_is_fenced_and_others_go_on(shared: Facility, tmp_path: Path, mounts: tuple[Path, Path]) -> None:
    here, _ = mounts
    shared.expect_log("the mount was writing to the file when it was evicted")
    (here / "evicted").write_text("abc")
    other = tmp_path / "other"
    other.mkdir()
    # Its log says what was lost.
    shared.bp("mount", "--log", tmp_path / "log", other)
    with lockers(other / "evicted", here / "evicted") as (first, second):
        assert first.lock(0) == 0
        second.start(0)
        shared.wait_until("it waits", lambda: len(waits_of(shared, "/evicted")) == 1)
        first.write(b"lost")
        [mount] = [it for it in shared.bp_json("lease")["mounts"] if it["host"].endswith(":" + str(other))]
        shared.bp("lease", "evict", str(mount["client"]))
        assert second.outcome() == 0
        assert first.sync() == errno.EIO
        flag = os.getxattr(here / "evicted", "user.bp.unsynced").decode()
        assert f"mount {mount['client']} of " in flag
        assert flag.endswith("was evicted")
        assert "unsynced" in shared.bp("stat", "/evicted").out
        with pytest.raises(PermissionError):
            os.setxattr(here / "evicted", "user.bp.unsynced", b"")
        os.removexattr(here / "evicted", "user.bp.unsynced")
        with pytest.raises(OSError, match="No data available"):
            os.getxattr(here / "evicted", "user.bp.unsynced")
    shared.bp("umount", other)
    assert "ERROR" in (tmp_path / "log").read_text()
    assert "there is no mount 9999" in shared.bp_fails("lease", "evict", "9999").err


def test_a_door_that_waits_says_for_which_mount(make_facility: Callable[..., Facility], tmp_path: Path) -> None:
    need_mounts()
    facility = make_facility(**SMALL)
    facility.configure("recall_wait", '"2s"')
    facility.up()
    with mounted(facility, tmp_path / "m") as place:
        (place / "file").write_bytes(make_bytes(1000, 1))
        # Another process has it open: this one starts programs, which close what it has open, and that would wait, too.
        with lockers(place / "file") as [program]:
            assert program.lock(0) == 0
            program.write(b"x")
            [mount] = facility.bp_json("lease")["mounts"]
            # The mount is frozen: it does not return its grant.
            serving = pid_of(place)
            os.kill(serving, signal.SIGSTOP)
            try:
                refused = facility.bp_fails("cat", "/file").err
            finally:
                os.kill(serving, signal.SIGCONT)
        assert "tape" not in refused
        assert f"mount {mount['client']} of " in refused
