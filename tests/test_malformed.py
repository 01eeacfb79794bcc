"""Bodies that make no sense: refused with 400 or what says better what is wrong, never answered with 500."""

from __future__ import annotations

import itertools
import json
import re
import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import SMALL, one_facility
from facility import Facility

SOURCES = Path(__file__).parent.parent / "crates" / "wire" / "src" / "control"
ROUTES = sorted(
    name
    for file in SOURCES.glob("*.rs")
    for name in re.findall(r'=> [\w:<>]+, "(\w+)", (?:People|Rooms|Disk|Tape|Cpu|Hosts)', file.read_text())
)
"""All calls of the management API, as the sources declare them."""

EXTREMES: list[object] = [2**64 - 1, 2**63, 2**63 - 1, 2**32 - 1, 2**16 - 1, 255, -1, 0]
TEXTS: list[object] = [
    "",
    "/a\u0001",
    "/a",
    "x",
    "user:ann",
    "group:" + "x" * 300,
    "BP0001",
    "rw",
    "00",
    "f" * 64,
    "1",
    "\u0000",
]
OTHERS: list[object] = [[], {}, True, None, [2**64 - 1], ["/a"], [[]], [{}], {"a": {}}, {"a": "b"}]


@pytest.fixture(scope="module")
def facility(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Run a facility for all of them."""
    with one_facility(tmp_path_factory.mktemp("malformed") / "facility", **SMALL) as one:
        # Odd reports of rooms that are none may well be warned of.
        one.expect_log("")
        one.up()
        one.put_bytes(b"bytes", "/f")
        yield one


class Prober:
    """Somebody who holds the facility's key, sends bodies, and learns from the refusals what a call wants.

    Parameters
    ----------
    facility
        Whom to ask.
    """

    def __init__(self, facility: Facility) -> None:
        self.facility = facility
        self.fields = {"authorization": f"Bearer {(facility.directory / 'key').read_bytes().hex()}"}

    def send(self, call: str, body: bytes, **fields: str) -> tuple[int, str]:
        """Make a call; the status and what was said."""
        headers = {"content-type": "application/json", **self.fields, **fields}
        connection = self.facility.connect()
        try:
            connection.request("POST", f"/api/v1/{call}", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def grow(self, call: str, values: list[object]) -> list[tuple[int, str, str]]:
        """Fill in field after field with the first value that can be read; tell every answer."""
        body: dict[str, Any] = {}
        holders: list[dict[str, Any]] = [body]
        answers = []
        for _ in range(30):
            text = json.dumps(body)
            status, said = self.send(call, text.encode())
            answers.append((status, text, said))
            missing = re.search(r"missing field `(\w+)`", said)
            if not missing:
                break
            name = missing[1]
            for holder, value in itertools.product(reversed(list(holders)), values):
                if name in holder:
                    continue
                holder[name] = value
                text = json.dumps(body)
                status, said = self.send(call, text.encode())
                answers.append((status, text, said))
                is_same = f"missing field `{name}`" in said
                if "cannot be read" not in said or ("missing field" in said and not is_same):
                    if isinstance(value, dict):
                        holder[name] = {}
                        holders.append(holder[name])
                    break
                del holder[name]
            else:
                break
        return answers


NONSENSE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe{}",
    b'{"path":"\xff"}',
    b'{"path":"/a"',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'"\\ud800"',
    b"1e999",
    b"\0" * 100,
]


@pytest.mark.parametrize("call", ROUTES)
def test_calls_that_make_no_sense_are_refused(facility: Facility, call: str) -> None:
    prober = Prober(facility)
    for body in NONSENSE:
        status, said = prober.send(call, body)
        # Some calls have no fields, and one takes no body.
        assert status < 500 or status == 501, (body[:50], said)
    assert prober.send(call, b"{}", **{"content-type": "text/plain"})[0] not in (500, 502)
    for order in (
        EXTREMES + TEXTS + OTHERS,
        TEXTS[::-1] + EXTREMES[::-1] + OTHERS[::-1],
        OTHERS + EXTREMES[1:] + TEXTS,
    ):
        for status, body, said in prober.grow(call, order):
            assert status != 500, f"{body}: {said}"
            assert str(facility.directory) not in said, f"{body}: {said}"


def raw(facility: Facility, data: bytes) -> tuple[int, bytes]:
    """Send bytes and no more; the status and all that is answered."""
    where = urllib.parse.urlsplit(facility.http)
    with socket.create_connection((where.hostname, where.port), timeout=60) as peer:
        answer = b""
        # Whoever is refused early may find the connection closed.
        with suppress(ConnectionError):
            peer.sendall(data)
        with suppress(OSError):
            peer.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while part := peer.recv(65536):
                answer += part
    return int(answer.split()[1]) if answer else 0, answer


METHODS = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "POST"]
BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "&%c;&%c;&%c;&%c;">' % (n + 1, n, n, n, n) for n in range(97, 110))
    + b']><D:propfind xmlns:D="DAV:"><D:prop><x>&n;</x></D:prop></D:propfind>'
)
BODIES = [
    b"<",
    b"<a",
    b"<?xml",
    b"\xff\xfe<",
    b"<D:propfind/>",
    b'<D:propfind xmlns:D="DAV:"><D:prop>' + b"<a>" * 20_000,
    BOMB,
    b'<?xml version="1.0" encoding="utf-16"?><a/>',
    b"\0" * 64,
    b'<D:propfind xmlns:D="DAV:"/>' * 2,
    b"{}",
    b'<D:propfind xmlns:D="DAV:"><D:prop><x xmlns="' + b"y" * 100_000 + b'"/></D:prop></D:propfind>',
]
CHUNKS = [
    b"zz\r\nbytes\r\n",
    b"5\r\nby",
    b"5\r\nbytes0\r\n\r\n",
    b"-1\r\n",
    b"ffffffffffffffffff\r\n",
    b"5;" + b"x" * 20_000,
    b"",
    b"5\nbytes\n0\n\n",
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/f", "/new", "/", "/api/v1/stat", "/api/v1/backup", "/console", "/metrics"])
def test_bodies_that_make_no_sense_are_never_our_fault(facility: Facility, method: str, path: str) -> None:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    for body in BODIES:
        status, answer = raw(facility, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert status < 500 or status == 501, (body[:60], answer[:600])
        # Shorter than announced.
        status, answer = raw(facility, f"{head}Content-Length: {len(body) + 7}\r\n\r\n".encode() + body)
        assert status < 500 or status == 501, (body[:60], answer[:600])
    for body in CHUNKS:
        status, answer = raw(facility, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + body)
        assert status < 500 or status == 501, (body[:60], answer[:600])
        assert str(facility.directory).encode() not in answer


@pytest.mark.parametrize("body", [*CHUNKS[:2], *CHUNKS[3:7]])
def test_broken_framing_is_the_clients_fault(facility: Facility, body: bytes) -> None:
    for method, path in (("PUT", "/framed"), ("PROPFIND", "/f"), ("POST", "/api/v1/stat")):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        status, answer = raw(facility, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + body)
        # A sender that has left is not always answered.
        assert status in (0, 400), answer
    assert facility.bp("stat", "/framed", check=False).code == 3


FIELDS = [
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: -1",
    "Content-Length: +5",
    "Content-Length: 0x5",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: gzip",
    "Content-Length: 99999999999999999999",
    "Depth: many",
    "Range: bytes=9-1",
    "Overwrite: maybe",
    "Destination: \xff",
    "Source: http://[",
    "Destination: //",
    "If: <",
    "Digest: adler32=zz",
    "Content-MD5: ?",
    "Repr-Digest: sha-256=::",
    "Want-Digest: ;;;q=",
    'If-Match: "',
    "If-Modified-Since: never",
    "X-Backplane-User: a\xffb",
    "X-Backplane-User: a b",
    "Authorization: Bearer \xff",
]


@pytest.mark.parametrize("method", METHODS)
def test_fields_that_make_no_sense_are_never_our_fault(facility: Facility, method: str) -> None:
    for path, field in itertools.product(
        ("/f", "/new", "/%ff", "/%00", "/a%2f..%2fb", "/api/v1/stat?wait=never"), FIELDS
    ):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{field}\r\n\r\n"
        status, answer = raw(facility, head.encode("latin-1"))
        assert status < 500 or status == 501, (field, answer[:600])


NAMES = ["a b", "a/b", "a,b", "host:d1", "-rf", "..", "x" * 300, "a\tb"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_users_have_one_rule(facility: Facility, name: str) -> None:
    connection = facility.connect()
    connection.request("GET", "/f", headers={"x-backplane-user": name})
    answer = connection.getresponse()
    assert answer.status == 400, answer.read()
    connection.close()
    assert "not a name" in facility.bp_fails("token", "create", f"--user={name}").text
    assert "not a name" in facility.bp_fails("token", "create", f"--group={name}").text
    assert "not a name" in facility.bp_fails("grant", "/", f"user:{name}", "r").text
    assert "not a name" in facility.bp_fails("quota", "set", "--bytes=1GiB", "--", "user", name).text
