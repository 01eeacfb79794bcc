"""A host with nothing on it, on which a page of documentation is typed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clients import need
from facility import binaries
from pages import PageError

TOP = Path(__file__).resolve().parent.parent

DEADLINE_S = 300.0

OVERLAID = ("etc", "usr/bin", "var/lib")
"""Directories of the host that a page may write to: what it writes ends with its world."""

_HOLDER = """
set -e
ip link set lo up
mount -t tmpfs scratch /mnt
for place in {overlaid}; do
    mkdir -p /mnt/$place/upper /mnt/$place/work
    mount -t overlay -o lowerdir=/$place,upperdir=/mnt/$place/upper,workdir=/mnt/$place/work overlay /$place
done
mount -t tmpfs -o size=64g srv /srv
echo up
# The first process has to take leave of those whose parents have ended.
while true; do sleep 3600 & wait $!; done
"""


class World:
    """A host with nothing on it: a network, processes, and directories of its own; the page is in the source tree.

    Parameters
    ----------
    directory
        Where the source tree seems to be.
    holder
        A process on that host.
    """

    def __init__(self, directory: Path, holder: int) -> None:
        self.directory = directory
        self._holder = holder
        self._state = directory / ".state"
        self._python: list[str] = []
        home = directory / "home"
        (directory / "target").mkdir(parents=True)
        home.mkdir()
        for place in ("README.md", "demo", "docs", "packaging", "python", "scripts", "Makefile"):
            (directory / place).symlink_to(TOP / place)
        (directory / "target" / "release").symlink_to(binaries())
        paths = [str(Path(sys.executable).parent), str(binaries()), os.environ["PATH"]]
        self._environment = {
            "HOME": str(home), "PATH": ":".join(paths), "LANG": "C.UTF-8", "MPLCONFIGDIR": str(home),
            "STATE": str(self._state), "XRD_LOGLEVEL": "Error",
        }  # fmt: skip
        self._state.write_text(f"cd {directory}\n")

    def shell(self, lines: str) -> str:
        """Run lines of shell after all earlier ones; returns what they print."""
        begin = f"set -euo pipefail; . {TOP}/tests/world.sh; . $STATE; set -a"
        # What was set stays set, as in the terminal of the reader.
        end = '{ export -p; printf "cd %q\\n" "$PWD"; } >$STATE'
        return self._run("bash", "-c", f"{begin}\n{lines}\n{end}\n")

    def python(self, text: str) -> str:
        """Run a piece of Python after all earlier ones."""
        self._python.append(text)
        program = "\n".join(self._python)
        return self._run("bash", "-c", f'. $STATE; exec {sys.executable} -c "$1"', "bash", program)

    def configure(self, text: str) -> None:
        """Put keys into the configuration of the facility and start it anew."""
        named = self.shell('realpath "$BP_FACILITY/facility.toml"').strip()
        place = Path(f"/proc/{self._holder}/root{named}")
        merged = _merge(tomllib.loads(place.read_text()), tomllib.loads(text))
        self.shell('bp down "$BP_FACILITY" || true')
        place.write_text(_toml(merged))
        self.shell('bp up "$BP_FACILITY" --detach')

    def _run(self, *words: str) -> str:
        try:
            done = subprocess.run(
                ["nsenter", f"--target={self._holder}", "--net", "--mount", "--pid", "--", *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=self._environment, cwd=self.directory, timeout=DEADLINE_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise PageError(f"not done after {DEADLINE_S:g} s\n{(late.stdout or b'').decode()}") from late
        printed = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise PageError(f"ended with {done.returncode}\n{printed}")
        return printed


def _merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = [key for key in new if isinstance(new[key], dict) and isinstance(old.get(key), dict)]
    return {**old, **new, **{key: _merge(old[key], new[key]) for key in both}}


def _toml(tables: dict[str, Any], prefix: str = "") -> str:
    """Write what `facility.toml` can hold."""
    lines = [f"{_value(key)} = {_value(value)}" for key, value in tables.items() if not _is_table(value)]
    for key, value in tables.items():
        if isinstance(value, dict):
            lines.append(f"[{prefix}{_value(key)}]\n{_toml(value, f'{prefix}{_value(key)}.')}")
        elif _is_table(value):
            lines += [f"[[{prefix}{_value(key)}]]\n{_toml(one, f'{prefix}{_value(key)}.')}" for one in value]
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value)


@contextmanager
def world(directory: Path) -> Iterator[World]:
    """Make a world; what runs in it ends with it."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a host of its own, on which the ports of the pages are free")
    need("unshare", "nsenter", "ip")
    # Copied before others lie over /var/lib.
    binaries()
    script = _HOLDER.format(overlaid=" ".join(OVERLAID))
    spaces = ["--net", "--mount", "--propagation=slave", "--pid", "--mount-proc"]
    words = ["unshare", *spaces, "--fork", "--kill-child", "bash", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as unshare:
        assert unshare.stdout
        try:
            assert unshare.stdout.readline() == b"up\n"
            children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
            yield World(directory, int(children.read_text()))
        finally:
            # The kernel ends all others of its processes with the first one.
            unshare.send_signal(signal.SIGKILL)
