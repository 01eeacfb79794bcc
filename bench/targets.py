"""What has been set out to be reached, and whether it was. The only place where the figures of the targets stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Metric = Literal["rate", "server_cpu", "client_cpu", "resident_mib", "own_mib"]
"""Rate: bytes or operations a second. Processor time: per byte or operation. Memory: the server's largest, in MiB,
with what it maps of files, which is the page cache, or without."""


@dataclass(frozen=True)
class Target:
    """One target: a metric of a contender, as a ratio to that of a peer, or by itself if there is no peer."""

    text: str
    case: str
    contender: str
    peer: str | None
    metric: Metric
    bound: float
    is_floor: bool
    peer_case: str | None = None

    def is_reached(self, measured: float) -> bool:
        """Tell whether a measured value satisfies the target."""
        return measured >= self.bound if self.is_floor else measured <= self.bound


def _floor(text: str, case: str, contender: str, peer: str, bound: float, metric: Metric = "rate") -> Target:
    return Target(text, case, contender, peer, metric, bound, is_floor=True)


def _ceiling(text: str, case: str, contender: str, peer: str, metric: Metric, bound: float) -> Target:
    return Target(text, case, contender, peer, metric, bound, is_floor=False)


def _small(text: str, case: str, bound: float) -> list[Target]:
    """Small operations have a floor for their rate and one ceiling for the server's time."""
    us, them = "load>backplane", "load>xrootd6"
    return [
        _floor(f"{text}: rate against xrootd 6", case, us, them, bound),
        _ceiling(f"{text}: server CPU per operation", case, us, them, "server_cpu", 0.6),
    ]


TARGETS: list[Target] = [
    _floor("download by xrdcp 6: rate against xrootd 6", "download", "xrdcp6>backplane", "xrdcp6>xrootd6", 1.0),
    _ceiling("download by xrdcp 6: server CPU", "download", "xrdcp6>backplane", "xrdcp6>xrootd6", "server_cpu", 0.9),
    _floor("download by our client: rate against xrdcp 6", "download", "bp>backplane", "xrdcp6>xrootd6", 1.3),
    _ceiling("download by our client: client CPU", "download", "bp>backplane", "xrdcp6>xrootd6", "client_cpu", 0.5),
    _floor("download by our client: rate against iperf3", "download", "bp>backplane", "iperf3>iperf3", 0.8),
    _floor("upload, ours to ours: rate against xrdcp 6 to xrootd 6", "upload", "bp>backplane", "xrdcp6>xrootd6", 2.0),
    *_small("4 KiB random reads, 64 in flight", "random.64", 1.5),
    *_small("stat, 64 in flight", "stat.64", 1.8),
    *_small("open and close, one after the other", "open.1", 2.0),
    *_small("open and close, 64 in flight", "open.64", 2.0),
    *_small("vectors of 1024 elements of 4 KiB", "readv", 2.0),
    Target(
        "1000 readers: aggregate against 16 readers",
        "streams.1000",
        "load>backplane",
        "load>backplane",
        "rate",
        0.9,
        is_floor=True,
        peer_case="streams.16",
    ),
    Target(
        "1000 readers: memory of the server without mapped files, MiB",
        "streams.1000",
        "load>backplane",
        None,
        "own_mib",
        256.0,
        is_floor=False,
    ),
]
