"""The WLCG Tape REST API: Debian's gfal2 with its commands and from Python, and requests as the document has them."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients import SYSTEM_PYTHON, Outcome, need, run
from conftest import MakeFacility
from facility import Facility

Json = dict[str, Any]
V1 = "/api/tape/v1"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def tape(make_facility: MakeFacility) -> Facility:
    """Start a facility with files on tape, on disk, and on both."""
    facility = make_facility()
    facility.up()
    for name in ("tape", "other", "both"):
        facility.put_bytes(name.encode(), f"/{name}")
    facility.bp("archive", "--wait", "/tape", "/other", "/both")
    facility.bp("evict", "/tape", "/other")
    facility.put_bytes(b"disk", "/disk")
    return facility


def ask(
    facility: Facility, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Make a request; its status, and what it says if that is JSON."""
    connection = facility.connect()
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, target, text, {**(JSON if text else {}), **(headers or {})})
        answer = connection.getresponse()
        said = answer.read()
        return answer.status, json.loads(said) if said else None
    finally:
        connection.close()


def stage(facility: Facility, *paths: str, **more: str) -> str:
    """Stage files; the number of the request."""
    status, created = ask(facility, "POST", f"{V1}/stage", {"files": [{"path": path, **more} for path in paths]})
    assert status == 201, created
    return str(created["requestId"])


def look(facility: Facility, number: str) -> Json:
    """Look at a request."""
    status, found = ask(facility, "GET", f"{V1}/stage/{number}")
    assert status == 200, found
    assert isinstance(found, dict)
    return found


def states(facility: Facility, number: str) -> dict[str, str]:
    """Tell how far the files of a request are."""
    return {file["path"]: file["state"] for file in look(facility, number)["files"]}


def wait(facility: Facility, number: str) -> Json:
    """Wait until a request is over."""
    facility.call("get_stage_request", wait=30, id=int(number))
    found = look(facility, number)
    assert "completedAt" in found, found
    return found


def localities(facility: Facility, *paths: str) -> dict[str, str]:
    """Ask where files are; what cannot be said is the error."""
    status, found = ask(facility, "POST", f"{V1}/archiveinfo", {"paths": list(paths)})
    assert status == 200, found
    return {file["path"]: file.get("locality", "error") for file in found}


# gfal2


def dav(facility: Facility, path: str, tls: bool = False) -> str:
    """Write a URL as gfal2 wants it."""
    origin = facility.endpoint("https" if tls else "http")
    return origin.replace("http", "dav", 1) + path


def gfal(facility: Facility, verb: str, *words: str) -> str:
    """Run a command of gfal2; what it says tells how it went, its exit code does not."""
    need(f"gfal-{verb}")
    trust = str(facility.directory / "tls" / "trust")
    outcome = run(f"gfal-{verb}", *words, env={"GFAL_PYTHONBIN": SYSTEM_PYTHON, "X509_CERT_DIR": trust}, check=False)
    return outcome.text


@pytest.mark.parametrize("tls", [False, True])
def test_gfal_commands(tape: Facility, tls: bool) -> None:
    url, disk, missing = (dav(tape, path, tls) for path in ("/tape", "/disk", "/missing"))
    assert f"{disk} QUEUED" in gfal(tape, "archivepoll", disk)
    assert f"{url} READY" in gfal(tape, "archivepoll", url)
    assert "FAILED: [Tape REST API] /missing does not exist" in gfal(tape, "archivepoll", missing)
    assert gfal(tape, "xattr", url, "user.status").strip() == "NEARLINE"
    assert gfal(tape, "xattr", disk, "user.status").strip() == "ONLINE"
    staged = gfal(tape, "bringonline", "--polling-timeout", "60", url)
    assert f"{url} READY" in staged, staged
    assert tape.state("/tape") == "both"
    assert gfal(tape, "xattr", url, "user.status").strip() == "ONLINE_AND_NEARLINE"
    assert "FAILED" in gfal(tape, "bringonline", "--polling-timeout", "5", missing)
    # The pin of the request holds until it is released, by whoever has forgotten its number, too.
    assert "pinned by stage request 1" in tape.bp_fails("evict", "/tape").err
    assert gfal(tape, "evict", url).strip() == ""
    tape.bp("evict", "/tape")
    assert tape.state("/tape") == "nearline"


BINDINGS = """
import json
import sys
import time

import gfal2

url, other, missing = sys.argv[1:]
context = gfal2.creat_context()
told = {}
errors, token = context.bring_online([url, missing], 3600, 3600, True)
told["staged"], told["token"] = [str(error) for error in errors], token
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    errors = context.bring_online_poll([url, missing], token)
    if errors[0] is None:
        break
    # gfal2 has no other way to wait.
    time.sleep(0.2)
told["polled"] = [error and str(error) for error in errors]
told["released"] = [error and str(error) for error in context.release([url], token)]
errors, token = context.bring_online([other], 3600, 3600, True)
told["aborted"] = [error and str(error) for error in context.abort_bring_online([other], token)]
told["second"] = token
told["archived"] = [error and str(error) for error in context.archive_poll([url, missing])]
print(json.dumps(told))
"""


def test_gfal_from_python(tape: Facility) -> None:
    """Poll, release and abort as FTS does."""
    _bindings()
    # What is aborted must not be staged in between.
    held = tape.stat("/other")["copies"][0]["vid"]
    urls = [dav(tape, path) for path in ("/tape", "/other", "/missing")]
    process = subprocess.Popen(
        [SYSTEM_PYTHON, "-c", BINDINGS, *urls], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert told["polled"][0] is None, told
    assert "/missing does not exist" in told["polled"][1], told
    assert told["released"] == [None], told
    assert told["aborted"] == [None], told
    assert tape.stat("/tape")["pins"] == []
    assert states(tape, told["second"])["/other"] in {"CANCELLED", "COMPLETED"}, held
    assert tape.stat("/other")["pins"] == []
    assert told["archived"][0] is None, told
    assert "does not exist" in told["archived"][1], told


def _bindings() -> None:
    found = run(SYSTEM_PYTHON, "-c", "import gfal2", check=False)
    if found.code != 0:
        pytest.skip("python3-gfal2 is not installed")


# The document


def test_discovery(tape: Facility) -> None:
    status, found = ask(tape, "GET", "/.well-known/wlcg-tape-rest-api")
    assert status == 200
    (endpoint,) = found["endpoints"]
    assert endpoint["version"] == "v1"
    assert endpoint["uri"] == f"{tape.http}{V1}"
    assert found["sitename"] == tape.status()["name"]


def test_a_request_is_followed_to_its_end(tape: Facility) -> None:
    files = [
        {"path": "/tape", "diskLifetime": "PT1H", "targetedMetadata": {tape.status()["name"]: {"activity": "x"}}},
        {"path": "//disk/", "more": 1},
        {"path": "/missing"},
        {"path": "/other", "diskLifetime": "a while"},
    ]
    connection = tape.connect()
    connection.request("POST", f"{V1}/stage/", json.dumps({"files": files}), JSON)
    answer = connection.getresponse()
    number = json.loads(answer.read())["requestId"]
    assert answer.status == 201
    assert answer.getheader("location") == f"{tape.http}{V1}/stage/{number}"
    connection.close()
    found = wait(tape, number)
    assert {file["path"]: file["state"] for file in found["files"]} == {
        "/tape": "COMPLETED", "//disk/": "COMPLETED", "/missing": "FAILED", "/other": "FAILED",
    }  # fmt: skip
    assert found["createdAt"] <= found["startedAt"] <= found["completedAt"]
    errors = {file["path"]: file["error"] for file in found["files"] if "error" in file}
    assert errors == {
        "/missing": "/missing does not exist",
        "/other": 'diskLifetime "a while" is no ISO 8601 duration',
    }
    kept = tape.call("get_stage_request", id=int(number))["files"][0]
    assert (kept["metadata"], kept["lifetime"]) == ('{"activity":"x"}', 3_600_000)
    assert tape.stat("/tape")["pins"] == [f"stage request {number}"]
    assert ask(tape, "POST", f"{V1}/release/{number}/", {"paths": ["/tape", "/disk"]}) == (200, None)
    assert tape.stat("/tape")["pins"] == []
    assert ask(tape, "DELETE", f"{V1}/stage/{number}/") == (200, None)
    assert ask(tape, "GET", f"{V1}/stage/{number}")[0] == 404


def test_cancelled_files_end_and_foreign_ones_change_nothing(tape: Facility) -> None:
    hold(tape, "/tape")
    first, second = stage(tape, "/tape", "/other"), stage(tape, "/tape")
    status, problem = ask(tape, "POST", f"{V1}/stage/{first}/cancel", {"paths": ["/tape", "/disk"]})
    assert (status, problem["status"], problem["title"]) == (400, 400, "Bad Request")
    assert "/disk does not belong to stage request" in problem["detail"]
    assert states(tape, first)["/tape"] == "SUBMITTED"
    assert ask(tape, "POST", f"{V1}/stage/{first}/cancel/", {"paths": ["/tape"]}) == (200, None)
    assert states(tape, first)["/tape"] == "CANCELLED"
    assert states(tape, second) == {"/tape": "SUBMITTED"}, "the recall of the other request goes on"
    assert ask(tape, "DELETE", f"{V1}/stage/{second}") == (200, None)
    assert [row["path"] for row in tape.status()["requests"]] == ["/other"]
    assert ask(tape, "DELETE", f"{V1}/stage/{first}") == (200, None)
    assert tape.status()["requests"] == []


def hold(facility: Facility, path: str) -> str:
    """Keep the volume of a file from being read."""
    vid = str(facility.stat(path)["copies"][0]["vid"])
    facility.bp("volume", "set", "disabled", vid, "--reason", "held")
    return vid


def test_a_request_survives_kill_9(tape: Facility) -> None:
    vid = hold(tape, "/tape")
    number = stage(tape, "/tape", "/disk", "/missing")
    before = look(tape, number)
    assert states(tape, number)["/tape"] == "SUBMITTED"
    tape.kill()
    tape.up()
    assert look(tape, number) == before
    tape.bp("volume", "set", "appendable", vid)
    assert {file["state"] for file in wait(tape, number)["files"]} == {"COMPLETED", "FAILED"}
    tape.kill()
    tape.up()
    assert tape.stat("/tape")["pins"] == [f"stage request {number}"]
    assert "pinned" in tape.bp_fails("evict", "/tape").err


def test_localities_are_true(tape: Facility) -> None:
    assert localities(tape, "/tape", "/both", "/disk", "/missing", "relative") == {
        "/tape": "TAPE", "/both": "DISK_AND_TAPE", "/disk": "DISK", "/missing": "error", "relative": "error",
    }  # fmt: skip
    vid = hold(tape, "/tape")
    assert localities(tape, "/tape") == {"/tape": "UNAVAILABLE"}
    tape.bp("volume", "set", "broken", vid)
    assert localities(tape, "/tape", "/both") == {"/tape": "LOST", "/both": "DISK"}


def test_bodies_that_make_no_sense_are_refused_with_problem_details(tape: Facility) -> None:
    bodies: list[tuple[Any, dict[str, str]]] = [
        ({}, JSON), ({"files": []}, JSON), ({"files": "x"}, JSON), ([], JSON), ({"files": [{}]}, JSON),
        ({"files": [{"path": "/tape"}]}, {"Content-Type": "text/plain"}),
        ({"files": [{"path": "/tape"}] * 10_001}, JSON),
    ]  # fmt: skip
    for body, headers in bodies:
        status, problem = ask(tape, "POST", f"{V1}/stage", body, headers)
        assert (status, problem["status"]) == (400, 400), problem
        assert problem["title"]
        assert problem["detail"]
    assert ask(tape, "GET", f"{V1}/stage/nothing")[0] == 404
    assert ask(tape, "POST", f"{V1}/stage/nothing/cancel", {"paths": []})[0] == 404
    assert tape.status()["requests"] == []


def test_a_change_is_told_as_an_event(tape: Facility) -> None:
    vid = hold(tape, "/tape")
    number = stage(tape, "/tape")
    connection = tape.connect()
    connection.request("GET", f"{V1}/stage/{number}/events")
    events = _events(connection.getresponse())
    kind, first = next(events)
    assert (kind, first["files"][0]["state"]) == ("progress", "SUBMITTED")
    tape.bp("volume", "set", "appendable", vid)
    told = list(events)
    assert (told[-1][0], told[-1][1]["files"][0]["state"]) == ("completed", "COMPLETED")
    connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Json]]:
    """Read server-sent events until the stream ends."""
    kind = ""
    for line in answer:
        name, _, value = line.decode().strip().partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


# Rights


def curl(facility: Facility, method: str, target: str, body: Any, token: str) -> tuple[int, str]:
    """Make a request at the HTTPS door with a token."""
    need("curl")
    words = ["-sS", "-w", "\n%{http_code}", "--cacert", str(facility.directory / "tls" / "ca.pem"), "-X", method]
    if body is not None:
        words += ["-H", "Content-Type: application/json", "--data-binary", json.dumps(body)]
    if token:
        words += ["-H", f"Authorization: Bearer {token}"]
    outcome: Outcome = run("curl", *words, facility.endpoint("https") + target)
    text, _, code = outcome.out.rpartition("\n")
    return int(code), text


def test_scopes_of_a_token(tape: Facility) -> None:
    tape.bp("mkdir", "/in")
    tape.put_bytes(b"in", "/in/file")
    tape.archive_and_evict("/in/file")

    def token(user: str, *scopes: str) -> str:
        words = [f"--scope={scope}" for scope in scopes]
        return tape.bp("token", "create", f"--user={user}", *words).out.strip()

    stager, poller = token("ann", "storage.stage:/in"), token("ann", "storage.poll:/in")
    stranger = token("bob", "storage.stage:/in")
    files = {"files": [{"path": "/in/file"}, {"path": "/tape"}]}
    code, text = curl(tape, "POST", f"{V1}/stage", files, stager)
    assert code == 201, text
    number = json.loads(text)["requestId"]
    code, text = curl(tape, "POST", f"{V1}/stage", files, poller)
    refused = json.loads(text)["requestId"]
    assert set(states(tape, refused).values()) == {"FAILED"}
    # A file that the token does not cover fails alone, and hides nothing else.
    found = wait(tape, number)
    assert {file["path"]: file["state"] for file in found["files"]} == {"/in/file": "COMPLETED", "/tape": "FAILED"}
    assert "does not allow to stage" in found["files"][1]["error"]
    assert curl(tape, "GET", f"{V1}/stage/{number}", None, stranger)[0] == 403
    assert curl(tape, "DELETE", f"{V1}/stage/{number}", None, stranger)[0] == 403
    one = {"paths": ["/in/file"]}
    assert curl(tape, "POST", f"{V1}/release/{number}", one, poller)[0] == 403
    assert curl(tape, "POST", f"{V1}/archiveinfo", one, poller) == (
        200, '[{"path":"/in/file","locality":"DISK_AND_TAPE"}]',
    )  # fmt: skip
    code, text = curl(tape, "POST", f"{V1}/archiveinfo", {"paths": ["/tape"]}, poller)
    assert (code, "does not allow" in text) == (200, True), text
    assert curl(tape, "POST", f"{V1}/release/{number}", one, stager)[0] == 200
    # Everybody may find the API, and nothing more.
    tape.down()
    tape.configure("require_token", "true")
    tape.up()
    assert curl(tape, "GET", "/.well-known/wlcg-tape-rest-api", None, "")[0] == 200
    code, text = curl(tape, "POST", f"{V1}/archiveinfo", one, "")
    assert (code, json.loads(text)["status"]) == (401, 401)


# Operators


def test_a_drive_that_is_down_gives_its_volume_back(make_facility: MakeFacility) -> None:
    facility = make_facility(drives=1)
    facility.up()
    facility.put_bytes(b"x", "/f")
    facility.bp("archive", "--wait", "/f")
    (drive,) = facility.status()["drives"]
    facility.wait_until("the session has ended", lambda: facility.status()["drives"][0]["phase"] == "idle")
    assert facility.status()["drives"][0]["vid"]
    facility.bp("drive", "down", drive["name"], "--reason", "cleaning")
    facility.wait_until("the volume is put away", lambda: not facility.status()["drives"][0]["vid"])
    assert "cleaning" in facility.bp("drive", "list").out
    facility.bp("evict", "/f")
    assert "cleaning" in facility.bp("stage", "--explain", "/f").out
    assert facility.status()["requests"] == []
    facility.kill()
    facility.up()
    facility.bp("stage", "/f")
    assert "cleaning" in facility.bp("why", "/f").out
    facility.bp("drive", "up", drive["name"])
    facility.bp("wait", "/f")


def test_a_volume_that_is_in_no_library_is_loaded_by_hand(tape: Facility) -> None:
    """It is put where the library finds it, or those who wait are told why it is not."""
    vid = tape.stat("/tape")["copies"][0]["vid"]
    tape.wait_until("idle drives", lambda: all(drive["phase"] == "idle" for drive in tape.status()["drives"]))
    tape.down()
    cartridge = tape.cartridge(vid)
    shelf = tape.directory.parent / cartridge.name
    cartridge.rename(shelf)
    tape.up()
    number = stage(tape, "/tape")
    tape.wait_until("the operator is asked", lambda: "operator_requests" in tape.status())
    (asked,) = tape.bp_json("operator", "list")
    assert (asked["vid"], asked["answer"], asked["reason"]) == (vid, "open", "1 file waits for it")
    assert "operator" in tape.bp("why", "/tape").out
    assert localities(tape, "/tape") == {"/tape": "UNAVAILABLE"}
    assert f"bp operator done {asked['id']}" in tape.bp("doctor", check=False).text
    tape.kill()
    tape.up()
    shelf.rename(_free_slot(tape) / shelf.name)
    tape.bp("operator", "done", str(asked["id"]))
    assert wait(tape, number)["files"][0]["state"] == "COMPLETED"
    assert tape.bp_json("operator", "list") == []
    # And once more: this time it cannot be had.
    tape.down()
    tape.cartridge(vid).rename(shelf)
    tape.up()
    number = stage(tape, "/other")
    tape.wait_until("the operator is asked", lambda: bool(tape.bp_json("operator", "list")))
    (again,) = tape.bp_json("operator", "list")
    tape.bp("operator", "cancel", str(again["id"]), "--message", "eaten by mice")
    (file,) = wait(tape, number)["files"]
    assert (file["state"], "eaten by mice" in file["error"]) == ("FAILED", True), file
    assert "eaten by mice" in tape.bp_fails("wait", "/other").err


def _free_slot(facility: Facility) -> Path:
    """Find a slot of the library without a cartridge."""
    slots = (facility.directory / "tape").glob("*/slot/*")
    return next(slot for slot in sorted(slots) if not list(slot.glob("*.aws")))


def test_a_write_protected_cartridge_is_read_only(tape: Facility) -> None:
    vid = tape.stat("/tape")["copies"][0]["vid"]
    tape.wait_until("idle drives", lambda: all(drive["phase"] == "idle" for drive in tape.status()["drives"]))
    tape.down()
    tape.cartridge(vid).chmod(0o444)
    tape.up()
    tape.expect_log("tape session ended early|tape request failed")
    tape.put_bytes(b"new", "/new")
    tape.bp("archive", "--wait", "/new")
    assert tape.stat("/new")["copies"][0]["vid"] != vid
    assert (tape.volume(vid)["state"], "write-protected" in tape.volume(vid)["reason"]) == ("read_only", True)
    tape.bp("stage", "--wait", "/tape")
    assert tape.read("/tape") == b"tape"
