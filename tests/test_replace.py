"""Nothing is replaced by accident: slashes at the end, conditions, rights, and checksums that clients send."""

from __future__ import annotations

import base64
import hashlib
import http.client
import subprocess
import urllib.parse
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clients import fails, need, run, write_file
from conftest import SMALL, one_facility
from facility import Facility

OLD, NEW = b"the old bytes", b"the new bytes"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Start one facility for all tests."""
    with one_facility(tmp_path_factory.mktemp("replace") / "facility", **SMALL) as facility:
        facility.reach_this_host()
        facility.up()
        yield facility


@pytest.fixture
def facility(started: Facility) -> Facility:
    """Put a file in its place again."""
    started.bp("mkdir", "-p", "/d/sub")
    started.bp("rm", "/d/new", "/d/moved", check=False)
    started.bp("put", "--replace", "-", "/d/file", stdin=OLD)
    return started


def ask(facility: Facility, method: str, path: str, body: bytes | None = None, **fields: str) -> tuple[int, bytes]:
    """Make a request; underscores in the names of fields are hyphens."""
    url = urllib.parse.urlsplit(facility.http)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    with closing(connection):
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def content(facility: Facility, path: str = "/d/file") -> bytes:
    """Read a file."""
    status, body = ask(facility, "GET", path)
    assert status == 200, body
    return body


def test_a_slash_at_the_end_never_means_a_file_at_the_root_door(facility: Facility, tmp_path: Path) -> None:
    need("xrdcp")
    source = write_file(tmp_path / "source", 100)
    at = facility.root.removeprefix("root://")
    for target in ("/d/new/", "/d/file/", "/d/new/."):
        fails("xrdcp", "-s", "-f", source, facility.url(target))
        fails("xrdcp", "-s", "-f", "--tpc", "only", facility.url("/d/file"), facility.url(target))
    fails("xrdcp", "-s", "-f", facility.url("/d/file/"), tmp_path / "copy")
    fails("xrdcp", "-s", "-f", "--tpc", "only", facility.url("/d/file/"), facility.url("/d/new"))
    for words in (
        ["rm", "/d/file/"],
        ["stat", "/d/file/"],
        ["mv", "/d/file/", "/d/moved"],
        ["mv", "/d/file", "/d/moved/"],
        ["truncate", "/d/file/", "1"],
        ["chmod", "/d/file/", "rwx------"],
        ["locate", "/d/file/"],
        ["prepare", "-s", "/d/file/"],
        ["query", "checksum", "/d/file/"],
    ):
        fails("xrdfs", at, *words)
    assert content(facility) == OLD
    assert facility.bp("stat", "/d/new", check=False).code == 3
    # Directories are what they say.
    run("xrdfs", at, "stat", "/d/sub/")
    run("xrdfs", at, "mv", "/d/sub/", "/d/moved/")
    run("xrdfs", at, "mv", "/d/moved", "/d/sub")


def test_a_slash_at_the_end_never_means_a_file_at_the_http_door(facility: Facility) -> None:
    here = facility.http
    for method, path, fields, status in (
        ("GET", "/d/file/", {}, 404),
        ("HEAD", "/d/file/", {}, 404),
        ("DELETE", "/d/file/", {}, 404),
        ("DELETE", "/d/file/.", {}, 404),
        ("DELETE", "/d/file%2F", {}, 404),
        ("PROPFIND", "/d/file/", {"Depth": "0"}, 404),
        ("MOVE", "/d/file/", {"Destination": f"{here}/d/moved"}, 404),
        ("MOVE", "/d/file", {"Destination": f"{here}/d/moved/"}, 409),
        ("MOVE", "/d/file", {"Destination": f"{here}/d/sub/"}, 409),
        ("COPY", "/d/file", {"Destination": f"{here}/d/moved/"}, 409),
        ("COPY", "/d/file", {"Destination": f"{here}/d/moved/", "Credential": "none"}, 409),
        ("COPY", "/d/file", {"Destination": "https://example.org/d/moved/", "Credential": "none"}, 409),
        ("COPY", "/d/moved/", {"Source": f"{here}/d/file"}, 409),
        ("COPY", "/d/moved", {"Source": f"{here}/d/file/"}, 409),
    ):
        found, body = ask(facility, method, path, **fields)
        assert found == status, (method, path, fields, body)
    assert ask(facility, "PUT", "/d/new/", NEW)[0] == 405
    assert content(facility) == OLD
    assert [ask(facility, "GET", path)[0] for path in ("/d/new", "/d/moved")] == [404, 404]
    assert ask(facility, "MOVE", "/d/sub/", Destination=f"{here}/d/moved/")[0] == 201
    assert ask(facility, "MOVE", "/d/moved", Destination=f"{here}/d/sub")[0] == 201


def test_mv_replaces_only_when_told_to(facility: Facility) -> None:
    facility.put_bytes(NEW, "/d/other")
    refused = facility.bp_fails("mv", "/d/other", "/d/file")
    assert refused.code == 4
    assert "--replace" in refused.text
    assert content(facility) == OLD
    facility.bp_fails("mv", "/d/other", "/d/moved/")
    facility.bp("mv", "--replace", "/d/other", "/d/file")
    assert content(facility) == NEW


def test_an_upload_that_must_not_overwrite_keeps_the_old_bytes(facility: Facility) -> None:
    assert ask(facility, "PUT", "/d/file", NEW, Overwrite="F")[0] == 409
    assert ask(facility, "PUT", "/d/file", NEW, If_None_Match="*")[0] == 412
    assert ask(facility, "PUT", "/d/file", NEW, Overwrite="X")[0] == 400
    assert content(facility) == OLD
    assert ask(facility, "PUT", "/d/new", NEW, Overwrite="F")[0] == 201
    assert ask(facility, "PUT", "/d/file", NEW, Overwrite="T")[0] == 204


def test_a_token_to_create_replaces_nothing(facility: Facility, tmp_path: Path) -> None:
    need("curl")
    facility.bp("mkdir", "-p", "/open")
    facility.bp("chmod", "777", "/open")
    for name in ("a", "b"):
        facility.put_bytes(OLD, f"/open/{name}")
        facility.bp("chmod", "666", f"/open/{name}")
    made = facility.bp("--user", "nobody", "token", "create", "--scope", "storage.create:/open")
    token = made.text.split("\n")[0].strip()
    (tmp_path / "new").write_bytes(NEW)
    https, ca = facility.endpoint("https"), facility.directory / "tls" / "ca.pem"

    def status(*words: str) -> str:
        common = ["curl", "-s", "--cacert", ca, "-o", tmp_path / "out", "-w", "%{http_code}"]
        authorization = ["-H", f"Authorization: Bearer {token}"]
        return subprocess.run([*common, *authorization, *words], capture_output=True, check=True).stdout.decode()

    assert status("-T", str(tmp_path / "new"), f"{https}/open/a") == "403"
    assert status("-H", "If-None-Match: *", "-T", str(tmp_path / "new"), f"{https}/open/a") == "412"
    assert status("-X", "MOVE", "-H", f"Destination: {https}/open/b", f"{https}/open/a") == "403"
    assert status("-T", str(tmp_path / "new"), f"{https}/open/c") == "201"
    assert content(facility, "/open/a") == content(facility, "/open/b") == OLD


def sums(data: bytes) -> dict[str, list[tuple[str, str]]]:
    """Give each kind of sum as the fields that can say it."""
    b64 = lambda raw: base64.b64encode(raw).decode()  # noqa: E731
    md5, sha1, sha256 = (hashlib.new(kind, data).digest() for kind in ("md5", "sha1", "sha256"))
    adler, crc = f"{zlib.adler32(data):08x}", f"{zlib.crc32(data):08x}"
    sha512 = hashlib.sha512(data).digest()
    return {
        "md5": [
            ("Content-MD5", b64(md5)),
            ("Digest", f"md5={b64(md5)}"),
            ("Repr-Digest", f"md5=:{b64(md5)}:"),
            ("OC-Checksum", f"MD5:{md5.hex()}"),
        ],
        "sha": [("OC-Checksum", f"SHA1:{sha1.hex()}"), ("Digest", f"sha={b64(sha1)}")],
        "sha-256": [
            ("Digest", f"sha-256={b64(sha256)}"),
            ("Repr-Digest", f"sha-256=:{b64(sha256)}:"),
            ("Content-Digest", f"sha-256=:{b64(sha256)}:"),
            ("OC-Checksum", f"SHA256:{sha256.hex()}"),
        ],
        "sha-512": [("Repr-Digest", f"sha-512=:{b64(sha512)}:")],
        "adler32": [("Digest", f"adler32={adler}"), ("OC-Checksum", f"Adler32:{adler}")],
        "crc32": [("Digest", f"crc32={crc}"), ("OC-Checksum", f"CRC32:{crc}")],
    }


def test_a_wrong_checksum_refuses_the_file(facility: Facility) -> None:
    for kind, fields in sums(NEW).items():
        for name, right in fields:
            wrong = dict(sums(b"other bytes")[kind])[name]
            assert ask(facility, "PUT", "/d/file", NEW, **{name: wrong})[0] == 400, (name, wrong)
            assert content(facility) == OLD, name
            assert ask(facility, "PUT", "/d/new", NEW, **{name: wrong})[0] == 400
            facility.wait_until("the write is given up", lambda: ask(facility, "GET", "/d/new")[0] == 404)
            assert ask(facility, "PUT", "/d/good", NEW, **{name: right})[0] in (201, 204), (name, right)


def test_a_wrong_checksum_behind_the_bytes_refuses_the_file(facility: Facility) -> None:
    for kind in ("md5", "adler32", "sha-256"):
        for data, statuses in ((NEW, (201, 204)), (b"other bytes", (400,))):
            name, value = next(pair for pair in sums(data)[kind] if "igest" in pair[0])
            assert put_with_trailer(facility, "/d/trailed", NEW, (name, value)) in statuses, (name, value)
            assert content(facility, "/d/trailed") == NEW


def put_with_trailer(facility: Facility, path: str, data: bytes, field: tuple[str, str]) -> int:
    """Store bytes in chunks, with a field behind them."""
    url = urllib.parse.urlsplit(facility.http)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
    with closing(connection):
        connection.putrequest("PUT", path)
        connection.putheader("Transfer-Encoding", "chunked")
        connection.putheader("Trailer", field[0])
        connection.endheaders()
        name, value = (text.encode() for text in field)
        connection.send(b"%x\r\n%s\r\n0\r\n%s: %s\r\n\r\n" % (len(data), data, name, value))
        return connection.getresponse().status


def test_a_wrong_checksum_of_a_copy_refuses_it(facility: Facility) -> None:
    here = facility.http
    wrong, right = "md5=" + "0" * 32, "md5=" + hashlib.md5(OLD).hexdigest()
    for fields in ({}, {"Credential": "none"}):
        status, body = ask(facility, "COPY", "/d/file", Destination=f"{here}/d/new", Digest=wrong, **fields)
        assert status == 400 or b"fail" in body.lower(), (status, body)
        facility.wait_until("the copy is given up", lambda: ask(facility, "GET", "/d/new")[0] == 404)
        status, body = ask(facility, "COPY", "/d/file", Destination=f"{here}/d/new", Digest=right, **fields)
        assert status == 201, body
        assert content(facility, "/d/new") == OLD
        facility.bp("rm", "/d/new")


def test_crc32c_is_hexadecimal_as_iana_says(facility: Facility) -> None:
    need("curl")
    facility.put_bytes(b"dog", "/d/dog")
    told = run("curl", "-sI", "-H", "Want-Digest: crc32c", f"{facility.http}/d/dog").text
    assert "crc32c=0a72a4df" in told
    for both in ("crc32c=0a72a4df", "crc32c=CnKk3w=="):
        assert ask(facility, "PUT", "/d/dog", b"dog", Digest=both)[0] == 204
    assert ask(facility, "PUT", "/d/dog", b"cat", Digest="crc32c=0a72a4df")[0] == 400


def test_a_slash_at_the_end_never_means_a_file_to_bp(facility: Facility) -> None:
    for name in ("file", "other"):
        facility.put_bytes(b"bytes", f"/slashed/{name}")
    file = "/slashed/file"
    for words in (
        *(("rm", f"{file}/"), ("rm", "-r", f"{file}/"), ("rm", "/slashed/other", f"{file}/"), ("mv", f"{file}/", "/x")),
        *(("stat", f"{file}/"), ("cat", f"{file}/."), ("ls", f"{file}//"), ("get", f"{file}/", "-")),
        *(("chmod", "600", f"{file}/"), ("archive", f"{file}/"), ("stage", f"{file}/"), ("evict", f"{file}/")),
    ):
        outcome = facility.bp_fails(*words)
        assert f"{file} is a file" in outcome.text, outcome
        assert "remove the slash at the end" in outcome.text, outcome
    assert sorted(facility.bp("ls", "/slashed/").out.splitlines()) == ["file", "other"]
    assert facility.bp("stat", "/slashed/").code == 0
    facility.bp("rm", "-r", "/slashed/")
