"""Looks at the daemon from outside while it is used, and draws what it saw."""

from __future__ import annotations

import csv
import http.client
import re
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from itertools import pairwise
from pathlib import Path
from statistics import median

from facility import Facility


@dataclass(frozen=True)
class Sample:
    """What the daemon was like at one moment; bytes in and out are since the start of that daemon."""

    seconds: float
    pid: int
    memory_bytes: int
    fds: int
    root_sessions: int
    http_sessions: int
    in_bytes: int
    out_bytes: int


def memory_bytes(pid: int) -> int:
    """Tell how much memory of its own a process has."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) << 10


def fds(pid: int) -> int:
    """Count the open files of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def kept_objects(facility: Facility) -> int:
    """Count what the disk server keeps open for the next reader: each object once, and none that is gone."""
    targets = []
    for file in Path(f"/proc/{facility.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.append(str(file.readlink()))
    objects = [target for target in targets if "/disk1/objects/" in target]
    return len({target for target in objects if not target.endswith("(deleted)")})


def metrics(facility: Facility) -> dict[str, float]:
    """Read all metrics, on a connection that is closed at once."""
    with urllib.request.urlopen(f"{facility.http}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def sessions(figures: dict[str, float], door: str) -> int:
    """Tell how many connections a door has."""
    return int(figures[f'backplane_door_connections_open{{door="{door}"}}'])


def look(facility: Facility, seconds: float) -> Sample:
    """Take one sample."""
    pid, figures = facility.pid, metrics(facility)

    def both(what: str) -> int:
        return int(sum(figures[f'backplane_door_{what}_bytes_total{{door="{door}"}}'] for door in ("root", "http")))

    # One of the connections is the one that asks.
    return Sample(
        seconds, pid, memory_bytes(pid), fds(pid), sessions(figures, "root"), sessions(figures, "http") - 1,
        both("in"), both("out"),
    )  # fmt: skip


class Watch:
    """Takes samples until told to stop.

    Parameters
    ----------
    facility
        What is looked at.
    period_seconds
        Between two samples.
    """

    def __init__(self, facility: Facility, period_seconds: float) -> None:
        self.samples: list[Sample] = []
        self.start = time.monotonic()
        self._facility = facility
        self._period = period_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            try:
                self.samples.append(look(self._facility, time.monotonic() - self.start))
            except (OSError, AssertionError, http.client.HTTPException):
                # It is just being restarted.
                continue

    def stop(self) -> None:
        """Take no more samples."""
        self._stopped.set()
        self._thread.join(60)

    def of(self, pid: int) -> list[Sample]:
        """List the samples of one daemon."""
        return [sample for sample in self.samples if sample.pid == pid]

    def write(self, directory: Path) -> None:
        """Write all samples as a table, and a plot of them."""
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "samples.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow([field.name for field in fields(Sample)])
            table.writerows(astuple(sample) for sample in self.samples)
        draw(self.samples, directory / "soak.svg")


def memory_around(samples: list[Sample], part: float) -> float:
    """Tell the usual memory in a tenth of the samples, from `part` of them on."""
    count = max(len(samples) // 10, 3)
    first = min(int(len(samples) * part), len(samples) - count)
    return median(sample.memory_bytes for sample in samples[first : first + count])


def rates(samples: list[Sample], what: str) -> list[float]:
    """Tell bytes per second between samples; 0 across a restart."""
    found = [0.0]
    for one, other in pairwise(samples):
        moved = getattr(other, what) - getattr(one, what)
        found.append(moved / (other.seconds - one.seconds) if one.pid == other.pid else 0.0)
    return found


def table(samples: list[Sample], rows: int = 12) -> str:
    """Write a small table over time."""
    lines = [f"{'time s':>8} {'memory MiB':>11} {'fds':>6} {'root':>6} {'http':>6} {'in MB/s':>8} {'out MB/s':>9}"]
    flows = list(zip(samples, rates(samples, "in_bytes"), rates(samples, "out_bytes"), strict=True))
    for sample, taken, given in flows[:: max(len(flows) // rows, 1)]:
        lines.append(
            f"{sample.seconds:8.1f} {sample.memory_bytes / 2**20:11.1f} {sample.fds:6} {sample.root_sessions:6} "
            f"{sample.http_sessions:6} {taken / 1e6:8.1f} {given / 1e6:9.1f}"
        )
    return "\n".join(lines)


def draw(samples: list[Sample], file: Path) -> None:
    """Draw memory, sessions, open files and rates over time; without matplotlib there is only the table."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(8, 9), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True)
    seconds = [sample.seconds for sample in samples]
    axes[0].plot(seconds, [sample.memory_bytes / 2**20 for sample in samples])
    axes[0].set_ylabel("own memory / MiB")
    axes[1].plot(seconds, [sample.root_sessions for sample in samples], label="root")
    axes[1].plot(seconds, [sample.http_sessions for sample in samples], label="http")
    axes[1].set_ylabel("sessions")
    axes[2].plot(seconds, [sample.fds for sample in samples])
    axes[2].set_ylabel("open files")
    axes[3].plot(seconds, [rate / 1e6 for rate in rates(samples, "in_bytes")], label="in")
    axes[3].plot(seconds, [rate / 1e6 for rate in rates(samples, "out_bytes")], label="out")
    axes[3].set_ylabel("data / (MB/s)")
    axes[3].set_xlabel("time / s")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    for axis in (axes[1], axes[3]):
        axis.legend()
    restarts = {sample.pid: sample.seconds for sample in reversed(samples)}
    for second in sorted(restarts.values())[1:]:
        for axis in axes:
            axis.axvline(second, color="grey", linestyle=":")
    figure.savefig(file)
