"""The server under test, and files on it and beside it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import need, write_file
from conftest import SMALL, one_facility

from .server import Server

SIZES = {"0": 0, "1": 1, "4096": 4096, "4097": 4097, "odd": 1_234_567, "big": (64 << 20) + 13}


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Find the server under test: the one of the options, or a facility of ours."""
    need("xrdcp", "xrdfs")
    home = f"/conformance-{secrets.token_hex(4)}"
    url, http = (request.config.getoption(f"--conformance-{door}") for door in ("url", "http"))
    if url:
        assert http, "--conformance-http names the second door of the same server"
        trust = request.config.getoption("--conformance-trust")
        yield Server(url.rstrip("/"), http.rstrip("/"), home, trust=trust and Path(trust))
        return
    with one_facility(tmp_path_factory.mktemp("conformance") / "facility", **SMALL) as facility:
        facility.up()
        trust = facility.directory / "tls" / "trust"
        yield Server(facility.root, facility.http, home, facility, trust if trust.exists() else None)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write files of all sizes, by name."""
    directory = tmp_path_factory.mktemp("local")
    return {name: write_file(directory / name, size, seed=size) for name, size in SIZES.items()}


@pytest.fixture(scope="module")
def seeded(server: Server, local: dict[str, Path]) -> str:
    """Put files of all sizes in by the second door; returns their directory, in which nothing is changed."""
    directory = f"{server.home}/seeded"
    server.fs("mkdir", "-p", f"{directory}/a/b")
    for name, path in local.items():
        server.seed(path, f"{directory}/{name}")
    server.seed(local["odd"], f"{directory}/a/b/deep")
    return directory


@pytest.fixture
def here(server: Server, request: pytest.FixtureRequest) -> str:
    """Make a directory for one check."""
    directory = f"{server.home}/{re.sub('[^a-z0-9]+', '-', request.node.name.lower())}"
    server.fs("mkdir", "-p", directory)
    return directory


@pytest.fixture
def odd(server: Server, here: str, local: dict[str, Path]) -> str:
    """Put a file of 1234567 bytes in by the second door, for one check."""
    return server.seed(local["odd"], f"{here}/odd")


@pytest.fixture
def back(tmp_path: Path) -> Path:
    """Name a file that copies come back to."""
    return tmp_path / "back"
