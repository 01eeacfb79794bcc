"""What clients of the field expect of a server: names, parents, modes and answers as the field has them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import frames
from clients import fails, need, run
from facility import Facility


@pytest.fixture
def door(xrootd: Facility) -> Facility:
    """Start a facility for curl and XRootD's clients, which must be installed."""
    need("curl")
    return xrootd


def http(facility: Facility, path: str, *options: str | Path) -> int:
    """Tell the status of an answer."""
    words = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", "--max-time", "60")
    return int(run(*words, *options, facility.http + path).out)


def address(facility: Facility) -> str:
    """Give the place of the facility as `xrdfs` takes it."""
    return facility.root.removeprefix("root://")


# Parents


def test_root_makes_missing_directories_and_webdav_does_not(door: Facility, sample: Path) -> None:
    assert http(door, "/p", "-X", "MKCOL") == 201
    url = f"{door.root}//p"
    run("xrdcp", "-s", sample, f"{url}/a/b/f")
    run("xrdcp", "-s", f"{url}/a/b/f", f"{url}/c/d/f")
    run("xrdcp", "-s", "--tpc", "only", f"{url}/a/b/f", f"{url}/e/f/f")
    run("xrdfs", address(door), "mv", "/p/a/b/f", "/p/g/h/f")
    for path in ("/p/c/d/f", "/p/e/f/f", "/p/g/h/f"):
        assert http(door, path, "-I") == 200, path
    # A refused rename leaves nothing, and an update makes nothing.
    fails("xrdfs", address(door), "mv", "/p/none", "/p/i/j")
    fails("xrdfs", address(door), "truncate", "/p/k/l", "5")
    assert [http(door, path, "-I") for path in ("/p/i", "/p/k")] == [404, 404]
    fails("xrdfs", address(door), "mkdir", "/p/m/n")
    assert http(door, "/p/o/p/f", "-T", sample) == 409
    assert http(door, "/p/o/p", "-X", "MKCOL") == 409
    destination = f"Destination: {door.http}/p/o/f"
    assert [http(door, "/p/c/d/f", "-X", verb, "-H", destination) for verb in ("COPY", "MOVE")] == [409, 409]


def test_parents_are_made_only_where_the_caller_may_create(door: Facility) -> None:
    door.bp("mkdir", "/closed")
    with frames.Raw(door.root).login("nobody") as raw:
        raw.request(frames.OPEN, struct.pack(">HH12x", 0, frames.NEW | frames.UPDATE), b"/closed/a/b/f")
        assert raw.answer().error == 3010
    assert http(door, "/closed/a", "-I") == 404


# Removal


def test_rm_takes_an_empty_directory(door: Facility, sample: Path) -> None:
    assert http(door, "/r", "-X", "MKCOL") == 201
    assert http(door, "/r/f", "-T", sample) == 201
    refused = fails("xrdfs", address(door), "rm", "/r")
    assert "3018" in refused.text or "not empty" in refused.text, refused
    run("xrdfs", address(door), "rm", "/r/f")
    run("xrdfs", address(door), "rm", "/r")
    assert http(door, "/r", "-I") == 404


def test_fsspec_xrootd_removes_a_tree(door: Facility) -> None:
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("fsspec_xrootd")
    files = fsspec.filesystem("root", hostid=address(door))
    for name in ("a/x", "a/b/y", "a/b/c/z"):
        with files.open(f"/t/{name}", "wb") as file:
            file.write(b"x")
    files.rm("/t/a", recursive=True)
    files.invalidate_cache()
    assert not files.exists("/t/a")
    assert files.exists("/t")
