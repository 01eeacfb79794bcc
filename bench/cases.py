"""The cases: who is compared with whom, doing what."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from .clients import Client, Load
from .measure import Sample, sampled
from .servers import BIG, Backplane, Server

Unit = Literal["bytes", "operations"]

BLOCKS = ["4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "8MiB"]
STREAMS = [1, 2, 4, 8, 16, 64, 1000]
RAW_SERVERS = ["backplane", "xrootd6", "xrootd5"]


@dataclass
class Contender:
    """One client on one server in one case; `name` is `client>server`."""

    name: str
    label: str
    server: str
    note: str
    command: Callable[[], Sequence[str]]
    """The exact command, for the record; raises if a program is missing."""
    work: Callable[[], Sample]
    """One run."""


@dataclass
class Case:
    """Contenders that do the same."""

    name: str
    title: str
    unit: Unit
    reference: str
    """The contender that ratios refer to."""
    contenders: list[Contender] = field(default_factory=list)
    repeats_max: int | None = None


@dataclass
class Bench:
    """All that a case may need."""

    servers: dict[str, Server]
    clients: dict[str, Client]
    load: Load
    source: Path
    """The local file: uploads send it, servers have it as BIG."""
    size: int
    adler32: str
    seconds: float
    """How long one run of the load generator takes."""

    # Cases

    def cases(self) -> list[Case]:
        """List every case."""
        return [
            self.download(),
            self.upload(),
            *self.small(),
            *(self.block(size) for size in BLOCKS),
            *(self.streams(count) for count in STREAMS),
            *(self.disk(count) for count in (1, 8, 64)),
        ]

    def download(self) -> Case:
        """Read one file in one stream."""
        pairs = [
            ("bp", "backplane"),
            ("bp", "xrootd6"),
            ("xrdcp6", "backplane"),
            ("xrdcp6", "xrootd6"),
            ("xrdcp5", "backplane"),
            ("xrdcp5", "xrootd5"),
            ("xrdcp5-plain", "backplane"),
            ("xrdcp5-plain", "xrootd5"),
            ("curl", "backplane"),
            ("curl", "nginx"),
            ("iperf3", "iperf3"),
        ]
        case = Case("download", "Download of one file, one stream", "bytes", "xrdcp6>xrootd6")
        for client, server in pairs:
            case.contenders.append(self._download(self.clients[client], self.servers[server]))
        return case

    def _download(self, client: Client, server: Server) -> Contender:
        return Contender(
            f"{client.name}>{server.name}",
            f"{client.label} < {server.label}",
            server.name,
            client.note,
            lambda: client.download(server, BIG),
            lambda: sampled(server.pid, lambda: client.run_download(server, BIG, self.size)),
        )

    def upload(self) -> Case:
        """Write one file; the checksum that the server has afterwards is compared, outside the measurement."""
        pairs = [
            ("bp", "backplane"),
            ("bp", "xrootd6"),
            ("xrdcp6", "backplane"),
            ("xrdcp6", "xrootd6"),
            ("xrdcp6-plain", "backplane"),
            ("xrdcp6-plain", "xrootd6"),
            ("xrdcp5", "xrootd5"),
        ]
        case = Case("upload", "Upload of one file, one stream", "bytes", "xrdcp6>xrootd6")
        for client, server in pairs:
            case.contenders.append(self._upload(self.clients[client], self.servers[server]))
        return case

    def _upload(self, client: Client, server: Server) -> Contender:
        path = f"/upload-{client.name}"

        def work() -> Sample:
            server.remove(path)
            touch_memory(self.source.parent, self.size)
            try:
                run = lambda: client.run_upload(server, self.source, path, self.size)  # noqa: E731
                sample = sampled(server.pid, run)
                found = server.adler32(path)
                if found != self.adler32:
                    raise AssertionError(f"{path} on {server.name}: adler32 {found} instead of {self.adler32}")
                return sample
            finally:
                server.remove(path)

        name, label = f"{client.name}>{server.name}", f"{client.label} > {server.label}"
        command = lambda: client.upload(server, self.source, path)  # noqa: E731
        return Contender(name, label, server.name, client.note, command, work)

    def small(self) -> list[Case]:
        """List the cases of small operations."""
        rows: list[tuple[str, str, list[str], int]] = [
            ("random.1", "random 4 KiB, 1 deep", ["rand", "4KiB", "1"], 1),
            ("random.64", "random 4 KiB, 64 deep", ["rand", "4KiB", "64"], 1),
            ("readv", "readv, 1024 of 4 KiB", ["readv", "1024", "4KiB"], 1),
            ("stat.1", "stat, 1 deep", ["stat", "1"], 1),
            ("stat.64", "stat, 64 deep", ["stat", "64"], 1),
            ("open.1", "open+close, 1 client", ["open"], 1),
            ("open.8", "open+close, 8 clients", ["open"], 8),
            ("open.64", "open+close, 64 deep", ["open", "64"], 1),
        ]
        return [self._raw(name, title, "operations", mode, sessions) for name, title, mode, sessions in rows]

    def block(self, block: str) -> Case:
        """Read a file in blocks of one size, 8 in flight."""
        return self._raw(f"block.{block}", f"Sequential reads of {block}, 8 in flight", "bytes", ["seq", block, "8"], 1)

    def streams(self, count: int) -> Case:
        """Read with many sessions at the same time."""
        title = f"{readers(count)}, 1 MiB blocks, 2 in flight each"
        return self._raw(f"streams.{count}", title, "bytes", ["seq", "1MiB", "2"], count)

    def _raw(self, name: str, title: str, unit: Unit, mode: list[str], sessions: int) -> Case:
        case = Case(name, title, unit, "load>xrootd6")
        for server in RAW_SERVERS:
            case.contenders.append(self._load(self.servers[server], mode, sessions))
        return case

    def _load(
        self, server: Server, mode: list[str], sessions: int, before: Callable[[], None] | None = None
    ) -> Contender:
        options = ["--duration", f"{int(self.seconds * 1000)}ms", "--sessions", str(sessions)]

        def work() -> Sample:
            if before is not None:
                before()
            return sampled(server.pid, lambda: self.load.run(server, mode, options, BIG))

        return Contender(
            f"load>{server.name}",
            server.label,
            server.name,
            "first word and length of every answer",
            lambda: self.load.command(server, mode, options, BIG),
            work,
        )

    def disk(self, count: int) -> Case:
        """Read from a real disk with nothing cached, through the page cache and past it."""
        title = f"{readers(count)} of a real disk, page cache emptied before"
        case = Case(f"disk.{count}", title, "bytes", "load>xrootd6-disk")
        for name in ("backplane-disk", "backplane-direct", "xrootd6-disk"):
            server = self.servers[name]
            before = lambda server=server: drop_from_cache(server)  # noqa: E731
            case.contenders.append(self._load(server, ["seq", "1MiB", "2"], count, before))
        return case


def readers(count: int) -> str:
    """Say how many read."""
    return "one sequential reader" if count == 1 else f"{count} sequential readers"


def touch_memory(directory: Path, size: int) -> None:
    """Take and give back the memory of a file, so that every upload finds the same.

    A virtual machine gives free memory back to its host; whoever takes it first afterwards pays for that.
    """
    block = bytes(1 << 20)
    scratch = directory / "scratch"
    with scratch.open("wb") as file:
        for _ in range(0, size, len(block)):
            file.write(block)
    scratch.unlink()


def drop_from_cache(server: Server) -> None:
    """Make the kernel forget the data of a server's files."""
    if isinstance(server, Backplane):
        files = [path for path in (server.data / server.directory.name).rglob("*") if path.is_file()]
    else:
        files = [server.tree / BIG.lstrip("/")] if hasattr(server, "tree") else []
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def chosen(cases: list[Case], globs: list[str], systems: list[str]) -> list[Case]:
    """Leave out cases that no pattern names, and contenders on servers that are not asked for."""
    kept = [case for case in cases if any(fnmatch(case.name, glob) for glob in globs)]
    for case in kept:
        case.contenders = [
            contender for contender in case.contenders if not systems or contender.server.partition("-")[0] in systems
        ]
    return [case for case in kept if case.contenders]
