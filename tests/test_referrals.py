"""Several heads, each with a subtree of its own: clients of the field that ask the one are sent to the other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from clients import fails, need, run, write_file
from conftest import MakeFacility
from facility import Facility
from issuer import Issuer
from test_access import believe, table

SIZE = 3_000_001


@pytest.fixture
def heads(make_facility: MakeFacility) -> tuple[Facility, Facility]:
    """Start a head, and another one that keeps /exp/cms for it."""
    need("xrdcp", "xrdfs", "curl")
    first, other = make_facility(), make_facility()
    # Their addresses have to last.
    for facility in (first, other):
        facility.keep_ports()
        facility.up()
    other.bp("mkdir", "-p", "/exp/cms")
    first.bp("mkdir", "-p", "/exp/cms")
    first.bp("head", "refer", "/exp/cms", other.http)
    return first, other


def xrdfs(facility: Facility, *words: str) -> str:
    """Ask with the field's client."""
    return run("xrdfs", facility.root, *words).out


def curl(url: str, *words: str | Path) -> tuple[int, str]:
    """Ask by HTTP, going where one is sent; yield the status, and what was said."""
    out = run("curl", "-sS", "--location-trusted", "--max-redirs", "5", "-w", "\n%{http_code}", *words, url).out
    body, _, status = out.rpartition("\n")
    return int(status), body


def test_files_of_another_head_are_read_written_and_named_through_the_first(
    heads: tuple[Facility, Facility], tmp_path: Path
) -> None:
    first, other = heads
    local, back = write_file(tmp_path / "local", SIZE), tmp_path / "back"
    run("xrdcp", "-s", "-p", local, first.url("/exp/cms/run1/f"))
    assert other.stat("/exp/cms/run1/f")["size"] == SIZE
    run("xrdcp", "-s", first.url("/exp/cms/run1/f"), back)
    assert back.read_bytes() == local.read_bytes()
    assert first.status()["files"]["files"] == 0
    assert f"Size:   {SIZE}" in xrdfs(first, "stat", "/exp/cms/run1/f")
    assert "/exp/cms/run1/f" in xrdfs(first, "ls", "-l", "/exp/cms/run1")
    assert "/exp/cms" in xrdfs(first, "ls", "/exp"), "it is seen from above"
    xrdfs(first, "mkdir", "-p", "/exp/cms/a/b")
    xrdfs(first, "mv", "/exp/cms/run1/f", "/exp/cms/a/b/g")
    assert "adler32" in xrdfs(first, "query", "checksum", "/exp/cms/a/b/g")
    xrdfs(first, "truncate", "/exp/cms/a/b/g", "10")
    xrdfs(first, "xattr", "/exp/cms/a/b/g", "set", "colour=blue")
    assert other.stat("/exp/cms/a/b/g")["size"] == 10
    xrdfs(first, "rm", "/exp/cms/a/b/g")
    xrdfs(first, "rmdir", "/exp/cms/a/b")
    assert "does not exist" in fails("xrdfs", first.root, "stat", "/exp/cms/a/b").text


def test_our_own_commands_follow(heads: tuple[Facility, Facility], tmp_path: Path) -> None:
    first, other = heads
    local, back = write_file(tmp_path / "local", SIZE), tmp_path / "back"
    first.bp("put", "--parents", local, "/exp/cms/run2/f")
    assert other.stat("/exp/cms/run2/f")["size"] == SIZE
    assert "f" in first.bp("ls", "/exp/cms/run2").out.split()
    assert first.bp_json("stat", "/exp/cms/run2/f")["size"] == SIZE
    first.bp("get", "/exp/cms/run2/f", back)
    assert back.read_bytes() == local.read_bytes()
    first.bp("mv", "/exp/cms/run2/f", "/exp/cms/g")
    first.bp("rm", "/exp/cms/g")
    assert first.bp_fails("ls", "/exp/cms/run3").code == 3


def test_by_http(heads: tuple[Facility, Facility], tmp_path: Path) -> None:
    first, other = heads
    local = write_file(tmp_path / "local", SIZE)
    assert curl(f"{first.http}/exp/cms/f", "-T", local)[0] == 201
    assert other.read("/exp/cms/f") == local.read_bytes()
    run("curl", "-sSfL", "-o", tmp_path / "back", f"{first.http}/exp/cms/f?a=b%20c")
    assert (tmp_path / "back").read_bytes() == local.read_bytes()
    status, listing = curl(f"{first.http}/exp/cms/", "-X", "PROPFIND", "-H", "Depth: 1")
    assert (status, "/exp/cms/f" in listing) == (207, True)
    assert curl(f"{first.http}/exp/cms/f", "-X", "DELETE")[0] == 204
    other.put_bytes(b"there", "/exp/cms/f")
    first.put_bytes(b"here", "/here")
    for method in ("MOVE", "COPY"):
        status, text = curl(f"{first.http}/here", "-X", method, "-H", f"Destination: {first.http}/exp/cms/here")
        assert (status, "head" in text) == (501, True), (method, text)


def test_nothing_is_moved_between_heads(heads: tuple[Facility, Facility]) -> None:
    first, other = heads
    first.put_bytes(b"here", "/here")
    other.put_bytes(b"there", "/exp/cms/there")
    for source, target in (("/here", "/exp/cms/f"), ("/exp/cms/there", "/there"), ("/here", "/exp/cms")):
        assert "different heads" in first.bp_fails("mv", source, target).text, (source, target)
        assert "different heads" in fails("xrdfs", first.root, "mv", source, target).text, (source, target)
    # The other head would not know it any more.
    assert "another head serves" in first.bp_fails("mv", "/exp", "/experiments").text
    assert (first.read("/here"), other.read("/exp/cms/there")) == (b"here", b"there")


def test_one_request_is_for_files_of_one_head(heads: tuple[Facility, Facility]) -> None:
    first, other = heads
    first.put_bytes(b"here", "/here")
    other.put_bytes(b"there", "/exp/cms/there")
    xrdfs(first, "prepare", "-s", "/exp/cms/there")
    assert "served by the head" in fails("xrdfs", first.root, "prepare", "-s", "/here", "/exp/cms/there").text


def test_what_is_referred_is_shown_kept_and_ended(heads: tuple[Facility, Facility]) -> None:
    first, other = heads
    first.down()
    first.up()
    (shown,) = first.bp_json("head", "refer")["referrals"]
    assert (shown["path"], shown["at"]) == ("/exp/cms", {"root": other.root, "http": other.http})
    assert other.http in first.bp("head", "refer").out
    other.put_bytes(b"there", "/exp/cms/f")
    first.bp("head", "refer", "/exp/cms", "--end")
    assert "no directory is referred" in first.bp("head", "refer").text
    assert first.bp_fails("stat", "/exp/cms/f").code == 3
    first.put_bytes(b"here", "/exp/cms/f")
    assert "not empty" in first.bp_fails("head", "refer", "/exp/cms", other.http).text
    assert "does not exist" in first.bp_fails("head", "refer", "/exp/cms/x", other.http).text
    assert first.bp_fails("head", "refer", "/exp", "--end").code == 3
    first.bp("mkdir", "/gone")
    assert "mkdir" in first.bp_fails("head", "refer", "/gone", other.http).text, "the other does not have it"


def test_a_head_refers_all_that_it_does_not_have(heads: tuple[Facility, Facility], tmp_path: Path) -> None:
    first, other = heads
    other.bp("head", "refer", "/", first.http)
    local, back = write_file(tmp_path / "local", SIZE), tmp_path / "back"
    run("xrdcp", "-s", "-p", local, other.url("/data/f"))
    assert first.stat("/data/f")["size"] == SIZE
    run("xrdcp", "-s", other.url("/data/f"), back)
    other.bp("mkdir", "/new")
    assert first.stat("/new")["kind"] == "directory"
    xrdfs(other, "mkdir", "/newer")
    assert "/newer" in xrdfs(first, "ls", "/")
    assert other.bp("ls", "/").out.split() == ["exp/"]
    # What the other lost goes round in a circle, and that ends.
    other.bp("head", "refer", "/", "--end")
    other.bp("rmdir", "/exp/cms")
    other.bp("rmdir", "/exp")
    other.bp("head", "refer", "/", first.http)
    assert first.bp_fails("stat", "/exp/cms/f").code == 2
    assert "served by the head" in first.bp_fails("stat", "/exp/cms/f").text
    fails("xrdfs", first.root, "stat", "/exp/cms/f")


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    """Run an issuer that both heads believe."""
    need("openssl", "xrdcp")
    one = Issuer(tmp_path / "issuer")
    yield one
    one.close()


def test_where_tokens_are_wanted_each_head_checks_them(
    make_facility: MakeFacility, issuer: Issuer, tmp_path: Path
) -> None:
    first, other = make_facility(), make_facility()
    trusted, bundle = tmp_path / "trusted", tmp_path / "trusted.pem"
    for facility in (first, other):
        facility.configure("require_token", "true")
        believe(facility, table(issuer))
        facility.keep_ports(https=True)
        facility.up()
        facility.call = partial(facility.call, at_socket=True)  # type: ignore[method-assign]
        shutil.copytree(facility.directory / "tls" / "trust", trusted, dirs_exist_ok=True)
        with bundle.open("a") as file:
            file.write((facility.directory / "tls" / "ca.pem").read_text())
        facility.bp("mkdir", "-p", "/vo/cms")
    other.bp("chmod", "777", "/vo/cms")

    def bearing(token: str) -> dict[str, str]:
        authorities = {"X509_CERT_DIR": str(trusted), "BP_CA_FILE": str(bundle)}
        return {**authorities, "BEARER_TOKEN": token, "XRD_LOGLEVEL": "Error"}

    refer = (first.bin / "bp", "-f", first.directory, "head", "refer", "/vo/cms", other.endpoint("https"))
    assert "token" in fails(*refer, env={"BP_CA_FILE": str(bundle)}).text, "its own key is for itself"
    run(*refer, env=bearing(other.bp("token", "create").out.strip()))
    local, back = write_file(tmp_path / "local", SIZE), tmp_path / "back"
    url = f"{first.endpoint('roots')}//vo/cms/f"
    run("xrdcp", "-s", local, url, env=bearing(issuer.token("storage.create:/cms")))
    assert other.bp_json("stat", "/vo/cms/f")["size"] == SIZE
    run("xrdcp", "-s", url, back, env=bearing(issuer.token("storage.read:/cms")))
    assert back.read_bytes() == local.read_bytes()
    for refused in (issuer.token("storage.read:/elsewhere"), "", "not.a.token"):
        fails("xrdcp", "-s", "-f", url, back, env=bearing(refused))
    for scope, status in (("storage.read:/cms", 200), ("storage.read:/elsewhere", 403)):
        shown = ("--cacert", bundle, "-H", f"Authorization: Bearer {issuer.token(scope)}", "-o", back)
        assert curl(f"{first.endpoint('https')}/vo/cms/f", *shown)[0] == status
