"""Coded pools: pieces on different disk servers, read with some away, made anew. Debian's xrdcp and curl judge."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uproot

from clients import has_bindings, is_same, missing, need, run
from conftest import SMALL, one_facility
from facility import Facility, Json
from host import Host, hosts, invite

MIB = 1 << 20
NAMES = ("d1", "d2", "d3", "d4")
COLUMNS = """
import sys, zlib
import uproot

total = 1
for chunk in uproot.iterate({sys.argv[1]: "events"}, ["x", "z"], step_size=7_777, library="np"):
    for name in ("x", "z"):
        total = zlib.adler32(chunk[name].tobytes(), total)
print(total)
"""
SLOW = 60.0
"""Deadline for what the head begins by itself after a silence."""


@pytest.fixture
def coded(tmp_path: Path) -> Iterator[tuple[Facility, list[Host]]]:
    """Run a head that stores nothing itself, and four disk servers of a pool that is coded 2+1."""
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log(r"silent for too long|differs from the catalogue|copy failed|is damaged|mirror not written")
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


def test_a_striped_file_is_on_several_disk_servers_and_needs_them_all(
    coded: tuple[Facility, list[Host]], tmp_path: Path
) -> None:
    need("xrdcp", "curl")
    facility, servers = coded
    refused = facility.bp("pool", "set", "main", "--stripe=4", check=False)
    assert "coded files are spread already" in refused.text
    facility.bp("pool", "set", "main", "--coding=none", "--stripe=4", "--stripe-unit=64KiB")
    written = write(facility, tmp_path)
    facility.wait_until("what was cut is gone", lambda: objects(servers) == 4 * len(written))
    assert sorted(pieces(facility, "/c/f3")) == [0, 1, 2, 3]
    sizes = [sum(server.objects().values()) for server in servers]
    assert max(sizes) < 1.2 * sum(sizes) / 4, "each has its part of the bytes, and nothing twice"
    assert sum(sizes) < 1.1 * sum(source.stat().st_size for source in written.values()) + 200_000
    assert "4+0" in facility.bp("pool", "list").out
    check(facility, written, tmp_path)
    other = tmp_path / "other"
    other.write_bytes(os.urandom(MIB + 1))
    run("xrdcp", "-s", "-f", other, facility.url("/c/f3"))
    written["/c/f3"] = tmp_path / "f3"
    written["/c/f3"].write_bytes(other.read_bytes() * 2)
    run("xrdcp", "-s", "-f", written["/c/f3"], facility.url("/c/f3"))
    kill(facility, servers[1])
    refused = run("xrdcp", "-s", "-f", facility.url("/c/f3"), tmp_path / "back", check=False)
    assert refused.code != 0
    assert facility.bp("stat", "/c/f3").out, "it is away, not lost"
    servers[1].up()
    facility.wait_until("it is read again", lambda: partitions(facility)[servers[1].partition]["is_available"])
    check(facility, written, tmp_path)
    facility.bp("pool", "drain", servers[0].partition, check=False)
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


def test_a_part_of_a_file_is_changed(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp", "xrdfs")
    facility, servers = coded
    content = os.urandom(2 * MIB)
    facility.put_bytes(content, "/c/f")
    run("xrdfs", facility.endpoint("root"), "truncate", "/c/f", str(MIB))
    assert facility.stat("/c/f")["size"] == MIB
    facility.wait_until("the old pieces are gone", lambda: objects(servers) == 3)
    back = tmp_path / "back"
    run("xrdcp", "-s", "--cksum", "adler32:source", facility.url("/c/f"), back)
    assert back.read_bytes() == content[:MIB]
    told = run("curl", "-sSf", "--location", "--head", "--cacert", authority(facility), "-H", "Want-Digest: md5",
               f"{facility.endpoint('https')}/c/f").out  # fmt: skip
    digest = base64.b64encode(hashlib.md5(content[:MIB], usedforsecurity=False).digest()).decode()
    assert f"md5={digest}" in told


def test_a_damaged_piece_is_made_anew(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = coded
    source = tmp_path / "source"
    source.write_bytes(os.urandom(MIB))
    run("xrdcp", "-s", source, facility.url("/c/f"))
    facility.wait_until("what was cut is gone", lambda: objects(servers) == 3)
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


def test_a_scan_finds_damaged_pieces_and_lost_ones(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    facility, servers = coded
    facility.expect_log(r"scan found a difference|replica is no longer served")
    content = os.urandom(MIB)
    facility.put_bytes(content, "/c/damaged")
    facility.put_bytes(content, "/c/lost")
    facility.put_bytes(content, "/c/good")
    facility.wait_until("what was cut is gone", lambda: objects(servers) == 9)
    victim = server_of(servers, pieces(facility, "/c/damaged")[1])
    name = victim.partition
    damaged = data_of(victim, "/c/damaged")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    facility.bp("scan", "start", name, "--checksum")
    facility.wait_until("it is scanned", lambda: scan_of(facility, name)["state"] == "done", SLOW)
    found = facility.bp_json("scan", "report", name)["findings"]
    assert [(one["path"], one["kind"]) for one in found] == [("/c/damaged", "wrong_checksum")]
    facility.bp("scan", "repair", name)
    facility.wait_until("it is mended", lambda: scan_of(facility, name)["state"] == "done", SLOW)
    facility.wait_until("all is whole again", lambda: are_whole(facility, ["/c/damaged"]), SLOW)
    victim = server_of(servers, pieces(facility, "/c/lost")[2])
    data_of(victim, "/c/lost").unlink()
    facility.bp("scan", "start", victim.partition)
    facility.wait_until("it is scanned", lambda: scan_of(facility, victim.partition)["state"] == "done", SLOW)
    facility.bp("scan", "repair", victim.partition)
    facility.wait_until("it is made anew", lambda: are_whole(facility, ["/c/lost"]), SLOW)
    for path in ("/c/damaged", "/c/lost", "/c/good"):
        back = tmp_path / "back"
        facility.bp("get", path, back)
        assert back.read_bytes() == content
        back.unlink()


def scan_of(facility: Facility, name: str) -> Json:
    """Read how far the scan of a partition has come."""
    scans: list[Json] = facility.bp_json("scan", "status")["scans"]
    return next(scan for scan in scans if scan["partition"] == name)


def test_pieces_tell_a_new_catalogue_what_they_are(coded: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp", "curl")
    facility, servers = coded
    facility.expect_log(r"was restored|older than its disks|not known|cannot report|partition failed|cannot ask|silent")
    written = write(facility, tmp_path)
    facility.wait_until("what was cut is gone", lambda: objects(servers) == 3 * len(written))
    facility.kill()
    for file in facility.directory.glob("catalogue.sqlite*"):
        file.unlink()
    run(facility.bin / "bpd", "rebuild", facility.directory)
    facility.up()
    for server in servers:
        server.down()
        server.join(invite(facility))
        server.up()
    recovered = facility.bp("admin", "recover").out
    assert f"Added: {3 * len(written)} objects." in recovered
    check(facility, written, tmp_path)
    facility.bp("admin", "settle", "--unknown", "0")
    assert are_whole(facility, list(written))
    # Also without a policy it is known what the files are.
    victim = servers[0]
    victim.down()
    for home in (victim.directory / "disk" / victim.partition / "objects").iterdir():
        shutil.rmtree(home)
        home.mkdir()
    victim.up()
    facility.wait_until("all is whole again", lambda: are_whole(facility, list(written)), SLOW)
    check(facility, written, tmp_path)


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[tuple[Facility, list[Host]]]:
    """Run a head with a disk and a tape library of its own, and two disk servers beside it."""
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("mkdir", "/c")
        with hosts(facility, tmp_path, "d1", "d2") as servers:
            facility.bp("pool", "set", "main", "--coding=2+1", "--heard-bound=4s", "--silence-bound=60s")
            yield facility, servers


def test_the_disk_of_the_head_and_its_tapes_take_part(mixed: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp", "curl")
    facility, _ = mixed
    written = write(facility, tmp_path)
    for _ in range(3):
        # Each time through another disk server, perhaps.
        check(facility, written, tmp_path)
    paths = list(written)
    assert {"disk1", "d1-disk1", "d2-disk1"} == set(pieces(facility, "/c/f3").values())
    facility.archive_and_evict(*paths)
    facility.wait_until("all pieces are deleted", lambda: not facility.objects_on_disk())
    facility.bp("stage", "--wait", *paths)
    check(facility, written, tmp_path)
    # What comes from tape is whole.
    assert len(facility.stat("/c/f3")["replicas"]) == 1
    assert "coding" not in facility.stat("/c/f3")


def test_columns_are_the_same_with_a_server_away(mixed: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    if not has_bindings(sys.executable):
        missing("the wheel xrootd")
    facility, servers = mixed
    file = tmp_path / "events.root"
    rng = np.random.default_rng(1)
    with uproot.recreate(file) as made:
        made["events"] = {name: rng.random(200_000) for name in ("x", "y", "z")}
    facility.put(file, "/c/events.root")
    local = run(sys.executable, "-W", "error", "-c", COLUMNS, file).out
    assert run(sys.executable, "-W", "error", "-c", COLUMNS, facility.url("/c/events.root")).out == local
    kill(facility, servers[0])
    assert run(sys.executable, "-W", "error", "-c", COLUMNS, facility.url("/c/events.root")).out == local


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
    assert "is coded 2+1: each of the 3 pieces needs a different disk server" in refused.text
    assert "/c/alone" not in facility.bp("ls", "/c").out
    warned = facility.bp("pool", "set", "main", "--coding=4+2")
    assert "needs 6 for 4+2" in warned.text
