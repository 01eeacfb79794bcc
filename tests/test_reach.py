"""Where a server connects to when a client asks for it: not back to its own host, and nobody learns what is there."""

from __future__ import annotations

import http.server
import itertools
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import frames
from clients import need, run
from conftest import MakeFacility
from facility import Facility
from issuer import Issuer
from test_access import table

ELSEWHERE = "127.0.0.2"
"""Another address of this host, which is not allowed where 127.0.0.1 is."""


class Listener:
    """A port that counts who comes.

    Parameters
    ----------
    address
        Where it listens.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.socket = socket.create_server((address, 0))
        self.socket.setblocking(False)
        self.port = int(self.socket.getsockname()[1])

    def was_called(self) -> bool:
        """Tell whether somebody connected."""
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Listen on loopback."""
    one = Listener()
    yield one
    one.socket.close()


def closed_port() -> int:
    """Find a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def late(raw: frames.Raw) -> frames.Answer:
    """Receive an answer that may be announced first."""
    answer = raw.answer()
    while answer.status == frames.WAIT_LATER:
        answer = raw.answer()
    if answer.status == 4001:
        stream, status, length = struct.unpack(">HHi", answer.body[8:16])
        return frames.Answer(stream, status, answer.body[16 : 16 + length])
    return answer


FILES = itertools.count()


def pull(facility: Facility, source: str) -> str:
    """Ask for a third-party copy at the root door to a name that is free; tell why it failed."""
    name = f"/copy{next(FILES)}"
    with frames.Raw(facility.root).login() as raw:
        opaque = f"tpc.key=0123456789&tpc.src={source}&tpc.lfn=/f&tpc.stage=copy"
        handle = raw.open(f"{name}?{opaque}", frames.NEW | frames.UPDATE)
        for expected in (frames.OK, frames.ERROR):
            raw.request(frames.SYNC, handle)
            answer = late(raw)
            assert answer.status == expected, answer
    return answer.body[4:].decode().rstrip("\0").replace(name, "NEW")


def copy(facility: Facility, path: str, field: str) -> str:
    """Ask for a third-party copy at the http door; tell why it failed."""
    text = run("curl", "-sS", "-X", "COPY", "-H", field, facility.http + path).out
    (why,) = re.findall("^failure: (.*)$", text, re.M)
    return str(why)


NAMES = ["127.0.0.1", "localhost", "0.0.0.0", "127.1", "[::ffff:127.0.0.1]", "[::1]", "169.254.169.254"]
FORMS = ["[64:ff9b::127.0.0.1]", "[2002:7f00:1::1]", "[::127.0.0.1]", "[fe80::1]", "[ff02::1]", "224.0.0.1"]


@pytest.mark.parametrize("name", NAMES + FORMS)
def test_what_leads_back_is_never_called_by_the_root_door(facility: Facility, listener: Listener, name: str) -> None:
    told = [pull(facility, f"{name}:{port}").replace(str(port), "PORT") for port in (listener.port, closed_port())]
    assert told[0] == told[1], "an open port is not told from a closed one"
    assert "does not connect to" in told[0]
    assert not listener.was_called()


@pytest.mark.parametrize("name", NAMES + FORMS)
def test_what_leads_back_is_never_called_by_the_http_door(facility: Facility, listener: Listener, name: str) -> None:
    need("curl")
    facility.put_bytes(b"bytes", "/f")
    for path, end in (("/new", "Source"), ("/f", "Destination")):
        ports = (listener.port, closed_port())
        told = [copy(facility, path, f"{end}: http://{name}:{port}/x").replace(str(port), "PORT") for port in ports]
        assert told[0] == told[1], "an open port is not told from a closed one"
        assert "does not connect to" in told[0]
    assert not listener.was_called()


def test_other_facilities_of_this_host_are_not_called_unless_it_is_configured(make_facility: MakeFacility) -> None:
    source, destination = make_facility(), make_facility()
    source.up()
    destination.up()
    source.put_bytes(b"bytes", "/f")
    assert "does not connect to" in pull(destination, source.root.removeprefix("root://"))
    assert "login" not in source.log.read_text()


class Stranger:
    """A server that speaks enough of the protocol to learn who comes, and sends them on.

    Parameters
    ----------
    target
        Where it sends who opens a file; without it the open is refused with `words`.
    words
        What it says then.
    """

    def __init__(self, target: tuple[str, int] | None = None, words: str = "") -> None:
        self.target = target
        self.words = words
        self.names: list[str] = []
        self.opened = threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            while True:
                peer, _ = self.socket.accept()
                with peer, peer.makefile("rb") as stream:
                    self._session(peer, stream)
        except OSError:
            return

    def _session(self, peer: socket.socket, stream: object) -> None:
        read = stream.read  # type: ignore[attr-defined]
        read(20)
        peer.sendall(struct.pack(">HHiII", 0, 0, 8, 0x520, 1))
        while header := read(24):
            name, code, body, length = struct.unpack(">2sH16si", header)
            read(length)
            answer, status = b"", frames.OK
            if code == 3006:
                answer = struct.pack(">II", 0x520, 1)
            elif code == 3007:
                self.names.append(body[4:12].rstrip(b"\0").decode())
                answer = bytes(16)
            elif code == 3010:
                self.opened.set()
                status, answer = self._open()
            peer.sendall(name + struct.pack(">Hi", status, len(answer)) + answer)

    def _open(self) -> tuple[int, bytes]:
        if self.target:
            return 4004, struct.pack(">i", self.target[1]) + self.target[0].encode()
        return frames.ERROR, struct.pack(">i", 3010) + self.words.encode() + b"\0"

    def close(self) -> None:
        """End it."""
        self.socket.close()


@contextmanager
def stranger(target: tuple[str, int] | None = None, words: str = "") -> Iterator[Stranger]:
    """Run such a server."""
    one = Stranger(target, words)
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def open_facility(make_facility: MakeFacility) -> Facility:
    """Start a facility that may copy from 127.0.0.1, and from no other address of this host."""
    facility = make_facility()
    facility.configure("allow", '["127.0.0.1"]')
    facility.up()
    return facility


def test_the_server_never_logs_in_under_a_name_that_the_client_chose(open_facility: Facility) -> None:
    with stranger(words="the SECRET of this server") as server:
        why = pull(open_facility, f"admin@127.0.0.1:{server.port}")
        assert server.opened.is_set()
        assert server.names == ["nobody"]
    assert "SECRET" not in why, "what the other server says is not for the client"
    assert "it refuses" in why


@pytest.mark.parametrize("name", [ELSEWHERE, "0.0.0.0", "[::ffff:127.0.0.2]", "169.254.0.1"])
def test_redirects_of_the_root_door_obey_the_rule(open_facility: Facility, name: str) -> None:
    there = Listener(ELSEWHERE)
    with stranger((name, there.port)) as server:
        assert "address is not allowed" in pull(open_facility, f"127.0.0.1:{server.port}")
        assert server.opened.is_set()
    assert not there.was_called()
    there.socket.close()


@contextmanager
def page(code: int, body: bytes = b"", **fields: str) -> Iterator[str]:
    """Run a web server that always answers the same."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            for field, value in {**fields, "content_length": str(len(body))}.items():
                self.send_header(field.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_redirects_of_the_http_door_obey_the_rule(open_facility: Facility) -> None:
    need("curl")
    there = Listener(ELSEWHERE)
    for name in (ELSEWHERE, "0.0.0.0", "[::ffff:127.0.0.2]", "169.254.0.1"):
        with page(307, location=f"http://{name}:{there.port}/x") as url:
            assert "does not connect to" in copy(open_facility, "/new", f"Source: {url}/x")
    assert not there.was_called()
    there.socket.close()


def test_pages_of_other_servers_are_not_repeated(open_facility: Facility) -> None:
    need("curl")
    with page(403, b"the SECRET of this page") as url:
        why = copy(open_facility, "/new", f"Source: {url}/x")
        assert "403" in why
        assert "SECRET" not in why
    with socket.create_server(("127.0.0.1", 0)) as banner:

        def greet() -> None:
            peer, _ = banner.accept()
            peer.sendall(b"220 SECRET mail server\r\n")
            peer.recv(4096)
            peer.close()

        threading.Thread(target=greet, daemon=True).start()
        assert "SECRET" not in copy(open_facility, "/new", f"Source: http://127.0.0.1:{banner.getsockname()[1]}/x")


def test_issuers_cannot_send_the_server_back_to_itself(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("openssl")
    issuer = Issuer(tmp_path / "issuer")
    there = Listener(ELSEWHERE)
    place = "/vo/.well-known/openid-configuration"
    keys = f'{{"issuer": "{issuer.url}", "jwks_uri": "https://{ELSEWHERE}:{there.port}/jwk"}}'
    issuer.mended[place] = keys.encode()
    facility = make_facility()
    facility.configure("allow", '["127.0.0.1"]')
    facility.configure("require_token", "true")
    file = facility.directory / "facility.toml"
    file.write_text(file.read_text() + table(issuer))
    facility.expect_log("cannot fetch the keys of a token issuer")
    facility.up()
    facility.call = partial(facility.call, at_socket=True)  # type: ignore[method-assign]
    answer = run("curl", "-sS", "-H", f"Authorization: Bearer {issuer.token('storage.read:/')}", facility.http + "/x")
    assert "cannot fetch the keys" in answer.out
    assert place in issuer.asked
    assert not there.was_called()
    there.socket.close()
    issuer.close()


def test_a_network_that_is_none_is_refused_by_name(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.configure("allow", '["loopback"]')
    assert "loopback" in facility.bp_fails("up", facility.directory, "--detach").text
