"""Tape volumes that operators add: shown at once, and written with the next archive."""

from __future__ import annotations

from conftest import MakeFacility
from facility import Facility

NEW = "NEW001"


def fill_others(facility: Facility) -> None:
    """Take all volumes but the new one out of use for writing."""
    for volume in facility.bp_json("volume", "ls"):
        if volume["vid"] != NEW:
            facility.bp("admin", "volume", "set", volume["vid"], "full")


def test_a_volume_is_added_and_the_next_archive_goes_there(make_facility: MakeFacility) -> None:
    facility = make_facility(volumes=2, slots=4, drives=1, volume_size="64MiB")
    facility.up()
    facility.put_bytes(b"x" * 1000, "/f")
    fill_others(facility)
    facility.bp("archive", "/f")
    facility.wait_until("it waits for a volume", lambda: "bp volume add" in (facility.stat("/f").get("waits") or ""))
    said = facility.bp("volume", "add", NEW).text
    assert f"added to library lib1: {NEW}" in said, said
    assert NEW in facility.bp("volumes").out
    facility.bp("wait", "--archived", "/f")
    assert [copy["vid"] for copy in facility.stat("/f")["copies"]] == [NEW]
    assert facility.volume(NEW)["library"] == "lib1"
    assert facility.volume(NEW)["state"] == "appendable"
    # What is known, or is no label, is refused by its name.
    assert (
        f"volume {NEW} exists already: appendable, in library lib1"
        in facility.bp_fails("volume", "add", "NEW002", NEW).text
    )
    assert "not 1 to 6 characters A-Z 0-9" in facility.bp_fails("volume", "add", "TOOLONG").text
    assert "no tape library lib9" in facility.bp_fails("volume", "add", "NEW002", "--library", "lib9").text
    assert all(volume["vid"] != "NEW002" for volume in facility.bp_json("volumes"))


def test_a_library_without_a_free_slot_says_so(make_facility: MakeFacility) -> None:
    facility = make_facility(volumes=1, slots=1, drives=1)
    facility.up()
    facility.expect_log("cannot insert the cartridge of an added volume")
    facility.bp("volume", "add", NEW)
    facility.wait_until("there is no slot", lambda: "no slot is free" in facility.volume(NEW)["reason"])
    assert "no slot is free" in facility.bp("volumes").text
    # It stays known over a restart of everything, and can be added again when there is room.
    facility.down()
    facility.up()
    assert facility.volume(NEW)["state"] == "blank"
