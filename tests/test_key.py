"""The facility's key: who never sees it, how long what it signs is good, and how it is replaced and revoked."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clients import DEADLINE, fails, need, run
from conftest import SMALL, MakeFacility
from facility import ApiError, Facility
from host import hosts, invite, redirect

DAY = 86_400


@pytest.fixture
def strict(make_facility: MakeFacility) -> Facility:
    """Start a facility that demands tokens, always at the same ports."""
    facility = make_facility()
    facility.configure("require_token", "true")
    facility.configure("beside_head", "true")
    facility.keep_ports(https=True)
    facility.up()
    facility.call = partial(facility.call, at_socket=True)  # type: ignore[method-assign]
    return facility


def generations(facility: Facility) -> list[dict[str, Any]]:
    """Read the file of the key."""
    found: list[dict[str, Any]] = json.loads((facility.directory / "key").read_bytes())["generations"]
    return found


def signed(facility: Facility, **claims: int | str) -> str:
    """Make a token that says this, with the newest generation, as whoever has the key can."""

    def part(value: dict[str, int | str]) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    newest = generations(facility)[-1]
    key = hmac.digest(bytes.fromhex(newest["key"]), b"backplane bearer token 1", hashlib.sha256)
    header = part({"alg": "HS256", "typ": "JWT", "kid": str(newest["number"])})
    facility_id = json.loads((facility.directory / "endpoints.json").read_text())["facility"]
    text = header + b"." + part({"iss": facility_id, "sub": facility.owner, **claims})
    mac = base64.urlsafe_b64encode(hmac.digest(key, text, hashlib.sha256)).rstrip(b"=")
    return (text + b"." + mac).decode()


def token(facility: Facility) -> str:
    """Make a token of the owner as a person does."""
    return facility.bp("token", "create", "--lifetime=1h").out.strip()


def answer(facility: Facility, bearer: str) -> str:
    """Tell the status with which a list of the root is answered to who shows a token."""
    words = ("-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Authorization: Bearer {bearer}")
    authority = facility.directory / "tls" / "ca.pem"
    return run("curl", *words, "--cacert", authority, f"{facility.endpoint('https')}/").out


def post(facility: Facility, call: str, bearer: str, **arguments: object) -> dict[str, Any]:
    """Make a call by https with a token; what is answered, a refusal as well."""
    words = ("-H", "content-type: application/json", "-H", f"Authorization: Bearer {bearer}")
    data = ("--data", json.dumps(arguments), "--cacert", facility.directory / "tls" / "ca.pem")
    told: dict[str, Any] = json.loads(
        run("curl", "-s", *words, *data, f"{facility.endpoint('https')}/api/v1/{call}").out
    )
    return told


@contextmanager
def squatting(ports: list[int]) -> Iterator[list[bytes]]:
    """Listen where a daemon did, and keep what comes: a list to which everything received is added at the end."""
    received: list[bytes] = []
    listeners = [socket.create_server(("127.0.0.1", port)) for port in ports]
    try:
        yield received
        for listener in listeners:
            listener.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    connection, _ = listener.accept()
                    received.append(_all_of(connection))
    finally:
        for listener in listeners:
            listener.close()


def _all_of(connection: socket.socket) -> bytes:
    came = b""
    with connection, suppress(BlockingIOError, ConnectionResetError):
        connection.setblocking(False)
        while data := connection.recv(1 << 16):
            came += data
    return came or b"connected"


def test_who_squats_the_ports_of_a_dead_daemon_learns_nothing(strict: Facility, tmp_path: Path) -> None:
    """Clients first see that nobody answers at the socket, where only the daemon can."""
    strict.put_bytes(b"data", "/f")
    ports = [int(strict.endpoint(door).rpartition(":")[2]) for door in ("root", "http", "https")]
    strict.kill()
    source = tmp_path / "source"
    source.write_bytes(b"data")
    asking = "import backplane, sys; backplane.connect(sys.argv[1]).read_bytes('/f')"
    with squatting(ports) as received:
        for words in (
            ("status",),
            ("ls", "/"),
            ("get", "/f", str(tmp_path / "back")),
            ("cat", "/f"),
            ("put", str(source), "/g"),
            ("submit", "--", "true"),
            ("host", "invite", "--role=disk"),
            ("key", "rotate"),
            ("backup", str(tmp_path / "backup")),
        ):
            outcome = strict.bp_fails(*words)
            assert "is not running" in outcome.err, outcome
            assert "bp up" in outcome.err, outcome
        assert "is not running" in fails(sys.executable, "-c", asking, strict.directory).err
    assert received == []


def test_a_copy_by_url_shows_a_squatter_no_secret(strict: Facility, tmp_path: Path) -> None:
    """Who names a server by its URL asks that server, whoever it is; the directory has no part in it."""
    url = strict.url("/f")
    strict.kill()
    with socket.create_server(("127.0.0.1", int(strict.root.rpartition(":")[2]))) as squatter:
        words: list[str | Path] = [strict.bin / "bp", "--facility", strict.directory, "cp", url, tmp_path / "back"]
        client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        squatter.settimeout(DEADLINE)
        connection, _ = squatter.accept()
        connection.settimeout(DEADLINE)
        first = connection.recv(1 << 16)
        client.kill()
        client.wait()
        came = first + _all_of(connection)
    secrets = [generation["key"] for generation in generations(strict)]
    assert first
    assert b"authz" not in came
    assert b"Bearer" not in came
    assert not any(bytes.fromhex(key) in came or key.encode() in came for key in secrets)


def test_no_door_takes_the_key(strict: Facility) -> None:
    need("curl")
    for generation in generations(strict):
        assert answer(strict, generation["key"]) == "401"
        words = ("--unix-socket", strict.directory / "bp.sock", "-H", f"Authorization: Bearer {generation['key']}")
        assert run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *words, "http://localhost/").out == "401"


def test_tokens_are_good_for_no_longer_than_the_bound(strict: Facility) -> None:
    """Also those that are signed as they should be: who had the key once made them last for ever."""
    need("curl")
    now = int(time.time())
    good = {"iat": now, "nbf": now, "exp": now + 30 * DAY}
    assert answer(strict, signed(strict, **good)) == "200"
    for times in (
        {**good, "exp": now + 3650 * DAY},
        {**good, "exp": 1 << 62},
        {**good, "exp": (1 << 63) - 1},
        {"exp": now + 60},
        {"nbf": now, "exp": now + 60},
        {"iat": now + 3650 * DAY, "nbf": now, "exp": now + 3650 * DAY},
    ):
        assert answer(strict, signed(strict, **times)) == "401", times
    for lifetime in ("31d", "3650d"):
        refusal = strict.bp_fails("token", "create", f"--lifetime={lifetime}")
        assert "is not within 30d" in refusal.err
        assert "tokens.lifetime_max" in refusal.err
        with pytest.raises(ApiError, match="is not within 30d"):
            strict.call("create_token", user="ann", lifetime=int(lifetime[:-1]) * DAY * 1000)
    strict.down()
    strict.configure("lifetime_max", '"1h"')
    strict.up()
    assert answer(strict, signed(strict, iat=now, nbf=now, exp=now + 2 * 3600)) == "401"
    # Those that the daemon makes by itself fit.
    strict.put_bytes(b"data", "/f")
    assert strict.bp("cat", "/f").out == "data"
    job = strict.submit("--output", "out:/out", "--", "/bin/sh", "-c", "echo done >out")
    assert strict.wait_job(job)["state"] == "done"


def test_users_make_tokens_for_themselves_only(strict: Facility) -> None:
    """By a token they make one that is good for no longer; by one for files or for a job none at all."""
    need("curl")
    ann = strict.call("create_token", user="ann", lifetime=600_000)

    def ask(bearer: str, **wish: object) -> dict[str, Any]:
        return post(strict, "create_token", bearer, **wish)

    longer = ask(ann["token"], user="ann", lifetime=DAY * 1000)
    assert longer["expires"] // 1000 <= ann["expires"] // 1000
    assert ask(ann["token"], user=strict.owner)["kind"] == "permission"
    assert ask(ann["token"], user="ann", groups=["admins"])["kind"] == "permission"
    scoped = ask(ann["token"], user="ann", scopes="storage.read:/")["token"]
    assert ask(scoped, user="ann")["kind"] == "permission"
    for call in ("keys", "rotate_key", "revoke_key"):
        told = post(strict, call, ann["token"], grace=0, generation=1)
        assert "may not manage the facility's key" in told["what"]


class Shell:
    """An interactive xrdfs: one session that goes on."""

    def __init__(self, facility: Facility, bearer: str) -> None:
        trust = {"X509_CERT_DIR": str(facility.directory / "tls" / "trust"), "BEARER_TOKEN": bearer, "TERM": "dumb"}
        command = ["xrdfs", facility.endpoint("roots")]
        self.process = subprocess.Popen(
            command, stdin=-1, stdout=-1, stderr=subprocess.STDOUT, env={**os.environ, **trust}
        )

    def ask(self, command: str, until: str) -> str:
        """Give a command and read until an answer has come."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()
        text, end = "", time.monotonic() + DEADLINE
        while until not in text:
            left = end - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(left, 0))
            assert ready, f"no {until!r} in {text!r}"
            text += self.process.stdout.read1().decode()  # type: ignore[attr-defined]
        return text

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()


def test_old_tokens_verify_until_the_date_and_revoked_ones_end_at_once(strict: Facility) -> None:
    need("curl", "xrdfs")
    old = token(strict)
    session = Shell(strict, old)
    try:
        assert "Flags" in session.ask("stat /", "Flags")
        rotated = strict.bp("key", "rotate", "--grace=7d")
        assert "generation 2 signs from now on" in rotated.out
        first, second = strict.bp_json("key", "list")["generations"]
        assert (first["state"], second["state"]) == ("verifies", "current")
        assert 6.9 * DAY < first["until"] / 1000 - time.time() < 7.1 * DAY
        new = token(strict)
        assert answer(strict, old) == answer(strict, new) == "200"
        assert "Flags" in session.ask("stat /", "Flags")
        # Neither a restart nor an upgrade forgets a generation.
        assert (strict.directory / "key").stat().st_mode & 0o777 == 0o600
        strict.bp("key", "revoke", "1")
        assert "generation 1" in session.ask("stat /", "rror")
        assert (answer(strict, old), answer(strict, new)) == ("401", "200")
    finally:
        session.close()
    assert "key" not in generations(strict)[0], "its bytes are gone"
    assert "has already expired" in strict.bp_fails("key", "revoke", "1").err
    strict.down()
    strict.up()
    assert (answer(strict, old), answer(strict, new)) == ("401", "200")
    noted = strict.bp("audit").out
    assert "rotate_key" in noted
    assert "generation=1" in noted
    # The newest one is replaced when it is revoked.
    strict.bp("key", "revoke", "2")
    assert answer(strict, new) == "401"
    assert answer(strict, token(strict)) == "200"
    assert strict.bp("ls", "/").code == 0


def test_an_old_key_file_is_the_first_generation(strict: Facility) -> None:
    need("curl")
    strict.down()
    key = bytes.fromhex(generations(strict)[0]["key"])
    (strict.directory / "key").write_bytes(key)
    strict.up()
    old = token(strict)
    assert answer(strict, old) == "200"
    strict.bp("key", "rotate")
    assert [one["number"] for one in generations(strict)] == [1, 2]
    assert answer(strict, old) == "200"


def test_jobs_that_run_get_new_tokens_after_a_revocation(strict: Facility, shared: Path) -> None:
    """And they end as if nothing had happened: what they store is stored."""
    go = shared / "go"
    waiting = f'until [ -e "{go}" ]; do sleep 0.1; done; echo done >out'
    job = strict.submit("--output", "out:/out", "--", "/bin/sh", "-c", waiting)
    strict.wait_until("the job runs", lambda: strict.job(job)["state"] == "running")
    strict.bp("key", "revoke", "1")
    go.touch()
    assert strict.wait_job(job)["state"] == "done"
    assert strict.bp("cat", "/out").out == "done\n"


def test_hosts_get_their_new_keys_and_revoked_capabilities_end(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("curl")
    facility = make_facility(**{**SMALL, "disk_size": "1MiB"})
    facility.keep_ports(https=True)
    facility.up()
    facility.bp("pool", "set", "main", "--server-moves=0")
    facility.bp("mkdir", "/far")
    authority = facility.directory / "tls" / "ca.pem"
    source = tmp_path / "source"
    source.write_bytes(b"x" * (2 << 20))

    def place() -> str:
        return redirect(f"{facility.endpoint('https')}/far/f", authority)

    def status(url: str) -> str:
        words = ("-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", authority)
        return run("curl", *words, f"{url}&bp.direct=1").out

    with hosts(facility, tmp_path, "d1") as (host,):
        facility.put(source, "/far/f")

        def held() -> int:
            keys: list[dict[str, int]] = json.loads((host.directory / "cap.key").read_text())["keys"]
            return max(one["generation"] for one in keys)

        old = place()
        assert status(old) == "200"
        facility.bp("key", "rotate")
        # Whatever the host has by now: what it is shown holds there.
        assert status(place()) == status(old) == "200"
        facility.wait_until("the host has the new key", lambda: held() == 2)
        assert status(place()) == status(old) == "200"
        invited = invite(facility)
        facility.bp("key", "revoke", "1")
        file = host.directory / "cap.key"
        facility.wait_until("the old key is gone", lambda: len(json.loads(file.read_text())["keys"]) == 1)
        assert status(old) not in ("200", "206")
        assert status(place()) == "200"
        assert (host.directory / "cap.key").stat().st_mode & 0o777 == 0o600
        # One that was down meanwhile fetches it when it comes back, before anything else goes wrong.
        host.kill()
        facility.bp("key", "revoke", "2")
        host.up()
        facility.wait_until("the host has the third key", lambda: held() == 3)
        assert status(place()) == "200"
        # The head forgets what a host has; the host says it again.
        facility.down()
        facility.up()
        facility.wait_until("the host is back", host.is_available)
        assert status(place()) == "200"
        late = run(
            facility.bin / "bpd", "join", tmp_path / "d2", f"--token={invited}", "--role=disk", "--name=d2",
            "--root-port=0", "--https-port=0", "--only", check=False,
        )  # fmt: skip
        assert "has expired" in late.err, "an open invitation ends with the key"
