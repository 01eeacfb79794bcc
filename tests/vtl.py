"""A tape library without hardware: Debian's tgt emulates drives and a changer behind iSCSI, in user space."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from clients import DEADLINE, missing, need
from facility import free_ports

IQN = "iqn.2026-11.test.backplane:library"
"""Name of the target; the changer is device 1, drives follow."""
CHANGER = 1
DRIVES = (2, 3)
SLOT, DRIVE = 1000, 500
"""Addresses of the first slot and the first drive."""
MODE_PAGES = (
    "0:0:0",
    "0x02:0:14:0x80:0x80:0:0xa" + ":0" * 10,
    "0x1a:0:18" + ":0" * 18,
    "0x1c:0:10:8" + ":0" * 9,
    "0x1d:0:0x12" + ":0" * 18,
    "0x1e:0:2:0:0",
    "0x1f:0:0x12:0x0f:7:0x0f:0x0f:0x0f:0x0f:0:0:0:0:0x0f:0x0f:0x0f:0x0f:0:0:0:0",
)
"""What a changer of this make says of itself."""


def need_vtl() -> None:
    """Skip the test where the emulation or the initiator is missing."""
    need("tgtd", "tgtadm", "tgtimg")
    if not any(Path("/usr/lib").glob("*/libiscsi.so.7")):
        missing("libiscsi.so.7 (Debian: libiscsi7)")
    if os.getuid() != 0:
        pytest.skip("tgtd runs as root only")


class Vtl:
    """An emulated library with blank cartridges.

    Parameters
    ----------
    volumes
        Labels of the cartridges; the bar codes end with `L9`.
    size_mib
        What each of them holds.
    """

    def __init__(self, *volumes: str, size_mib: int = 64) -> None:
        # The path of a medium must be short.
        self.directory = Path(tempfile.mkdtemp(prefix="bp-vtl-", dir="/run"))
        self.volumes = volumes
        self.size_mib = size_mib
        (self.port,) = free_ports(1)
        self.portal = f"127.0.0.1:{self.port}"
        self.tgtd: subprocess.Popen[bytes] | None = None

    def admin(self, *words: str, check: bool = True) -> bool:
        """Tell the emulation something."""
        command = ["tgtadm", "-C", str(self.port), "--lld", "iscsi", *words]
        outcome = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
        assert outcome.returncode == 0 or not check, f"{command}: {outcome.stderr.decode()}"
        return outcome.returncode == 0

    def start(self) -> None:
        """Start the emulation, with the cartridges where they were at first."""
        Path("/var/run/tgtd").mkdir(exist_ok=True)
        command = ["tgtd", "-f", "-C", str(self.port), "--iscsi", f"portal={self.portal}"]
        with (self.directory / "log").open("wb") as log:
            self.tgtd = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + DEADLINE
        while not self.admin("--op", "show", "--mode", "sys", check=False):
            assert time.monotonic() < end, (self.directory / "log").read_text()
            assert self.tgtd.poll() is None, (self.directory / "log").read_text()
        self.make_media()
        self.admin("--op", "new", "--mode", "target", "--tid", "1", "-T", IQN)
        for number, lun in enumerate(DRIVES):
            self.make_drive(number, lun)
        self.make_changer()
        self.admin("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")

    def make_media(self) -> None:
        """Make the cartridges, and what lies in an empty drive."""
        media = self.directory / "media"
        media.mkdir(exist_ok=True)
        made = [(media / f"{vid}L9", f"{vid}L9", str(self.size_mib), "data") for vid in self.volumes]
        made += [(self.directory / f"empty{lun}", "", "1", "clean") for lun in DRIVES]
        for path, bar_code, size, kind in made:
            if not path.exists():
                words = (f"--barcode={bar_code}", f"--size={size}", f"--type={kind}", f"--file={path}")
                subprocess.run(
                    ["tgtimg", "--op", "new", "--device-type", "tape", *words], check=True, capture_output=True
                )

    def unit(self, lun: int, *words: str) -> None:
        """Say something of a device."""
        self.admin("--op", "update", "--mode", "lu", "--tid", "1", "--lun", str(lun), "--params", *words)

    def make_drive(self, number: int, lun: int) -> None:
        """Make a drive."""
        new = ("--op", "new", "--mode", "lu", "--tid", "1", "--lun", str(lun), "--device-type=tape")
        self.admin(*new, "-b", str(self.directory / f"empty{lun}"))
        names = f"vendor_id=IBM,product_id=ULT3580-TD9,product_rev=0001,scsi_sn=DRV{number:05}"
        self.unit(lun, f"{names},removable=1,online=0")

    def make_changer(self) -> None:
        """Make the changer and its elements."""
        (self.directory / "smc").touch()
        new = ("--op", "new", "--mode", "lu", "--tid", "1", "--lun", str(CHANGER), "--device-type=changer")
        self.admin(*new, "-b", str(self.directory / "smc"))
        self.unit(CHANGER, "vendor_id=STK,product_id=L700,product_rev=0001,scsi_sn=LIB00001,removable=1")
        self.unit(CHANGER, f"media_home={self.directory / 'media'}")
        for page in MODE_PAGES:
            self.unit(CHANGER, f"mode_page={page}")
        slots = len(self.volumes) + 1
        for kind, first, count in ((1, 1, 1), (4, DRIVE, len(DRIVES)), (3, 10, 1), (2, SLOT, slots)):
            self.unit(CHANGER, f"element_type={kind},start_address={first},quantity={count}")
        for number, lun in enumerate(DRIVES):
            self.unit(CHANGER, f"element_type=4,address={DRIVE + number},tid=1,lun={lun}")
        for number, vid in enumerate(self.volumes):
            self.unit(CHANGER, f"element_type=2,address={SLOT + number},barcode={vid}L9,sides=1")

    def kill(self) -> None:
        """Switch it off."""
        if self.tgtd is not None:
            # It ignores polite requests while somebody is logged in.
            self.tgtd.kill()
            self.tgtd.wait()
            self.tgtd = None
            with suppress(FileNotFoundError):
                Path(f"/var/run/tgtd/socket.{self.port}").unlink()

    def remove(self) -> None:
        """Switch it off and forget the cartridges."""
        self.kill()
        shutil.rmtree(self.directory)

    def section(self, name: str, volume_size: str) -> str:
        """Write the section of facility.toml for it."""
        return f"""
[[tape.library]]
name = "{name}"
kind = "iscsi"
portal = "{self.portal}"
target = "{IQN}"
changer_lun = {CHANGER}
drive_luns = {list(DRIVES)}
volume_size = "{volume_size}"
"""
