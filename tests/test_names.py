"""Names and what users keep with them, as XRootD clients see it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from clients import fails, run, write_file
from facility import Facility


def fs(facility: Facility, *words: str) -> str:
    """Run xrdfs, which must succeed."""
    return run("xrdfs", facility.root, *words).out


def fs_fails(facility: Facility, *words: str) -> str:
    """Run xrdfs, which must be refused."""
    return fails("xrdfs", facility.root, *words).text


def attributes(facility: Facility, path: str) -> list[str]:
    """List attributes as xrdfs shows them."""
    return fs(facility, "xattr", path, "list").splitlines()[1:]


def test_attributes_are_set_read_listed_and_removed(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    fs(xrootd, "xattr", "/file", "set", "run=7")
    fs(xrootd, "xattr", "/file", "set", "odd name=a value with = and ü")
    assert 'run="7"' in fs(xrootd, "xattr", "/file", "get", "run")
    assert attributes(xrootd, "/file") == ['odd name="a value with = and ü"', 'run="7"']
    fs(xrootd, "xattr", "/file", "set", "run=8")
    fs(xrootd, "xattr", "/file", "del", "odd name")
    assert attributes(xrootd, "/file") == ['run="8"']
    assert "3027" in fs_fails(xrootd, "xattr", "/file", "get", "odd name")
    fs_fails(xrootd, "xattr", "/file", "del", "odd name")
    assert "3011" in fs_fails(xrootd, "xattr", "/nothing", "list")


def test_attributes_follow_their_file(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    fs(xrootd, "xattr", "/file", "set", "run=7")
    fs(xrootd, "mv", "/file", "/moved")
    run("xrdcp", "-s", "-f", sample, xrootd.url("/moved"))
    assert attributes(xrootd, "/moved") == ['run="7"']
    assert xrootd.bp_json("stat", "/moved")["attributes"] == [{"name": "run", "value": b"7".hex()}]
    assert "attribute run = 7" in xrootd.bp("stat", "/moved").out
    fs(xrootd, "rm", "/moved")
    xrootd.put(sample, "/moved")
    assert attributes(xrootd, "/moved") == []


def test_only_the_owner_sets_attributes(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    stranger = xrootd.root.replace("//", "//stranger@", 1)
    assert "3010" in fails("xrdfs", stranger, "xattr", "/file", "set", "run=7").text
    fs(xrootd, "xattr", "/file", "set", "run=7")
    assert 'run="7"' in run("xrdfs", stranger, "xattr", "/file", "get", "run").out


def test_md5_is_computed_and_follows_the_content(xrootd: Facility, sample: Path, tmp_path: Path) -> None:
    xrootd.put(sample, "/file")
    assert "md5" in fs(xrootd, "query", "config", "chksum")
    md5 = hashlib.md5(sample.read_bytes(), usedforsecurity=False).hexdigest()
    for _ in range(2):
        assert fs(xrootd, "query", "checksum", "/file?cks.type=md5").split() == ["md5", md5]
    run("xrdcp", "-s", "--cksum", "md5:source", xrootd.url("/file"), tmp_path / "back")
    other = write_file(tmp_path / "other", 5_000_000, 9)
    run("xrdcp", "-s", "-f", "--cksum", "md5:source", other, xrootd.url("/file"))
    md5 = hashlib.md5(other.read_bytes(), usedforsecurity=False).hexdigest()
    assert fs(xrootd, "query", "checksum", "/file?cks.type=md5").split() == ["md5", md5]


def test_a_question_for_md5_begins_no_recall(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    xrootd.bp("archive", "--wait", "/file")
    xrootd.bp("evict", "/file")
    refused = fs_fails(xrootd, "query", "checksum", "/file?cks.type=md5")
    assert "not on disk" in refused
    assert "bp stage" in refused
    assert xrootd.state("/file") == "nearline"
    assert xrootd.status()["requests"] == []


def test_flags_say_what_the_mode_lets_the_client_do(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    stranger = xrootd.root.replace("//", "//stranger@", 1)

    def flags(root: str) -> set[str]:
        (line,) = (line for line in run("xrdfs", root, "stat", "/file").out.splitlines() if "Flags" in line)
        return set(re.findall(r"(?:Is|X)\w+", line))

    for mode, owner, others in (
        ("rw-r--r--", {"IsReadable", "IsWritable"}, {"IsReadable"}),
        ("rwxr-x---", {"IsReadable", "IsWritable", "XBitSet"}, set()),
        ("rw-rw-rwx", {"IsReadable", "IsWritable", "XBitSet"}, {"IsReadable", "IsWritable", "XBitSet"}),
    ):
        fs(xrootd, "chmod", "/file", mode)
        assert (flags(xrootd.root), flags(stranger)) == (owner, others), mode
        assert fs(xrootd, "ls", "-l", "/").split()[0] == f"-{mode}"


def test_an_eviction_is_a_wish(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    assert "has no tape copy" in fs_fails(xrootd, "prepare", "-e", "/file"), "nothing has left the disk"
    assert xrootd.state("/file") == "online"
    assert "3011" in fs_fails(xrootd, "prepare", "-e", "/nothing")
    xrootd.bp("archive", "--wait", "/file")
    fs(xrootd, "prepare", "-e", "/file")
    assert xrootd.state("/file") == "nearline"


def test_used_and_free_space_make_up_the_total(xrootd: Facility, sample: Path) -> None:
    xrootd.put(sample, "/file")
    words = dict(word.split("=") for word in fs(xrootd, "query", "space", "/").strip().split("&"))
    assert int(words["oss.free"]) + int(words["oss.used"]) == int(words["oss.space"])
    assert 0 < int(words["oss.maxf"]) <= int(words["oss.free"])
