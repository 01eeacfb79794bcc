"""Third-party copies by https between two facilities whose files lie on disk servers away from their heads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import SYSTEM_PYTHON, is_same, need, run
from conftest import SMALL, one_facility
from facility import LOOPBACK, Facility, configure
from host import Host

CHECKED = "RequireChecksumVerification: true"


GFAL = """
import sys

import gfal2

mode, source, target, *tokens = sys.argv[1:]
context = gfal2.creat_context()
context.set_opt_string("HTTP PLUGIN", "DEFAULT_COPY_MODE", f"3rd {mode}")
context.set_opt_boolean("HTTP PLUGIN", "ENABLE_FALLBACK_TPC_COPY", False)
for url, token in zip((source, target), tokens):
    gfal2.cred_set(context, url, gfal2.cred_new("BEARER", token))
parameters = context.transfer_parameters()
parameters.set_checksum(gfal2.checksum_mode.both, "ADLER32", "")
context.filecopy(parameters, source, target)
"""
"""A copy as FTS makes it: with a token for each end. `gfal-copy` has one for both."""


@dataclass
class Site:
    """A facility whose own disk is too small for anything, and its disk server."""

    facility: Facility
    host: Host

    def url(self, path: str) -> str:
        """Write the https URL of a path."""
        return self.facility.endpoint("https") + path

    def dav(self, path: str) -> str:
        """Write it as gfal2 wants it."""
        return self.url(path).replace("https:", "davs:")

    def did(self, words: str) -> tuple[int, int]:
        """Count how often the head and the disk server logged these words."""
        head, host = self.facility.log.read_text(), self.host.log.read_text()
        return head.count(words), host.count(words)


@dataclass
class Pair:
    """Two sites that trust each other, and what clients must trust."""

    one: Site
    other: Site
    authorities: Path
    directory: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Run two heads with a disk server each."""
    directory = tmp_path_factory.mktemp("far")
    both, trusted = directory / "both.pem", directory / "trusted"
    trusted.mkdir()
    with ExitStack() as stack:
        sites = []
        for name in ("one", "other"):
            context = one_facility(directory / name, **{**SMALL, "disk_size": "1MiB"})
            facility = stack.enter_context(context)
            facility.keep_ports(https=True)
            facility.configure("trust", json.dumps(str(both)))
            facility.reach_this_host()
            facility.up()
            facility.bp("mkdir", "/far")
            facility.bp("pool", "set", "main", "--server-moves=0")
            host = Host(facility, directory / f"{name}-disk", f"{name}-disk")
            host.join()
            configure(host.directory, "trust", json.dumps(str(both)))
            configure(host.directory, "allow", json.dumps(LOOPBACK))
            host.up()
            stack.callback(host.down)
            sites.append(Site(facility, host))
            for file in (facility.directory / "tls" / "trust").iterdir():
                shutil.copy(file, trusted)
        # Read when the first copy is made.
        both.write_text("".join((site.facility.directory / "tls" / "ca.pem").read_text() for site in sites))
        yield Pair(*sites, trusted, directory)


def copy(pair: Pair, url: str, *fields: str) -> tuple[int, str]:
    """Ask for a copy as curl does that goes where it is sent: the status, and what was said until the end."""
    words = [word for field in fields for word in ("--header", field)]
    authority = pair.directory / "both.pem"
    command = ["curl", "--silent", "--show-error", "--location", "--cacert", authority, "--request", "COPY"]
    text, code = run(*command, "--write-out", "\n%{http_code}", *words, url).out.rsplit("\n", 1)
    return int(code), text


def check(site: Site, path: str, local: Path, directory: Path) -> None:
    """Check that a file is what it should be, and on the disk server."""
    site.facility.bp("cp", site.facility.url(path), directory / "back", "--replace")
    assert is_same(directory / "back", local)
    assert site.facility.stat(path)["replicas"] == [f"main/{site.host.partition}"]


@pytest.mark.parametrize("mode", ["pull", "push"])
def test_bytes_go_from_disk_server_to_disk_server(pair: Pair, sample: Path, tmp_path: Path, mode: str) -> None:
    need("curl")
    one, other = pair.one, pair.other
    one.facility.put(sample, f"/far/a {mode}")
    doing = other if mode == "pull" else one
    before = doing.did(f"{mode} done")
    if mode == "pull":
        code, text = copy(
            pair, other.url("/far/pull"), f"Source: {one.url('/far/a%20pull')}", "Credential: none", CHECKED
        )
    else:
        code, text = copy(pair, one.url("/far/a%20push"), f"Destination: {other.url('/far/push')}", CHECKED)
    assert (code, text.splitlines()[0], text.splitlines()[-1]) == (201, "Perf Marker", "success: Created"), text
    assert doing.did(f"{mode} done") == (before[0], before[1] + 1), "the disk server did it"
    check(other, f"/far/{mode}", sample, tmp_path)


@pytest.mark.parametrize("mode", ["pull", "push"])
def test_gfal_goes_where_it_is_sent(pair: Pair, sample: Path, tmp_path: Path, mode: str) -> None:
    need("gfal-copy")
    one, other = pair.one, pair.other
    one.facility.put(sample, f"/far/gfal-{mode}")
    doing = other if mode == "pull" else one
    before = doing.did(f"{mode} done")
    places = [one.dav(f"/far/gfal-{mode}"), other.dav(f"/far/gfal-{mode}")]
    tokens = [site.facility.bp("token", "create").out.strip() for site in (one, other)]
    env = {"X509_CERT_DIR": str(pair.authorities)}
    run(SYSTEM_PYTHON, "-c", GFAL, mode, *places, *tokens, env=env)
    assert doing.did(f"{mode} done") == (before[0], before[1] + 1), "the disk server did it"
    check(other, f"/far/gfal-{mode}", sample, tmp_path)


def test_refusals_and_failures_leave_nothing(pair: Pair, sample: Path) -> None:
    need("curl")
    one, other = pair.one, pair.other
    one.facility.put(sample, "/far/f")
    other.facility.put(sample, "/far/there")
    source = f"Source: {one.url('/far/f')}"
    assert copy(pair, other.url("/far/there"), source, "Overwrite: F")[0] == 412
    assert copy(pair, other.url("/no/file"), source)[0] == 409
    assert copy(pair, other.url("/far/x"), source, "Credential: gridsite")[0] == 400
    assert copy(pair, one.url("/far/missing"), f"Destination: {other.url('/far/x')}")[0] == 404
    code, text = copy(pair, other.url("/far/x"), f"Source: {one.url('/far/missing')}")
    assert (code, "failure: " in text, "404" in text) == (201, True, True), text
    code, text = copy(pair, one.url("/far/f"), f"Destination: {other.url('/far/there')}", "Overwrite: F")
    assert (code, "failure: " in text, "exists" in text) == (201, True, True), text
    other.facility.wait_until("the name is free", lambda: not other.facility.bp("ls", "/far/x", check=False).out)
    assert copy(pair, other.url("/far/x"), source, "Overwrite: F")[1].endswith("success: Created\n")


def test_who_cannot_be_sent_on_is_served_by_the_head(pair: Pair, sample: Path, tmp_path: Path) -> None:
    need("curl")
    one, other = pair.one, pair.other
    one.facility.put(sample, "/far/plain")
    before = one.did("push done")
    plain = f"{one.facility.http}/far/plain"
    code, text = copy(pair, plain, f"Destination: {other.url('/far/plain')}")
    assert (code, text.splitlines()[-1]) == (201, "success: Created"), text
    one.facility.archive_and_evict("/far/plain")
    # The client watches while the file is recalled.
    code, text = copy(pair, one.url("/far/plain"), f"Destination: {other.url('/far/recalled')}")
    assert (code, text.splitlines()[-1]) == (201, "success: Created"), text
    assert one.did("push done") == (before[0] + 2, before[1])
    check(other, "/far/plain", sample, tmp_path)
    check(other, "/far/recalled", sample, tmp_path)


def test_a_capability_copies_in_its_own_direction_only(pair: Pair, sample: Path) -> None:
    need("curl")
    one, other = pair.one, pair.other
    one.facility.put(sample, "/far/one-way")
    authority = pair.directory / "both.pem"
    command = ["curl", "--silent", "--cacert", authority, "--output", "/dev/null", "--write-out", "%{redirect_url}"]
    place = run(*command, one.url("/far/one-way")).out
    assert f":{one.host.ports[1]}/" in place, place
    code, text = copy(pair, place, f"Source: {other.url('/far/any')}")
    assert (code, "does not allow this direction" in text) == (403, True), text
    code, _ = copy(pair, place.replace("bp.cap=r", "bp.cap=w"), f"Source: {other.url('/far/any')}", "Overwrite: F")
    assert code == 412, "a forged one is asked for at the head"


ADDRESSES = ("127.0.0.2", "127.0.0.3")


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[tuple[Facility, Facility, list[Host]]]:
    """Run a head with two disk servers that have every file, and another facility that trusts them."""
    with ExitStack() as stack:
        one, other = (stack.enter_context(one_facility(tmp_path / name, **SMALL)) for name in ("one", "other"))
        one.keep_ports(https=True)
        one.reach_this_host()
        one.up()
        other.reach_this_host()
        other.configure("trust", json.dumps(str(one.directory / "tls" / "ca.pem")))
        other.up()
        one.bp("mkdir", "/far")
        (pool,) = one.bp_json("pool", "list")["pools"]
        one.bp("pool", "freeze", pool["partitions"][0]["name"])
        hosts = []
        for number, address in enumerate(ADDRESSES):
            hosts.append(Host(one, tmp_path / f"d{number}", f"d{number}", address=address))
            hosts[-1].join()
            configure(hosts[-1].directory, "allow", json.dumps(LOOPBACK))
            hosts[-1].up()
            stack.callback(hosts[-1].down)
        one.bp("pool", "set", "main", "--copies=2", "--acknowledged=1", "--heard-bound=60s", "--silence-bound=600s")
        yield one, other, hosts


@pytest.mark.parametrize("mode", ["pull", "push"])
def test_who_was_sent_to_a_dead_disk_server_is_sent_to_another(
    mirrored: tuple[Facility, Facility, list[Host]], sample: Path, tmp_path: Path, mode: str
) -> None:
    need("curl")
    one, other, (dead, alive) = mirrored
    one.expect_log("a client could not reach this server|mirror not written|copy failed")
    home = one if mode == "pull" else other
    names = [f"f{number}" for number in range(16)]
    for name in names:
        home.put(sample, f"/far/{name}")
    if mode == "pull":
        for name in names:
            one.wait_until("it is mirrored", lambda name=name: len(one.stat(f"/far/{name}")["replicas"]) == 2)
    dead.kill()
    far = one.endpoint("https") + "/far/"
    for name in names:
        field = f"{'Source' if mode == 'pull' else 'Destination'}: {far}{name}"
        place = f"{other.http}/{name}" if mode == "pull" else f"{other.http}/far/{name}"
        command = ["curl", "--silent", "--show-error", "--request", "COPY", "--header", field]
        assert run(*command, place).out.endswith("success: Created\n"), name
    # By its broken connection, or by whoever could not reach it: what comes first.
    log = one.log.read_text()
    assert "host is silent; clients are not sent to it" in log or "a client could not reach this server" in log
    at = other.url("/f0") if mode == "pull" else one.url("/far/f0")
    run(one.bin / "bp", "cp", at, tmp_path / "back")
    assert is_same(tmp_path / "back", sample)
    assert alive.objects()
