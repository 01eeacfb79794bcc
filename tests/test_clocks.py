"""Clocks that are wrong, or are set while everything runs. Debian's libfaketime sets them for one daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients import need, run
from conftest import SMALL, one_facility
from host import hosts
from test_pools import are_whole, check_files, own_partition, partitions, write_files

HOUR = 3600


class Clock:
    """The clock of one daemon."""

    def __init__(self, file: Path) -> None:
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not libraries:
            pytest.skip("needs libfaketime (Debian: faketime)")
        self.file = file
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            # Only the calendar is wrong: what measures spans goes on, as on a real host.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        """Set it so far ahead."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}")
        new.rename(self.file)


def test_a_clock_that_is_set_makes_nobody_silent_and_nobody_alive(tmp_path: Path) -> None:
    need("xrdcp")
    clock = Clock(tmp_path / "head.clock")
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log("clock stepped|silent for too long|list of objects differs|mirror not written|copy failed")
        facility.environment = clock.environment
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("mkdir", "/m")
        with hosts(facility, tmp_path, "d1", "d2", "d3") as servers:
            facility.bp("pool", "freeze", own_partition(facility))
            facility.bp("pool", "set", "main", "--copies=2", "--heard-bound=4s", "--silence-bound=8s")
            sources = write_files(facility, tmp_path, 6)
            clock.set(30 * 24 * HOUR)
            facility.wait_until("the head has seen it", lambda: facility.log.read_text().count("clock stepped") == 1)
            given_up = [one for one in partitions(facility).values() if one["is_given_up"] or not one["is_available"]]
            assert not given_up, "nobody was silent"
            check_files(facility, sources, tmp_path)
            facility.bp("put", sources[0], "/m/later")
            clock.set(-2 * HOUR)
            facility.wait_until("and again", lambda: facility.log.read_text().count("clock stepped") == 2)
            # What disk servers were told last is a month too late: they refuse, ask the head, and do it.
            for source in sources:
                facility.bp("put", source, f"/m/earlier-{source.name}")
            check_files(facility, sources, tmp_path)
            servers[0].kill()
            name = servers[0].partition
            facility.wait_until("who is dead is silent", lambda: not partitions(facility)[name]["is_available"])
            facility.wait_until("all is whole", lambda: are_whole(facility, sources, away=name), 60)
            check_files(facility, sources, tmp_path)


@pytest.mark.parametrize("ahead", [3 * HOUR, -3 * HOUR])
def test_a_disk_server_with_a_wrong_clock_goes_by_the_head(tmp_path: Path, ahead: int) -> None:
    need("xrdcp")
    clock = Clock(tmp_path / "d1.clock")
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("mkdir", "/m")
        with hosts(facility, tmp_path, "d1") as (server,):
            facility.bp("pool", "freeze", own_partition(facility))
            server.down()
            server.environment = clock.environment
            server.up()
            sources = write_files(facility, tmp_path, 3)
            clock.set(ahead)
            facility.wait_until("it has seen that", lambda: "clock differs from the head's" in server.log.read_text())
            check_files(facility, sources, tmp_path)
            run("xrdcp", "-s", sources[0], facility.url("/m/later"))
            assert len(server.objects()) == 4
            clock.set(0)
            facility.wait_until("it is right", lambda: "clock agrees with the head's again" in server.log.read_text())
            check_files(facility, sources, tmp_path)
