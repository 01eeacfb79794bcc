"""Programs whose facility is away: they end when they want to, or are made to."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from clients import DEADLINE
from conftest import MakeFacility
from mounting import FORK, in_child, mounted, need_mounts


def hold(path: Path, ready: Connection) -> None:
    """Lock a file, and end when told to, without closing it."""
    with path.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        ready.send("ready")
        ready.recv()
        # As a program that is left by its last `return`: the kernel closes what is open.
        os._exit(0)


def take_lock(path: Path) -> str:
    """Take the lock that the other had, and read."""
    with path.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        return file.read()


@pytest.mark.parametrize("is_killed", [False, True], ids=["ends", "killed"])
def test_a_program_ends_while_its_facility_is_away(
    make_facility: MakeFacility, tmp_path: Path, is_killed: bool
) -> None:
    need_mounts()
    facility = make_facility()
    facility.keep_ports()
    facility.up()
    facility.put_bytes(b"text", "/f")
    with mounted(facility, tmp_path / "m") as mount:
        ours, theirs = multiprocessing.Pipe()
        program = FORK.Process(target=hold, args=(mount / "f", theirs))
        program.start()
        assert ours.recv() == "ready"
        facility.kill()
        if is_killed:
            os.kill(program.pid or 0, signal.SIGKILL)
        else:
            ours.send("end")
        program.join(DEADLINE)
        assert program.exitcode is not None, "it hangs in its last close"
        facility.up()
        # Its mount gives its lock back.
        assert in_child(take_lock, mount / "f") == "text"
