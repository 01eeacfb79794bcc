"""A facility of our own for tests and for the examples in docstrings; it is started when the first one needs it."""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import backplane

_DEADLINE_S = 120
_SIZES = ["--volume-size=64MiB", "--volumes=2", "--slots=4", "--drives=1"]


def _binaries() -> Path:
    """Find `bp` and `bpd`: where BP_BIN says, else the release build, else the debug build."""
    if given := os.environ.get("BP_BIN"):
        return Path(given)
    target = Path(__file__).resolve().parent.parent / "target"
    for profile in ("release", "debug"):
        if (target / profile / "bp").exists() and (target / profile / "bpd").exists():
            return target / profile
    pytest.skip(f"neither release nor debug build in {target}: `cargo build -p daemon -p cli`")


@pytest.fixture(scope="session")
def bp() -> Path:
    """Find `bp`."""
    return _binaries() / "bp"


@contextlib.contextmanager
def facility_of(bp: Path, directory: Path, *, cpus: int = 1) -> Iterator[backplane.Facility]:
    """Start a facility; it is stopped at the end."""
    env = {**os.environ, "USER": getpass.getuser()}

    def run(*words: str) -> None:
        done = subprocess.run(
            [str(bp), *words], env=env, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run("create", str(directory), *_SIZES, f"--cpus={cpus}")
    run("up", str(directory), "--detach", "--root-port=0", "--http-port=0")
    try:
        yield backplane.connect(directory)
    finally:
        run("down", str(directory))


@pytest.fixture(scope="session")
def live(bp: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[backplane.Facility]:
    """Start a facility; it is stopped at the end."""
    with facility_of(bp, tmp_path_factory.mktemp("live") / "facility") as facility:
        yield facility


@pytest.fixture(scope="session")
def start_facility(bp: Path) -> Callable[..., AbstractContextManager[backplane.Facility]]:
    """Give a test what starts a facility of its own: directory and slots."""
    return functools.partial(facility_of, bp)


@pytest.fixture(autouse=True)
def _names_of_examples(
    request: pytest.FixtureRequest, doctest_namespace: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give examples that speak of a facility a real one, as `facility` and `fs`."""
    if not isinstance(request.node, pytest.DoctestItem):
        return
    assert request.node.dtest is not None
    words = "".join(example.source for example in request.node.dtest.examples)
    if "facility" in words or "fs." in words or "FileSystem(" in words:
        live: backplane.Facility = request.getfixturevalue("live")
        monkeypatch.setenv("BP_FACILITY", live.http or live.root)
        doctest_namespace.update(facility=live, fs=live.filesystem())
