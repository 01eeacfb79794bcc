"""The audit log: what other people's clients did is in it, with its outcome, and nothing secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients import fails, need, run
from conftest import MakeFacility
from facility import Facility

Json = dict[str, Any]


def records(facility: Facility, *words: str) -> list[Json]:
    """Read the log of a facility that is down, so that all is written."""
    return [json.loads(line) for line in facility.bp("--json", "audit", *words).out.splitlines()]


def of(records: list[Json], what: str) -> list[tuple[str, str, str, bool]]:
    """Tell the actions with one path: door, user, action, whether it was done."""
    about = [record for record in records if record.get("what", "").split(" ")[0] == what]
    return [(record["door"], record["user"], record["action"], "refused" not in record) for record in about]


def test_what_was_done_and_refused_is_in_the_log(facility: Facility, sample: Path, tmp_path: Path) -> None:
    need("xrdcp", "xrdfs", "curl")
    owner, url = facility.owner, facility.root
    facility.bp("mkdir", "/d")
    run("xrdcp", "-s", sample, f"{url}//d/file")
    run("xrdcp", "-s", f"{url}//d/file", tmp_path / "back")
    run("xrdfs", url, "mv", "/d/file", "/d/moved")
    eve = ("-s", "-o", "/dev/null", "-H", "X-Backplane-User: eve")
    run("curl", *eve, f"{facility.http}/d/moved")
    run("curl", *eve, "-X", "DELETE", f"{facility.http}/d/moved")
    run("curl", *eve, "-I", f"{facility.http}/d/moved")
    run("curl", *eve, "-H", "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2VjcmV0", f"{facility.http}/d/moved")
    facility.bp("rm", "/d/moved")
    facility.bp_fails("--user=eve", "grant", "/", "user:eve", "rw")
    facility.down()
    found = records(facility)
    assert of(found, "/d")[0] == ("http", owner, "mkdir", True)
    assert ("root", owner, "write", True) in of(found, "/d/file")
    assert ("root", owner, "read", True) in of(found, "/d/file")
    assert ("root", owner, "rename", True) in of(found, "/d/file")
    assert of(found, "/d/moved") == [
        ("http", "eve", "read", True),
        ("http", "eve", "remove", False),
        ("http", "nobody", "read", False),
        ("http", owner, "remove", True),
    ]
    (refused,) = [record for record in found if record["action"] == "set_grant"]
    # It came over the socket in the directory, where nobody has an address.
    assert (refused["user"], refused["refused"], refused.get("address")) == ("eve", "permission", None)
    assert next(record for record in found if record["action"] == "read" and record["door"] == "http")["address"] == (
        "127.0.0.1"
    )
    assert (refused["what"], "may not change the grants of /" in refused["why"]) == ("/ user:eve rw", True)
    (rename,) = [record for record in found if record["action"] == "rename"]
    assert rename["to"] == "/d/moved"
    log = facility.directory / "audit" / "audit.jsonl"
    assert log.stat().st_mode & 0o777 == 0o600
    assert "eyJhbGci" not in log.read_text()
    # What people ask of it.
    assert {record["user"] for record in records(facility, "--by=eve")} == {"eve"}
    assert all("refused" in record for record in records(facility, "--refused"))
    assert records(facility, "--last=1", "--path=/d/moved")[0]["action"] == "remove"
    assert records(facility, "--since=0s") == []
    table = facility.bp("audit", "--refused").out
    assert "refused: user eve may not change" in table


def test_what_is_refused_in_part_is_in_the_log(facility: Facility, sample: Path) -> None:
    need("xrdcp", "xrdfs", "curl")
    facility.bp("mkdir", "/e", "/e/closed", "/d")
    facility.bp("chmod", "777", "/e")
    facility.put(sample, "/e/closed/f")
    facility.put(sample, "/d/file")
    # One path may be refused where another is not, whatever the client is told.
    fails("xrdfs", facility.root, "prepare", "-s", "/d/file", "/d/missing")
    prepared = run("xrdfs", facility.root, "prepare", "-s", "/d/file").out.strip()
    run("xrdfs", facility.root, "prepare", "-a", prepared, "/d/file", "/d/missing")
    fails("xrdfs", facility.root, "prepare", "-e", "/d/file")
    eve = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "X-Backplane-User: eve", "-X")
    assert run(*eve, "DELETE", f"{facility.http}/e").out in ("207", "403")
    body = '<propertyupdate xmlns="DAV:"><set><prop><getetag>x</getetag></prop></set></propertyupdate>'
    curl = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "PROPPATCH")
    assert run(*curl, "--data-binary", body, f"{facility.http}/d/file").out == "207"
    facility.down()
    found, owner = records(facility), facility.owner
    stages = [of(found, "/d/file"), of(found, "/d/missing")]
    assert [one for one in stages[0] if one[2] == "stage"] == [("root", owner, "stage", True)] * 2
    assert ("root", owner, "stage", False) in stages[1]
    assert ("root", owner, "cancel", True) in stages[0]
    assert ("root", owner, "cancel", False) in stages[1]
    assert ("root", owner, "evict", False) in stages[0], "it has no other copy"
    assert ("http", owner, "set attribute", False) in stages[0]
    assert of(found, "/e")[-1] == ("http", "eve", "remove", False)


def test_the_log_is_bounded_and_can_be_left_out(make_facility: MakeFacility) -> None:
    need("curl")
    facility = make_facility()
    facility.configure("file_size", '"64KiB"')
    facility.configure("files", "2")
    facility.up()
    facility.put_bytes(b"x", f"/{'n' * 200}")
    urls = [f"{facility.http}/{'n' * 200}"] * 700
    run("curl", "-s", "-o", "/dev/null", *(word for url in urls for word in ("-o", "/dev/null", url)))
    facility.down()
    files = sorted(file.name for file in (facility.directory / "audit").iterdir())
    assert files == ["audit.1.jsonl", "audit.jsonl", "refused.jsonl"]
    assert all(file.stat().st_size <= 64 << 10 for file in (facility.directory / "audit").iterdir())
    silent = make_facility()
    silent.configure("files", "0")
    silent.up()
    silent.put_bytes(b"x", "/f")
    silent.down()
    assert not (silent.directory / "audit").exists()
