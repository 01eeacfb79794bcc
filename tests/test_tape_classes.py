"""Storage classes: a second copy in another library, with programs as people use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients import write_file
from conftest import MakeFacility
from facility import Facility
from test_libraries import MADE, add_library


@pytest.fixture
def facility(make_facility: MakeFacility) -> Facility:
    """Start a facility with two libraries: virtual cartridges, and emulated SCSI drives."""
    facility = make_facility(drives=1, volumes=2)
    add_library(facility, MADE.format(name="lib2", kind="emulated", prefix="XA"))
    facility.up()
    facility.wait_until("all volumes are there", lambda: len(facility.status()["volumes"]) == 5)
    return facility


def volumes_of(facility: Facility, path: str) -> list[str]:
    """List the volumes with copies of a file."""
    return sorted(copy["vid"] for copy in facility.stat(path)["copies"])


def test_a_class_gives_files_a_copy_in_each_library_and_one_is_enough_to_read(
    facility: Facility, tmp_path: Path
) -> None:
    facility.bp("mkdir", "/raw")
    facility.bp("class", "set", "/raw", "--copy", "library=lib1", "--copy", "library=lib2")
    assert facility.bp("class", "show", "/raw").out == "2 tape copies: library=lib1; library=lib2\n"
    local = write_file(tmp_path / "local", 300_000)
    facility.put(local, "/raw/f")
    facility.archive_and_evict("/raw/f")
    assert volumes_of(facility, "/raw/f") == ["BP0001", "XA0001"]
    # Without the first library the other copy is read.
    facility.bp("drive", "down", "lib1.drive0", "--reason", "its room is flooded")
    facility.bp("stage", "--wait", "/raw/f")
    assert facility.read("/raw/f") == local.read_bytes()
    facility.put(local, "/raw/g")
    facility.bp("archive", "/raw/g")
    facility.wait_until("the second copy is there", lambda: volumes_of(facility, "/raw/g") == ["XA0001"])
    assert facility.state("/raw/g") == "online"
    assert "missing   tape copy: library=lib1" in facility.bp("stat", "/raw/g").out
    assert "lacks tape copies" in facility.bp_fails("evict", "/raw/g").text
    assert "library=lib1" in facility.bp("class", "missing").out
    assert "copy 2 of 2: " in facility.bp("why", "/raw/g").out
    facility.bp("cancel", "/raw/g")
    assert "it lacks tape copies (library=lib1)" in facility.bp("why", "/raw/g").out
    facility.bp("archive", "/raw/g")
    facility.bp("drive", "up", "lib1.drive0")
    facility.bp("wait", "--archived", "/raw/g")
    assert volumes_of(facility, "/raw/g") == ["BP0001", "XA0001"]
    assert "every file has" in facility.bp("class", "missing").text


def test_a_class_that_comes_later_and_a_volume_that_breaks(facility: Facility, tmp_path: Path) -> None:
    local = write_file(tmp_path / "local", 300_000)
    facility.bp("volume", "pool", "second", "XA0001", "XA0002")
    assert "lib2 (second)" in facility.bp("volumes").out
    facility.bp("mkdir", "/raw")
    facility.put(local, "/raw/f")
    facility.archive_and_evict("/raw/f")
    first = volumes_of(facility, "/raw/f")
    assert not set(first) & {"XA0001", "XA0002"}, "volumes of a pool are for those who name it"
    facility.bp("class", "set", "/raw", "--copy", "any", "--copy", "pool=second")
    facility.wait_until("a second copy is there", lambda: volumes_of(facility, "/raw/f") == sorted([*first, "XA0001"]))
    facility.wait_until("it leaves the disk again", lambda: facility.state("/raw/f") == "nearline")
    facility.bp("volume", "set", "broken", "XA0001")
    facility.wait_until("it is made again", lambda: "XA0002" in volumes_of(facility, "/raw/f"))
    facility.bp("volume", "set", "broken", *first)
    facility.bp("stage", "--wait", "/raw/f")
    assert facility.read("/raw/f") == local.read_bytes()
    # The class lasts as its directory does.
    facility.down()
    facility.up()
    assert "(from /raw)" in facility.bp("class", "show", "/raw/f").out
    facility.bp("class", "unset", "/raw")
    assert "no storage class is set" in facility.bp("class", "show", "/raw").text
