"""What people meet first: failures of jobs, tokens in the environment, a facility that the environment names."""

from __future__ import annotations

from clients import fails, run
from facility import Facility


def test_jobs_shows_recent_failures(facility: Facility) -> None:
    assert "Failed" not in facility.bp("jobs").out
    job = facility.submit("--", "/bin/false")
    facility.wait_job(job)
    shown = facility.bp("jobs").out
    assert "Failed in the last day" in shown
    assert f"{job}  failed" in shown
    assert "Failed in" not in facility.bp("jobs", str(job)).out


def test_down_takes_the_facility_of_the_environment(facility: Facility) -> None:
    run(facility.bin / "bp", "down", env={"BP_FACILITY": str(facility.directory)})
    facility.pid = 0
    assert "no facility runs" in facility.bp_fails("status").err


def test_a_token_that_is_not_sent_is_named(facility: Facility) -> None:
    env = {"BP_FACILITY": facility.http, "BEARER_TOKEN": "secret"}
    outcome = run(facility.bin / "bp", "ls", "/", env=env)
    assert "token of BEARER_TOKEN is not sent" in outcome.err
    assert "https://" in outcome.err
    assert "secret" not in outcome.text
    env = {"BP_FACILITY": str(facility.directory), "BEARER_TOKEN_FILE": "/nowhere"}
    assert (
        "token of BEARER_TOKEN_FILE is not sent: it cannot be read" in run(facility.bin / "bp", "ls", "/", env=env).err
    )
    assert "not sent" not in run(facility.bin / "bp", "ls", "/", env={"BP_FACILITY": facility.http}).err


def test_units_that_are_missing_are_asked_for(facility: Facility) -> None:
    for value in ("64", "64.5"):
        refused = fails(facility.bin / "bp", "-f", facility.directory, "submit", "--memory", value, "--", "true")
        assert f"{value}MiB" in refused.err
