"""What clients of http and WebDAV expect: webdav4 (which DVC uses), rclone, wget, fsspec's http, and raw requests."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from clients import adler32, need, run
from conftest import SMALL, MakeFacility, one_facility
from facility import Facility
from test_dav import copy, curl, header, odd_server, propfind, reply, status

WHEN = 1577934245
"""Thu, 02 Jan 2020 03:04:05 GMT"""
DATE = "Thu, 02 Jan 2020 03:04:05 GMT"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Start a facility for all tests of this file; each leaves it empty."""
    need("curl")
    with one_facility(tmp_path_factory.mktemp("web") / "facility", **SMALL) as facility:
        facility.reach_this_host()
        facility.up()
        yield facility


@pytest.fixture
def tree(door: Facility) -> Iterator[str]:
    """Make a directory with files in it and below."""
    for path in ("/tree", "/tree/sub", "/tree/sub/deep%20er"):
        assert status(door, path, "MKCOL") == 201
    for path in ("/tree/a.root", "/tree/b%20%26%23.root", "/tree/sub/c.root", "/tree/sub/deep%20er/d.root"):
        assert status(door, path, "PUT", "--data-binary", path) == 201
    yield "/tree"
    assert status(door, "/tree", "DELETE") == 204


def exchange(facility: Facility, *pieces: bytes, is_last: bool = False) -> list[int]:
    """Send bytes as they are; the statuses of the answers until the connection ends or is silent."""
    host, port = facility.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 30) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = b""
        # A peer that has refused the beginning need not take the rest.
        with suppress(ConnectionError):
            for piece in pieces:
                link.sendall(piece)
            if is_last:
                link.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while data := link.recv(1 << 16):
                answer += data
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


# PROPFIND


def test_propfind_without_a_depth(door: Facility, tree: str) -> None:
    for path, code in ((f"{tree}/a.root", 207), (f"{tree}/none", 404), (f"{tree}/none/none", 404)):
        assert status(door, path, "PROPFIND") == code
        assert status(door, path, "PROPFIND", "-H", "Depth: infinity") == code
    assert list(propfind(door, f"{tree}/a.root", depth="infinity")) == [f"{tree}/a.root"]
    assert status(door, tree, "PROPFIND", "-H", "Depth: infinity") == 403, "of a directory it may be refused"
    assert status(door, tree, "PROPFIND") == 207, "that is what clients mean which ask for one directory"


def test_webdav4(door: Facility, tree: str) -> None:
    from webdav4.client import Client

    client, file = Client(door.http), f"{tree}/a.root"
    with closing(client.http):
        assert (client.exists(file), client.isfile(file), client.isdir(file)) == (True, True, False)
        assert (client.exists(f"{tree}/none"), client.isdir(tree)) == (False, True)
        assert client.content_length(file) == len(file)
        assert sorted(client.ls(tree, detail=False)) == ["tree/a.root", "tree/b &#.root", "tree/sub"]


def test_the_file_system_that_dvc_uses(door: Facility, tree: str, tmp_path: Path) -> None:
    from webdav4.fsspec import WebdavFileSystem

    (tmp_path / "file").write_bytes(b"bytes")
    system, made = WebdavFileSystem(door.http, skip_instance_cache=True), f"{tree}/made"
    with closing(system.client.http):
        assert system.exists(tree)
        system.makedirs(f"{made}/deep", exist_ok=True)
        system.put_file(str(tmp_path / "file"), f"{made}/deep/file")
        assert system.cat(f"{made}/deep/file") == b"bytes"
        assert system.info(f"{made}/deep/file")["size"] == 5
        system.mv(f"{made}/deep/file", f"{made}/moved")
        assert system.find(made) == ["tree/made/moved"]
        system.rm(made, recursive=True)
        assert not system.exists(made)


# Directory pages


def test_pages_are_html_unless_text_is_asked_for(door: Facility, tree: str) -> None:
    for accept, kind in (
        ("*/*", "text/html"),
        ("", "text/html"),
        ("text/plain", "text/plain"),
        ("text/html", "text/html"),
    ):
        found = header(door, tree, "content-type", "-H", f"Accept: {accept}" if accept else "Accept:")
        assert (found or "").startswith(kind), accept
    assert curl(door, tree, "-H", "Accept: text/plain").out.splitlines() == ["a.root", "b &#.root", "sub/"]
    page = curl(door, "/").out
    assert 'href="/tree/"' in page
    assert "/console" not in page, "programs follow every link"


def test_wget_fetches_a_tree(door: Facility, tree: str, tmp_path: Path) -> None:
    need("wget")
    run("wget", "-q", "-r", "-np", "-nH", f"{door.http}{tree}/", cwd=tmp_path)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.root"))
    assert found == ["tree/a.root", "tree/b &#.root", "tree/sub/c.root", "tree/sub/deep er/d.root"]
    assert (tmp_path / "tree/sub/c.root").read_text() == "/tree/sub/c.root"
    every = tmp_path / "every"
    every.mkdir()
    run("wget", "-q", "-r", "-nH", f"{door.http}/", cwd=every)
    assert len(list(every.rglob("*.root"))) == 4
    assert not list(every.rglob("console*"))


def test_fsspec_http_lists_and_globs(door: Facility, tree: str) -> None:
    import fsspec

    system = fsspec.filesystem("http", skip_instance_cache=True)
    url = door.http + tree
    try:
        assert sorted(system.glob(f"{url}/*.root")) == [f"{url}/a.root", f"{url}/b%20%26%23.root"]
        assert system.cat(f"{url}/sub/c.root") == b"/tree/sub/c.root"
        assert system.info(f"{url}/a.root")["size"] == len("/tree/a.root")
        assert f"{url}/sub/deep%20er/d.root" in system.find(url + "/")
    finally:
        asyncio.run_coroutine_threadsafe(system._session.close(), system.loop).result(30)


def test_rclone_reads_pages(door: Facility, tree: str, tmp_path: Path) -> None:
    need("rclone")
    words = ("rclone", "--config", str(tmp_path / "none"), "--http-url", f"{door.http}{tree}/")
    listed = run(*words, "lsf", "-R", "--files-only", ":http:").out.splitlines()
    assert sorted(listed) == ["a.root", "b &#.root", "sub/c.root", "sub/deep er/d.root"]
    run(*words, "copy", ":http:", tmp_path / "copy")
    assert (tmp_path / "copy/sub/deep er/d.root").read_text() == "/tree/sub/deep%20er/d.root"


# HEAD


def headers(facility: Facility, path: str, *words: str) -> tuple[str, dict[str, str]]:
    """Read the status line and the fields of an answer."""
    text = curl(facility, path, "-D", "-", "-o", "/dev/null", *words).out.split("\r\n\r\n")[0]
    first, *lines = text.splitlines()
    fields = dict(line.lower().split(": ", 1) for line in lines)
    fields.pop("date", None)
    return first, fields


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/tree/a.root", ()),
        ("/tree/a.root", ("-H", "Want-Digest: md5")),
        ("/tree/a.root", ("-H", "If-None-Match: *")),
        ("/tree", ()),
        ("/tree/", ("-H", "Accept: text/plain")),
        ("/tree/sub", ("-H", "Accept: text/html")),
        ("/", ("-H", "Accept: text/html")),
        ("/tree/none", ()),
        ("/tree/none/none", ()),
        ("/tree/a.root/", ()),
        ("/tree/%zz", ()),
        ("/tree/a.root", ("-H", 'If-Match: "x"')),
        ("/tree/a.root", ("-H", "Authorization: Bearer x")),
        ("/tree", ("-H", "Host: evil.example")),
        ("/console", ()),
        ("/api/v1/nothing", ()),
    ],
)
@pytest.mark.usefixtures("tree")
def test_head_is_get_without_a_body(door: Facility, path: str, words: tuple[str, ...]) -> None:
    get = headers(door, path, *words)
    assert headers(door, path, "-I", *words) == get
    assert "content-length" in get[1] or " 304 " in get[0]


def test_neither_tells_the_length_of_a_large_page(door: Facility) -> None:
    assert status(door, "/large", "MKCOL") == 201
    urls = [f"{door.http}/large/{number}/" for number in range(1500)]
    run("curl", "-sSf", "--max-time", "120", "-X", "MKCOL", *urls, deadline=150)
    assert "content-length" not in headers(door, "/large")[1]
    assert "content-length" not in headers(door, "/large", "-I")[1]
    assert status(door, "/large", "DELETE") == 204


# Framing


@pytest.mark.parametrize(
    "head",
    [
        "DELETE /tree/#ment HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "DELETE /tree#ment HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "DELETE http://localhost/tree/?a#ment HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0,0\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nContent-Length: +0\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbodyX\r\n0\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost: local host\r\n\r\n",
        "DELETE /tree HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "MOVE /tree HTTP/1.1\r\nHost: localhost\r\nDestination: /moved\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "MKCOL /made HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        "GET /tree HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n",
        "PUT /tree/new HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nabc\r\n",
    ],
)
def test_malformed_requests_are_400_and_do_nothing(door: Facility, tree: str, head: str) -> None:
    data = head.encode()
    assert exchange(door, data) == [400]
    # Who goes on sending may not hear the answer.
    assert set(exchange(door, *(data[at : at + 1] for at in range(len(data))))) <= {400}, "also byte by byte"
    before = b"HEAD /tree HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert exchange(door, before + data + b"DELETE /tree HTTP/1.1\r\nHost: localhost\r\n\r\n") == [200, 400]
    assert status(door, tree, "HEAD") == 200
    assert [status(door, path, "HEAD") for path in ("/moved", "/made", "/tree/new")] == [404] * 3


def test_codings_that_are_not_known_are_said_to_be(door: Facility) -> None:
    fields = b"Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\nConnection: close\r\n"
    assert exchange(door, b"PUT /coded HTTP/1.1\r\n" + fields + b"\r\n0\r\n\r\n") == [501]
    assert status(door, "/coded", "HEAD") == 404


@pytest.mark.parametrize("framing", ["Content-Length: 100\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n64\r\n"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PROPFIND"])
def test_bodies_that_stop_short_are_400(door: Facility, tree: str, method: str, framing: str) -> None:
    path = "/tree/new" if method == "PUT" else tree
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{framing}"
    assert exchange(door, head.encode(), b"short", is_last=True) == [400]
    assert (status(door, "/tree/new", "HEAD"), status(door, tree, "HEAD")) == (404, 200)


# Times


def test_the_time_of_the_source_is_kept(door: Facility, tree: str) -> None:
    put = ("-X", "PUT", "--data-binary", "x", "-H")
    assert header(door, "/tree/t", "x-oc-mtime", *put, f"X-OC-Mtime: {WHEN}") == "accepted"
    for words in ((), ("-I",)):
        assert header(door, "/tree/t", "last-modified", *words) == DATE
    assert propfind(door, "/tree/t")["/tree/t"]["getlastmodified"] == DATE
    assert propfind(door, tree, depth="1")["/tree/t"]["getlastmodified"] == DATE
    assert "2020-01-02 03:04" in curl(door, tree).out
    to = ("-H", f"Destination: {door.http}/tree/u")
    assert status(door, "/tree/t", "MOVE", *to) == 201
    assert header(door, "/tree/u", "last-modified") == DATE
    # A date that was shown is good for asking; no other one is, as what is shown may go back.
    for date, code in ((DATE, 304), ("Thu, 02 Jan 2020 03:04:06 GMT", 200), ("Thu, 02 Jan 2020 03:04:04 GMT", 200)):
        assert status(door, "/tree/u", "GET", "-H", f"If-Modified-Since: {date}") == code
    assert header(door, "/tree/u", "x-oc-mtime", "-X", "PUT", "--data-binary", "y") is None
    assert header(door, "/tree/u", "last-modified") != DATE, "new content has its own time"
    for bad in ("yesterday", "-5", "1e9", "99999999999999"):
        assert status(door, "/tree/u", "PUT", "--data-binary", "z", "-H", f"X-OC-Mtime: {bad}") == 400
    assert curl(door, "/tree/u").out == "y"


def set_properties(door: Facility, path: str, properties: str) -> list[str]:
    """Ask for properties to be set; the statuses that are told, in their order."""
    names = 'xmlns:D="DAV:" xmlns:O="http://owncloud.org/ns" xmlns:W="urn:schemas-microsoft-com:"'
    body = f"<D:propertyupdate {names}><D:set><D:prop>{properties}</D:prop></D:set></D:propertyupdate>"
    return re.findall(r"HTTP/1\.1 (\d{3})", curl(door, path, "-X", "PROPPATCH", "--data-binary", body).out)


@pytest.mark.parametrize(
    "properties",
    [
        f"<D:getlastmodified>{DATE}</D:getlastmodified>",
        f"<D:lastmodified>{WHEN}</D:lastmodified>",
        f"<D:lastmodified>{WHEN}</D:lastmodified><O:checksums><O:checksum></O:checksum></O:checksums>",
        f"<W:Win32CreationTime>{DATE}</W:Win32CreationTime><W:Win32LastModifiedTime>{DATE}</W:Win32LastModifiedTime>"
        "<W:Win32FileAttributes>00000020</W:Win32FileAttributes>",
    ],
    ids=["date", "rclone", "rclone with sums", "Windows"],
)
def test_the_time_can_be_set(door: Facility, tree: str, properties: str) -> None:
    tag = header(door, "/tree/a.root", "etag", "-I")
    assert set_properties(door, "/tree/a.root", properties) == ["200"]
    assert header(door, "/tree/a.root", "last-modified") == DATE
    assert header(door, "/tree/a.root", "etag") == tag, "the content is the same"
    assert set_properties(door, "/tree/sub", properties) == ["200"]
    assert propfind(door, tree, depth="1")["/tree/sub/"]["getlastmodified"] == DATE
    assert status(door, "/tree/sub/new", "PUT", "--data-binary", "x") == 201
    assert propfind(door, tree, depth="1")["/tree/sub/"]["getlastmodified"] != DATE, "its names have changed"


def test_times_that_are_none_and_properties_that_follow_are_refused(door: Facility, tree: str) -> None:
    before = header(door, f"{tree}/a.root", "last-modified")
    good = f"<D:lastmodified>{WHEN}</D:lastmodified>"
    for properties, told in (
        ("<D:lastmodified>yesterday</D:lastmodified>", ["409"]),
        (f"{good}<D:getetag>x</D:getetag>", ["403", "424"]),
        (f"{good}<x xmlns='z:'>1</x>", ["403", "424"]),
    ):
        assert set_properties(door, f"{tree}/a.root", properties) == told
    assert header(door, f"{tree}/a.root", "last-modified") == before
    body = f'<propertyupdate xmlns="DAV:"><set><prop><lastmodified>{WHEN}</lastmodified></prop></set></propertyupdate>'
    eve = ("-H", "X-Backplane-User: eve", "--data-binary", body)
    assert status(door, f"{tree}/a.root", "PROPPATCH", *eve) == 403
    assert status(door, "/missing", "PROPPATCH", "--data-binary", body) == 404


def test_the_time_survives_a_restart(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.up()
    put = ("--data-binary", "x", "-H", f"X-OC-Mtime: {WHEN}.75")
    assert status(facility, "/t", "PUT", *put) == 201
    facility.kill()
    facility.up()
    assert header(facility, "/t", "last-modified") == DATE


def test_checksums_as_clients_that_synchronize_ask_for_them(door: Facility, tree: str) -> None:
    asked = '<propfind xmlns="DAV:" xmlns:o="http://owncloud.org/ns"><prop><o:checksums/></prop></propfind>'
    answer = curl(door, "/tree/a.root", "-X", "PROPFIND", "-H", "Depth: 0", "--data-binary", asked).out
    assert f"<x:checksum>ADLER32:{adler32(b'/tree/a.root')}</x:checksum>" in answer
    assert " 404 " in curl(door, tree, "-X", "PROPFIND", "-H", "Depth: 0", "--data-binary", asked).out


@pytest.mark.parametrize("vendor", ["owncloud", "nextcloud"])
def test_rclone_sends_nothing_twice(door: Facility, tmp_path: Path, vendor: str) -> None:
    need("rclone")
    here, config, there = tmp_path / "here", tmp_path / "rclone.conf", f"s:{vendor}"
    (here / "sub").mkdir(parents=True)
    for name in ("a", "sub/b ä"):
        (here / name).write_text("aaaa")
        os.utime(here / name, (WHEN, WHEN))
    config.write_text(f"[s]\ntype = webdav\nurl = {door.http}\nvendor = {vendor}\n")

    def sync() -> list[str]:
        said = run("rclone", "--config", config, "sync", "-v", here, there).text
        return re.findall(r"(\S+(?: \S+)?): Copied", said)

    assert len(sync()) == 2
    assert header(door, f"/{vendor}/a", "last-modified") == DATE
    assert sync() == []
    (here / "a").write_text("bbbb")
    os.utime(here / "a", (WHEN + 9, WHEN + 9))
    assert len(sync()) == 1
    assert curl(door, f"/{vendor}/a").out == "bbbb", "of the same size, and changed"
    assert sync() == []


# Checksums of third-party copies


@pytest.mark.usefixtures("tree")
def test_a_wrong_checksum_refuses_a_third_party_copy(door: Facility) -> None:
    wrong = [
        "OC-Checksum: ADLER32:00000001",
        "Digest: md5=AAAAAAAAAAAAAAAAAAAAAA==",
        "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==",
        "Repr-Digest: md5=:AAAAAAAAAAAAAAAAAAAAAA==:",
    ]
    for field in wrong:
        with odd_server(lambda handler: reply(handler, 200, b"bytes")) as url:
            code, text = copy(door, "/tree/pulled", f"Source: {url}/x", field)
            assert code >= 400 or re.search("^failure: ", text, re.M), (field, text)
            code, text = copy(door, "/tree/a.root", f"Destination: {url}/x", field)
            assert code >= 400 or re.search("^failure: ", text, re.M), (field, text)
        assert status(door, "/tree/pulled", "HEAD") == 404
    with odd_server(lambda handler: reply(handler, 200, b"bytes")) as url:
        right = f"OC-Checksum: ADLER32:{adler32(b'bytes')}"
        assert copy(door, "/tree/pulled", f"Source: {url}/x", right)[1].endswith("success: Created\n")


# How a transfer ended


def test_how_a_transfer_ended_is_told_behind_it(door: Facility, tree: str) -> None:
    asked = ("-H", "TE: trailers", "-H", "X-Transfer-Status: true", "--raw")
    assert curl(door, f"{tree}/a.root", *asked).out.lower().endswith("\r\n0\r\nx-transfer-status: 200: ok\r\n\r\n")
    assert "x-transfer-status: 200: ok" in curl(door, f"{tree}/a.root", *asked, "-r", "1-3").out.lower()
    assert header(door, f"{tree}/a.root", "trailer", *asked) == "x-transfer-status"
    for few in (asked[:2], asked[2:4]):
        assert header(door, f"{tree}/a.root", "content-length", *few) == str(len("/tree/a.root"))


# Tokens


def test_a_token_that_does_not_allow_it_is_told_why(door: Facility, tree: str) -> None:
    words = ("token", "create", "--scope", f"storage.read:{tree}/sub", "--scope", f"storage.create:{tree}/new")
    token = ("-H", f"Authorization: Bearer {door.bp(*words).out.strip().splitlines()[-1]}")
    assert status(door, f"{tree}/sub/c.root", "GET", *token) == 200
    for method, path in (
        ("GET", "a.root"),
        ("DELETE", "sub/c.root"),
        ("PUT", "sub/x"),
        ("PROPFIND", ""),
        ("MKCOL", "m"),
    ):
        assert status(door, f"{tree}/{path}", method, *token) == 403
        why = header(door, f"{tree}/{path}", "www-authenticate", "-X", method, *token)
        assert why == 'Bearer error="insufficient_scope"', method
        assert "does not allow" in curl(door, f"{tree}/{path}", "-X", method, *token).out
    put = ("--data-binary", "x", *token)
    assert [status(door, f"{tree}/new", "PUT", *put) for _ in range(2)] == [201, 403]
    assert header(door, f"{tree}/new", "www-authenticate", "-X", "PUT", *put) == 'Bearer error="insufficient_scope"'
    bad = ("-H", f"Authorization: Bearer {token[1][22:-3]}xyz")
    assert status(door, f"{tree}/sub/c.root", "GET", *bad) == 401
    assert header(door, tree, "www-authenticate", *bad) == 'Bearer error="invalid_token"'


# Directories above a file


def test_missing_directories_are_made_where_the_site_says_so(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.configure("http_makes_parents", "true")
    facility.reach_this_host()
    facility.up()
    put = ("--data-binary", "x")
    assert status(facility, "/a/b/c", "PUT", *put) == 201
    assert status(facility, "/m/d", "MKCOL") == 409, "RFC 4918 is strict about these"
    for method, to in (("COPY", "/d/e/f"), ("MOVE", "/g/h/i")):
        assert status(facility, "/a/b/c", method, "-H", f"Destination: {facility.http}{to}") == 201
    with odd_server(lambda handler: reply(handler, 200, b"bytes")) as url:
        assert copy(facility, "/j/k/l", f"Source: {url}/x")[1].endswith("success: Created\n")
    assert [status(facility, path, "GET") for path in ("/a/b", "/d/e/f", "/g/h/i", "/j/k/l")] == [200] * 4
    token = facility.bp("token", "create", "--scope", "storage.create:/a/t/u").out.strip().splitlines()[-1]
    bearer = (*put, "-H", f"Authorization: Bearer {token}")
    # As the token profile says: also the directories that lead to what a token is for.
    assert status(facility, "/a/t/u/v/w", "PUT", *bearer) == 201
    assert status(facility, "/a/x/u/v", "PUT", *bearer) == 403
    assert status(facility, "/a/x", "GET") == 404
