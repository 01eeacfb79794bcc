"""Coded pools: pieces on different disk servers, read with some of them away, made anew. Debian's xrdcp and curl judge."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import is_same, need, run
from conftest import SMALL, one_facility
from facility import Facility, Json
from host import Host, hosts

MIB = 1 << 20
NAMES = ("d1", "d2", "d3", "d4")
SLOW = 60.0
"""Deadline for what the head begins by itself after a silence."""


@pytest.fixture
def coded(tmp_path: Path) -> Iterator[tuple[Facility, list[Host]]]:
    """Run a head that stores nothing itself, and four disk servers of a pool that is coded 2+1."""
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log(r"silent for too long|roll call|copy failed|is damaged|mirror not written")
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("mkdir", "/c")
        with hosts(facility, tmp_path, *NAMES) as servers:
            own = next(name for name in partitions(facility) if not name.startswith(NAMES))
            facility.bp("pool", "freeze", own)
            words = ("--coding=2+1", "--heard-bound=4s", "--silence-bound=8s")
            facility.bp("pool", "set", "main", *words)
            yield facility, servers


def partitions(facility: Facility) -> dict[str, Json]:
    """Show all partitions by name."""
    found = [one for pool in facility.bp_json("pool", "list")["pools"] for one in pool["partitions"]]
    return {partition["name"]: partition for partition in found}


def files_short(facility: Facility) -> int:
    """Count files that miss pieces."""
    return sum(pool["files_short"] for pool in facility.bp_json("pool", "list")["pools"])


def pieces(facility: Facility, path: str) -> dict[int, str]:
    """Tell where the pieces of a file are."""
    found = facility.stat(path)["pieces"]
    return {piece["index"]: piece["place"].split("/")[1] for piece in found}


def are_whole(facility: Facility, paths: list[str], away: str = "") -> bool:
    """Tell whether every file has all its pieces, on servers that count."""
    if files_short(facility):
        return False
    all_places = [pieces(facility, path) for path in paths]
    return all(sorted(places) == [0, 1, 2] and away not in places.values() for places in all_places)


def write(facility: Facility, directory: Path) -> dict[str, Path]:
    """Write files of different sizes with xrdcp and curl."""
    written = {}
    for number, size in enumerate([0, 1, 5000, 3 * MIB + 17, 700_000]):
        source = directory / f"f{number}"
        source.write_bytes(os.urandom(size))
        run("xrdcp", "-s", "--cksum", "adler32:source", source, facility.url(f"/c/{source.name}"))
        written[f"/c/{source.name}"] = source
    source = directory / "by-curl"
    source.write_bytes(os.urandom(2 * MIB))
    run("curl", "-sSf", "--location", "--cacert", authority(facility), "--upload-file", source,
        f"{facility.endpoint('https')}/c/by-curl")  # fmt: skip
    written["/c/by-curl"] = source
    return written


def authority(facility: Facility) -> Path:
    """Find the certificate of the facility's authority."""
    return facility.directory / "tls" / "ca.pem"


def check(facility: Facility, written: dict[str, Path], directory: Path) -> None:
    """Read all files back, whole and in part."""
    for path, source in written.items():
        back = directory / "back"
        run("xrdcp", "-s", "-f", "--cksum", "adler32:source", facility.url(path), back)
        assert is_same(back, source), path
    source = written["/c/f3"]
    ranged = run("curl", "-sSf", "--location", "--cacert", authority(facility), "--range", "600000-1200000",
                 "--output", directory / "part", f"{facility.endpoint('https')}/c/f3")  # fmt: skip
    assert (directory / "part").read_bytes() == source.read_bytes()[600_000:1_200_001], ranged


def kill(facility: Facility, server: Host) -> None:
    """End a disk server, and wait until clients are not sent there any more."""
    server.kill()
    facility.wait_until("it is silent", lambda: not partitions(facility)[server.partition]["is_available"])


def objects(servers: list[Host]) -> int:
    """Count the objects on all disk servers."""
    return sum(len(server.objects()) for server in servers)


def data_of(server: Host, path: str) -> Path:
    """Find the piece of a file on the disk of a server."""
    described = (server.directory / "disk" / server.partition).glob("objects/*/*.json")
    (found,) = [one for one in described if json.loads(one.read_text())["path"] == path]
    return found.with_suffix("")


def server_of(servers: list[Host], partition: str) -> Host:
    """Find the server of a partition."""
    return next(server for server in servers if server.partition == partition)


def test_any_piece_may_be_missing(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp", "curl")
    facility, servers = coded
    written = write(facility, tmp_path)
    facility.wait_until("what was cut is gone", lambda: objects(servers) == 3 * len(written))
    assert are_whole(facility, list(written))
    assert "2+1: any 2 of 3 pieces give it" in facility.bp("stat", "/c/f3").out
    assert "2+1" in facility.bp("pool", "list").out
    check(facility, written, tmp_path)
    for server in servers:
        kill(facility, server)
        check(facility, written, tmp_path)
        server.up()
    facility.bp("rm", *written)
    facility.wait_until("all pieces are deleted", lambda: objects(servers) == 0)


def test_a_file_is_changed_in_place(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = coded
    source = tmp_path / "source"
    source.write_bytes(os.urandom(MIB))
    run("xrdcp", "-s", source, facility.url("/c/f"))
    before = pieces(facility, "/c/f")
    other = tmp_path / "other"
    other.write_bytes(os.urandom(MIB + 1))
    run("xrdcp", "-s", "-f", other, facility.url("/c/f"))
    facility.wait_until("the old pieces are gone", lambda: objects(servers) == 3)
    back = tmp_path / "back"
    run("xrdcp", "-s", facility.url("/c/f"), back)
    assert is_same(back, other)
    assert len(before) == 3


def test_a_damaged_piece_is_made_anew(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = coded
    source = tmp_path / "source"
    source.write_bytes(os.urandom(MIB))
    run("xrdcp", "-s", source, facility.url("/c/f"))
    victim = server_of(servers, pieces(facility, "/c/f")[0])
    damaged = data_of(victim, "/c/f")
    with damaged.open("r+b") as opened:
        opened.seek(1000)
        opened.write(b"damaged")
    back = tmp_path / "back"
    run("xrdcp", "-s", "--cksum", "adler32:source", facility.url("/c/f"), back)
    assert is_same(back, source)
    facility.wait_until("it is noticed", lambda: not damaged.exists(), SLOW)
    facility.wait_until("all is whole again", lambda: are_whole(facility, ["/c/f"]), SLOW)
    run("xrdcp", "-s", "-f", facility.url("/c/f"), back)
    assert is_same(back, source)


def test_a_lost_disk_server_costs_nothing(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp", "curl")
    facility, servers = coded
    written = write(facility, tmp_path)
    lost = server_of(servers, pieces(facility, "/c/f3")[0])
    lost.kill()
    facility.wait_until("it is given up", lambda: bool(partitions(facility)[lost.partition]["is_given_up"]), SLOW)
    away = lost.partition
    facility.wait_until("all is whole again", lambda: are_whole(facility, list(written), away), SLOW)
    check(facility, written, tmp_path)
    # A second one may be lost now.
    other = server_of([server for server in servers if server is not lost], pieces(facility, "/c/f3")[1])
    kill(facility, other)
    check(facility, written, tmp_path)
    for server in (lost, other):
        server.up()
    facility.wait_until("what is too much is gone", lambda: objects(servers) == 3 * len(written), SLOW)


def test_a_disk_that_lost_its_pieces_is_filled_again(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp", "curl")
    facility, servers = coded
    written = write(facility, tmp_path)
    facility.wait_until("what was cut is gone", lambda: objects(servers) == 3 * len(written))
    victim = servers[1]
    victim.down()
    for home in (victim.directory / "disk" / victim.partition / "objects").iterdir():
        shutil.rmtree(home)
        home.mkdir()
    victim.up()
    facility.wait_until("all is whole again", lambda: objects(servers) == 3 * len(written), SLOW)
    assert are_whole(facility, list(written))
    check(facility, written, tmp_path)


def test_a_drained_partition_gets_empty(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp", "curl")
    facility, servers = coded
    written = write(facility, tmp_path)
    drained = server_of(servers, pieces(facility, "/c/f3")[2])
    facility.bp("pool", "drain", drained.partition)
    facility.wait_until("it is empty", lambda: not drained.objects(), SLOW)
    assert are_whole(facility, list(written), drained.partition)
    check(facility, written, tmp_path)


def test_too_few_disk_servers_are_said_at_once(coded: tuple[Facility, list[Host]], sample: Path) -> None:
    facility, servers = coded
    for server in servers[2:]:
        facility.bp("pool", "freeze", server.partition)
    refused = facility.bp_fails("put", sample, "/c/alone")
    assert "is coded 2+1: each of 3 pieces needs a disk server of its own" in refused.text
    assert "/c/alone" not in facility.bp("ls", "/c").out
    warned = facility.bp("pool", "set", "main", "--coding=4+2")
    assert "needs 6 for 4+2" in warned.text
