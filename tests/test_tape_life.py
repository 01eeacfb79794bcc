"""The whole life of files on tape, from one suite on every kind of library.

Labels, archives, evicts, recalls, repacks, deletes and reclaims. `BP_LIFE_FILES=500,20000` says how many large and
small files there are; `make test-tape-life` takes these.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import MakeFacility
from facility import Facility
from tape_life import DEADLINE, SMALL_BELOW, Life, make_files
from test_libraries import MADE, add_library
from vtl import Vtl, need_vtl

LARGE, SMALL = (int(count) for count in os.environ.get("BP_LIFE_FILES", "10,60").split(","))
SEED = int(os.environ.get("BP_SEED", secrets.randbelow(1 << 31)))
VOLUMES = ("XA0001", "XA0002", "XA0003")
EXPECTED = (
    # The size of a cartridge is an estimate; its end is the drive's.
    r"the drive warned of its end|NoSpace|no space",
    # The daemon is stopped in the middle of a session.
    r"could not report the end of a tape session|the tape server is stopping",
)


@pytest.fixture(params=["virtual", "emulated", "iscsi"])
def life(request: pytest.FixtureRequest, make_facility: MakeFacility, tmp_path: Path) -> Iterator[Life]:
    """Start a facility with a library of each kind: two drives, and three volumes of which two hold all files."""
    print(f"\nBP_SEED={SEED} BP_LIFE_FILES={LARGE},{SMALL}")
    files = make_files(LARGE, SMALL, SEED)
    # What is archived before a repack lies on two of them, with what labels take.
    volume_mib = (sum(file.size for file in files) * 13 // 20 >> 20) + 1 + len(files) // 100
    facility = make_facility(drives=0, volumes=0)
    facility.configure("bundle_below", f'"{SMALL_BELOW}B"')
    facility.configure("bundle_size", '"256KiB"')
    for pattern in EXPECTED:
        facility.expect_log(pattern)
    with ExitStack() as stack:
        if request.param == "iscsi":
            need_vtl()
            vtl = Vtl(*VOLUMES, size_mib=volume_mib + 8)
            stack.callback(vtl.remove)
            vtl.start()
            add_library(facility, vtl.section("lib2", f"{volume_mib}MiB"))
        else:
            section = MADE.format(name="lib2", kind=request.param, prefix="XA")
            add_library(facility, section.replace("8MiB", f"{volume_mib}MiB"))
        facility.up()
        yield Life(facility, files, tmp_path / "scratch")
        facility.down()


def finished(facility: Facility, vid: str) -> bool:
    """Tell whether the repack of a volume is over."""
    return any(row["vid"] == vid and row.get("finished") for row in facility.bp_json("repack"))


def test_the_whole_life(life: Life) -> None:
    rng, facility = random.Random(SEED), life.facility
    life.put_all()
    life.archive_all(rng)
    used = {volume["vid"] for volume in facility.status()["volumes"] if volume["files"]}
    assert len(used) >= 2, used
    facility.bp("evict", "-q", "-r", "/life", deadline=DEADLINE)
    facility.wait_removals(DEADLINE)
    assert facility.objects_on_disk() == {}
    facility.down()
    switches, directories = life.switches()
    # Requests came in a random order; files of a directory lie together, but where a session or a volume ends.
    assert switches <= 2 * directories + 10, (switches, directories)
    facility.up()

    life.stage_all(rng)
    life.compare_all()

    # Half of the directories go; the fullest volume gives away what is left on it, and is written anew.
    directories_left = sorted({file.directory for file in life.files.values()})
    life.remove(rng.sample(directories_left, len(directories_left) // 2))
    facility.bp("evict", "-q", "-r", "/life", deadline=DEADLINE)
    volumes = facility.status()["volumes"]
    old = str(max(volumes, key=lambda volume: volume["used_bytes"])["vid"])
    facility.bp("repack", old, "--reclaim")
    facility.wait_until(f"volume {old} is empty", lambda: finished(facility, old), DEADLINE)
    volume = facility.volume(old)
    assert (volume["state"], volume["files"], volume["used_bytes"]) == ("appendable", 0, 0)
    assert sum(volume["files"] for volume in facility.status()["volumes"]) == len(life.files)
    life.stage_all(rng)
    life.compare_all()

    # All goes, and every volume that was written is reclaimed and written once more.
    life.remove(sorted({file.directory for file in life.files.values()}))
    for volume in facility.status()["volumes"]:
        assert (volume["files"], volume["live_bytes"]) == (0, 0)
        if volume["state"] != "blank":
            facility.bp("volume", "reclaim", volume["vid"])
    again = make_files(3, 30, SEED + 1)
    life.files = {file.path: file for file in again}
    life.put_all()
    life.archive_all(rng)
    facility.bp("evict", "-q", "-r", "/life")
    life.stage_all(rng)
    life.compare_all()
    facility.wait_removals(DEADLINE)
    assert {volume["state"] for volume in facility.status()["volumes"]} <= {"appendable", "full", "blank"}
    assert facility.status()["requests_len"] == 0
