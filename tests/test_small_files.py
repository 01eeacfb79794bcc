"""Small files share tape files: they are written together, and come back alone."""

from __future__ import annotations

import re
from pathlib import Path

from clients import need, run, write_file
from conftest import MakeFacility
from facility import Facility


def small_files(facility: Facility, tmp_path: Path, count: int) -> dict[str, bytes]:
    """Put small files into two directories; returns their contents."""
    facility.bp("mkdir", "/a", "/b")
    contents = {}
    for number in range(count):
        path = f"/{'ab'[number % 2]}/f{number}"
        local = write_file(tmp_path / "local", number * 700, number)
        facility.put(local, path)
        contents[path] = local.read_bytes()
    return contents


def test_small_files_share_a_tape_file_and_come_back_alone(facility: Facility, tmp_path: Path) -> None:
    contents = small_files(facility, tmp_path, 30)
    facility.bp("archive", "--wait", "-r", "/a", "/b")
    copies = {path: facility.stat(path)["copies"][0] for path in contents}
    # Drives may have begun before all were asked for, and the first file of a session may be alone.
    assert len({(copy["vid"], copy["fseq"]) for copy in copies.values()}) < len(contents) / 2
    facility.bp("evict", "-r", "/a", "/b")
    one = "/a/f18"
    facility.bp("stage", "--wait", one)
    assert facility.read(one) == contents[one]
    assert facility.state("/a/f20") == "nearline", "nobody asked for it"
    facility.bp("stage", "--wait", "-r", "/b", "/a")
    for path, content in contents.items():
        assert facility.read(path) == content, path
    # What is removed leaves a hole.
    before = {volume["vid"]: volume for volume in facility.status()["volumes"]}
    facility.bp("rm", "-r", "/b")
    for volume in facility.status()["volumes"]:
        lost = sum(len(contents[path]) for path, copy in copies.items() if path < "/b" and copy["vid"] == volume["vid"])
        assert volume["live_bytes"] == lost
        assert volume["used_bytes"] == before[volume["vid"]]["used_bytes"]


def test_tar_reads_a_bundle_from_the_cartridge(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("tapemap", "hetget")
    facility = make_facility(volumes=1, drives=1)
    # Its tools read blocks up to 65535 bytes.
    facility.configure("block", '"32KiB"')
    facility.configure("bundle_wait", '"3s"')
    facility.up()
    contents = small_files(facility, tmp_path, 12)
    facility.bp("archive", "--wait", "-r", "/a", "/b")
    assert {facility.stat(path)["copies"][0]["fseq"] for path in contents} == {1}
    facility.down()
    run("hetget", "-n", facility.cartridge("BP0001"), tmp_path / "bundle", "2", "U", "0", "32768", check=False)
    listed = run("tar", "-tf", tmp_path / "bundle").out.split()
    assert sorted(listed) == sorted([path[1:] for path in contents] + [".backplane/index"])
    run("tar", "-xf", tmp_path / "bundle", "-C", tmp_path)
    for path, content in contents.items():
        assert (tmp_path / path[1:]).read_bytes() == content, path


def test_a_small_file_says_that_it_waits_for_others(make_facility: MakeFacility, sample: Path) -> None:
    facility = make_facility(volumes=1, drives=1)
    facility.configure("bundle_wait", '"1h"')
    facility.up()
    facility.put(sample, "/file")
    facility.bp("archive", "/file")
    said = facility.bp("queue").out
    assert re.search(r"waits up to \d+ min \d+ s for other small files", said), said
    facility.down()
    facility.configure("bundle_wait", '"0s"')
    facility.up()
    facility.bp("wait", "--archived", "/file")
