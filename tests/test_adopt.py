"""Adoption: a directory tree on a disk server's file system becomes part of the namespace where it lies."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients import adler32_of, is_same, need, run
from conftest import SMALL, MakeFacility, one_facility
from facility import Facility, Json
from host import Host, hosts

FILES = 300
THEN = 1_500_000_000
LEFT = -1
"""Code of an adoption that left something alone."""
NOBODY = 54_321
"""A user id that no host knows."""


def make_tree(root: Path, files: int = FILES) -> dict[str, Path]:
    """Make files of many sizes, in directories, with odd but legal names; by their names from the root on."""
    chance = random.Random(7)
    tree = {}
    for number in range(files):
        directory = ("", "runs", "runs/2024 autumn", "Ergebnisse/für alle")[number % 4]
        name = f"{directory}/f{number} #é.root" if directory else f"f{number}.root"
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(chance.randbytes(chance.choice((0, 1, 4096, 10_000, 30_000))))
        file.chmod(0o640 if number % 2 else 0o664)
        os.utime(file, (THEN, THEN + number))
        tree[name] = file
    (root / "empty").mkdir()
    return tree


def add_oddities(root: Path) -> dict[str, str]:
    """Add what cannot be adopted: name to what is said about it."""
    (root / "link").symlink_to("f0.root")
    (root / "way").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        # The whole path may be too long for a socket.
        here = os.open(root, os.O_RDONLY)
        unix.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    (root / "bell\a").write_text("no")
    Path(os.fsdecode(os.fsencode(root) + b"/latin-\xe9")).write_bytes(b"no")
    other = root / "other"
    other.mkdir()
    (other / "partition.json").write_text("{}")
    return {
        "link": "a symbolic link",
        "way": "a symbolic link",
        "pipe": "a pipe",
        "socket": "a socket",
        "bell": "control character",
        "latin": "not UTF-8",
        "other": "it belongs to the facility already",
    }


def adopting(facility: Facility, root: Path) -> Facility:
    """Let a facility that does not run adopt what lies below `root`, and start it."""
    root.mkdir(exist_ok=True)
    facility.configure("adopt", f'["{root}"]')
    facility.up()
    return facility


def status(facility: Facility, name: str = "disk1") -> Json:
    """Read how far the adoption of a partition has come."""
    adoptions: list[Json] = facility.bp_json("adopt", "status")["adoptions"]
    return next(one for one in adoptions if one["partition"] == name)


def check_tree(facility: Facility, tree: dict[str, bytes], below: str) -> None:
    """Compare what the facility has with what was there."""
    for name, content in tree.items():
        assert facility.read(f"{below}/{name}") == content, name


def contents(tree: dict[str, Path]) -> dict[str, bytes]:
    """Read all files of a tree."""
    return {name: file.read_bytes() for name, file in tree.items()}


def objects(facility: Facility) -> dict[int, Path]:
    """Find the objects of the partition by inode."""
    files = (facility.directory / "disk" / "disk1" / "objects").glob("*/*")
    return {file.stat().st_ino: file for file in files if file.suffix != ".json"}


def adopt(facility: Facility, *words: str | Path, code: int = 0) -> str:
    """Adopt to the end; all that was said. What is left alone gives a code of its own, in no certain order."""
    outcome = facility.bp("adopt", *words, check=False, deadline=120)
    assert outcome.code == code or (code == LEFT and outcome.code in (2, 4, 8)), outcome
    return outcome.text


def test_a_tree_is_adopted_as_it_is_and_nothing_is_copied(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("xrdcp")
    root = tmp_path / "old"
    tree = make_tree(root)
    oddities = add_oddities(root)
    os.chown(tree["f0.root"], 1, 1)
    os.chown(tree["f4.root"], NOBODY, NOBODY)
    (root / "runs" / "2024 autumn").chmod(0o750)
    before = contents(tree)
    facility = adopting(make_facility(), root)
    facility.put_bytes(b"taken", "/new/f8.root")
    said = adopt(facility, root, "/new", code=LEFT)
    assert f"/new: {FILES - 1} files adopted" in said
    assert "; 1 now belong to the owner of the facility" in said
    assert f"{len(oddities) + 1} skipped" in said
    for name, why in {**oddities, "f8.root": "/new/f8.root exists, and is another file"}.items():
        assert any(why in line for line in said.splitlines() if name in line), (name, said)
    assert facility.read("/new/f8.root") == b"taken"
    del tree["f8.root"]
    del before["f8.root"]

    # As people of the field read it.
    back = tmp_path / "back"
    for name in [*tree][:40]:
        run("xrdcp", "-s", "-f", "--cksum", "adler32:source", facility.url(f"/new/{name}"), back)
        assert is_same(back, tree[name]), name
    check_tree(facility, before, "/new")
    for name, file in tree.items():
        info = facility.stat(f"/new/{name}")
        assert info["checksums"]["adler32"] == adler32_of(file)
        assert info["modified"] == file.stat().st_mtime_ns // 1_000_000, name
        assert info["mode"] == (0o640 if int(file.name[1:].split(".")[0].split()[0]) % 2 else 0o664), name
    assert facility.stat("/new/f0.root")["owner"] == "daemon"
    assert facility.stat("/new/f4.root")["owner"] == facility.owner
    assert facility.stat("/new/runs/2024 autumn")["mode"] == 0o750
    assert facility.stat("/new/empty")["kind"] == "directory"

    # One file with two names; or, where the file system shares blocks, two files that nothing connects.
    held = objects(facility)
    linked = [file for file in tree.values() if file.stat().st_ino in held]
    assert len(linked) in (0, len(tree))
    assert all(file.stat().st_mode & 0o222 == 0 for file in linked), "nobody writes to an object by mistake"
    check_again(facility, root, tree)


def check_again(facility: Facility, root: Path, tree: dict[str, Path]) -> None:
    """Adopt once more: nothing is new; what was removed in the facility stays by its old name, and comes back."""
    before = {file: file.stat().st_ino for file in tree.values()}
    assert "/new: 0 files adopted" in adopt(facility, root, "/new", code=LEFT)
    assert before == {file: file.stat().st_ino for file in tree.values()}
    facility.bp("rm", "/new/f12.root")
    facility.wait_removals()
    assert tree["f12.root"].exists()
    (root / "late").write_bytes(b"late")
    assert "/new: 2 files adopted" in adopt(facility, root, "/new", code=LEFT)
    assert facility.read("/new/late") == b"late"
    facility.bp("scan", "start", "--checksum")
    facility.wait_until("the scan is done", lambda: facility.bp_json("scan", "status")["scans"][0]["state"] == "done")
    assert facility.bp_json("scan", "status")["scans"][0]["found"] == [0, 0, 0, 0, 0]
    if late := objects(facility).get((root / "late").stat().st_ino):
        with late.open("r+b") as file:
            file.write(b"LATE")
        assert "/new/late is damaged" in adopt(facility, root, "/new", code=LEFT)
    assert status(facility)["state"] == "done"


@pytest.mark.parametrize("words", [(), ("--move",)], ids=["keep", "move"])
def test_a_killed_adoption_goes_on(make_facility: MakeFacility, tmp_path: Path, words: tuple[str, ...]) -> None:
    root = tmp_path / "old"
    tree = make_tree(root)
    before = contents(tree)
    facility = make_facility()
    facility.expect_log("differs from the catalogue")
    facility.keep_ports()
    adopting(facility, root)
    facility.bp("adopt", root, "/new", "--bytes", "400kB", "--detach", *words)
    assert "adopting files already" in facility.bp_fails("adopt", root, "/new").err
    for least in (20, 150):
        facility.wait_until("some files are adopted", lambda least=least: status(facility)["adopted"]["files"] >= least)
        facility.kill()
        # What is not acknowledged is still there by its old name.
        left = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
        facility.up()
        for name in tree.keys() - left:
            assert facility.read(f"/new/{name}") == before[name]
    facility.wait_until("all is adopted", lambda: status(facility)["state"] == "done", 120)
    assert status(facility)["left_alone"] == 0
    assert status(facility)["adopted"]["files"] == FILES
    check_tree(facility, before, "/new")
    facility.wait_removals()
    assert len(facility.objects_on_disk()) == FILES
    if words:
        assert [*root.iterdir()] == [], "nothing is left of the old names"
        assert all(file.stat().st_nlink == 1 for file in objects(facility).values())
    else:
        assert contents(tree) == before
    facility.bp("scan", "start", "--checksum")
    facility.wait_until("the scan is done", lambda: facility.bp_json("scan", "status")["scans"][0]["state"] == "done")
    assert facility.bp_json("scan", "status")["scans"][0]["found"] == [0, 0, 0, 0, 0]


def test_a_move_leaves_what_it_does_not_take(make_facility: MakeFacility, tmp_path: Path) -> None:
    root = tmp_path / "old"
    tree = make_tree(root, 40)
    add_oddities(root / "runs")
    before = contents(tree)
    facility = adopting(make_facility(), root)
    adopt(facility, root, "/new", code=LEFT)
    assert contents(tree) == before
    # What was adopted before is moved as well.
    assert "/new: 0 files adopted" in adopt(facility, root, "/new", "--move", code=LEFT)
    assert sorted(entry.name for entry in root.iterdir()) == ["runs"]
    assert not any(file.exists() for file in tree.values())
    assert len([*(root / "runs").iterdir()]) == 7
    check_tree(facility, before, "/new")
    said = facility.bp("--json", "adopt", root, "/again", "--move", check=False).out
    told = json.loads(said.splitlines()[0])
    assert (told["adopted"]["files"], told["left_alone"], len(said.splitlines())) == (0, 7, 8)


def test_an_adoption_can_be_stopped(make_facility: MakeFacility, tmp_path: Path) -> None:
    root = tmp_path / "old"
    root.mkdir()
    (root / "large").write_bytes(b"x" * 10_000_000)
    facility = adopting(make_facility(), root)
    facility.bp("adopt", root, "/new", "--bytes", "1kB", "--detach")
    facility.wait_until("it is being read", lambda: status(facility)["seen"]["bytes"] > 0)
    facility.bp("adopt", "stop")
    assert status(facility)["state"] == "stopped"
    facility.wait_until("nothing is left of it", lambda: facility.bp("stat", "/new/large", check=False).code == 3)
    assert "/new: 1 file adopted" in adopt(facility, root, "/new")


def test_only_what_the_host_allows_is_adopted(make_facility: MakeFacility, tmp_path: Path) -> None:
    root = tmp_path / "old"
    facility = adopting(make_facility(), root)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (root / "way").symlink_to(secret)
    for directory, part in (
        (secret, "disk.adopt allows"),
        (root / "way", "no symbolic link"),
        (root / "no", "No such"),
    ):
        said = adopt(facility, directory, "/new", code=3 if directory.name == "no" else 5 if directory == secret else 4)
        assert part in said
        assert "hint: " in said
    assert facility.bp("ls", "/").out == ""
    refused = facility.bp_fails("--user", "bob", "adopt", root, "/new")
    assert (refused.code, "may not adopt files" in refused.err) == (5, True)
    assert "makes it" in facility.bp_fails("adopt", root, "/none/new").err
    if Path("/dev/shm").stat().st_dev != tmp_path.stat().st_dev:
        facility.down()
        facility.configure("adopt", '["/dev/shm"]')
        facility.up()
        assert "another file system" in adopt(facility, "/dev/shm", "/new", code=2)


@contextmanager
def far_host(tmp_path: Path, root: Path) -> Iterator[tuple[Facility, Host]]:
    """Run a head, and a disk server on another host that may adopt what lies below `root`."""
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.keep_ports(https=True)
        facility.up()
        with hosts(facility, tmp_path, "d1") as (host,):
            host.down()
            config = host.directory / "facility.toml"
            config.write_text(config.read_text().replace("adopt = []", f'adopt = ["{root}"]'))
            host.up()
            yield facility, host


def test_a_disk_server_on_another_host_adopts(tmp_path: Path) -> None:
    need("xrdcp")
    root = tmp_path / "old"
    tree = make_tree(root, 40)
    before = contents(tree)
    with far_host(tmp_path, root) as (facility, host):
        assert "more than one partition" in facility.bp_fails("adopt", root, "/new").err
        said = adopt(facility, root, "/new", "--partition", "disk1", code=5)
        assert "disk.adopt allows none" in said
        assert "/new: 40 files adopted" in adopt(facility, root, "/new", "--partition", host.partition)
        assert facility.stat("/new/f0.root")["replicas"] == [f"main/{host.partition}"]
        back = tmp_path / "back"
        back.mkdir()
        run("xrdcp", "-s", "-r", f"{facility.root}//new/Ergebnisse", back)
        for name in (name for name in tree if name.startswith("Ergebnisse")):
            found = next(file for file in back.rglob(Path(name).name))
            assert found.read_bytes() == before[name]
        # Another name for it costs no room, and removing one does not harm the other.
        shutil.rmtree(root)
        run("xrdcp", "-s", "-f", "--cksum", "adler32:source", facility.url("/new/f0.root"), tmp_path / "f0")
        assert (tmp_path / "f0").read_bytes() == before["f0.root"]
