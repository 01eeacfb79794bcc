"""What goes wrong before anything runs, and disks that are full: each says what and what to do."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import fails, need, run, write_file
from conftest import MakeFacility
from facility import Facility

NO_SPACE = "[3009]"
"""kXR_NoSpace, as XRootD clients show it."""


def up_fails(facility: Facility, directory: Path, *options: str) -> str:
    """Start a daemon that must refuse; returns what it says."""
    ports = ("--root-port=0", "--http-port=0") if not any("port" in option for option in options) else ()
    refused = fails(facility.bin / "bp", "up", directory, "--detach", *ports, *options)
    assert "error: " in refused.err
    assert "panicked" not in refused.text
    return refused.text


@pytest.mark.parametrize("door", ["root", "http"])
def test_a_port_that_is_taken(make_facility: MakeFacility, door: str) -> None:
    facility, other = make_facility(), "http" if door == "root" else "root"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = up_fails(facility, facility.directory, f"--{door}-port={port}", f"--{other}-port=0")
    assert str(port) in text
    assert f"--{door}-port" in text
    facility.up()


def test_create_does_not_touch_what_is_there(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    before = sorted(facility.directory.rglob("*"))
    again = fails(facility.bin / "bp", "create", facility.directory)
    assert "holds a facility already" in again.text
    assert again.code == 4
    assert sorted(facility.directory.rglob("*")) == before
    full = tmp_path / "full"
    full.mkdir()
    (full / "note").write_text("mine")
    refused = fails(facility.bin / "bp", "create", full)
    assert "is not empty" in refused.text
    assert refused.code == 4
    assert [path.name for path in full.iterdir()] == ["note"]
    file = tmp_path / "file"
    file.write_text("mine")
    fails(facility.bin / "bp", "create", file)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    "option", ["--volume-size=1elephant", "--volume-size=1KiB", "--volumes=-1", "--slots=1", "--drives=many"]
)
def test_create_refuses_what_cannot_be(tmp_path: Path, make_facility: MakeFacility, option: str) -> None:
    directory = tmp_path / "new"
    refused = fails(make_facility().bin / "bp", "create", directory, "--volumes=3", option)
    assert refused.code == 2
    assert not directory.exists() or not any(directory.iterdir())


def test_up_without_a_facility_says_how_to_make_one(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    for directory in (tmp_path / "missing", tmp_path):
        text = up_fails(facility, directory)
        assert str(directory) in text
        assert re.search("hint: .*create", text)


def test_a_failed_up_leaves_no_trace(make_facility: MakeFacility, tmp_path: Path) -> None:
    directory = tmp_path / "missing"
    up_fails(make_facility(), directory)
    assert not directory.exists(), "a typing error makes no directory"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('[disk]\nsise = "1GiB"\n', ("sise",)),
        ('[disk]\nsize = "1 elephant"\n', ("elephant",)),
        ("[nosuch]\n", ("nosuch",)),
        ('[doors]\nbind = "0.0.0.0"\n', ("0.0.0.0",)),
        ("[tape]\nvolumes = 9\nslots = 3\n", ("tape.volumes",)),
        ("not toml at all", ("facility.toml",)),
    ],
)
def test_a_bad_configuration_is_named(make_facility: MakeFacility, line: str, words: tuple[str, ...]) -> None:
    facility = make_facility()
    (facility.directory / "facility.toml").write_text(line)
    text = up_fails(facility, facility.directory)
    for word in (*words, "facility.toml", "hint: "):
        assert word in text


def test_only_one_daemon_for_a_facility(facility: Facility) -> None:
    refused = up_fails(facility, facility.directory)
    assert "running already" in refused
    assert facility.status()["incarnation"] == 1
    pid = facility.pid
    facility.read_endpoints()
    assert facility.pid == pid, "the daemon that runs can still be found"


@pytest.mark.parametrize("name", ["key", "catalogue.sqlite"])
def test_a_damaged_facility_is_not_started(make_facility: MakeFacility, name: str) -> None:
    facility = make_facility()
    file = facility.directory / name
    file.write_bytes(b"damaged" * 1000)
    assert name in up_fails(facility, facility.directory)
    file.unlink()
    up_fails(facility, facility.directory)
    assert not file.exists(), "a lost catalogue is not replaced by an empty one"


def test_down_twice(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.up()
    facility.down()
    facility.down()


def test_bp_without_a_facility(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    refused = fails(facility.bin / "bp", "status", env={"BP_FACILITY": str(facility.directory)})
    assert refused.code == 6 or "bp up" in refused.text
    assert "hint" in fails(facility.bin / "bp", "ls", env={"BP_FACILITY": str(tmp_path / "missing")}).text


def test_a_daemon_that_starts_and_is_stopped_at_once(make_facility: MakeFacility) -> None:
    facility = make_facility()
    daemon = subprocess.Popen(
        [facility.bin / "bpd", "run", facility.directory, "--root-port=0", "--http-port=0"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert daemon.stderr is not None
    for line in daemon.stderr:
        if "facility is up" in line:
            daemon.terminate()
            break
    _, rest = daemon.communicate(timeout=60)
    assert daemon.returncode == 0
    assert "facility is down" in rest


# Full disks


def test_a_share_that_is_used_up(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("xrdcp")
    facility = make_facility(disk_size="64MiB")
    facility.up()
    large, small = write_file(tmp_path / "large", 70 << 20), write_file(tmp_path / "small", 1 << 20)
    # xrdcp tells the size at the open, a pipe does not.
    told = fails("xrdcp", "-s", large, facility.url("/large"))
    assert NO_SPACE in told.text
    untold = run(
        "/bin/sh",
        "-c",
        f"exec xrdcp -s - {facility.url('/piped')} < {large}",
        check=False,
        env={"XRD_LOGLEVEL": "Error"},
    )
    assert untold.code != 0
    refused = facility.bp_fails("put", large, "/put")
    assert refused.code == 7
    need("curl")
    answer = run(
        "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-T", large, f"{facility.http}/http", check=False
    )
    assert answer.out.endswith("507")
    facility.wait_removals()
    assert facility.objects_on_disk() == {}
    for number in range(3):
        run("xrdcp", "-s", small, facility.url(f"/small{number}"))
    assert facility.read("/small2") == small.read_bytes()


def test_room_is_made_from_what_is_on_tape(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("xrdcp")
    facility = make_facility(disk_size="64MiB")
    facility.up()
    local = write_file(tmp_path / "local", 40 << 20)
    facility.put(local, "/one")
    facility.bp("archive", "--wait", "/one")
    # The first try may still meet the bytes that it has evicted.
    facility.wait_until(
        "there is room for another",
        lambda: run("xrdcp", "-s", "-f", local, facility.url("/two"), check=False).code == 0,
    )
    assert facility.state("/one") == "nearline"
    assert facility.state("/two") == "online"
    refused = fails("xrdcp", "-s", local, facility.url("/three"))
    assert NO_SPACE in refused.text, "the only replica of a file is never dropped"
    assert facility.read("/two") == local.read_bytes()


def test_bp_put_makes_room_too(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility(disk_size="64MiB")
    facility.up()
    local = write_file(tmp_path / "local", 40 << 20)
    facility.put(local, "/one")
    facility.bp("archive", "--wait", "/one")
    facility.bp("put", "--replace", local, "/two", check=False)
    assert facility.state("/one") == "nearline", "evicted for the second one"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 96 MiB."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    mount = tmp_path / "disk"
    mount.mkdir()
    mounted = run("mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", mount, check=False)
    if mounted.code != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.text}")
    yield mount
    run("umount", "--lazy", mount)


def test_a_file_system_that_is_full(make_facility: MakeFacility, small_disk: Path, tmp_path: Path) -> None:
    need("xrdcp")
    facility = make_facility()
    facility.configure("reserve", '"0B"')
    disk = facility.directory / "disk"
    run("cp", "-a", f"{disk}/.", small_disk)
    run("rm", "-r", disk)
    disk.symlink_to(small_disk)
    facility.up()
    keep = write_file(tmp_path / "keep", 1 << 20, 3)
    run("xrdcp", "-s", keep, facility.url("/keep"))
    large = write_file(tmp_path / "large", 100 << 20)
    assert NO_SPACE in fails("xrdcp", "-s", large, facility.url("/large")).text
    # Somebody else fills it while a file of unknown size is written.
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 90 << 20)
    piped = write_file(tmp_path / "piped", 30 << 20)
    refused = run("/bin/sh", "-c", f"exec xrdcp -s - {facility.url('/piped')} < {piped}", check=False)
    assert refused.code != 0
    assert facility.read("/keep") == keep.read_bytes()
    facility.wait_removals()
    ballast.unlink()
    facility.wait_until(
        "small uploads work again", lambda: facility.bp("put", "--replace", keep, "/again", check=False).code == 0
    )
    assert facility.read("/again") == keep.read_bytes()
    assert facility.bp("stat", "/piped", check=False).code == 3
    facility.down()
