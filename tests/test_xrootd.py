"""What `root://` is here beyond conformance: tape, files that exist when closed, several clients at once."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

import cutter
import frames
from clients import (
    SYSTEM_PYTHON,
    XRD_ENVIRONMENT,
    adler32_of,
    fails,
    is_same,
    need,
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
@pytest.mark.parametrize("size", [0, 1, 4097, 5 << 20])
def test_the_catalogue_learns_the_checksums(xrootd: Facility, tmp_path: Path, size: int, pages: str) -> None:
    local = write_file(tmp_path / "local", size)
    run("xrdcp", "-s", local, xrootd.url("/file"), env={"XRD_CPUSEPGWRTRD": pages})
    sums = xrootd.stat("/file")["checksums"]
    assert sums["adler32"] == adler32_of(local)
    assert sums["crc32c"] == run("xrdcrc32c", local).out.split()[0]


@pytest.mark.slow
@PAGES
def test_a_gibibyte_comes_back(xrootd: Facility, tmp_path: Path, pages: str) -> None:
    local, back = write_file(tmp_path / "local", 1 << 30), tmp_path / "back"
    env = {"XRD_CPUSEPGWRTRD": pages}
    run("xrdcp", "-s", local, xrootd.url("/file"), env=env, deadline=300)
    run("xrdcp", "-s", "--cksum", "adler32:source", xrootd.url("/file"), back, env=env, deadline=300)
    assert adler32_of(back) == adler32_of(local) == xrootd.stat("/file")["checksums"]["adler32"]


# Names


def test_what_is_removed_leaves_no_object(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    put(xrootd, sample, "/file", "-f")
    fs(xrootd, "rm", "/file")
    xrootd.wait_removals()
    assert xrootd.objects_on_disk() == {}


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
    # Clients evict whatever they have read: what stays is an error only if no file has left the disk.
    put(xrootd, sample, "/unsafe")
    fs(xrootd, "prepare", "-e", "/file", "/unsafe")
    assert "has no tape copy" in fs_fails(xrootd, "prepare", "-e", "/unsafe")
    assert xrootd.state("/unsafe") == "online"


def test_what_staged_a_file_lets_go_of_it(xrootd: Facility, sample: Path) -> None:
    put(xrootd, sample, "/file")
    xrootd.archive_and_evict("/file")
    staged = fs(xrootd, "prepare", "-s", "/file").strip()
    xrootd.bp("wait", "--online", "/file")
    fs(xrootd, "prepare", "-e", "/file")
    assert xrootd.state("/file") == "nearline"
    assert "3000" in fs_fails(xrootd, "prepare", "-a", "nobody:1", "/file")
    fs(xrootd, "prepare", "-s", "/file")
    xrootd.bp("wait", "--online", "/file")
    fs(xrootd, "prepare", "-a", staged, "/file")
    xrootd.bp("evict", "/file")
    assert xrootd.state("/file") == "nearline"


def query_prepare(xrootd: Facility, prepared: str, *paths: str) -> dict[str, Any]:
    """Ask for the state of staged files; by path what is told of each."""
    told = json.loads(fs(xrootd, "query", "prepare", prepared, *paths))
    assert told["request_id"] == prepared
    return {entry.pop("path"): entry for entry in told["responses"]}


def test_the_state_of_a_prepare(xrootd: Facility, sample: Path) -> None:
    """`xrdfs query prepare` prints what clients of tape systems read, and stat has the flags that FTS looks at."""
    put(xrootd, sample, "/file")
    put(xrootd, sample, "/disk")
    xrootd.archive_and_evict("/file")
    vid = xrootd.stat("/file")["copies"][0]["vid"]
    xrootd.bp("volume", "set", "disabled", vid)
    prepared = fs(xrootd, "prepare", "-s", "/file").strip()
    told = query_prepare(xrootd, prepared, "/file", "/disk", "/missing")
    asked = int(told["/file"].pop("req_time"))
    assert asked == int(prepared.rpartition(":")[2], 16) // 1000
    assert told["/file"] == {
        "path_exists": True, "on_tape": True, "online": False, "requested": True, "has_reqid": True, "error_text": "",
    }  # fmt: skip
    assert told["/disk"] == {
        "path_exists": True, "on_tape": False, "online": True, "requested": False, "has_reqid": False, "req_time": "",
        "error_text": "",
    }  # fmt: skip
    assert (told["/missing"]["path_exists"], told["/missing"]["error_text"]) == (False, "/missing does not exist")
    assert not query_prepare(xrootd, "nobody:1", "/file")["/file"]["has_reqid"]
    flags = fs(xrootd, "stat", "/file")
    assert "Offline" in flags
    assert "BackUpExists" in flags
    fs(xrootd, "prepare", "-a", prepared, "/file")
    assert not query_prepare(xrootd, prepared, "/file")["/file"]["requested"]
    xrootd.bp("volume", "set", "appendable", vid)
    prepared = fs(xrootd, "prepare", "-s", "/file").strip()
    xrootd.bp("wait", "/file")
    assert query_prepare(xrootd, prepared, "/file")["/file"]["online"]
    flags = fs(xrootd, "stat", "/file")
    assert "Offline" not in flags
    assert "BackUpExists" in flags


def test_gfal_evict_lets_go_of_its_own_pin(xrootd: Facility, sample: Path) -> None:
    need("gfal-evict")
    with_gfal = {"GFAL_PYTHONBIN": SYSTEM_PYTHON}
    url = xrootd.url("/file")
    put(xrootd, sample, "/file")
    xrootd.archive_and_evict("/file")
    fs(xrootd, "prepare", "-s", "/file")
    xrootd.bp("wait", "--online", "/file")
    assert len(xrootd.stat("/file")["pins"]) == 1
    run("gfal-evict", url, env=with_gfal)
    assert xrootd.state("/file") == "nearline"
    # What others keep on disk stays, as does a file without another copy, and that is said.
    xrootd.bp("--user=eve", "stage", "--wait", "--pin", "1h", "/file")
    # It has no words of the server, only those for its code (kXR_Overloaded): `xrdfs prepare -e` tells who.
    fails("gfal-evict", url, env=with_gfal)
    assert "pinned by user eve" in fs_fails(xrootd, "prepare", "-e", "/file")
    put(xrootd, sample, "/unsafe")
    fails("gfal-evict", xrootd.url("/unsafe"), env=with_gfal)
    assert (xrootd.state("/file"), xrootd.state("/unsafe")) == ("both", "online")
    fails("gfal-evict", xrootd.url("/missing"), env=with_gfal)


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
        xrootd.wait_until("nothing is left of it", lambda: fs_code(xrootd, "/file") != 0)
