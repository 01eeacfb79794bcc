"""The HTTP door as WebDAV and as the grid's data door: litmus, davix, rclone, gfal2, curl."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clients import SYSTEM_PYTHON, Outcome, adler32, fails, is_same, make_bytes, need, run, write_file
from conftest import MakeFacility
from facility import Facility

D = "{DAV:}"
TEXT = ("-H", "Accept: text/plain")


@pytest.fixture
def door(make_facility: MakeFacility) -> Facility:
    """Start a facility for curl, which must be installed."""
    need("curl")
    facility = make_facility()
    facility.reach_this_host()
    facility.up()
    return facility


@pytest.fixture
def pair(make_facility: MakeFacility) -> tuple[Facility, Facility]:
    """Start two facilities that copy to each other."""
    need("curl")
    one, other = make_facility(), make_facility()
    one.reach_this_host()
    other.reach_this_host()
    one.up()
    other.up()
    return one, other


def curl(facility: Facility, path: str, *options: str | Path, check: bool = True) -> Outcome:
    """Run curl on a path as it is written."""
    return run("curl", "-sS", "--path-as-is", "--max-time", "60", *options, facility.http + path, check=check)


def status(facility: Facility, path: str, method: str, *options: str | Path) -> int:
    """Tell the status of an answer."""
    words = ["-I"] if method == "HEAD" else ["-X", method]
    return int(curl(facility, path, *words, "-o", "/dev/null", "-w", "%{http_code}", *options).out)


def header(facility: Facility, path: str, name: str, *options: str | Path) -> str | None:
    """Tell one field of an answer."""
    head = curl(facility, path, "-D", "-", "-o", "/dev/null", *options).out
    found = re.findall(rf"(?im)^{name}: *(.*?)\s*$", head)
    return found[-1] if found else None


def gfal(verb: str, *words: str | Path) -> Outcome:
    """Run a command of gfal2 with the interpreter that it is installed for."""
    return run(f"gfal-{verb}", *words, env={"GFAL_PYTHONBIN": SYSTEM_PYTHON})


def propfind(facility: Facility, path: str, body: str = "", depth: str = "0") -> dict[str, dict[str, str]]:
    """Ask for properties; by href those that are there, as local names."""
    words = ["-X", "PROPFIND", "-H", f"Depth: {depth}", *(["--data-binary", body] if body else [])]
    root = ElementTree.fromstring(curl(facility, path, "-f", *words).out)
    found = {}
    for response in root.iter(f"{D}response"):
        properties = {}
        for propstat in response.iter(f"{D}propstat"):
            if " 200 " not in (propstat.findtext(f"{D}status") or ""):
                continue
            for prop in propstat.iter(f"{D}prop"):
                for element in prop:
                    text = element.text or "".join(child.tag.rsplit("}")[-1] for child in element)
                    properties[element.tag.rsplit("}")[-1]] = text
        found[response.findtext(f"{D}href") or ""] = properties
    return found


# Other people's clients


@pytest.mark.parametrize("suite", ["basic", "copymove", "http"])
def test_litmus(door: Facility, tmp_path: Path, suite: str) -> None:
    need("litmus")
    assert status(door, "/dav", "MKCOL") == 201
    outcome = run("litmus", f"{door.http}/dav/", env={"TESTS": suite}, cwd=tmp_path, deadline=120)
    assert "0 failed" in outcome.text, outcome
    # There are no locks, on purpose; and a fragment never reaches whoever answers.
    known = "server does not claim Class 2 compliance|DELETE removed collection resource with Request-URI incl"
    assert not re.search(rf"WARNING: (?!{known})", outcome.text), outcome


def test_litmus_reads_properties(door: Facility, tmp_path: Path) -> None:
    """Dead properties are not kept, on purpose; all that reads must pass."""
    need("litmus")
    assert status(door, "/dav", "MKCOL") == 201
    outcome = run("litmus", f"{door.http}/dav/", env={"TESTS": "props"}, cwd=tmp_path, check=False, deadline=120)
    for name in ("propfind_invalid", "propfind_invalid2", "propfind_d0"):
        assert re.search(rf"{name}\.+ pass", outcome.text), outcome


def test_davix(door: Facility, tmp_path: Path, sample: Path) -> None:
    need("davix-get", "davix-put", "davix-ls", "davix-mkdir", "davix-rm", "davix-mv")
    dav = door.http.replace("http://", "dav://")
    run("davix-mkdir", f"{dav}/d")
    run("davix-put", sample, f"{dav}/d/a%20b")
    assert re.search(r" 1234567 .* a%20b$", run("davix-ls", "-l", f"{dav}/d").out, re.M)
    run("davix-get", f"{dav}/d/a%20b", tmp_path / "back")
    assert is_same(sample, tmp_path / "back")
    # It ends with 255 whatever happened, on every server.
    assert run("davix-mv", f"{dav}/d/a%20b", f"{dav}/d/c", check=False).text == ""
    assert run("davix-ls", f"{dav}/d").out.split() == ["c"]
    fails("davix-get", f"{dav}/d/missing", tmp_path / "no")
    run("davix-rm", f"{dav}/d/c")
    assert run("davix-ls", f"{dav}/d").out.split() == []


def test_rclone(door: Facility, tmp_path: Path) -> None:
    need("rclone")

    def rclone(*words: str | Path) -> Outcome:
        options = ("--config", str(tmp_path / "none"), "--webdav-url", door.http, "--retries", "1")
        return run("rclone", *options, *words, deadline=120)

    there, here, back = ":webdav:deep/er", tmp_path / "here", tmp_path / "back"
    (here / "sub dir").mkdir(parents=True)
    for number in range(8):
        write_file(here / "sub dir" / f"f{number}", 100_000 * number, seed=number)
    write_file(here / "ü&%", 1_000_003, seed=9)
    rclone("copy", here, there)
    assert sorted(rclone("lsf", "-R", there).out.splitlines()) == sorted(
        ["sub dir/", "ü&%", *(f"sub dir/f{number}" for number in range(8))]
    )
    rclone("check", "--download", here, there)
    rclone("sync", there, back)
    assert run("diff", "-r", here, back).out == ""
    (here / "sub dir" / "f3").unlink()
    rclone("sync", here, there)
    rclone("check", here, there)
    rclone("moveto", f"{there}/ü&%", f"{there}/renamed")
    assert "renamed" in rclone("lsf", there).out
    rclone("purge", ":webdav:deep")
    assert rclone("lsf", ":webdav:").out == ""
    door.wait_removals()


def test_gfal(door: Facility, tmp_path: Path, sample: Path, sample_bytes: bytes) -> None:
    need("gfal-ls", "gfal-copy", "gfal-mkdir", "gfal-rm", "gfal-sum", "gfal-stat")
    dav = door.http.replace("http://", "dav://")
    gfal("mkdir", "-p", f"{dav}/g/h")
    gfal("copy", "-K", "ADLER32", f"file://{sample}", f"{dav}/g/h/file")
    assert gfal("ls", f"{dav}/g/h").out.split() == ["file"]
    long = gfal("ls", "-l", f"{dav}/g").out
    assert re.match(r"^d", long), long
    assert "1234567" in gfal("stat", f"{dav}/g/h/file").out
    for name, found in (
        ("ADLER32", adler32(sample_bytes)),
        ("MD5", hashlib.md5(sample_bytes, usedforsecurity=False).hexdigest()),
    ):
        assert found in gfal("sum", f"{dav}/g/h/file", name).out
    gfal("copy", f"{dav}/g/h/file", f"file://{tmp_path}/back")
    assert is_same(sample, tmp_path / "back")
    gfal("rename", f"{dav}/g/h/file", f"{dav}/g/file")
    gfal("rm", f"{dav}/g/file")
    assert status(door, "/g/file", "HEAD") == 404
    gfal("rm", "-r", f"{dav}/g")
    assert door.bp("ls", "/").out.split() == []


@pytest.mark.parametrize("mode", ["pull", "push"])
def test_gfal_copies_between_two_facilities(
    pair: tuple[Facility, Facility], sample: Path, sample_bytes: bytes, mode: str
) -> None:
    need("gfal-copy")
    one, other = pair
    one.put(sample, "/from/file")
    source, target = (facility.http.replace("http://", "dav://") for facility in pair)
    gfal("copy", "-p", "--copy-mode", mode, "-K", "ADLER32", f"{source}/from/file", f"{target}/to/file")
    assert other.read("/to/file") == sample_bytes
    assert door_log(other if mode == "pull" else one, f"{mode} done"), "the servers did it"


def door_log(facility: Facility, words: str) -> bool:
    """Tell whether the daemon logged these words."""
    return words in facility.log.read_text()


# Properties


def test_properties(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    door.put(sample, "/d/a&b")
    assert door.bp("mkdir", "/d/sub").code == 0
    everything = propfind(door, "/d", depth="1")
    assert list(everything) == ["/d/", "/d/a%26b", "/d/sub/"]
    assert everything["/d/"]["resourcetype"] == "collection"
    file = everything["/d/a%26b"]
    assert (file["displayname"], file["getcontentlength"], file["resourcetype"]) == ("a&b", "1234567", "")
    assert file["getlastmodified"].endswith("GMT")
    assert file["creationdate"].endswith("Z")
    assert file["getetag"] == header(door, "/d/a&b", "etag", "-I")
    assert "quota-available-bytes" not in everything["/d/"]
    named = (
        '<propfind xmlns="DAV:" xmlns:L="LCGDM:"><prop><quota-available-bytes/><quota-used-bytes/><L:mode/>'
        "<L:sumvalue/><nothing/></prop></propfind>"
    )
    answer = propfind(door, "/d", named)["/d/"]
    assert int(answer["quota-available-bytes"]) > 0
    assert answer["quota-used-bytes"] == "1234567"
    assert answer["mode"] == "0040755"
    assert propfind(door, "/d/a&b", named)["/d/a%26b"]["sumvalue"] == adler32(sample_bytes)


def test_a_large_directory(door: Facility) -> None:
    names = [f"/many/{number:05}" for number in range(5000)]
    assert status(door, "/many", "MKCOL") == 201
    for start in range(0, len(names), 1000):
        urls = [f"{door.http}{name}/" for name in names[start : start + 1000]]
        run("curl", "-sSf", "--max-time", "120", "-X", "MKCOL", *urls, deadline=150)
    assert len(propfind(door, "/many", depth="1")) == 5001
    assert curl(door, "/many", *TEXT).out.split() == [f"{name.rsplit('/')[-1]}/" for name in names]
    assert curl(door, "/many", "-H", "accept: text/html").out.count("<tr>") == 5001
    assert status(door, "/many", "DELETE") == 204
    assert curl(door, "/", *TEXT).out == ""


@pytest.mark.parametrize(
    ("body", "depth", "code"),
    [
        ("", "infinity", 403),
        ("", "2", 400),
        ("<foo>", "0", 400),
        ("<propfind/>", "0", 400),
        ("text", "0", 400),
        ('<!DOCTYPE a [<!ENTITY b "c">]><propfind xmlns="DAV:"><allprop/></propfind>', "0", 400),
        ("x" * 300_000, "0", 413),
    ],
)
def test_refused_propfinds(door: Facility, tmp_path: Path, body: str, depth: str, code: int) -> None:
    file = tmp_path / "body"
    file.write_text(body)
    words = ("-H", f"Depth: {depth}", "--data-binary", f"@{file}")
    assert status(door, "/", "PROPFIND", *words) == code
    if code == 403:
        assert "propfind-finite-depth" in curl(door, "/", "-X", "PROPFIND", *words).out
    assert status(door, "/missing", "PROPFIND", "-H", "Depth: 0") == 404


def test_proppatch_keeps_nothing(door: Facility, sample: Path) -> None:
    door.put(sample, "/file")
    body = (
        '<propertyupdate xmlns="DAV:"><set><prop><x xmlns="z:">1</x></prop></set>'
        "<remove><prop><getetag/></prop></remove></propertyupdate>"
    )
    answer = curl(door, "/file", "-X", "PROPPATCH", "--data-binary", body)
    root = ElementTree.fromstring(answer.out)
    assert {element.tag for prop in root.iter(f"{D}prop") for element in prop} == {"{z:}x", f"{D}getetag"}
    assert [one.text for one in root.iter(f"{D}status")] == ["HTTP/1.1 403 Forbidden"]
    assert status(door, "/missing", "PROPPATCH", "--data-binary", body) == 404


# Statuses


def test_statuses_of_making(door: Facility, sample: Path) -> None:
    assert status(door, "/d", "MKCOL") == 201
    assert status(door, "/d", "MKCOL") == 405
    assert status(door, "/no/d", "MKCOL") == 409
    assert status(door, "/e", "MKCOL", "--data-binary", "x") == 415
    assert status(door, "/", "MKCOL") == 405
    put = ("--data-binary", f"@{sample}")
    assert status(door, "/d/file", "PUT", *put) == 201
    assert status(door, "/d/file", "PUT", *put) == 204
    assert status(door, "/no/file", "PUT", *put) == 409
    assert status(door, "/d", "PUT", *put) == 405
    assert status(door, "/d/x/", "PUT", *put) == 405
    assert status(door, "/d/file/below", "PUT", *put) == 409
    assert status(door, "/d/file/below", "MKCOL") == 409
    assert status(door, "/d/file/below", "GET") == 404
    assert status(door, "/d/file", "PUT", *put, "-H", "Content-Range: bytes 0-1/9") == 400
    stranger = ("-H", "x-backplane-user: stranger")
    assert status(door, "/d/file", "PUT", *put, *stranger) == 403
    assert status(door, "/d/file", "LOCK") == 405
    assert header(door, "/d/file", "allow", "-X", "LOCK") == header(door, "/", "allow", "-X", "OPTIONS")
    assert header(door, "/d", "dav", "-X", "OPTIONS") == "1"


def test_statuses_of_moving(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    door.put(sample, "/d/file")

    def to(path: str, *more: str) -> list[str]:
        return ["-H", f"Destination: {door.http}{path}", *(word for one in more for word in ("-H", one))]

    for method in ("COPY", "MOVE"):
        assert status(door, "/missing", method, *to("/x")) == 404
        assert status(door, "/d/file", method) == 400
        assert status(door, "/d/file", method, "-H", "Destination: ftp://x/y") == 400
        assert status(door, "/d/file", method, *to("/d/file")) == 403
        assert status(door, "/d", method, *to("/d/inside")) == 403
        assert status(door, "/d/file", method, *to("/no/file")) == 409
        assert status(door, "/d/file", method, *to("/x", "Overwrite: maybe")) == 400
    assert status(door, "/d/file", "MOVE", "-H", "Destination: http://other.invalid/x") == 502
    assert status(door, "/d/file", "COPY", *to("/copy")) == 201
    assert status(door, "/d/file", "COPY", *to("/copy", "Overwrite: F")) == 412
    assert status(door, "/d/file", "COPY", *to("/copy")) == 204
    assert door.read("/copy") == sample_bytes
    assert status(door, "/d", "COPY", *to("/e")) == 201
    assert status(door, "/d", "COPY", *to("/flat", "Depth: 0")) == 201
    assert status(door, "/d", "COPY", *to("/bad", "Depth: 1")) == 400
    assert (door.read("/e/file"), curl(door, "/flat", *TEXT).out) == (sample_bytes, "")
    assert status(door, "/d", "COPY", *to("/e")) == 204
    assert status(door, "/copy", "MOVE", *to("/moved")) == 201
    assert status(door, "/moved", "MOVE", *to("/d/file", "Overwrite: F")) == 412
    assert status(door, "/moved", "MOVE", *to("/e")) == 204
    assert door.read("/e") == sample_bytes, "a file took the place of a directory"
    assert status(door, "/d", "MOVE", *to("/e")) == 204
    assert sorted(curl(door, "/", *TEXT).out.split()) == ["e/", "flat/"]


def test_copies_are_independent(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    door.put(sample, "/one")
    assert status(door, "/one", "COPY", "-H", "Destination: /two") == 201
    assert status(door, "/one", "PUT", "--data-binary", "new") == 204
    assert (door.read("/two"), door.read("/one")) == (sample_bytes, b"new")


def test_a_tree_goes_as_far_as_it_may(door: Facility) -> None:
    for path in ("/t", "/t/mine", "/t/theirs"):
        assert status(door, path, "MKCOL") == 201
    door.bp("chmod", "777", "/t")
    mine = ("-H", "x-backplane-user: alice")
    assert status(door, "/t/hers", "MKCOL", *mine) == 201
    assert status(door, "/t/mine/file", "PUT", "--data-binary", "x") == 201
    answer = curl(door, "/t", "-X", "DELETE", *mine, "-w", "\n%{http_code}").out
    text, code = answer.rsplit("\n", 1)
    assert code == "207", answer
    hrefs = [one.text for one in ElementTree.fromstring(text).iter(f"{D}href")]
    assert "/t/mine/file" in hrefs
    assert sorted(curl(door, "/t", *TEXT).out.split()) == ["mine/"]


def test_dates_are_conditions(door: Facility, sample: Path) -> None:
    door.put(sample, "/file")
    then = header(door, "/file", "last-modified", "-I")
    old, new = "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"
    assert status(door, "/file", "GET", "-H", f"If-Modified-Since: {then}") == 304
    assert status(door, "/file", "HEAD", "-H", f"If-Modified-Since: {new}") == 304
    assert status(door, "/file", "GET", "-H", f"If-Modified-Since: {old}") == 200
    assert status(door, "/file", "GET", "-H", f"If-Unmodified-Since: {old}") == 412
    assert status(door, "/file", "GET", "-r", "0-1", "-H", f"If-Range: {old}") == 200
    put = ("--data-binary", "x")
    assert status(door, "/file", "PUT", *put, "-H", f"If-Unmodified-Since: {old}") == 412
    assert status(door, "/file", "PUT", *put, "-H", 'If-Match: "other"') == 412
    assert status(door, "/new", "PUT", *put, "-H", "If-Match: *") == 412
    assert status(door, "/file", "DELETE", "-H", 'If-Match: "other"') == 412
    assert status(door, "/file", "PUT", *put, "-H", f"If-Match: {header(door, '/file', 'etag', '-I')}") == 204
    assert status(door, "/file", "DELETE", "-H", "If: (<urn:uuid:x>)") == 412


def test_problems_have_details(door: Facility) -> None:
    answer = curl(door, "/missing%20file", "-D", "-").out
    assert "application/problem+json" in answer
    for part in ('"status":404', '"title":"Not Found"', '"instance":"/missing%20file"', '"kind":"not_found"'):
        assert part in answer


# Digests


def test_digests_that_are_claimed(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    md5 = hashlib.md5(sample_bytes, usedforsecurity=False)
    sha = hashlib.sha256(sample_bytes)

    def text(digest: Any) -> str:
        return base64.b64encode(digest.digest()).decode()

    right = [
        f"Digest: md5={text(md5)}",
        f"Digest: sha-256={sha.hexdigest()},adler32={adler32(sample_bytes)}",
        f"Content-MD5: {text(md5)}",
        f"Repr-Digest: sha-256=:{text(sha)}:",
    ]
    put = ("--data-binary", f"@{sample}")
    for number, field in enumerate(right):
        assert status(door, f"/f{number}", "PUT", *put, "-H", field) == 201, field
    wrong_md5, wrong_sha = (text(function(b"other")) for function in (hashlib.md5, hashlib.sha256))
    wrong = [
        f"Digest: md5={wrong_md5}",
        f"Digest: sha-256={wrong_sha}",
        f"Content-MD5: {wrong_md5}",
        f"Content-Digest: sha-256=:{wrong_sha}:",
        "Digest: adler32=1",
        "Digest: md5=short",
        "Digest: adler32=1,adler32=2",
    ]
    for field in wrong:
        assert status(door, "/wrong", "PUT", *put, "-H", field) == 400, field
        assert status(door, "/wrong", "GET") == 404
    door.wait_removals()


def test_digests_that_are_asked_for(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    door.put(sample, "/file")
    md5 = base64.b64encode(hashlib.md5(sample_bytes, usedforsecurity=False).digest()).decode()
    sha = base64.b64encode(hashlib.sha256(sample_bytes).digest()).decode()
    for want, answer in (
        ("md5", f"md5={md5}"),
        ("MD5", f"md5={md5}"),
        ("sha-256", f"sha-256={sha}"),
        ("adler32;q=0.5,sha-256", f"sha-256={sha},adler32={adler32(sample_bytes)}"),
        ("adler32,md5;q=0.5", f"adler32={adler32(sample_bytes)}"),
        ("unixsum", None),
    ):
        for method in (["-I"], []):
            assert header(door, "/file", "digest", "-H", f"Want-Digest: {want}", *method) == answer, want
    assert header(door, "/file", "repr-digest", "-I", "-H", "Want-Repr-Digest: sha-256=9") == f"sha-256=:{sha}:"
    door.archive_and_evict("/file")
    assert header(door, "/file", "digest", "-I", "-H", "Want-Digest: sha-256") is None
    assert door.state("/file") == "nearline", "nothing is recalled to be hashed"


# Third-party copy


def copy(facility: Facility, path: str, *fields: str) -> tuple[int, str]:
    """Ask for a third-party copy: the status, and what was said until the end."""
    words = [word for field in fields for word in ("-H", field)]
    text, code = curl(facility, path, "-X", "COPY", "-w", "\n%{http_code}", *words).out.rsplit("\n", 1)
    return int(code), text


def test_third_party_copies(pair: tuple[Facility, Facility], sample: Path, sample_bytes: bytes) -> None:
    one, other = pair
    one.put(sample, "/a b")
    code, text = copy(
        other, "/pulled", f"Source: {one.http}/a%20b", "Credential: none", "RequireChecksumVerification: true"
    )
    assert code == 201
    assert text.startswith("Perf Marker\n")
    assert text.endswith("success: Created\n"), text
    assert other.read("/pulled") == sample_bytes
    code, text = copy(one, "/a%20b", f"Destination: {other.http}/pushed", "RequireChecksumVerification: true")
    assert (code, text.splitlines()[-1]) == (201, "success: Created")
    assert other.read("/pushed") == sample_bytes
    assert copy(other, "/pulled", f"Source: {one.http}/a%20b", "Overwrite: F")[0] == 412
    assert copy(other, "/no/file", f"Source: {one.http}/a%20b")[0] == 409
    assert copy(other, "/x", f"Source: {one.http}/a%20b", "Credential: gridsite")[0] == 400
    assert copy(other, "/missing", f"Destination: {one.http}/x")[0] == 404
    _, text = copy(one, "/a%20b", f"Destination: {other.http}/pushed", "Overwrite: F")
    assert re.search(r"^failure: .*exists", text, re.M), text
    _, text = copy(other, "/x", f"Source: {one.http}/missing")
    assert re.search(r"^failure: .*404", text, re.M), text
    _, text = copy(one, "/a%20b", f"Destination: {other.http}/no/file")
    assert re.search(r"^failure: .*409", text, re.M), text
    assert status(other, "/x", "GET") == 404


def test_a_copy_from_this_very_door(door: Facility, sample: Path, sample_bytes: bytes) -> None:
    door.put(sample, "/file")
    code, text = copy(door, "/copy", f"Source: {door.http}/file")
    assert (code, text.splitlines()[-1]) == (201, "success: Created")
    assert door.read("/copy") == sample_bytes
    code, text = copy(door, "/file", f"Destination: {door.http}/other", "Credential: none")
    assert (code, text.splitlines()[-1]) == (201, "success: Created"), "this client waits for markers"
    assert door.read("/other") == sample_bytes
    assert copy(door, "/copy", f"Source: {door.http}/file", "Overwrite: F")[0] == 412
    assert copy(door, "/copy", f"Source: {door.http}/missing")[0] == 404
    assert copy(door, "/copy", f"Source: {door.http}/copy")[0] == 403


def test_an_empty_file_is_copied(pair: tuple[Facility, Facility]) -> None:
    one, other = pair
    one.put_bytes(b"", "/empty")
    assert copy(other, "/a", f"Source: {one.http}/empty")[1].endswith("success: Created\n")
    assert copy(one, "/empty", f"Destination: {other.http}/b")[1].endswith("success: Created\n")
    assert [other.stat(path)["size"] for path in ("/a", "/b")] == [0, 0]


def test_a_nearline_file_is_pushed(pair: tuple[Facility, Facility], sample: Path, sample_bytes: bytes) -> None:
    one, other = pair
    one.put(sample, "/file")
    one.archive_and_evict("/file")
    assert copy(one, "/file", f"Destination: {other.http}/file")[1].endswith("success: Created\n")
    assert other.read("/file") == sample_bytes


Behaviour = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def odd_server(behave: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Run a server that behaves as told; its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            behave(self)

        def handle_expect_100(self) -> bool:
            # A redirect comes instead of leave to send the body.
            return True

        do_GET = do_PUT = do_HEAD = handle_any  # noqa: N815 - the names are the library's

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(handler: BaseHTTPRequestHandler, code: int, body: bytes = b"", **fields: str) -> None:
    """Answer with all that is needed."""
    handler.send_response(code)
    for name, value in {"content_length": str(len(body)), **fields}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def test_what_the_other_server_says_is_compared(door: Facility) -> None:
    with odd_server(lambda handler: reply(handler, 200, b"bytes", digest="adler32=00000001")) as url:
        _, text = copy(door, "/file", f"Source: {url}/x")
        assert "failure: adler32" in text, text
    with odd_server(lambda handler: reply(handler, 200, b"bytes")) as url:
        _, text = copy(door, "/file", f"Source: {url}/x", "RequireChecksumVerification: true")
        assert re.search("^failure: .*no checksum", text, re.M), text
        assert status(door, "/file", "GET") == 404
        _, text = copy(door, "/file", f"Source: {url}/x")
        assert text.endswith("success: Created\n")
    door.wait_removals()


@pytest.mark.parametrize(
    "field", ["digest: md5={}", "digest: sha-256={}", "repr-digest: md5=:{}:", "repr-digest: sha-256=:{}:"]
)
def test_sums_that_come_with_the_bytes_are_compared(door: Facility, field: str) -> None:
    name, form = field.split(": ")
    kind = hashlib.md5 if "md5" in form else hashlib.sha256
    right, wrong = (form.format(base64.b64encode(kind(data).digest()).decode()) for data in (b"bytes", b"bytex"))
    required = "RequireChecksumVerification: true"
    with odd_server(lambda handler: reply(handler, 200, b"bytes", **{name: wrong})) as url:
        _, text = copy(door, "/file", f"Source: {url}/x")
        assert re.search("^failure: (md5|sha-256) of what arrived", text, re.M), text
        assert "what arrived" in copy(door, "/file", f"Source: {url}/x", required)[1]
    assert status(door, "/file", "GET") == 404
    with odd_server(lambda handler: reply(handler, 200, b"bytes", **{name: right})) as url:
        assert copy(door, "/file", f"Source: {url}/x", required)[1].endswith("success: Created\n")
    door.wait_removals()


def endless(handler: BaseHTTPRequestHandler, *fields: tuple[str, str], body: bytes = b"bytes") -> None:
    """Answer with a body that ends when the connection does, or as `fields` say."""
    handler.close_connection = True
    handler.send_response(200)
    for name, value in (*fields, ("connection", "close")):
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def test_a_body_without_an_end_counts_only_with_a_sum(door: Facility) -> None:
    with odd_server(endless) as url:
        for field in ("X: y", "RequireChecksumVerification: false"):
            _, text = copy(door, "/file", f"Source: {url}/x", field)
            assert re.search("^failure: .*neither length nor checksum", text, re.M), text
    assert status(door, "/file", "GET") == 404
    digest = ("digest", f"adler32={adler32(b'bytes')}")
    with odd_server(lambda handler: endless(handler, digest)) as url:
        assert copy(door, "/summed", f"Source: {url}/x")[1].endswith("success: Created\n")
    with odd_server(lambda handler: endless(handler, *[digest] * (handler.command == "HEAD"))) as url:
        assert copy(door, "/asked", f"Source: {url}/x")[1].endswith("success: Created\n")
    chunked = ("transfer-encoding", "chunked")
    with odd_server(lambda handler: endless(handler, chunked, body=b"5\r\nbytes\r\n0\r\n\r\n")) as url:
        assert copy(door, "/chunked", f"Source: {url}/x")[1].endswith("success: Created\n")
    assert [door.read(path) for path in ("/summed", "/asked", "/chunked")] == [b"bytes"] * 3
    door.wait_removals()


def test_overwrite_f_sends_only_where_nothing_is(door: Facility, sample: Path) -> None:
    door.put(sample, "/file")
    seen: list[str | None] = []

    def behave(handler: BaseHTTPRequestHandler, code: int) -> None:
        if handler.command == "HEAD":
            reply(handler, code)
            return
        handler.send_response_only(100)
        handler.end_headers()
        handler.rfile.read(int(handler.headers["content-length"]))
        seen.append(handler.headers["if-none-match"])
        reply(handler, 201)

    fields = ("Overwrite: F", "RequireChecksumVerification: false")
    for code in (401, 403, 500, 503):
        with odd_server(partial(behave, code=code)) as url:
            _, text = copy(door, "/file", f"Destination: {url}/x", *fields)
            assert re.search(f"^failure: .*whether the file exists.* {code} .*Overwrite: T", text, re.M), text
    assert not seen
    for code in (404, 410):
        with odd_server(partial(behave, code=code)) as url:
            assert copy(door, "/file", f"Destination: {url}/x", *fields)[1].endswith("success: Created\n")
            assert copy(door, "/file", f"Destination: {url}/x", fields[1])[1].endswith("success: Created\n")
    assert seen == ["*", None, "*", None]


LEAKY = ["pool/f?authz=SECRET", "ftp://h/f?authz=SECRET", "/a b?authz=SECRET", "/<f>?authz=SECRET", "//u:SECRET@h/"]


@pytest.mark.parametrize("location", LEAKY)
def test_tokens_of_redirects_are_told_to_nobody(door: Facility, location: str) -> None:
    door.put_bytes(b"bytes", "/file")
    with odd_server(lambda handler: reply(handler, 302, location=location)) as url:
        for end in ("Source", "Destination"):
            _, text = copy(door, "/file", f"{end}: {url}/x?authz=SECRET")
            assert "failure: " in text
            assert "SECRET" not in text, text
    assert door_log(door, "pull failed")
    assert not door_log(door, "SECRET")


def test_a_source_that_breaks_off_leaves_nothing(door: Facility) -> None:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        reply(handler, 200, b"half", content_length="1000000")
        handler.connection.shutdown(socket.SHUT_RDWR)

    with odd_server(behave) as url:
        _, text = copy(door, "/file", f"Source: {url}/x")
    assert "failure: " in text
    assert status(door, "/file", "GET") == 404
    door.wait_removals()


def test_redirects_are_followed_and_tokens_kept_at_home(door: Facility, sample: Path) -> None:
    door.put(sample, "/file")
    seen: list[tuple[str, str | None, str | None]] = []

    def last(handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length", "0"))
        if handler.headers.get("expect"):
            handler.send_response_only(100)
            handler.end_headers()
        handler.rfile.read(length)
        seen.append((handler.command, handler.headers["authorization"], handler.headers["x-scitag"]))
        reply(handler, 200, b"bytes")

    with odd_server(last) as end:

        def first(handler: BaseHTTPRequestHandler) -> None:
            seen.append((handler.command, handler.headers["authorization"], handler.headers["x-scitag"]))
            handler.close_connection = True
            reply(handler, 307, location=f"{end}/there", connection="close")

        with odd_server(first) as url:
            fields = (
                "TransferHeaderAuthorization: Bearer t",
                "TransferHeaderX-Scitag: 7",
                "RequireChecksumVerification: false",
            )
            assert copy(door, "/new", f"Source: {url}/x", *fields)[1].endswith("success: Created\n")
            assert seen == [("GET", "Bearer t", "7"), ("GET", None, "7")]
            seen.clear()
            assert copy(door, "/file", f"Destination: {url}/x", *fields)[1].endswith("success: Created\n")
            assert seen == [("PUT", "Bearer t", "7"), ("PUT", None, "7")]
        with odd_server(lambda handler: reply(handler, 302, location="/again")) as ring:
            assert "redirects more than" in copy(door, "/y", f"Source: {ring}/x")[1]
    assert door.read("/new") == b"bytes"


def test_certificates_are_checked(make_facility: MakeFacility, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("openssl", "curl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    run("openssl", "req", "-x509", *kind, "-keyout", key, "-out", certificate, *names)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    stranger, friend = make_facility(), make_facility()
    stranger.reach_this_host()
    friend.reach_this_host()
    stranger.up()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    friend.up()
    with odd_server(lambda handler: reply(handler, 200, b"bytes"), tls) as url:
        assert re.search("^failure: TLS with", copy(stranger, "/file", f"Source: {url}/x")[1], re.M)
        assert copy(friend, "/file", f"Source: {url}/x")[1].endswith("success: Created\n")
    assert friend.read("/file") == b"bytes"


def test_a_client_that_leaves_ends_the_copy(door: Facility) -> None:
    arrived, done = threading.Event(), threading.Event()

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(1 << 40))
        handler.end_headers()
        arrived.set()
        block = bytes(1 << 16)
        try:
            while True:
                handler.wfile.write(block)
        except OSError:
            done.set()

    with odd_server(behave) as url:
        where = urllib.parse.urlsplit(door.http)
        with socket.create_connection((where.hostname, where.port), timeout=60) as peer:
            peer.sendall(f"COPY /file HTTP/1.1\r\nHost: localhost\r\nSource: {url}/x\r\n\r\n".encode())
            assert arrived.wait(60)
            assert peer.recv(9) == b"HTTP/1.1 "
        assert done.wait(60), "the transfer goes on without its client"
    door.wait_removals()
    assert status(door, "/file", "GET") == 404


# Odd peers


def raw(facility: Facility, data: bytes) -> bytes:
    """Send bytes, read until the server closes or has answered once."""
    where = urllib.parse.urlsplit(facility.http)
    with socket.create_connection((where.hostname, where.port), timeout=60) as peer:
        peer.sendall(data)
        return peer.recv(65536)


def test_heads_have_bounds(door: Facility) -> None:
    large = raw(door, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * 200_000)
    assert b" 431 " in large.splitlines()[0]
    many = raw(door, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 500 + b"\r\n")
    assert b" 431 " in many.splitlines()[0]
    assert b" 400 " in raw(door, b"GET / HTTP/1.1\r\nHost: localhost\r\nbad field\r\n\r\n").splitlines()[0]


def test_a_refused_upload_is_answered(door: Facility) -> None:
    """The sender gets to read why, though it is still sending."""
    body = make_bytes(3 << 20, 3)
    head = f"PUT /no/such/file HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert b" 409 " in raw(door, head + body).splitlines()[0]
    expecting = head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    assert b" 409 " in raw(door, expecting).splitlines()[0], "nothing was sent in vain"
    assert raw(door, expecting.replace(b"/no/such", b"")).startswith(b"HTTP/1.1 100 ")


def test_pages_of_directories(door: Facility, sample: Path) -> None:
    door.put(sample, "/d/<b>&x")
    door.bp("mkdir", "/d/sub")
    page = curl(door, "/d", "-H", "accept: text/html", "-D", "-").out
    assert "content-security-policy" in page.lower()
    assert "&lt;b&gt;&amp;x" in page
    assert "<b>&x" not in page
    assert 'href="/d/sub/"' in page
    assert "<script" not in page
    assert 'href="/d/"' in curl(door, "/?files", "-H", "accept: text/html").out
