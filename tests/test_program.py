"""Programs that are shipped with a job: kept in the facility, run by the job, never replaced."""

from __future__ import annotations

from pathlib import Path

from facility import Facility


def program(place: Path, text: str) -> Path:
    """Write a program that leaves a file."""
    place.parent.mkdir(exist_ok=True)
    place.write_text(f'#!/bin/sh\n{text} "$@" >out\n')
    return place


def printed(facility: Facility, name: str, *words: str | Path) -> str:
    """Run a program in a job; what it has left."""
    out = f"/shipped/out-{name}"
    facility.bp("submit", "--quiet", "--wait", "--output", f"out:{out}", *words)
    return facility.bp("cat", out).out


def test_a_program_is_shipped_and_kept(facility: Facility, tmp_path: Path) -> None:
    local = program(tmp_path / "say:it.sh", "echo")
    assert printed(facility, "1", "--program", f"{local}:/shipped/", "--", "a b", "c") == "a b c\n"
    assert facility.bp("cat", "/shipped/say:it.sh").out == local.read_text()
    # Once more: what is there is the same, also for a job that names it alone.
    assert printed(facility, "2", "--program", f"{local}:/shipped/") == "\n"
    assert printed(facility, "3", "--program", "/shipped/say:it.sh", "--", "x") == "x\n"
    job = facility.bp("submit", "--program", f"{local}:/shipped/say2").out.strip()
    assert job.isdigit(), "the number alone, for scripts"
    assert facility.job(int(job))["spec"]["name"] == "say2"


def test_another_program_is_not_replaced(facility: Facility, tmp_path: Path) -> None:
    local = program(tmp_path / "fit", "echo")
    facility.bp("put", "--parents", local, "/shipped2/fit")
    jobs = len(facility.bp_json("jobs")["jobs"])
    other = program(tmp_path / "other" / "fit", "printf %s")
    refused = facility.bp_fails("submit", "--program", f"{other}:/shipped2/fit")
    assert "differs from" in refused.text
    assert "`bp put --replace`" in refused.text
    assert facility.bp("cat", "/shipped2/fit").out == local.read_text()
    assert "end it with a slash" in facility.bp_fails("submit", "--program", f"{local}:/shipped2").text
    assert "./fit:/programs/" in facility.bp_fails("submit", "--program", "./fit").text
    assert f"{tmp_path}/none" in facility.bp_fails("submit", "--program", f"{tmp_path}/none:/shipped2/").text
    assert len(facility.bp_json("jobs")["jobs"]) == jobs, "nothing was submitted"
