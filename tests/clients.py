"""Runs programs of other people, each with a deadline, and makes the data that they move."""

from __future__ import annotations

import os
import random
import select
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 60.0
"""Seconds that one command may take before the test fails."""

SYSTEM_PYTHON = "/usr/bin/python3"
"""The interpreter that Debian's python3-xrootd belongs to."""

XRD_ENVIRONMENT = {
    # A client of the field tries again for minutes; a test wants to know at once.
    "XRD_CONNECTIONRETRY": "1",
    "XRD_CONNECTIONWINDOW": "5",
    "XRD_REQUESTTIMEOUT": "40",
    "XRD_STREAMTIMEOUT": "40",
    "XRD_TIMEOUTRESOLUTION": "1",
    "XRD_LOGLEVEL": "Error",
}


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that it printed."""
        return self.out + self.err

    def __str__(self) -> str:
        return f"{' '.join(self.argv)}\nended with {self.code}\n{self.out}{self.err}"


class CommandFailedError(AssertionError):
    """A command that had to succeed did not, or the other way round."""


def run(
    *argv: str | Path,
    deadline: float = DEADLINE,
    check: bool = True,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
    cwd: Path | None = None,
) -> Outcome:
    """Run a command to its end; with `check` it must succeed."""
    words = tuple(str(word) for word in argv)
    environment = {**os.environ, **XRD_ENVIRONMENT, **(env or {})}
    # Whoever runs tests side by side says how wide its own terminal is; there is none here.
    if "COLUMNS" not in (env or {}):
        environment.pop("COLUMNS", None)
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, timeout=deadline, env=environment, check=False, cwd=cwd
        )
    except subprocess.TimeoutExpired as late:
        raise CommandFailedError(f"{' '.join(words)} is not done after {deadline} s") from late
    outcome = Outcome(
        words, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )
    if check and outcome.code != 0:
        raise CommandFailedError(str(outcome))
    return outcome


def fails(*argv: str | Path, deadline: float = DEADLINE, env: dict[str, str] | None = None) -> Outcome:
    """Run a command that must end by itself, without success and without a crash."""
    outcome = run(*argv, deadline=deadline, check=False, env=env)
    if outcome.code <= 0:
        raise CommandFailedError(f"must fail: {outcome}")
    return outcome


def skip(reason: str) -> None:
    """Skip the test; where everything has to be there, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and CI=true", pytrace=False)
    pytest.skip(reason)


def missing(what: str) -> None:
    """Skip the test for want of a tool; where everything has to be installed, fail."""
    skip(f"{what} is not installed")


def need(*tools: str) -> None:
    """Go on only if these programs are on the search path."""
    for tool in tools:
        if shutil.which(tool) is None:
            missing(tool)


def need_module(name: str) -> None:
    """Go on only if this module of Python is there for the tests."""
    if find_spec(name) is None:
        missing(f"the Python module {name}")


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Look again and again: of these things nobody is told."""
    end = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < end, f"not so after {DEADLINE} s: {what}"
        select.select([], [], [], 0.05)


@cache
def has_bindings(python: str) -> bool:
    """Tell whether an interpreter has the XRootD bindings."""
    probe = [python, "-c", "import XRootD.client"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=DEADLINE, check=False).returncode == 0
    except OSError:
        return False


def pythons_with_bindings() -> list[Any]:
    """Name the interpreters whose bindings are tried: Debian's, and the wheel beside this test."""
    return [pytest.param(SYSTEM_PYTHON, id="debian"), pytest.param(sys.executable, id="wheel")]


def make_bytes(size: int, seed: int) -> bytes:
    """Make bytes that look random and are the same each time."""
    return random.Random(seed).randbytes(size)


def write_file(path: Path, size: int, seed: int = 0) -> Path:
    """Write a file without holding it; every 16 MiB differ."""
    block = make_bytes(min(size, 16 << 20), seed)
    with path.open("wb") as file:
        for turn in range(0, size, max(len(block), 1)):
            cut = (turn >> 20) + 1 if turn else 0
            file.write((block[cut:] + block[:cut])[: size - turn])
    return path


def adler32(data: bytes) -> str:
    """Sum bytes as XRootD prints it: eight hexadecimal digits."""
    return f"{zlib.adler32(data):08x}"


def adler32_of(path: Path) -> str:
    """Sum a file."""
    total = 1
    with path.open("rb") as file:
        while chunk := file.read(4 << 20):
            total = zlib.adler32(chunk, total)
    return f"{total:08x}"


def is_same(one: Path, other: Path) -> bool:
    """Compare two files byte by byte."""
    return run("cmp", one, other, check=False).code == 0
