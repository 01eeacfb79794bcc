"""A facility of three disk servers whose pool keeps two copies, mounted twice, and what lies on their disks.

A file of tests that names `copies` in its `__all__` has one for all of its tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import SMALL, one_facility
from facility import Facility
from host import Host, hosts
from mounting import mounted, need_mounts

SERVERS = ("d1", "d2", "d3")
SAID = (
    r"silent for too long|list of objects differs|copy failed|is damaged|is missing|is given up|cannot seal|"
    r"cannot ask the head|mirror not written|does not answer|too few copies"
)
"""What may be said while disk servers are killed."""
HEAL = 100.0
"""Seconds in which every call ends once nothing is wrong any more."""


@dataclass
class Copies:
    """A facility with its disk servers, mounted twice."""

    facility: Facility
    servers: list[Host]
    mounts: tuple[Path, Path]

    def live(self, size: int | None = None) -> dict[str, list[Path]]:
        """Live objects by disk server, perhaps those of a size only."""
        found: dict[str, list[Path]] = {}
        for server in self.servers:
            files = (server.directory / "disk" / server.partition / "live").glob("*")
            plain = [file for file in files if file.name.isdigit()]
            if mine := [file for file in plain if size is None or file.stat().st_size == size]:
                found[server.name] = mine
        return found

    def replicas(self, path: str) -> list[str]:
        """Where a file is once it is sealed."""
        return sorted(self.facility.stat(path)["replicas"])

    def wait_whole(self, path: str) -> None:
        """Wait until a file has two replicas."""
        self.facility.wait_until(f"{path} has two replicas", lambda: len(self.replicas(path)) == 2, HEAL)

    def read(self, path: str) -> bytes:
        """Read a file as a user without a mount does."""
        local = self.mounts[0].with_name("got")
        local.unlink(missing_ok=True)
        self.facility.bp("get", path, local)
        return local.read_bytes()

    def objects(self, path: str, size: int) -> list[bytes]:
        """Read the sealed objects of a size where they lie."""
        found = []
        places = self.replicas(path)
        for server in self.servers:
            if not any(place.endswith(f"/{server.partition}") for place in places):
                continue
            for number, length in server.objects().items():
                files = (server.directory / "disk" / server.partition).glob(f"objects/*/{number}")
                found += [file.read_bytes() for file in files if length == size]
        return found


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copies]:
    """Run a head that stores nothing itself, and three disk servers of a pool with two copies."""
    need_mounts()
    place = tmp_path_factory.mktemp("copies")
    with one_facility(place / "facility", **SMALL) as facility:
        facility.expect_log(SAID)
        facility.keep_ports(https=True)
        facility.up()
        own = next(partition["name"] for pool in facility.status()["pools"] for partition in pool["partitions"])
        with hosts(facility, place, *SERVERS) as servers:
            facility.bp("pool", "freeze", own)
            facility.bp(
                "pool", "set", "main", "--copies=2", "--acknowledged=1", "--heard-bound=4s", "--silence-bound=30s"
            )
            with mounted(facility, place / "a") as first, mounted(facility, place / "b") as second:
                yield Copies(facility, servers, (first, second))
