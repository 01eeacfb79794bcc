"""Describes the machine that figures belong to."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe(data: Path) -> dict[str, str]:
    """Name processor, kernel, memory and where the files lie."""
    processor = _first("/proc/cpuinfo", "model name") or platform.processor()
    memory = int((_first("/proc/meminfo", "MemTotal") or "0").split()[0]) / (1 << 20)
    return {
        "processor": processor,
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.1f} GiB",
        "kernel": ".".join(platform.release().split(".")[:2]),
        "virtual machine": "yes" if "hypervisor" in (_first("/proc/cpuinfo", "flags") or "") else "no",
        "files on": f"{data.parent} ({_file_system(data)})",
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def _first(file: str, key: str) -> str | None:
    """Find the value of the first line of a file that begins with a key."""
    for line in Path(file).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def _file_system(path: Path) -> str:
    """Find the type of the file system that a path is on."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(fields[1], fields[2]) for fields in mounts if path.resolve().is_relative_to(fields[1])]
    return max(above, key=lambda mount: len(mount[0]))[1] if above else "unknown"
