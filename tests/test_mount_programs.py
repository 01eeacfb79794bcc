"""Programs that know nothing of the facility work in a mount, and find what they wrote through another one."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from clients import DEADLINE, make_bytes, need, run
from mounting import both, mounts, shared

__all__ = ["both", "mounts", "shared"]

LOAD = Path("/usr/share/dbench/client.txt")
"""What dbench does: the calls of a benchmark of file servers, as Debian ships them."""


def test_git_and_cp(both: tuple[Path, Path]) -> None:
    need("git")
    here, there = both
    identity = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    run("git", "init", "-q", here / "origin")
    (here / "origin" / "file").write_text("text")
    run("git", "-C", here / "origin", "add", "file")
    run("git", "-C", here / "origin", "-c", "commit.gpgsign=false", "commit", "-qm", "one", env=identity)
    run("git", "clone", "-q", there / "origin", there / "clone")
    assert (here / "clone" / "file").read_text() == "text"
    run("git", "-C", here / "clone", "fsck", "--strict")
    run("cp", "-r", here / "clone", here / "copy")
    run("diff", "-r", here / "clone", there / "copy")


def tree(root: Path) -> None:
    """Make files of many sizes, links, and a file with a hole."""
    rng = random.Random(1)
    for number in range(60):
        file = root / f"d{number % 7}" / f"s{number % 3}" / f"file {number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(make_bytes(rng.choice([0, 1, 700, 4096, 70_000]), number))
        file.chmod(rng.choice([0o600, 0o644, 0o755]))
    (root / "link").symlink_to("d1/s1/file 1")
    (root / "second name").hardlink_to(root / "d1" / "s1" / "file 1")
    with (root / "hole").open("wb") as file_with_hole:
        file_with_hole.seek(3_000_000)
        file_with_hole.write(b"end")


def test_rsync_and_tar(both: tuple[Path, Path], tmp_path: Path) -> None:
    need("rsync", "tar")
    here, there = both
    tree(tmp_path / "tree")
    run("rsync", "-aHS", f"{tmp_path / 'tree'}/", here / "synced", deadline=DEADLINE)
    run("diff", "-r", "--no-dereference", tmp_path / "tree", there / "synced")
    same = run("rsync", "-aHSn", "--checksum", "--itemize-changes", f"{tmp_path / 'tree'}/", there / "synced").out
    assert same == "", "the other mount shows other bytes, times, modes or links"
    (there / "synced" / "d0" / "s0" / "file 0").write_bytes(b"changed")
    (there / "synced" / "more").write_bytes(b"more")
    run("rsync", "-aHS", "--delete", f"{tmp_path / 'tree'}/", here / "synced", deadline=DEADLINE)
    run("diff", "-r", "--no-dereference", tmp_path / "tree", there / "synced")
    run("tar", "-C", here, "-cSf", there / "all.tar", "synced", deadline=DEADLINE)
    run("tar", "-C", tmp_path, "-xSf", here / "all.tar", deadline=DEADLINE)
    run("diff", "-r", "--no-dereference", tmp_path / "tree", tmp_path / "synced")


@pytest.mark.parametrize("engine", ["buffered", "direct", "mmap"])
def test_fio_reads_what_it_wrote(both: tuple[Path, Path], engine: str) -> None:
    need("fio")
    here, there = both
    how = {"buffered": ["--ioengine=psync"], "direct": ["--ioengine=psync", "--direct=1"], "mmap": ["--ioengine=mmap"]}
    job = ["--name=job", "--rw=randwrite", "--bs=4k", "--size=4M", "--numjobs=2", *how[engine]]
    sums = ["--verify=crc32c", "--verify_fatal=1", "--randseed=7", "--output-format=json"]
    words = ["fio", *job, *sums, "--end_fsync=1", "--filename_format=file.$jobnum"]
    wrote = run(*words, f"--directory={here}", "--do_verify=1", deadline=DEADLINE).out
    assert all(each["error"] == 0 for each in json.loads(wrote[wrote.index("{") :])["jobs"])
    # On the other host: only what the first one has written is read.
    read = run(*words, f"--directory={there}", "--verify_only", deadline=DEADLINE).out
    jobs = json.loads(read[read.index("{") :])["jobs"]
    assert all(each["error"] == 0 for each in jobs)


def test_dbench_has_no_error(both: tuple[Path, Path]) -> None:
    need("dbench")
    here, there = both
    (here / "a").mkdir()
    (here / "b").mkdir()
    # As often as the time allows; one that was not through once is no failure.
    words = [["dbench", "-c", LOAD, "-t", "5", "-D", where, "2"] for where in (here / "a", there / "b")]
    programs = [subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for each in words]
    for program in programs:
        said, _ = program.communicate(timeout=DEADLINE)
        assert program.returncode == 0, said
        assert "Throughput" in said, said
        # As "unlink 'PATH' failed - REASON".
        assert "' failed - " not in said, said
