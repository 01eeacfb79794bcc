"""A pool that is full of files that are safe on tape is not full: writes wait for the space that is being freed."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import DEADLINE, fails, make_bytes, need, run, write_file
from conftest import SMALL, one_facility
from facility import Facility
from host import hosts

MIB = 1 << 20
SIZE = 9 * MIB
OLD = 6


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Start a facility whose disk holds six files and a little more."""
    options = {**SMALL, "disk_size": "60MiB", "volume_size": "400MiB"}
    with one_facility(tmp_path_factory.mktemp("full") / "facility", **options) as facility:
        facility.expect_log(r"cannot be stored|copy failed; retrying|the drive warned of its end")
        facility.reach_this_host()
        facility.up()
        yield facility


@pytest.fixture
def full(started: Facility, tmp_path: Path) -> Facility:
    """Fill the disk with files that are on tape, too."""
    started.bp("mkdir", "-p", "/old", "/new")
    started.bp("rm", *[f"/new/{entry['name']}" for entry in entries(started, "/new")], check=False)
    paths = [f"/old/{number}" for number in range(OLD)]
    for number, path in enumerate(paths):
        started.bp("cp", "-q", "--replace", write_file(tmp_path / "old", SIZE, number), f"bp:{path}")
    started.bp("archive", "--wait", *paths)
    return started


def entries(facility: Facility, path: str) -> list[dict[str, object]]:
    """List a directory."""
    return list(facility.call("list", path=path)["entries"])


def test_a_client_that_says_how_much_comes_is_served(full: Facility, tmp_path: Path) -> None:
    need("xrdcp", "curl")
    source = write_file(tmp_path / "new", SIZE, 77)
    for number in range(4):
        run("xrdcp", "-s", source, full.url(f"/new/xrdcp{number}"))
        run("curl", "-sSf", "-T", source, f"{full.http}/new/curl{number}")
        full.bp("cp", "-q", source, f"bp:/new/cp{number}")
        full.bp("archive", "--wait", f"/new/xrdcp{number}", f"/new/curl{number}", f"/new/cp{number}")
    for kind in ("xrdcp", "curl", "cp"):
        assert full.read(f"/new/{kind}3") == source.read_bytes()


def test_a_write_of_unknown_length_gets_space_as_it_grows(full: Facility, tmp_path: Path) -> None:
    need("curl")
    data = make_bytes(50 * MIB, 3)
    (tmp_path / "data").write_bytes(data)
    piped = f"cat {tmp_path}/data | curl -sSf -T - {full.http}/new/long"
    run("sh", "-c", piped, deadline=2 * DEADLINE)
    assert full.read("/new/long") == data
    assert full.state("/old/0") == "nearline"


def test_several_writers_share_what_is_freed(full: Facility, tmp_path: Path) -> None:
    need("xrdcp", "curl")
    source = write_file(tmp_path / "new", SIZE, 5)
    commands = [
        *(["xrdcp", "-s", source, full.url(f"/new/a{number}")] for number in range(3)),
        *(["sh", "-c", f"cat {source} | curl -sSf -T - {full.http}/new/b{number}"] for number in range(3)),
    ]
    writers = [subprocess.Popen(command) for command in commands]
    assert [writer.wait(2 * DEADLINE) for writer in writers] == [0] * 6
    assert full.read("/new/a2") == full.read("/new/b2") == source.read_bytes()


def test_what_can_never_fit_is_refused_at_once_and_says_so(full: Facility, tmp_path: Path) -> None:
    need("xrdcp")
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(61 * MIB)
    assert "[3009]" in fails("xrdcp", "-s", huge, full.url("/new/huge")).text
    assert full.bp_fails("put", huge, "/new/huge").code == 7


def test_jobs_get_space_for_their_outputs(full: Facility) -> None:
    jobs = [
        full.submit("--output", f"o:/new/job{number}", "--", "/bin/sh", "-c", f"head -c {SIZE} /dev/zero > o")
        for number in range(4)
    ]
    for job in jobs:
        assert full.wait_job(job, 2 * DEADLINE)["state"] == "done"


def test_a_job_whose_output_finds_no_space_is_not_lost(full: Facility, tmp_path: Path) -> None:
    names = [f"/new/kept{number}" for number in range(6)]
    for number, name in enumerate(names):
        full.bp("put", write_file(tmp_path / "kept", SIZE, number), name)
    job = full.submit("--output", "o:/new/job", "--", "/bin/sh", "-c", f"head -c {SIZE} /dev/zero > o")
    pattern = "copy failed; retrying"
    full.wait_until("the worker has tried in vain", lambda: pattern in full.log.read_text())
    # Somebody makes room.
    full.bp("rm", *names[:2])
    assert full.wait_job(job, 2 * DEADLINE)["state"] == "done"


def test_recalls_evict_other_files(full: Facility, tmp_path: Path) -> None:
    paths = [f"/old/{number}" for number in range(OLD)]
    full.bp("evict", "/old/0")
    full.bp("put", "-p", "/dev/null", "/new/empty")
    full.bp("cp", "-q", "--replace", write_file(tmp_path / "new", SIZE, 8), "bp:/new/bp", check=False)
    full.bp("stage", "--wait", "/old/0")
    assert full.state("/old/0") == "both"
    assert all(full.state(path) in ("both", "nearline") for path in paths)


def test_a_third_party_copy_waits_for_space(full: Facility) -> None:
    need("xrdcp")
    run("xrdcp", "-s", "--tpc", "only", full.url("/old/5"), full.url("/new/copy"), deadline=2 * DEADLINE)
    assert full.stat("/new/copy")["size"] == SIZE


def test_readers_are_served_while_writers_wait(full: Facility, tmp_path: Path) -> None:
    need("xrdcp")
    source = write_file(tmp_path / "new", SIZE, 9)
    writers = [
        threading.Thread(target=run, args=("xrdcp", "-s", source, full.url(f"/new/w{number}"))) for number in range(4)
    ]
    for writer in writers:
        writer.start()
    assert full.bp("ls", "/old").code == 0
    for writer in writers:
        writer.join()


def test_a_remote_disk_server_makes_space_too(tmp_path: Path) -> None:
    need("xrdcp", "curl")
    with one_facility(tmp_path / "facility", **{**SMALL, "volume_size": "400MiB"}) as facility:
        facility.expect_log(r"cannot be stored|copy failed; retrying|the drive warned of its end")
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("pool", "freeze", "disk1")
        with hosts(facility, tmp_path, "d1", size="60MiB"):
            old = [f"/old/{number}" for number in range(OLD)]
            for path in old:
                facility.bp("put", "-p", write_file(tmp_path / "old", SIZE, len(path)), path)
            facility.bp("archive", "--wait", *old)
            source = write_file(tmp_path / "new", SIZE, 77)
            ca = facility.directory / "tls" / "ca.pem"
            facility.bp("mkdir", "/new")
            run("xrdcp", "-s", source, facility.url("/new/xrdcp"))
            run("curl", "-sSfL", "--cacert", ca, "-T", source, f"{facility.endpoint('https')}/new/curl")
            facility.bp("cp", "-q", source, "bp:/new/cp")
            # Of unknown length: it gets space as it grows.
            facility.bp("put", "-", "/new/piped", stdin=source.read_bytes())
            for name in ("xrdcp", "curl", "cp", "piped"):
                run("xrdcp", "-s", "-f", facility.url(f"/new/{name}"), tmp_path / "back")
                assert (tmp_path / "back").read_bytes() == source.read_bytes(), name
            assert [facility.state(path) for path in old].count("nearline") >= 4
