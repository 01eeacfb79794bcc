"""Jobs that see the facility as a directory: real mounts, two users, and everything killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import MakeFacility
from facility import Facility, kill_and_wait
from mounting import need_mounts
from test_batch import SHELL, Gate, gate  # noqa: F401
from test_jobs_identity import User, printed, submit_by_token, users  # noqa: F401


@pytest.fixture(autouse=True)
def _may_mount() -> None:
    need_mounts()


def with_words(*words: str, below: str = "") -> list[int]:
    """Find the processes whose command line has these words in a row, and names something below a directory."""
    wanted = b"\0".join(os.fsencode(word) for word in words)
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
            if wanted in line and os.fsencode(below) in line:
                found.append(int(entry.name))
    return found


def run_dir(facility: Facility, job: int) -> str:
    """Name the directory of the first run of a job."""
    return str(facility.directory / "batch" / "runs" / f"{job}.1")


def server(facility: Facility, job: int) -> int:
    """Find the process that serves the mount of a job."""
    (pid,) = with_words(run_dir(facility, job), "--stage", "mount")
    return pid


def sessions(facility: Facility) -> list[str]:
    """List where the facility is mounted."""
    return [mount["host"] for mount in facility.call("get_mounts")["mounts"]]


def wait_written(facility: Facility) -> None:
    """Wait until a job has written a file by its mount."""
    facility.wait_until("it has written", lambda: facility.bp("stat", "/f", check=False).code == 0)


@pytest.fixture
def mounting(facility: Facility) -> Iterator[Facility]:
    """Start a facility whose worker mounts; no mount is left at the end."""
    facility.wait_until("a worker that mounts", lambda: "mount" in str(facility.status()["workers"]))
    yield facility
    runs = str(facility.directory / "batch" / "runs")
    facility.wait_until("all mounts have ended", lambda: not with_words("--stage", "mount", below=runs))
    assert runs not in Path("/proc/self/mounts").read_text()


def test_a_job_reads_and_writes_by_path_without_copies(mounting: Facility) -> None:
    mounting.bp("mkdir", "/data")
    mounting.put_bytes(b"b\na\n", "/data/in")
    script = """
        test -L in && readlink in && sort in > $BP_MOUNT/data/out && ls $BP_MOUNT/data
        stat -f -c %T $BP_MOUNT; grep -c " $BP_MOUNT fuse" /proc/self/mounts
    """
    job = mounting.submit("--mount", "--input", "/data/in", "--", *SHELL, script)
    words = printed(mounting, job).split()
    assert words[0].endswith("/data/in")
    assert words[1:] == ["in", "out", "fuseblk", "1"], words
    assert mounting.read("/data/out") == b"a\nb\n"
    assert sessions(mounting) == []


def test_two_users_have_their_own_rights(mounting: Facility, users: list[User]) -> None:  # noqa: F811
    ada, bob = users
    for user in users:
        mounting.bp("mkdir", f"/{user.name}")
        mounting.bp("chown", user.name, f"/{user.name}")
        mounting.bp("chmod", "700", f"/{user.name}")
    script = f"""
        echo mine > $BP_MOUNT/$USER/f && stat -c %U $BP_MOUNT/$USER/f
        for d in {ada.name} {bob.name}; do ls $BP_MOUNT/$d > /dev/null 2>&1 && echo sees $d; done; true
    """
    for user in users:
        job = user.submit(mounting, "--mount", "--", *SHELL, script)
        assert printed(mounting, job, user).split() == [user.name, "sees", user.name]
        assert mounting.stat(f"/{user.name}/f")["owner"] == user.name


def test_a_job_of_a_user_without_an_account_has_the_rights_of_that_user(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.configure("slot_uids", '"1900000000-1900000001"')
    facility.up()
    facility.bp("mkdir", "/ann")
    facility.bp("chown", "ann", "/ann")
    script = "id -u; echo x > $BP_MOUNT/ann/f; echo y > $BP_MOUNT/g"
    status, reply = submit_by_token(facility, "ann", script, mount=True)
    assert status == 200, reply
    info = facility.wait_job(reply["job"])
    assert info["state"] == "failed"
    assert facility.read("/ann/f") == b"x\n"
    assert facility.stat("/ann/f")["owner"] == "ann"
    assert facility.bp("stat", "/g", check=False).code == 3


def test_the_mount_is_where_the_operator_says_and_nobody_else_sees_it(
    make_facility: MakeFacility,
    shared: Path,
    gate: Gate,  # noqa: F811
) -> None:
    place = shared / "place"
    place.mkdir()
    facility = make_facility()
    facility.configure("mount", f'"{place}"')
    facility.up()
    script = f"echo hello > {place}/f && test $BP_MOUNT = {place} && read go < {gate.path} && cat {place}/f"
    job = facility.submit("--mount", "--", *SHELL, script)
    wait_written(facility)
    assert list(place.iterdir()) == []
    assert any(f"job {job}.1" in host for host in sessions(facility))
    gate.open()
    assert printed(facility, job) == "hello\n"
    assert list(place.iterdir()) == []


def test_a_mount_outlives_the_daemon_and_ends_with_its_job(
    make_facility: MakeFacility,
    gate: Gate,  # noqa: F811
) -> None:
    mounting = make_facility()
    mounting.keep_ports(https=True)
    mounting.up()
    script = f"echo before > $BP_MOUNT/f; read go < {gate.path}; echo after >> $BP_MOUNT/f; cat $BP_MOUNT/f"
    job = mounting.submit("--mount", "--", *SHELL, script)
    wait_written(mounting)
    mounting.kill()
    mounting.up()
    gate.open()
    assert printed(mounting, job).split() == ["before", "after"]
    assert mounting.read("/f") == b"before\nafter\n"


def test_a_mount_ends_with_a_shepherd_that_is_killed(mounting: Facility, gate: Gate) -> None:  # noqa: F811
    job = mounting.submit("--mount", "--", *SHELL, f"echo kept > $BP_MOUNT/f; read go < {gate.path}")
    wait_written(mounting)
    mounting.expect_log("the shepherd died; the run is lost")
    (shepherd,) = with_words(run_dir(mounting, job), "--stage", "inner")
    kill_and_wait(shepherd)
    assert mounting.wait_job(job)["exit"] == "lost"
    mounting.wait_until("its mount has ended", lambda: sessions(mounting) == [])
    assert mounting.read("/f") == b"kept\n"


def test_a_job_whose_mount_was_killed_fails(mounting: Facility, gate: Gate) -> None:  # noqa: F811
    script = f"echo x > $BP_MOUNT/f; read go < {gate.path}; ls $BP_MOUNT; exit 0"
    job = mounting.submit("--mount", "--", *SHELL, script)
    wait_written(mounting)
    kill_and_wait(server(mounting, job))
    gate.open()
    info = mounting.wait_job(job)
    assert info["state"] == "failed"
    assert "mount of the job" in info["reason"], info
    mounting.bp("lease", "evict", "1", check=False)


def test_a_job_whose_mount_hangs_can_be_cancelled(mounting: Facility, gate: Gate) -> None:  # noqa: F811
    script = f"echo x > $BP_MOUNT/f; read go < {gate.path}; exec ls $BP_MOUNT/nothing"
    job = mounting.submit("--mount", "--", *SHELL, script)
    wait_written(mounting)
    os.kill(server(mounting, job), signal.SIGSTOP)
    gate.open()
    nothing = run_dir(mounting, job) + "/mount/nothing"
    mounting.wait_until("it asks the mount", lambda: bool(with_words("ls", nothing)))
    mounting.bp("cancel", str(job))
    info = mounting.wait_job(job)
    assert (info["state"], info["exit"]) == ("cancelled", "cancelled")


def test_a_script_asks_for_a_mount(mounting: Facility, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#BP --mount\necho $0 > $BP_MOUNT/f\n")
    job = mounting.submit("--script", script)
    printed(mounting, job)
    assert mounting.read("/f") != b""
    assert "mount" in mounting.job(job)["spec"]["constraints"]
