"""`root://` as the clients of the field use it, and as nobody should."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import cutter
import frames
from clients import (
    XRD_ENVIRONMENT,
    adler32,
    adler32_of,
    fails,
    has_bindings,
    is_same,
    make_bytes,
    missing,
    need,
    pythons_with_bindings,
    run,
    write_file,
)
from conftest import MakeFacility
from facility import Facility

PAGES = pytest.mark.parametrize("pages", ["1", "0"], ids=["pages", "plain"])


def fs(facility: Facility, *words: str) -> str:
    """Run xrdfs, which must succeed."""
    return run("xrdfs", facility.root, *words).out


def fs_fails(facility: Facility, *words: str) -> str:
    """Run xrdfs, which must be refused."""
    return fails("xrdfs", facility.root, *words).text


def put(facility: Facility, local: Path, path: str, *options: str) -> None:
    """Copy in by xrdcp."""
    run("xrdcp", "-s", *options, local, facility.url(path))


def get(facility: Facility, path: str, local: Path, *options: str) -> None:
    """Copy out by xrdcp."""
    run("xrdcp", "-s", "-f", *options, facility.url(path), local)


# Copies


@PAGES
@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 70 << 20])
def test_a_copy_comes_back(xrootd: Facility, tmp_path: Path, size: int, pages: str) -> None:
    local, back = write_file(tmp_path / "local", size), tmp_path / "back"
    env = {"XRD_CPUSEPGWRTRD": pages}
    run("xrdcp", "-s", local, xrootd.url("/file"), env=env)
    run("xrdcp", "-s", xrootd.url("/file"), back, env=env)
    assert is_same(local, back)
    assert xrootd.stat("/file")["checksums"]["adler32"] == adler32_of(local)


@pytest.mark.slow
@PAGES
def test_a_gibibyte_comes_back(xrootd: Facility, tmp_path: Path, pages: str) -> None:
    local, back = write_file(tmp_path / "local", 1 << 30), tmp_path / "back"
    env = {"XRD_CPUSEPGWRTRD": pages}
    run("xrdcp", "-s", local, xrootd.url("/file"), env=env, deadline=300)
    run("xrdcp", "-s", "--cksum", "adler32:source", xrootd.url("/file"), back, env=env, deadline=300)
    assert adler32_of(back) == adler32_of(local) == xrootd.stat("/file")["checksums"]["adler32"]


@pytest.mark.parametrize("kind", ["adler32", "crc32c"])
def test_a_checksum_is_compared_both_ways(xrootd: Facility, tmp_path: Path, sample: Path, kind: str) -> None:
    up = run("xrdcp", "-s", "--cksum", f"{kind}:source", sample, xrootd.url("/file"))
    down = run("xrdcp", "-s", "--cksum", f"{kind}:source", xrootd.url("/file"), tmp_path / "back")
    sums = {re.search(rf"{kind}: (\w+)", outcome.text)[1] for outcome in (up, down)}  # type: ignore[index]
    assert sums == {xrootd.stat("/file")["checksums"][kind]}


def test_a_wrong_checksum_fails_the_copy(xrootd: Facility, tmp_path: Path, sample: Path) -> None:
    put(xrootd, sample, "/file")
    wrong = fails("xrdcp", "-s", "--cksum", "adler32:00000001", xrootd.url("/file"), tmp_path / "back")
    assert "hecksum" in wrong.text or "CheckSum" in wrong.text


def test_several_streams_and_small_chunks(xrootd: Facility, tmp_path: Path) -> None:
    local, back = write_file(tmp_path / "local", 9_000_001), tmp_path / "back"
    put(xrootd, local, "/streams", "-S", "4")
    get(xrootd, "/streams", back, "-S", "4")
    assert is_same(local, back)
    for parallel in ("1", "64"):
        env = {"XRD_CPCHUNKSIZE": "65536", "XRD_CPPARALLELCHUNKS": parallel}
        run("xrdcp", "-s", "-f", local, xrootd.url("/chunks"), env=env)
        run("xrdcp", "-s", "-f", xrootd.url("/chunks"), back, env=env)
        assert is_same(local, back)


def test_trees_are_copied_whole(xrootd: Facility, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep" / "deeper").mkdir(parents=True)
    for number in range(6):
        write_file(tree / f"f{number}", number * 7777, number)
        write_file(tree / "deep" / "deeper" / f"g{number}", number * 999, number)
    fs(xrootd, "mkdir", "/trees")
    put(xrootd, tree, "/trees/", "-r")
    (tmp_path / "back").mkdir()
    get(xrootd, "/trees/tree", tmp_path / "back", "-r", "--parallel", "4")
    run("diff", "-r", tree, tmp_path / "back" / "tree")


def test_odd_names_and_opaque_words(xrootd: Facility, tmp_path: Path, sample: Path) -> None:
    put(xrootd, sample, "/a b ü.dat")
    put(xrootd, sample, "/opaque?oss.asize=1234567&foo=bar")
    put(xrootd, sample, "/made/on/the/way", "-p")
    put(xrootd, sample, "/posc", "-P")
    for path in ("/a b ü.dat", "/opaque", "/made/on/the/way", "/posc"):
        get(xrootd, path, tmp_path / "back")
        assert is_same(sample, tmp_path / "back")


def test_standard_streams(xrootd: Facility, sample_bytes: bytes) -> None:
    run("xrdcp", "-s", "-", xrootd.url("/piped"), stdin=sample_bytes)
    assert xrootd.read("/piped") == sample_bytes
    piped = subprocess.run(
        ["xrdcp", "-s", xrootd.url("/piped"), "-"],
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, **XRD_ENVIRONMENT},
    )
    assert piped.stdout == sample_bytes


def test_a_copy_within_the_facility(xrootd: Facility, tmp_path: Path, sample: Path) -> None:
    put(xrootd, sample, "/one")
    run("xrdcp", "-s", xrootd.url("/one"), xrootd.url("/two"))
    get(xrootd, "/two", tmp_path / "back")
    assert is_same(sample, tmp_path / "back")


def test_an_existing_file_is_replaced_only_by_force(xrootd: Facility, tmp_path: Path, sample: Path) -> None:
    put(xrootd, sample, "/file")
    other = write_file(tmp_path / "other", 999, seed=9)
    refused = fails("xrdcp", "-s", other, xrootd.url("/file"))
    assert "exist" in refused.text
    assert xrootd.stat("/file")["checksums"]["adler32"] == adler32_of(sample)
    put(xrootd, other, "/file", "-f")
    get(xrootd, "/file", tmp_path / "back")
    assert is_same(other, tmp_path / "back")


# Names


def test_listings(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/d/e/file", "-p")
    put(xrootd, sample, "/d/other")
    assert fs(xrootd, "ls", "/d").split() == ["/d/e", "/d/other"]
    assert set(fs(xrootd, "ls", "-R", "/d").split()) >= {"/d/e", "/d/e/file", "/d/other"}
    long = fs(xrootd, "ls", "-l", "/d")
    assert re.search(r"^d.*/d/e$", long, re.M)
    assert re.search(r"^-.* 1234567 .*/d/other$", long, re.M)
    fs(xrootd, "mkdir", "/empty")
    assert fs(xrootd, "ls", "/empty").strip() == ""
    assert "3011" in fs_fails(xrootd, "ls", "/missing")


def test_a_long_listing_is_whole(xrootd: Facility) -> None:
    names = [f"a-rather-long-file-name-{number:06}" for number in range(5000)]
    xrootd.bp("mkdir", "/many")
    with ThreadPoolExecutor(16) as pool:
        for _ in pool.map(lambda name: xrootd.call("mkdir", path=f"/many/{name}"), names):
            pass
    for options in ((), ("-l",)):
        listed = fs(xrootd, "ls", *options, "/many").splitlines()
        assert sorted(line.rsplit("/", 1)[1] for line in listed) == names


def test_flags_say_where_the_bytes_are(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    online = fs(xrootd, "stat", "/file")
    assert re.search(r"Size: +1234567\b", online)
    assert "IsReadable" in online
    assert not re.search("Offline|BackUpExists|IsDir", online)
    xrootd.bp("archive", "--wait", "/file")
    both = fs(xrootd, "stat", "/file")
    assert "BackUpExists" in both
    assert "Offline" not in both
    xrootd.bp("evict", "/file")
    nearline = fs(xrootd, "stat", "/file")
    assert "BackUpExists" in nearline
    assert "Offline" in nearline
    assert "IsDir" in fs(xrootd, "stat", "/")
    assert "3011" in fs_fails(xrootd, "stat", "/missing")


def test_the_namespace_is_changed(xrootd: Facility, tmp_path: Path, sample: Path) -> None:
    fs_fails(xrootd, "mkdir", "/a/b/c")
    fs(xrootd, "mkdir", "-p", "/a/b/c")
    fs(xrootd, "mkdir", "-p", "/a/b/c")
    put(xrootd, sample, "/a/b/c/file")
    fs(xrootd, "mv", "/a/b/c/file", "/a/moved")
    fs(xrootd, "mv", "/a/b", "/a/z")
    assert fs(xrootd, "ls", "/a").split() == ["/a/moved", "/a/z"]
    fs_fails(xrootd, "mv", "/missing", "/x")
    fs_fails(xrootd, "mv", "/a", "/a/z/a")
    fs_fails(xrootd, "rmdir", "/a/z")
    fs_fails(xrootd, "rm", "/a/z")
    fs_fails(xrootd, "rmdir", "/a/moved")
    fs(xrootd, "rmdir", "/a/z/c")
    fs(xrootd, "rmdir", "/a/z")
    get(xrootd, "/a/moved", tmp_path / "back")
    assert is_same(sample, tmp_path / "back")
    fs(xrootd, "rm", "/a/moved")
    assert "3011" in fs_fails(xrootd, "rm", "/a/moved")
    xrootd.wait_removals()
    assert xrootd.objects_on_disk() == {}


def test_truncate_and_chmod(xrootd: Facility, sample: Path, sample_bytes: bytes) -> None:
    put(xrootd, sample, "/file")
    fs(xrootd, "truncate", "/file", "100")
    assert xrootd.read("/file") == sample_bytes[:100]
    fs(xrootd, "truncate", "/file", "8192")
    assert xrootd.read("/file") == sample_bytes[:100] + bytes(8092)
    assert xrootd.stat("/file")["checksums"]["adler32"] == adler32(sample_bytes[:100] + bytes(8092))
    fs(xrootd, "chmod", "/file", "rw-r-----")
    assert xrootd.stat("/file")["mode"] == 0o640


def test_queries(xrootd: Facility, sample: Path) -> None:
    need("xrdadler32")
    put(xrootd, sample, "/file")
    expected = run("xrdadler32", sample).out.split()[0]
    assert fs(xrootd, "query", "checksum", "/file").split() == ["adler32", expected]
    assert fs(xrootd, "query", "checksum", "/file?cks.type=adler32").split() == ["adler32", expected]
    crc32c = xrootd.stat("/file")["checksums"]["crc32c"]
    assert fs(xrootd, "query", "checksum", "/file?cks.type=crc32c").split() == ["crc32c", crc32c]
    fs_fails(xrootd, "query", "checksum", "/file?cks.type=md6")
    fs_fails(xrootd, "query", "checksum", "/missing")
    for key in ("version", "sitename", "role", "bind_max", "chksum", "readv_ior_max", "readv_iov_max", "tpc", "nokey"):
        fs(xrootd, "query", "config", key)
    assert int(fs(xrootd, "query", "config", "readv_iov_max")) == 1024
    assert re.search(r"oss\.free=\d+", fs(xrootd, "query", "space", "/"))
    fs(xrootd, "query", "stats", "a")
    fs(xrootd, "spaceinfo", "/")
    fs(xrootd, "statvfs", "/")


def test_locate(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    for options in ((), ("-d",), ("-r",), ("-n",), ("-m",), ("-i",), ("-p",)):
        assert re.search("Server|Manager", fs(xrootd, "locate", *options, "/file")), options
    fs_fails(xrootd, "locate", "/missing")


# Tape


def test_prepare_stages_and_evicts(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    xrootd.archive_and_evict("/file")
    fs(xrootd, "prepare", "-s", "/file")
    xrootd.bp("wait", "--online", "/file")
    assert xrootd.state("/file") == "both"
    fs_fails(xrootd, "prepare", "-s", "/missing")


def test_prepare_evicts(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    xrootd.bp("archive", "--wait", "/file")
    fs(xrootd, "prepare", "-e", "/file")
    assert xrootd.state("/file") == "nearline"
    put(xrootd, sample, "/unsafe")
    fs_fails(xrootd, "prepare", "-e", "/unsafe")


def test_an_open_waits_for_the_recall(xrootd: Facility, tmp_path: Path, sample: Path) -> None:
    put(xrootd, sample, "/file")
    xrootd.archive_and_evict("/file")
    get(xrootd, "/file", tmp_path / "back")
    assert is_same(sample, tmp_path / "back")
    assert xrootd.state("/file") == "both"


def test_a_reader_that_leaves_does_not_stop_the_recall(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    xrootd.archive_and_evict("/file")
    with frames.Raw(xrootd.root).login() as peer:
        peer.request(frames.OPEN, struct.pack(">HH12x", 0, frames.READ_ONLY), b"/file")
        # The open is in the facility's hands once it is answered, or announced to be answered later.
        assert peer.answer().status in (frames.OK, frames.WAIT_LATER)
    xrootd.wait_until("the file is back", lambda: xrootd.state("/file") == "both")


# Bindings


@pytest.mark.parametrize("python", pythons_with_bindings())
def test_vector_reads(xrootd: Facility, sample: Path, python: str) -> None:
    if not has_bindings(python):
        missing(f"XRootD.client for {python}")
    put(xrootd, sample, "/file")
    run(python, Path(__file__).with_name("bindings_vector_read.py"), xrootd.url("/file"), sample)


# Several at once


def test_a_second_writer_is_refused(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    with frames.Raw(xrootd.root).login() as first:
        handle = first.open("/file", frames.FORCE | frames.UPDATE)
        refused = fails("xrdcp", "-s", "-f", sample, xrootd.url("/file"), env={"XRD_REQUESTTIMEOUT": "5"})
        assert "being written" in refused.text
        first.request(frames.WRITE, struct.pack(">4sq4x", handle, 0), b"first")
        assert first.answer().status == frames.OK
        assert xrootd.stat("/file")["size"] == 1_234_567, "nothing is seen of a write before its close"
        first.request(frames.CLOSE, handle)
        assert first.answer().status == frames.OK
    assert xrootd.read("/file") == b"first"


def test_nobody_else_may_write(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    with frames.Raw(xrootd.root).login("stranger") as peer:
        peer.open("/file")
        for path, options in (("/file", frames.FORCE | frames.UPDATE), ("/new", frames.NEW | frames.UPDATE)):
            peer.request(frames.OPEN, struct.pack(">HH12x", 0o644, options), path.encode())
            assert peer.answer().error == 3010, "kXR_NotAuthorized"


def test_an_owner_with_a_long_name(make_facility: MakeFacility, sample: Path) -> None:
    need("xrdcp")
    facility = make_facility(owner="averylongusername")
    facility.up()
    # A login has room for eight bytes.
    run("xrdcp", "-s", sample, facility.url("/file").replace("//", "//averylongusername@", 1))
    assert facility.stat("/file")["owner"] == "averylongusername"
    fails("xrdcp", "-s", sample, facility.url("/other").replace("//", "//averyother@", 1))


def test_two_first_writers_on_one_path(xrootd: Facility, sample: Path) -> None:
    with frames.Raw(xrootd.root).login() as first:
        handle = first.open("/new", frames.NEW | frames.UPDATE)
        fails("xrdcp", "-s", sample, xrootd.url("/new"), env={"XRD_REQUESTTIMEOUT": "5"})
        first.request(frames.CLOSE, handle)
        assert first.answer().status == frames.OK
    assert xrootd.stat("/new")["size"] == 0


def test_a_reader_keeps_the_old_bytes(xrootd: Facility, tmp_path: Path, sample: Path, sample_bytes: bytes) -> None:
    put(xrootd, sample, "/file")
    with frames.Raw(xrootd.root).login() as reader:
        handle = reader.open("/file")
        put(xrootd, write_file(tmp_path / "other", 2_000_000, 7), "/file", "-f")
        xrootd.wait_removals()
        for offset in (0, 500_000, 1_234_000):
            reader.request(frames.READ, struct.pack(">4sqi", handle, offset, 567))
            answer = reader.answer()
            assert (answer.status, answer.body) == (frames.OK, sample_bytes[offset : offset + 567])
    assert xrootd.stat("/file")["size"] == 2_000_000


def test_an_upload_that_broke_off_leaves_nothing(xrootd: Facility) -> None:
    with frames.Raw(xrootd.root).login() as writer:
        handle = writer.open("/file", frames.NEW | frames.UPDATE)
        writer.request(frames.WRITE, struct.pack(">4sq4x", handle, 0), bytes(1 << 20))
        assert writer.answer().status == frames.OK
    xrootd.wait_until("the name is gone", lambda: fs_code(xrootd, "/file") != 0)
    xrootd.wait_removals()
    assert xrootd.objects_on_disk() == {}


def fs_code(facility: Facility, path: str) -> int:
    """Tell whether xrdfs finds a path."""
    return run("xrdfs", facility.root, "stat", path, check=False).code


def test_a_killed_client_leaves_the_old_file(xrootd: Facility, tmp_path: Path, sample: Path) -> None:
    put(xrootd, sample, "/file")
    # A pipe that nobody closes keeps the client in the middle of its upload.
    source, sink = os.pipe()
    client = subprocess.Popen(
        ["xrdcp", "-s", "-f", "-", xrootd.url("/file")], stdin=source, env={**os.environ, **XRD_ENVIRONMENT}
    )
    try:
        os.write(sink, bytes(65536))
        xrootd.wait_until("the upload has begun", lambda: len(xrootd.objects_on_disk()) == 2)
        client.send_signal(signal.SIGKILL)
        client.wait(60)
    finally:
        os.close(source)
        os.close(sink)
    xrootd.wait_until("the upload is forgotten", lambda: len(xrootd.objects_on_disk()) == 1)
    get(xrootd, "/file", tmp_path / "back")
    assert is_same(sample, tmp_path / "back")


@pytest.mark.parametrize("size", [50_000, 30_000_000])
@pytest.mark.parametrize("code", [frames.OPEN, frames.PGWRITE, frames.CLOSE], ids=["open", "write", "close"])
@pytest.mark.parametrize("old_size", [None, 40_000_000], ids=["new", "over"])
def test_a_copy_whose_connection_broke(
    xrootd: Facility, tmp_path: Path, old_size: int | None, code: int, size: int
) -> None:
    # The client opens the file again for update, and sends only what it misses.
    new, old = write_file(tmp_path / "new", size, 1), None
    if old_size:
        old = write_file(tmp_path / "old", old_size, 2)
        xrootd.put(old, "/file")
    with cutter.Cutter(xrootd.root, code) as wire:
        env = {"XRD_CONNECTIONWINDOW": "1", "XRD_REQUESTTIMEOUT": "3", "XRD_STREAMERRORWINDOW": "1"}
        done = run("xrdcp", "-s", "-f", new, f"{wire.root}//file", check=False, env=env)
        assert wire.has_cut
    if done.code == 0:
        assert xrootd.stat("/file")["checksums"]["adler32"] == adler32_of(new), "xrdcp was told that all is well"
    elif old:
        assert xrootd.stat("/file")["checksums"]["adler32"] == adler32_of(old)
    else:
        xrootd.wait_until("nothing is left of it", lambda: run_stat(xrootd, "/file") != 0)


# What nobody should send


@pytest.fixture
def raw(facility: Facility, sample_bytes: bytes) -> Facility:
    """Put a file that malformed requests can name, and see at the end that it can still be read."""
    facility.put_bytes(sample_bytes, "/file")
    return facility


def still_serves(facility: Facility, sample_bytes: bytes) -> None:
    """Shake hands, open and read as a proper client."""
    with frames.Raw(facility.root).login() as proper:
        handle = proper.open("/file")
        proper.request(frames.READ, struct.pack(">4sqi", handle, 1000, 100))
        assert proper.answer().body == sample_bytes[1000:1100]


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
        b"\xff" * 64,
        random.Random(1).randbytes(4096),
        frames.HANDSHAKE[:-1] + b"\x01",
    ],
    ids=["http", "tls", "ones", "noise", "nearly"],
)
def test_a_garbage_handshake_is_hung_up_on(raw: Facility, sample_bytes: bytes, noise: bytes) -> None:
    with frames.Raw(raw.root) as peer:
        peer.send(noise)
        peer.socket.shutdown(socket.SHUT_WR)
        with pytest.raises(frames.HungUpError):
            peer.receive(1 << 20)
    still_serves(raw, sample_bytes)


@pytest.mark.parametrize("cut", [0, 1, 19, 20, 21, 30, 43])
def test_a_peer_that_leaves_in_the_middle(raw: Facility, sample_bytes: bytes, cut: int) -> None:
    whole = frames.HANDSHAKE + struct.pack(">HHi8sBBBBi", 1, frames.LOGIN, 1, b"tester", 0, 0, 5, 0, 0)
    with frames.Raw(raw.root) as peer:
        peer.send(whole[:cut])
    with frames.Raw(raw.root).login() as peer:
        peer.send(struct.pack(">HHHH12xi", 1, frames.OPEN, 0, frames.READ_ONLY, 100) + b"/file")
    still_serves(raw, sample_bytes)


@pytest.mark.parametrize("length", [0x7FFFFFFF, -1, -(1 << 31), 65 << 20])
@pytest.mark.parametrize("code", [frames.OPEN, frames.STAT, frames.WRITE, frames.READV, frames.PING])
def test_absurd_lengths_are_refused(raw: Facility, sample_bytes: bytes, code: int, length: int) -> None:
    with frames.Raw(raw.root).login() as peer:
        peer.request(code, length=length)
        # What is refused is drained first, as far as it comes.
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.refusal() in (None, 3000, 3002, 3004), "refused or hung up on"
    still_serves(raw, sample_bytes)


@pytest.mark.parametrize("code", [0, 2999, 3999, 65535])
def test_unknown_requests_are_refused_and_the_session_goes_on(raw: Facility, code: int) -> None:
    with frames.Raw(raw.root).login() as peer:
        peer.request(code)
        assert peer.answer().error == 3006, "kXR_InvalidRequest"
        peer.request(frames.PING)
        assert peer.answer().status == frames.OK


def test_nothing_is_answered_before_login(raw: Facility, sample_bytes: bytes) -> None:
    with frames.Raw(raw.root) as peer:
        peer.send(frames.HANDSHAKE)
        peer.answer()
        peer.request(frames.OPEN, struct.pack(">HH12x", 0, frames.READ_ONLY), b"/file")
        assert peer.refusal() in (None, 3006, 3010, 3030), "not logged in"
    still_serves(raw, sample_bytes)


def test_bad_handles_and_offsets_are_refused(raw: Facility) -> None:
    with frames.Raw(raw.root).login() as peer:
        peer.request(frames.READ, struct.pack(">4sqi", b"\x7f" * 4, 0, 100))
        assert peer.answer().error == 3004, "kXR_FileNotOpen"
        handle = peer.open("/file")
        for offset, length in ((-1, 100), (0, -5), (-(1 << 63), 1), (1 << 62, 1 << 30)):
            peer.request(frames.READ, struct.pack(">4sqi", handle, offset, length))
            answer = peer.answer()
            assert answer.status == frames.ERROR or answer.body == b"", (offset, length)
        peer.request(frames.WRITE, struct.pack(">4sq4x", handle, 0), b"x")
        assert peer.answer().status == frames.ERROR, "the file is open for reading"
        peer.request(frames.PING)
        assert peer.answer().status == frames.OK


def test_bad_vectors_are_refused(raw: Facility, sample_bytes: bytes) -> None:
    element = "4siq"
    with frames.Raw(raw.root).login() as peer:
        handle = peer.open("/file")
        too_many = struct.pack(">" + element, handle, 10, 0) * 3000
        ragged = struct.pack(">" + element, handle, 10, 0) + b"abc"
        negative = struct.pack(">" + element, handle, -10, 0)
        for vector in (too_many, ragged, negative):
            peer.request(frames.READV, b"", vector)
            assert peer.answer().status == frames.ERROR
    still_serves(raw, sample_bytes)


def test_a_page_with_a_wrong_sum_is_not_taken(raw: Facility) -> None:
    with frames.Raw(raw.root).login() as peer:
        handle = peer.open("/pages", frames.NEW | frames.UPDATE)
        peer.request(frames.PGWRITE, struct.pack(">4sqBB2x", handle, 0, 0, 0), struct.pack(">I", 1) + b"A" * 4096)
        answer = peer.answer()
        if answer.status == frames.STATUS:
            bad_length = struct.unpack(">i", answer.body[12:16])[0]
            assert bad_length > 0, "the bad page is named"
            peer.receive(bad_length)
            peer.request(frames.CLOSE, handle)
            assert peer.answer().status == frames.ERROR, "close with a page that was never corrected"
        else:
            assert answer.status == frames.ERROR
    raw.wait_until("nothing is left of it", lambda: run_stat(raw, "/pages") != 0)


def run_stat(facility: Facility, path: str) -> int:
    """Tell whether `bp` finds a path."""
    return facility.bp("stat", path, check=False).code


def test_many_answers_of_one_segment(raw: Facility, sample_bytes: bytes) -> None:
    with frames.Raw(raw.root).login() as peer:
        handle = peer.open("/file")
        reads = [struct.pack(">HH4sqii", 100 + n, frames.READ, handle, n * 20_000, 1000, 0) for n in range(50)]
        peer.send(b"".join(reads))
        got: dict[int, bytes] = {}
        for _ in range(50):
            answer = peer.answer()
            assert answer.status == frames.OK
            got[answer.stream - 100] = answer.body
    assert got == {n: sample_bytes[n * 20_000 : n * 20_000 + 1000] for n in range(50)}


def test_noise_after_login_harms_nobody(raw: Facility, sample_bytes: bytes) -> None:
    rng = random.Random(2)
    for _ in range(50):
        with frames.Raw(raw.root).login() as peer:
            code = rng.choice([*range(3000, 3035), rng.randrange(65536)])
            data = rng.randbytes(rng.randrange(64))
            try:
                peer.request(code, rng.randbytes(16), data)
                peer.socket.shutdown(socket.SHUT_WR)
                while True:
                    peer.answer()
            except frames.HungUpError:
                pass
    still_serves(raw, sample_bytes)


@pytest.mark.parametrize("path", ["/../x", "/d/../../x", "/./../etc/passwd", "/" + "x" * 300, "/" + "x/" * 200 + "y"])
def test_bad_paths_are_refused(xrootd: Facility, sample: Path, path: str) -> None:
    fails("xrdcp", "-s", sample, xrootd.url(path))
    fs_fails(xrootd, "stat", path)
    fs_fails(xrootd, "mkdir", path)
    assert xrootd.objects_on_disk() == {}


def test_many_idle_connections(xrootd: Facility, tmp_path: Path) -> None:
    idle = [frames.Raw(xrootd.root) for _ in range(200)]
    local = tmp_path / "local"
    local.write_bytes(make_bytes(5000, 5))
    put(xrootd, local, "/file")
    for peer in idle:
        peer.socket.close()
