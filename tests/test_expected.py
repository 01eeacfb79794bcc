"""What clients of the field expect of a server: names, parents, modes and answers as the field has them."""

from __future__ import annotations

import email.utils
import hashlib
import random
import re
import struct
import time
import zlib
from pathlib import Path

import pytest

import frames
from clients import fails, need, run
from facility import Facility


@pytest.fixture
def door(xrootd: Facility) -> Facility:
    """Start a facility for curl and XRootD's clients, which must be installed."""
    need("curl")
    return xrootd


def http(facility: Facility, path: str, *options: str | Path) -> int:
    """Tell the status of an answer."""
    words = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", "--max-time", "60")
    return int(run(*words, *options, facility.http + path).out)


def address(facility: Facility) -> str:
    """Give the place of the facility as `xrdfs` takes it."""
    return facility.root.removeprefix("root://")


# Parents


def test_root_makes_missing_directories_and_webdav_does_not(door: Facility, sample: Path) -> None:
    assert http(door, "/p", "-X", "MKCOL") == 201
    url = f"{door.root}//p"
    run("xrdcp", "-s", sample, f"{url}/a/b/f")
    run("xrdcp", "-s", f"{url}/a/b/f", f"{url}/c/d/f")
    run("xrdcp", "-s", "--tpc", "only", f"{url}/a/b/f", f"{url}/e/f/f")
    run("xrdfs", address(door), "mv", "/p/a/b/f", "/p/g/h/f")
    for path in ("/p/c/d/f", "/p/e/f/f", "/p/g/h/f"):
        assert http(door, path, "-I") == 200, path
    # A refused rename leaves nothing, and an update makes nothing.
    fails("xrdfs", address(door), "mv", "/p/none", "/p/i/j")
    fails("xrdfs", address(door), "truncate", "/p/k/l", "5")
    assert [http(door, path, "-I") for path in ("/p/i", "/p/k")] == [404, 404]
    fails("xrdfs", address(door), "mkdir", "/p/m/n")
    assert http(door, "/p/o/p/f", "-T", sample) == 409
    assert http(door, "/p/o/p", "-X", "MKCOL") == 409
    destination = f"Destination: {door.http}/p/o/f"
    assert [http(door, "/p/c/d/f", "-X", verb, "-H", destination) for verb in ("COPY", "MOVE")] == [409, 409]


def test_parents_are_made_only_where_the_caller_may_create(door: Facility) -> None:
    door.bp("mkdir", "/closed")
    with frames.Raw(door.root).login("nobody") as raw:
        raw.request(frames.OPEN, struct.pack(">HH12x", 0, frames.NEW | frames.UPDATE), b"/closed/a/b/f")
        assert raw.answer().error == 3010
    assert http(door, "/closed/a", "-I") == 404


# Removal


def test_rm_takes_an_empty_directory(door: Facility, sample: Path) -> None:
    assert http(door, "/r", "-X", "MKCOL") == 201
    assert http(door, "/r/f", "-T", sample) == 201
    refused = fails("xrdfs", address(door), "rm", "/r")
    assert "3018" in refused.text or "not empty" in refused.text, refused
    run("xrdfs", address(door), "rm", "/r/f")
    run("xrdfs", address(door), "rm", "/r")
    assert http(door, "/r", "-I") == 404


def test_fsspec_xrootd_removes_a_tree(door: Facility) -> None:
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("fsspec_xrootd")
    files = fsspec.filesystem("root", hostid=address(door))
    for name in ("a/x", "a/b/y", "a/b/c/z"):
        with files.open(f"/t/{name}", "wb") as file:
            file.write(b"x")
    files.rm("/t/a", recursive=True)
    files.invalidate_cache()
    assert not files.exists("/t/a")
    assert files.exists("/t")


# Certificates


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, tuple[Path, Path]]:
    """Make certificates of users as they are met in the field, each with its key."""
    need("openssl")

    def new(name: str, *words: str | Path) -> tuple[Path, Path]:
        paths = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        run("openssl", *words, "-newkey", "rsa:2048", "-nodes", "-keyout", paths[1], "-out", paths[0])
        return paths

    def signed(name: str, signer: tuple[Path, Path], *words: str | Path) -> tuple[Path, Path]:
        request, key = new(f"{name}-request", "req", "-subj", f"/CN=ann/CN={name}")
        path = tmp_path / f"{name}.pem"
        by = ("-CA", signer[0], "-CAkey", signer[1], "-CAcreateserial", "-days", "1")
        run("openssl", "x509", "-req", "-in", request, *by, *words, "-out", path)
        # Clients show whoever signed it, too.
        path.write_bytes(path.read_bytes() + signer[0].read_bytes())
        return path, key

    extensions = tmp_path / "extensions"
    extensions.write_text("proxyCertInfo=critical,language:id-ppl-inheritAll\n")
    user = new("user", "req", "-x509", "-subj", "/CN=ann", "-days", "1")
    return {
        "of an unknown authority": user,
        "a proxy": signed("proxy", user, "-extfile", extensions),
        "of version 1": signed("v1", user),
    }


def test_a_token_counts_whatever_certificate_is_shown(
    door: Facility, certificates: dict[str, tuple[Path, Path]]
) -> None:
    token = door.bp("token", "create").out.strip().splitlines()[-1]
    url = door.endpoint("https") + "/"
    curl = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", door.directory / "tls" / "ca.pem")
    for kind, (certificate, key) in certificates.items():
        for version in ("--tls-max=1.2", "--tlsv1.3"):
            shown = (*curl, *version.replace("=", " ").split(), "--cert", certificate, "--key", key)
            assert run(*shown, "-H", f"Authorization: Bearer {token}", url).out == "200", (kind, version)
            assert run(*shown, url).out == "401", f"{kind}: it is nobody's here"


# Files that are being written


def test_a_file_that_is_being_written_is_locked(door: Facility, sample: Path, tmp_path: Path) -> None:
    url, back = f"{door.root}//l", tmp_path / "back"
    assert http(door, "/l", "-X", "MKCOL") == 201
    run("xrdcp", "-s", sample, f"{url}/old")
    with frames.Raw(door.root).login() as writer:
        new, old = (
            writer.open("/l/new", frames.NEW | frames.UPDATE),
            writer.open("/l/old", frames.FORCE | frames.UPDATE),
        )
        for words in (("-f", sample, f"{url}/old"), ("-f", sample, f"{url}/new"), (f"{url}/new", back)):
            refused = fails("xrdcp", "-s", *words, env={"XRD_REQUESTTIMEOUT": "10"})
            assert "3003" in refused.text, refused
            assert "being written" in refused.text, refused
        # What was there stays readable until the writer has closed it, unlike at other servers.
        run("xrdcp", "-s", f"{url}/old", back)
        assert back.read_bytes() == sample.read_bytes()
        assert "3003" in fails("xrdfs", address(door), "query", "checksum", "/l/new").text, "it has no checksum yet"
        assert "3003" in fails("xrdfs", address(door), "truncate", "/l/old", "5").text
        assert http(door, "/l/new") == http(door, "/l/new", "-T", sample) == http(door, "/l/old", "-T", sample) == 423
        for handle in (new, old):
            writer.request(frames.CLOSE, handle)
            assert writer.answer().status == frames.OK
    assert http(door, "/l/new", "-T", sample) == 204


def test_the_end_of_a_session_that_is_not_there_is_no_error(door: Facility) -> None:
    with frames.Raw(door.root).login() as raw:
        for session in (bytes(16), b"\x7f" * 16):
            raw.request(frames.ENDSESS, session)
            assert raw.answer().status == frames.OK
        raw.request(frames.PING)
        assert raw.answer().status == frames.OK


# Times of directories


def test_a_directory_has_the_time_of_its_names(door: Facility, sample: Path) -> None:
    def modified(path: str) -> int:
        """Tell the time in milliseconds, once all clients are told the same."""
        milliseconds = int(door.stat(path)["modified"])
        found = run("xrdfs", address(door), "query", "xattr", path).out
        assert f"oss.mt={milliseconds // 1000}&" in found
        answer = run("curl", "-s", "-X", "PROPFIND", "-H", "Depth: 0", door.http + path).out
        (date,) = re.findall(r"getlastmodified[^>]*>([^<]+)<", answer)
        assert email.utils.parsedate_to_datetime(date).timestamp() == milliseconds // 1000
        return milliseconds

    door.bp("mkdir", "/t", "/t/d")
    for done in (
        lambda: run("xrdcp", "-s", sample, f"{door.root}//t/d/f"),
        lambda: run("xrdfs", address(door), "mv", "/t/d/f", "/t/d/g"),
        lambda: http(door, "/t/d/g", "-X", "DELETE"),
        lambda: run("xrdfs", address(door), "mkdir", "/t/d/e"),
    ):
        outer, before = modified("/t"), modified("/t/d")
        done()
        assert modified("/t/d") > before
        assert modified("/t") == outer
    last = modified("/t/d")
    shown = time.strftime("%Y-%m-%d %H:%M", time.gmtime(last // 1000))
    assert shown in run("xrdfs", address(door), "ls", "-l", "/t").out
    assert shown in run("curl", "-s", f"{door.http}/t").out
    door.kill()
    door.up()
    assert modified("/t/d") == last


# Checksums


@pytest.mark.parametrize("size", [0, 1, 300_001])
def test_checksums_that_clients_compute_themselves(door: Facility, tmp_path: Path, size: int) -> None:
    data = random.Random(size).randbytes(size)
    file = tmp_path / "file"
    file.write_bytes(data)
    run("xrdcp", "-s", file, f"{door.root}//file")
    posix = int(run("cksum", file).out.split()[0])
    expected = {
        "adler32": f"{zlib.adler32(data):08x}",
        "crc32c": f"{frames.crc32c(data):08x}",
        "md5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
        "crc32": f"{posix:08x}",
        "zcrc32": f"{zlib.crc32(data):08x}",
    }
    offered = run("xrdfs", address(door), "query", "config", "chksum").out.strip()
    assert [one.split(":")[1] for one in offered.split(",")] == list(expected), offered
    assert run("xrdfs", address(door), "query", "checksum", "/file").out.split() == ["adler32", expected["adler32"]]
    for name, found in expected.items():
        told = run("xrdfs", address(door), "query", "checksum", f"/file?cks.type={name}").out.split()
        assert told == [name, found]
        # The client computes the same sum of what it has written, and compares.
        run("xrdcp", "-s", "-f", "--cksum", f"{name}:source", f"{door.root}//file", tmp_path / "back")
    for wanted, field in (("UNIXcksum", f"UNIXcksum={posix}"), ("crc32", f"crc32={zlib.crc32(data):08x}")):
        head = run("curl", "-s", "-I", "-H", f"Want-Digest: {wanted}", f"{door.http}/file").out
        assert f"digest: {field}".lower() in head.lower(), head
    claim = ("-H", f"Digest: UNIXcksum={posix ^ 1}")
    assert http(door, "/file", "-T", file, *claim) == 400
    assert "3013" in fails("xrdfs", address(door), "query", "checksum", "/file?cks.type=whirlpool").text
