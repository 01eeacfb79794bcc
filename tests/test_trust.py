"""Who is taken for whom on one host: users as the kernel names them, and pages of strangers in a browser."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import sys
import urllib.parse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from browser import browser, site
from clients import SYSTEM_PYTHON, fails, need, run
from conftest import SMALL, MakeFacility, clean_up
from facility import ApiError, Facility
from people import Person, people, programs_for

JOB = {
    "name": "evil",
    "command": ["/bin/true"],
    "resources": {"cpus": 1, "memory_bytes": 0, "wall": 60_000},
    "inputs": [],
    "outputs": [],
    "archive": False,
    "environment": {},
}


@pytest.fixture(scope="module")
def users() -> Iterator[list[Person]]:
    with people("bptestann", "bptestbob") as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Run the default facility as root, with a directory where everybody may write."""
    facility = Facility(tmp_path_factory.mktemp("trust") / "facility")
    facility.create(**SMALL)
    facility.up()
    facility.bp("mkdir", "/scratch")
    facility.bp("chmod", "0777", "/scratch")
    facility.put_bytes(b"secret", "/owners")
    facility.bp("chmod", "0600", "/owners")
    yield facility
    clean_up([facility])


def curl(*words: str | Path) -> list[str | Path]:
    return ["curl", "-s", "-o", "-", "-w", "\n%{http_code}", *words]


def status_and_body(text: str) -> tuple[int, str]:
    body, _, status = text.rpartition("\n")
    return int(status), body


def call_as(person: Person, facility: Facility, name: str, arguments: object, *headers: str) -> tuple[int, str]:
    fields = [word for header in ("content-type: application/json", *headers) for word in ("-H", header)]
    words = curl("-X", "POST", *fields, "--data-binary", json.dumps(arguments), f"{facility.http}/api/v1/{name}")
    return status_and_body(person.does(*words).out)


# Local users


def test_a_local_user_is_served_as_himself_by_unchanged_clients(shared: Facility, users: list[Person]) -> None:
    """None of them gets a token or a configuration."""
    need("curl", "xrdcp", "xrdfs", "rclone", "gfal-copy")
    ann, bob = users
    local = ann.home / "f"
    ann.does("sh", "-c", f"echo of ann >{local}")
    root, http = shared.root, shared.http
    ann.does("xrdcp", "-f", local, f"{root}//scratch/by-xrdcp")
    ann.does("curl", "-s", "--fail", "-T", local, f"{http}/scratch/by-curl")
    ann.does("gfal-copy", "-p", f"file://{local}", f"{root}//scratch/by-gfal")
    remote = f":webdav,url='{http}':"
    ann.does("rclone", "copyto", "--no-check-dest", str(local), f"{remote}scratch/by-rclone")
    code = (
        f"from XRootD.client import File; f = File(); s, _ = f.open('{root}//scratch/by-python', 0x8); assert s.ok, s"
    )
    ann.does(SYSTEM_PYTHON, "-c", f"{code}; s, _ = f.write(b'x'); assert s.ok, s; f.close()")
    programs = programs_for(ann.home.parent)
    ann.does(programs / "bp", "--facility", http, "put", local, "/scratch/by-bp")
    made = ("by-xrdcp", "by-curl", "by-gfal", "by-rclone", "by-python", "by-bp")
    assert {name: shared.stat(f"/scratch/{name}")["owner"] for name in made} == dict.fromkeys(made, ann.name)
    for name in made:
        ann.does("xrdfs", root.removeprefix("root://"), "chmod", f"/scratch/{name}", "rw-------")
    assert bob.run("xrdcp", "-f", f"{root}//scratch/by-xrdcp", bob.home / "g").code != 0
    for path in ("/scratch/by-curl", "/owners"):
        assert bob.run("curl", "-s", "--fail", f"{http}{path}").code == 22
        assert bob.run(programs / "bp", "--facility", http, "get", path, bob.home).code != 0
    assert "of ann" in ann.does("curl", "-s", f"{http}/scratch/by-curl").out


@pytest.fixture(scope="module")
def packages(users: list[Person]) -> dict[str, str]:
    """Put the Python packages of this test where every user can read them; yields an interpreter's environment."""
    top = users[0].home.parent / "packages"
    for place in sys.path:
        if Path(place).name == "site-packages":
            shutil.copytree(place, top, copy_function=link_or_copy, dirs_exist_ok=True)
    import backplane

    ours = Path(backplane.__file__).parent
    shutil.copytree(ours, top / "backplane", copy_function=link_or_copy, dirs_exist_ok=True)
    for directory in (top, top / "backplane"):
        directory.chmod(0o755)
    return {"PYTHONPATH": str(top), "PYTHONDONTWRITEBYTECODE": "1"}


def link_or_copy(source: str, target: str) -> None:
    """Link a file, or copy it to another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def test_python_and_uproot_need_nothing(shared: Facility, users: list[Person], packages: dict[str, str]) -> None:
    """A local user's interpreter reads what is theirs by both doors; the other user's does not."""
    ann, bob = users
    make = "import sys, uproot; uproot.recreate(sys.argv[1])['t'] = {'x': [1, 2, 3]}"
    ann.does(SYSTEM_PYTHON, "-c", make, ann.home / "f.root", env=packages)
    ann.does("xrdcp", ann.home / "f.root", f"{shared.root}//scratch/f.root")
    ann.does("xrdfs", shared.root.removeprefix("root://"), "chmod", "/scratch/f.root", "rw-------")
    look = "import sys, uproot; print(uproot.open(sys.argv[1])['t']['x'].array(library='np').sum())"
    ours = "import sys, backplane; print(backplane.connect(sys.argv[1]).open('/scratch/f.root').read(4))"
    for code, where, found in (
        (look, f"{shared.root}//scratch/f.root", "6"),
        (ours, shared.http, "b'root'"),
    ):
        assert ann.does(SYSTEM_PYTHON, "-c", code, where, env=packages).out.strip() == found
        assert bob.run(SYSTEM_PYTHON, "-c", code, where, env=packages).code != 0


def test_nobody_is_who_they_say(shared: Facility, users: list[Person]) -> None:
    """A name counts if it is one's own; the owner and root may name others."""
    ann, bob = users
    host = shared.root.removeprefix("root://")
    for name in ("root", bob.name, shared.owner):
        status, body = call_as(ann, shared, "mkdir", {"path": "/scratch/x"}, f"x-backplane-user: {name}")
        assert status == 401, body
        assert f'cannot act as user \\"{name}\\"' in body, body
    assert call_as(ann, shared, "mkdir", {"path": "/scratch/own"}, f"x-backplane-user: {ann.name}")[0] == 200
    # Clients of the field send eight bytes of whatever they like, and are served as themselves.
    ann.does("xrdfs", f"root@{host}", "mkdir", "/scratch/as-root")
    assert shared.stat("/scratch/as-root")["owner"] == ann.name
    assert ann.run("xrdfs", f"root@{host}", "rm", "/owners").code != 0
    run("xrdfs", f"{ann.name[:8]}@{host}", "mkdir", "/scratch/by-root")
    assert shared.stat("/scratch/by-root")["owner"] == ann.name[:8]


def test_a_local_user_does_not_act_as_the_owner(shared: Facility, users: list[Person]) -> None:
    """Submitting as somebody else, what operators do, and what only rooms of the facility do."""
    ann, _ = users
    status, body = call_as(ann, shared, "submit", {"spec": JOB}, f"x-backplane-user: {shared.owner}")
    assert status == 401, body
    for name, arguments in (
        ("invite", {"name": None, "roles": ["cpu"], "lifetime": 1000}),
        ("set_volume_state", {"vid": "BP0001", "state": "suspect"}),
        ("backup", {}),
        ("register_worker", {"name": "evil", "cpus": 1, "memory_bytes": 0, "runs": []}),
        ("job_token", {"run": {"job": 1, "attempt": 1}}),
    ):
        status, body = call_as(ann, shared, name, arguments)
        assert status in (400, 403), f"{name}: {status} {body}"
        if name != "register_worker":
            assert status == 403, f"{name}: {status} {body}"


def test_the_directory_is_closed_to_other_users(shared: Facility, users: list[Person]) -> None:
    """Not the key, the catalogue, a cartridge, an object, a certificate's key, nor the socket."""
    ann, _ = users
    shared.put_bytes(b"on tape", "/private")
    shared.archive_and_evict("/private")
    for path in [shared.directory, *shared.directory.rglob("*")]:
        # The daemon runs: what it writes anew is renamed between a look at the directory and one at the file.
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            assert stat.S_ISLNK(found.st_mode) or found.st_mode & 0o077 == 0, f"{path}: {found.st_mode:o}"
    for path in (
        "key",
        "catalogue.sqlite",
        "catalogue.sqlite-wal",
        "tape/lib1",
        "disk/disk1",
        "bp.sock",
        "tls/ca.key",
        "audit",
        "lock",
    ):
        assert ann.run("cat", shared.directory / path).code != 0
    locked = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"
    for path in ("lock", "disk/disk1/partition.json"):
        assert ann.run("/usr/bin/python3", "-c", locked, shared.directory / path).code != 0


def test_a_facility_that_others_can_look_into_does_not_start(make_facility: MakeFacility) -> None:
    """It says which command closes it."""
    facility = make_facility()
    facility.directory.chmod(0o755)
    refused = fails(facility.bin / "bpd", "run", facility.directory, "--root-port=0", "--http-port=0")
    assert f"other users of this host can reach {facility.directory}: its mode is 0755" in refused.err
    command = refused.err.split("`")[1]
    assert command.startswith("chmod go= ")
    run("sh", "-c", command)
    facility.up()


def test_what_is_made_under_an_open_umask_is_private(tmp_path: Path) -> None:
    facility = Facility(tmp_path / "open" / "facility")
    words = [
        facility.bin / "bp",
        "create",
        facility.directory,
        *[f"--{k.replace('_', '-')}={v}" for k, v in SMALL.items()],
    ]
    run("sh", "-c", 'umask 000; exec "$@"', "sh", *words)
    wide = [path for path in [facility.directory, *facility.directory.rglob("*")] if path.lstat().st_mode & 0o077]
    assert [path for path in wide if not path.is_symlink()] == []


def test_the_socket_needs_no_token_and_the_ports_do(make_facility: MakeFacility) -> None:
    """Where tokens are demanded the key is no token, and the owner goes in by the directory."""
    facility = make_facility()
    facility.configure("require_token", "true")
    facility.up()
    at_ports = facility.call
    facility.call = partial(facility.call, at_socket=True)  # type: ignore[method-assign]
    assert facility.call("stat", path="/")["kind"] == "directory"
    with pytest.raises(ApiError, match="401"):
        at_ports("stat", path="/")
    key = (facility.directory / "key").read_bytes()
    for secret in (key.hex(), key[:32].hex()):
        words = curl("-X", "POST", "-H", f"authorization: Bearer {secret}", "-H", "content-type: application/json")
        assert status_and_body(run(*words, "-d", '{"path":"/"}', f"{facility.http}/api/v1/stat").out)[0] == 401


# Pages of other sites

ATTACKS = """
const tell = async (name, promise) => {
    try { const answer = await promise; return [name, answer.status, (await answer.text()).slice(0, 200)]; }
    catch (error) { return [name, 0, String(error)]; }
};
const [base, job] = given;
const json = {"content-type": "application/json"};
const found = [];
found.push(await tell("status", fetch(base + "/api/v1/status")));
found.push(await tell("submit", fetch(base + "/api/v1/submit", {method: "POST", headers: json, body: job})));
found.push(await tell("plain", fetch(base + "/api/v1/submit",
    {method: "POST", mode: "no-cors", headers: {"content-type": "text/plain"}, body: job})));
found.push(await tell("put", fetch(base + "/scratch/evil", {method: "PUT", body: "evil"})));
found.push(await tell("delete", fetch(base + "/page", {method: "DELETE"})));
found.push(await tell("get", fetch(base + "/near")));
found.push(await tell("blind", fetch(base + "/near", {mode: "no-cors"})));
found.push(await new Promise(done => {
    const image = new Image();
    image.onload = () => done(["image", 200, ""]);
    image.onerror = () => done(["image", 0, ""]);
    image.src = base + "/near?image";
}));
found.push(await new Promise(done => {
    const events = new EventSource(base + "/console/events");
    events.onmessage = event => { events.close(); done(["events", 200, event.data.slice(0, 200)]); };
    events.onerror = () => { events.close(); done(["events", 0, ""]); };
}));
return found;
"""


def untouched(facility: Facility) -> None:
    """Nothing was done: no job, no recall, no file."""
    assert facility.bp_json("jobs")["jobs"] == []
    assert facility.state("/near") == "nearline"
    assert facility.call("status")["requests"] == [] or all(
        request["state"] in ("done", "failed") for request in facility.call("status")["requests"]
    )
    facility.bp_fails("stat", "/scratch/evil")
    facility.bp("stat", "/page")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    facility = Facility(tmp_path_factory.mktemp("watched") / "facility")
    facility.create(**SMALL)
    facility.up()
    facility.bp("mkdir", "/scratch")
    facility.put_bytes(b"page", "/page")
    facility.put_bytes(b"far", "/near")
    facility.archive_and_evict("/near")
    yield facility
    clean_up([facility])


def port_of(facility: Facility) -> int:
    port = urllib.parse.urlsplit(facility.http).port
    assert port is not None
    return port


def test_a_page_of_another_site_can_neither_read_nor_change_anything(watched: Facility, tmp_path: Path) -> None:
    """A browser of the owner opens a stranger's page, which tries what pages can try."""
    with site("<html>stranger</html>") as port, browser(tmp_path, "MAP evil.example 127.0.0.1") as window:
        for base in (watched.http, watched.http.replace("127.0.0.1", "localhost")):
            window.go(f"http://evil.example:{port}/")
            assert "stranger" in window.text()
            found = window.script(ATTACKS, base, json.dumps({"spec": JOB}))
            assert {name: status for name, status, _ in found} == dict.fromkeys(
                ("status", "submit", "plain", "put", "delete", "get", "blind", "image", "events"), 0
            ), found
    untouched(watched)


def test_a_name_that_was_bound_anew_is_refused(watched: Facility, tmp_path: Path) -> None:
    """DNS rebinding: to the browser the door is the stranger's own site."""
    with browser(tmp_path, "MAP evil.example 127.0.0.1") as window:
        base = f"http://evil.example:{port_of(watched)}"
        window.go(f"{base}/console")
        assert "this door is not called" in window.text()
        found = window.script(ATTACKS, base, json.dumps({"spec": JOB}))
        statuses = {name: status for name, status, _ in found}
        assert statuses == {
            "status": 421,
            "submit": 421,
            "plain": 421,
            "put": 421,
            "delete": 421,
            "get": 421,
            "blind": 421,
            "image": 0,
            "events": 0,
        }, found
        assert not any("jobs" in text for _, _, text in found)
    untouched(watched)


def test_the_console_works_in_the_owners_browser(watched: Facility, tmp_path: Path) -> None:
    with browser(tmp_path) as window:
        window.go(f"{watched.http}/console")
        assert "backplane" in window.text()
        events = """
            return await new Promise(done => {
                const events = new EventSource("/console/events");
                events.onmessage = event => { events.close(); done(event.data); };
                events.onerror = () => done("");
            });
        """
        assert "BP0001" in window.script(events)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /api/v1/status HTTP/1.1\r\nHost: evil.example:{port}", 421),
        ("GET /api/v1/status HTTP/1.1\r\nHost: localhost:{port}\r\nHost: localhost:{port}", 400),
        ("GET /api/v1/status HTTP/1.1\r\nX: y", 400),
        ("GET /api/v1/status HTTP/1.0", 421),
        ("GET http://evil.example/api/v1/status HTTP/1.1\r\nHost: localhost:{port}", 421),
        ("GET http://localhost:{port}/api/v1/status HTTP/1.1\r\nHost: evil.example", 421),
        ("GET http://localhost:{port}/api/v1/status HTTP/1.1\r\nHost: localhost:{port}", 200),
        ("GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example", 403),
        ("GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: null", 403),
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nSec-Fetch-Site: cross-site", 403),
        ("GET /console HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nSec-Fetch-Site: same-site", 403),
        ("GET /page HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nReferer: http://evil.example/", 403),
        ("OPTIONS /page HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example", 403),
        ("PROPFIND / HTTP/1.1\r\nHost: evil.example\r\nDepth: 0", 421),
        ("GET /page HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}", 200),
        ("GET /page HTTP/1.1\r\nHost: LocalHost\r\nSec-Fetch-Site: none", 200),
    ],
)
def test_requests_are_meant_for_this_door(watched: Facility, head: str, status: int) -> None:
    where = urllib.parse.urlsplit(watched.http)
    with socket.create_connection((where.hostname, where.port), timeout=60) as peer:
        peer.sendall((head.format(port=where.port) + "\r\nConnection: close\r\n\r\n").encode())
        answer = b"".join(iter(lambda: peer.recv(65536), b""))
    assert answer.split(b" ", 2)[1] == str(status).encode(), answer[:300]


def test_a_name_in_the_configuration_is_the_doors(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.configure("names", '["files.example.org"]')
    facility.up()
    for name, status in (("files.example.org", 200), ("FILES.example.org:8094", 200), ("example.org", 421)):
        words = curl("-H", f"host: {name}", f"{facility.http}/api/v1/status")
        assert status_and_body(run(*words).out)[0] == status
