"""Conformance of a `root://` server, as the programs of the field see it; what they did is looked at by a second door.

Without options a small facility of ours is tested. Any server with an HTTP door to the same names can be:
`pytest tests/conformance --conformance-url root://HOST:PORT --conformance-http http://HOST:PORT`. Debian's
xrootd, configured by `tests/conformance/xrootd.cfg`, passes: what the field's own server fails is a wrong check.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import frames
from clients import (
    SYSTEM_PYTHON,
    XRD_ENVIRONMENT,
    adler32_of,
    fails,
    has_bindings,
    is_same,
    missing,
    need,
    pythons_with_bindings,
    run,
    write_file,
)

from .conftest import SIZES
from .server import Server

CONFIG_KEYS = [
    *("version", "sitename", "role", "bind_max", "chksum", "pio_max", "readv_ior_max", "readv_iov_max", "tpc"),
    *("wan_port", "wan_window", "window", "cms", "no_such_key"),
]
BINDINGS = Path(__file__).parent / "bindings.py"
BROKEN_IN_DEBIAN = {"attributes", "attributes_of_an_open_file", "lines_of_a_file"}
"""Calls on which the bindings of XRootD 5.5 themselves fail under Python 3: nothing of a server can be seen by them."""
PAGES = pytest.mark.parametrize("pages", ["1", "0"], ids=["pages", "plain"])
NOT_FOUND = "3011|[Nn]o such"
EXISTS = "3018|xist"


# Session and configuration


@pytest.mark.parametrize("key", CONFIG_KEYS)
def test_query_config(server: Server, key: str) -> None:
    assert server.fs("query", "config", key).strip()


@pytest.mark.parametrize("key", ["readv_ior_max", "readv_iov_max", "bind_max", "pio_max"])
def test_query_config_is_a_number(server: Server, key: str) -> None:
    assert int(server.fs("query", "config", key)) > 0


def test_query_config_names_checksums(server: Server) -> None:
    assert "adler32" in server.fs("query", "config", "chksum")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("stat", "/"), "IsDir"),
        (("query", "stats", "a"), "<statistics"),
        (("query", "space", "/"), r"oss\.free=\d+"),
        (("spaceinfo", "/"), "Free"),
        (("statvfs", "/"), "RW"),
    ],
    ids=["stat", "stats", "space", "spaceinfo", "statvfs"],
)
def test_the_server_describes_itself(server: Server, words: tuple[str, ...], expected: str) -> None:
    assert re.search(expected, server.fs(*words))


# Copies


@PAGES
@pytest.mark.parametrize("name", SIZES)
def test_upload(server: Server, here: str, local: dict[str, Path], name: str, pages: str) -> None:
    server.put(local[name], f"{here}/{name}", XRD_CPUSEPGWRTRD=pages)
    assert server.holds(f"{here}/{name}", local[name])


@PAGES
@pytest.mark.parametrize("name", SIZES)
def test_download(server: Server, seeded: str, local: dict[str, Path], back: Path, name: str, pages: str) -> None:
    server.get(f"{seeded}/{name}", back, XRD_CPUSEPGWRTRD=pages)
    assert is_same(local[name], back)


@PAGES
@pytest.mark.parametrize("streams", ["2", "4", "8"])
def test_upload_by_parallel_streams(
    server: Server, here: str, local: dict[str, Path], streams: str, pages: str
) -> None:
    server.put(local["big"], f"{here}/big", "-S", streams, XRD_CPUSEPGWRTRD=pages)
    assert server.holds(f"{here}/big", local["big"])


@PAGES
@pytest.mark.parametrize("streams", ["2", "4", "8"])
def test_download_by_parallel_streams(
    server: Server, seeded: str, local: dict[str, Path], back: Path, streams: str, pages: str
) -> None:
    server.get(f"{seeded}/big", back, "-S", streams, XRD_CPUSEPGWRTRD=pages)
    assert is_same(local["big"], back)


@pytest.mark.parametrize("parallel", ["1", "64"])
def test_small_chunks(server: Server, here: str, local: dict[str, Path], back: Path, parallel: str) -> None:
    env = {"XRD_CPCHUNKSIZE": "65536", "XRD_CPPARALLELCHUNKS": parallel}
    server.put(local["odd"], f"{here}/file", **env)
    assert server.holds(f"{here}/file", local["odd"])
    server.get(f"{here}/file", back, **env)
    assert is_same(local["odd"], back)


def test_an_existing_file_is_not_replaced(server: Server, odd: str, local: dict[str, Path]) -> None:
    refused = fails("xrdcp", "-s", local["4097"], server.url(odd)).text
    assert re.search(f"{EXISTS}|Unable to create", refused)
    assert server.holds(odd, local["odd"])


def test_an_existing_file_is_replaced_by_force(server: Server, odd: str, local: dict[str, Path]) -> None:
    server.put(local["1"], odd, "-f")
    assert server.holds(odd, local["1"])


def test_the_path_is_made_if_asked(server: Server, here: str, local: dict[str, Path]) -> None:
    server.put(local["odd"], f"{here}/a/b/c/odd", "-p")
    assert server.holds(f"{here}/a/b/c/odd", local["odd"])


def test_persist_on_close(server: Server, here: str, local: dict[str, Path]) -> None:
    server.put(local["odd"], f"{here}/posc", "-P")
    assert server.holds(f"{here}/posc", local["odd"])


def test_a_copy_to_standard_output(server: Server, seeded: str, local: dict[str, Path]) -> None:
    piped = subprocess.run(
        ["xrdcp", "-s", server.url(f"{seeded}/odd"), "-"],
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, **XRD_ENVIRONMENT},
    )
    assert piped.stdout == local["odd"].read_bytes()


def test_a_copy_from_standard_input(server: Server, here: str, local: dict[str, Path]) -> None:
    run("xrdcp", "-s", "-", server.url(f"{here}/piped"), stdin=local["odd"].read_bytes())
    assert server.holds(f"{here}/piped", local["odd"])


def test_opaque_words_are_no_part_of_the_name(server: Server, here: str, local: dict[str, Path]) -> None:
    server.put(local["odd"], f"{here}/opaque?oss.asize=1234567&foo=bar")
    assert server.holds(f"{here}/opaque", local["odd"])


@pytest.mark.parametrize("name", ["a b ü.dat", "a+b%41#c", "'single' \"double\"", "日本語"])
def test_odd_names(server: Server, here: str, local: dict[str, Path], back: Path, name: str) -> None:
    server.put(local["odd"], f"{here}/{name}")
    assert server.holds(f"{here}/{name}", local["odd"])
    server.get(f"{here}/{name}", back)
    assert is_same(local["odd"], back)
    assert f"{here}/{name}" in server.fs("ls", here).splitlines()


def test_a_copy_from_the_server_to_itself(server: Server, odd: str, local: dict[str, Path]) -> None:
    run("xrdcp", "-s", server.url(odd), server.url(f"{odd}.copy"))
    assert server.holds(f"{odd}.copy", local["odd"])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Write a tree of small files."""
    top = tmp_path / "tree"
    (top / "s1" / "s2").mkdir(parents=True)
    for number in range(6):
        write_file(top / f"f{number}", number * 7777, number)
        write_file(top / "s1" / "s2" / f"g{number}", number * 999, number)
    return top


def test_a_tree_is_uploaded(server: Server, here: str, tree: Path) -> None:
    server.put(tree, f"{here}/", "-r")
    for file in (path for path in tree.rglob("*") if path.is_file()):
        assert server.holds(f"{here}/tree/{file.relative_to(tree)}", file), file


def test_a_tree_is_downloaded(server: Server, here: str, tree: Path, back: Path) -> None:
    server.fs("mkdir", "-p", f"{here}/tree/s1/s2")
    for file in (path for path in tree.rglob("*") if path.is_file()):
        server.seed(file, f"{here}/tree/{file.relative_to(tree)}")
    back.mkdir()
    server.get(f"{here}/tree", back, "-r", "--parallel", "4")
    run("diff", "-r", tree, back / "tree")


# Checksums


KINDS = pytest.mark.parametrize("kind", ["adler32", "crc32c", "md5"])


def sum_of(file: Path, kind: str) -> str:
    """Sum a file by a program of the field."""
    tool = {"adler32": "xrdadler32", "crc32c": "xrdcrc32c", "md5": "md5sum"}[kind]
    need(tool)
    return run(tool, file).out.split()[0]


@KINDS
@pytest.mark.parametrize("name", ["0", "1", "odd", "big"])
def test_query_checksum(server: Server, seeded: str, local: dict[str, Path], name: str, kind: str) -> None:
    answer = server.fs("query", "checksum", f"{seeded}/{name}?cks.type={kind}")
    assert answer.split() == [kind, sum_of(local[name], kind)]


def test_query_checksum_of_the_usual_kind(server: Server, seeded: str, local: dict[str, Path]) -> None:
    assert server.fs("query", "checksum", f"{seeded}/odd").split() == ["adler32", adler32_of(local["odd"])]


def test_query_checksum_of_an_unknown_kind(server: Server, seeded: str) -> None:
    assert "rror" in server.fs_fails("query", "checksum", f"{seeded}/odd?cks.type=nosuch")


def test_query_checksum_of_a_missing_file(server: Server, seeded: str) -> None:
    assert re.search(NOT_FOUND, server.fs_fails("query", "checksum", f"{seeded}/nosuch"))


@KINDS
def test_copies_compare_checksums(
    server: Server, seeded: str, here: str, local: dict[str, Path], back: Path, kind: str
) -> None:
    for copy in (
        server.get(f"{seeded}/odd", back, "--cksum", f"{kind}:source"),
        server.put(local["odd"], f"{here}/odd", "--cksum", f"{kind}:source"),
        server.get(f"{seeded}/odd", back, "--cksum", f"{kind}:print"),
    ):
        assert f"{kind}: {sum_of(local['odd'], kind)}" in copy.text
    server.put(local["odd"], f"{here}/right", "--cksum", f"{kind}:{sum_of(local['odd'], kind)}")


def test_a_wrong_checksum_fails_a_download(server: Server, seeded: str, back: Path) -> None:
    wrong = fails("xrdcp", "-s", "--cksum", "adler32:00000001", server.url(f"{seeded}/odd"), back)
    assert re.search("(?i)checksum", wrong.text)


def test_a_wrong_checksum_fails_an_upload(server: Server, here: str, local: dict[str, Path]) -> None:
    wrong = fails("xrdcp", "-s", "--cksum", "adler32:00000001", local["odd"], server.url(f"{here}/odd"))
    assert re.search("(?i)checksum", wrong.text)


@pytest.fixture
def sums_at_once(server: Server) -> None:
    """Go on only if sums are of the bytes: others keep them by the second in which the file was changed last."""
    if not server.facility:
        pytest.skip("what is changed twice in one second keeps its old sum")


@pytest.mark.usefixtures("sums_at_once")
def test_a_checksum_follows_an_overwrite(server: Server, odd: str, local: dict[str, Path]) -> None:
    server.fs("query", "checksum", odd)
    server.put(local["4097"], odd, "-f")
    assert server.fs("query", "checksum", odd).split()[1] == adler32_of(local["4097"])


@pytest.mark.usefixtures("sums_at_once")
def test_a_checksum_follows_a_truncation(server: Server, odd: str, local: dict[str, Path], back: Path) -> None:
    server.fs("query", "checksum", odd)
    server.fs("truncate", odd, "1000")
    back.write_bytes(local["odd"].read_bytes()[:1000])
    assert server.fs("query", "checksum", odd).split()[1] == adler32_of(back)


# Names


def test_ls(server: Server, seeded: str) -> None:
    listed = server.fs("ls", seeded).split()
    assert sorted(listed) == sorted([f"{seeded}/{name}" for name in SIZES] + [f"{seeded}/a"])


def test_ls_long(server: Server, seeded: str) -> None:
    long = server.fs("ls", "-l", seeded)
    assert re.search(rf"^-r.* 1234567 .*{seeded}/odd$", long, re.M)
    assert re.search(rf"^d.*{seeded}/a$", long, re.M)
    assert len(long.splitlines()) == len(SIZES) + 1, "the directory itself is not listed"


@pytest.mark.parametrize("options", [("-R",), ("-l", "-R")], ids=["short", "long"])
def test_ls_recursive(server: Server, seeded: str, options: tuple[str, ...]) -> None:
    assert f"{seeded}/a/b/deep" in server.fs("ls", *options, seeded)


def test_ls_of_a_file(server: Server, seeded: str) -> None:
    assert f"{seeded}/odd" in server.fs("ls", f"{seeded}/odd")


@pytest.mark.parametrize("options", [(), ("-l",)], ids=["short", "long"])
def test_ls_of_an_empty_directory(server: Server, here: str, options: tuple[str, ...]) -> None:
    assert server.fs("ls", *options, here).strip() == ""


def test_ls_of_a_missing_directory(server: Server, seeded: str) -> None:
    assert re.search(NOT_FOUND, server.fs_fails("ls", f"{seeded}/nosuch"))


def test_stat_of_a_file(server: Server, seeded: str) -> None:
    text = server.fs("stat", f"{seeded}/odd")
    assert re.search(r"Size: +1234567\b", text)
    assert "IsReadable" in text
    assert not re.search("IsDir|Offline", text)


def test_stat_query(server: Server, seeded: str) -> None:
    server.fs("stat", "-q", "IsDir", seeded)
    server.fs_fails("stat", "-q", "IsDir", f"{seeded}/odd")


def test_stat_of_a_missing_file(server: Server, seeded: str) -> None:
    assert re.search(NOT_FOUND, server.fs_fails("stat", f"{seeded}/nosuch"))


def test_mkdir(server: Server, here: str) -> None:
    server.fs("mkdir", f"{here}/d")
    assert server.properties(f"{here}/d", 0) == {f"{here}/d": True}


def test_mkdir_of_a_file(server: Server, odd: str, local: dict[str, Path]) -> None:
    server.fs_fails("mkdir", odd)
    assert server.holds(odd, local["odd"])


def test_mkdir_in_a_missing_parent(server: Server, here: str) -> None:
    server.fs_fails("mkdir", f"{here}/x1/x2")
    assert not server.exists(f"{here}/x1")


def test_mkdir_with_parents(server: Server, here: str) -> None:
    for _ in range(2):
        server.fs("mkdir", "-p", f"{here}/x1/x2/x3")
    assert server.exists(f"{here}/x1/x2/x3")


def test_mkdir_with_a_mode(server: Server, here: str) -> None:
    server.fs("mkdir", "-mrwxr-x---", f"{here}/d")
    assert server.mode(f"{here}/d") == 0o750


def test_chmod(server: Server, odd: str) -> None:
    server.fs("chmod", odd, "rw-r-----")
    assert server.mode(odd) == 0o640


def test_mv_of_a_file(server: Server, odd: str, here: str, local: dict[str, Path]) -> None:
    server.fs("mkdir", f"{here}/d")
    server.fs("mv", odd, f"{here}/d/moved")
    assert server.holds(f"{here}/d/moved", local["odd"])
    assert not server.exists(odd)


def test_mv_of_a_directory(server: Server, here: str, local: dict[str, Path]) -> None:
    server.fs("mkdir", "-p", f"{here}/x1/x2")
    server.seed(local["4097"], f"{here}/x1/x2/file")
    server.fs("mv", f"{here}/x1", f"{here}/x9")
    assert server.holds(f"{here}/x9/x2/file", local["4097"])
    assert not server.exists(f"{here}/x1")


def test_mv_of_a_missing_file(server: Server, here: str) -> None:
    assert re.search(NOT_FOUND, server.fs_fails("mv", f"{here}/nosuch", f"{here}/y"))


def test_mv_of_a_directory_into_itself(server: Server, here: str) -> None:
    server.fs("mkdir", f"{here}/d")
    server.fs_fails("mv", f"{here}/d", f"{here}/d/e")
    assert server.exists(f"{here}/d")


@pytest.mark.parametrize("size", [100, 2_000_000])
def test_truncate(server: Server, odd: str, local: dict[str, Path], size: int) -> None:
    server.fs("truncate", odd, str(size))
    assert server.read(odd) == local["odd"].read_bytes()[:size].ljust(size, b"\0")


def test_cat(server: Server, here: str) -> None:
    text = b"a line\nand another\n"
    assert server.fs("cat", server.seed(text, f"{here}/text")).encode() == text


def test_tail(server: Server, here: str) -> None:
    path = server.seed(b"0123456789" * 1000, f"{here}/text")
    assert server.fs("tail", "-c", "15", path) == "567890123456789"


def test_rm(server: Server, odd: str) -> None:
    server.fs("rm", odd)
    assert server.size(odd) is None
    assert re.search(NOT_FOUND, server.fs_fails("rm", odd))


def test_rmdir(server: Server, here: str) -> None:
    server.fs("mkdir", f"{here}/d")
    server.fs("rmdir", f"{here}/d")
    assert not server.exists(f"{here}/d")


@pytest.mark.parametrize("verb", ["rm", "rmdir"])
def test_a_directory_with_something_in_it_stays(
    server: Server, here: str, odd: str, local: dict[str, Path], verb: str
) -> None:
    server.fs_fails(verb, here)
    assert server.holds(odd, local["odd"])


def test_rmdir_of_a_file(server: Server, odd: str, local: dict[str, Path]) -> None:
    server.fs_fails("rmdir", odd)
    assert server.holds(odd, local["odd"])


# Locations, staging, attributes


@pytest.mark.parametrize("option", ["", "-d", "-r", "-n", "-m", "-i", "-p"])
def test_locate(server: Server, seeded: str, option: str) -> None:
    assert re.search("Server|Manager", server.fs("locate", *filter(None, [option]), f"{seeded}/odd"))


def test_locate_of_a_missing_file(server: Server, seeded: str) -> None:
    server.fs_fails("locate", f"{seeded}/nosuch")


@pytest.mark.parametrize("option", ["-s", "-f", "-e", "-w", "-c"])
def test_prepare(server: Server, odd: str, local: dict[str, Path], option: str) -> None:
    if option == "-e" and server.facility:
        # Of what is on no tape nothing leaves the disk, and that is said.
        assert "has no tape copy" in server.fs_fails("prepare", option, odd)
    else:
        server.fs("prepare", option, odd)
    assert server.holds(odd, local["odd"]), "the only replica of a file stays, whatever is asked"


def test_xattr(server: Server, odd: str) -> None:
    server.fs("xattr", odd, "set", "colour=green")
    assert "green" in server.fs("xattr", odd, "get", "colour")
    assert "colour" in server.fs("xattr", odd, "list")
    server.fs("xattr", odd, "set", "colour=blue")
    assert "blue" in server.fs("xattr", odd, "get", "colour")
    server.fs("xattr", odd, "del", "colour")
    assert "blue" not in run("xrdfs", server.root, "xattr", odd, "get", "colour", check=False).text
    assert "colour" not in server.fs("xattr", odd, "list")


# Third-party copy by root://


@pytest.mark.parametrize("which", ["first", "only"])
@pytest.mark.parametrize("name", ["0", "odd", "big"])
def test_third_party_copy(
    server: Server, seeded: str, here: str, local: dict[str, Path], which: str, name: str
) -> None:
    if server.fs("query", "config", "tpc").strip() != "1" and not server.facility:
        pytest.skip("the server offers no third-party copy")
    run("xrdcp", "-s", "--tpc", which, server.url(f"{seeded}/{name}"), server.url(f"{here}/copy"))
    assert server.holds(f"{here}/copy", local[name])


def test_third_party_copy_with_a_checksum(server: Server, seeded: str, here: str, local: dict[str, Path]) -> None:
    if server.fs("query", "config", "tpc").strip() != "1" and not server.facility:
        pytest.skip("the server offers no third-party copy")
    words = ("--tpc", "only", "--cksum", "adler32:source")
    run("xrdcp", "-s", *words, server.url(f"{seeded}/odd"), server.url(f"{here}/copy"))
    assert server.holds(f"{here}/copy", local["odd"])


def test_third_party_copy_of_a_missing_file(server: Server, here: str) -> None:
    fails("xrdcp", "-s", "--tpc", "only", server.url(f"{here}/nosuch"), server.url(f"{here}/copy"))
    assert not server.size(f"{here}/copy")


# TLS


@pytest.fixture
def tls(server: Server) -> dict[str, str]:
    """Trust the authority of the server; returns the environment for that."""
    if server.trust is None:
        if server.facility:
            pytest.fail("the facility has no authority in tls/trust")
        pytest.skip("--conformance-trust is not given")
    return {"X509_CERT_DIR": str(server.trust)}


def test_a_copy_by_roots(server: Server, tls: dict[str, str], here: str, local: dict[str, Path], back: Path) -> None:
    url = server.url(f"{here}/file").replace("root://", "roots://", 1)
    run("xrdcp", "-s", local["big"], url, env=tls)
    assert server.holds(f"{here}/file", local["big"])
    run("xrdcp", "-s", "-f", url, back, env=tls)
    assert is_same(local["big"], back)


def test_streams_by_roots(server: Server, tls: dict[str, str], seeded: str, local: dict[str, Path], back: Path) -> None:
    url = server.url(f"{seeded}/big").replace("root://", "roots://", 1)
    run("xrdcp", "-s", "-f", "-S", "4", url, back, env=tls)
    assert is_same(local["big"], back)


def test_names_by_roots(server: Server, tls: dict[str, str], seeded: str) -> None:
    root = server.root.replace("root://", "roots://", 1)
    assert f"{seeded}/odd" in run("xrdfs", root, "ls", seeded, env=tls).out.splitlines()


def test_roots_with_an_authority_that_is_not_trusted(
    server: Server, tls: dict[str, str], seeded: str, tmp_path: Path, back: Path
) -> None:
    url = server.url(f"{seeded}/odd").replace("root://", "roots://", 1)
    fails("xrdcp", "-s", "-f", url, back, env={**tls, "X509_CERT_DIR": str(tmp_path)})


# What must be refused


def test_download_of_a_missing_file(server: Server, seeded: str, back: Path) -> None:
    assert re.search(NOT_FOUND, fails("xrdcp", "-s", server.url(f"{seeded}/nosuch"), back).text)


def test_open_of_a_directory(server: Server, seeded: str, back: Path) -> None:
    fails("xrdcp", "-s", server.url(f"{seeded}/a"), back)


@pytest.mark.parametrize(
    "path",
    [
        "/../" * 20 + "etc/passwd",
        "/x" + "/.." * 20 + "/etc/passwd",
        "/./" + "../" * 20 + "/etc/passwd",
        "/" + "%2e%2e/" * 20 + "etc/passwd",
        "//../../../../../../../../../../../../etc/passwd",
    ],
    ids=["plain", "down-and-up", "dots", "encoded", "slashes"],
)
def test_paths_do_not_lead_out(server: Server, local: dict[str, Path], back: Path, tmp_path: Path, path: str) -> None:
    run("xrdcp", "-s", "-f", server.url(path), back, check=False)
    assert not back.exists() or b"root:" not in back.read_bytes()
    outside = path.replace("etc/passwd", str(tmp_path / "leak")[1:])
    run("xrdcp", "-s", "-f", local["1"], server.url(outside), check=False)
    assert not (tmp_path / "leak").exists()


def test_mv_does_not_lead_out(server: Server, odd: str, local: dict[str, Path], tmp_path: Path) -> None:
    server.fs_fails("mv", odd, odd + "/.." * 20 + str(tmp_path / "leak"))
    assert not (tmp_path / "leak").exists()
    assert server.holds(odd, local["odd"])


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000 + "y"], ids=["name", "path"])
def test_names_that_are_too_long(server: Server, here: str, name: str) -> None:
    server.fs_fails("mkdir", f"{here}/{name}")
    server.fs_fails("stat", f"{here}/{name}")


# Bindings


def bindings() -> list[Any]:
    """Pair each interpreter that has the bindings with each check that they can make."""
    checks = re.findall(r"(?m)^@check\ndef (\w+)", BINDINGS.read_text())
    return [
        pytest.param(*python.values, check, id=f"{check}-{python.id}")
        for python, check in itertools.product(pythons_with_bindings(), checks)
        if SYSTEM_PYTHON not in python.values or check not in BROKEN_IN_DEBIAN
    ]


@pytest.mark.parametrize(("python", "check"), bindings())
def test_bindings(server: Server, here: str, local: dict[str, Path], python: str, check: str) -> None:
    if not has_bindings(python):
        missing(f"XRootD.client for {python}")
    server.seed(local["big"], f"{here}/big")
    run(python, "-W", "error", BINDINGS, check, server.root, here, local["big"])
    expected = {
        "write_and_read_one_handle": ("rw", b"hello"),
        "update_in_place": ("up", (b"0123456789" * 1000)[:5000] + b"abc" + (b"0123456789" * 1000)[5003:]),
    }
    if check in expected:
        name, content = expected[check]
        assert server.read(f"{here}/{name}") == content
    if check == "five_thousand_directories":
        assert len(server.names(f"{here}/many")) == 5000


# gfal2


def gfal(*words: str | Path) -> str:
    """Run a program of gfal2, which must succeed; its interpreter is Debian's."""
    need(str(words[0]))
    return run(*words, env={"GFAL_PYTHONBIN": "/usr/bin/python3"}).out


@pytest.mark.parametrize("door", ["root", "http"])
def test_gfal(server: Server, here: str, odd: str, local: dict[str, Path], back: Path, door: str) -> None:
    top = server.root + "/" if door == "root" else server.http
    assert "1234567" in gfal("gfal-stat", top + odd)
    assert "odd" in gfal("gfal-ls", "-l", top + here)
    gfal("gfal-copy", "-f", top + odd, f"file://{back}")
    assert is_same(local["odd"], back)
    assert adler32_of(local["odd"]) in gfal("gfal-sum", top + odd, "ADLER32")
    gfal("gfal-mkdir", f"{top}{here}/d")
    gfal("gfal-copy", "-f", "-p", "-K", "adler32", f"file://{local['odd']}", f"{top}{here}/new/copy")
    assert server.holds(f"{here}/new/copy", local["odd"])
    gfal("gfal-rename", f"{top}{here}/new/copy", f"{top}{here}/d/moved")
    assert server.holds(f"{here}/d/moved", local["odd"])
    gfal("gfal-rm", f"{top}{here}/d/moved")
    assert not server.exists(f"{here}/d/moved")
    gfal("gfal-rm", "-r", top + here)
    assert not server.exists(here)


# The second door's clients, looked at through the first


def test_curl_uploads_what_xrdcp_downloads(server: Server, here: str, local: dict[str, Path], back: Path) -> None:
    need("curl")
    run("curl", "-sSf", "-T", local["big"], f"{server.http}{here}/file")
    server.get(f"{here}/file", back)
    assert is_same(local["big"], back)


def test_a_digest_by_http_is_the_checksum_by_root(server: Server, seeded: str) -> None:
    with server.ask("HEAD", f"{seeded}/odd", Want_Digest="adler32") as answer:
        digest = answer.getheader("Digest")
    assert digest == "adler32=" + server.fs("query", "checksum", f"{seeded}/odd").split()[1]


def test_names_changed_by_dav(server: Server, here: str, odd: str, local: dict[str, Path], back: Path) -> None:
    with server.ask("MKCOL", f"{here}/d") as answer:
        assert answer.status == 201
    with server.ask("MOVE", odd, Destination=f"{server.http}{here}/d/moved") as answer:
        assert answer.status in (201, 204)
    assert server.fs("ls", "-R", here).split() == [f"{here}/d", f"{here}/d/moved"]
    server.get(f"{here}/d/moved", back)
    assert is_same(local["odd"], back)
    with server.ask("DELETE", f"{here}/d/moved") as answer:
        assert answer.status in (200, 204)
    assert server.fs("ls", f"{here}/d").split() == []


def test_davix(server: Server, here: str, local: dict[str, Path], back: Path) -> None:
    need("davix-put", "davix-get", "davix-ls")
    run("davix-put", local["odd"], f"{server.http}{here}/file")
    server.get(f"{here}/file", back)
    assert is_same(local["odd"], back)
    run("davix-get", f"{server.http}{here}/file", f"{back}2")
    assert is_same(local["odd"], Path(f"{back}2"))
    assert run("davix-ls", f"{server.http}{here}").out.split() == ["file"]


def test_rclone(server: Server, here: str, tree: Path, back: Path) -> None:
    need("rclone")
    options = ("--config", "/dev/null", f"--webdav-url={server.http}{here}")
    run("rclone", "copy", *options, tree, ":webdav:tree")
    back.mkdir()
    server.get(f"{here}/tree", back, "-r")
    run("diff", "-r", tree, back / "tree")
    (tree / "f1").unlink()
    write_file(tree / "f2", 100, 9)
    run("rclone", "sync", *options, tree, ":webdav:tree")
    assert server.size(f"{here}/tree/f1") is None
    assert server.holds(f"{here}/tree/f2", tree / "f2")


# The whole


def test_two_hundred_idle_connections(server: Server, seeded: str, local: dict[str, Path], back: Path) -> None:
    idle = [frames.Raw(server.root) for _ in range(200)]
    server.get(f"{seeded}/odd", back)
    assert is_same(local["odd"], back)
    for peer in idle:
        peer.socket.close()
