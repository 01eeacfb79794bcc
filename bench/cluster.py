"""A head that sends its clients on, and its peer: what is started for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from .measure import run
from .servers import Backplane, NotInstalledError, Server, free_port

WAIT_S = 120.0
"""Seconds for what goes on in the background."""


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    """Wait for something that takes a while."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not so after {WAIT_S:.0f} s")
        time.sleep(0.1)


class Member(Server):
    """A disk server that joined our head."""

    name = label = "disk server"

    def __init__(self, head: Backplane, directory: Path) -> None:
        super().__init__(directory)
        self.head = head

    def start(self) -> None:
        """Join, start, and wait until the head knows it."""
        token = json.loads(self.head.bp("--json", "host", "invite", "--role=disk"))["token"]
        self.root_port, self.http_port = free_port(), free_port()
        ports = [f"--root-port={self.root_port}", f"--https-port={self.http_port}"]
        daemon, directory = str(self.head.bin / "bpd"), str(self.place)
        run([daemon, "join", directory, f"--token={token}", "--role=disk", "--name=d1", *ports, "--only"])
        self.command = [daemon, "run", directory]
        self._spawn(self.root_port)
        wait_until("the disk server is known", self._is_known)

    def _is_known(self) -> bool:
        pools = json.loads(self.head.bp("--json", "status"))["pools"]
        partitions = [partition for pool in pools for partition in pool["partitions"]]
        return any(one["name"] == "d1-disk1" and one["is_available"] for one in partitions)


class XrootdCluster(Server):
    """A manager of XRootD with its cluster daemon, and one data server with its own."""

    name = label = "xrootd manager"

    def __init__(self, place: Path, tree: Path) -> None:
        super().__init__(place)
        self.tree = tree
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all four, and wait until an open is sent on."""
        if shutil.which("cmsd") is None:
            raise NotInstalledError("cmsd is not installed (the package xrootd-server)")
        self.version = subprocess.run(["xrootd", "-v"], capture_output=True, text=True, check=False).stderr.strip()
        self.root_port, data, cluster = free_port(), free_port(), free_port()
        roles = {"manager": self.root_port, "server": data}
        for role, port in roles.items():
            self._configure(role, port, cluster)
            for program in ("cmsd", "xrootd"):
                self._run(program, role)
        # The manager's own process is what is measured.
        self.pid = self._processes[1].pid

    def _configure(self, role: str, port: int, cluster: int) -> None:
        admin = self.place / role
        admin.mkdir()
        admin.chmod(0o777)
        (self.place / f"{role}.cfg").write_text(
            f"all.role {role}\nall.manager localhost:{cluster}\nall.export /\noss.localroot {self.tree}\n"
            f"all.adminpath {admin}\nall.pidpath {admin}\ncms.delay startup 2 servers 1 lookup 1\n"
            f"if exec xrootd\nxrd.port {port}\nfi\nif exec cmsd && named manager\nxrd.port {cluster}\nfi\n"
        )

    def _run(self, program: str, role: str) -> None:
        user = ["-R", "nobody"] if os.geteuid() == 0 else []
        words = [
            program,
            *user,
            "-c",
            str(self.place / f"{role}.cfg"),
            "-n",
            role,
            "-l",
            str(self.place / role / "log"),
        ]
        with (self.place / "output").open("ab") as log:
            self._processes.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True))

    def stop(self) -> None:
        """Stop all four."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(30)
