"""Fixtures: facilities that are stopped at the end, whose logs must be clean."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients import make_bytes, need, write_file
from facility import OWNER, Facility

SMALL: dict[str, str | int] = {"volume_size": "64MiB", "volumes": 4, "slots": 6, "drives": 2, "cpus": 2}
"""A facility that is made and started in a tenth of a second, and whose tapes fill up quickly."""

MakeFacility = Callable[..., Facility]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the conformance suite be run against other people's servers."""
    group = parser.getgroup("conformance")
    group.addoption("--conformance-url", metavar="root://HOST:PORT", help="test this server instead of ours")
    group.addoption("--conformance-http", metavar="http://HOST:PORT", help="second door to the same names")
    group.addoption("--conformance-trust", metavar="DIR", help="authorities that its TLS certificate is checked with")


def pytest_configure() -> None:
    """Give each process that runs tests a mount namespace of its own, as root.

    A mount lasts as long as any namespace has it. Tests that run beside each other make namespaces, which would keep
    the mounts of the others.
    """
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    # Numbers of <sched.h> and <sys/mount.h>: what is unmounted here is unmounted in the namespaces of hosts and jobs.
    clone_newns, ms_rec, ms_shared = 0x20000, 0x4000, 1 << 20
    if libc.unshare(clone_newns):
        # Root of a container, which may not mount either.
        return
    if libc.mount(None, b"/", None, ms_rec | ms_shared, None):
        raise OSError(ctypes.get_errno(), "cannot share the mounts of a new mount namespace")


@contextmanager
def one_facility(directory: Path, **options: str | int) -> Iterator[Facility]:
    """Make a facility for several tests; not started. It is stopped and its log read at the end."""
    facility = Facility(directory)
    facility.create(**options)
    yield facility
    clean_up([facility])


def clean_up(facilities: list[Facility]) -> None:
    """Stop facilities; what nobody expected in their logs is a failure."""
    for facility in facilities:
        facility.clean_up()
    odd = [line for facility in facilities for line in facility.unexpected_log()]
    if odd:
        pytest.fail("the daemon logged what nobody expected:\n" + "\n".join(odd), pytrace=False)


@pytest.fixture(autouse=True)
def _no_token_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tokens of whoever runs the tests away from them."""
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    monkeypatch.delenv("BEARER_TOKEN_FILE", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def make_facility(tmp_path: Path) -> Iterator[MakeFacility]:
    """Make facilities with options of `bp create`; not started. They are stopped and their logs read at the end."""
    made: list[Facility] = []

    def make(owner: str = OWNER, **options: str | int) -> Facility:
        facility = Facility(tmp_path / f"facility{len(made)}", owner)
        made.append(facility)
        facility.create(**{**SMALL, **options})
        return facility

    yield make
    clean_up(made)


@pytest.fixture
def facility(make_facility: MakeFacility) -> Facility:
    """Start a small facility."""
    small = make_facility()
    small.up()
    return small


@pytest.fixture
def xrootd(facility: Facility) -> Facility:
    """Start a small facility for XRootD clients, which must be installed."""
    need("xrdcp", "xrdfs")
    return facility


@pytest.fixture
def shared() -> Iterator[Path]:
    """Make a directory that jobs see as the test does: each job has a /tmp of its own."""
    directory = Path(tempfile.mkdtemp(prefix="backplane-test-", dir="/run" if os.getuid() == 0 else Path.home()))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Write a file that is no multiple of any page or block."""
    return write_file(tmp_path / "sample", 1_234_567, seed=1)


@pytest.fixture
def sample_bytes() -> bytes:
    """Make the bytes of `sample`."""
    return make_bytes(1_234_567, 1)
