"""Several hosts on one machine: network namespaces on one switch, whose cables can be pulled."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients import Outcome, missing, run


class Network:
    """Hosts on one switch.

    Parameters
    ----------
    names
        What they are called; the first has the address that ends with 1.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        # Of this run: an interrupted one may have left its own.
        self._prefix = f"bp{secrets.token_hex(3)}"
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, 1)}
        self._hosts = "127.0.0.1 localhost\n" + "".join(f"{self.addresses[name]} {name}\n" for name in names)

    def _space(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def _etc(self, name: str) -> Path:
        return Path("/etc/netns") / self._space(name)

    def lay(self) -> None:
        """Make the hosts and their cables."""
        switch = self._space("switch")
        run("ip", "netns", "add", switch)
        run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", switch, "link", "set", "br0", "up")
        for name, address in self.addresses.items():
            space = self._space(name)
            run("ip", "netns", "add", space)
            # `ip netns exec` shows this as /etc/hosts.
            names = self._etc(name) / "hosts"
            names.parent.mkdir(parents=True)
            names.write_text(self._hosts)
            run("ip", "-n", switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "-n", switch, "link", "set", name, "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")

    def remove(self) -> None:
        """Take everything away. Processes that still run there keep their space until they end."""
        for name in (*self.addresses, "switch"):
            run("ip", "netns", "del", self._space(name), check=False)
            shutil.rmtree(self._etc(name), ignore_errors=True)

    def pull(self, name: str) -> None:
        """Pull the cable of a host: what is sent is lost, and nobody is told."""
        run("ip", "-n", self._space("switch"), "link", "set", name, "down")

    def plug(self, name: str) -> None:
        """Plug the cable in again."""
        run("ip", "-n", self._space("switch"), "link", "set", name, "up")

    def on(self, name: str) -> tuple[str, ...]:
        """Begin a command that runs on a host."""
        return ("ip", "netns", "exec", self._space(name))

    def inside(self, name: str) -> tuple[str, ...]:
        """Begin a command that has the network of a host and all else of this one: what it mounts is seen here."""
        return ("nsenter", f"--net=/run/netns/{self._space(name)}")

    def run(self, name: str, *words: str | Path, check: bool = True, env: dict[str, str] | None = None) -> Outcome:
        """Run a command on a host."""
        return run(*self.on(name), *words, check=check, env=env)


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """Lay a network, and remove it at the end."""
    if os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("network namespaces need root, and CI=true", pytrace=False)
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        missing("ip (iproute2)")
    made = Network(names)
    try:
        made.lay()
        yield made
    finally:
        made.remove()
