"""Quotas of drives: a group has no more of them than its quota."""

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
