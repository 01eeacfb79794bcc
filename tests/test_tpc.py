"""Third-party copies over `root://`: this facility as source and destination, with the field's servers and clients."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import frames
from clients import XRD_ENVIRONMENT, adler32_of, fails, need, run, write_file
from conftest import MakeFacility
from facility import Facility
from stock import stock_server

QUERY = 3001
SIZE = 30_000_001
COPIES_AT_ONCE = 32
"""More wait for their turn; only a copy whose source is open takes one of these places."""


@pytest.fixture(params=["debian", "newer"])
def xrdcp(request: pytest.FixtureRequest) -> list[str]:
    """Name a client of the field: Debian's, or the one of the newer wheel."""
    if request.param == "newer":
        return [sys.executable, str(Path(__file__).with_name("xrdcp6.py"))]
    need("xrdcp")
    return ["xrdcp"]


@pytest.fixture
def pair(make_facility: MakeFacility) -> tuple[Facility, Facility]:
    """Start a source and a destination."""
    source, destination = make_facility(), make_facility()
    source.up()
    destination.reach_this_host()
    destination.up()
    return source, destination


@pytest.fixture
def stock() -> Iterator[tuple[str, Path]]:
    """Start a server of the field that makes third-party copies; give its URL and its directory."""
    need("xrdcp")
    with stock_server(f"ofs.tpc pgm {shutil.which('xrdcp')} --server") as served:
        yield served


def assert_nothing_is_left(facility: Facility, path: str) -> None:
    """Check that a failed copy left neither a name nor bytes."""
    # The refusal may be there before all is put away.
    facility.wait_until("the name is gone", lambda: facility.bp("stat", path, check=False).code == 3)
    facility.wait_removals()


# Copies


@pytest.mark.parametrize("size", [0, 1, SIZE])
def test_between_two_facilities(pair: tuple[Facility, Facility], tmp_path: Path, xrdcp: list[str], size: int) -> None:
    source, destination = pair
    local = write_file(tmp_path / "local", size)
    source.put(local, "/data/f")
    run(*xrdcp, "-s", "--tpc", "only", source.url("/data/f"), destination.url("/copy"))
    assert destination.stat("/copy")["checksums"]["adler32"] == adler32_of(local)
    run(*xrdcp, "-s", "-f", "--tpc", "only", "--cksum", "adler32", source.url("/data/f"), destination.url("/copy"))
    assert destination.stat("/copy")["size"] == size


def test_within_one_facility(facility: Facility, tmp_path: Path, xrdcp: list[str]) -> None:
    local = write_file(tmp_path / "local", SIZE)
    facility.put(local, "/f")
    run(*xrdcp, "-s", "--tpc", "only", facility.url("/f"), facility.url("/g"))
    assert facility.stat("/g")["checksums"] == facility.stat("/f")["checksums"]


def test_to_and_from_a_server_of_the_field(
    make_facility: MakeFacility, stock: tuple[str, Path], tmp_path: Path, xrdcp: list[str]
) -> None:
    url, top = stock
    facility = make_facility()
    facility.reach_this_host()
    facility.up()
    local = write_file(tmp_path / "local", SIZE)
    shutil.copy(local, top / "theirs")
    (top / "theirs").chmod(0o644)
    run(*xrdcp, "-s", "--tpc", "only", f"{url}/theirs", facility.url("/ours"))
    assert facility.stat("/ours")["checksums"]["adler32"] == adler32_of(local)
    run(*xrdcp, "-s", "--tpc", "only", facility.url("/ours"), f"{url}/back")
    assert adler32_of(top / "back") == adler32_of(local)


def test_what_is_on_tape_is_recalled_first(pair: tuple[Facility, Facility], tmp_path: Path) -> None:
    need("xrdcp")
    source, destination = pair
    local = write_file(tmp_path / "local", 1_000_000)
    source.put(local, "/f")
    source.archive_and_evict("/f")
    run("xrdcp", "-s", "--tpc", "only", source.url("/f"), destination.url("/f"))
    assert destination.stat("/f")["checksums"]["adler32"] == adler32_of(local)


def test_an_encrypted_source_is_trusted_if_its_authority_is(
    make_facility: MakeFacility, sample: Path, tmp_path: Path
) -> None:
    need("xrdcp")
    source, destination, stranger = make_facility(), make_facility(), make_facility()
    source.up()
    both = tmp_path / "both.pem"
    destination.reach_this_host()
    stranger.reach_this_host()
    destination.configure("trust", json.dumps(str(both)))
    stranger.configure("trust", json.dumps(str(stranger.directory / "tls" / "ca.pem")))
    both.write_text("".join((f.directory / "tls" / "ca.pem").read_text() for f in (source, destination)))
    destination.up()
    stranger.up()
    source.put(sample, "/f")
    trust = tmp_path / "trust"
    trust.mkdir()
    for facility in (source, destination, stranger):
        for file in (facility.directory / "tls" / "trust").iterdir():
            shutil.copy(file, trust)
    env = {"X509_CERT_DIR": str(trust)}
    secret = source.endpoint("roots") + "//f"
    run("xrdcp", "-s", "--tpc", "only", secret, destination.url("/f"), env=env)
    assert destination.stat("/f")["checksums"]["adler32"] == adler32_of(sample)
    text = fails("xrdcp", "-s", "--tpc", "only", secret, stranger.url("/f"), env=env).text
    assert "certificate" in text
    assert_nothing_is_left(stranger, "/f")


# Failures


def test_failures_name_the_source_and_the_cause(pair: tuple[Facility, Facility], sample: Path) -> None:
    need("xrdcp")
    source, destination = pair
    source.put(sample, "/f")
    text = fails("xrdcp", "-s", "--tpc", "only", source.url("/missing"), destination.url("/g")).text
    assert "/missing does not exist" in text
    destination.put(sample, "/there")
    text = fails("xrdcp", "-s", "--tpc", "only", source.url("/f"), destination.url("/there")).text
    assert "exists" in text
    text = fails("xrdcp", "-s", "--tpc", "only", source.url("/f"), destination.url("/there/directory/g")).text
    assert "/there is a file, not a directory" in text
    assert destination.stat("/there")["size"] == sample.stat().st_size


def opened(raw: frames.Raw, path: str, opaque: str) -> bytes:
    """Open a destination; returns its handle."""
    options = frames.NEW | frames.UPDATE
    return raw.open(f"{path}?{opaque}", options)


def late(raw: frames.Raw) -> frames.Answer:
    """Receive an answer that may be announced first."""
    answer = raw.answer()
    while answer.status == frames.WAIT_LATER:
        answer = raw.answer()
    if answer.status == 4001:
        stream, status, length = struct.unpack(">HHi", answer.body[8:16])
        return frames.Answer(stream, status, answer.body[16 : 16 + length])
    return answer


def test_a_copy_that_nobody_offers_fails_and_leaves_nothing(pair: tuple[Facility, Facility], sample: Path) -> None:
    source, destination = pair
    source.put(sample, "/f")
    where = source.root.removeprefix("root://")
    with frames.Raw(destination.root).login() as raw:
        handle = opened(raw, "/g", f"tpc.key=0123456789&tpc.src={where}&tpc.lfn=/f&tpc.stage=copy")
        raw.request(frames.SYNC, handle)
        assert raw.answer().status == frames.OK, "the first sync only starts the copy"
        raw.request(frames.SYNC, handle)
        answer = late(raw)
        assert answer.status == frames.ERROR
        assert b"/f to /g" in answer.body
        assert b"it refuses" in answer.body
        assert b"no client offered" not in answer.body, "what the source says is for its own log"
        raw.request(frames.CLOSE, handle)
        assert late(raw).status == frames.ERROR
    assert_nothing_is_left(destination, "/g")


def test_a_client_may_be_followed_by_its_destination_and_see_the_file_grow(
    pair: tuple[Facility, Facility], sample: Path
) -> None:
    source, destination = pair
    source.put(sample, "/f")
    size, where = sample.stat().st_size, source.root.removeprefix("root://")
    with frames.Raw(source.root).login() as origin, frames.Raw(destination.root).login() as raw:
        origin.open("/f?tpc.key=0123456789&tpc.dst=127.0.0.1&tpc.stage=copy&tpc.ttl=30")
        opaque = f"tpc.key=0123456789&tpc.src={where}&tpc.lfn=/f&oss.asize={size}&tpc.cks=adler32"
        handle = opened(raw, "/g", opaque)
        for _ in range(2):
            raw.request(frames.SYNC, handle)
            assert late(raw).status == frames.OK
        raw.request(frames.STAT, b"\0" * 12 + handle)
        assert int(raw.answer().body.split()[1]) == size
        raw.request(frames.WRITE, handle + b"\0" * 8, b"mine")
        assert raw.answer().status == frames.ERROR, "the file is filled by the copy alone"
        raw.request(frames.CLOSE, handle)
        late(raw)


@pytest.mark.parametrize(
    ("opaque", "word"),
    [("oss.asize=5", b"has changed"), ("tpc.cks=adler32:00000001", b"00000001"), ("tpc.str=x", b"tpc.str")],
)
def test_what_is_not_the_file_that_was_announced_is_not_kept(
    pair: tuple[Facility, Facility], sample: Path, opaque: str, word: bytes
) -> None:
    source, destination = pair
    source.put(sample, "/f")
    where = source.root.removeprefix("root://")
    with frames.Raw(source.root).login() as origin, frames.Raw(destination.root).login() as raw:
        origin.open("/f?tpc.key=0123456789&tpc.dst=localhost&tpc.stage=copy")
        text = f"/g?tpc.key=0123456789&tpc.src={where}&tpc.lfn=/f&{opaque}"
        raw.request(frames.OPEN, struct.pack(">HH12x", 0o644, frames.NEW | frames.UPDATE), text.encode())
        answer = late(raw)
        if answer.status == frames.OK:
            handle = answer.body[:4]
            for code in (frames.SYNC, frames.SYNC, frames.CLOSE):
                raw.request(code, handle)
                answer = late(raw)
                if answer.status == frames.ERROR:
                    break
        assert answer.status == frames.ERROR
        assert word in answer.body, answer.body
    assert_nothing_is_left(destination, "/g")


def test_strangers_cannot_use_an_offer(pair: tuple[Facility, Facility], sample: Path) -> None:
    source, _ = pair
    source.put(sample, "/f")
    source.bp("chmod", "600", "/f")
    with frames.Raw(source.root).login() as origin, frames.Raw(source.root).login("mallory") as raw:
        origin.open("/f?tpc.key=0123456789&tpc.dst=127.0.0.1&tpc.stage=copy&tpc.ttl=60")
        for opaque in ("tpc.key=9876543210&tpc.dst=h&tpc.org=x", "tpc.key=0123456789&tpc.org=mallory.1@h"):
            raw.request(frames.OPEN, struct.pack(">HH12x", 0, frames.READ_ONLY), f"/f?{opaque}".encode())
            assert late(raw).status == frames.ERROR
        # The offer is gone now: a key that was tried is good for nobody.
        raw.request(frames.OPEN, struct.pack(">HH12x", 0, frames.READ_ONLY), b"/f")
        assert late(raw).status == frames.ERROR


def test_a_client_that_is_killed_ends_its_copy(pair: tuple[Facility, Facility], tmp_path: Path) -> None:
    need("xrdcp")
    source, destination = pair
    local = write_file(tmp_path / "local", 1_000_000)
    source.put(local, "/f")
    source.archive_and_evict("/f")
    env = {**os.environ, **XRD_ENVIRONMENT}
    words = ["xrdcp", "-s", "--tpc", "only", source.url("/f"), destination.url("/g")]
    with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as copying:
        copying.send_signal(signal.SIGKILL)
    assert_nothing_is_left(destination, "/g")


def test_servers_announce_that_they_make_copies(xrootd: Facility) -> None:
    assert run("xrdfs", xrootd.root, "query", "config", "tpc").out.strip() == "1"
    assert run("xrdfs", xrootd.root, "query", "config", "tpcdlg").out.strip() == "tpcdlg"


def test_copies_whose_sources_are_on_tape_keep_nobody_back(pair: tuple[Facility, Facility], tmp_path: Path) -> None:
    source, destination = pair
    source.put(write_file(tmp_path / "f", 1000), "/f")
    source.archive_and_evict("/f")
    # Nothing brings it back.
    for drive in source.status()["drives"]:
        source.bp("admin", "drive", "disable", drive["name"])
    local = write_file(tmp_path / "g", 1_000_000)
    source.put(local, "/g")
    where = source.root.removeprefix("root://")
    with frames.Raw(source.root).login() as origin, frames.Raw(destination.root).login() as raw:
        for number in range(COPIES_AT_ONCE + 1):
            key = f"{number:010}"
            offer = f"/f?tpc.key={key}&tpc.dst=127.0.0.1&tpc.stage=copy&tpc.ttl=60"
            origin.request(frames.OPEN, struct.pack(">HH12x", 0, frames.READ_ONLY), offer.encode())
            assert origin.answer().status != frames.ERROR
            handle = opened(raw, f"/copy{number}", f"tpc.key={key}&tpc.src={where}&tpc.lfn=/f&tpc.stage=copy")
            raw.request(frames.SYNC, handle)
            assert raw.answer().status == frames.OK, "the copy has begun"
        run("xrdcp", "-s", "--tpc", "only", source.url("/g"), destination.url("/g"))
        raw.request(frames.SYNC, handle)
        assert raw.answer().status == frames.WAIT_LATER, "the others still wait for their source"
    assert destination.stat("/g")["checksums"]["adler32"] == adler32_of(local)
