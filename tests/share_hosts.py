"""A facility on a network of its own: head, two disk servers, hosts that have it mounted; and what goes wrong there."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clients import DEADLINE, run
from facility import binaries, configure, kill_and_wait
from mounting import pid_of
from network import Network, network
from test_clocks import Clock
from test_faults import HTTP, HTTPS, ROOT, Daemon, partitions, wait_until

SERVERS = ("d1", "d2")
CLIENTS = ("c1", "c2", "c3")
LEASE = 25.0
"""Seconds of silence after which the head takes a mount for gone when somebody waits for it."""
PARTITION = "48MiB"
"""Size of a disk server: it can be filled quickly."""


def pause(seconds: float) -> None:
    """Let a fault last."""
    select.select([], [], [], seconds)


class Mount:
    """The facility as a file system of one host."""

    def __init__(self, net: Network, name: str, place: Path, env: dict[str, str]) -> None:
        self.net, self.name, self.env = net, name, env
        self.directory = place / name
        self.log = place / f"{name}-mount.log"
        self.label = place / f"{name}.label"
        self.count = 0
        self.said = ""
        """What the last try to mount said."""
        self.directory.mkdir()

    def mount(self, *options: str, check: bool = True) -> bool:
        """Mount it; what was there before is replaced. Yields whether that was done."""
        words = (binaries() / "bp", "mount", *options, "--log", self.log, self.directory)
        done = run(*self.net.inside(self.name), *words, check=check, env=self.env)
        self.said = done.text
        return done.code == 0

    def start(self) -> None:
        """Mount it as soon as that can be done, under another name for the history."""
        self.count += 1
        new = self.label.with_suffix(".new")
        new.write_text(f"{self.name}#{self.count}")
        new.rename(self.label)
        end = time.monotonic() + DEADLINE
        while not self.mount(check=False):
            assert time.monotonic() < end, f"{self.name} cannot mount: {self.said}"
            pause(0.2)

    def kill(self) -> None:
        """End its process without a chance to do anything."""
        kill_and_wait(pid_of(self.directory))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop its process, and let it go on."""
        pid = pid_of(self.directory)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        """Unmount it, whatever happens there."""
        with suppress(AssertionError, ProcessLookupError):
            self.kill()
        run("umount", "--lazy", self.directory, check=False)


class Hosts:
    """All of it, and what can go wrong."""

    def __init__(self, net: Network, place: Path) -> None:
        self.net, self.place = net, place
        self.daemons = {name: Daemon(net, name, place / name) for name in ("head", *SERVERS)}
        self.head = self.daemons["head"]
        self.clock = Clock(place / "head.clock")
        self.head.environment = self.clock.environment
        self.mounts: dict[str, Mount] = {}
        self.done: list[str] = []
        """Faults so far."""

    def create(self) -> None:
        """Make the facility, start all daemons, and mount it."""
        run(
            binaries() / "bp",
            "create",
            self.head.directory,
            "--volume-size=64MiB",
            "--volumes=1",
            "--slots=2",
            "--drives=1",
        )
        address = self.net.addresses["head"]
        for key, value in {
            "bind": f'"{address}"', "address": f'"{address}"', "require_token": "true", "root_tls": '"login"',
            "root_port": str(ROOT), "http_port": str(HTTP), "https_port": str(HTTPS), "retention": '"0s"',
        }.items():  # fmt: skip
            configure(self.head.directory, key, value)
        self.head.start()
        self.head.wait_up()
        for name in SERVERS:
            self.join(name)
        wait_until("all have registered", lambda: len(partitions(self.head)) == 1 + len(SERVERS), DEADLINE)
        own = next(name for name in partitions(self.head) if not name.startswith(SERVERS))
        self.head.bp("pool", "freeze", own)
        token = self.head.bp("token", "create", "--lifetime=12h").strip()
        env = {
            "BP_FACILITY": f"https://{address}:{HTTPS}", "BEARER_TOKEN": token,
            "BP_CA_FILE": str(self.head.directory / "tls" / "ca.pem"),
        }  # fmt: skip
        self.mounts = {name: Mount(self.net, name, self.place, env) for name in CLIENTS}
        for mount in self.mounts.values():
            mount.start()

    def join(self, name: str) -> None:
        """Let a disk server join and start."""
        token = json.loads(self.head.bp("--json", "host", "invite", "--role=disk"))["token"]
        address = self.net.addresses[name]
        words = [f"--token={token}", "--role=disk", f"--name={name}", f"--address={address}", f"--bind={address}",
                 f"--root-port={ROOT}", f"--https-port={HTTPS}", "--only"]  # fmt: skip
        daemon = self.daemons[name]
        self.net.run(name, binaries() / "bpd", "join", daemon.directory, *words)
        configure(daemon.directory, "size", f'"{PARTITION}"')
        daemon.start()

    def end(self) -> None:
        """Stop everything."""
        for mount in self.mounts.values():
            mount.end()
        for daemon in self.daemons.values():
            daemon.kill()

    def panics(self) -> list[str]:
        """Read what processes said before they fell over."""
        logs = [*self.place.glob("*.log"), *self.place.glob("*/log/*.log")]
        return [line for log in logs for line in log.read_text(errors="replace").splitlines() if "panicked at" in line]

    # Faults. Each lasts a while, and all is as before when it returns.

    def freeze_briefly(self, rng: random.Random) -> None:
        """Freeze a mount for a moment."""
        self.freeze(rng.choice(CLIENTS), rng.uniform(0.5, 3))

    def freeze_past_lease(self, rng: random.Random) -> None:
        """Freeze a mount until others have what it had."""
        self.freeze(rng.choice(CLIENTS), LEASE + rng.uniform(1, 4))

    def freeze(self, name: str, span: float) -> None:
        """Stop a mount."""
        with self.mounts[name].frozen():
            self.note(f"freeze {name}", span)

    def cut_client_briefly(self, rng: random.Random) -> None:
        """Take the network from a host for a moment."""
        self.cut(rng.choice(CLIENTS), rng.uniform(0.5, 4))

    def cut_client_past_lease(self, rng: random.Random) -> None:
        """Take the network from a host until others have what it had."""
        self.cut(rng.choice(CLIENTS), LEASE + rng.uniform(1, 4))

    def cut_server(self, rng: random.Random) -> None:
        """Take the network from a disk server."""
        self.cut(rng.choice(SERVERS), rng.uniform(0.5, 4))

    def cut_head(self, rng: random.Random) -> None:
        """Take the network from the head."""
        self.cut("head", rng.uniform(0.5, 4))

    def cut(self, name: str, span: float) -> None:
        """Pull a cable."""
        self.net.pull(name)
        try:
            self.note(f"cut {name}", span)
        finally:
            self.net.plug(name)

    def kill_head(self, rng: random.Random) -> None:
        """Kill the head under load."""
        self.kill("head", rng.uniform(0, 3))

    def kill_server(self, rng: random.Random) -> None:
        """Kill a disk server in the middle of writes."""
        self.kill(rng.choice(SERVERS), rng.uniform(0, 3))

    def kill(self, name: str, span: float) -> None:
        """Kill a daemon, and start it again."""
        self.daemons[name].kill()
        self.note(f"kill {name}", span)
        self.daemons[name].start()
        if name == "head":
            self.head.wait_up()

    def kill_mount(self, rng: random.Random) -> None:
        """Kill a mount, and mount again."""
        mount = self.mounts[rng.choice(CLIENTS)]
        mount.kill()
        self.note(f"kill the mount of {mount.name}", rng.uniform(0, 1))
        mount.start()

    def fill_disks(self, rng: random.Random) -> None:
        """Fill the disks in the middle of writes."""
        filler = self.place / "filler"
        if not filler.exists():
            filler.write_bytes(os.urandom(4 << 20))
        env = self.mounts[CLIENTS[0]].env
        bp = binaries() / "bp"
        count = 0
        while (said := self.net.run("head", bp, "put", filler, f"/filler{count}", check=False, env=env)).code == 0:
            count += 1
            assert count < 64, "the disks do not become full"
        self.note(f"{count} fillers until {said.err.strip()[:200]!r}", rng.uniform(0.5, 2))
        for number in range(count + 1):
            self.net.run("head", bp, "rm", f"/filler{number}", check=False, env=env)

    def step_clock(self, rng: random.Random) -> None:
        """Set the clock of the head, and set it back."""
        self.clock.set(rng.choice((-3600, 3600, 86_400)))
        self.note("step the clock", rng.uniform(1, 3))
        self.clock.set(0)

    def note(self, what: str, span: float) -> None:
        """Remember a fault, and let it last."""
        self.done.append(f"{what} for {span:.1f} s")
        pause(span)

    def short_faults(self) -> list[Callable[[random.Random], None]]:
        """Those that take seconds."""
        return [
            self.freeze_briefly, self.cut_client_briefly, self.cut_server, self.cut_head, self.kill_head,
            self.kill_server, self.kill_mount, self.fill_disks, self.step_clock,
        ]  # fmt: skip

    def long_faults(self) -> list[Callable[[random.Random], None]]:
        """Those that last longer than a lease."""
        return [self.freeze_past_lease, self.cut_client_past_lease]

    def harass(self, seed: int) -> None:
        """Let the faults of a seed happen, some at the same time."""
        rng = random.Random(f"faults {seed}")
        faults = rng.sample(self.short_faults(), rng.randrange(2, 5))
        threads = []
        if seed % 3 == 0:
            long = rng.choice(self.long_faults())
            threads.append(threading.Thread(target=long, args=(random.Random(f"long {seed}"),), daemon=True))
            threads[0].start()
        for fault in faults:
            fault(rng)
            pause(rng.uniform(0.2, 1.5))
        for thread in threads:
            thread.join(LEASE + DEADLINE)
            assert not thread.is_alive(), "a fault does not end"


@contextmanager
def shared_hosts(place: Path) -> Iterator[Hosts]:
    """Run all of it; it is stopped at the end."""
    with network("head", *SERVERS, *CLIENTS) as net:
        hosts = Hosts(net, place)
        try:
            hosts.create()
            yield hosts
        finally:
            hosts.end()


def deadline_left(end: float) -> float:
    """Seconds until a time of the monotonic clock."""
    return max(end - time.monotonic(), 0.0)
