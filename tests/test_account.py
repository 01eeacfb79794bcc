"""Accounts, projects and quotas, by other people's clients."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from clients import fails, need, run
from conftest import MakeFacility
from facility import OWNER, Facility, Json


@pytest.fixture
def facility(make_facility: MakeFacility) -> Facility:
    """Run a facility."""
    facility = make_facility()
    facility.up()
    return facility


def lines(facility: Facility, *words: str) -> list[Json]:
    """Read accounts."""
    found: list[Json] = facility.bp_json("account", *words)["lines"]
    return found


def test_accounts_follow_what_clients_do(facility: Facility, tmp_path: Path) -> None:
    need("xrdcp", "curl")
    local = tmp_path / "file"
    local.write_bytes(b"x" * 100_000)
    facility.bp("mkdir", "/cms")
    facility.bp("project", "/cms", "cms")
    run("xrdcp", "--silent", local, facility.url("/cms/a"))
    run("curl", "--silent", "--fail", "--upload-file", local, f"{facility.http}/cms/b")
    run("xrdcp", "--silent", facility.url("/cms/a"), tmp_path / "back")

    def is_read() -> bool:
        (line,) = lines(facility, "--project", "cms")
        return int(line["out_transfers"]) == 1

    facility.wait_until("the read is on the bill", is_read)
    (line,) = lines(facility, "--project", "cms", "--owner")
    assert line["user"] == OWNER
    assert (line["files"], line["bytes"], line["disk_bytes"]) == (2, 200_000, 200_000)
    assert (line["in_bytes"], line["in_transfers"], line["out_bytes"]) == (200_000, 2, 100_000)
    (month,) = {line["month"] for line in lines(facility, "--month")}
    assert lines(facility, "--month", month, "--project", "cms")[0]["bytes"] == 200_000
    assert {line["pool"] for line in lines(facility, "--pool", "--project", "cms")} == {"", "main"}
    table = facility.bp("account", "--project").out
    assert table.splitlines()[0].split()[:2] == ["project", "files"]
    assert "cms" in table
    assert "project" in facility.bp("stat", "/cms/a").out
    facility.kill()
    facility.up()
    assert lines(facility, "--project", "cms")[0]["in_transfers"] == 2, "it is durable"


def test_a_quota_binds_every_door(facility: Facility, tmp_path: Path) -> None:
    need("xrdcp", "curl")
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"x" * 60_000)
    large.write_bytes(b"x" * 60_001)
    facility.bp("quota", "set", "user", OWNER, "--bytes", "120000")
    facility.put(small, "/a")
    refused = facility.bp_fails("put", large, "/b")
    assert refused.code == 7
    assert f"the quota of user {OWNER} is reached" in refused.err
    assert "bp quota" in refused.err
    assert "quota" in fails("xrdcp", "--silent", large, facility.url("/b")).err
    status = run("curl", "--silent", "--output", tmp_path / "answer", "--write-out", "%{http_code}",
                 "--upload-file", large, f"{facility.http}/b")  # fmt: skip
    assert status.out == "507"
    run("xrdcp", "--silent", small, facility.url("/b"))
    (quota,) = facility.bp_json("quota")["quotas"]
    assert (quota["bytes"], quota["bytes_max"], quota["reserved_bytes"]) == (120_000, 120_000, 0)
    facility.bp("rm", "/a")
    facility.bp("quota", "lift", "user", OWNER)
    assert facility.bp_json("quota")["quotas"] == []
    facility.put(large, "/c")


def test_a_report_says_what_jobs_cost(facility: Facility) -> None:
    facility.put_bytes(b"x" * 50_000, "/old")
    facility.archive_and_evict("/old")
    words = ("--input", "/old:in", "--output", "out:/new", "--memory", "64MiB", "--name", '= sum, of "all"')
    job = facility.submit(*words, "--", "/bin/sh", "-c", "cat in in >out")
    assert facility.wait_job(job)["state"] == "done"

    (row,) = csv.DictReader(io.StringIO(facility.bp("report", "--by", "job", "--csv").out))
    assert (row["job"], row["user"], row["group"]) == (str(job), OWNER, OWNER)
    assert row["name"] == '\'= sum, of "all"', "no spreadsheet takes it for a formula"
    assert (row["in_bytes"], row["out_bytes"], row["tape_read_bytes"]) == ("50000", "100000", "50000")
    assert float(row["tape_loads"]) == 0, "the volume was loaded already"
    (user,) = csv.DictReader(io.StringIO(facility.bp("report", "--by", "user", "--csv").out))
    assert (user["jobs"], user["tape_read_bytes"], user["cpu_seconds"]) == ("1", "50000", row["cpu_seconds"])
    month = facility.bp_json("report")
    assert (month["users"], month["jobs"], month["staged_bytes"]) == (1, 1, 50_000)
    assert month["month"] in facility.bp("report").out
    assert facility.bp_json("report", "--month", "2001-01", "--by", "job") == []
    assert facility.bp_fails("--json", "report", "--csv").code == 2
