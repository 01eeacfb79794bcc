"""One head, some disk servers, one client host: each is killed and cut off at random, under load, and nothing is lost.

`BP_FAULT_SECONDS=900 pytest -s tests/test_faults.py` is the long one.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clients import DEADLINE, XRD_ENVIRONMENT, need, run
from facility import binaries, kill_and_wait
from network import Network, network

SECONDS = float(os.environ.get("BP_FAULT_SECONDS", "40"))
SEED = int(os.environ.get("BP_SEED", secrets.randbelow(1 << 31)))
WRITERS = 6
SERVERS = ("d1", "d2", "d3", "d4")
ROOT, HTTP, HTTPS = 1094, 8094, 8443
HEAL = 240.0
"""Seconds in which everything must be whole again once all hosts are left alone."""


@dataclass
class Promise:
    """What the pool keeps of each file."""

    words: str
    servers: tuple[str, ...]
    objects: int
    """As many, each on another disk server."""
    is_coded: bool = False


MIRRORED = Promise("--copies=2", SERVERS[:3], 2)
CODED = Promise("--coding=2+1", SERVERS, 3, is_coded=True)


class Daemon:
    """`bpd` on one host of the network."""

    def __init__(self, net: Network, name: str, directory: Path) -> None:
        self.net, self.name, self.directory = net, name, directory
        self.log = directory.parent / f"{name}.log"
        self.environment: dict[str, str] = {}
        """What it is given beside that of the tests."""
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it; it need not be up when this returns."""
        with self._lock, self.log.open("ab") as log:
            words = [*self.net.on(self.name), str(binaries() / "bpd"), "run", str(self.directory)]
            environment = {**os.environ, **self.environment}
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def kill(self) -> None:
        """End it without a chance to do anything."""
        with self._lock:
            if self._process:
                kill_and_wait(self._process.pid)
                self._process.wait()
                self._process = None

    def bp(self, *words: str | Path) -> str:
        """Run `bp` on its host."""
        env = {"BP_FACILITY": str(self.directory)}
        return self.net.run(self.name, binaries() / "bp", *words, env=env).out

    def wait_up(self, deadline: float = DEADLINE) -> None:
        """Wait until the head answers."""
        wait_until("the head answers", lambda: '"name"' in self.bp("--json", "status"), deadline)

    def objects(self) -> dict[str, list[int]]:
        """Read every complete object of its partition: adler32 by the path that its description names."""
        found: dict[str, list[int]] = {}
        for description in (self.directory / "disk").glob("*/objects/*/*.json"):
            data = description.with_suffix("")
            path = str(json.loads(description.read_text())["path"])
            found.setdefault(path, []).append(zlib.adler32(data.read_bytes()))
        return found


def wait_until(what: str, is_so: Callable[[], bool], deadline: float) -> None:
    """Wait for something that will be; questions that cannot be answered yet count as no."""
    end = time.monotonic() + deadline
    while True:
        with suppress(AssertionError, ValueError, KeyError):
            if is_so():
                return
        assert time.monotonic() < end, f"in {deadline} s not: {what}"
        time.sleep(0.2)


@dataclass
class Journal:
    """What clients were told, by path: the adler32 that the content has, or those that it may have."""

    files: dict[str, set[int]] = field(default_factory=dict)
    acknowledged: int = 0
    refused: int = 0
    read: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, path: str, content: int) -> None:
        """From now on the file may have this content. Zero stands for no file."""
        with self.lock:
            self.files.setdefault(path, {0}).add(content)

    def end(self, path: str, content: int, is_acknowledged: bool) -> None:
        """Note the outcome."""
        with self.lock:
            self.acknowledged += is_acknowledged
            self.refused += not is_acknowledged
            if is_acknowledged:
                self.files[path] = {content}

    def some(self, rng: random.Random) -> str | None:
        """Choose a file whose content is certain."""
        with self.lock:
            certain = [path for path, contents in self.files.items() if 0 not in contents]
        return rng.choice(certain) if certain else None


class Client(threading.Thread):
    """Writes, replaces and reads files with xrdcp on the client host."""

    def __init__(self, number: int, net: Network, scratch: Path, env: dict[str, str], journal: Journal) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.number, self.net, self.env, self.journal = number, net, env, journal
        self.scratch = scratch / str(number)
        self.scratch.mkdir(parents=True)
        self.rng = random.Random(f"{SEED} {number}")
        self.stop = threading.Event()
        self.wrong: list[str] = []
        self.refusal = ""
        self.refusals: Counter[str] = Counter()

    def run(self) -> None:
        """Work until told to stop."""
        count = 0
        while not self.stop.is_set():
            if self.rng.random() < 0.6:
                count += 1
                self.write(self.rng.randrange(1, max(2, count)) if self.rng.random() < 0.15 else count)
            elif path := self.journal.some(self.rng):
                self.look(path)

    def xrdcp(self, *words: str | Path) -> bool:
        """Run xrdcp on the client host. It ends with 0 although it prints that a close failed: that is a failure."""
        done = self.net.run("client", "xrdcp", "-s", "-f", *words, check=False, env=self.env)
        is_done = done.code == 0 and "[ERROR]" not in done.text
        if not is_done:
            self.refusal = str(done)
            self.refusals[done.text.strip().splitlines()[-1][:100] if done.text.strip() else "nothing said"] += 1
        return is_done

    def write(self, number: int) -> None:
        """Write a file, which may be there already."""
        path = f"/m/{self.number}-{number}"
        data = self.rng.randbytes(self.rng.choice((0, 1, 5000, 300_000, 1_500_000)))
        local = self.scratch / "out"
        local.write_bytes(data)
        content = zlib.adler32(data)
        self.journal.begin(path, content)
        self.journal.end(path, content, self.xrdcp(local, url(path)))

    def look(self, path: str) -> None:
        """Read a file; what arrives must be what was acknowledged."""
        local = self.scratch / "in"
        before = set(self.journal.files[path])
        if self.xrdcp(url(path), local):
            found = zlib.adler32(local.read_bytes())
            self.journal.read += 1
            if found not in before | self.journal.files[path]:
                self.wrong.append(f"{path} has {found:08x}, expected {before}")


def url(path: str) -> str:
    """Write where a file is."""
    return f"root://head:{ROOT}/{path}"


@contextmanager
def facility(net: Network, directory: Path, promise: Promise) -> Iterator[dict[str, Daemon]]:
    """Run a head that takes no files itself, and disk servers of a pool that keeps its promise."""
    daemons = {name: Daemon(net, name, directory / name) for name in ("head", *promise.servers)}
    head = daemons["head"]
    run(binaries() / "bp", "create", head.directory, "--volume-size=64MiB", "--volumes=1", "--slots=2", "--drives=1")
    configuration = head.directory / "facility.toml"
    text = configuration.read_text()
    for key, value in {
        "bind": f'"{net.addresses["head"]}"', "address": '"head"', "require_token": "true", "root_tls": '"login"',
        "root_port": ROOT, "http_port": HTTP, "https_port": HTTPS, "retention": '"0s"',
    }.items():  # fmt: skip
        lines = [f"{key} = {value}" if line.startswith(f"{key} = ") else line for line in text.splitlines()]
        text = "\n".join(lines) + "\n"
    configuration.write_text(text)
    try:
        head.start()
        head.wait_up()
        for name in promise.servers:
            token = json.loads(head.bp("--json", "host", "invite", "--role=disk"))["token"]
            words = [f"--token={token}", "--role=disk", f"--name={name}", f"--address={name}",
                     f"--bind={net.addresses[name]}", f"--root-port={ROOT}", f"--https-port={HTTPS}",
                     "--only"]  # fmt: skip
            net.run(name, binaries() / "bpd", "join", daemons[name].directory, *words)
            daemons[name].start()
        wait_until("all have registered", lambda: len(partitions(head)) == 1 + len(promise.servers), DEADLINE)
        own = next(name for name in partitions(head) if not name.startswith(SERVERS))
        head.bp("pool", "freeze", own)
        head.bp("pool", "set", "main", promise.words, "--heard-bound=5s", "--silence-bound=10s")
        head.bp("mkdir", "/m")
        yield daemons
    finally:
        for daemon in daemons.values():
            daemon.kill()


def pool(head: Daemon) -> dict[str, Any]:
    """Show the pool."""
    (found,) = json.loads(head.bp("--json", "pool", "list"))["pools"]
    return dict(found)


def partitions(head: Daemon) -> dict[str, dict[str, Any]]:
    """Show its partitions by name."""
    return {partition["name"]: partition for partition in pool(head)["partitions"]}


def harass(net: Network, daemon: Daemon, end: float, faults: list[str]) -> None:
    """Kill one host's daemon, or pull its cable, again and again."""
    rng = random.Random(f"{SEED} {daemon.name}")
    while time.monotonic() < end:
        time.sleep(min(rng.uniform(3, 25), max(end - time.monotonic(), 0)))
        # Longer than the bound after which a disk server is given up, now and then.
        away = rng.choice((0.5, 2, 6, 18))
        if rng.random() < 0.5:
            faults.append(f"kill {daemon.name} for {away} s")
            daemon.kill()
            time.sleep(away)
            daemon.start()
        else:
            faults.append(f"cut {daemon.name} for {away} s")
            net.pull(daemon.name)
            time.sleep(away)
            net.plug(daemon.name)


def is_whole(head: Daemon) -> bool:
    """Tell whether the pool keeps its promise for all files, as far as the head knows."""
    shown = pool(head)
    servers = [partition for partition in shown["partitions"] if partition["name"].startswith(SERVERS)]
    is_calm = all(partition["is_available"] and not partition["is_given_up"] for partition in servers)
    return is_calm and shown["files_short"] == 0 and shown["copies_under_way"] == 0


@pytest.mark.parametrize("promise", [MIRRORED, CODED], ids=["mirrored", "coded"])
def test_nothing_acknowledged_is_lost(tmp_path: Path, promise: Promise) -> None:
    need("xrdcp", "ip")
    print(f"\nBP_SEED={SEED} BP_FAULT_SECONDS={SECONDS:g}")
    with network("head", *promise.servers, "client") as net, facility(net, tmp_path, promise) as daemons:
        head, journal, faults = daemons["head"], Journal(), list[str]()
        token = head.bp("token", "create", "--lifetime=12h").strip()
        env = {
            **XRD_ENVIRONMENT, "XRD_REQUESTTIMEOUT": "20", "XRD_STREAMTIMEOUT": "8", "XRD_CONNECTIONWINDOW": "3",
            "X509_CERT_DIR": str(head.directory / "tls" / "trust"), "BEARER_TOKEN": token,
        }  # fmt: skip
        clients = [Client(number, net, tmp_path / "scratch", env, journal) for number in range(WRITERS)]
        for client in clients:
            client.start()
        end = time.monotonic() + SECONDS
        demons = [
            threading.Thread(target=harass, args=(net, daemon, end, faults), daemon=True) for daemon in daemons.values()
        ]
        for demon in demons:
            demon.start()
        for demon in demons:
            demon.join(SECONDS + 120)
            assert not demon.is_alive()
        for client in clients:
            client.stop.set()
        for client in clients:
            client.join(DEADLINE + 30)
            assert not client.is_alive(), client.name
        writes = f"{journal.acknowledged} writes acknowledged, {journal.refused} not"
        print(f"{len(faults)} faults; {writes}; {journal.read} reads")
        for reason, count in sum((client.refusals for client in clients), Counter[str]()).most_common(8):
            print(f"{count:8} {reason}")
        head.wait_up()
        wait_until("every file has its replicas", lambda: is_whole(head), HEAL)
        assert [wrong for client in clients for wrong in client.wrong] == []
        assert journal.acknowledged > WRITERS, clients[0].refusal
        check(net, daemons, promise, journal, env, tmp_path / "back")


def check(
    net: Network, daemons: dict[str, Daemon], promise: Promise, journal: Journal, env: dict[str, str], back: Path
) -> None:
    """Read every file by xrdcp, and its replicas or pieces from the disks themselves."""
    certain = {path: contents for path, contents in journal.files.items() if 0 not in contents}

    def read(path: str, contents: set[int]) -> None:
        local = back / path.rsplit("/", 1)[1]
        net.run("client", "xrdcp", "-s", "--cksum", "adler32:source", url(path), local, env=env)
        assert zlib.adler32(local.read_bytes()) in contents, path
        local.unlink()

    back.mkdir()
    with ThreadPoolExecutor(WRITERS) as readers:
        # Whatever failed is raised here.
        list(readers.map(read, certain.keys(), certain.values()))

    def lie_as_promised() -> bool:
        return [path for path in certain if len(replicas(path)) != promise.objects] == []

    def replicas(path: str) -> list[int]:
        return [content for disk in disks for content in disk.get(path, [])]

    disks: list[dict[str, list[int]]] = []

    def look() -> bool:
        disks[:] = [daemons[name].objects() for name in promise.servers]
        return lie_as_promised()

    wait_until("each file lies on as many disks as were promised", look, DEADLINE)
    for path, contents in certain.items():
        if not promise.is_coded:
            first, second = replicas(path)
            assert first == second
            assert first in contents, path
        assert max(len(disk.get(path, [])) for disk in disks) == 1, f"{path} lies twice on one disk"
    print(f"{len(certain)} files are whole, each on {promise.objects} disk servers")
