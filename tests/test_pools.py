"""Pools over several disk servers: mirrors, lost disk servers, drained partitions. Debian's xrdcp is the judge."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import is_same, need, run
from conftest import SMALL, one_facility
from facility import Facility
from host import Host, hosts

FILES = 12
NAMES = ("d1", "d2", "d3")


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[tuple[Facility, list[Host]]]:
    """Run a head that stores nothing itself, and three disk servers of a pool with two copies."""
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log(
            r"silent for too long|list of objects differs|mirror not written|copy failed|is damaged|is missing"
        )
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("mkdir", "/m")
        with hosts(facility, tmp_path, *NAMES) as servers:
            facility.bp("pool", "freeze", own_partition(facility))
            facility.bp("pool", "set", "main", "--copies=2", "--heard-bound=4s", "--silence-bound=8s")
            yield facility, servers


def pool(facility: Facility) -> dict[str, object]:
    """Show the pool."""
    (found,) = facility.bp_json("pool", "list")["pools"]
    return dict(found)


def partitions(facility: Facility) -> dict[str, dict[str, object]]:
    """Show its partitions by name."""
    found = pool(facility)["partitions"]
    assert isinstance(found, list)
    return {partition["name"]: partition for partition in found}


def own_partition(facility: Facility) -> str:
    """Find the partition of the head's own host."""
    return next(name for name in partitions(facility) if not name.startswith(NAMES))


def write_files(facility: Facility, directory: Path, count: int = FILES) -> list[Path]:
    """Write files of different contents with xrdcp."""
    sources = []
    for number in range(count):
        source = directory / f"f{number}"
        source.write_bytes(os.urandom(200_000 + 1000 * number))
        run("xrdcp", "-s", "--cksum", "adler32:source", source, facility.url(f"/m/{source.name}"))
        sources.append(source)
    return sources


def check_files(facility: Facility, sources: list[Path], directory: Path) -> None:
    """Read all files back with xrdcp, which compares adler32."""
    for source in sources:
        back = directory / "back"
        run("xrdcp", "-s", "-f", "--cksum", "adler32:source", facility.url(f"/m/{source.name}"), back)
        assert is_same(back, source)


def replicas(facility: Facility, path: str) -> list[str]:
    """Where a file is."""
    return sorted(facility.stat(path)["replicas"])


def are_whole(facility: Facility, sources: list[Path], away: str = "") -> bool:
    """Tell whether every file has two replicas that count."""
    if pool(facility)["files_short"]:
        return False
    places = [replicas(facility, f"/m/{source.name}") for source in sources]
    return all(len([place for place in places_of if not away or away not in place]) == 2 for places_of in places)


def counts(servers: list[Host]) -> list[int]:
    """Count the objects of each disk server."""
    return [len(server.objects()) for server in servers]


def test_a_file_is_on_two_disk_servers_when_it_is_acknowledged(
    mirrored: tuple[Facility, list[Host]], tmp_path: Path
) -> None:
    need("xrdcp")
    facility, servers = mirrored
    sources = write_files(facility, tmp_path, 6)
    assert sum(counts(servers)) == 12
    for source in sources:
        assert len(replicas(facility, f"/m/{source.name}")) == 2
    check_files(facility, sources, tmp_path)
    facility.bp("put", "--replace", sources[0], "/m/f1")
    facility.wait_until("the old content is gone", lambda: sum(counts(servers)) == 12)
    assert "in use" in facility.bp("pool", "list").out


def test_a_lost_disk_server_costs_nothing(mirrored: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = mirrored
    sources = write_files(facility, tmp_path)
    lost = servers[0]
    held = len(lost.objects())
    assert held > 0
    lost.kill()
    name = lost.partition
    facility.wait_until("it is silent", lambda: not partitions(facility)[name]["is_available"])
    check_files(facility, sources, tmp_path)
    facility.wait_until("it is given up", lambda: bool(partitions(facility)[name]["is_given_up"]))
    facility.wait_until("all is whole again", lambda: are_whole(facility, sources, away=name), 60)
    check_files(facility, sources, tmp_path)
    # What is written now is mirrored between the other two.
    run("xrdcp", "-s", sources[0], facility.url("/m/while-it-is-away"))
    assert len(replicas(facility, "/m/while-it-is-away")) == 2
    lost.up()
    facility.wait_until("what is too much is gone", lambda: sum(counts(servers)) == 2 * (FILES + 1), 60)
    assert not partitions(facility)[name]["is_given_up"]
    check_files(facility, sources, tmp_path)


def test_a_disk_that_lost_its_objects_is_filled_again(mirrored: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = mirrored
    sources = write_files(facility, tmp_path)
    victim = servers[1]
    victim.down()
    for home in (victim.directory / "disk" / victim.partition / "objects").iterdir():
        shutil.rmtree(home)
        home.mkdir()
    victim.up()
    facility.wait_until("all is whole again", lambda: sum(counts(servers)) == 2 * FILES, 60)
    assert are_whole(facility, sources)
    check_files(facility, sources, tmp_path)


def test_a_copy_whose_source_is_gone_fails_at_once(mirrored: tuple[Facility, list[Host]], sample: Path) -> None:
    facility, servers = mirrored
    facility.bp("pool", "set", "main", "--copies=1")
    facility.put(sample, "/m/gone")
    (place,) = replicas(facility, "/m/gone")
    (holder,) = [server for server in servers if place.endswith(server.partition)]
    for file in (holder.directory / "disk" / holder.partition / "objects").glob("*/*"):
        file.unlink()
    facility.bp("pool", "set", "main", "--copies=2")

    def logs() -> str:
        return "".join(server.log.read_text() for server in servers)

    reason = re.compile(rf"copy failed.*object \d+ is not on {holder.partition}")
    facility.wait_until("the copy fails", lambda: reason.search(logs()) is not None)
    assert "redirects" not in logs()


def test_copies_stand_in_different_racks(mirrored: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = mirrored
    sources = write_files(facility, tmp_path)
    for server, rack in zip(servers, ("r1", "r1", "r2"), strict=True):
        facility.bp("host", "label", server.name, f"rack={rack}", "room=b513")
    facility.bp("pool", "set", "main", "--failure-domain", "rack")

    def are_apart() -> bool:
        places = [replicas(facility, f"/m/{source.name}") for source in sources]
        return all(len(each) == 2 and any(servers[2].partition in place for place in each) for each in places)

    facility.wait_until("each file is in both racks", are_apart, 60)
    check_files(facility, sources, tmp_path)
    shown = facility.bp("host", "list").out
    assert "rack=r2 room=b513" in shown, shown
    shown = facility.bp("pool", "list").out
    assert "d3 rack=r2" in shown, shown
    assert "NAME=VALUE" in facility.bp_fails("host", "label", "d1", "rack").text


def test_a_drained_partition_gets_empty(mirrored: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = mirrored
    sources = write_files(facility, tmp_path)
    drained = servers[2]
    assert facility.bp_fails("pool", "retire", drained.partition).text.count("still holds")
    facility.bp("pool", "drain", drained.partition)
    facility.wait_until("it is empty", lambda: not drained.objects(), 60)
    assert are_whole(facility, sources)
    check_files(facility, sources, tmp_path)
    facility.bp("pool", "retire", drained.partition)
    assert "retired" in facility.bp("pool", "list").out


def test_without_a_second_disk_server_nothing_is_acknowledged(
    mirrored: tuple[Facility, list[Host]], sample: Path
) -> None:
    facility, servers = mirrored
    for server in servers[1:]:
        facility.bp("pool", "freeze", server.partition)
    refused = facility.bp_fails("put", sample, "/m/alone")
    assert "needs 2 replicas" in refused.text
    assert "/m/alone" not in facility.bp("ls", "/m").out
    facility.bp("pool", "set", "main", "--acknowledged=1")
    facility.bp("put", sample, "/m/alone")
    assert len(replicas(facility, "/m/alone")) == 1
    for server in servers[1:]:
        facility.bp("pool", "use", server.partition)
    facility.wait_until("the second follows", lambda: len(replicas(facility, "/m/alone")) == 2, 60)


def test_what_is_too_much_leaves_a_partition_that_is_made_smaller(
    mirrored: tuple[Facility, list[Host]], tmp_path: Path
) -> None:
    need("xrdcp")
    facility, servers = mirrored
    sources = write_files(facility, tmp_path)
    small = servers[0].partition
    held = partitions(facility)[small]["replica_bytes"]
    assert isinstance(held, int)
    facility.bp("pool", "set", "main", "--spread=1%")
    facility.bp("pool", "resize", small, f"{held // 2}B")
    assert partitions(facility)[small]["total_bytes"] == held // 2
    facility.wait_until(
        "half of it is elsewhere", lambda: partitions(facility)[small]["replica_bytes"] <= held // 2, 60
    )
    facility.wait_until("all is whole", lambda: are_whole(facility, sources) and sum(counts(servers)) == 2 * FILES, 60)
    check_files(facility, sources, tmp_path)
    facility.bp("pool", "resize", small, "host")
    assert partitions(facility)[small]["total_bytes"] > held
    assert f"bp pool drain {small}" in facility.bp_fails("pool", "resize", small, "0B").text


def test_an_empty_partition_serves_another_pool_also_after_a_restart(
    mirrored: tuple[Facility, list[Host]], tmp_path: Path
) -> None:
    need("xrdcp")
    facility, servers = mirrored
    moved = servers[2]
    sources = write_files(facility, tmp_path)
    assert "still holds" in facility.bp_fails("pool", "move", moved.partition, "fast").text
    facility.bp("pool", "drain", moved.partition)
    facility.wait_until("it is empty", lambda: not moved.objects(), 60)
    facility.bp("pool", "move", moved.partition, "fast")
    moved.down()
    moved.up()
    pools = {pool["name"]: pool["partitions"] for pool in facility.bp_json("pool", "list")["pools"]}
    assert [(each["name"], each["state"]) for each in pools["fast"]] == [(moved.partition, "in_use")]
    run("xrdcp", "-s", sources[0], facility.bp("get", "--pool", "fast", "--size", "1MiB", "/m/fast").out.strip())
    assert replicas(facility, "/m/fast") == [f"fast/{moved.partition}"]
    check_files(facility, sources, tmp_path)


def test_a_pool_can_leave_the_page_cache_out(mirrored: tuple[Facility, list[Host]], tmp_path: Path) -> None:
    need("xrdcp", "fincore")
    facility, servers = mirrored
    size = 8 << 20
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))

    def cached(path: str) -> list[int]:
        """Write a file, and count the bytes of its objects that are in memory."""
        run("xrdcp", "-s", source, facility.url(path))
        disks = {server.partition: server.directory / "disk" / server.partition for server in servers}
        places = [disks[replica.split("/")[1]] for replica in replicas(facility, path)]
        newest = [max(place.glob("objects/*/*[0-9]"), key=lambda file: int(file.name)) for place in places]
        out = run("fincore", "--bytes", "--noheadings", "--output", "RES", *newest).out
        return [int(line) for line in out.split()]

    assert cached("/m/plain") == [size, size]
    facility.bp("pool", "set", "main", "--direct", "true")
    number = iter(range(100))
    facility.wait_until(
        "new objects are not in memory", lambda: max(cached(f"/m/direct{next(number)}")) < size // 2, 20
    )
