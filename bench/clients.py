"""The clients that are compared: how each is called, and what it checks."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .measure import Memory, Sample, run, run_discarding
from .servers import NotInstalledError, NotOfferedError, Server, library_path

XRD_ENVIRONMENT = {"XRD_LOGLEVEL": "Error", "XRD_CONNECTIONRETRY": "1", "XRD_STREAMTIMEOUT": "120"}


@dataclass
class Client:
    """A program that moves whole files.

    `note` says what it checks of the data that it moves.
    """

    name: str
    label: str
    note: str
    program: str | None
    hint: str
    env: dict[str, str] = field(default_factory=dict)

    def need(self) -> str:
        """Find the program."""
        if self.program is None:
            raise NotInstalledError(f"{self.label} is not installed ({self.hint})")
        return self.program

    def download(self, server: Server, path: str) -> list[str]:
        """Write the command that reads a file to nowhere."""
        raise NotImplementedError

    def upload(self, server: Server, local: Path, path: str) -> list[str]:
        """Write the command that writes a file."""
        raise NotImplementedError

    def run_download(self, server: Server, path: str, size: int) -> Sample:
        """Read a file to nowhere."""
        ended = run_discarding(self.download(server, path), self.env)
        return Sample(ended.seconds, 1, size, None, ended.cpu_s, Memory())

    def run_upload(self, server: Server, local: Path, path: str, size: int) -> Sample:
        """Write a file."""
        ended = run(self.upload(server, local, path), self.env)
        return Sample(ended.seconds, 1, size, None, ended.cpu_s, Memory())


class Xrdcp(Client):
    """The copy program of XRootD."""

    def download(self, server: Server, path: str) -> list[str]:
        """Write the command that reads a file to nowhere."""
        return [self.need(), "-s", "-f", server.root_url(path), "/dev/null"]

    def upload(self, server: Server, local: Path, path: str) -> list[str]:
        """Write the command that writes a file."""
        return [self.need(), "-s", "-f", str(local), server.root_url(path)]


class Bp(Client):
    """Our own copy program."""

    def __init__(self, binaries: Path) -> None:
        program = binaries / "bp"
        super().__init__("bp", "bp", "whole file", str(program) if program.exists() else None, "make build")

    @property
    def has_copy(self) -> bool:
        """Whether this build has the verb that copies between any two places."""
        return subprocess.run([self.need(), "cp", "--help"], capture_output=True, check=False).returncode == 0

    def _facility(self, server: Server) -> list[str]:
        directory = getattr(server, "directory", None)
        if directory is None:
            raise NotOfferedError("this build of bp has no verb cp; get and put know our own server only")
        return [self.need(), "--quiet", "-f", str(directory)]

    def download(self, server: Server, path: str) -> list[str]:
        """Write the command that reads a file to standard output."""
        if self.has_copy:
            return [self.need(), "--quiet", "cp", server.root_url(path), "-"]
        return [*self._facility(server), "get", path, "-"]

    def upload(self, server: Server, local: Path, path: str) -> list[str]:
        """Write the command that writes a file."""
        if self.has_copy:
            return [self.need(), "--quiet", "cp", str(local), server.root_url(path)]
        return [*self._facility(server), "put", str(local), path]


class Curl(Client):
    """curl over plain HTTP."""

    def __init__(self) -> None:
        super().__init__("curl", "curl", "none", shutil.which("curl"), "the package curl")

    def download(self, server: Server, path: str) -> list[str]:
        """Write the command that reads a file to nowhere."""
        return [self.need(), "-sS", "--fail", "-o", "/dev/null", f"http://127.0.0.1:{server.http_port}{path}"]


class IperfClient(Client):
    """iperf3 in reverse: its server sends, as a download does."""

    SECONDS = 2

    def __init__(self) -> None:
        super().__init__("iperf3", "iperf3", "none, no file", shutil.which("iperf3"), "the package iperf3")

    def download(self, server: Server, path: str) -> list[str]:
        """Write the command that receives for some seconds."""
        del path
        return [self.need(), "-c", "127.0.0.1", "-p", str(server.root_port), "-R", "-J", "-t", str(self.SECONDS)]

    def run_download(self, server: Server, path: str, size: int) -> Sample:
        """Receive for some seconds; as many bytes as come."""
        del size
        ended = run(self.download(server, path))
        received = json.loads(ended.out)["end"]["sum_received"]
        return Sample(float(received["seconds"]), 1, int(received["bytes"]), None, ended.cpu_s, Memory())


def find_xrdcp6(prefix: Path | None) -> Path | None:
    """Find xrdcp 6: under the prefix."""
    binary = prefix / "bin" / "xrdcp" if prefix else None
    return binary if binary and binary.exists() else None


def xrdcps(prefix: Path | None) -> dict[str, Client]:
    """Make the variants of xrdcp."""
    debian = shutil.which("xrdcp")
    new = find_xrdcp6(prefix)
    env6 = {**XRD_ENVIRONMENT, **(library_path(new) if new else {})}
    pages, plain = "page CRC-32C", "none"
    hint5, hint6 = "the package xrootd-client", "--xrootd6 DIR or XROOTD6=DIR"
    without = {"XRD_CPUSEPGWRTRD": "0"}
    return {
        "xrdcp6": Xrdcp("xrdcp6", "xrdcp 6", pages, str(new) if new else None, hint6, env6),
        "xrdcp6-plain": Xrdcp(
            "xrdcp6-plain", "xrdcp 6, plain", plain, str(new) if new else None, hint6, {**env6, **without}
        ),
        "xrdcp5": Xrdcp("xrdcp5", "xrdcp 5", pages, debian, hint5, XRD_ENVIRONMENT),
        "xrdcp5-plain": Xrdcp("xrdcp5-plain", "xrdcp 5, plain", plain, debian, hint5, {**XRD_ENVIRONMENT, **without}),
    }


@dataclass(frozen=True)
class Load:
    """The raw load generator."""

    program: Path

    def run(self, server: Server, mode: Sequence[str], options: Sequence[str], path: str) -> Sample:
        """Measure one mode; a session that fails fails the run."""
        command = self.command(server, mode, options, path)
        report = json.loads(run(command).out)
        return Sample(
            float(report["seconds"]),
            int(report["operations"]),
            int(report["bytes"]),
            None,
            float(report["client_cpu_s"]),
            Memory(),
            {key: report[key] for key in ("latency_us", "first_byte_us", "setup_us", "share", "redirected")},
        )

    def command(self, server: Server, mode: Sequence[str], options: Sequence[str], path: str) -> list[str]:
        """Write the command."""
        if not self.program.exists():
            raise NotInstalledError(f"{self.program} is not built: `cargo build --release -p rfio-load`")
        address = f"127.0.0.1:{server.root_port}"
        return [str(self.program), "run", "--server", address, "--path", path, "--pattern", *options, *mode]
