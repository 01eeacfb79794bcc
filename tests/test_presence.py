"""Disk servers that stop, die or stand still: who reads and writes files that others have, too, goes on."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import backplane
from clients import need, run
from conftest import SMALL, one_facility
from facility import Facility
from host import Host, hosts

FILES = [f"/m/f{number}" for number in range(6)]
CONTENT = bytes(range(256)) * 4000

Both = tuple[Facility, list[Host]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Run a head without a disk in use and two disk servers, each with all files."""
    need("curl", "xrdcp")
    directory = tmp_path_factory.mktemp("presence")
    with one_facility(directory / "facility", **SMALL) as facility:
        facility.keep_ports(https=True)
        facility.up()
        (pool,) = facility.bp_json("pool", "list")["pools"]
        facility.bp("pool", "freeze", pool["partitions"][0]["name"])
        facility.bp("mkdir", "/m")
        with hosts(facility, directory, "d1", "d2") as servers:
            # What is asked here is not whether silence is noticed, but whether anything before it is.
            words = ("--copies=2", "--acknowledged=1", "--heard-bound=60s", "--silence-bound=600s")
            facility.bp("pool", "set", "main", *words)
            for path in FILES:
                facility.put_bytes(CONTENT, path)
            copies = "each file is on both"
            facility.wait_until(copies, lambda: all(len(facility.stat(path)["replicas"]) == 2 for path in FILES))
            yield facility, servers


def word(facility: Facility, host: Host) -> str:
    """Tell what is said of a host."""
    return next(row["presence"] for row in facility.bp_json("status")["hosts"] if row["name"] == host.name)


def read_by_all(facility: Facility, to: Path) -> None:
    """Read all files by each client."""
    curl = ("curl", "-sSfL", "--cacert", facility.directory / "tls" / "ca.pem", "-o", to)
    python = backplane.connect(facility.directory)
    for path in FILES:
        for command in (
            (*curl, facility.http + path),
            ("xrdcp", "-s", "-f", facility.url(path), to),
            (facility.bin / "bp", "cp", "-q", "--replace", facility.url(path), to),
        ):
            run(*command)
            assert to.read_bytes() == CONTENT, command
        assert python.read_bytes(path) == CONTENT


def write_by_all(facility: Facility, sample: Path, name: str) -> None:
    """Write a file by each client, and read it again."""
    curl = ("curl", "-sSfL", "--cacert", facility.directory / "tls" / "ca.pem", "-T", sample)
    run(*curl, f"{facility.http}/m/{name}-curl")
    run("xrdcp", "-s", sample, facility.url(f"/m/{name}-xrdcp"))
    run(facility.bin / "bp", "cp", "-q", sample, facility.url(f"/m/{name}-bp"))
    python = backplane.connect(facility.directory)
    python.write_bytes(f"/m/{name}-python", sample.read_bytes())
    for client in ("curl", "xrdcp", "bp", "python"):
        assert python.read_bytes(f"/m/{name}-{client}") == sample.read_bytes(), client


def stop(facility: Facility, host: Host) -> None:
    """Stop a host as for an upgrade."""
    host.down()
    assert word(facility, host) == "stopped", "it has said goodbye before it ended"


def kill(facility: Facility, host: Host) -> None:
    """Kill a host."""
    host.kill()
    facility.wait_until("its broken connection is noticed", lambda: word(facility, host) == "silent")


@pytest.mark.parametrize("end", [stop, kill])
def test_clients_go_on_without_a_disk_server(
    both: Both, sample: Path, tmp_path: Path, end: Callable[[Facility, Host], None]
) -> None:
    facility, (gone, _) = both
    facility.expect_log("a client could not reach this server|mirror not written|copy failed")
    end(facility, gone)
    try:
        read_by_all(facility, tmp_path / "back")
        write_by_all(facility, sample, end.__name__)
    finally:
        gone.up()
    facility.wait_until("it is back", lambda: word(facility, gone) == "here")


def test_a_host_that_stands_still_is_asked_when_a_client_was_there_in_vain(both: Both) -> None:
    facility, (still, _) = both
    facility.expect_log("a client could not reach this server|mirror not written|copy failed")
    os.kill(still.pid, signal.SIGSTOP)
    try:
        facility.wait_until("it is known to be silent", lambda: noticed(facility, still))
    finally:
        os.kill(still.pid, signal.SIGCONT)
    facility.wait_until("it is back", lambda: word(facility, still) == "here")
    # Silence alone would have taken a quarter of a minute.
    heard = re.findall(rf'host is silent.* host="{still.name}" heard_ms=(\d+)', facility.log.read_text())
    assert int(heard[-1]) < 15_000, heard


def noticed(facility: Facility, host: Host) -> bool:
    """Say that a client was sent to a host in vain, and whether it is known to be silent."""
    run("curl", "-sS", "-o", os.devnull, f"{facility.http}{FILES[0]}?tried=127.0.0.1")
    return word(facility, host) == "silent"
