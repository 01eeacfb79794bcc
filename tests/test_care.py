"""What pools do by themselves: full disks are collected, damage is found and repaired, new disks get their share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import SMALL, MakeFacility, one_facility
from facility import Facility, Json
from host import Host, hosts

MIB = 1 << 20
SLOW = 90.0
"""Deadline for what begins by itself some seconds later."""


def partition(facility: Facility, name: str) -> Json:
    """Show a partition."""
    partitions = [one for pool in facility.bp_json("pool", "list")["pools"] for one in pool["partitions"]]
    found: Json = next(one for one in partitions if one["name"] == name)
    return found


def write(facility: Facility, count: int, size: int) -> dict[str, bytes]:
    """Make files of random bytes."""
    content = {f"/care/f{number}": os.urandom(size) for number in range(count)}
    for path, data in content.items():
        facility.put_bytes(data, path)
    return content


def check(facility: Facility, content: dict[str, bytes], directory: Path) -> None:
    """Read all files back."""
    facility.bp("stage", "--wait", *content)
    for path, data in content.items():
        back = directory / "back"
        facility.bp("get", path, back)
        assert back.read_bytes() == data, path
        back.unlink()


def data_of(disk: Path, path: str) -> list[Path]:
    """Find the objects of a file below the directory of a partition."""
    described = disk.glob("objects/*/*.json")
    return [one.with_suffix("") for one in described if json.loads(one.read_text())["path"] == path]


def damage(file: Path) -> bytes:
    """Change a byte of an object behind everybody's back, and keep its size and times."""
    times = file.stat()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    with file.open("r+b") as opened:
        opened.write(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    return bytes(data)


def test_a_full_disk_is_collected(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(disk_size="8MiB")
    facility.up()
    content = write(facility, 7, MIB)
    paths = list(content)
    facility.bp("archive", "--wait", *paths[1:])
    facility.bp("stage", "--wait", "--pin=1h", paths[1])
    words = ("pool", "collect", "main", "--free=3MiB", "--dry-run")
    assert "more are needed" in facility.bp_fails(*words).err, "what was used within the hour stays"
    would = facility.bp_json(*words, "--age=0s")
    assert [file["path"] for file in would["files"]] == paths[2:5]
    assert "would leave" in facility.bp(*words, "--age=0s").text
    assert {facility.state(path) for path in paths[1:]} == {"both"}

    facility.bp("pool", "set", "main", "--low-water=20%", "--high-water=40%", "--collect-age=0s")
    facility.wait_until("the high water is reached", lambda: facility.state(paths[4]) == "nearline")
    states = [facility.state(path) for path in paths]
    assert states == ["online", "both", "nearline", "nearline", "nearline", "both", "both"]
    facility.wait_removals()

    # By hand: what may go goes, and what is missing is said.
    facility.bp("pool", "set", "main", "--low-water=0")
    refused = facility.bp_fails("pool", "collect", "main", "--free=7MiB", "--age=0s")
    assert paths[6] in refused.out
    assert "more are needed" in refused.err
    assert [facility.state(path) for path in paths[:2]] == ["online", "both"]
    check(facility, content, tmp_path)


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[tuple[Facility, list[Host]]]:
    """Run a head that stores nothing itself, and two disk servers of a pool with two copies."""
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log(r"scan found a difference|a damaged replica is no longer served|differs from the catalogue")
        facility.keep_ports(https=True)
        facility.up()
        with hosts(facility, tmp_path, "d1", "d2") as servers:
            facility.bp("pool", "freeze", "disk1")
            facility.bp("pool", "set", "main", "--copies=2", "--verify-interval=5s")
            yield facility, servers


def test_damage_is_found_and_repaired_from_the_other_replica(
    mirrored: tuple[Facility, list[Host]], tmp_path: Path
) -> None:
    facility, servers = mirrored
    content = write(facility, 4, 300_000)
    disk = servers[0].directory / "disk" / servers[0].partition
    (victim,) = data_of(disk, "/care/f2")
    rotten = damage(victim)
    kept = disk / "quarantine" / victim.name
    facility.wait_until("it is found and put aside", kept.exists, SLOW)
    assert kept.read_bytes() == rotten
    facility.wait_until("it is made anew", lambda: len(facility.stat("/care/f2")["replicas"]) == 2, SLOW)
    for server in servers:
        (data,) = data_of(server.directory / "disk" / server.partition, "/care/f2")
        assert data.read_bytes() == content["/care/f2"]
    facility.wait_until("all was verified", lambda: bool(partition(facility, servers[0].partition)["verified"]), SLOW)
    assert partition(facility, servers[0].partition)["damaged"] == 0
    check(facility, content, tmp_path)


def test_damage_is_repaired_from_tape_and_the_only_copy_is_kept(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.expect_log(r"scan found a difference|a damaged replica is no longer served")
    facility.up()
    facility.put_bytes(b"on tape" * 10_000, "/taped")
    facility.put_bytes(b"nowhere else" * 10_000, "/alone")
    facility.bp("archive", "--wait", "/taped")
    disk = facility.directory / "disk" / "disk1"
    (taped,), (alone,) = data_of(disk, "/taped"), data_of(disk, "/alone")
    damage(taped)
    damage(alone)
    facility.bp("pool", "set", "main", "--verify-interval=5s")

    def is_repaired() -> bool:
        found = data_of(disk, "/taped")
        return facility.state("/taped") == "both" and [taped] != found

    facility.wait_until("it is recalled", is_repaired, SLOW)
    assert facility.read("/taped") == b"on tape" * 10_000
    facility.wait_until("the other is reported", lambda: partition(facility, "disk1")["damaged"] == 1, SLOW)
    assert alone.exists()
    assert facility.state("/alone") == "online"
    assert "1 damaged" in facility.bp("pool", "list").out
    assert "no other copy" in facility.bp("scan", "report", "disk1").out


def test_a_new_disk_gets_its_share(tmp_path: Path) -> None:
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log("differs from the catalogue")
        facility.keep_ports(https=True)
        facility.up()
        with hosts(facility, tmp_path, "d1", size="10MiB") as (first,):
            facility.bp("pool", "freeze", "disk1")
            content = write(facility, 16, MIB // 2)
            assert len(first.objects()) == 16
            with hosts(facility, tmp_path, "d2", size="10MiB") as (second,):
                facility.wait_until("it has files", lambda: len(second.objects()) >= 6, SLOW)

                def is_even() -> bool:
                    pool = facility.bp_json("pool", "list")["pools"][0]
                    return pool["uneven_bytes"] == pool["copies_under_way"] == 0

                facility.wait_until("both are even", is_even, SLOW)
                facility.wait_until(
                    "what has moved is deleted", lambda: len(first.objects()) + len(second.objects()) == 16
                )
                assert len(first.objects()) >= 6
                check(facility, content, tmp_path)
