"""A facility that has lost its catalogue, without a backup: made anew from what lies on its disk servers."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import fails, is_same, need, run, write_file
from conftest import SMALL, MakeFacility, one_facility
from facility import Facility
from host import Host, hosts, invite

FILES = 30
NAMES = ("d1", "d2", "d3")
LOST = (
    r"was restored|older than its disks|differs from the catalogue|not known|cannot report|partition failed"
    r"|cannot ask for|silent"
)
"""What is said while the head does not know its hosts."""

Mirrored = tuple[Facility, list[Host]]


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[Mirrored]:
    """Run a head that stores nothing itself, and three disk servers of a pool with two copies."""
    with one_facility(tmp_path / "facility", **SMALL) as facility:
        facility.expect_log(LOST)
        facility.keep_ports(https=True)
        facility.up()
        with hosts(facility, tmp_path, *NAMES) as servers:
            set_up_pool(facility)
            yield facility, servers


def set_up_pool(facility: Facility) -> None:
    """Say what the pool promises: the catalogue alone knows that."""
    facility.bp("pool", "freeze", "disk1")
    facility.bp("pool", "set", "main", "--copies=2", "--heard-bound=4s", "--silence-bound=8s")


def write_files(facility: Facility, directory: Path) -> dict[str, Path]:
    """Write files with xrdcp, some of them twice, some with names that are odd."""
    draw = random.Random(int(os.environ.get("BP_SEED", "7")))
    files = {}
    for number in range(FILES):
        path = f"/data/run{number % 5}/f {number}.root" if number % 7 == 0 else f"/data/run{number % 5}/f{number}"
        source = directory / f"source{number}"
        for _ in range(1 + number % 2):
            source.write_bytes(draw.randbytes(draw.randrange(0, 300_000)))
            url = facility.url(path)
            run("xrdcp", "-s", "-f", "-p", "--cksum", "adler32:source", source, url)
        files[path] = source
    return files


def check_files(facility: Facility, files: dict[str, Path], directory: Path) -> None:
    """Read all files back with xrdcp, which compares adler32."""
    for path, source in files.items():
        back = directory / "back"
        run("xrdcp", "-s", "-f", "--cksum", "adler32:source", facility.url(path), back)
        assert is_same(back, source), path


def lying(servers: list[Host]) -> set[tuple[str, int]]:
    """List the objects of all disk servers."""
    return {(server.name, number) for server in servers for number in server.objects()}


def lose_catalogue(facility: Facility) -> None:
    """End the head without warning, and take its database away."""
    facility.kill()
    for file in facility.directory.glob("catalogue.sqlite*"):
        file.unlink()


def rebuild(facility: Facility, servers: list[Host]) -> str:
    """Make the catalogue anew; what the operator sees."""
    refused = fails(facility.bin / "bpd", "run", facility.directory, "--root-port=0", "--http-port=0")
    assert "catalogue.sqlite" in refused.text
    run(facility.bin / "bpd", "rebuild", facility.directory)
    assert "catalogue.sqlite exists" in fails(facility.bin / "bpd", "rebuild", facility.directory).text
    facility.up()
    for server in servers:
        server.down()
        server.join(invite(facility))
        server.up()
    return facility.bp("admin", "recover").out


def test_every_file_comes_back(mirrored: Mirrored, tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = mirrored
    facility.bp("pool", "move", "disk1", "spare")
    noted = facility.directory / "disk" / "disk1" / "pool.json"
    facility.wait_until("its host knows it", lambda: noted.exists() and "spare" in noted.read_text())
    files = write_files(facility, tmp_path)
    facility.bp("chmod", "600", "/data/run1/f1")
    facility.bp("put", "--replace", files["/data/run1/f1"], "/data/run1/f1")
    facility.bp("rm", "/data/run2/f2")
    del files["/data/run2/f2"]
    facility.wait_until("old contents are gone", lambda: len(lying(servers)) == 2 * len(files))
    before = lying(servers)
    lose_catalogue(facility)

    out = rebuild(facility, servers)
    assert f"Added: {len(before)} objects." in out
    pools = {pool["name"]: pool["partitions"] for pool in facility.bp_json("pool", "list")["pools"]}
    assert [partition["name"] for partition in pools["spare"]] == ["disk1"], "where it was moved to"
    assert "bp admin settle --unknown 0" in out
    check_files(facility, files, tmp_path)
    assert {facility.stat(path)["owner"] for path in files} == {facility.owner}
    assert (facility.stat("/data/run1/f1")["mode"], facility.stat("/data/run1/f11")["mode"]) == (0o600, 0o644)
    assert "does not exist" in facility.bp_fails("stat", "/data/run2/f2").text
    assert "does not exist" in facility.bp_fails("stat", "/lost+found").text
    assert before <= lying(servers), "nothing is deleted before an operator has looked"

    set_up_pool(facility)
    facility.bp("admin", "settle", "--unknown", "0")
    assert lying(servers) == before, "all files have the replicas that they had"
    # From now on all is as usual: replacing, removing, and after another restart.
    for path in list(files)[:3]:
        run("xrdcp", "-s", "-f", tmp_path / "source29", facility.url(path))
        files[path] = tmp_path / "source29"
    facility.bp("rm", "/data/run3/f3")
    del files["/data/run3/f3"]
    facility.wait_until("what was given up is gone", lambda: len(lying(servers)) == 2 * len(files))
    facility.down()
    facility.up()
    check_files(facility, files, tmp_path)


def test_a_backup_and_what_was_written_since(mirrored: Mirrored, tmp_path: Path) -> None:
    need("xrdcp")
    facility, servers = mirrored
    files = write_files(facility, tmp_path)
    moved, changed = "/data/run1/f1", "/data/run2/f2"
    facility.bp("mv", moved, "/data/moved")
    files["/data/moved"] = files.pop(moved)
    facility.bp("backup", tmp_path / "backup")
    # Since then one file is new, one has another content, and one another name, which its objects do not know.
    for path in ("/data/new", changed):
        source = tmp_path / path.replace("/", "_")
        source.write_bytes(os.urandom(50_000))
        run("xrdcp", "-s", "-f", source, facility.url(path))
        files[path] = source
    facility.wait_until("old contents are gone", lambda: len(lying(servers)) == 2 * len(files))
    lose_catalogue(facility)
    run(facility.bin / "bpd", "restore", facility.directory, tmp_path / "backup")
    facility.up()
    for server in servers:
        facility.wait_until(f"{server.name} is heard", server.is_available)
    assert "Added: 4 objects." in facility.bp("admin", "recover").out
    check_files(facility, files, tmp_path)
    facility.bp("admin", "settle", "--unknown", "0")
    facility.wait_until("every file has two replicas", lambda: len(lying(servers)) == 2 * len(files))
    check_files(facility, files, tmp_path)


SIZES = (0, 1, 511, 262_144, 262_145, 1_000_003, 3_000_000, 77)
"""Of files that go to tape."""


def archive_files(facility: Facility, directory: Path) -> dict[str, Path]:
    """Write files and archive them."""
    files = {}
    for number, size in enumerate(SIZES):
        files[f"/data/f{number}"] = write_file(directory / f"local{number}", size, number)
        facility.put(files[f"/data/f{number}"], f"/data/f{number}")
    facility.bp("archive", "--wait", *files)
    return files


def states(facility: Facility) -> list[str]:
    """Tell what may be done with the volumes."""
    return [volume["state"] for volume in facility.status()["volumes"]]


def wait_surveyed(facility: Facility) -> None:
    """Wait until it is known of all volumes what lies on them."""
    facility.wait_until("all volumes were surveyed", lambda: "unread" not in states(facility))
    assert states(facility) == ["appendable", "blank", "blank", "blank"]


def get_files(facility: Facility, files: dict[str, Path], directory: Path) -> None:
    """Read files as their owner."""
    for path, source in files.items():
        facility.bp("get", "--replace", path, directory / "back")
        assert is_same(directory / "back", source), path


def test_tapes_tell_what_lies_on_them(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.expect_log(LOST)
    facility.up()
    files = archive_files(facility, tmp_path)
    evicted = list(files)[::2]
    facility.bp("evict", *evicted)
    facility.wait_removals()
    found = {f"/lost+found/file.{facility.stat(path)['id']}": files.pop(path) for path in evicted}
    lose_catalogue(facility)
    # Loading takes so long that there is a middle of a survey.
    facility.configure("load_time", '"1s"')
    run(facility.bin / "bpd", "rebuild", facility.directory)
    facility.up()
    facility.wait_until("the library has registered", lambda: states(facility) == ["suspect"] * 4)
    assert "bp admin recover" in facility.bp_fails("admin", "volume", "survey", "--all").text
    assert "may hold files missing from it: 4 volumes" in facility.bp("admin", "recover").out

    assert "4 volumes will be surveyed" in facility.bp("admin", "volume", "survey", "--all").text
    assert "still to be surveyed" in facility.bp_fails("admin", "settle", "--unknown", "0").text
    for moment in ("being surveyed", "blank"):
        facility.wait_until(f"a volume is {moment}", lambda moment=moment: moment in facility.bp("volumes").out)
        facility.kill()
        facility.up()
    wait_surveyed(facility)
    assert {facility.state(path) for path in files} == {"both"}
    assert {facility.state(path) for path in found} == {"nearline"}
    names = facility.bp("ls", "/lost+found").out.split()
    assert sorted(names) == sorted(path.rpartition("/")[2] for path in found)
    assert {(info["owner"], info["mode"]) for info in map(facility.stat, found)} == {(facility.owner, 0o600)}
    get_files(facility, files, tmp_path)
    facility.bp("stage", "--wait", *found)
    get_files(facility, found, tmp_path)

    # What is written from now on goes behind what lies there. A drive that is still busy with that volume would leave
    # the file to the other drive, which has blank ones only.
    facility.bp("admin", "settle", "--unknown", "0")
    facility.wait_until("idle drives", lambda: all(drive["phase"] == "idle" for drive in facility.status()["drives"]))
    facility.put(write_file(tmp_path / "new", 100_000, 99), "/new")
    facility.archive_and_evict("/new")
    (copy,) = facility.stat("/new")["copies"]
    before = [there for path in [*files, *found] for there in facility.stat(path)["copies"] if there["vid"] == "BP0001"]
    assert (copy["vid"], copy["fseq"]) == ("BP0001", max(there["fseq"] for there in before) + 1)
    facility.bp("evict", *files, *found)
    facility.wait_removals()
    facility.bp("stage", "--wait", "/new", *files, *found)
    get_files(facility, {"/new": tmp_path / "new"} | files | found, tmp_path)


def test_tapes_tell_what_was_written_since_the_backup(make_facility: MakeFacility, tmp_path: Path) -> None:
    facility = make_facility()
    facility.expect_log(LOST)
    facility.up()
    files = archive_files(facility, tmp_path)
    facility.bp("backup", tmp_path / "backup")
    late = {f"/late{number}": write_file(tmp_path / f"late{number}", 50_000, number) for number in range(2)}
    for path, local in late.items():
        facility.put(local, path)
    facility.bp("archive", "--wait", *late)
    facility.bp("evict", "/late0")
    facility.wait_removals()
    lost = {f"/lost+found/file.{facility.stat('/late0')['id']}": late.pop("/late0")}
    lose_catalogue(facility)
    run(facility.bin / "bpd", "restore", facility.directory, tmp_path / "backup")
    facility.up()
    assert states(facility) == ["full", "suspect", "suspect", "suspect"]
    facility.bp("admin", "recover")
    assert facility.state("/late1") == "online"
    facility.bp("admin", "volume", "survey", "--all")
    wait_surveyed(facility)
    assert facility.state("/late1") == "both"
    assert {facility.state(path) for path in lost} == {"nearline"}
    facility.bp("stage", "--wait", *lost)
    get_files(facility, files | late | lost, tmp_path)
    facility.bp("admin", "settle", "--unknown", "0")


def test_what_cannot_be_rebuilt_is_refused(tmp_path: Path) -> None:
    facility = Facility(tmp_path / "f")
    facility.create(**SMALL)
    assert "catalogue.sqlite exists" in fails(facility.bin / "bpd", "rebuild", facility.directory).text
    (facility.directory / "catalogue.sqlite").unlink()
    (facility.directory / "id").unlink()
    text = fails(facility.bin / "bpd", "rebuild", facility.directory).text
    assert "restore the files `id`, `key` and `tls/` of the facility" in text
    assert not (facility.directory / "catalogue.sqlite").exists()
