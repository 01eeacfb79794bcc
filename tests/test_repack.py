"""Repack: files leave a volume for others, and the volume is written anew."""

from __future__ import annotations

from pathlib import Path

from clients import write_file
from conftest import MakeFacility
from facility import Facility, Json


def repack_of(facility: Facility, vid: str) -> Json:
    """Show how far the repack of a volume is."""
    (row,) = (row for row in facility.bp_json("repack") if row["vid"] == vid)
    return row


def test_a_volume_is_repacked_and_written_anew(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(volumes=2, drives=1, volume_size="16MiB")
    # It is stopped in the middle of a session.
    facility.expect_log(r"tape session ended early|could not report the end of a tape session")
    facility.up()
    contents = {}
    facility.bp("mkdir", "/d")
    for number, size in enumerate([0, 10, 3000, 70_000, 1_000_000, 3_000_000]):
        local = write_file(tmp_path / "local", size, number)
        contents[f"/d/f{number}"] = local.read_bytes()
        facility.put(local, f"/d/f{number}")
    facility.bp("archive", "--wait", "-r", "/d")
    facility.bp("evict", "/d/f1", "/d/f2", "/d/f5")
    facility.bp("rm", "/d/f4")
    del contents["/d/f4"]
    old = facility.volume("BP0001")
    assert (old["files"], old["live_bytes"]) == (5, sum(map(len, contents.values())))
    facility.bp("repack", "BP0001", "--reclaim")
    # The daemon goes on with it after a restart.
    facility.down()
    facility.up()
    facility.wait_until("the volume is empty", lambda: repack_of(facility, "BP0001").get("finished"))
    for path, content in contents.items():
        assert [copy["vid"] for copy in facility.stat(path)["copies"]] == ["BP0002"]
        state = "nearline" if path in ("/d/f1", "/d/f2", "/d/f5") else "both"
        assert facility.state(path) == state, path
        assert facility.read(path) == content, path
    assert "empty" in facility.bp("repack").out
    volume = facility.volume("BP0001")
    assert (volume["state"], volume["files"], volume["used_bytes"]) == ("appendable", 0, 0)
    # Its label is the old one, and what lay behind it is written over.
    facility.bp("volume", "set", "full", "BP0002")
    facility.put(write_file(tmp_path / "new", 5000), "/new")
    facility.archive_and_evict("/new")
    assert facility.stat("/new")["copies"] == [{**facility.stat("/new")["copies"][0], "vid": "BP0001", "fseq": 1}]
    assert facility.read("/new") == (tmp_path / "new").read_bytes()


def test_a_broken_volume_is_repaired_from_what_is_elsewhere(make_facility: MakeFacility, sample: Path) -> None:
    facility = make_facility(volumes=2, drives=1)
    facility.up()
    facility.put(sample, "/online")
    facility.put(sample, "/lost")
    facility.bp("archive", "--wait", "/online")
    facility.archive_and_evict("/lost")
    facility.bp("volume", "set", "broken", "BP0001")
    facility.bp("repack", "BP0001")
    facility.wait_until("one has moved", lambda: repack_of(facility, "BP0001")["files_moved"] == 1)
    assert [copy["vid"] for copy in facility.stat("/online")["copies"]] == ["BP0002"]
    left = repack_of(facility, "BP0001")
    assert (left["files_left"], left.get("finished")) == (1, None)
    assert "holds 1 file" in facility.bp_fails("volume", "reclaim", "BP0001").text
    facility.bp("repack", "BP0001", "--stop")
    assert facility.bp_json("repack") == []


def test_a_damaged_copy_is_found_and_replaced(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(volumes=2, drives=1)
    facility.expect_log("tape copy is damaged")
    facility.up()
    local = write_file(tmp_path / "local", 500_000, 7)
    facility.put(local, "/online")
    facility.bp("archive", "--wait", "/online")
    other = write_file(tmp_path / "other", 500_000, 8)
    facility.put(other, "/nearline")
    facility.archive_and_evict("/nearline")
    facility.down()
    cartridge = facility.cartridge("BP0001")
    image = bytearray(cartridge.read_bytes())
    for file in (local, other):
        image[image.index(file.read_bytes()[1000:1064]) + 5] ^= 1
    cartridge.write_bytes(image)
    facility.up()
    assert "no copy on tape" in facility.bp("volume", "damaged").text
    facility.bp("volume", "verify", "BP0001")
    facility.wait_until("the damage is found", lambda: len(facility.bp_json("volume", "damaged")) >= 1)
    facility.wait_until("a new copy is written", lambda: facility.state("/online") == "both")
    facility.wait_until(
        "the last copy is listed",
        lambda: (
            [(row["path"], row["is_last"]) for row in facility.bp_json("volume", "damaged")] == [("/nearline", True)]
        ),
    )
    assert "adler32" in facility.bp("volume", "damaged").out
    facility.bp("evict", "/online")
    facility.bp("stage", "--wait", "/online")
    assert facility.read("/online") == local.read_bytes()
