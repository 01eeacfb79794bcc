"""Files whose only disk server does not answer: they are shown as out of reach, and recalled if they are on tape."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from clients import need, run
from conftest import SMALL, one_facility
from facility import Facility
from host import Host, hosts

CONTENT = bytes(range(256)) * 4000
ALONE, ARCHIVED = "/r/alone", "/r/archived"

One = tuple[Facility, Host]


@pytest.fixture
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[One]:
    """Run a head and a disk server with two files that are on no other disk, one of them on tape, too."""
    need("curl", "xrdcp")
    directory = tmp_path_factory.mktemp("away")
    with one_facility(directory / "facility", **SMALL) as facility:
        facility.keep_ports(https=True)
        facility.up()
        (pool,) = facility.bp_json("pool", "list")["pools"]
        here = pool["partitions"][0]["name"]
        facility.bp("pool", "freeze", here)
        facility.bp("mkdir", "/r")
        with hosts(facility, directory, "d1") as (host,):
            for path in (ALONE, ARCHIVED):
                facility.put_bytes(CONTENT, path)
            facility.bp("archive", "--wait", ARCHIVED)
            facility.bp("pool", "use", here)
            yield facility, host


def listed(facility: Facility) -> dict[str, str]:
    """Tell the states of the files as `bp ls` has them."""
    entries = facility.bp_json("ls", "/r")["entries"]
    return {entry["name"]: entry["state"] for entry in entries}


def test_a_file_on_a_host_that_stopped_is_out_of_reach_and_its_open_waits_for_a_restart(one: One) -> None:
    facility, host = one
    assert listed(facility) == {"alone": "online", "archived": "both"}
    host.down()
    assert listed(facility) == {"alone": "out_of_reach", "archived": "nearline"}
    assert "out of reach" in facility.bp("ls", "-l", "/r").text
    assert facility.stat(ALONE)["away"][0]["reason"] == "stopped"
    facility.wait_until("its files are counted", lambda: facility.status()["files"]["out_of_reach"] == 1)
    assert "0 online, 1 nearline, 1 out of reach" in facility.bp("status").out
    ca = facility.directory / "tls" / "ca.pem"
    assert "backplane_files_out_of_reach 1\n" in run("curl", "-sSf", "--cacert", ca, f"{facility.http}/metrics").out
    why = facility.bp("why", ALONE).text
    assert f"{ALONE} is out of reach: its only copies are on host d1 (stopped since 20" in why, why
    assert "out of reach" in facility.bp("stat", ALONE).text
    curl = ("curl", "-sSfL", "--cacert", str(ca), facility.http + ALONE)
    with (
        subprocess.Popen(curl, stdout=subprocess.PIPE) as reader,
        subprocess.Popen(("xrdcp", "-s", facility.url(ALONE), "-"), stdout=subprocess.PIPE) as other,
    ):
        host.up()
        assert reader.communicate()[0] == CONTENT
        assert other.communicate()[0] == CONTENT
    assert listed(facility)["alone"] == "online"
    facility.wait_until("all are online again", lambda: facility.status()["files"]["online"] == 2)


def test_a_file_that_is_on_tape_is_recalled_when_its_disk_server_died(one: One) -> None:
    facility, host = one
    facility.expect_log("a client could not reach this server|copy failed|host is silent")
    host.kill()
    facility.wait_until("its files are out of reach", lambda: listed(facility)["alone"] == "out_of_reach")
    assert facility.stat(ARCHIVED)["state"] == "nearline"
    # Every client reads it, and none is sent to the dead host.
    ca = facility.directory / "tls" / "ca.pem"
    curl = run("curl", "-sSfL", "--cacert", ca, "-o", host.directory.parent / "back", facility.http + ARCHIVED)
    assert (host.directory.parent / "back").read_bytes() == CONTENT, curl
    assert facility.read(ARCHIVED) == CONTENT
    replicas = facility.stat(ARCHIVED)["replicas"]
    assert any("d1" not in replica for replica in replicas), replicas
    # Whoever is turned away is not waited for.
    facility.bp("host", "remove", "d1", "--force")
    refused = facility.bp_fails("get", ALONE, "-").text
    assert f"{ALONE} is out of reach: on host d1, which was removed" in refused, refused
    assert "removed" in facility.bp("why", ALONE).text
