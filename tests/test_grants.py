"""Grants on directories, made by `bp` and used by other people's clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients import fails, need, run
from facility import Facility


@pytest.fixture
def closed(facility: Facility) -> Facility:
    """Make a directory that only its owner can use, with a file."""
    facility.put_bytes(b"secret", "/d/deep/file")
    facility.bp("chmod", "600", "/d/deep/file")
    for path in ("/d/deep", "/d"):
        facility.bp("chmod", "700", path)
    return facility


def curl(facility: Facility, user: str, path: str, *words: str | Path) -> int:
    """Make a request as a user of this host; its status."""
    who = ("-H", f"X-Backplane-User: {user}")
    url = facility.http + path
    return int(run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *who, *words, url).out)


def test_what_is_granted_can_be_done_at_both_doors(closed: Facility, sample: Path) -> None:
    need("curl")
    assert closed.bp_fails("--user=ann", "cat", "/d/deep/file").code == 5
    assert curl(closed, "ann", "/d/deep/file") == 403
    closed.bp("grant", "/d", "user:ann", "r")
    assert curl(closed, "ann", "/d/deep/file") == 200
    assert closed.bp("--user=ann", "cat", "/d/deep/file").out == "secret"
    assert closed.bp_fails("--user=eve", "cat", "/d/deep/file").code == 5
    assert curl(closed, "eve", "/d/deep/file") == 403
    assert curl(closed, "ann", "/d/deep/new", "-T", sample) == 403
    assert curl(closed, "ann", "/d/deep", "-X", "PROPFIND", "-H", "Depth: 1") == 207
    closed.bp("grant", "/d", "user:ann", "rw")
    assert curl(closed, "ann", "/d/deep/new", "-T", sample) == 201
    assert closed.stat("/d/deep/new")["owner"] == "ann"
    assert curl(closed, "ann", "/d/deep/file", "-X", "DELETE") == 204
    # Answers that doors keep end with the grant.
    assert curl(closed, "ann", "/d/deep/new") == 200
    closed.bp("grant", "--revoke", "/d", "user:ann")
    assert curl(closed, "ann", "/d/deep/new") == 403
    assert closed.bp_fails("--user=ann", "cat", "/d/deep/new").code == 5


def test_grants_are_shown_and_checked(closed: Facility) -> None:
    closed.bp("grant", "/d", "group:prod", "rw")
    closed.bp("grant", "/d/deep", "user:ann", "r")
    text = closed.bp("grant", "--list", "/d/deep/file").out
    assert [line.split()[:4] for line in text.splitlines()[1:]] == [
        ["/d", "group:prod", "rw", closed.owner],
        ["/d/deep", "user:ann", "r", closed.owner],
    ]
    listed = closed.bp_json("grant", "--list")["grants"]
    assert [grant["subject"] for grant in listed] == ["group:prod", "user:ann"]
    assert closed.bp_fails("grant", "/d", "ann", "r").code == 2
    assert closed.bp_fails("grant", "/d", "user:ann", "x").code == 2
    assert closed.bp_fails("grant", "/d", "user:ann").code == 2
    assert closed.bp_fails("grant", "--revoke", "/d", "user:eve").code == 3
    refused = closed.bp_fails("--user=eve", "grant", "/", "user:eve", "rw")
    assert refused.code == 5
    assert "user eve may not change the grants of /" in refused.text
    closed.down()
    closed.up()
    assert closed.bp_json("grant", "--list")["grants"] == listed


def test_members_prove_it_by_a_token(closed: Facility) -> None:
    need("curl")
    closed.bp("grant", "/d", "group:prod", "r")
    for group, status in (("prod", 200), ("other", 403)):
        token = closed.bp("--user=ann", "token", "create", f"--group={group}").out.strip()
        assert curl(closed, "ann", "/d/deep/file", "-H", f"Authorization: Bearer {token}") == status
    assert closed.bp_fails("token", "create", "--group=a,b").code == 2
    assert closed.bp_fails("token", "create", "--group=prod", "--scope=storage.read:/").code == 2


def test_nobody_claims_to_be_in_a_group(closed: Facility) -> None:
    """Groups are what tokens bring: a field of a request says nothing."""
    need("curl")
    closed.bp("grant", "/d", "group:prod", "rw")
    assert curl(closed, "eve", "/d/deep/file", "-H", "X-Backplane-Groups: prod") == 403
    assert fails(closed.bin / "bp", f"--facility={closed.directory}", "--user=eve", "ls", "/d").code == 5
