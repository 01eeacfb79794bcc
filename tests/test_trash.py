"""What is removed comes back: by the command line, and whichever client removed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from facility import Facility

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
