"""Peers that have not proven who they are: what they cost, and that nobody else notices them."""

from __future__ import annotations

import re
import resource
import socket
import struct
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

import frames
from clients import need, run, write_file
from conftest import MakeFacility
from facility import Facility
from people import people

DIRLIST = 3004
MKDIR = 3008
PREPARE = 3021
ATTN = 4001
MEMORY_KIB_MAX = 96 << 10
"""What strangers may cost: a budget of 32 MiB, and what the allocator keeps. Without one it was 270 MiB."""

WIDE = 4000
"""Names of a directory whose listing is most of a MiB."""
UNREAD_KIB_MAX = 160 << 10
"""What 3,200 listings that nobody reads may cost: 32 MiB of answers, 16 listings under way."""

SILENT = 4096
"""So many silent sessions once locked everybody out."""
PER_ADDRESS = 512
"""So many unproven connections of one address there are at once."""


@pytest.fixture(autouse=True)
def _many_descriptors() -> Iterator[None]:
    """Let the test open more connections than programs usually may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def start_strict(make_facility: MakeFacility, **keys: str) -> Facility:
    """Start a facility that wants to see tokens."""
    facility = make_facility()
    for key, value in {"require_token": "true", **keys}.items():
        facility.configure(key, value)
    facility.up()
    facility.call = partial(facility.call, key=True)  # type: ignore[method-assign]
    return facility


@pytest.fixture
def strict(make_facility: MakeFacility) -> Facility:
    """Start a facility that wants to see tokens, with a file."""
    facility = start_strict(make_facility)
    facility.put_bytes(b"hello", "/f")
    return facility


def token(facility: Facility) -> str:
    """Make a token of the owner."""
    return facility.bp("token", "create", "--lifetime=1h", f"--user={facility.owner}").out.strip()


def bearing(facility: Facility) -> dict[str, str]:
    """Make clients of the field show a token, and trust the facility."""
    trust = str(facility.directory / "tls" / "trust")
    return {"X509_CERT_DIR": trust, "XRD_LOGLEVEL": "Error", "BEARER_TOKEN": token(facility)}


def nobody(facility: Facility) -> frames.Raw:
    """Log in without a token: a session all of whose requests are refused."""
    raw = frames.Raw(facility.root).login("root")
    raw.request(frames.AUTH, b"\0" * 12 + b"host", b"host\0")
    assert raw.answer().status == frames.OK
    return raw


def is_over(connection: socket.socket) -> bool:
    """Wait until the server says something or hangs up; tell whether it hung up."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def resident(facility: Facility) -> int:
    """Measure the memory of the daemon in KiB."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{facility.pid}/status").read_text())
    assert found
    return int(found[1])


def http_address(facility: Facility, door: str = "http") -> tuple[str, int]:
    """Tell host and port of a door."""
    where = urllib.parse.urlsplit(facility.endpoint(door))
    assert where.hostname is not None
    assert where.port is not None
    return where.hostname, where.port


# Connections


def test_thousands_of_silent_logins_lock_nobody_out(strict: Facility, tmp_path: Path) -> None:
    need("xrdcp")
    with ExitStack() as stack:
        silent = [stack.enter_context(nobody(strict)) for _ in range(SILENT)]
        run("xrdcp", "-s", f"{strict.root}//f", tmp_path / "f", env=bearing(strict))
        assert (tmp_path / "f").read_bytes() == b"hello"
        assert is_over(silent[0].socket), "the oldest gave its place to newer ones"
        # The newest is still told why it may do nothing.
        silent[-1].request(frames.STAT, b"", b"/")
        assert silent[-1].answer().status == frames.ERROR


@pytest.mark.parametrize("door", ["root", "http", "https"])
def test_silent_connections_lock_nobody_out(strict: Facility, tmp_path: Path, door: str) -> None:
    need("curl", "xrdcp")
    env, authority = bearing(strict), strict.directory / "tls" / "ca.pem"
    with ExitStack() as stack:
        for _ in range(3 * PER_ADDRESS):
            stack.enter_context(socket.create_connection(http_address(strict, door), timeout=30))
        run("xrdcp", "-s", f"{strict.root}//f", tmp_path / "f", env=env)
        bearer = ("-H", f"Authorization: Bearer {env['BEARER_TOKEN']}")
        url = f"{strict.endpoint('https')}/f"
        assert run("curl", "-s", "--fail", "--cacert", authority, *bearer, url).out == "hello"


def test_a_proof_has_to_come_in_time_at_every_door(make_facility: MakeFacility) -> None:
    facility = start_strict(make_facility, prove_within='"1s"')
    with ExitStack() as stack:
        for door in ("root", "http", "https"):
            silent = stack.enter_context(socket.create_connection(http_address(facility, door), timeout=30))
            assert is_over(silent), door
        assert is_over(stack.enter_context(nobody(facility)).socket)
        # Refused requests buy no time, nor does half of one.
        refused = stack.enter_context(socket.create_connection(http_address(facility), timeout=30))
        refused.sendall(b"GET /f HTTP/1.1\r\nHost: localhost\r\n\r\nGET /f HT")
        assert is_over(refused)
        # A session that has proven who it is goes on after that time.
        proven = stack.enter_context(frames.Raw(facility.root))
        proven.send(frames.HANDSHAKE)
        proven.answer()
        proven.request(frames.LOGIN, struct.pack(">i8sBBBB", 1, b"root", 0, 0, 5, 0))
        proven.answer()
        text = token(facility).encode() + b"\0"
        proof = b"ztn\0\0T\0\0" + struct.pack(">H", len(text)) + text
        proven.request(frames.AUTH, b"\0" * 12 + b"ztn\0", proof)
        assert proven.answer().status == frames.OK
        late = stack.enter_context(nobody(facility))
        assert is_over(late.socket)
        proven.request(frames.STAT, b"", b"/")
        assert proven.answer().status == frames.OK


def test_a_token_of_a_request_proves_the_session(make_facility: MakeFacility) -> None:
    facility = start_strict(make_facility, prove_within='"2s"')
    with nobody(facility) as raw:
        raw.request(frames.STAT, b"", f"/?authz=Bearer%20{token(facility)}".encode())
        assert raw.answer().status == frames.OK
        with nobody(facility) as late:
            assert is_over(late.socket)
        raw.request(frames.PING)
        assert raw.answer().status == frames.OK


# Memory


def test_long_requests_of_nobody_are_not_kept(strict: Facility) -> None:
    before = resident(strict)
    with ExitStack() as stack:
        sessions = [stack.enter_context(nobody(strict)) for _ in range(300)]
        for raw in sessions:
            # A request of one MiB, all but its end.
            with suppress(frames.HungUpError):
                raw.request(PREPARE, b"\x08", b"/x\n" * (350_000 - 1), length=1_050_000)
        run("curl", "-s", "-o", "/dev/null", f"{strict.http}/metrics")
        assert resident(strict) - before < MEMORY_KIB_MAX


def test_heads_and_bodies_of_nobody_are_short(strict: Facility) -> None:
    before = resident(strict)
    head = b"GET /f HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 600) for n in range(95))
    with ExitStack() as stack:
        for _ in range(400):
            connection = stack.enter_context(socket.create_connection(http_address(strict), timeout=30))
            connection.sendall(head)
        run("curl", "-s", "-o", "/dev/null", f"{strict.http}/metrics")
        assert resident(strict) - before < MEMORY_KIB_MAX
    with socket.create_connection(http_address(strict), timeout=30) as connection:
        start = b"POST /api/v1/join_facility HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(start + b"Content-Length: 1000000\r\n\r\n")
        assert b" 413 " in connection.recv(1 << 16).split(b"\r\n")[0]


# Third-party copies


def wait_as_destination(raw: frames.Raw, count: int, name: str) -> None:
    """Come as the destination of copies that nobody has asked for."""
    for number in range(count):
        path = f"/f?tpc.key={name}x{number}&tpc.org=eve.1@far"
        raw.request(frames.OPEN, struct.pack(">HH12x", 0, frames.READ_ONLY), path.encode())


def test_waiting_destinations_keep_no_copy_from_its_own(strict: Facility) -> None:
    bearer = f"authz=Bearer%20{token(strict)}"
    with ExitStack() as stack:
        for number in range(17):
            with suppress(frames.HungUpError):
                wait_as_destination(stack.enter_context(nobody(strict)), 255, f"eve{number}")
        for key, is_offered_first in (("ann1", True), ("ann2", False)):
            client, destination = (stack.enter_context(nobody(strict)) for _ in range(2))

            def offer(client: frames.Raw = client, key: str = key) -> None:
                client.open(f"/f?tpc.key={key}&tpc.dst=127.0.0.1&{bearer}")

            if is_offered_first:
                offer()
            fetch = f"/f?tpc.key={key}&tpc.org=root.1@here"
            destination.request(frames.OPEN, struct.pack(">HH12x", 0, frames.READ_ONLY), fetch.encode())
            if not is_offered_first:
                offer()
            answer = destination.answer()
            if answer.status == frames.WAIT_LATER:
                answer = destination.answer()
            # The answer itself, or the one that was announced: its status lies behind that of the announcement.
            status = answer.status if answer.status != ATTN else struct.unpack(">H", answer.body[10:12])[0]
            assert status == frames.OK, answer


def test_nobody_offers_what_they_cannot_read(strict: Facility) -> None:
    with nobody(strict) as raw:
        path = b"/f?tpc.key=k&tpc.dst=127.0.0.1"
        raw.request(frames.OPEN, struct.pack(">HH12x", 0, frames.READ_ONLY), path)
        assert raw.answer().status == frames.ERROR


# Reservations


def test_a_reservation_that_never_moves_leaves_room_for_others(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("curl")
    facility = make_facility()
    facility.configure("size", '"256MiB"')
    facility.up()
    facility.call("mkdir", path="/d", mode=0o777, parents=False)
    local = write_file(tmp_path / "f", 50 << 20)
    with ExitStack() as stack:
        for number in range(4):
            eve = stack.enter_context(frames.Raw(facility.root).login("eve"))
            # Nearly all that there is, and nothing is sent.
            path = f"/d/eve{number}?oss.asize={250 << 20 >> number}"
            eve.request(frames.OPEN, struct.pack(">HH12x", 0o644, frames.NEW), path.encode())
            eve.answer()
        bob = ("curl", "-sS", "--fail", "-H", "X-Backplane-User: bob", "-H", "Expect:")
        run(*bob, "-T", local, f"{facility.http}/d/bob")
        refused = facility.bp_fails("--user=eve", "get", "--pool=main", "--size=100MB", "/d/more")
        assert "one user may reserve" in refused.text
        run(*bob, "-T", local, f"{facility.http}/d/bob")
    assert facility.stat("/d/bob")["size"] == 50 << 20


# Audit


def test_refused_requests_push_no_deed_out_of_the_audit_log(make_facility: MakeFacility) -> None:
    need("curl")
    bounds = {"file_size": '"64KiB"', "files": "2", "refused_file_size": '"64KiB"'}
    facility = start_strict(make_facility, **bounds)
    facility.bp("mkdir", "/precious")
    url = f"{facility.http}/{'n' * 200}"
    run("curl", "-s", *(word for _ in range(2000) for word in ("-o", "/dev/null", url)))
    facility.down()
    actions = facility.bp("--json", "audit", "--path=/precious").out.splitlines()
    assert len(actions) == 1
    refused = facility.bp("audit", "--refused").out
    assert re.search(r"\d+ times refused", refused), refused
    assert len(refused.splitlines()) < 50


# Peers that have proven who they are


def test_unread_answers_of_one_user_are_bounded_over_all_their_sessions(make_facility: MakeFacility) -> None:
    need("xrdfs")
    facility = make_facility()
    facility.up()
    facility.bp("mkdir", "/wide")
    with frames.Raw(facility.root).login() as raw:
        for start in range(0, WIDE, 100):
            for number in range(start, start + 100):
                raw.request(MKDIR, struct.pack(">14xH", 0o755), f"/wide/{number:0200}".encode())
            assert {raw.answer().status for _ in range(100)} == {frames.OK}
    before = resident(facility)
    with people("bptestann") as (ann,), ExitStack() as stack:
        greedy = [stack.enter_context(frames.Raw(facility.root).login()) for _ in range(200)]
        for raw in greedy:
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(16):
                raw.request(DIRLIST, b"", b"/wide")
        # Somebody else is answered meanwhile, and so is who read what they asked for.
        assert "/wide" in ann.does("xrdfs", facility.root.removeprefix("root://"), "ls", "/").out
        assert resident(facility) - before < UNREAD_KIB_MAX
        listed = 0
        while listed < WIDE:
            listed += len(greedy[0].answer().body.split(b"\n"))
