"""What is removed comes back: by the command line, and whichever client removed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clients import need, run
from conftest import SMALL, one_facility
from facility import Facility
from host import hosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import MakeFacility

CONTENT = b"what somebody needs\n" * 4096
DAY = 86_400_000


@pytest.fixture(scope="module")
def facility(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Give a facility that keeps what is removed."""
    made = Facility(tmp_path_factory.mktemp("trash") / "f")
    made.create(drives=1, volumes=2)
    made.keep_trash("1d")
    made.up()
    yield made
    made.down()


def put(facility: Facility, directory: Path, path: str, content: bytes = CONTENT) -> None:
    """Write a file, also over another one."""
    source = directory / "source"
    source.write_bytes(content)
    facility.bp("put", "--replace", source, path)


def content(facility: Facility, path: str) -> bytes:
    """Give what is at a path."""
    return facility.bp("cat", path).out.encode()


def test_a_tree_is_removed_with_a_count_and_comes_back(facility: Facility, tmp_path: Path) -> None:
    facility.bp("mkdir", "-p", "/tree/a/b", "/tree/empty")
    for name in ("/tree/1", "/tree/a/2", "/tree/a/b/3"):
        put(facility, tmp_path, name)
    said = facility.bp("rm", "-r", "/tree").out
    assert said == "3 files, 4 directories, 240 KiB; in the trash for a day\n"
    facility.bp_fails("stat", "/tree")
    assert "restored 3 files" in facility.bp("trash", "restore", "/tree").out
    for name in ("/tree/1", "/tree/a/2", "/tree/a/b/3"):
        assert content(facility, name) == CONTENT


def test_an_overwritten_file_comes_back_under_another_name(facility: Facility, tmp_path: Path) -> None:
    put(facility, tmp_path, "/over")
    put(facility, tmp_path, "/over", b"wrong")
    row = next(row for row in facility.bp_json("trash", "ls", "/over")["files"])
    assert (row["why"], row["size"], row["until"] - row["removed"]) == ("overwritten", len(CONTENT), DAY)
    refused = facility.bp_fails("trash", "restore", "/over")
    assert "/over exists" in refused.err
    assert "--to" in refused.err
    facility.bp("trash", "restore", str(row["id"]), "--to", "/over.old")
    assert content(facility, "/over.old") == CONTENT
    assert content(facility, "/over") == b"wrong"


def test_the_facilitys_owner_empties_it(facility: Facility, tmp_path: Path) -> None:
    put(facility, tmp_path, "/gone")
    facility.bp("rm", "/gone")
    assert facility.bp("trash", "empty", "/gone").out.startswith("1 file is gone for good")
    facility.wait_removals()
    refused = facility.bp_fails("trash", "restore", "/gone")
    assert "no file of /gone is in the trash" in refused.err


def lose_catalogue(facility: Facility) -> None:
    """End the head without warning, and take its database away."""
    facility.kill()
    for file in facility.directory.glob("catalogue.sqlite*"):
        file.unlink()


def settle(facility: Facility) -> None:
    """Accept a restored catalogue as it is."""

    def is_complete() -> bool:
        return all(partition["is_complete"] for partition in facility.status()["restored"]["partitions"])

    facility.wait_until("all disks have said what they have", is_complete)
    unknown = sum(partition["objects"] for partition in facility.status()["restored"]["partitions"])
    facility.bp("admin", "settle", "--unknown", str(unknown))


def test_a_backup_knows_what_is_in_the_trash(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.expect_log("the catalogue was restored|differs from the catalogue|older than its disks")
    facility.keep_trash("1d")
    facility.up()
    for name in ("/before", "/after"):
        put(facility, tmp_path, name)
    facility.bp("rm", "/before")
    facility.bp("backup", tmp_path / "backup")
    facility.bp("rm", "/after")
    lose_catalogue(facility)
    run(facility.bin / "bpd", "restore", facility.directory, tmp_path / "backup")
    facility.up()
    settle(facility)
    # Removed before the backup: in the trash. Removed after it: there again.
    facility.bp("trash", "restore", "/before")
    for name in ("/before", "/after"):
        assert content(facility, name) == CONTENT


def test_what_is_coded_comes_back_with_a_disk_server_away(tmp_path: Path) -> None:
    need("xrdcp")
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log("silent|copy failed|could not reach")
        facility.keep_ports(https=True)
        facility.keep_trash("1d")
        facility.up()
        with hosts(facility, tmp_path, "d1", "d2", "d3") as servers:
            facility.bp("pool", "freeze", "disk1")
            facility.bp("pool", "set", "main", "--coding=2+1")
            put(facility, tmp_path, "/coded")
            facility.bp("rm", "/coded")
            servers[0].down()
            facility.bp("trash", "restore", "/coded")
            run("xrdcp", "-s", "-f", facility.url("/coded"), tmp_path / "back")
            assert (tmp_path / "back").read_bytes() == CONTENT
            assert len(facility.stat("/coded")["pieces"]) == 3


def test_a_rebuilt_catalogue_brings_back_what_was_removed(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.expect_log("restored|differs from the catalogue|older than its disks|not known")
    facility.keep_trash("1d")
    facility.up()
    for name in ("/kept", "/removed"):
        put(facility, tmp_path, name)
    facility.bp("rm", "/removed")
    lose_catalogue(facility)
    run(facility.bin / "bpd", "rebuild", facility.directory)
    facility.up()
    # Only the catalogue knew that it was removed: what lies on the disks is a file again, and nothing is lost.
    facility.bp("admin", "recover")
    for name in ("/kept", "/removed"):
        assert content(facility, name) == CONTENT
