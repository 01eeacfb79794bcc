"""The daemon as a service: what a service manager is told, what its journal is given, and the unit that starts it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clients import DEADLINE, missing, run
from conftest import MakeFacility
from facility import Facility

UNIT = Path(__file__).parent.parent / "packaging" / "systemd" / "bpd@.service"


@contextmanager
def manager(tmp_path: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """Listen as a service manager does; with it, the environment of what it starts."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(DEADLINE)
        yield listener, {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}


def told(listener: socket.socket, what: str) -> str:
    """Wait until the manager is told something; all that it was told."""
    text = ""
    while what not in text.splitlines():
        text += listener.recv(4096).decode() + "\n"
    return text


def daemon(facility: Facility) -> list[str | Path]:
    """Write the command that a unit has."""
    return [facility.bin / "bpd", "run", facility.directory, "--root-port=0", "--http-port=0"]


def test_a_service_manager_is_told(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    with (
        manager(tmp_path) as (listener, env),
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(daemon(facility), env=env, stderr=log) as process,
    ):
        assert "STATUS=the doors are open" in told(listener, "READY=1")
        facility.read_endpoints()
        assert facility.status()["name"], "told before the doors were open"
        for _ in range(3):
            told(listener, "WATCHDOG=1")
        process.terminate()
        told(listener, "STOPPING=1")
        assert process.wait(DEADLINE) == 0
    assert re.match(r"\d{4}-\d\d-\d\dT", (tmp_path / "log").read_text()), "a terminal is shown the time"


def test_the_journal_is_given_priorities_and_no_times(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    ours, theirs = socket.socketpair()
    with ours, theirs, manager(tmp_path) as (listener, env):
        found = os.fstat(theirs.fileno())
        env["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
        with subprocess.Popen(daemon(facility), env=env, stderr=theirs) as process:
            told(listener, "READY=1")
            process.terminate()
            assert process.wait(DEADLINE) == 0
        theirs.close()
        ours.settimeout(DEADLINE)
        lines = b"".join(iter(lambda: ours.recv(65536), b"")).decode().splitlines()
    assert any("facility is up" in line for line in lines)
    assert [line for line in lines if not re.match(r"<[3467]>[a-z_:]+: ", line)] == []


def test_the_unit_is_one(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze (Debian: systemd)")
    # Programs and manuals are where the packages put them, which is not here.
    unit = tmp_path / UNIT.name
    text = UNIT.read_text().replace("/usr/bin/bpd", shutil.which("true") or "/bin/true")
    unit.write_text(re.sub("^Documentation=.*\n", "", text, flags=re.MULTILINE))
    outcome = run("systemd-analyze", "verify", unit, check=False)
    # A key of systemd 254 that older ones leave out.
    lines = [line for line in outcome.text.splitlines() if "Unknown key 'DelegateSubgroup'" not in line]
    assert (outcome.code, "".join(lines).strip()) == (0, ""), outcome
