"""TLS, tokens and signatures at both doors, judged by other people's clients."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import frames
from clients import DEADLINE, Outcome, fails, is_same, need, run, write_file
from conftest import MakeFacility
from facility import Facility

TLS_OFFERED, TLS_NOW, TLS_LOGIN, TLS_DATA = 0x80000000, 0x40000000, 0x04000000, 0x01000000
ABLE, WANT = 2, 4
NOT_AUTHORIZED, SIGNATURE = 3010, 3022
SIGVER, SET = 3029, 3018


def trust(facility: Facility) -> dict[str, str]:
    """Make clients of the field trust the facility's authority."""
    return {"X509_CERT_DIR": str(facility.directory / "tls" / "trust"), "XRD_LOGLEVEL": "Error"}


def token(facility: Facility, *scopes: str, user: str = "", lifetime: str = "1h", audience: str = "") -> str:
    """Make a token."""
    words = ["token", "create", f"--lifetime={lifetime}", *(f"--scope={scope}" for scope in scopes)]
    words += [f"--audience={audience}"] if audience else []
    words += [f"--user={user or facility.owner}"]
    return facility.bp(*words).out.strip()


def bearing(facility: Facility, text: str) -> dict[str, str]:
    """Make clients of the field show a token."""
    return {**trust(facility), "BEARER_TOKEN": text}


@pytest.fixture
def strict(make_facility: MakeFacility) -> Facility:
    """Start a facility that wants to see tokens."""
    need("xrdcp", "xrdfs")
    facility = make_facility()
    facility.configure("require_token", "true")
    facility.configure("beside_head", "true")
    facility.up()
    # The management API, too: tests ask with the facility's key.
    facility.call = partial(facility.call, at_socket=True)  # type: ignore[method-assign]
    return facility


def test_jobs_read_and_store_where_tokens_are_wanted(strict: Facility) -> None:
    """The worker proves on whose behalf it stores; nobody had to give the job a token."""
    first = strict.submit("--output", "out:/out", "--", "/bin/sh", "-c", "echo done >out")
    assert strict.wait_job(first)["state"] == "done"
    second = strict.submit("--input", "/out", "--output", "more:/more", "--", "/bin/sh", "-c", "cat out out >more")
    assert strict.wait_job(second)["state"] == "done"
    assert strict.call("stat", path="/more")["size"] == 2 * len("done\n")


# Certificates


def test_https_is_verified_by_the_authority_of_the_facility(facility: Facility) -> None:
    need("curl")
    facility.put_bytes(b"hello", "/f")
    url, authority = facility.endpoint("https"), facility.directory / "tls" / "ca.pem"
    assert run("curl", "-s", "--fail", "--cacert", authority, f"{url}/f").out == "hello"
    by_name = url.replace("127.0.0.1", "localhost")
    assert run("curl", "-s", "--fail", "--cacert", authority, f"{by_name}/f").out == "hello"
    assert fails("curl", "-s", f"{url}/f").code == 60
    assert fails("curl", "-s", "--cacert", authority, url.replace("https:", "http:")).code in (1, 52, 56)


def test_only_safe_versions_are_spoken(facility: Facility) -> None:
    need("openssl")
    where = facility.endpoint("https").removeprefix("https://")
    authority = facility.directory / "tls" / "ca.pem"
    for version in ("-tls1_2", "-tls1_3"):
        text = run("openssl", "s_client", "-connect", where, "-CAfile", authority, version).text
        assert "Verify return code: 0 (ok)" in text
    cipher = "ALL:@SECLEVEL=0"
    fails("openssl", "s_client", "-connect", where, "-tls1_1", "-cipher", cipher)
    fails("openssl", "s_client", "-connect", where, "-tls1_2", "-cipher", "AES128-SHA")


def test_openssl_finds_the_authority_by_its_hash(facility: Facility) -> None:
    need("openssl")
    directory = facility.directory / "tls"
    hashed = run("openssl", "x509", "-noout", "-hash", "-in", directory / "ca.pem").out.strip()
    assert [file.name for file in (directory / "trust").iterdir()] == [f"{hashed}.0"]
    run("openssl", "verify", "-CApath", directory / "trust", "-purpose", "sslserver", directory / "host.pem")
    names = run("openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", directory / "host.pem").out
    assert "DNS:localhost" in names
    assert "IP Address:127.0.0.1" in names
    for secret in ("ca.key", "host.key"):
        assert (directory / secret).stat().st_mode & 0o777 == 0o600


def test_a_facility_without_certificates_gets_them_when_it_starts(make_facility: MakeFacility) -> None:
    facility = make_facility()
    (facility.directory / "id").unlink()
    for file in sorted((facility.directory / "tls").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    facility.up()
    authority = (facility.directory / "tls" / "ca.pem").read_text()
    assert token(facility).count(".") == 2
    facility.down()
    facility.up()
    assert (facility.directory / "tls" / "ca.pem").read_text() == authority


def made_by_openssl(directory: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate as a site does that has its own authority."""
    certificate, key = directory / "site.pem", directory / "site.key"
    run(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}"),
        *("-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-out", certificate, "-keyout", key),
    )
    return certificate, key


def shown(facility: Facility) -> str:
    """Read the subject of the certificate that a new connection is shown."""
    where = facility.endpoint("https").removeprefix("https://")
    found = re.search(r"subject=.*", run("openssl", "s_client", "-connect", where, check=False).text)
    assert found
    return found[0]


def test_certificates_of_the_site_are_used_and_replaced_while_it_runs(
    make_facility: MakeFacility, tmp_path: Path
) -> None:
    need("openssl")
    facility = make_facility()
    certificate, key = made_by_openssl(tmp_path, "first.example.org")
    facility.configure("certificate", json.dumps(str(certificate)))
    facility.configure("key", json.dumps(str(key)))
    facility.up()
    assert "first.example.org" in shown(facility)
    made_by_openssl(tmp_path, "second.example.org")
    facility.wait_until("the new certificate is shown", lambda: "second.example.org" in shown(facility))


# root:// with TLS


@pytest.mark.parametrize("size", [0, 4097, 20 << 20])
def test_a_copy_comes_back_encrypted(xrootd: Facility, tmp_path: Path, size: int) -> None:
    local, back = tmp_path / "local", tmp_path / "back"
    local.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    url = xrootd.endpoint("roots")
    for pages in ("0", "1"):
        env = {**trust(xrootd), "XRD_CPUSEPGWRTRD": pages}
        run("xrdcp", "-s", "-f", local, f"{url}//file", env=env)
        # Debian's client crashes if a file is over before its further connections have shaken hands.
        streams = ("-S", "3") if size > 1 << 20 else ()
        run("xrdcp", "-s", "-f", *streams, f"{url}//file", back, env=env)
        assert is_same(local, back)
    assert "/file" in run("xrdfs", url, "ls", "/", env=trust(xrootd)).out


def test_a_server_that_is_not_trusted_gets_nothing(xrootd: Facility, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    env = {"X509_CERT_DIR": str(tmp_path / "none")}
    fails("xrdfs", xrootd.endpoint("roots"), "stat", "/", env=env)


def protocol(raw: frames.Raw, flags: int, expect: int = 3) -> int:
    """Ask for the protocol; returns what the server is and can."""
    raw.request(frames.PROTOCOL, struct.pack(">iBB", 0x520, flags, expect))
    answer = raw.answer()
    assert answer.status == frames.OK
    return int(struct.unpack(">II", answer.body[:8])[1])


def greeted(facility: Facility) -> frames.Raw:
    """Connect and shake hands."""
    raw = frames.Raw(facility.root)
    raw.send(frames.HANDSHAKE)
    raw.answer()
    return raw


@pytest.mark.parametrize(
    ("rule", "login", "data"), [("offered", False, False), ("login", True, False), ("required", True, True)]
)
def test_tls_is_demanded_where_it_is_configured(
    make_facility: MakeFacility, rule: str, login: bool, data: bool
) -> None:
    facility = make_facility()
    facility.configure("root_tls", json.dumps(rule))
    facility.up()
    with greeted(facility) as raw:
        assert protocol(raw, 0) & (TLS_OFFERED | TLS_NOW) == TLS_OFFERED
        assert bool(protocol(raw, 0) & TLS_LOGIN) == login
        assert bool(protocol(raw, 0) & TLS_DATA) == data
    # A bind shows the id of the session, which is as good as its login.
    for expect, goes in ((3, login), (1, login), (0, False)):
        with greeted(facility) as raw:
            assert bool(protocol(raw, ABLE, expect) & TLS_NOW) == goes
    with greeted(facility) as raw:
        assert protocol(raw, WANT) & TLS_NOW
    need("xrdfs")
    assert run("xrdfs", facility.root, "stat", "/", env=trust(facility)).code == 0


class Wiretap:
    """A wire between a client and a door, on which somebody listens.

    Parameters
    ----------
    door
        `host:port` of the door.
    """

    def __init__(self, door: str) -> None:
        host, port = door.split(":")
        self.door = (host, int(port))
        self.heard: list[bytearray] = []
        self.open: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"root://127.0.0.1:{self.socket.getsockname()[1]}"
        self._start(self._listen)

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self.threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Cut the wire."""
        for end in (self.socket, *self.open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(DEADLINE)
        for end in (self.socket, *self.open):
            end.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.socket.accept()
                server = socket.create_connection(self.door)
                self.open += [client, server]
                self.heard.append(bytearray())
                self._start(self._pass_on, client, server, self.heard[-1])
                self._start(self._pass_on, server, client, bytearray())

    @staticmethod
    def _pass_on(here: socket.socket, there: socket.socket, heard: bytearray) -> None:
        with suppress(OSError):
            while data := here.recv(1 << 16):
                heard += data[: max(0, 4096 - len(heard))]
                there.sendall(data)
            there.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("rule", ["login", "required"])
def test_the_id_of_a_session_is_not_sent_in_plain_text(make_facility: MakeFacility, tmp_path: Path, rule: str) -> None:
    need("xrdcp")
    facility = make_facility()
    facility.configure("root_tls", json.dumps(rule))
    facility.up()
    local, back = write_file(tmp_path / "local", 60_000_000), tmp_path / "back"
    facility.put(local, "/f")
    tap = Wiretap(facility.root.removeprefix("root://"))
    run("xrdcp", "-s", "-f", "-S", "4", f"{tap.url}//f", back, env=trust(facility))
    assert is_same(local, back)
    assert len(tap.heard) > 1, "further connections were bound"
    for heard in tap.heard:
        # The handshake and the question for the protocol; what follows is a record of a TLS handshake.
        assert heard[22:24] == struct.pack(">H", frames.PROTOCOL)
        assert len(heard) <= 44 or heard[44] == 0x16, bytes(heard[44:80])
    tap.close()


def test_what_is_sent_in_plain_text_with_the_wish_for_tls_is_never_carried_out(facility: Facility) -> None:
    with greeted(facility) as raw:
        wish = struct.pack(">HHiBB10xi", 1, frames.PROTOCOL, 0x520, WANT, 3, 0)
        login = struct.pack(">HHi8sBBBBi", 2, frames.LOGIN, 1, b"root", 0, 0, 5, 0, 0)
        raw.send(wish + login)
        assert raw.answer().stream == 1
        # An alert of TLS, if anything, and the end: no answer to the login.
        rest = b""
        while more := raw.socket.recv(1000):
            rest += more
        assert rest[:1] in (b"", b"\x15")


class Records:
    """TLS over a connection, driven record by record."""

    def __init__(self, raw: frames.Raw, authority: Path) -> None:
        self.raw, self.came, self.leaves = raw, ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=authority)
        self.tls = context.wrap_bio(self.came, self.leaves, server_hostname="localhost")
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.exchange()
            else:
                break

    def exchange(self) -> None:
        """Send what is to be sent and receive one record."""
        self.raw.send(self.leaves.read())
        head = self.raw.receive(5)
        self.came.write(head + self.raw.receive(int.from_bytes(head[3:])))

    def next(self) -> bytes:
        """Receive the bytes of the next record that has any."""
        while True:
            with suppress(ssl.SSLWantReadError):
                return self.tls.read(1 << 20)
            self.exchange()


def test_each_answer_has_a_tls_record_of_its_own(facility: Facility) -> None:
    """XrdCl waits for the socket when it has taken an answer: one that OpenSSL has decrypted already is never seen."""
    with greeted(facility) as raw:
        assert protocol(raw, WANT) & TLS_NOW
        records = Records(raw, facility.directory / "tls" / "ca.pem")
        login = struct.pack(">HHi8sBBBBi", 1, frames.LOGIN, 1, b"root", 0, 0, 5, 0, 0)
        stats = b"".join(struct.pack(">HH16si", 2 + n, frames.STAT, b"", 1) + b"/" for n in range(20))
        pings = b"".join(struct.pack(">HH16si", 100 + n, frames.PING, b"", 0) for n in range(20))
        proof = struct.pack(">HH12x4si", 1, frames.AUTH, b"host", 5) + b"host\0"
        records.tls.write(login + proof + stats + pings)
        for _ in range(42):
            answer = records.next()
            _, status, length = struct.unpack(">HHi", answer[:8])
            assert (status, len(answer)) == (frames.OK, 8 + length), answer


def test_noise_instead_of_a_handshake_disturbs_nobody(facility: Facility) -> None:
    for noise in (b"", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x16\x03\x01\x00\x01\x01", b"\0" * 5000):
        with greeted(facility) as raw:
            assert protocol(raw, WANT) & TLS_NOW
            with suppress(OSError):
                raw.socket.sendall(noise)
                raw.socket.shutdown(socket.SHUT_WR)
                while raw.socket.recv(1000):
                    pass
    assert run("xrdfs", facility.endpoint("roots"), "stat", "/", env=trust(facility)).code == 0


# Tokens


def refused(outcome: Outcome, *words: str) -> None:
    """Check that a person can read why it was refused."""
    assert str(NOT_AUTHORIZED) in outcome.text or "permission denied" in outcome.text, outcome
    for word in words:
        assert word in outcome.text, outcome


RIGHTS = {
    "read": {"read", "list"},
    "create": {"create", "mkdir", "rename"},
    "modify": {"create", "mkdir", "replace", "rename", "remove", "chmod"},
    "stage": {"prepare"},
}


@pytest.mark.parametrize("scope", sorted(RIGHTS))
def test_a_token_allows_what_its_scope_says_and_nothing_else(
    xrootd: Facility, sample: Path, tmp_path: Path, scope: str
) -> None:
    url = xrootd.endpoint("roots")
    for name in ("read", "replaced", "renamed", "removed", "chmoded"):
        xrootd.put_bytes(name.encode(), f"/data/{name}")
    xrootd.put_bytes(b"private", "/other/file")
    env = bearing(xrootd, token(xrootd, f"storage.{scope}:/data"))
    attempts: dict[str, tuple[str | Path, ...]] = {
        "read": ("xrdcp", "-s", "-f", f"{url}//data/read", tmp_path / "back"),
        "list": ("xrdfs", url, "ls", "/data"),
        "create": ("xrdcp", "-s", sample, f"{url}//data/new"),
        "mkdir": ("xrdfs", url, "mkdir", "/data/directory"),
        "replace": ("xrdcp", "-s", "-f", sample, f"{url}//data/replaced"),
        "rename": ("xrdfs", url, "mv", "/data/renamed", "/data/renamed2"),
        "remove": ("xrdfs", url, "rm", "/data/removed"),
        "chmod": ("xrdfs", url, "chmod", "/data/chmoded", "rw-r-----"),
        "prepare": ("xrdfs", url, "prepare", "-s", "/data/read"),
    }
    for name, words in attempts.items():
        outcome = run(*words, env=env, check=False)
        assert (outcome.code == 0) == (name in RIGHTS[scope]), f"{scope}: {name}: {outcome}"
    assert run("xrdfs", url, "stat", "/data/read", env=env).code == 0
    for words in (("xrdfs", url, "stat", "/other/file"), ("xrdcp", "-s", f"{url}//other/file", "-")):
        refused(fails(*words, env=env))
    if scope == "create":
        assert xrootd.read("/data/replaced") == b"replaced"


def test_a_token_is_its_user(xrootd: Facility, sample: Path) -> None:
    url = xrootd.endpoint("roots")
    xrootd.bp("mkdir", "/home")
    xrootd.bp("chmod", "777", "/home")
    env = bearing(xrootd, token(xrootd, user="alice"))
    run("xrdcp", "-s", sample, f"{url}//home/hers", env=env)
    assert xrootd.stat("/home/hers")["owner"] == "alice"
    xrootd.bp("mkdir", "/mine")
    fails("xrdcp", "-s", sample, f"{url}//mine/hers", env=env)


def test_bad_tokens_are_refused_with_the_reason(strict: Facility, make_facility: MakeFacility) -> None:
    url = strict.endpoint("roots")
    other = make_facility()
    good = token(strict, "storage.read:/")
    head, claims, signature = good.split(".")
    for text, word in [
        (token(strict, lifetime="1ms"), "has expired"),
        (token(strict, audience="https://elsewhere.example.org"), "another audience"),
        (token(other), "not signed by this facility"),
        (f"{head}.{claims}.{signature[:-1]}{'A' if signature[-1] != 'A' else 'B'}", "token"),
        (f"eyJhbGciOiJub25lIn0.{claims}.", "only tokens of this facility"),
        ("not.a.token", "malformed"),
    ]:
        refused(fails("xrdfs", url, "stat", "/", env=bearing(strict, text)), word)
    refused(fails("xrdfs", url, "stat", "/", env=trust(strict)), "requires a token")
    assert run("xrdfs", url, "stat", "/", env=bearing(strict, good)).code == 0


def test_a_token_in_the_url_is_honoured_and_binds(strict: Facility, tmp_path: Path) -> None:
    url, env = strict.endpoint("roots"), trust(strict)
    strict.put_bytes(b"hello", "/data/f")
    opaque = f"?authz=Bearer%20{token(strict, 'storage.read:/data')}"
    run("xrdcp", "-s", f"{url}//data/f{opaque}", tmp_path / "back", env=env)
    assert (tmp_path / "back").read_bytes() == b"hello"
    assert run("xrdfs", url, "stat", f"/data/f{opaque}", env=env).code == 0
    refused(fails("xrdcp", "-s", "-f", tmp_path / "back", f"{url}//data/f{opaque}", env=env), "modify")
    # The narrower one counts, whatever the session was given.
    narrow = f"?authz=Bearer%20{token(strict, 'storage.read:/elsewhere')}"
    refused(fails("xrdcp", "-s", f"{url}//data/f{narrow}", tmp_path / "back2", env=bearing(strict, token(strict))))


def test_who_demands_tokens_makes_clients_turn_to_tls(strict: Facility) -> None:
    env = bearing(strict, token(strict))
    assert run("xrdfs", strict.root, "stat", "/", env=env).code == 0
    # Without TLS, which only a client on this host may do, nobody is anybody.
    with greeted(strict) as raw:
        raw.request(frames.LOGIN, struct.pack(">i8sBBBB", 1, b"root", 0, 0, 5, 0))
        assert b"&P=ztn,0:4096:&P=host" in raw.answer().body
        raw.request(frames.STAT, b"", b"/")
        assert raw.answer().status == frames.ERROR
    with greeted(strict) as raw:
        raw.request(frames.LOGIN, struct.pack(">i8sBBBB", 1, b"root", 0, 0, 5, 0))
        raw.answer()
        raw.request(frames.AUTH, b"\0" * 12 + b"host", b"host\0")
        assert raw.answer().status == frames.OK
        raw.request(frames.STAT, b"", b"/")
        assert raw.answer().error == NOT_AUTHORIZED


def test_our_own_commands_need_no_token_where_the_key_can_be_read(strict: Facility, sample: Path) -> None:
    strict.bp("put", sample, "/f")
    assert "/f" in strict.bp("ls", "/").out or "f" in strict.bp("ls", "/").out
    assert strict.bp("cat", "/f", check=False).code == 0
    strict.bp("rm", "/f")
    strict.bp("status")


def curl(facility: Facility, path: str, *words: str | Path, bearer: str = "") -> int:
    """Make a request at the HTTPS door; returns its status."""
    authority = facility.directory / "tls" / "ca.pem"
    fields = ("-H", f"Authorization: Bearer {bearer}") if bearer else ()
    url = facility.endpoint("https") + path
    found = run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", authority, *fields, *words, url)
    return int(found.out)


def test_tokens_at_the_other_door(strict: Facility) -> None:
    need("curl")
    strict.put_bytes(b"hello", "/data/f")
    assert curl(strict, "/data/f") == 401
    assert curl(strict, "/metrics") == 200
    assert curl(strict, "/api/v1/bill") == 401
    assert curl(strict, "/data/f", bearer="a.b.c") == 401
    assert curl(strict, "/data/f", bearer=token(strict)) == 200
    assert curl(strict, "/api/v1/bill", bearer=token(strict)) == 200
    assert curl(strict, "/data/f", "-X", "OPTIONS") in (200, 204)


@pytest.mark.parametrize("scope", ["read", "create", "modify"])
def test_scopes_at_the_other_door(facility: Facility, sample: Path, scope: str) -> None:
    need("curl")
    for name in ("read", "replaced", "moved", "removed"):
        facility.put_bytes(name.encode(), f"/data/{name}")
    facility.put_bytes(b"private", "/other/file")
    bearer = token(facility, f"storage.{scope}:/data")
    allowed = {
        "read": {"get", "list"},
        "create": {"create", "mkcol", "move"},
        "modify": {"create", "mkcol", "replace", "move", "delete"},
    }[scope]
    host = facility.endpoint("https")
    attempts: dict[str, tuple[str, tuple[str | Path, ...]]] = {
        "get": ("/data/read", ()),
        "list": ("/data", ("-X", "PROPFIND", "-H", "Depth: 1")),
        "create": ("/data/new", ("-T", sample)),
        "mkcol": ("/data/directory", ("-X", "MKCOL")),
        "replace": ("/data/replaced", ("-T", sample)),
        "move": ("/data/moved", ("-X", "MOVE", "-H", f"Destination: {host}/data/moved2")),
        "delete": ("/data/removed", ("-X", "DELETE")),
    }
    for name, (path, words) in attempts.items():
        status = curl(facility, path, *words, bearer=bearer)
        assert (status < 300) == (name in allowed), f"{scope}: {name}: {status}"
    assert curl(facility, "/data/read", "-I", bearer=bearer) == 200
    assert curl(facility, "/other/file", bearer=bearer) == 403
    outside = ("-X", "MOVE", "-H", f"Destination: {host}/other/x")
    assert curl(facility, "/data/read", *outside, bearer=bearer) == 403
    assert curl(facility, "/api/v1/bill", bearer=bearer) == 403
    if scope == "create":
        assert facility.read("/data/replaced") == b"replaced"


@pytest.mark.parametrize("marker", [(), ("-H", "Credential: none")])
def test_a_copy_at_the_other_door_needs_rights_at_both_ends(facility: Facility, marker: tuple[str, ...]) -> None:
    need("curl")
    facility.put_bytes(b"inside", "/in/file")
    facility.put_bytes(b"private", "/private/secret")
    host = facility.endpoint("https")
    bearer = token(facility, "storage.read:/in", "storage.create:/in")
    create = token(facility, "storage.create:/in")

    def copies(path: str, end: str, other: str, bearer: str = bearer) -> int:
        return curl(facility, path, "-X", "COPY", "-H", f"{end}: {other}", *marker, bearer=bearer)

    for base in ("", host, host.replace("https:", "davs:"), host.replace("https:", "http:")):
        assert copies("/in/x", "Source", f"{base}/private/secret") == 403, base
        assert copies("/in/x", "Source", f"{base}/in/file", create) == 403, base
        assert copies("/private/secret", "Destination", f"{base}/in/x") == 403, base
        assert copies("/in/file", "Destination", f"{base}/private/x") == 403, base
    assert curl(facility, "/in/x", bearer=bearer) == 404
    for number, base in enumerate(("", host)):
        assert copies(f"/in/pulled{number}", "Source", f"{base}/in/file") == 201
        assert copies("/in/file", "Destination", f"{base}/in/pushed{number}") == 201
    for name in ("pulled0", "pulled1", "pushed0", "pushed1"):
        assert facility.read(f"/in/{name}") == b"inside"


def test_a_copy_does_not_reach_what_only_this_host_may_see(strict: Facility) -> None:
    need("curl")
    strict.bp("mkdir", "/in")
    bearer = token(strict, "storage.create:/in", "storage.read:/in")
    port = strict.http.rsplit(":", 1)[1]
    authority = strict.directory / "tls" / "ca.pem"
    words = ("curl", "-sS", "--cacert", authority, "-X", "COPY", "-H", f"Authorization: Bearer {bearer}")
    url = strict.endpoint("https") + "/in/x"
    for name in ("127.0.0.1", "localhost", "0.0.0.0", "127.1", "[::ffff:127.0.0.1]"):
        for path in ("/console", "/metrics", "/api/v1/status"):
            text = run(*words, "-H", f"Source: http://{name}:{port}{path}", url).out
            assert re.search("^failure: this server does not connect to", text, re.M), text
    strict.put_bytes(b"bytes", "/in/file")
    text = run(*words, "-H", f"Destination: http://127.0.0.1:{port}/y", strict.endpoint("https") + "/in/file").out
    assert re.search("^failure: this server does not connect to", text, re.M), text
    assert curl(strict, "/in/x", bearer=bearer) == 404


def test_proofs_without_a_login_are_refused(facility: Facility) -> None:
    with greeted(facility) as raw:
        raw.request(frames.AUTH, b"\0" * 12 + b"ztn\0", b"ztn\0\0T\0\0\0\x04abc\0")
        assert raw.answer().status == frames.ERROR
    with frames.Raw(facility.root).login() as raw:
        raw.request(frames.AUTH, b"\0" * 12 + b"ztn\0", b"")
        assert raw.answer().status == frames.ERROR
        raw.request(frames.PING)
        assert raw.answer().status == frames.OK


def test_tokens_are_made_by_who_can_read_the_key(make_facility: MakeFacility) -> None:
    facility = make_facility()
    made = json.loads(facility.bp("--json", "token", "create", "--scope=storage.read:/a b").out)
    assert made["scope"] == "storage.read:/a%20b" or "storage.read" in made["scope"]
    assert (facility.directory / "key").stat().st_mode & 0o777 == 0o600
    for words in (("--lifetime=0s",), ("--lifetime=500d",), ("--scope=openid",), ("--scope=storage.read",)):
        assert facility.bp_fails("token", "create", *words).code == 2
    assert fails(facility.bin / "bp", "--facility=http://127.0.0.1:9", "token", "create").code == 2


# Signatures


def signed(raw: frames.Raw, code: int, data: bytes, number: int, claimed: bytes | None = None) -> None:
    """Send a request with its signature in front; `claimed` is what was signed instead."""
    head = struct.pack(">HH16si", 7, code, b"", len(data))
    text = data if claimed is None else claimed
    digest = hashlib.sha256(struct.pack(">Q", number) + head + text).digest()
    raw.request(SIGVER, struct.pack(">HBBQB3x", code, 0, 0, number, 1), digest)
    raw.request(code, b"", data)


def test_signed_requests_are_checked(facility: Facility) -> None:
    with frames.Raw(facility.root).login() as raw:
        signed(raw, SET, b"appid one", 1)
        assert raw.answer().status == frames.OK
        signed(raw, SET, b"appid two", 2, claimed=b"appid 222")
        assert raw.answer().error == SIGNATURE
        signed(raw, SET, b"appid old", 2)
        assert raw.answer().error == SIGNATURE
        signed(raw, SET, b"appid three", 3)
        assert raw.answer().status == frames.OK
        raw.request(SET, b"", b"appid unsigned")
        assert raw.answer().status == frames.OK
