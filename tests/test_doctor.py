"""`bp doctor`: every check fails once, for a real cause; a next step that is a command mends it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients import DEADLINE, Outcome, need, run
from conftest import SMALL, MakeFacility, one_facility
from facility import Facility, Json
from host import Host, hosts
from test_clocks import Clock

DAY = 24 * 3600
CHECKS = {
    "daemon", "clock", "disks", "tape", "workers", "ports", "key", "permissions", "room", "certificates", "backup",
}  # fmt: skip


def doctor(facility: Facility, *words: str, env: dict[str, str] | None = None, before: tuple[str, ...] = ()) -> Outcome:
    """Run it, after the words of a program that runs others."""
    place = {"BP_FACILITY": str(facility.directory), **(env or {})}
    return run(*before, facility.bin / "bp", *words, "doctor", env=place, check=False)


def look(facility: Facility, env: dict[str, str] | None = None, before: tuple[str, ...] = ()) -> list[Json]:
    """List what it finds; the exit code must agree."""
    outcome = doctor(facility, "--json", env=env, before=before)
    found: list[Json] = [json.loads(line) for line in outcome.out.splitlines()]
    assert found, outcome
    wrong = [one for one in found if one["verdict"] == "wrong"]
    assert outcome.code == (1 if wrong else 0), outcome
    assert all(one["next"] for one in wrong), wrong
    return found


def wrong(facility: Facility, env: dict[str, str] | None = None, before: tuple[str, ...] = ()) -> dict[str, Json]:
    """Tell the first finding of each check that fails."""
    found: dict[str, Json] = {}
    for one in look(facility, env, before):
        if one["verdict"] == "wrong":
            found.setdefault(one["check"], one)
    return found


def wait_wrong(facility: Facility, check: str, text: str) -> Json:
    """Wait until a check fails and says this; returns the finding."""

    def found() -> list[Json]:
        return [one for one in look(facility) if one["verdict"] == "wrong" and one["check"] == check]

    facility.wait_until(f"{check}: {text}", lambda: any(re.search(text, one["found"]) for one in found()))
    return next(one for one in found() if re.search(text, one["found"]))


def mend(facility: Facility, finding: Json) -> None:
    """Type what it says to do next."""
    (command,) = re.findall("`([^`]+)`", finding["next"])
    words = shlex.split(command)
    program = str(facility.bin / "bp") if words[0] == "bp" else words[0]
    run(program, *words[1:], env={"BP_FACILITY": str(facility.directory)})


def wait_good(facility: Facility) -> None:
    """Wait until nothing is wrong."""
    try:
        facility.wait_until("nothing is wrong", lambda: not wrong(facility))
    except pytest.fail.Exception as late:
        pytest.fail(f"{late}\n{doctor(facility, '--json').out}", pytrace=False)


def need_root() -> None:
    """Go on only as root."""
    if os.getuid() != 0:
        pytest.skip("only root can mount file systems, make networks and give files away")


def test_a_new_facility_is_well(facility: Facility) -> None:
    found = look(facility)
    assert {one["check"] for one in found} >= CHECKS - {"certificates"}
    assert {one["verdict"] for one in found} == {"good"}
    shown = facility.bp("doctor").out
    assert "no problem found" in shown
    assert re.search(r"^good +daemon +", shown, re.M), shown
    assert facility.bp("doctor", "--wrong").out == "no problem found\n"


@pytest.mark.parametrize("end", ["down", "kill"])
def test_a_daemon_that_is_not_there(facility: Facility, end: str) -> None:
    getattr(facility, end)()
    finding = wrong(facility)["daemon"]
    assert "bp up" in finding["next"], finding
    shown = doctor(facility)
    assert re.search(r"^wrong +daemon .*\n +next: .*bp up", shown.out, re.M), shown
    # What needs no daemon is looked at all the same.
    assert {"permissions", "room", "backup"} <= {one["check"] for one in look(facility)}


def test_files_that_others_can_read(facility: Facility) -> None:
    key = facility.directory / "key"
    key.chmod(0o644)
    finding = wrong(facility)["permissions"]
    assert "0644" in finding["found"], finding
    mend(facility, finding)
    assert key.stat().st_mode & 0o777 == 0o600
    assert not wrong(facility)


def test_files_of_another_user(facility: Facility) -> None:
    need_root()
    file = facility.directory / "facility.toml"
    os.chown(file, 65534, 65534)
    finding = wrong(facility)["permissions"]
    assert "belongs to uid 65534" in finding["found"], finding
    mend(facility, finding)
    assert file.stat().st_uid == os.getuid()
    assert not wrong(facility)


def test_a_clock_that_is_wrong(facility: Facility, tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    for seconds in (60, -60):
        clock.set(seconds)
        finding = wrong(facility, clock.environment)["clock"]
        assert re.search("differ by (1 min|59 s)", finding["found"]), finding
    clock.set(2)
    assert not wrong(facility, clock.environment)


def test_what_gets_old(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.keep_ports(https=True)
    facility.up()
    clock = Clock(tmp_path / "clock")
    clock.set(8 * DAY)
    assert "records no backup" in wrong(facility, clock.environment)["backup"]["found"]
    facility.bp("backup", tmp_path / "saved")
    clock.set(6 * DAY)
    assert set(wrong(facility, clock.environment)) == {"clock"}
    clock.set(8 * DAY)
    found = wrong(facility, clock.environment)
    assert set(found) == {"clock", "backup"}
    assert "8 d" in found["backup"]["found"] or "8d" in found["backup"]["found"], found
    clock.set(400 * DAY)
    found = wrong(facility, clock.environment)
    assert "has signed for" in found["key"]["found"], found
    assert "bp key rotate" in found["key"]["next"], found
    clock.set(50 * 366 * DAY)
    assert "expired on" in wrong(facility, clock.environment)["certificates"]["found"]


def test_a_certificate_that_is_damaged(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.keep_ports(https=True)
    facility.up()
    assert "certificates" in {one["check"] for one in look(facility)}
    (facility.directory / "tls" / "host.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n"
    )
    assert "is damaged" in wrong(facility)["certificates"]["found"]


def test_doors_that_cannot_be_reached(facility: Facility) -> None:
    need_root()
    need("unshare")
    # A network of its own in which nothing is up: only the socket in the directory answers.
    finding = wrong(facility, before=("unshare", "--net"))["ports"]
    assert "cannot be reached" in finding["found"], finding
    assert "firewall" in finding["next"], finding


def test_a_host_whose_name_is_not_found(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.keep_ports(https=True)
    facility.up()
    host = Host(facility, tmp_path / "d1", "d1")
    host.options.append("--address=gone.invalid")
    host.join()
    host.up()
    try:
        finding = wrong(facility)["ports"]
        assert "host d1: cannot resolve the name in root://gone.invalid" in finding["found"], finding
        assert "/etc/hosts" in finding["next"], finding
    finally:
        host.down()


@contextmanager
def on_a_small_disk(directory: Path) -> Iterator[Facility]:
    """Run a facility on a file system of its own."""
    need_root()
    directory.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "small", directory)
    try:
        options = {**SMALL, "volume_size": "8MiB", "volumes": 1}
        with one_facility(directory / "facility", **options) as facility:
            facility.configure("reserve", '"1MiB"')
            facility.up()
            yield facility
    finally:
        run("umount", "--lazy", directory)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    with on_a_small_disk(tmp_path / "small") as facility:
        wait_good(facility)
        free = shutil.disk_usage(facility.directory).free
        filler = tmp_path / "small" / "filler"
        run("fallocate", "-l", str(free - (512 << 10)), filler)
        assert " free below " in wrong(facility)["room"]["found"]
        finding = wait_wrong(facility, "disks", "is full")
        assert "bp pool collect main --dry-run" in finding["next"], finding
        filler.unlink()
        wait_good(facility)


def test_drives_and_volumes_that_are_out_of_use(make_facility: MakeFacility) -> None:
    facility = make_facility(volumes=1)
    facility.up()
    drive = facility.status()["drives"][0]["name"]
    facility.bp("admin", "drive", "disable", drive, "--reason", "dirty heads")
    finding = wait_wrong(facility, "tape", f"drive {drive} .*dirty heads")
    mend(facility, finding)
    wait_good(facility)
    (volume,) = facility.status()["volumes"]
    facility.bp("admin", "volume", "set", volume["vid"], "suspect")
    texts = [one["found"] for one in look(facility) if one["verdict"] == "wrong"]
    assert any(f"volume {volume['vid']} is suspect" in text for text in texts), texts
    assert "no volume has free space" in texts


def test_a_tape_request_that_failed(make_facility: MakeFacility, sample: Path) -> None:
    facility = make_facility()
    facility.expect_log("tape (request failed|session ended early)")
    facility.up()
    facility.put(sample, "/a")
    facility.archive_and_evict("/a")
    vid = facility.stat("/a")["copies"][0]["vid"]
    facility.down()
    facility.cartridge(vid).write_bytes(b"")
    facility.up()
    facility.bp("stage", "/a")
    finding = wait_wrong(facility, "tape", "request has failed|is suspect")
    assert "bp " in finding["next"], finding


def test_hosts_that_died(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.expect_log(
        "silent for too long|a client could not reach this server|list of objects differs"
        "|mirror not written|copy failed"
    )
    facility.keep_ports(https=True)
    facility.up()
    with hosts(facility, tmp_path, "d1") as (disk,):
        worker = Host(facility, tmp_path / "w1", "w1", ("cpu",))
        worker.ports = [port + 1000 for port in worker.ports]
        worker.join()
        worker.up()
        try:
            wait_good(facility)
            facility.bp("pool", "set", "main", "--copies=2", "--heard-bound=2s", "--silence-bound=4s")
            facility.put_bytes(b"x" * 10_000, "/both")
            facility.wait_until("it is on both", lambda: len(facility.stat("/both")["replicas"]) == 2)
            disk.kill()
            wait_wrong(facility, "disks", f"partition main/{disk.partition} is (silent|given up)")
            wait_wrong(facility, "copies", "1 file has fewer copies than pool main promises")
            worker.kill()
            finding = wait_wrong(facility, "workers", f"worker {worker.name}-worker1 on {worker.name} is silent")
            assert worker.name in finding["next"], finding
            disk.up()
            worker.up()
            facility.bp("pool", "use", disk.partition)
            wait_good(facility)
        finally:
            worker.down()


def test_a_host_that_has_joined_is_looked_at_where_it_is(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.keep_ports(https=True)
    facility.up()
    with hosts(facility, tmp_path, "d1") as (host,):
        (host.directory / "tls" / "host.key").chmod(0o640)
        outcome = run(facility.bin / "bp", "-f", host.directory, "--json", "doctor", check=False, deadline=DEADLINE)
        found = [json.loads(line) for line in outcome.out.splitlines()]
        assert "backup" not in {one["check"] for one in found}, "the catalogue is elsewhere"
        assert {"permissions", "room", "certificates"} <= {one["check"] for one in found}


def test_a_catalogue_that_went_back(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.expect_log("the catalogue (is older than its disks|was restored)")
    facility.up()
    facility.bp("backup", tmp_path / "saved")
    facility.put_bytes(b"later", "/later")
    facility.down()
    (facility.directory / "catalogue.sqlite").unlink()
    for rest in facility.directory.glob("catalogue.sqlite-*"):
        rest.unlink()
    run(facility.bin / "bpd", "restore", facility.directory, tmp_path / "saved")
    facility.up()
    finding = wrong(facility)["catalogue"]
    assert "bp admin settle" in finding["next"], finding
