"""Files that are changed in place when the catalogue is lost: they are found on the disk servers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from clients import make_bytes, run
from conftest import SMALL
from facility import Facility, kill_and_wait
from mounting import need_mounts, pid_of

LOST = r"was restored|older than its disks|differs from the catalogue|not known|catalogue does not know|no session"
"""What is said while the head does not know its disks."""


def test_what_was_synced_comes_back(make_facility: Callable[..., Facility], tmp_path: Path) -> None:
    need_mounts()
    facility = make_facility(**SMALL)
    facility.expect_log(LOST)
    facility.up()
    place = tmp_path / "m"
    place.mkdir()
    facility.bp("mkdir", "/data")
    facility.put_bytes(b"sealed before", "/data/changed")
    facility.bp("mount", "--log", tmp_path / "log", place)
    data = make_bytes(300_000, 1)
    fds = [os.open(place / "data" / name, os.O_RDWR | os.O_CREAT) for name in ("new", "changed")]
    for fd in fds:
        os.pwrite(fd, data, 0)
        os.fsync(fd)
    assert facility.state("/data/new") == facility.state("/data/changed") == "live"
    facility.kill()
    kill_and_wait(pid_of(place))
    run("umount", "--lazy", place)
    for fd in fds:
        # Its mount is gone.
        with suppress(OSError):
            os.close(fd)
    for file in facility.directory.glob("catalogue.sqlite*"):
        file.unlink()
    run(facility.bin / "bpd", "rebuild", facility.directory)
    facility.up()
    said = facility.bp("admin", "recover").out
    # What the changed file had before may be there still.
    assert re.search(r"Added: [23] objects", said), said
    for path in ("/data/new", "/data/changed"):
        assert facility.read(path) == data
        assert facility.state(path) == "online"
    facility.bp("admin", "settle", "--unknown", "0")
