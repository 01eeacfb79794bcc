"""Hosts and partitions are emptied, and operators are asked if something would stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import SMALL, one_facility
from facility import Facility
from host import Host, hosts

CONTENT = bytes(range(256)) * 4000
FILES = [f"/d/f{number}" for number in range(5)]


@pytest.fixture
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Facility, Host, str]]:
    """Run a head with a frozen partition, which is named last, and a disk server with some files."""
    directory = tmp_path_factory.mktemp("drain")
    with one_facility(directory / "facility", **SMALL) as facility:
        facility.keep_ports(https=True)
        facility.up()
        (pool,) = facility.bp_json("pool", "list")["pools"]
        here = pool["partitions"][0]["name"]
        facility.bp("pool", "freeze", here)
        facility.bp("mkdir", "/d")
        with hosts(facility, directory, "d1") as (host,):
            for path in FILES:
                facility.put_bytes(CONTENT, path)
            yield facility, host, here


def test_a_host_is_emptied_and_nothing_is_lost(one: tuple[Facility, Host, str]) -> None:
    facility, host, here = one
    refused = facility.bp_fails("host", "drain", "d1")
    assert "5 files are only on partition d1-disk1 and cannot be moved" in refused.text, refused
    assert all(path in refused.text for path in FILES)
    assert "--force" in refused.text
    facility.bp("host", "drain", "d1", "--force")
    assert "draining" in facility.bp("pool", "list").out
    facility.bp("host", "drain", "d1", "--undo")
    assert "draining" not in facility.bp("pool", "list").out
    assert "no partition of host d1 is draining" in facility.bp_fails("host", "drain", "d1", "--undo").text
    facility.bp("pool", "use", here)
    said = facility.bp("host", "drain", "d1", "--wait=60s").text
    assert "5 replicas" in said, said
    assert "d1-disk1 is empty" in said, said
    facility.wait_until("its disk is empty", lambda: not host.objects())
    for path in FILES:
        assert facility.read(path) == CONTENT
    # Nobody need be asked now.
    facility.bp("host", "remove", "d1")
    for path in FILES:
        assert facility.read(path) == CONTENT


def test_what_is_on_a_host_that_does_not_answer_cannot_be_moved(one: tuple[Facility, Host, str]) -> None:
    facility, host, here = one
    facility.bp("pool", "use", here)
    host.down()
    refused = facility.bp_fails("pool", "drain", host.partition)
    assert "host d1 is stopped, so its files cannot be read" in refused.text, refused
    host.up()
    facility.bp("pool", "drain", host.partition)
    facility.wait_until("its disk is empty", lambda: not host.objects(), 60)
