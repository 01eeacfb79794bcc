"""The catalogue: in a database, saved and restored while people work, moved, and kept by one head of several."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients import DEADLINE, fails, run, until
from conftest import SMALL, MakeFacility, clean_up
from facility import Facility, free_ports
from host import Host
from postgres import Postgres, postgres

RESTORED = "the catalogue was restored; nothing is deleted|older than its disks|differs from the catalogue"
"""What the disk server and the head say of a catalogue that went back."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """Run a database server for the tests of this file."""
    with postgres() as running:
        yield running


def bpd(facility: Facility, *words: str | Path) -> str:
    """Run the daemon's program on a facility that is down; what it says."""
    return run(facility.bin / "bpd", *words).text


def test_a_facility_lives_in_a_database(make_facility: MakeFacility, server: Postgres, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret of the database\n")
    secret.chmod(0o600)
    facility = make_facility(catalogue=server.database(), catalogue_password=str(secret), cache="8MiB")
    facility.up()
    facility.put_bytes(b"first", "/a/first")
    facility.kill()
    facility.up()
    facility.put_bytes(b"second", "/a/second")
    assert (facility.read("/a/first"), facility.read("/a/second")) == (b"first", b"second")
    assert not (facility.directory / "catalogue.sqlite").exists()
    facility.down()
    for file in (facility.directory / "facility.toml", facility.log):
        assert "s3cret" not in file.read_text()
    secret.chmod(0o644)
    refused = fails(facility.bin / "bpd", "run", facility.directory, "--root-port=0", "--http-port=0")
    assert "other users can read the password" in refused.text


def test_a_password_in_the_url_is_refused_and_not_shown(tmp_path: Path, server: Postgres) -> None:
    facility = Facility(tmp_path / "f")
    url = server.database().replace("@", ":s3cret@", 1)
    text = fails(facility.bin / "bp", "create", facility.directory, "--catalogue", url).text
    assert "contains a password" in text
    assert "s3cret" not in text
    assert not facility.directory.exists()


DATABASE_HOST = "db.example.org"
"""Whom the certificate of the server with TLS names."""


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[Postgres, Path, Path]]:
    """Run a database server that lets in by TLS only; its authority, and the file with its password."""
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    with postgres() as running:
        ca = running.certify(f"DNS:{DATABASE_HOST}")
        running.listen("s3cret", tls=True)
        yield running, ca, secret


def over_network(server: Postgres, host: str, *settings: str) -> str:
    """Make a database that is reached as one on another host is: its address is not said to be loopback."""
    return f"{server.database(host)}?{'&'.join(('hostaddr=0.0.0.0', *settings))}"


def test_a_facility_lives_in_a_database_over_tls(
    make_facility: MakeFacility, secured: tuple[Postgres, Path, Path], tmp_path: Path
) -> None:
    server, ca, secret = secured
    url = over_network(server, DATABASE_HOST, f"sslrootcert={ca}")
    facility = make_facility(catalogue=url, catalogue_password=str(secret))
    facility.up()
    facility.put_bytes(b"first", "/a/first")
    facility.bp("backup", tmp_path / "backup")
    facility.kill()
    facility.up()
    assert facility.read("/a/first") == b"first"
    facility.down()
    bpd(facility, "migrate", facility.directory, "--to", "file")
    # By the authorities of the system, and with whoever answers.
    system = over_network(server, DATABASE_HOST)
    whoever = over_network(server, "another.example.org", "sslmode=require")
    for url in (system, whoever):
        words = ("migrate", facility.directory, "--to", url, "--catalogue-password", secret)
        run(facility.bin / "bpd", *words, env={"SSL_CERT_FILE": str(ca)})
    facility.environment = {"SSL_CERT_FILE": "/dev/null"}
    facility.up()
    assert facility.read("/a/first") == b"first"
    facility.down()
    for file in (facility.directory / "facility.toml", facility.log):
        assert "s3cret" not in file.read_text()


def test_a_database_that_does_not_prove_who_it_is_is_told_nothing(
    secured: tuple[Postgres, Path, Path], tmp_path: Path
) -> None:
    server, ca, secret = secured
    facility = Facility(tmp_path / "f")

    def refused(url: str, *words: str) -> None:
        options = ("--catalogue", url, "--catalogue-password", secret)
        text = fails(facility.bin / "bp", "create", facility.directory, *options).text
        for word in words:
            assert word in text
        assert "s3cret" not in text
        assert not list(facility.directory.glob("*")), "nothing is made before"

    ours = f"sslrootcert={ca}"
    refused(over_network(server, DATABASE_HOST), "of an authority that is not trusted", "sslrootcert=/")
    wrong = "certificate of its server is for another name"
    refused(over_network(server, "other.example.org", ours), wrong, DATABASE_HOST, "get a certificate for this name")
    refused(f"{server.database('127.0.0.1')}?sslmode=verify-full&{ours}", wrong, "127.0.0.1")
    refused(over_network(server, DATABASE_HOST, "sslrootcert=/nowhere/ca.pem"), "/nowhere/ca.pem", "PEM file")
    refused(over_network(server, DATABASE_HOST, "sslmode=prefer"), "not offered", "verify-full")
    refused(server.database("127.0.0.1"), "no encryption")
    secret.write_text("s3cret but another\n")
    refused(over_network(server, DATABASE_HOST, ours), "password authentication failed")
    secret.write_text("s3cret\n")
    for end in ("crt", "key"):
        shutil.copy(server.directory / f"ca.{end}", server.directory / f"host.{end}")
    server.listen("s3cret", tls=True)
    refused(over_network(server, DATABASE_HOST, ours), "is that of an authority", "CA:FALSE")
    server.listen("s3cret", tls=False)
    for setting in (ours, "sslmode=require"):
        refused(over_network(server, DATABASE_HOST, setting), "its server has no TLS", "ssl = on", "sslmode=disable")
    refused(over_network(server, DATABASE_HOST, "sslmode=disable"), "no encryption")


@contextmanager
def writing(facility: Facility, first: str) -> Iterator[list[str]]:
    """Make directories one after the other meanwhile; those that were acknowledged."""
    made: list[str] = []
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            path = f"{first}{len(made)}"
            facility.call("mkdir", path=path, mode=0o755, parents=False)
            made.append(path)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield made
    finally:
        is_over.set()
        thread.join()


def lose_catalogue(facility: Facility) -> None:
    """Take the catalogue away from a facility that is down."""
    for file in facility.directory.glob("catalogue.sqlite*"):
        file.unlink()


def unknown(facility: Facility) -> int:
    """Tell how many objects the catalogue does not know, once all disk servers have said what they have."""

    def is_complete() -> bool:
        restored = facility.status()["restored"]
        return all(partition["is_complete"] for partition in restored["partitions"])

    until("all disk servers have said what they have", is_complete)
    return sum(partition["objects"] for partition in facility.status()["restored"]["partitions"])


def test_a_backup_is_taken_while_people_work_and_comes_back(facility: Facility, tmp_path: Path) -> None:
    facility.expect_log(RESTORED)
    backup = tmp_path / "backup"
    facility.put_bytes(b"before", "/before")
    facility.put_bytes(b"doomed", "/doomed")
    with writing(facility, "/d") as made:
        facility.bp("backup", backup)
        count = len(made)
    assert len(made) >= count > 0
    assert "add --replace" in facility.bp_fails("backup", backup).text
    facility.bp("backup", "--replace", backup)
    assert backup.stat().st_mode & 0o077 == 0
    facility.put_bytes(b"after", "/after")
    facility.bp("rm", "/doomed")
    facility.wait_removals()
    lying = facility.objects_on_disk()
    facility.down()
    assert "exists" in fails(facility.bin / "bpd", "restore", facility.directory, backup).text
    lose_catalogue(facility)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(backup.read_bytes()[:-1])
    assert "the backup is not complete" in fails(facility.bin / "bpd", "restore", facility.directory, damaged).text
    bpd(facility, "restore", facility.directory, backup)

    facility.up()
    assert facility.read("/before") == b"before"
    assert {facility.stat(path)["kind"] for path in made} == {"directory"}
    assert "does not exist" in facility.bp_fails("stat", "/after").text
    assert unknown(facility) == 1
    assert "was restored to an older state: restored from a backup" in facility.bp("status").out
    facility.put_bytes(b"new", "/new")
    facility.bp("rm", "/before")
    shown = facility.bp("admin", "settle").out
    assert "/after" in shown
    assert "1 object is unknown, not 7" in facility.bp_fails("admin", "settle", "--unknown", "7").text
    assert lying.keys() <= facility.objects_on_disk().keys(), "nothing that was there is deleted"
    facility.bp("admin", "settle", "--unknown", str(unknown(facility)))
    assert "restored" not in facility.status()
    facility.bp("put", "--replace", "-", "/new", stdin=b"newer")
    until("the old object of /new is deleted", lambda: len(facility.objects_on_disk()) == len(lying) + 1)
    assert lying.keys() <= facility.objects_on_disk().keys()
    assert facility.read("/new") == b"newer"


def test_an_older_copy_of_the_catalogue_is_noticed(facility: Facility, tmp_path: Path) -> None:
    facility.expect_log(RESTORED)
    catalogue, copy = facility.directory / "catalogue.sqlite", tmp_path / "copy"
    facility.down()
    shutil.copy(catalogue, copy)
    facility.up()
    facility.put_bytes(b"after", "/after")
    until("the disk server has noted the start", lambda: noted(facility) == 2)
    facility.down()
    lose_catalogue(facility)
    shutil.copy(copy, catalogue)
    facility.up()
    until("it is noticed", lambda: "restored" in facility.status())
    assert unknown(facility) == 1
    assert "saw a newer state" in facility.bp("status").out
    facility.bp("admin", "settle", "--unknown", "1")
    facility.down()
    facility.up()
    assert "restored" not in facility.status(), "it is settled for good"
    assert len(facility.objects_on_disk()) == 1


def noted(facility: Facility) -> int:
    """Tell which start of the head the partition remembers."""
    file = facility.directory / "disk" / "disk1" / "catalogue.json"
    found = re.search(r'"incarnation": (\d+)', file.read_text() if file.exists() else "")
    return int(found[1]) if found else 0


def test_a_catalogue_moves_to_a_database_and_back(facility: Facility, server: Postgres) -> None:
    toml = facility.directory / "facility.toml"
    facility.put_bytes(b"kept", "/a/kept")
    incarnation = facility.status()["incarnation"]
    url = server.database()
    assert "running already" in fails(facility.bin / "bpd", "migrate", facility.directory, "--to", url).text
    facility.down()
    toml.write_text("# ours\n" + toml.read_text())
    assert "every row was verified" in bpd(facility, "migrate", facility.directory, "--to", url)
    assert f'catalogue = "{url}"' in toml.read_text()
    assert toml.read_text().startswith("# ours\n")
    assert not (facility.directory / "catalogue.sqlite").exists()
    assert (facility.directory / "catalogue.sqlite.moved").exists()
    facility.up()
    assert facility.read("/a/kept") == b"kept"
    assert "restored" not in facility.status()
    assert facility.status()["incarnation"] > incarnation
    facility.put_bytes(b"more", "/a/more")
    facility.down()
    taken = fails(facility.bin / "bpd", "migrate", facility.directory, "--to", server.database() + "x").text
    assert "does not exist" in taken
    bpd(facility, "migrate", facility.directory, "--to", "file")
    facility.up()
    assert (facility.read("/a/kept"), facility.read("/a/more")) == (b"kept", b"more")
    assert "restored" not in facility.status()


class Heads:
    """Two heads of one facility, of which one is active, and a disk server."""

    def __init__(self, first: Facility, second: Facility, host: Host) -> None:
        self.first = first
        self.second = second
        self.host = host
        self.standby: subprocess.Popen[bytes] | None = None

    def start_standby(self) -> None:
        """Start the second head, and wait until it waits."""
        root, http, https = free_ports(8)[5:]
        words = ["--standby", f"--root-port={root}", f"--http-port={http}", f"--https-port={https}"]
        self.second.log.parent.mkdir(mode=0o700, exist_ok=True)
        with self.second.log.open("ab") as log:
            command = [self.second.bin / "bpd", "run", self.second.directory, *words]
            self.standby = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait("standby head waits")

    def _wait(self, what: str) -> None:
        end = time.monotonic() + DEADLINE
        while what not in self.second.log.read_text():
            is_there = self.standby is not None and self.standby.poll() is None
            assert is_there, self.second.log.read_text()
            assert time.monotonic() < end, f"{what}:\n{self.second.log.read_text()}"

    def wait_taken_over(self) -> None:
        """Wait until the second head is the active one."""
        self._wait("facility is up")
        self.second.read_endpoints()

    def wait_ended(self, handle: int) -> None:
        """Wait until the first head has ended by itself, and has said why."""
        ready, _, _ = select.select([handle], [], [], DEADLINE)
        assert ready, self.first.log.read_text()
        self.first.pid = 0
        assert "has taken over; this head committed nothing after that" in self.first.log.read_text()

    def point_host_at_second(self) -> None:
        """Have the disk server ask the second head."""
        self.host.down()
        https = self.second.call("status") and self.second.endpoint("https")
        toml = self.host.directory / "facility.toml"
        text, count = re.subn(r'(?m)^head = ".*"$', f'head = "{https}"', toml.read_text())
        assert count == 1
        toml.write_text(text)
        self.host.facility = self.second
        self.host.up()

    def stop(self) -> None:
        """Stop what runs."""
        self.host.down()
        if self.standby:
            self.standby.terminate()
            assert self.standby.wait(DEADLINE) == 0, self.second.log.read_text()
            self.second.pid = 0


@pytest.fixture
def heads(tmp_path: Path, server: Postgres) -> Iterator[Heads]:
    """Run a head without disks, a standby of it, and a disk server."""
    first, second = Facility(tmp_path / "a"), Facility(tmp_path / "b")
    first.create(**SMALL, catalogue=server.database())
    first.configure("roles", '["head"]')
    first.configure("take_over_after", '"3s"')
    toml = first.directory / "facility.toml"
    toml.write_text(toml.read_text().replace('[host]\nname = ""', '[host]\nname = "a"'))
    second.directory.mkdir(mode=0o700)
    for name in ("key", "id", "lock"):
        shutil.copy(first.directory / name, second.directory / name)
    shutil.copytree(first.directory / "tls", second.directory / "tls")
    shutil.copy(toml, second.directory)
    (second.directory / "facility.toml").write_text(toml.read_text().replace('name = "a"', 'name = "b"'))
    first.keep_ports(https=True)
    first.up()
    host = Host(first, tmp_path / "d1", "d1")
    host.join()
    host.up()
    both = Heads(first, second, host)
    both.start_standby()
    for facility in (first, second):
        facility.expect_log("commit failed|maintenance of a partition failed|out of reach")
    yield both
    both.stop()
    clean_up([first, second])


def test_a_frozen_head_is_followed_and_commits_nothing_when_it_wakes(heads: Heads) -> None:
    first, second = heads.first, heads.second
    first.put_bytes(b"acknowledged", "/kept")
    usual = fails(first.bin / "bpd", "run", second.directory).text
    assert "running already" in usual
    handle = os.pidfd_open(first.pid)
    try:
        os.kill(first.pid, signal.SIGSTOP)
        # Somebody asks the frozen head: it will read that when it wakes, and must not agree.
        late = subprocess.Popen(
            [first.bin / "bp", "--facility", first.http, "mkdir", "/late"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        heads.wait_taken_over()
        second.bp("mkdir", "/new")
        assert second.stat("/kept")["size"] == len(b"acknowledged")
        os.kill(first.pid, signal.SIGCONT)
        assert late.wait(DEADLINE) != 0, "what is refused is not acknowledged"
        heads.wait_ended(handle)
    finally:
        os.close(handle)
    assert "does not exist" in second.bp_fails("stat", "/late").text
    assert second.status()["incarnation"] > 1
    heads.point_host_at_second()
    assert second.bp("cat", "/kept").out == "acknowledged"
    second.put_bytes(b"goes on", "/more")
    assert second.bp("cat", "/more").out == "goes on"


def test_an_operator_orders_a_take_over(heads: Heads) -> None:
    first, second = heads.first, heads.second
    first.bp("mkdir", "/before")
    handle = os.pidfd_open(first.pid)
    try:
        first.bp("head", "take-over", "b")
        heads.wait_taken_over()
        heads.wait_ended(handle)
    finally:
        os.close(handle)
    assert second.stat("/before")["kind"] == "directory"
    refused = fails(first.bin / "bpd", "run", first.directory).text
    assert "the head on b is active" in refused
    assert "--take-over" in refused
