"""Failures name the path of the namespace, the partition or the volume, never where a host keeps its files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import frames
from clients import run, write_file
from conftest import SMALL, MakeFacility
from facility import Facility


@pytest.fixture
def facility(make_facility: MakeFacility) -> Iterator[Facility]:
    """Start a facility whose disk is full after a megabyte, and whose log may say what went wrong."""
    one = make_facility(**{**SMALL, "disk_size": "1MiB"})
    one.expect_log("")
    one.up()
    return one


def told(facility: Facility) -> str:
    """Collect what users are told of everything."""
    texts = [json.dumps(facility.call(name)) for name in ("status", "jobs", "bill")]
    texts += [
        facility.bp(*words, check=False).text for words in (("queue",), ("status",), ("jobs", "--all"), ("scan",))
    ]
    return "\n".join(texts)


def test_a_full_partition(facility: Facility, tmp_path: Path) -> None:
    local = write_file(tmp_path / "large", 3 << 20)
    texts = [facility.bp_fails("put", local, "/large").text]
    texts += [run("curl", "-sS", "-T", local, f"{facility.http}/large").out]
    texts += [run("xrdcp", "-s", local, facility.url("/large"), check=False).text]
    for text in texts:
        assert "free" in text or "space" in text.lower(), text
        assert str(facility.directory) not in text


def test_a_lost_and_a_damaged_object(facility: Facility) -> None:
    facility.put_bytes(b"bytes" * 1000, "/lost")
    facility.put_bytes(b"bytes" * 1000, "/odd")
    objects = sorted(path for path in (facility.directory / "disk" / "disk1").glob("objects/*/*") if not path.suffix)
    objects[0].unlink()
    objects[1].unlink()
    objects[1].mkdir()
    for path in ("/lost", "/odd"):
        answer = run("curl", "-sS", f"{facility.http}{path}").out
        assert str(facility.directory) not in answer
        assert str(facility.directory) not in facility.bp("cat", path, check=False).text
        with frames.Raw(facility.root).login() as raw:
            raw.request(frames.OPEN, b"\0\0\0\x10" + b"\0" * 12, path.encode())
            assert str(facility.directory).encode() not in raw.answer().body
    assert str(facility.directory) not in told(facility)


def test_damaged_cartridges(facility: Facility) -> None:
    facility.put_bytes(b"bytes" * 1000, "/f")
    facility.archive_and_evict("/f")
    facility.down()
    for cartridge in (facility.directory / "tape").rglob("*.aws"):
        data = cartridge.read_bytes()
        # The label can be read, what follows cannot.
        cartridge.write_bytes(data[:600] + b"\xff" * (len(data) - 600))
    facility.up()
    facility.bp("stage", "/f")
    facility.wait_until("the tape room tells why", lambda: "volume BP0001" in told(facility))
    assert str(facility.directory) not in told(facility)


def test_a_job_without_a_place(facility: Facility) -> None:
    # Until it is there it makes what is taken away here.
    facility.wait_until("the worker is there", lambda: facility.status()["workers"])
    batch = facility.directory / "batch"
    for path in batch.iterdir():
        if path.is_dir():
            # What the daemon takes away meanwhile is gone, too.
            shutil.rmtree(path, ignore_errors=True)
            path.write_text("not a directory")
    job = facility.submit("--wall=1m", "--", "/bin/true")
    info = facility.wait_job(job)
    assert info["state"] != "done"
    assert str(facility.directory) not in json.dumps(info) + told(facility)
