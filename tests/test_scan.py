"""Scans of partitions: what is lost, unknown, too short or damaged is found, and mended without losing anything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from conftest import MakeFacility
from facility import ApiError, Facility, Json
from host import hosts

DISK = "disk1"
EXPECTED = (
    r"scan found a difference",
    r"a replica is no longer served",
    # A recall reads the file anew; what was lost may have been asked for meanwhile.
    r"is not what its description says",
)


def partition(facility: Facility) -> Path:
    """Find the directory of the partition."""
    return facility.directory / "disk" / DISK


def data_of(facility: Facility, path: str) -> Path:
    """Find the object of a file by the description beside it."""
    for description in partition(facility).glob("objects/*/*.json"):
        if json.loads(description.read_text())["path"] == path:
            return description.with_suffix("")
    raise AssertionError(f"{path} has no object")


def status(facility: Facility, name: str = DISK) -> Json:
    """Read how far the scan of a partition has come."""
    scans: list[Json] = facility.bp_json("scan", "status")["scans"]
    return next(scan for scan in scans if scan["partition"] == name)


def scan(facility: Facility, *words: str, name: str = DISK) -> Json:
    """Make a scan and wait for its end."""
    facility.bp("scan", "start", name, *words)
    facility.wait_until("the scan is done", lambda: status(facility, name)["state"] == "done")
    return status(facility, name)


def report(facility: Facility, name: str = DISK) -> dict[str, tuple[str, str]]:
    """Read what was found: path, or object, to kind and outcome."""
    findings = facility.bp_json("scan", "report", name)["findings"]
    return {one["path"] or str(one["object"]): (one["kind"], one["outcome"]) for one in findings}


def repair(facility: Facility, *words: str) -> None:
    """Mend what was found and wait for the end of that."""
    facility.bp("scan", "repair", DISK, *words)
    facility.wait_until("all is mended", lambda: status(facility)["state"] == "done")


def flipped(content: bytes) -> bytes:
    """Change a byte in the middle, and keep the size."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def flip(file: Path) -> None:
    """Change a byte of a file, and nothing else that could be seen."""
    before = file.stat()
    file.write_bytes(flipped(file.read_bytes()))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def add_orphan(facility: Facility) -> str:
    """Leave an object that the catalogue has forgotten."""
    facility.put_bytes(b"orphan" * 100, "/orphan")
    data = data_of(facility, "/orphan")
    saved = facility.directory / "saved"
    saved.mkdir()
    for file in (data, data.with_name(data.name + ".json")):
        shutil.copy(file, saved / file.name)
    facility.bp("rm", "/orphan")
    facility.wait_removals()
    for file in saved.iterdir():
        shutil.copy(file, data.with_name(file.name))
    return data.name


@pytest.fixture
def facility(make_facility: MakeFacility) -> Facility:
    """Run a facility with one file on which nothing is wrong."""
    facility = make_facility()
    for pattern in EXPECTED:
        facility.expect_log(pattern)
    facility.up()
    facility.put_bytes(b"good" * 1000, "/good")
    return facility


def test_what_is_wrong_is_found_and_mended(facility: Facility) -> None:
    content = {path: os.urandom(100_000) for path in ("/lost", "/short", "/rotten", "/rotten-alone")}
    for path, data in content.items():
        facility.put_bytes(data, path)
    facility.bp("archive", "--wait", "/lost", "/short", "/rotten")
    orphan = add_orphan(facility)
    data_of(facility, "/lost").unlink()
    os.truncate(data_of(facility, "/short"), 99_999)
    flip(data_of(facility, "/rotten"))
    overwritten = data_of(facility, "/rotten-alone")
    overwritten.write_bytes(flipped(content["/rotten-alone"]))

    # Bytes are read only if that is asked for, and where somebody has written.
    found = scan(facility)
    kinds = Counter(kind for kind, _ in report(facility).values())
    assert kinds == {"lost": 1, "wrong_size": 1, "orphan": 1, "wrong_checksum": 1}
    assert report(facility)["/rotten-alone"] == ("wrong_checksum", "")
    assert found["found"] == [1, 1, 1, 1, 0]
    assert found["bytes"] == 100_000
    found = scan(facility, "--checksum")
    kinds = {path: kind for path, (kind, _) in report(facility).items()}
    assert kinds == {
        "/lost": "lost",
        "/short": "wrong_size",
        "/rotten": "wrong_checksum",
        "/rotten-alone": "wrong_checksum",
        orphan: "orphan",
    }
    assert found["bytes"] >= 200_000
    assert orphan in facility.bp("scan", "report", DISK).out
    assert scan(facility)["found"] == [1, 1, 1, 1, 0], "what is read once more is not forgotten"
    scan(facility, "--checksum")

    # What nobody knows is left alone as long as it is young.
    repair(facility)
    outcomes = {path: outcome for path, (_, outcome) in report(facility).items()}
    assert outcomes[orphan].startswith("left: ")
    assert outcomes["/lost"] == "the replica was removed from the catalogue"
    assert outcomes["/rotten"] == "moved to quarantine"
    repair(facility, "--older-than", "0s")
    assert report(facility)[orphan][1] == "moved to quarantine"
    quarantine = partition(facility) / "quarantine"
    assert (quarantine / orphan).read_bytes() == b"orphan" * 100

    # The other copy is used, and what has none is not served.
    for path in ("/lost", "/short", "/rotten"):
        facility.bp("stage", "--wait", path)
        assert facility.read(path) == content[path]
    with pytest.raises(ApiError):
        facility.read("/rotten-alone")
    kept = [file.read_bytes() for file in quarantine.iterdir() if file.suffix != ".json"]
    assert flipped(content["/rotten-alone"]) in kept, "its bytes may be of use to somebody"
    assert facility.read("/good") == b"good" * 1000

    found = scan(facility, "--checksum")
    assert (found["found"], report(facility)) == ([0, 0, 0, 0, 0], {})


def test_what_nobody_has_changed_is_not_read_again(facility: Facility) -> None:
    for number in range(100):
        facility.put_bytes(f"{number}".encode() * 100, f"/dir/{number}")
    description = data_of(facility, "/good")
    description = description.with_name(description.name + ".json")
    text = description.read_bytes()
    # What was touched without a change is read once.
    os.utime(data_of(facility, "/dir/7"))
    assert (scan(facility)["found"], status(facility)["bytes"]) == ([0, 0, 0, 0, 0], 100)
    assert (scan(facility)["found"], status(facility)["bytes"]) == ([0, 0, 0, 0, 0], 0)
    description.write_bytes(text[:-20])
    assert scan(facility)["found"] == [0, 0, 0, 0, 1], "its description was changed"
    description.write_bytes(text)
    assert scan(facility)["found"] == [0, 0, 0, 0, 0]
    # The index is a help and no truth.
    for file in (partition(facility) / "index").iterdir():
        file.write_bytes(os.urandom(1000))
    assert scan(facility)["found"] == [0, 0, 0, 0, 0]
    shutil.rmtree(partition(facility) / "index")
    os.truncate(data_of(facility, "/dir/9"), 5)
    assert report(facility) == {}
    assert scan(facility)["found"] == [0, 0, 1, 0, 0]
    assert status(facility)["looks"] == 101


def test_what_is_being_written_is_never_reported(facility: Facility) -> None:
    writer = subprocess.Popen(
        [facility.bin / "bp", "put", "-", "/slow"],
        stdin=subprocess.PIPE,
        env={**os.environ, "BP_FACILITY": str(facility.directory)},
    )
    assert writer.stdin is not None
    writer.stdin.write(b"x" * 3_000_000)
    writer.stdin.flush()
    facility.wait_until("the file is being written", lambda: any((partition(facility) / "incoming").iterdir()))
    assert scan(facility, "--checksum")["found"] == [0, 0, 0, 0, 0]
    writer.stdin.close()
    assert writer.wait(60) == 0
    assert scan(facility, "--checksum")["found"] == [0, 0, 0, 0, 0]
    assert facility.read("/slow") == b"x" * 3_000_000


def test_a_scan_goes_on_after_a_restart_and_can_be_stopped(facility: Facility) -> None:
    facility.expect_log("differs from the catalogue")
    for number in range(20):
        facility.put_bytes(b"content", f"/dir/{number}")
    data_of(facility, "/dir/7").unlink()
    facility.bp("scan", "start", "--objects", "15")
    assert facility.bp_fails("scan", "start").err.count("is being scanned") == 1
    facility.kill()
    facility.up()
    facility.wait_until("the scan is done", lambda: status(facility)["state"] == "done")
    assert report(facility) == {"/dir/7": ("lost", "")}
    assert "no scan was stopped" in facility.bp_fails("scan", "resume").err
    facility.bp("scan", "start", "--objects", "4")
    facility.bp("scan", "stop")
    assert status(facility)["state"] == "stopped"
    facility.bp("scan", "resume", DISK)
    facility.wait_until("the scan is done", lambda: status(facility)["state"] == "done")
    assert report(facility) == {"/dir/7": ("lost", "")}
    assert "must be above zero" in facility.bp_fails("scan", "start", "--objects", "0").err


def test_an_object_that_the_catalogue_never_gave_is_not_touched(facility: Facility) -> None:
    data = data_of(facility, "/good")
    stranger = data.with_name(str(int(data.name) + 256 * 1000))
    description = json.loads(data.with_name(data.name + ".json").read_text())
    description["object"] = int(stranger.name)
    stranger.write_bytes(data.read_bytes())
    stranger.with_name(stranger.name + ".json").write_text(json.dumps(description))
    scan(facility)
    repair(facility, "--older-than", "0s")
    ((kind, outcome),) = report(facility).values()
    assert kind == "orphan"
    assert outcome.startswith("left: ")
    assert stranger.exists()


def test_a_disk_server_on_another_host_is_scanned(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(disk_size="1MiB")
    for pattern in EXPECTED:
        facility.expect_log(pattern)
    facility.keep_ports(https=True)
    facility.up()
    with hosts(facility, tmp_path, "d1") as (host,):
        # What is looked at stays where it is.
        facility.bp("pool", "set", "main", "--server-moves=0")
        for name in ("/one", "/two"):
            facility.put_bytes(name.encode() * 1000, name)
        far = host.directory / "disk" / host.partition
        (lost,) = (file for file in far.glob("objects/*/*.json") if json.loads(file.read_text())["path"] == "/one")
        lost.with_suffix("").unlink()
        found = scan(facility, "--checksum", name=host.partition)
        assert (found["found"], found["bytes"]) == ([1, 0, 0, 0, 0], 4000)
        assert report(facility, host.partition) == {"/one": ("lost", "")}
        facility.bp("scan", "repair", host.partition)
        facility.wait_until("it is mended", lambda: status(facility, host.partition)["mended"] == 1)
        assert facility.state("/one") == "lost"
        facility.bp("rm", "/one")
