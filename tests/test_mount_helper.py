"""Mounting as hosts do it: by mount(8) and fstab(5), before the facility is there, and with options."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clients import DEADLINE, need, run
from conftest import SMALL
from facility import Facility
from mounting import mounted, need_mounts

MakeFacility = Callable[..., Facility]


@pytest.fixture
def shared(make_facility: MakeFacility) -> Facility:
    """Start a facility of one test."""
    need_mounts()
    facility = make_facility(**SMALL)
    facility.keep_ports()
    facility.up()
    return facility


def with_helper(facility: Facility, place: Path, script: str) -> str:
    """Run a script where mount(8) finds the helper: it looks for it in /sbin only, which is the host's."""
    need("unshare", "mount", "findmnt")
    helpers = place / "helpers"
    helpers.mkdir(exist_ok=True)
    (helpers / "mount.backplane").unlink(missing_ok=True)
    (helpers / "mount.backplane").symlink_to(facility.bin / "bp")
    sbin = Path("/sbin").resolve()
    overlay = f"mount -t overlay none -o lowerdir={shlex.quote(str(helpers))}:{sbin} {sbin}"
    if subprocess.run(["unshare", "-m", "sh", "-c", overlay], capture_output=True, check=False).returncode:
        pytest.skip("this host has no overlay file system, which shows a helper in /sbin for a test")
    return run("unshare", "-m", "sh", "-ec", f"{overlay}\n{script}", deadline=DEADLINE).out


def test_mount_and_fstab_mount_a_facility(shared: Facility, tmp_path: Path) -> None:
    place, log, table = tmp_path / "m", tmp_path / "log", tmp_path / "fstab"
    place.mkdir()
    shared.bp("mkdir", "/data")
    shared.put_bytes(b"text", "/data/file")
    spec = f"{shared.directory}:/data"
    options = f"rw,_netdev,x-systemd.automount,soft,allow_other,log={log}"
    table.write_text(f"{spec} {place} backplane {options} 0 0\n")
    script = f"""
        mount -t backplane {spec} {place} -o soft,log={log}
        cat {place}/file; echo
        findmnt -no SOURCE,FSTYPE {place}
        umount {place}
        mount -a -T {table}
        mount -a -T {table}
        findmnt -no OPTIONS {place}
        findmnt -no TARGET {place} | wc -l
        umount {place}
        mount -t backplane {spec} {place} -o ro,noexec,log={log}
        findmnt -no VFS-OPTIONS {place}
        echo no > {place}/new && echo written || echo refused
        umount {place}
        mount -t backplane {spec} {place} -o sofd 2>&1 || echo $?
    """
    lines = with_helper(shared, tmp_path, script).splitlines()
    assert lines[0] == "text"
    assert lines[1].split() == [spec, "fuse.backplane"]
    assert "allow_other" in lines[2]
    assert lines[3] == "1", "a second `mount -a` mounts nothing"
    assert {"ro", "noexec", "nosuid"} <= set(lines[4].split(","))
    assert lines[5] == "refused"
    assert "there is no option sofd" in lines[6]
    shared.wait_until("all mounts have ended", lambda: log.read_text().count("unmounted") == 3)


def test_a_mount_waits_for_a_facility_that_is_down_and_can_be_interrupted(shared: Facility, tmp_path: Path) -> None:
    place, log = tmp_path / "m", tmp_path / "log"
    place.mkdir()
    shared.down()
    command = [shared.bin / "bp", "--facility", shared.directory, "mount", "--log", log, place]
    given_up, patient = (subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2))
    for waiting in (given_up, patient):
        assert waiting.stdout is not None
        assert "waiting for it" in waiting.stdout.readline()
    # Not SIGINT: a test run in the background of a shell ignores that, and so would what it starts.
    given_up.terminate()
    assert given_up.wait(DEADLINE) == -signal.SIGTERM
    assert patient.poll() is None
    shared.up()
    assert patient.wait(DEADLINE) == 0
    for process in (given_up, patient):
        assert process.stdout is not None
        process.stdout.close()
    (place / "file").write_text("text")
    shared.bp("umount", place)
    shared.wait_until("its process has ended", lambda: "unmounted" in log.read_text())
    assert shared.read("/file") == b"text"


def test_a_soft_mount_of_a_facility_that_is_down_fails(shared: Facility, tmp_path: Path) -> None:
    shared.down()
    words = [shared.bin / "bp", "--facility", shared.directory, "mount", "--soft", "--log", tmp_path / "log", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60 + DEADLINE, check=False)
    assert done.returncode != 0
    assert "no facility runs in" in done.stderr


def test_a_file_on_tape_is_recalled_or_refused(xrootd: Facility, tmp_path: Path) -> None:
    need_mounts()
    facility = xrootd
    facility.put_bytes(b"on tape", "/file")
    facility.archive_and_evict("/file")
    with mounted(facility, tmp_path / "m", "--no-recall") as place:
        with pytest.raises(OSError) as refused:  # noqa: PT011  the number is what matters
            (place / "file").read_bytes()
        assert refused.value.errno == errno.EAGAIN
        assert os.getxattr(place / "file", "user.bp.state") == b"nearline"
        (place / "file").write_bytes(b"replaced")
        assert (place / "file").read_bytes() == b"replaced"
