"""Tape: what is written is what comes back, and what is not right is said and never used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clients import need, run, write_file
from conftest import MakeFacility
from facility import Facility, Json

TROUBLE = r"tape (request failed|session ended early)"
"""What the daemon rightly logs when a volume is not what it should be."""


def swap(one: Path, other: Path) -> None:
    """Exchange the contents of two cartridges, as somebody who mixes up bar codes."""
    spare = one.with_suffix(".spare")
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def wait_trouble(facility: Facility, vid: str) -> str:
    """Wait until a volume is suspect; returns why."""
    facility.wait_until(f"volume {vid} is suspect", lambda: facility.volume(vid)["state"] == "suspect")
    return str(facility.volume(vid)["reason"])


def request_of(facility: Facility, path: str) -> Json:
    """Show the queue row of a file."""
    rows: list[Json] = facility.status()["requests"]
    (row,) = (row for row in rows if row["path"] == path)
    return row


@pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, 20_000_000])
def test_what_is_recalled_is_what_was_archived(facility: Facility, tmp_path: Path, size: int) -> None:
    local = write_file(tmp_path / "local", size)
    facility.put(local, "/file")
    facility.archive_and_evict("/file")
    facility.wait_removals()
    assert facility.objects_on_disk() == {}, "evicted means gone from disk"
    facility.bp("stage", "--wait", "/file")
    assert facility.read("/file") == local.read_bytes()


def test_many_files_on_several_drives(facility: Facility, tmp_path: Path) -> None:
    sizes = {f"/many/{number:02}": number * 50_021 for number in range(40)}
    for number, (path, size) in enumerate(sizes.items()):
        facility.put(write_file(tmp_path / "local", size, number), path)
    facility.archive_and_evict(*sizes)
    facility.bp("stage", "--wait", "/many/*")
    for number, (path, size) in enumerate(sizes.items()):
        assert facility.read(path) == write_file(tmp_path / "local", size, number).read_bytes(), path
    assert facility.status()["requests_len"] == 0


def test_an_overwritten_file_is_archived_as_it_is_now(facility: Facility, tmp_path: Path) -> None:
    facility.put(write_file(tmp_path / "one", 5000, 1), "/file")
    facility.bp("archive", "--wait", "/file")
    facility.bp("put", "--replace", write_file(tmp_path / "two", 6000, 2), "/file")
    assert facility.state("/file") == "online", "the old copy is of old content"
    assert "no tape copy" in facility.bp_fails("evict", "/file").text
    facility.archive_and_evict("/file")
    assert facility.read("/file") == (tmp_path / "two").read_bytes()


def test_one_file_takes_one_volume(facility: Facility, sample: Path) -> None:
    facility.put(sample, "/file")
    facility.bp("archive", "--wait", "/file")
    facility.down()
    facility.up()
    states = [volume["state"] for volume in facility.status()["volumes"]]
    assert states == ["appendable", "blank", "blank", "blank"]
    assert [volume["loads"] for volume in facility.status()["volumes"]] == [1, 0, 0, 0]


def test_a_file_that_is_replaced_again_and_again_gets_to_tape(facility: Facility, tmp_path: Path) -> None:
    facility.expect_log(r"tape request failed .*is not on disk1")
    local = write_file(tmp_path / "local", 300_000, 1)
    facility.put(local, "/file")
    facility.bp("archive", "/file")
    for seed in range(20):
        write_file(local, 300_000, seed)
        facility.bp("put", "--replace", local, "/file")
        facility.bp("archive", "/file")
    facility.archive_and_evict("/file")
    assert facility.read("/file") == local.read_bytes()


@pytest.mark.parametrize("how", ["remove", "replace"])
def test_a_file_that_goes_during_its_recall_leaves_nothing(
    make_facility: MakeFacility, tmp_path: Path, how: str
) -> None:
    facility = make_facility(volumes=2, drives=1, volume_size="2MiB")
    facility.configure("load_time", '"1s"')
    facility.up()
    local = write_file(tmp_path / "local", 1_500_000)
    for path in ("/one", "/two"):
        facility.put(local, path)
        facility.archive_and_evict(path)
    facility.bp("stage", "/one")
    facility.wait_until("the recall has begun", lambda: request_of(facility, "/one")["state"] == "active")
    # Its volume is being loaded: the object is promised, and nothing is written yet.
    if how == "remove":
        facility.bp("rm", "/one")
    else:
        facility.bp("put", "--replace", local, "/one")
    facility.bp("stage", "--wait", "/two")
    facility.wait_removals(deadline=10)


def test_a_pinned_file_is_not_evicted(facility: Facility, sample: Path) -> None:
    facility.put(sample, "/file")
    facility.bp("archive", "--wait", "/file")
    facility.bp("stage", "--pin", "1h", "/file")
    assert "pinned" in facility.bp_fails("evict", "/file").text


def test_hercules_reads_our_volumes(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("tapemap", "hetget")
    facility = make_facility(volumes=1, drives=1)
    # Its tools read blocks up to 65535 bytes.
    facility.configure("block", '"32KiB"')
    facility.up()
    files = [write_file(tmp_path / f"f{size}", size, size) for size in (0, 32_769, 1_000_000)]
    for file in files:
        facility.put(file, f"/{file.name}")
        facility.bp("archive", "--wait", f"/{file.name}")
    facility.down()
    cartridge = facility.cartridge("BP0001")
    seen = re.findall(r"File (\d+): Blocks=(\d+)", run("tapemap", cartridge).out)
    # VOL1 comes before the labels of the first file; then labels, data, labels of each.
    blocks = [count for file in files for count in (3, -(-file.stat().st_size // 32_768), 3)]
    blocks[0] += 1
    assert [(int(number), int(count)) for number, count in seen][: len(blocks)] == list(enumerate(blocks, 1))
    for index, file in enumerate(files):
        out = tmp_path / "extracted"
        # -n: labels are files like others; U: a record is whatever a block holds.
        run("hetget", "-n", cartridge, out, str(3 * index + 2), "U", "0", "32768", check=False)
        assert out.read_bytes() == file.read_bytes(), file.name


def test_a_swapped_cartridge_is_not_read_and_not_written(make_facility: MakeFacility, sample: Path) -> None:
    facility = make_facility(volumes=3)
    facility.expect_log(TROUBLE)
    facility.up()
    facility.put(sample, "/file")
    facility.archive_and_evict("/file")
    facility.down()
    first, second = facility.cartridge("BP0001"), facility.cartridge("BP0002")
    swap(first, second)
    before = first.read_bytes(), second.read_bytes()
    facility.up()
    facility.bp("stage", "/file")
    reason = wait_trouble(facility, "BP0001")
    assert "BP0001" in reason
    assert "BP0001" in facility.bp("queue").out
    assert re.search(r"BP0001 .*suspect", facility.bp("volumes").out)
    assert facility.state("/file") == "nearline"
    # Nothing can be labelled over what is on the other one, and work goes on elsewhere.
    facility.put(sample, "/other")
    facility.bp("archive", "--wait", "/other")
    assert facility.stat("/other")["copies"][0]["vid"] == "BP0003"
    facility.down()
    assert (facility.cartridge("BP0001").read_bytes(), facility.cartridge("BP0002").read_bytes()) == before
    swap(facility.cartridge("BP0001"), facility.cartridge("BP0002"))
    facility.up()
    facility.call("set_volume_state", vid="BP0001", state="appendable")
    facility.bp("wait", "--online", "/file")
    assert facility.read("/file") == sample.read_bytes()


def test_two_labelled_cartridges_swapped(make_facility: MakeFacility, sample: Path, tmp_path: Path) -> None:
    facility = make_facility(volumes=2, drives=1, volume_size="2MiB")
    facility.expect_log(TROUBLE)
    facility.up()
    other = write_file(tmp_path / "other", 1_500_000, 3)
    facility.put(sample, "/one")
    facility.archive_and_evict("/one")
    facility.put(other, "/two")
    facility.archive_and_evict("/two")
    assert facility.stat("/two")["copies"][0]["vid"] == "BP0002"
    facility.down()
    swap(facility.cartridge("BP0001"), facility.cartridge("BP0002"))
    facility.up()
    facility.bp("stage", "/one")
    reason = wait_trouble(facility, "BP0001")
    assert "label says BP0002, expected BP0001" in reason
    assert facility.state("/one") == "nearline"
    assert facility.state("/two") == "nearline"


def test_a_truncated_cartridge_fails_by_name_and_others_work(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(volumes=2, drives=1, volume_size="8MiB")
    facility.expect_log(TROUBLE)
    facility.expect_log("tape image is damaged")
    facility.up()
    files = {path: write_file(tmp_path / path, 6_000_000, seed) for seed, path in enumerate(("bad", "good"))}
    for path, local in files.items():
        facility.put(local, f"/{path}")
        facility.archive_and_evict(f"/{path}")
    facility.down()
    cartridge = facility.cartridge("BP0001")
    with cartridge.open("r+b") as file:
        file.truncate(cartridge.stat().st_size // 2)
    facility.up()
    facility.bp("stage", "/bad", "/good")
    facility.bp("wait", "--online", "/good")
    assert facility.read("/good") == files["good"].read_bytes()
    reason = wait_trouble(facility, "BP0001")
    assert "volume BP0001 file 1" in reason
    assert "volume BP0001 file 1" in facility.bp("queue").out
    facility.wait_removals()
    assert facility.state("/bad") == "nearline"


def test_a_flipped_bit_is_never_announced(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(volumes=1, drives=1)
    facility.expect_log(TROUBLE)
    facility.up()
    local = write_file(tmp_path / "local", 3_000_000, 4)
    facility.put(local, "/file")
    facility.archive_and_evict("/file")
    facility.down()
    cartridge = facility.cartridge("BP0001")
    image = bytearray(cartridge.read_bytes())
    at = image.index(local.read_bytes()[2_000_000:2_000_064])
    image[at + 7] ^= 0x10
    cartridge.write_bytes(image)
    facility.up()
    facility.bp("stage", "/file")
    reason = wait_trouble(facility, "BP0001")
    assert "volume BP0001 file 1" in reason
    assert "adler32" in reason or "checksum" in reason
    facility.wait_removals()
    assert facility.state("/file") == "nearline"
    assert facility.objects_on_disk() == {}


def test_a_full_volume_is_followed_by_the_next(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(volumes=3, volume_size="4MiB")
    # The estimate of what fits is the head's, the end of the medium is the drive's.
    facility.expect_log(TROUBLE + ".*(full|NoSpace|no room)")
    facility.up()
    locals_ = {f"/f{seed}": write_file(tmp_path / f"f{seed}", 1_500_000, seed) for seed in range(6)}
    for path, local in locals_.items():
        facility.put(local, path)
    facility.archive_and_evict(*locals_)
    volumes = {facility.stat(path)["copies"][0]["vid"] for path in locals_}
    assert volumes == {"BP0001", "BP0002", "BP0003"}
    for path, local in locals_.items():
        assert facility.read(path) == local.read_bytes()


def test_a_file_that_fits_no_volume_keeps_nobody_back(
    make_facility: MakeFacility, sample: Path, tmp_path: Path
) -> None:
    facility = make_facility(volumes=2, drives=1, volume_size="1MiB")
    facility.up()
    facility.put(sample, "/large")
    facility.put(write_file(tmp_path / "small", 1000), "/small")
    refused = facility.bp_fails("archive", "--wait", "/large", "/small")
    assert "/large" in refused.text
    assert "the largest volume holds 1.00 MiB" in refused.text
    assert (facility.state("/large"), facility.state("/small")) == ("online", "both")


def test_directories_are_archived_evicted_and_staged(facility: Facility, tmp_path: Path) -> None:
    names = ["/d/a", "/d/e/b", "/d/e/f/c"]
    facility.bp("mkdir", "-p", "/d/e/f")
    for name in names:
        facility.put(write_file(tmp_path / "file", 1000), name)
    assert "add -r" in facility.bp_fails("archive", "/d").text
    facility.bp("archive", "-r", "--wait", "/d")
    facility.bp("evict", "-r", "/d")
    assert [facility.state(name) for name in names] == ["nearline"] * 3
    facility.bp("stage", "-r", "--wait", "--pin", "1h", "/d")
    assert [facility.state(name) for name in names] == ["both"] * 3
    assert "bp release" in facility.bp_fails("evict", "/d/a").text
    facility.bp("release", "-r", "/d")
    assert "nothing pins it" in facility.bp_fails("release", "/d/a").text
    facility.bp("evict", "-r", "/d")
    assert [facility.state(name) for name in names] == ["nearline"] * 3


def test_requests_are_taken_back(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(volumes=1, drives=1)
    facility.up()
    for name in ("/a", "/b", "/c"):
        facility.put(write_file(tmp_path / "file", 1000), name)
    facility.bp("archive", "--wait", "/a", "/b", "/c")
    facility.bp("evict", "/a", "/b", "/c")
    facility.bp("admin", "volume", "set", facility.status()["volumes"][0]["vid"], "suspect")
    facility.bp("stage", "/a", "/b", "/c")
    number = request_of(facility, "/b")["id"]
    facility.bp("cancel", "/a", f"r{number}", str(request_of(facility, "/c")["id"]))
    assert facility.status()["requests"] == []
    assert "there is no job and no tape request" in facility.bp_fails("cancel", str(number)).text


def test_get_stages_all_files_before_it_waits_for_the_first(facility: Facility, tmp_path: Path) -> None:
    names = [f"/d/f{n}" for n in range(4)]
    facility.bp("mkdir", "/d")
    for name in names:
        facility.put(write_file(tmp_path / "file", 1000), name)
    facility.bp("archive", "-r", "--wait", "/d")
    loads = sum(volume["loads"] for volume in facility.status()["volumes"])
    facility.bp("evict", "-r", "/d")
    (tmp_path / "out").mkdir()
    facility.bp("get", "/d/*", str(tmp_path / "out"))
    assert len(list((tmp_path / "out").iterdir())) == 4
    # The volume is loaded still: one session reads all.
    assert sum(volume["loads"] for volume in facility.status()["volumes"]) == loads


@pytest.mark.parametrize("moment", ["online", "nearline"])
def test_copies_survive_a_restart(facility: Facility, sample: Path, moment: str) -> None:
    facility.put(sample, "/file")
    facility.bp("archive", "--wait", "/file")
    if moment == "nearline":
        facility.bp("evict", "/file")
    facility.down()
    facility.up()
    facility.bp("stage", "--wait", "/file")
    assert facility.read("/file") == sample.read_bytes()
