"""Names and what users keep with them, as XRootD clients see it."""

from __future__ import annotations

from pathlib import Path

from clients import fails, run
from facility import Facility


def fs(facility: Facility, *words: str) -> str:
    """Run xrdfs, which must succeed."""
    return run("xrdfs", facility.root, *words).out


def fs_fails(facility: Facility, *words: str) -> str:
    """Run xrdfs, which must be refused."""
    return fails("xrdfs", facility.root, *words).text


def attributes(facility: Facility, path: str) -> list[str]:
    """List attributes as xrdfs shows them."""
    return fs(facility, "xattr", path, "list").splitlines()[1:]


def test_attributes_are_set_read_listed_and_removed(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    fs(xrootd, "xattr", "/file", "set", "run=7")
    fs(xrootd, "xattr", "/file", "set", "odd name=a value with = and ü")
    assert 'run="7"' in fs(xrootd, "xattr", "/file", "get", "run")
    assert attributes(xrootd, "/file") == ['odd name="a value with = and ü"', 'run="7"']
    fs(xrootd, "xattr", "/file", "set", "run=8")
    fs(xrootd, "xattr", "/file", "del", "odd name")
    assert attributes(xrootd, "/file") == ['run="8"']
    assert "3027" in fs_fails(xrootd, "xattr", "/file", "get", "odd name")
    fs_fails(xrootd, "xattr", "/file", "del", "odd name")
    assert "3011" in fs_fails(xrootd, "xattr", "/nothing", "list")


def test_attributes_follow_their_file(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    fs(xrootd, "xattr", "/file", "set", "run=7")
    fs(xrootd, "mv", "/file", "/moved")
    run("xrdcp", "-s", "-f", sample, xrootd.url("/moved"))
    assert attributes(xrootd, "/moved") == ['run="7"']
    assert xrootd.bp_json("stat", "/moved")["attributes"] == [{"name": "run", "value": b"7".hex()}]
    assert "attribute run = 7" in xrootd.bp("stat", "/moved").out
    fs(xrootd, "rm", "/moved")
    xrootd.put(sample, "/moved")
    assert attributes(xrootd, "/moved") == []


def test_only_the_owner_sets_attributes(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    stranger = xrootd.root.replace("//", "//stranger@", 1)
    assert "3010" in fails("xrdfs", stranger, "xattr", "/file", "set", "run=7").text
    fs(xrootd, "xattr", "/file", "set", "run=7")
    assert 'run="7"' in run("xrdfs", stranger, "xattr", "/file", "get", "run").out
