"""Two hundred clients as processes and threads, of which somebody kills one now and then."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clients import XRD_ENVIRONMENT
from facility import Facility
from soak.doors import Programs
from soak.journal import Journal
from soak.worker import Client
from storm import QUICK

WORKERS = [("root", 22)] * 4 + [("http", 22)] * 3 + [("bindings", 8)] * 2
"""Processes: their kind and how many clients each is."""

PROGRAMS = [("xrdcp", 12), ("bp", 12), ("curl", 6)]
"""Programs that are run again and again by so many clients each."""

CLIENTS = sum(count for _, count in WORKERS + PROGRAMS)

AT_ONCE = 4
"""Programs that run at a time: more would only wait for a processor."""


@dataclass
class Worker:
    """A process of clients, and what it leaves behind."""

    kind: str
    count: int
    process: subprocess.Popen[bytes]
    journal: Path


@dataclass
class Crowd:
    """All clients.

    Parameters
    ----------
    facility
        Its ports must stay the same.
    scratch
        For journals and local files.
    seed
        Of all choices.
    """

    facility: Facility
    scratch: Path
    seed: int
    journals: dict[str, list[Path]] = field(default_factory=dict)
    kills: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.workers: list[Worker] = []
        self._programs: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._number = 0

    # Life

    def start(self) -> None:
        """Start all clients."""
        for kind, count in WORKERS:
            self.workers.append(self._worker(kind, count))
        for kind, count in PROGRAMS:
            for number in range(count):
                self._threads.append(threading.Thread(target=self._run_programs, args=(kind, number), daemon=True))
        for thread in self._threads:
            thread.start()

    def kill_one(self) -> None:
        """Kill a program in the middle of what it does, or a whole process of clients, and start another."""
        self.kills += 1
        with self._lock:
            running = [process for process in self._programs if process.poll() is None]
        if running and self.rng.random() < 0.5:
            self.rng.choice(running).kill()
            return
        crashed = [worker for worker in self.workers if worker.process.poll() is not None and self._is_theirs(worker)]
        worker = self.rng.choice(crashed or self.workers)
        worker.process.kill()
        with suppress(BrokenPipeError):
            worker.process.communicate(timeout=60)
        self.workers[self.workers.index(worker)] = self._worker(worker.kind, worker.count)

    def stop(self) -> None:
        """End all clients between two steps."""
        self._stopped.set()
        for worker in self.workers:
            assert worker.process.poll() is None, (
                f"a process of {worker.kind} clients ended with {worker.process.poll()}"
            )
            assert worker.process.stdin
            worker.process.stdin.close()
        for worker in self.workers:
            worker.process.wait(180)
        for thread in self._threads:
            thread.join(180)
            assert not thread.is_alive(), "a client hangs"

    @staticmethod
    def _is_theirs(worker: Worker) -> bool:
        """Tell whether other people's library crashed, as it may when its server comes and goes: one more kill."""
        return worker.kind == "bindings" and worker.process.returncode == -signal.SIGSEGV

    def read_journals(self) -> dict[str, list[Journal]]:
        """Read what all clients noted, by kind."""
        found: dict[str, list[Journal]] = {}
        for kind, files in self.journals.items():
            for file in files:
                journal = Journal(file)
                journal.close()
                found.setdefault(kind, []).append(journal)
        return found

    # Clients

    def _home(self, kind: str) -> tuple[str, Path]:
        """Make a directory and a journal for a new process or thread."""
        with self._lock:
            self._number += 1
            name = f"{kind}{self._number}"
            journal = self.scratch / f"{name}.journal"
            self.journals.setdefault(kind, []).append(journal)
        self.facility.bp("mkdir", "--parents", f"/soak/{name}", check=False)
        return f"/soak/{name}", journal

    def _worker(self, kind: str, count: int) -> Worker:
        directory, journal = self._home(kind)
        program = Path(__file__).with_name("worker.py")
        words = [kind, self.facility.root, self.facility.http, directory, journal, self.rng.getrandbits(32), count]
        log = self.scratch / f"{journal.stem}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, program, *map(str, words)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **XRD_ENVIRONMENT, **QUICK},
            )
        return Worker(kind, count, process, journal)

    def _spawn(self, words: list[str]) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **XRD_ENVIRONMENT, **QUICK, "BP_FACILITY": str(self.facility.directory)}
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        with self._lock:
            self._programs = {one for one in self._programs if one.poll() is None} | {process}
        return process

    def _run_programs(self, kind: str, number: int) -> None:
        directory, file = self._home(kind)
        local = self.scratch / f"{kind}{number}.local"
        journal = Journal(file)
        door = Taking(self._slots, Programs(self._spawn, local, self._verbs(kind), SAYS[kind]))
        Client(door, f"{directory}/0", journal, random.Random(f"{self.seed}.{kind}.{number}"), self._stopped).run()
        journal.close()

    def _verbs(self, kind: str) -> dict[str, list[str]]:
        root, http, bp = self.facility.root, self.facility.http, str(self.facility.bin / "bp")
        return {
            "xrdcp": {
                "put": ["xrdcp", "-s", "-f", "LOCAL", f"{root}/PATH"],
                "get": ["xrdcp", "-s", "-f", f"{root}/PATH", "LOCAL"],
                "remove": ["xrdfs", root, "rm", "PATH"],
                "names": ["xrdfs", root, "ls", "PATH"],
            },
            "bp": {
                "put": [bp, "put", "--replace", "LOCAL", "PATH"],
                "get": [bp, "get", "--replace", "PATH", "LOCAL"],
                "remove": [bp, "rm", "PATH"],
                "names": [bp, "ls", "PATH"],
            },
            "curl": {
                "put": ["curl", "-sSf", "-T", "LOCAL", f"{http}PATH"],
                "get": ["curl", "-sSf", "-o", "LOCAL", f"{http}PATH"],
                "remove": ["curl", "-sSf", "-X", "DELETE", f"{http}PATH"],
                "names": ["curl", "-sSf", "-H", "Accept: text/plain", f"{http}PATH/"],
            },
        }[kind]


def _xrdcp_says(_: int, text: str) -> str:
    if "[3011]" in text:
        return "missing"
    return "refused" if re.search(r"\[3\d{3}\]", text) else "lost"


def _bp_says(code: int, _: str) -> str:
    return {3: "missing", 6: "lost", 9: "lost"}.get(code, "refused")


def _curl_says(_: int, text: str) -> str:
    if "error: 404" in text:
        return "missing"
    return "refused" if "returned error" in text else "lost"


SAYS = {"xrdcp": _xrdcp_says, "bp": _bp_says, "curl": _curl_says}
"""What the programs mean when they fail."""


class Taking:
    """A door whose every use takes one of a few slots.

    Parameters
    ----------
    slots
        How many may be used at a time.
    door
        What is used.
    """

    def __init__(self, slots: threading.BoundedSemaphore, door: Programs) -> None:
        self._slots = slots
        self._door = door

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a file."""
        with self._slots:
            self._door.put(path, data)

    def get(self, path: str) -> bytes | None:
        """Read a whole file."""
        with self._slots:
            return self._door.get(path)

    def remove(self, path: str) -> bool:
        """Remove a file."""
        with self._slots:
            return self._door.remove(path)

    def names(self, path: str) -> set[str]:
        """List a directory."""
        with self._slots:
            return self._door.names(path)

    def close(self) -> None:
        """Nothing is kept."""


@dataclass(frozen=True)
class Outage:
    """When the facility was away, by the clock on the wall."""

    begin: float = field(default_factory=time.time)
    end: float = 0.0

    def explains(self, when: float) -> bool:
        """Tell whether a connection may have broken because of it; clients come back some seconds late."""
        return self.begin - 0.5 <= when <= self.end + 30
