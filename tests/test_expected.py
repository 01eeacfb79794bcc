"""What clients of the field expect of a server: names, parents, modes and answers as the field has them."""

from __future__ import annotations

import struct
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
