"""A facility of several hosts: joining, writing and reading on other disk servers, and their faults."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import DEADLINE, is_same, need, run
from conftest import SMALL, MakeFacility, one_facility
from facility import Facility
from host import Host, hosts, invite, redirect


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Facility, Host]]:
    """Run a head whose own disk is small, and a disk server that joined and has the most room."""
    directory = tmp_path_factory.mktemp("hosts")
    with one_facility(directory / "facility", **{**SMALL, "disk_size": "1MiB"}) as facility:
        facility.keep_ports(https=True)
        facility.up()
        facility.bp("mkdir", "/far")
        # Files stay where they are, also while the disk server is killed.
        facility.bp("pool", "set", "main", "--server-moves=0")
        with hosts(facility, directory, "d1") as (host,):
            yield facility, host


def authority(facility: Facility) -> Path:
    """Find the certificate that all hosts are trusted by."""
    return facility.directory / "tls" / "ca.pem"


def https(facility: Facility, path: str) -> str:
    """Write the https URL of a path at the head."""
    return f"{facility.endpoint('https')}{path}"


def curl(facility: Facility, *words: str | Path) -> str:
    """Run curl, which trusts the facility's authority and goes where it is sent."""
    return run("curl", "--silent", "--show-error", "--fail", "--location", "--cacert", authority(facility), *words).out


def test_a_host_that_joined_is_shown(pair: tuple[Facility, Host]) -> None:
    facility, host = pair
    (shown,) = facility.bp_json("host", "list")["hosts"]
    assert (shown["name"], shown["roles"], shown["removed"]) == ("d1", ["disk"], None)
    assert "  up" in facility.bp("host", "list").out
    assert host.is_available()
    for secret in ("cap.key", "tls/host.key"):
        assert (host.directory / secret).stat().st_mode & 0o777 == 0o600


def test_xrdcp_is_sent_to_the_disk_server_and_back(pair: tuple[Facility, Host], sample: Path, tmp_path: Path) -> None:
    need("xrdcp", "xrdfs")
    facility, host = pair
    before = host.objects()
    run("xrdcp", "--cksum", "adler32:source", sample, facility.url("/far/x"))
    new = [size for number, size in host.objects().items() if number not in before]
    assert new == [sample.stat().st_size]
    run("xrdcp", "--cksum", "adler32:source", facility.url("/far/x"), tmp_path / "back")
    assert is_same(tmp_path / "back", sample)
    assert "Size:" in run("xrdfs", facility.root, "stat", "/far/x").out
    facility.bp("rm", "/far/x")
    facility.wait_until("the object is deleted", lambda: host.objects() == before)


def test_our_client_copies_to_and_from_other_hosts(pair: tuple[Facility, Host], sample: Path, tmp_path: Path) -> None:
    facility, host = pair
    facility.bp("cp", sample, facility.url("/far/ours"))
    facility.bp("cp", facility.url("/far/ours"), tmp_path / "back")
    assert is_same(tmp_path / "back", sample)
    assert sample.stat().st_size in host.objects().values()
    facility.bp("put", "--replace", sample, "/far/ours")


def test_curl_reads_and_writes_where_it_is_sent(pair: tuple[Facility, Host], sample: Path, tmp_path: Path) -> None:
    need("curl")
    facility, host = pair
    url = https(facility, "/far/c")
    curl(facility, "--upload-file", sample, "--header", "Expect: 100-continue", url)
    place = redirect(url, authority(facility))
    assert re.match(rf"https://127\.0\.0\.1:{host.ports[1]}/far/c\?bp\.cap=", place), place
    curl(facility, "--output", tmp_path / "back", url)
    assert is_same(tmp_path / "back", sample)
    part = curl(facility, "--range", "10-19", "--output", tmp_path / "part", url)
    assert (tmp_path / "part").read_bytes() == sample.read_bytes()[10:20], part
    # Who does not wait for our word is served by the head itself, wherever the bytes go.
    curl(facility, "--upload-file", sample, "--header", "Expect:", https(facility, "/far/through"))
    assert facility.bp("cat", "/far/through").out == facility.bp("cat", "/far/c").out
    md5 = hashlib.md5(sample.read_bytes()).hexdigest()
    assert md5 in run("xrdfs", facility.root, "query", "checksum", "/far/through?cks.type=md5").out


def test_times_and_tags_are_the_same_at_every_host(pair: tuple[Facility, Host], sample: Path, tmp_path: Path) -> None:
    need("curl")
    facility, _ = pair
    date, body = "Thu, 02 Jan 2020 03:04:05 GMT", tmp_path / "body"

    def told(url: str, *words: str) -> dict[str, str]:
        """Give the fields of the last answer that tell of the content."""
        said = run("curl", "-s", "-L", "--cacert", authority(facility), "-D", "-", "-o", body, *words, url).out
        fields = (line.split(": ", 1) for line in said.split("HTTP/")[-1].splitlines() if ": " in line)
        return {name.lower(): value for name, value in fields if name.lower() in ("etag", "last-modified")}

    plain, dated = https(facility, "/far/plain"), https(facility, "/far/dated")
    curl(facility, "--upload-file", sample, "--header", "Expect: 100-continue", plain)
    curl(facility, "--upload-file", sample, "--header", "X-OC-Mtime: 1577934245", dated)
    for url in (plain, dated):
        assert "bp.cap=" in redirect(url, authority(facility)), "it lies on the other host"
        at_head = told(url, "-I")
        assert len(at_head) == 2
        assert told(url) == at_head
        # A download goes on where it was, though the disk server never heard of the catalogue.
        condition = f"If-Range: {at_head['etag']}"
        told(url, "-H", "Range: bytes=5-9", "-H", condition)
        assert body.read_bytes() == sample.read_bytes()[5:10]
    assert told(dated)["last-modified"] == date
    assert told(plain)["last-modified"] != date


def test_a_capability_is_for_one_object_and_one_disk_server(pair: tuple[Facility, Host], sample: Path) -> None:
    need("curl")
    facility, _ = pair
    facility.put(sample, "/far/cap")
    place = redirect(https(facility, "/far/cap"), authority(facility))
    base, cap = place.split("?bp.cap=")
    words = cap.split(".")
    forged = ".".join([*words[:2], str(int(words[2]) + 1), *words[3:]])
    for bad in (f"{base}?bp.cap={forged}", f"{base}?bp.cap=x", base):
        # Whoever has none that holds is sent to the head, which wants to know who asks.
        assert redirect(bad, authority(facility)) == https(facility, "/far/cap")
    write = run("curl", "--silent", "--cacert", authority(facility), "--upload-file", sample, place, check=False)
    assert "does not allow this direction" in write.text


def test_rooms_are_told_what_users_are_sent_on_for(pair: tuple[Facility, Host], sample: Path, tmp_path: Path) -> None:
    need("xrdcp")
    facility, host = pair
    facility.put(sample, "/far/moved")
    place = redirect(https(facility, "/far/moved"), authority(facility))
    cap = place.split("?bp.cap=")[1]
    home = host.directory / "disk" / host.partition / "objects"
    hidden = next(file for file in home.glob(f"*/{cap.split('.')[2]}*") if not file.suffix)
    url = f"root://127.0.0.1:{host.ports[0]}//far/moved?bp.cap={cap}"
    run("xrdcp", "-s", url, tmp_path / "back")
    assert is_same(tmp_path / "back", sample)
    facility.bp("rm", "/far/moved")
    facility.wait_until("the object is deleted", lambda: not hidden.exists())
    facility.put_bytes(b"moved here", "/far/moved")
    run("xrdcp", "-s", "-f", url, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"moved here"
    told = run("xrdcp", "-s", f"{url}&bp.direct=1", tmp_path / "none", check=False)
    assert f"is not on {host.partition}" in told.text
    # The same by HTTP.
    assert redirect(place, authority(facility)) == https(facility, "/far/moved")
    assert answer(facility, f"{place}&bp.direct=1") == "404"


def test_a_reader_of_what_is_missing_hears_so_and_is_not_sent_in_circles(
    pair: tuple[Facility, Host], sample: Path, tmp_path: Path
) -> None:
    need("xrdcp")
    facility, host = pair
    facility.put(sample, "/far/gone")
    number = redirect(https(facility, "/far/gone"), authority(facility)).split("?bp.cap=")[1].split(".")[2]
    home = host.directory / "disk" / host.partition / "objects"
    next(file for file in home.glob(f"*/{number}") if not file.suffix).unlink()
    facility.expect_log("a replica is missing")
    failed = run("xrdcp", "-s", f"{facility.root}//far/gone", tmp_path / "back", check=False)
    assert f"object {number} is gone from {host.partition}" in failed.text
    facility.bp("rm", "/far/gone")


def test_what_was_given_is_served_without_the_head(pair: tuple[Facility, Host], sample: Path, tmp_path: Path) -> None:
    need("curl")
    facility, host = pair
    facility.put(sample, "/far/alone")
    place = redirect(https(facility, "/far/alone"), authority(facility))
    facility.kill()
    try:
        run("curl", "--silent", "--fail", "--cacert", authority(facility), "--output", tmp_path / "back", place)
        assert is_same(tmp_path / "back", sample)
        host.kill()
        host.start()
        run("curl", "--silent", "--fail", "--cacert", authority(facility), "--output", tmp_path / "again", place)
        assert is_same(tmp_path / "again", sample)
    finally:
        facility.up()
    facility.wait_until("the disk server comes back", host.is_available)


def answer(facility: Facility, url: str) -> str:
    """Ask for a file and tell with which status it is answered."""
    command = [
        "curl",
        "--silent",
        "--cacert",
        authority(facility),
        "--output",
        os.devnull,
        "--write-out",
        "%{http_code}",
    ]
    return run(*command, url).out


def test_what_was_given_ends_when_a_right_is_lost(pair: tuple[Facility, Host], sample: Path) -> None:
    need("curl")
    facility, host = pair
    facility.put(sample, "/far/fenced")
    url = https(facility, "/far/fenced")
    place = redirect(url, authority(facility))
    # It may be shown again and again.
    assert [answer(facility, place) for _ in range(2)] == ["200", "200"]
    facility.bp("chmod", "600", "/far/fenced")
    facility.wait_until("the right is taken back", lambda: answer(facility, place) == "307")
    assert redirect(place, authority(facility)) == url
    later = redirect(url, authority(facility))
    assert answer(facility, later) == "200"
    facility.kill()
    try:
        # What it knew when it was killed it knows without the head.
        host.kill()
        host.start()
        assert (answer(facility, place), answer(facility, later)) == ("307", "200")
    finally:
        facility.up()
    facility.wait_until("the disk server comes back", host.is_available)
    facility.wait_until("each start of the head begins anew", lambda: answer(facility, later) == "307")


def test_an_update_begins_with_what_is_there(pair: tuple[Facility, Host], sample: Path) -> None:
    need("xrdfs")
    facility, _ = pair
    facility.put(sample, "/far/cut")
    run("xrdfs", facility.root, "truncate", "/far/cut", "1000")
    curl(facility, "--output", sample.with_suffix(".cut"), https(facility, "/far/cut"))
    assert sample.with_suffix(".cut").read_bytes() == sample.read_bytes()[:1000]


def test_a_write_whose_disk_server_dies_leaves_nothing(pair: tuple[Facility, Host], tmp_path: Path) -> None:
    need("curl")
    facility, host = pair
    before = host.objects()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = ["curl", "--silent", "--fail", "--location", "--cacert", str(authority(facility))]
    command += ["--header", "Transfer-Encoding: chunked", "--upload-file", str(fifo), https(facility, "/far/torn")]
    with subprocess.Popen(command) as sender:
        with fifo.open("wb") as pipe:
            pipe.write(bytes(3 << 20))
            pipe.flush()
            host.kill()
        assert sender.wait(DEADLINE) != 0
    host.up()
    facility.wait_until("the name is gone", lambda: not facility.bp("ls", "/far/torn", check=False).out)
    # Of what was there before, some may have been on its way out.
    facility.wait_until("the object is gone", lambda: host.objects().keys() <= before.keys())


def test_a_host_of_another_version_is_told_so(pair: tuple[Facility, Host]) -> None:
    need("curl")
    facility, host = pair
    words = ["curl", "-sS", "--cacert", authority(facility), "--cert", host.directory / "tls" / "host.pem"]
    words += ["--key", host.directory / "tls" / "host.key", "--json", '{"partition":"d1-disk1"}']
    url = https(facility, "/api/v1/next_scan?wait=0s")
    for version in ("99.0.0", ""):
        said = run(*words, "-H", f"X-Backplane-Version: {version}", url).text
        assert "host d1 runs Backplane" in said, said
        assert "install the same version" in said, said
    ours = facility.status()["version"]
    assert run(*words, "-H", f"X-Backplane-Version: {ours}", url).text == '{"order":null}'


def test_a_host_makes_the_calls_of_its_rooms_and_no_others(pair: tuple[Facility, Host], sample: Path) -> None:
    need("curl")
    facility, host = pair
    facility.put(sample, "/far/open")
    facility.bp("chmod", "644", "/far/open")
    identity = ["--cert", host.directory / "tls" / "host.pem", "--key", host.directory / "tls" / "host.key"]
    words = ["curl", "-sS", "--cacert", authority(facility), *identity, "-w", "\n%{http_code}"]
    for what in ("/far/open", "/far/", "/api/v1/status", "/api/v1/jobs", "/console", "/metrics", "/api/v1/nothing"):
        said = run(*words, https(facility, what)).text
        assert said.endswith("403"), said
        assert f"GET {what} is for users, not for host d1" in said, said
    for call in ("open_read", "run_maintenance", "next_removals"):
        # Those of rooms in the head's own process have no path, and none is asked for in another way.
        said = run(*words, https(facility, f"/api/v1/{call}")).text
        assert f"GET /api/v1/{call} is for users" in said, said
    upload = run(*words, "--upload-file", sample, https(facility, "/far/new")).text
    assert "PUT /far/new is for users" in upload, upload
    # Its own calls go on: it is told to register if it does not know itself.
    assert host.is_available()


def public_key(host: Host) -> str:
    """Write the public key of a host as it shows it when it joins."""
    command = ["openssl", "pkey", "-in", host.directory / "tls" / "host.key", "-pubout", "-outform", "DER"]
    der = subprocess.run(command, check=True, capture_output=True).stdout
    return base64.urlsafe_b64encode(der[-65:]).decode().rstrip("=")


def test_a_new_certificate_says_what_the_host_joined_with(pair: tuple[Facility, Host]) -> None:
    need("curl", "openssl")
    facility, host = pair
    identity = host.directory / "tls"
    key = public_key(host)
    words = ["curl", "-sS", "--cacert", authority(facility), "--cert", identity / "host.pem"]
    words += ["--key", identity / "host.key", "-H", f"X-Backplane-Version: {facility.status()['version']}"]

    def renew(**fields: object) -> str:
        call = json.dumps({"key": key, **fields})
        return run(*words, "--json", call, https(facility, "/api/v1/renew_certificate")).out

    def names(pem: str) -> str:
        command = ["openssl", "x509", "-noout", "-ext", "subjectAltName"]
        return subprocess.run(command, input=pem.encode(), check=True, capture_output=True).stdout.decode()

    joined_with = names((identity / "host.pem").read_text())
    # Twice, as if the first answer was lost.
    for _ in range(2):
        new = json.loads(renew(names=["head.example.org"], reached={"names": ["head.example.org"], "addresses": []}))
        assert names(new["certificate"]) == joined_with
    assert "d1" in joined_with
    assert "joined with another key" in renew(key=base64.urlsafe_b64encode(b"\x04" + bytes(64)).decode().rstrip("="))


def test_nobody_joins_uninvited(make_facility: MakeFacility, tmp_path: Path) -> None:
    need("curl", "openssl")
    facility = make_facility()
    facility.up()
    other = make_facility()
    other.up()
    host = Host(facility, tmp_path / "d9", "d9")
    assert "not a join token" in host.join_fails("something")
    token = invite(facility)
    foreign = invite(other)
    host.join(token)
    # Everybody can see the key of a host; only the host has the other half.
    text = token.split(".", 1)[1]
    secret = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["secret"]
    stolen = {
        "secret": secret,
        "name": "d9",
        "roles": ["disk"],
        "key": public_key(host),
        "reached": {"names": ["localhost"], "addresses": ["127.0.0.1"]},
        "version": facility.status()["version"],
    }
    words = ["curl", "-sS", "--cacert", authority(facility)]
    for proof in ("", public_key(host)):
        call = json.dumps({**stolen, "proof": proof})
        said = run(*words, "--json", call, https(facility, "/api/v1/join_facility")).text
        assert "host d9 did not prove that it has the key" in said, said
    again = Host(facility, tmp_path / "d8", "d8")
    assert "was used by host d9" in again.join_fails(token)
    assert "host named d9 has joined already" in Host(facility, tmp_path / "d7", "d9").join_fails(invite(facility))
    host.up()
    facility.bp("host", "remove", "d9")
    assert not host.is_available()
    # It is on this machine, and no user of it.
    words += ["--cert", host.directory / "tls" / "host.pem", "--key", host.directory / "tls" / "host.key"]
    for what in ("/", "/api/v1/jobs", "/api/v1/status", "/console"):
        said = run(*words, "-w", "\n%{http_code}", https(facility, what)).text
        assert said.endswith("401"), said
        assert "belongs to no host of this facility" in said, said
    facility.expect_log("maintenance of a partition failed")
    host.down()
    assert "removed" in facility.bp("host", "list").out
    moved = json.loads(base64.urlsafe_b64decode(foreign.removeprefix("bpjoin1.") + "=="))
    moved["head"] = facility.endpoint("https")
    text = base64.urlsafe_b64encode(json.dumps(moved).encode()).decode().rstrip("=")
    assert "is not the facility" in Host(facility, tmp_path / "d6", "d6").join_fails(f"bpjoin1.{text}")
