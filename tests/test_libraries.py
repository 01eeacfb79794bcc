"""Libraries of every kind: the same life on virtual cartridges, emulated SCSI devices, and drives behind iSCSI."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import write_file
from conftest import MakeFacility
from facility import Facility
from vtl import Vtl, need_vtl

VOLUMES = ("XA0001", "XA0002", "XA0003")
MADE = """
[[tape.library]]
name = "{name}"
kind = "{kind}"
prefix = "{prefix}"
drives = 2
slots = 4
volumes = 3
volume_size = "8MiB"
"""


@pytest.fixture
def vtl() -> Iterator[Vtl]:
    """Make a library behind iSCSI; not started."""
    need_vtl()
    library = Vtl(*VOLUMES)
    yield library
    library.remove()


def add_library(facility: Facility, section: str) -> None:
    """Write a library into the configuration of a facility that does not run."""
    with (facility.directory / "facility.toml").open("a") as file:
        file.write(section)


@pytest.fixture(params=["virtual", "emulated", "iscsi"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name the kind of the library."""
    return str(request.param)


@pytest.fixture
def facility(kind: str, make_facility: MakeFacility, request: pytest.FixtureRequest) -> Facility:
    """Start a facility whose only library is of that kind, with two drives and three volumes."""
    made = make_facility(drives=0, volumes=0)
    made.expect_log("the drive warned of its end")
    if kind == "iscsi":
        vtl: Vtl = request.getfixturevalue("vtl")
        vtl.start()
        add_library(made, vtl.section("lib2", "8MiB"))
    else:
        add_library(made, MADE.format(name="lib2", kind=kind, prefix="XA"))
    made.up()
    return made


def test_the_whole_life(facility: Facility, tmp_path: Path) -> None:
    files = {f"/run/{number:02}": 20_000 + number * 17_011 for number in range(40)}
    for number, (path, size) in enumerate(files.items()):
        facility.put(write_file(tmp_path / "local", size, number), path)
    facility.archive_and_evict(*files)
    used = [volume["vid"] for volume in facility.status()["volumes"] if volume["files"]]
    assert set(used) <= set(VOLUMES), used
    assert len(used) >= 2, used
    # What is in the drives stays there while nobody serves them.
    facility.down()
    facility.up()
    order = list(files)
    random.Random(7).shuffle(order)
    for half in (order[:20], order[20:]):
        facility.bp("stage", "--wait", *half)
    for number, (path, size) in enumerate(files.items()):
        assert facility.read(path) == write_file(tmp_path / "local", size, number).read_bytes(), path
    assert facility.status()["requests_len"] == 0
    assert {volume["state"] for volume in facility.status()["volumes"]} <= {"appendable", "full", "blank"}


def test_drives_say_what_they_are(facility: Facility, kind: str) -> None:
    facility.wait_until("the drives are there", lambda: len(facility.status()["drives"]) == 2)
    drive = facility.status()["drives"][0]
    assert (drive["name"], drive["library"]) == ("lib2.drive0", "lib2")
    models = {
        "virtual": ("BACKPLNE", "VIRTUAL", "LIB2.DRIVE0"),
        "emulated": ("BACKPLNE", "EMULATED", "LIB2-0"),
        "iscsi": ("IBM", "ULT3580-", "DRV00000"),
    }
    device = drive["device"]
    assert (device["vendor"], device["model"], device["serial"]) == models[kind]
    assert models[kind][1] in facility.bp("drives").out


def test_a_label_that_is_not_the_bar_codes_is_refused(
    facility: Facility, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    facility.expect_log("tape session ended early|tape request failed")
    facility.put(write_file(tmp_path / "local", 100_000), "/file")
    facility.archive_and_evict("/file")
    (vid,) = (volume["vid"] for volume in facility.status()["volumes"] if volume["files"])
    other = next(volume for volume in VOLUMES if volume != vid)
    facility.down()
    if kind == "iscsi":
        vtl: Vtl = request.getfixturevalue("vtl")
        vtl.kill()
        one, two = (vtl.directory / "media" / f"{name}L9" for name in (vid, other))
    else:
        one, two = (next((facility.directory / "tape").rglob(f"{name}.aws")) for name in (vid, other))
    one_bytes, two_bytes = one.read_bytes(), two.read_bytes()
    one.write_bytes(two_bytes)
    two.write_bytes(one_bytes)
    if kind == "iscsi":
        vtl.start()
    facility.up()
    facility.bp("stage", "/file")
    facility.wait_until("the volume is suspect", lambda: facility.volume(vid)["state"] == "suspect")
    reason = facility.volume(vid)["reason"]
    assert vid in reason, reason
    assert "lib2.drive" in reason, reason


def test_libraries_of_several_kinds_beside_each_other(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(drives=1, volumes=1)
    for name, kind, prefix in (("lib2", "virtual", "XB"), ("lib3", "emulated", "XC")):
        add_library(facility, MADE.format(name=name, kind=kind, prefix=prefix))
    facility.up()
    facility.wait_until("all drives are there", lambda: len(facility.status()["drives"]) == 5)
    libraries = {volume["vid"]: volume["library"] for volume in facility.status()["volumes"]}
    assert (libraries["BP0001"], libraries["XB0003"], libraries["XC0001"]) == ("lib1", "lib2", "lib3")
    facility.put(write_file(tmp_path / "local", 3_000_000), "/file")
    facility.archive_and_evict("/file")
    facility.bp("stage", "--wait", "/file")
    assert facility.read("/file") == (tmp_path / "local").read_bytes()


def test_a_library_that_cannot_be_reached_is_tried_again(vtl: Vtl, make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(drives=1, volumes=1)
    facility.expect_log(f"cannot open the tape library.*{vtl.portal}")
    add_library(facility, vtl.section("lib2", "8MiB"))
    facility.up()
    facility.put(write_file(tmp_path / "local", 100_000), "/file")
    facility.archive_and_evict("/file")
    assert {drive["library"] for drive in facility.status()["drives"]} == {"lib1"}
    vtl.start()
    facility.wait_until("the library is there", lambda: len(facility.status()["drives"]) == 3)


def test_drives_that_are_away_for_a_while_come_back(vtl: Vtl, make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(drives=0, volumes=0)
    facility.expect_log("drive could not get work|tape session ended early|tape request failed")
    vtl.start()
    add_library(facility, vtl.section("lib2", "8MiB"))
    facility.up()
    facility.put(write_file(tmp_path / "local", 300_000), "/file")
    facility.archive_and_evict("/file")
    vtl.kill()
    vtl.start()
    facility.bp("stage", "--wait", "/file")
    assert facility.read("/file") == (tmp_path / "local").read_bytes()


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('name = "lib1"', ("lib1", "taken")),
        ('name = "lib2"\nkind = "sg"', ("changer",)),
        ('name = "lib2"\nkind = "sg"\nchanger = "/dev/sg1"', ("drive_paths",)),
        ('name = "lib2"\nkind = "iscsi"', ("portal",)),
        ('name = "lib2"\nvolumes = 2', ("prefix",)),
        ('name = "lib2"\nkind = "steam"', ("steam",)),
    ],
)
def test_a_library_that_cannot_work_is_refused_at_start(
    make_facility: MakeFacility, section: str, words: tuple[str, ...]
) -> None:
    facility = make_facility()
    add_library(facility, f"\n[[tape.library]]\n{section}\n")
    outcome = facility.bp_fails("up", str(facility.directory), "--detach")
    assert all(word in outcome.text for word in words), outcome.text
