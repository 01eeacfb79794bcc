"""Another host of a facility: a daemon that joined, in a directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from clients import DEADLINE, fails, run
from facility import Facility, configure, free_ports, kill_and_wait


class Host:
    """A daemon on another host than the head's.

    Parameters
    ----------
    facility
        What it joins; it must run.
    directory
        Where its configuration and data are.
    name
        What it is called.
    roles
        What it does.
    address
        Where it listens and is reached; each of loopback stands for a host of its own.
    options
        Those of `bpd join` that say what its parts are like.
    """

    def __init__(
        self,
        facility: Facility,
        directory: Path,
        name: str,
        roles: tuple[str, ...] = ("disk",),
        address: str = "",
        **options: str | int,
    ) -> None:
        self.facility = facility
        self.address = address
        self.directory = directory
        self.name = name
        self.roles = roles
        self.options = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        self.log = directory.parent / f"{name}.log"
        self.ports = free_ports(5)[3:]
        self.environment: dict[str, str] = {}
        """What its daemon is given beside that of the tests."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def partition(self) -> str:
        """Name of its partition."""
        return f"{self.name}-disk1"

    @property
    def words(self) -> list[str]:
        """Options of `bpd join` that say what it is."""
        root, https = self.ports
        ports = [f"--root-port={root}", f"--https-port={https}"]
        if self.address:
            ports += [f"--bind={self.address}", f"--address={self.address}"]
        return [*role_words(self.roles), f"--name={self.name}", *ports, *self.options, "--only"]

    def join(self, token: str = "") -> None:
        """Join, by an invitation of its own if none is given."""
        token = token or invite(self.facility, roles=self.roles)
        run(self.facility.bin / "bpd", "join", self.directory, f"--token={token}", *self.words)

    def join_fails(self, token: str) -> str:
        """Try to join, which must be refused; what is said about it."""
        command = [self.facility.bin / "bpd", "join", self.directory, f"--token={token}", *self.words]
        return fails(*command).text

    def up(self) -> None:
        """Start its daemon and wait until the head knows it."""
        self.start()
        self.facility.wait_until(f"{self.name} is available", self.is_available)

    def start(self) -> None:
        """Start its daemon and wait until its doors are open."""
        endpoints = self.directory / "endpoints.json"
        endpoints.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            command = [self.facility.bin / "bpd", "run", self.directory]
            environment = {**os.environ, **self.environment}
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        end = time.monotonic() + DEADLINE
        while not endpoints.exists():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
                pytest.fail(f"the daemon of {self.name} ended:\n{self.log.read_text()}", pytrace=False)
            assert time.monotonic() < end, f"{self.name} does not start:\n{self.log.read_text()}"
        self.pid = int(json.loads(endpoints.read_text())["pid"])

    def is_available(self) -> bool:
        """Tell whether the head may choose it, for all that it does."""
        status = self.facility.status()
        partitions = [partition for pool in status["pools"] for partition in pool["partitions"]]
        here = {
            "disk": any(row["name"] == self.partition and row["is_available"] for row in partitions),
            "cpu": any(row["host"] == self.name and row["is_available"] for row in status["workers"]),
            "tape": any(row["host"] == self.name and not row["trouble"] for row in status["drives"]),
        }
        return all(here[role] for role in self.roles)

    def kill(self) -> None:
        """End its daemon without a chance to do anything."""
        assert self._process
        kill_and_wait(self._process.pid)
        self._process.wait()
        self._process = None

    def down(self) -> None:
        """Stop its daemon as the system does."""
        if self._process:
            self._process.terminate()
            assert self._process.wait(DEADLINE) == 0, self.log.read_text()
            self._process = None

    def objects(self) -> dict[int, int]:
        """List the complete objects on its partition, with sizes."""
        files = (self.directory / "disk" / self.partition).glob("objects/*/*")
        found = {}
        for file in files:
            # One that is deleted in this moment is not there.
            with suppress(FileNotFoundError):
                if file.suffix != ".json":
                    found[int(file.name)] = file.stat().st_size
        return found


def role_words(roles: tuple[str, ...]) -> list[str]:
    """Options that name roles."""
    return [f"--role={role}" for role in roles]


def invite(facility: Facility, *words: str, roles: tuple[str, ...] = ("disk",)) -> str:
    """Make a join token."""
    return str(facility.bp_json("host", "invite", *role_words(roles), *words)["token"])


@contextmanager
def hosts(facility: Facility, directory: Path, *names: str, size: str = "") -> Iterator[list[Host]]:
    """Let hosts of these names join and run, with partitions of a size; they are stopped at the end."""
    made = [Host(facility, directory / name, name) for name in names]
    try:
        for number, host in enumerate(made):
            host.ports = free_ports(2 * len(made) + 3)[3 + 2 * number :][:2]
            host.join()
            if size:
                configure(host.directory, "size", f'"{size}"')
            host.up()
        yield made
    finally:
        for host in made:
            host.down()


def redirect(url: str, authority: Path, *words: str) -> str:
    """Ask an HTTP door for a file and tell where it sends us."""
    answer = run("curl", "--silent", "--show-error", "--cacert", authority, *words, "--output", os.devnull,
                 "--write-out", "%{http_code} %{redirect_url}", url)  # fmt: skip
    status, place = answer.out.split(" ", 1)
    assert status == "307", answer
    return place
