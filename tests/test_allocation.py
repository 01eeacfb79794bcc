"""Room that is reserved before it is written: `bp get --pool P --size S NAME`, then whatever client there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients import fails, is_same, need, run, write_file
from conftest import SMALL, MakeFacility, one_facility
from facility import Facility, free_ports
from host import Host

RAW = "raw/d1-disk1"
SIZE = 50 << 20
"""Bytes of the pool `raw`."""


@contextmanager
def raw_host(facility: Facility, directory: Path) -> Iterator[Host]:
    """Run a disk server whose partition is the pool `raw`."""
    host = Host(facility, directory / "d1", "d1")
    host.ports = free_ports(5)[3:]
    host.join()
    config = host.directory / "facility.toml"
    text = config.read_text()
    assert text.count('pool = "main"') == 1
    config.write_text(text.replace('pool = "main"', 'pool = "raw"').replace('size = "0B"', f'size = "{SIZE}B"', 1))
    host.up()
    try:
        yield host
    finally:
        host.down()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Facility, Host]]:
    """Run a head with the pool `main`, and a disk server with the pool `raw`."""
    directory = tmp_path_factory.mktemp("allocation")
    with one_facility(directory / "facility", **SMALL) as facility:
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("mkdir", "/data")
        with raw_host(facility, directory) as host:
            yield facility, host


def get(facility: Facility, path: str, *words: str, size: str = "5MB") -> str:
    """Reserve room as a script does: what it prints is the URL."""
    return facility.bp("get", "--pool", "raw", "--size", size, *words, path).out.strip()


def free(facility: Facility) -> int:
    """Tell how much of the pool `raw` is neither used nor promised."""
    pools = facility.bp_json("pool", "list")["pools"]
    (partition,) = next(pool for pool in pools if pool["name"] == "raw")["partitions"]
    return int(partition["free_bytes"])


def test_every_client_writes_where_the_room_is(pair: tuple[Facility, Host], tmp_path: Path) -> None:
    need("xrdcp", "curl")
    facility, _ = pair
    source = write_file(tmp_path / "source", 3_456_789, seed=3)
    authority = facility.directory / "tls" / "ca.pem"
    https = facility.endpoint("https")
    secure = ("curl", "-sS", "--fail", "--location", "--cacert", authority)
    ways: dict[str, tuple[str | Path, ...]] = {
        "xrdcp": ("xrdcp", "-s", "--cksum", "adler32:source", source, "{url}"),
        "xrdcp-f": ("xrdcp", "-s", "-f", source, "{url}"),
        "xrdcp-posc": ("xrdcp", "-s", "--posc", source, "{url}"),
        "curl": ("curl", "-sS", "--fail", "-H", "Expect:", "-T", source, f"{facility.http}{{path}}"),
        "curl-new": (*secure, "-H", "If-None-Match: *", "-T", source, f"{https}{{path}}"),
        "curl-sent-on": (*secure, "-H", "Expect: 100-continue", "-T", source, f"{https}{{path}}"),
        "bp-cp": (facility.bin / "bp", "cp", source, "{url}"),
    }
    for name, words in ways.items():
        path = f"/data/{name}"
        url = get(facility, path)
        assert url == facility.url(path)
        run(*(str(word).format(url=url, path=path) for word in words))
        assert facility.stat(path)["replicas"] == [RAW], name
        back = tmp_path / "back"
        run("xrdcp", "-s", "-f", "--cksum", "adler32:source", url, back)
        assert is_same(back, source), name
    facility.bp("put", source, "/data/elsewhere")
    assert facility.stat("/data/elsewhere")["replicas"] != [RAW], "nothing was reserved for that"
    get(facility, "/data/new/bp-put", "--parents")
    facility.bp("put", source, "/data/new/bp-put")
    assert facility.stat("/data/new/bp-put")["replicas"] == [RAW]


def test_asking_again_is_harmless_and_a_file_that_exists_is_found(pair: tuple[Facility, Host], tmp_path: Path) -> None:
    facility, _ = pair
    before = free(facility)
    first = facility.bp("get", "--pool", "raw", "--size", "4MB", "/data/run7.root")
    again = facility.bp("get", "--pool", "raw", "--size", "4MB", "/data/run7.root")
    assert first.out == again.out == f"{facility.url('/data/run7.root')}\n"
    assert "3.81 MiB reserved in pool raw until " in first.err
    assert "already reserved in pool raw until " in again.err
    assert before - free(facility) == 4_000_000
    assert "root: 3.81 MiB in pool raw reserved until " in facility.bp("stat", "/data/run7.root").out
    assert "its space is reserved" in fails("xrdcp", "-s", first.out.strip(), tmp_path / "back").err
    source = write_file(tmp_path / "source", 1000, seed=4)
    run("xrdcp", "-s", source, first.out.strip())
    found = facility.bp("get", "--pool", "raw", "--size", "4MB", "/data/run7.root")
    assert (found.out, found.err) == (first.out, "/data/run7.root exists: 1000 B in pool raw\n")
    told = facility.bp_json("get", "--pool", "raw", "--size", "4MB", "/data/run7.root")
    assert (told["outcome"], told["size"], told["until"]) == ("written", 1000, None)
    told = facility.bp_json("get", "--pool", "raw", "--size", "4MB", "/data/run8.root")
    assert (told["outcome"], told["url"]) == ("new", facility.url("/data/run8.root"))
    facility.bp("rm", "/data/run7.root", "/data/run8.root")
    facility.wait_until("the room is free again", lambda: free(facility) == before)


def test_room_stays_reserved_when_a_write_fails_and_the_head_is_killed(
    pair: tuple[Facility, Host], tmp_path: Path
) -> None:
    facility, host = pair
    facility.expect_log("differs from the catalogue|cannot report|trying again|out of reach")
    before = free(facility)
    url = get(facility, "/data/kept")
    source = write_file(tmp_path / "source", 2_000_000, seed=5)
    digest = ("-H", "Expect:", "-H", "Digest: adler32=00000001")
    assert "adler32" in run("curl", "-sS", *digest, "-T", source, f"{facility.http}/data/kept").out
    facility.wait_until("it is reserved again", lambda: facility.stat("/data/kept")["pins"] != [])
    assert before - free(facility) == 5_000_000
    facility.kill()
    facility.up()
    facility.wait_until("the disk server is back", host.is_available)
    assert before - free(facility) == 5_000_000
    assert "already" in facility.bp("get", "--pool", "raw", "--size", "5MB", "/data/kept").err
    run("xrdcp", "-s", "--cksum", "adler32:source", source, url)
    assert facility.stat("/data/kept")["replicas"] == [RAW]
    facility.bp("rm", "/data/kept")
    facility.wait_until("the room is free again", lambda: free(facility) == before)


def test_a_reservation_ends(pair: tuple[Facility, Host]) -> None:
    facility, _ = pair
    before = free(facility)
    get(facility, "/data/short", "--for", "1s")
    facility.wait_until("it is over", lambda: free(facility) == before)
    assert "does not exist" in facility.bp_fails("stat", "/data/short").err


def test_what_does_not_fit_is_refused_with_the_next_step(pair: tuple[Facility, Host]) -> None:
    facility, _ = pair
    full = facility.bp_fails("get", "--pool", "raw", "--size", "20GB", "/data/huge")
    assert full.code == 7
    assert "pool raw has " in full.err
    assert "18.6 GiB are needed on one partition" in full.err
    assert "hint: " in full.err
    for words, part in (
        (("--pool", "row", "--size", "1MB", "/data/f"), "there is no pool row"),
        (("--pool", "raw", "--size", "0", "/data/f"), "0 bytes"),
        (("--pool", "raw", "--size", "1MB", "--for", "30d", "/data/f"), "at most 7d"),
        (("--pool", "raw", "--size", "1MB", "/none/f"), "bp mkdir -p /none"),
    ):
        assert part in facility.bp_fails("get", *words).err


def test_quotas_count(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.up()
    facility.bp("quota", "set", "user", facility.owner, "--bytes", "10MB")
    facility.bp("get", "--pool", "main", "--size", "8MB", "/a")
    refused = facility.bp_fails("get", "--pool", "main", "--size", "3MB", "/b")
    assert (refused.code, "quota" in refused.err) == (7, True)
    facility.put_bytes(b"a" * 1000, "/a")
    facility.bp("get", "--pool", "main", "--size", "3MB", "/b")
