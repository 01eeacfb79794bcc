"""Drives: quotas of groups, and drives that are there no more."""

from __future__ import annotations

from pathlib import Path

from facility import Facility


def test_a_group_without_drives_waits_and_is_told_so(facility: Facility, sample: Path) -> None:
    facility.put(sample, "/file")
    facility.archive_and_evict("/file")
    group = facility.stat("/file")["group"]
    facility.bp("drive", "quota", "set", group, "--recall", "0", "--archive", "1")
    assert [row["drives"] for row in facility.bp_json("drive", "quota")] == [1, 0]
    facility.bp("stage", "/file")
    told = f"group {group} may have no drive for recalls"
    assert told in facility.bp("why", "/file").text
    assert told in facility.bp("queue").out
    # What is written has its own quota.
    facility.put(sample, "/other")
    facility.bp("archive", "--wait", "/other")
    facility.bp("drive", "quota", "unset", group)
    facility.bp("wait", "/file")
    assert facility.read("/file") == sample.read_bytes()
    assert "no group has a quota" in facility.bp("drive", "quota").text
    assert "has no quota" in facility.bp_fails("drive", "quota", "unset", group).text


def test_drives_that_are_not_configured_any_more_are_forgotten(facility: Facility) -> None:
    assert "that runs" in facility.bp_fails("drive", "remove", "lib1.drive1").text
    facility.bp("drive", "down", "lib1.drive1")
    assert "that runs" in facility.bp_fails("drive", "remove", "lib1.drive1").text
    facility.down()
    for key in ("drives", "volumes"):
        facility.configure(key, "0")
    facility.up()
    facility.bp("drive", "remove", "lib1.drive0", "lib1.drive1")
    assert facility.status()["drives"] == []
    assert "there is no drive" in facility.bp_fails("drive", "remove", "lib1.drive1").text
