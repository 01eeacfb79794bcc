"""`bp cp`: between this host and servers, many files at once, verified and resumed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clients import DEADLINE, make_bytes, write_file
from cutter import Cutter
from facility import Facility
from stock import stock_server

READ, WRITE = 3013, 3019
"""Requests of the protocol that move data."""


def make_tree(top: Path) -> dict[str, bytes]:
    """Make files in directories; return them by their paths."""
    files = {"a": b"", "b c": make_bytes(70_001, 2), "d/e": make_bytes(3_000_000, 3), "d/f/ü": make_bytes(5, 4)}
    for name, data in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)
    (top / "empty").mkdir()
    return files


def read_tree(top: Path) -> dict[str, bytes]:
    """Read all files below a directory."""
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


def lines(text: str) -> list[dict[str, Any]]:
    """Read one JSON value a line."""
    return [json.loads(line) for line in text.splitlines()]


def test_trees_go_there_and_back(facility: Facility, tmp_path: Path) -> None:
    """A tree that was copied in, then within the facility, then out again, is the same."""
    files = make_tree(tmp_path / "in")
    facility.bp("cp", "-r", tmp_path / "in", "bp:/x/y/")
    facility.bp("cp", "-r", "bp:/x/y/in", facility.url("/z"))
    told = lines(facility.bp("cp", "-r", "--json", facility.url("/z"), tmp_path / "out").out)
    assert read_tree(tmp_path / "out") == files
    assert (tmp_path / "out" / "empty").is_dir()
    assert {Path(line["target"]).name for line in told} == {Path(name).name for name in files}
    assert all(line["is_verified"] and line["checksum"].startswith("crc32c:") for line in told)
    assert not list(tmp_path.rglob("*.bp-part*"))


def test_trees_that_are_deeper_than_the_namespace_are_refused_before_anything_is_copied(
    facility: Facility, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text("first")
    monkeypatch.chdir(tmp_path / "deep")
    # Further down the whole path is longer than the kernel takes.
    for _ in range(3000):
        os.mkdir("d")  # noqa: PTH102
        os.chdir("d")
    os.chdir(tmp_path)
    refused = facility.bp_fails("cp", "-r", tmp_path / "deep", "bp:/deep")
    assert "deeper than 128 directories" in refused.err
    assert len(refused.err) < 2000
    assert facility.bp_fails("stat", "/deep").code == 3
    # The library that removes temporary directories recurses.
    subprocess.run(["rm", "-rf", tmp_path / "deep"], check=True)


def test_links_that_lead_back_are_not_followed_for_ever(facility: Facility, tmp_path: Path) -> None:
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "file").write_text("x")
    (tmp_path / "loop" / "up").symlink_to("..")
    facility.bp("cp", "-q", "-r", tmp_path / "loop", "bp:/loop")
    found = facility.bp("find", "/loop").out.split()
    assert found == ["/loop", "/loop/file"]


def test_a_name_that_exists_is_no_pattern(facility: Facility, tmp_path: Path) -> None:
    """A file called `run*` is that file for every verb; without it the same word is a pattern."""
    for name in ("run*", "run1", "run2", "run[1]", "run:12"):
        (tmp_path / name).write_text(name)
        facility.bp("cp", tmp_path / name, f"bp:/d/{name}" if name == "run*" else "bp:/d/")
    for name in ("run*", "run[1]", "run:12"):
        assert facility.bp("ls", f"/d/{name}").out == f"/d/{name}\n"
        assert facility.bp("cat", f"/d/{name}").out == name
        for verb, place in (("get", f"/d/{name}"), ("cp", f"bp:/d/{name}"), ("cp", facility.url(f"/d/{name}"))):
            (tmp_path / "out").mkdir()
            facility.bp(verb, place, tmp_path / "out")
            assert read_tree(tmp_path / "out") == {name: name.encode()}
            (tmp_path / "out" / name).unlink()
            (tmp_path / "out").rmdir()
    inputs = ("--input", "/d/run:12", "--input", "/d/run1:in")
    facility.bp("submit", "--wait", *inputs, "--", "/bin/cat", "run:12", "in")
    assert "run:12run1" in facility.bp("log", "1").out
    facility.bp("rm", "/d/run*")
    assert facility.bp("ls", "/d").out == "run1\nrun2\nrun:12\nrun[1]\n"
    (tmp_path / "out").mkdir()
    facility.bp("cp", "bp:/d/run?", tmp_path / "out")
    assert sorted(read_tree(tmp_path / "out")) == ["run1", "run2"]


def test_many_files_at_once(facility: Facility, tmp_path: Path) -> None:
    """A hundred files go by sixteen threads; those that fail are named and the others arrive."""
    (tmp_path / "in").mkdir()
    files = {f"f{number}": make_bytes(number * 997, number) for number in range(100)}
    for name, data in files.items():
        (tmp_path / "in" / name).write_bytes(data)
    facility.bp("cp", "-j", "16", "-r", tmp_path / "in", "bp:/many")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f7").write_bytes(b"mine")
    outcome = facility.bp_fails("cp", "--parallel=16", "bp:/many/f*", tmp_path / "out")
    assert outcome.code == 4
    assert "f7 exists" in outcome.err
    assert "--replace" in outcome.err
    assert read_tree(tmp_path / "out") == files | {"f7": b"mine"}
    facility.bp("cp", "--replace", "bp:/many/f7", tmp_path / "out")
    assert read_tree(tmp_path / "out") == files


def test_what_is_refused(facility: Facility, sample: Path, tmp_path: Path) -> None:
    """Refusals say what and why, and leave nothing behind."""
    facility.bp("cp", sample, "bp:/sample")
    cases: list[tuple[tuple[str | Path, ...], int, str]] = [
        (("bp:/none", tmp_path / "x"), 3, "does not exist"),
        (("bp:/", tmp_path / "x"), 4, "add -r"),
        ((sample, tmp_path / "x"), 2, "use cp"),
        (("http://h/x", tmp_path / "x"), 2, "root://"),
        ((sample, "bp:/sample"), 4, "exists"),
        (("bp:/sample", "bp:/sample", tmp_path / "x"), 4, "is not a directory"),
        (("root://127.0.0.1:1//f", tmp_path / "x"), 6, "connect to 127.0.0.1:1"),
    ]
    for words, code, said in cases:
        outcome = facility.bp_fails("cp", *words)
        assert (outcome.code, said in outcome.err) == (code, True), str(outcome)
    assert not (tmp_path / "x").exists()
    told = facility.bp("cp", "--dry-run", "-r", "bp:/", tmp_path / "x").out
    assert "bp:/sample -> " in told
    assert not (tmp_path / "x").exists()


def test_streams_and_devices(facility: Facility, tmp_path: Path) -> None:
    """`-` is standard input or output; what is no file is written to and not replaced."""
    data = make_bytes(5_000_003, 9)
    url, bp = facility.url("/piped"), [str(facility.bin / "bp"), "--quiet", "cp"]
    subprocess.run([*bp, "-", url], input=data, check=True, timeout=DEADLINE)
    read = subprocess.run([*bp, url, "-"], capture_output=True, check=True, timeout=DEADLINE)
    assert (read.stdout == data, read.stderr) == (True, b"")
    outcome = facility.bp("cp", url, "/dev/null")
    assert "4.77 MiB" in outcome.out
    assert Path("/dev/null").is_char_device()
    assert facility.bp_fails("cp", url, url, "-").code == 4
    assert "use cp" in facility.bp_fails("cp", write_file(tmp_path / "here", 10), "-").err


@pytest.mark.parametrize("code", [READ, WRITE])
def test_a_cut_wire_costs_nothing_but_time(facility: Facility, tmp_path: Path, code: int) -> None:
    """A connection that breaks in the middle of a copy is made anew, in both directions."""
    source = write_file(tmp_path / "source", 12_345_678, seed=9)
    with Cutter(facility.root, code) as wire:
        facility.bp("cp", source, f"{wire.root}//cut")
        facility.bp("cp", f"{wire.root}//cut", tmp_path / "back")
        assert wire.has_cut
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


class Narrow(Cutter):
    """Stands before a `root://` door and lets only so many bytes of answers through, until it is widened."""

    def __init__(self, root: str, allowance: int) -> None:
        super().__init__(root, -1)
        self.allowance: float = allowance

    def _answers(self, door: socket.socket, client: socket.socket) -> None:  # type: ignore[override]
        with suppress(OSError):
            while self.allowance > 0 and (data := door.recv(1 << 16)):
                client.sendall(data)
                self.allowance -= len(data)


def test_a_killed_download_is_gone_on_with(facility: Facility, tmp_path: Path) -> None:
    """What a killed copy fetched is not fetched again, unless the file has changed."""
    source = write_file(tmp_path / "source", 20_000_000, seed=5)
    facility.bp("cp", source, "bp:/big")
    target = tmp_path / "target"
    part = tmp_path / ".target.bp-part"
    with Narrow(facility.root, 9_000_000) as wire:
        words: list[str | Path] = [facility.bin / "bp", "cp", "--resume", f"{wire.root}//big", target]
        with subprocess.Popen(words, stderr=subprocess.PIPE) as copy:
            end = time.monotonic() + DEADLINE
            while not (part.exists() and part.stat().st_size > 5_000_000):
                assert time.monotonic() < end, "the copy does not begin"
                assert copy.poll() is None, copy.communicate()
            copy.send_signal(signal.SIGKILL)
        kept = part.stat().st_size
        assert not target.exists()
        wire.allowance = float("inf")
        told = lines(facility.bp("cp", "--resume", "--json", f"{wire.root}//big", target).out)
    assert told[0]["resumed_bytes"] == kept
    assert target.read_bytes() == source.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if "part" in path.name) == []


def test_a_changed_file_is_fetched_from_its_start(facility: Facility, tmp_path: Path) -> None:
    """A part of an older file is of no use."""
    facility.put_bytes(b"new content", "/f")
    (tmp_path / ".f.bp-part").write_bytes(b"old")
    record = {"source": facility.url("/f"), "size": 11, "modified_s": 1, "checksum": None}
    (tmp_path / ".f.bp-part.json").write_text(json.dumps(record))
    told = lines(facility.bp("cp", "--resume", "--json", facility.url("/f"), tmp_path / "f").out)
    assert told[0]["resumed_bytes"] == 0
    assert (tmp_path / "f").read_bytes() == b"new content"


@pytest.fixture
def stock() -> Iterator[tuple[str, Path]]:
    """Start a server of the field; give its URL and its directory."""
    with stock_server("xrootd.async off") as served:
        yield served


def test_a_server_of_the_field(facility: Facility, stock: tuple[str, Path], tmp_path: Path) -> None:
    """Copies to, from and between our servers and others are verified by what both know."""
    url, top = stock
    source = write_file(tmp_path / "source", 5_000_001, seed=3)
    told = lines(facility.bp("cp", "--json", source, f"{url}/f").out)
    assert told[0]["is_verified"]
    assert told[0]["checksum"].startswith("adler32:")
    assert (top / "f").read_bytes() == source.read_bytes()
    facility.bp("cp", f"{url}/f", "bp:/f")
    facility.bp("cp", "bp:/f", f"{url}/g")
    facility.bp("cp", "--streams", "2", f"{url}/g", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    outcome = facility.bp_fails("cp", source, f"{url}/f")
    assert outcome.code == 4, str(outcome)


def test_encrypted_copies(facility: Facility, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A roots:// door is trusted if its authority is."""
    url = f"{facility.endpoint('roots')}//secret"
    outcome = facility.bp_fails("cp", sample, url)
    assert "certificate" in outcome.err, str(outcome)
    assert "BP_CA_FILE" in outcome.err, str(outcome)
    monkeypatch.setenv("BP_CA_FILE", str(facility.directory / "tls" / "ca.pem"))
    facility.bp("cp", sample, url)
    facility.bp("cp", url, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == sample.read_bytes()
