"""Disks that fail under a running disk server: unmounted, read-only, one file that cannot be read."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import fails, need, run, write_file
from conftest import SMALL, MakeFacility, one_facility
from facility import Facility
from host import Host, hosts
from test_pools import are_whole, check_files, own_partition, partitions, replicas, write_files

NAMES = ("d1", "d2", "d3")
SLOW = 90.0
WORDS = (
    "silent for too long|in trouble|list of objects differs|mirror not written|copy failed|is damaged|no longer served"
    "|nothing is served from it|partition is"
    "|scan found a difference"
)


@dataclass(frozen=True)
class Disk:
    """A file system in a file, which is the partition of a disk server."""

    image: Path
    mount_point: Path

    def mount(self, *options: str) -> None:
        """Attach it."""
        run("mount", "-o", ",".join(("loop", *options)), self.image, self.mount_point)

    def unmount(self) -> None:
        """Take it away, whoever uses it."""
        run("umount", "--lazy", self.mount_point)

    def remount(self, how: str) -> None:
        """Make it `ro` or `rw`."""
        run("mount", "-o", f"remount,{how}", self.mount_point)


@contextmanager
def on_a_disk_of_its_own(host: Host, directory: Path) -> Iterator[Disk]:
    """Move the partition of a host to another file system; the host must be stopped."""
    need("mkfs.btrfs")
    if os.getuid() != 0:
        pytest.skip("only root can mount a file system")
    disk = Disk(directory / "disk.img", host.directory / "disk" / host.partition)
    with disk.image.open("wb") as image:
        image.truncate(512 << 20)
    # It has checksums of its own: what was changed on the medium is EIO for who reads it.
    run("mkfs.btrfs", "-q", "--mixed", "--data=single", "--metadata=single", disk.image)
    content = directory / "content"
    disk.mount_point.rename(content)
    disk.mount_point.mkdir()
    disk.mount()
    try:
        run("cp", "-a", f"{content}/.", disk.mount_point)
        yield disk
    finally:
        host.down()
        run("umount", "--lazy", disk.mount_point, check=False)


@dataclass(frozen=True)
class Case:
    """A facility of three disk servers in a pool with two copies; the disk of the first can be broken."""

    facility: Facility
    servers: list[Host]
    disk: Disk

    @property
    def victim(self) -> Host:
        """Whose disk it is."""
        return self.servers[0]

    def is_on(self, host: Host, path: str) -> bool:
        """Tell whether a file has a replica there."""
        return f"main/{host.partition}" in replicas(self.facility, path)

    def is_shown(self, key: str) -> bool:
        """Tell what is said of its partition."""
        return bool(partitions(self.facility)[self.victim.partition][key])


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    need("xrdcp")
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log(WORDS)
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("mkdir", "/m")
        with hosts(facility, tmp_path, *NAMES, size="256MiB") as servers:
            facility.bp("pool", "freeze", own_partition(facility))
            facility.bp("pool", "set", "main", "--copies=2", "--heard-bound=4s", "--silence-bound=8s")
            servers[0].down()
            with on_a_disk_of_its_own(servers[0], tmp_path) as disk:
                servers[0].up()
                name = servers[0].partition
                facility.wait_until("it may be chosen", lambda: not partitions(facility)[name]["is_given_up"])
                yield Case(facility, servers, disk)


def test_a_file_system_that_is_unmounted_under_us(case: Case, tmp_path: Path) -> None:
    facility = case.facility
    sources = write_files(facility, tmp_path)
    held = len(case.victim.objects())
    assert held > 0
    case.disk.unmount()
    facility.wait_until("nothing is sent there", lambda: not case.is_shown("is_available"))
    check_files(facility, sources, tmp_path)
    run("xrdcp", "-s", sources[0], facility.url("/m/while-it-is-away"))
    assert not case.is_on(case.victim, "/m/while-it-is-away")
    assert list(case.disk.mount_point.iterdir()) == [], "nothing is written below the mount point"
    assert "nothing is served from it" in case.victim.log.read_text()
    facility.wait_until(
        "all is whole without it", lambda: are_whole(facility, sources, away=case.victim.partition), SLOW
    )
    case.disk.mount()
    facility.wait_until("it is used again", lambda: case.is_shown("is_available"), SLOW)
    facility.wait_until("what is too much is gone", lambda: sum(len(one.objects()) for one in case.servers) == 26, SLOW)
    check_files(facility, sources, tmp_path)


def test_a_file_system_that_becomes_read_only(case: Case, tmp_path: Path) -> None:
    facility = case.facility
    sources = write_files(facility, tmp_path)
    case.disk.remount("ro")
    facility.wait_until("it is shown", lambda: case.is_shown("trouble"))
    check_files(facility, sources, tmp_path)
    for source in sources:
        place = f"/m/later-{source.name}"
        run("xrdcp", "-s", source, facility.url(place))
        assert not case.is_on(case.victim, place)
    assert case.is_shown("is_available"), "what is there is still read"
    assert case.victim.objects()
    # Started anew, it is known once, and not again and again.
    case.victim.down()
    case.victim.up()
    facility.wait_until("it is known", lambda: case.is_shown("trouble") and case.is_shown("is_available"))
    known = registrations(case.victim)
    case.disk.remount("rw")
    facility.wait_until("it is used again", lambda: not case.is_shown("trouble"))
    assert registrations(case.victim) == known


def registrations(host: Host) -> int:
    """Count how often a disk server has made itself known."""
    return host.log.read_text().count("registered with the head")


def test_a_file_that_the_disk_cannot_read(case: Case, tmp_path: Path) -> None:
    facility = case.facility
    sources = write_files(facility, tmp_path)
    source = next(one for one in sources if case.is_on(case.victim, f"/m/{one.name}"))
    place = f"/m/{source.name}"
    other = next(one for one in case.servers[1:] if case.is_on(one, place))
    case.victim.down()
    case.disk.unmount()
    damage(case.disk.image, source.read_bytes())
    case.disk.mount()
    case.victim.up()
    other.kill()
    facility.wait_until("the other is silent", lambda: not partitions(facility)[other.partition]["is_available"])
    refused = fails("xrdcp", "-s", "-f", facility.url(place), tmp_path / "back")
    assert re.search("Input/output error|Unable to read|error|ERROR", refused.text)
    other.up()

    # It is said to be damaged when somebody reads it; then it comes from the other one, and is made anew.
    def is_reported() -> bool:
        run("xrdcp", "-s", "-f", facility.url(place), tmp_path / "back", check=False)
        return "an object is damaged; rebuilding it" in facility.log.read_text()

    facility.wait_until("it is reported", is_reported)
    facility.wait_until("all is whole again", lambda: are_whole(facility, sources), SLOW)
    check_files(facility, sources, tmp_path)


def test_a_directory_of_another_facility_is_refused(make_facility: MakeFacility, tmp_path: Path) -> None:
    one, two = make_facility(), make_facility()
    one.up()
    one.put(write_file(tmp_path / "local", 100_000), "/f")
    mine, yours = ((facility.directory / "disk" / "disk1") for facility in (one, two))
    kept = yours.rename(tmp_path / "kept")
    yours.symlink_to(mine)
    before = sorted(one.objects_on_disk())
    for is_served in (True, False):
        refused = fails(two.bin / "bp", "up", two.directory, "--detach")
        assert "of facility" in refused.text
        assert "mount the right disk" in refused.text
        assert sorted(one.objects_on_disk()) == before
        if is_served:
            assert one.read("/f") == (tmp_path / "local").read_bytes()
            one.down()
    # One daemon at a time, also of the same facility.
    yours.unlink()
    kept.rename(yours)
    one.up()
    two.up()
    assert one.read("/f") == (tmp_path / "local").read_bytes()


def damage(image: Path, content: bytes) -> None:
    """Change a block in the middle of a file wherever it lies on the medium."""
    block = content[65536 : 65536 + 4096]
    with image.open("r+b") as file, mmap.mmap(file.fileno(), 0) as medium:
        at = medium.find(block)
        assert at >= 0, "the content lies in one piece somewhere"
        while at >= 0:
            medium[at : at + len(block)] = bytes(len(block))
            at = medium.find(block, at)
