"""The HTTP door with curl: files, the management API, metrics and console."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import subprocess
import urllib.parse
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from clients import Outcome, adler32, is_same, need, run, write_file
from facility import ApiError, Facility, Json

HOSTILE = "<script>alert(1)<script>&\"'"
"""A name that a page must not take at its word."""


@pytest.fixture
def door(facility: Facility) -> Facility:
    """Start a facility for curl, which must be installed."""
    need("curl")
    return facility


def curl(facility: Facility, path: str, *options: str | Path, check: bool = True) -> Outcome:
    """Run curl on a path as it is written."""
    return run("curl", "-sS", "--path-as-is", "--max-time", "60", *options, facility.http + path, check=check)


def status(facility: Facility, path: str, *options: str | Path) -> int:
    """Tell the status of an answer."""
    return int(curl(facility, path, "-o", "/dev/null", "-w", "%{http_code}", *options).out)


def refusal(facility: Facility, path: str, *options: str | Path) -> tuple[int, Json]:
    """Tell the status of an answer that must be a failure, and the failure."""
    text, code = curl(facility, path, "-w", "\n%{http_code}", *options).out.rsplit("\n", 1)
    failure = json.loads(text)
    assert failure.get("what") or failure.get("detail"), failure
    return int(code), failure


# Files


@pytest.mark.parametrize("size", [0, 1, 1 << 20, 70_000_001])
def test_a_file_comes_back(door: Facility, tmp_path: Path, size: int) -> None:
    local, back = write_file(tmp_path / "local", size), tmp_path / "back"
    assert status(door, "/file", "-T", local) == 201
    assert status(door, "/file", "-T", local) == 204
    curl(door, "/file", "-f", "-o", back)
    if size:
        assert is_same(local, back)
    assert door.stat("/file")["size"] == size


def test_ranges(door: Facility, tmp_path: Path, sample: Path, sample_bytes: bytes) -> None:
    door.put(sample, "/file")
    back = tmp_path / "back"
    size = len(sample_bytes)
    for asked, offset, end in (
        ("0-0", 0, 1),
        ("1000-1999", 1000, 2000),
        ("-100", size - 100, size),
        ("1234000-", 1_234_000, size),
        ("1234000-9999999", 1_234_000, size),
    ):
        head = curl(door, "/file", "-f", "-r", asked, "-o", back, "-D", "-").out
        assert " 206 " in head.splitlines()[0]
        assert f"content-range: bytes {offset}-{end - 1}/{size}" in head.lower()
        assert back.read_bytes() == sample_bytes[offset:end]
    assert status(door, "/file", "-r", "99999999-") == 416
    head = curl(door, "/file", "-f", "-r", "0-9,100-109,-5", "-o", back, "-D", "-").out
    boundary = re.search(r"multipart/byteranges; *boundary=\"?([^\"\s]+)", head)
    assert boundary
    parts = back.read_bytes().split(b"--" + boundary[1].encode())
    bodies = [part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n") for part in parts[1:-1]]
    assert bodies == [sample_bytes[:10], sample_bytes[100:110], sample_bytes[-5:]]
    assert parts[-1].strip() == b"--"


def test_a_hundred_thousand_ranges_are_not_served_one_by_one(door: Facility, sample: Path) -> None:
    door.put(sample, "/file")
    ranges = ",".join(["0-"] * 1000)
    size = int(curl(door, "/file", "-r", ranges, "-o", "/dev/null", "-w", "%{size_download}").out)
    assert size < 3 * 1_234_567, "overlapping ranges must not multiply what is sent"


def test_head_tells_without_a_recall(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    door.put(sample, "/file")
    door.archive_and_evict("/file")
    head = curl(door, "/file", "-f", "-I", "-H", "Want-Digest: adler32").out.lower()
    assert "content-length: 1234567" in head
    assert f"digest: adler32={adler32(sample_bytes)}" in head
    assert door.state("/file") == "nearline"
    assert door.status()["requests_len"] == 0
    assert status(door, "/missing", "-I") == 404


def test_a_get_waits_for_the_recall(door: Facility, tmp_path: Path, sample: Path) -> None:
    door.put(sample, "/file")
    door.archive_and_evict("/file")
    curl(door, "/file", "-f", "-o", tmp_path / "back")
    assert is_same(sample, tmp_path / "back")


def test_conditions(door: Facility, sample: Path) -> None:
    door.put(sample, "/file")
    tag = re.search(r"(?i)^etag: *(.+?)\s*$", curl(door, "/file", "-I").out, re.M)
    assert tag
    assert status(door, "/file", "-H", f"If-None-Match: {tag[1]}") == 304
    assert status(door, "/file", "-H", 'If-None-Match: "other"') == 200
    assert status(door, "/file", "-r", "0-9", "-H", f"If-Range: {tag[1]}") == 206
    assert status(door, "/file", "-r", "0-9", "-H", 'If-Range: "other"') == 200
    assert status(door, "/file", "-T", sample, "-H", "If-None-Match: *") == 412


def test_delete(door: Facility, sample: Path) -> None:
    door.put(sample, "/d/file")
    door.put(sample, "/e/deep/file")
    assert status(door, "/", "-X", "DELETE") == 403
    assert status(door, "/e", "-X", "DELETE", "-H", "Depth: 0") == 400
    assert status(door, "/e", "-X", "DELETE") == 204
    assert status(door, "/d/file", "-X", "DELETE") == 204
    assert status(door, "/d/file", "-X", "DELETE") == 404
    assert status(door, "/d/file") == 404
    door.wait_removals()
    assert door.objects_on_disk() == {}


def test_an_upload_that_breaks_off_leaves_nothing(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    door.put(sample, "/old")
    where = urllib.parse.urlsplit(door.http)
    for path in ("/old", "/new"):
        with socket.create_connection((where.hostname, where.port), timeout=60) as peer:
            head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n"
            peer.sendall(head.encode() + bytes(100_000))
    door.wait_until("the half file is gone", lambda: len(door.objects_on_disk()) == 1)
    assert status(door, "/new") == 404
    assert door.read("/old") == sample_bytes


def test_a_wrong_digest_is_refused(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    right = f"Digest: adler32={adler32(sample_bytes)}"
    assert status(door, "/file", "-T", sample, "-H", right) == 201
    code, failure = refusal(door, "/other", "-T", sample, "-H", "Digest: adler32=00000001")
    assert (code, failure["status"], failure["kind"]) == (400, 400, "corrupt")
    assert status(door, "/other") == 404
    code, _ = refusal(door, "/file", "-T", sample, "-H", "Digest: adler32=00000001")
    assert code == 400
    assert door.read("/file") == sample_bytes


@pytest.mark.parametrize(
    "path",
    [
        "/../etc/passwd",
        "/d/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/d/%2E%2e%2fetc/passwd",
        "/d/..%2f..%2fkey",
        "/..",
    ],
)
def test_paths_stay_inside(door: Facility, sample: Path, path: str) -> None:
    # With -T curl would make sense of the path before it asks.
    for options in ((), ("-I",), ("-X", "PUT", "--data-binary", f"@{sample}"), ("-X", "DELETE")):
        assert status(door, path, *options) == 400, options
    assert door.objects_on_disk() == {}


@pytest.mark.parametrize("path", ["/%00", "/a%0ab", "/%ff%fe", "/" + "x" * 300, "/" + "x/" * 200 + "y"])
def test_names_that_cannot_be_are_refused(door: Facility, sample: Path, path: str) -> None:
    assert status(door, path, "-T", sample) == 400
    assert status(door, path) == 400


@pytest.mark.parametrize("name", ["api", "console", "metrics", ".well-known"])
def test_reserved_names_cannot_be_made(door: Facility, sample: Path, name: str) -> None:
    refused = door.bp_fails("put", sample, f"/{name}")
    assert "reserved" in refused.text
    assert "reserved" in door.bp_fails("mkdir", f"/{name}").text
    door.put(sample, "/file")
    assert "reserved" in door.bp_fails("mv", "/file", f"/{name}").text
    assert status(door, f"/{name}/x", "-T", sample) >= 400
    door.put(sample, f"/d/{name}")


def test_odd_names_come_back_as_they_are(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    name = "/a b%+#?ü"
    assert status(door, urllib.parse.quote(name), "-T", sample) == 201
    assert door.stat(name)["name"] == name[1:]
    assert door.read(name) == sample_bytes
    assert name[1:] in curl(door, "/", "-H", "Accept: text/plain").out.splitlines()


def test_methods_that_are_not_offered(door: Facility, sample: Path) -> None:
    door.put(sample, "/file")
    for method in ("POST", "PATCH", "TRACE", "LOCK"):
        assert status(door, "/file", "-X", method) == 405
    assert "GET" in curl(door, "/file", "-X", "OPTIONS", "-D", "-", "-o", "/dev/null").out


# Management API


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        '{"path":1}',
        '{"path":"relative"}',
        '{"path":"/../x"}',
        "{}",
        '{"path":"/a\\u0000b"}',
        "[" * 99_999,
    ],
)
def test_malformed_calls_are_refused(door: Facility, tmp_path: Path, body: str) -> None:
    file = tmp_path / "body"
    file.write_text(body)
    code, failure = refusal(door, "/api/v1/stat", "-H", "content-type: application/json", "--data-binary", f"@{file}")
    assert (code, failure["kind"]) == (400, "invalid")


def test_calls_need_their_content_type(door: Facility) -> None:
    code, failure = refusal(door, "/api/v1/mkdir", "-d", '{"path":"/made"}')
    assert code == 400
    assert "application/json" in failure["hint"]
    assert status(door, "/made") == 404


def test_calls_have_bounds(door: Facility, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_text(json.dumps({"path": "/" + "x" * (9 << 20)}))
    assert status(door, "/api/v1/stat", "-H", "content-type: application/json", "--data-binary", f"@{file}") == 413
    with pytest.raises(ApiError) as refused:
        door.call("stat", path="/" + "x" * 5000)
    assert refused.value.status == 400


def test_an_unknown_call(door: Facility) -> None:
    assert status(door, "/api/v1/nosuch", "-H", "content-type: application/json", "-d", "{}") in (404, 405)
    assert status(door, "/api/v1/stat?wait=elephant", "-H", "content-type: application/json", "-d", "{}") == 400


ROOMS = {
    "register_library": {"library": "x", "drives": [], "cartridges": []},
    "next_tape_session": {"drive": "lib1.drive0", "loaded": None},
    "file_recalled": {"session": 1, "request": 1},
    "register_worker": {"worker": "x", "cpus": 99, "memory_bytes": 0, "not_enforced": [], "runs": []},
    "next_job": {"worker": "worker1", "runs": [], "killing": []},
    "job_ended": {
        "run": {"job": 1, "attempt": 1},
        "exit": {"code": 0},
        "usage": {"cpu": 0, "wall": 0, "memory_bytes_max": 0},
        "text": {"stdout": "", "stderr": ""},
    },
}


@pytest.mark.parametrize("name", ROOMS)
def test_calls_of_rooms_need_the_key(door: Facility, name: str) -> None:
    wrong = hashlib.sha256(b"guess").hexdigest()
    for token in (None, "", "Bearer ", f"Bearer {wrong}", f"Basic {wrong}"):
        options = ["-H", f"authorization: {token}"] if token is not None else []
        code, failure = refusal(
            door, f"/api/v1/{name}", "-H", "content-type: application/json", "-d", json.dumps(ROOMS[name]), *options
        )
        # A proof that is none is another answer than a name that is not enough.
        assert (code, failure["kind"]) == (401 if token else 403, "permission")
    door.wait_until("the worker is there", lambda: door.status()["workers"])
    assert [worker["name"] for worker in door.status()["workers"]] == ["worker1"]


def test_operators_calls_are_for_operators(door: Facility) -> None:
    headers = ("-H", "content-type: application/json", "-H", "x-backplane-user: stranger")
    code, _ = refusal(door, "/api/v1/set_volume_state", *headers, "-d", '{"vid":"BP0001","state":"suspect"}')
    assert code == 403
    assert door.volume("BP0001")["state"] == "blank"


# Metrics and console


def test_metrics_parse(door: Facility, sample: Path) -> None:
    door.put(sample, "/file")
    door.bp("archive", "--wait", "/file")
    door.bp("submit", "--wait", "--", "/bin/true")
    head = curl(door, "/metrics", "-D", "-", "-o", "/dev/null").out.lower()
    assert "content-type: text/plain" in head
    families = {family.name: family for family in text_string_to_metric_families(curl(door, "/metrics", "-f").out)}
    assert families, "no metrics"
    for family in families.values():
        assert family.name.startswith("backplane_"), family.name
        assert family.documentation, family.name
        assert family.type != "unknown", family.name
        keys = [(sample.name, *sorted(sample.labels.items())) for sample in family.samples]
        assert len(keys) == len(set(keys)), f"{family.name} has a sample twice"
    # The archive and the job are over: each waited for a while.
    for name, labels in [("tape_wait_seconds", {"kind": "archive"}), ("job_wait_seconds", {"until": "running"})]:
        samples = families[f"backplane_{name}"].samples
        counts = [one.value for one in samples if one.name.endswith("_count") and one.labels == labels]
        assert counts == [1.0], name
    if promtool := shutil.which("promtool"):
        said = subprocess.run([promtool, "check", "metrics"], input=curl(door, "/metrics", "-f").out,
                              text=True, capture_output=True, check=False)  # fmt: skip
        assert said.returncode == 0, said.stderr


def test_pages_escape_names(door: Facility, sample: Path) -> None:
    path = f"/{HOSTILE}"
    door.put(sample, path)
    door.bp("archive", path)
    door.bp("submit", "--name", HOSTILE, "--", "/bin/sh", "-c", f"exit 3 # {HOSTILE}")
    door.bp("put", sample, f"{path}2")
    page = curl(door, "/console", "-f").out
    assert "&lt;script&gt;alert(1)" in page, "the job is shown"
    assert "<script>alert(1)" not in page
    assert "content-security-policy" in curl(door, "/console", "-D", "-", "-o", "/dev/null").out.lower()
    with door.events(60) as events:
        assert "<script>alert(1)" not in next(events)
    metrics = curl(door, "/metrics", "-f").out
    assert HOSTILE not in metrics


def test_an_event_follows_a_change(door: Facility) -> None:
    with door.events(60) as events:
        first = next(events)
        assert "eventful" not in first
        door.bp("submit", "--name", "eventful", "--", "/bin/true")
        assert any("eventful" in data for data, _ in zip(events, range(10), strict=False))
        # What `bp events` tells is there, too, and grows.
        assert "head.started" in first
        assert any("job.done" in data for data, _ in zip(events, range(20), strict=False))


def test_a_browser_is_sent_to_the_console(door: Facility) -> None:
    assert status(door, "/", "-H", "accept: text/html") in (302, 303, 307)
    assert status(door, "/") == 200
