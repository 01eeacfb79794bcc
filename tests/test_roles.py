"""Jobs and tapes on hosts that joined, in a facility whose head has neither: real daemons, over TLS, with tokens."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import urllib.parse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from clients import DEADLINE, is_same, need, run, write_file
from conftest import SMALL, clean_up
from facility import Facility, Json, configure, free_ports
from host import Host, invite
from test_batch import SHELL, Gate, wait_begun


class Site:
    """A head with a small disk, and three hosts: a disk server, a worker and a tape server."""

    def __init__(self, directory: Path) -> None:
        self.facility = Facility(directory / "facility")
        self.facility.create(**{**SMALL, "disk_size": "1MiB"})
        self.facility.configure("roles", '["head", "disk"]')
        self.facility.configure("require_token", "true")
        self.facility.keep_ports(https=True)
        self.facility.up()
        self.facility.call = partial(self.facility.call, at_socket=True)  # type: ignore[method-assign]
        # Files stay where they are, also while hosts are killed.
        self.facility.bp("pool", "set", "main", "--server-moves=0")
        tapes = {"volumes": 2, "slots": 4, "drives": 1, "volume_size": "64MiB"}
        self.disk = Host(self.facility, directory / "d1", "d1")
        self.cpu = Host(self.facility, directory / "c1", "c1", ("cpu",), cpus=2)
        self.tape = Host(self.facility, directory / "t1", "t1", ("tape",), **tapes)
        ports = free_ports(2 * len(self.hosts))
        for number, host in enumerate(self.hosts):
            host.ports = ports[2 * number :][:2]
            host.join()
            # No host knows the users of tokens.
            key, value = ("slot_uids", '"60000-60009"') if os.getuid() == 0 else ("run_others_as_me", "true")
            configure(host.directory, key, value)
            host.up()

    @property
    def hosts(self) -> list[Host]:
        """All but the head's."""
        return [self.disk, self.cpu, self.tape]

    def token(self, user: str, *groups: str) -> str:
        """Make a token of a user."""
        words = [f"--group={group}" for group in groups]
        return run(self.facility.bin / "bpd", "token", self.facility.directory, f"--user={user}", *words).out.strip()

    def env(self, token: str) -> dict[str, str]:
        """Environment for clients that trust the facility and show a token."""
        trust = self.facility.directory / "tls" / "trust"
        return {"X509_CERT_DIR": str(trust), "BEARER_TOKEN": token, "XRD_LOGLEVEL": "Error"}

    def post(self, token: str, name: str, **arguments: object) -> tuple[int, Json]:
        """Make a call by a token."""
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.facility.http).netloc, timeout=DEADLINE)
        headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
        connection.request("POST", f"/api/v1/{name}", json.dumps(arguments), headers)
        answer = connection.getresponse()
        body: Json = json.loads(answer.read())
        connection.close()
        return answer.status, body

    def call_as(self, host: Host, name: str, **arguments: object) -> str:
        """Make a call with the certificate of a host: what is said."""
        identity = host.directory / "tls"
        words = ["--cacert", identity / "ca.pem", "--cert", identity / "host.pem", "--key", identity / "host.key"]
        version = f"x-backplane-version: {self.facility.status()['version']}"
        return run("curl", "--silent", *words, "--header", "content-type: application/json", "--header", version,
                   "--data", json.dumps(arguments), f"{self.facility.endpoint('https')}/api/v1/{name}").out  # fmt: skip

    def down(self) -> None:
        """Stop everything, the head last."""
        jobs = [job["id"] for job in self.facility.call("jobs", active_only=True)["jobs"]]
        for job in jobs:
            self.facility.call("cancel_job", job=job)
        self.facility.call("await_jobs", wait=DEADLINE, ids=jobs)
        for host in self.hosts:
            host.down()
        clean_up([self.facility])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a head and three hosts."""
    made = Site(tmp_path_factory.mktemp("roles"))
    yield made
    made.down()


@pytest.fixture
def gate(shared: Path) -> Iterator[Gate]:
    """Make a gate."""
    made = Gate(shared / "gate")
    yield made
    made.close()


def request_of(facility: Facility, path: str) -> Json:
    """Show the queue row of a file."""
    (row,) = (row for row in facility.status()["requests"] if row["path"] == path)
    assert isinstance(row, dict)
    return row


# What is shown, and who may call what


def test_it_is_shown_on_which_host_rooms_are(site: Site) -> None:
    status = site.facility.status()
    workers = [(row["name"], row["host"], row["cpus"], row["is_available"]) for row in status["workers"]]
    assert workers == [("c1-worker1", "c1", 2, True)]
    drives = [(row["name"], row["library"], row["host"]) for row in status["drives"]]
    assert drives == [("t1-lib1.drive0", "t1-lib1", "t1")]
    assert {row["library"] for row in status["volumes"]} == {"t1-lib1"}
    assert len({row["vid"][:2] for row in status["volumes"]} - {"BP"}) == 1, "labels differ from the head's"
    roles = {row["name"]: row["roles"] for row in site.facility.bp_json("host", "list")["hosts"]}
    assert roles == {"c1": ["cpu"], "d1": ["disk"], "t1": ["tape"]}
    text = site.facility.bp("status").out
    assert "c1-worker1" in text
    assert "t1-lib1.drive0" in text


def test_a_host_calls_what_its_roles_allow(site: Site) -> None:
    need("curl")
    worker = {"cpus": 1, "memory_bytes": 1, "not_enforced": [], "runs": []}
    library = {"drives": [{"drive": "x", "loaded": None}], "cartridges": []}
    refused = "is for the rooms of the facility"
    for host in (site.disk, site.tape):
        assert refused in site.call_as(host, "register_worker", worker="x", **worker), host.name
    for host in (site.disk, site.cpu):
        assert refused in site.call_as(host, "register_library", library="x", **library), host.name
    for host in (site.cpu, site.tape):
        assert refused in site.call_as(host, "next_removals", partition="d1-disk1"), host.name
    # To those that have the role it is something else.
    assert "job 99 does not exist" in site.call_as(site.cpu, "job_token", run={"job": 99, "attempt": 1})
    assert "not registered" in site.call_as(site.tape, "next_tape_session", drive="x", loaded=None)
    # No host asks as a person does.
    spec = {"name": "x", "command": ["/bin/true"]}
    assert "is for users" in site.call_as(site.cpu, "submit", spec=spec)


def test_an_invitation_is_for_its_roles(site: Site, tmp_path: Path) -> None:
    token = invite(site.facility, roles=("cpu",))
    greedy = Host(site.facility, tmp_path / "x1", "x1", ("cpu", "tape"))
    assert "not for the role tape" in greedy.join_fails(token)


def test_a_host_may_have_all_roles_beside_a_head_that_has_them(
    facility: Facility, sample: Path, tmp_path: Path
) -> None:
    host = Host(facility, tmp_path / "w1", "w1", ("disk", "tape", "cpu"), cpus=8, volumes=1, drives=1)
    host.ports = [0, 0]
    host.join()
    host.up()
    try:
        status = facility.status()
        here = str(facility.status()["pools"][0]["partitions"][0]["server"])
        assert {(row["name"], row["host"]) for row in status["workers"]} == {("w1-worker1", "w1"), ("worker1", here)}
        assert {row["host"] for row in status["drives"]} == {"w1", here}
        facility.put(sample, "/in")
        job = facility.submit("--cpus", "4", "--input", "/in", "--output", "o:/o", "--", *SHELL, "wc -c < in > o")
        info = facility.wait_job(job)
        assert (info["state"], info["worker"]) == ("done", "w1-worker1")
        facility.archive_and_evict("/o")
        assert facility.bp("cat", "/o").out.strip() == str(sample.stat().st_size)
    finally:
        host.down()
    shown = facility.bp("host", "list").out
    assert "disk tape cpu" in shown


# Jobs


def test_a_job_reads_and_writes_as_its_owner_with_their_groups(site: Site, sample: Path) -> None:
    need("xrdcp")
    facility = site.facility
    facility.put(sample, "/prod/in")
    for path, mode in (("/prod/in", "600"), ("/prod", "700")):
        facility.bp("chmod", mode, path)
    facility.bp("grant", "/prod", "group:prod", "rw")
    script = (
        'xrdcp --silent "$BP_ROOT//prod/in" again && cmp in again && '
        f"{facility.bin / 'bp'} stat /prod/in > /dev/null && "
        'echo "$BP_FACILITY $(stat -c %a "$BEARER_TOKEN_FILE")" && sha256sum < in > sum'
    )
    spec = {
        "name": "sum",
        "command": [*SHELL, script],
        "inputs": [{"path": "/prod/in", "name": "in"}],
        "outputs": [{"name": "sum", "path": "/prod/new/sum"}],
    }
    assert site.post(site.token("eve"), "submit", spec=spec)[0] == 403
    status, submitted = site.post(site.token("ann", "prod"), "submit", spec=spec)
    assert status == 200, submitted
    info = facility.wait_job(submitted["job"])
    log = facility.bp("log", str(submitted["job"]), check=False).text
    assert (info["state"], info["worker"]) == ("done", "c1-worker1"), (info, log)
    assert log.split() == [facility.endpoint("https"), "600"]
    assert info["usage"]["wall"] > 0
    assert facility.stat("/prod/new/sum")["owner"] == "ann"
    expected = run("sha256sum", sample).out.split()[0]
    assert facility.bp("cat", "/prod/new/sum").out.split()[0] == expected
    assert not list((site.cpu.directory / "batch" / "runs").iterdir()), "what is acknowledged is forgotten"


def test_a_job_goes_on_while_its_host_is_dead_and_ends_once(site: Site, sample: Path, gate: Gate, shared: Path) -> None:
    facility, note = site.facility, shared / "note"
    facility.put(sample, "/job/in")
    script = f"echo begun >> {note}; read go < {gate.path}; wc -c < in > o; exit 0"
    job = facility.submit("--input", "/job/in:in", "--output", "o:/job/o", "--", *SHELL, script)
    wait_begun(facility, job)
    site.cpu.kill()
    gate.open()
    # The head starts anew and knows nothing but that the worker has the job.
    facility.kill()
    facility.up()
    info = facility.job(job)
    assert (info["state"], info["attempt"]) == ("running", 1)
    assert "c1-worker1 is silent" in info["reason"]
    worker = facility.status()["workers"][0]
    assert (worker["cpus_used"], worker["is_available"]) == (1, False)
    second = facility.submit("--", "/bin/true")
    assert "no worker is running" in facility.job(second)["reason"]
    site.cpu.start()
    info = facility.wait_job(job)
    assert (info["state"], info["exit"], info["attempt"]) == ("done", {"code": 0}, 1)
    assert facility.bp("cat", "/job/o").out.strip() == str(sample.stat().st_size)
    assert note.read_text() == "begun\n"
    assert facility.wait_job(second)["state"] == "done"
    for host in site.hosts:
        facility.wait_until(f"{host.name} is back", host.is_available)


def test_what_a_job_on_another_host_prints_is_followed(site: Site, gate: Gate) -> None:
    facility = site.facility
    job = facility.submit("--", *SHELL, f"echo early; read go < {gate.path}; echo late")
    facility.wait_until("it has printed", lambda: facility.bp("log", str(job)).out == "early\n")
    assert facility.job(job)["worker"] == "c1-worker1"
    words = [facility.bin / "bp", "--facility", facility.directory, "log", "-f", str(job)]
    follower = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    assert follower.stdout.readline() == "early\n"
    gate.open()
    assert (follower.communicate(timeout=DEADLINE)[0], follower.returncode) == ("late\n", 0)
    # A host that runs no jobs may not speak of it.
    told = {"run": {"job": job, "attempt": 1}, "pieces": [None, None], "is_all": True}
    assert "permission" in site.call_as(site.tape, "report_output", **told)


def test_a_host_that_is_turned_away_keeps_no_job(site: Site, tmp_path: Path, gate: Gate) -> None:
    facility = site.facility
    host = Host(facility, tmp_path / "c2", "c2", ("cpu",), cpus=8)
    host.ports = [0, 0]
    host.join()
    host.up()
    job = facility.submit("--cpus", "4", "--", *SHELL, f"read go < {gate.path}")
    wait_begun(facility, job)
    host.kill()
    facility.bp("host", "remove", "c2")
    info = facility.wait_job(job)
    assert (info["state"], info["exit"]) == ("failed", "lost")
    assert "c2 was removed" in info["reason"]
    assert [row["name"] for row in facility.status()["workers"]] == ["c1-worker1"]
    gate.open()


# Tapes


def test_a_file_goes_to_a_tape_of_another_host_and_comes_back(site: Site, sample: Path, tmp_path: Path) -> None:
    need("xrdcp", "xrdfs")
    facility = site.facility
    token = site.env(site.token("ann"))
    facility.bp("mkdir", "/tape")
    facility.bp("chmod", "777", "/tape")
    roots = facility.endpoint("roots")
    run("xrdcp", "--silent", "--cksum", "adler32:source", sample, f"{roots}//tape/f", env=token)
    before = site.disk.objects()
    assert sample.stat().st_size in before.values()
    facility.bp("archive", "--wait", "/tape/f")
    facility.bp("evict", "/tape/f")
    assert facility.state("/tape/f") == "nearline"
    facility.wait_until("the object is deleted", lambda: len(site.disk.objects()) == len(before) - 1)
    # A client that opens it waits for the recall.
    run("xrdcp", "--silent", "--cksum", "adler32:source", f"{roots}//tape/f", tmp_path / "back", env=token)
    assert is_same(tmp_path / "back", sample)
    assert facility.state("/tape/f") == "both"
    assert sum(site.disk.objects().values()) == sum(before.values())
    shown = facility.status()["drives"][0]
    assert shown["host"] == "t1"


def test_a_tape_host_that_is_killed_in_the_middle_of_a_recall(site: Site, tmp_path: Path) -> None:
    need("xrdcp")
    facility = site.facility
    local = write_file(tmp_path / "local", 30_000_000, seed=7)
    facility.put(local, "/tape/long")
    facility.archive_and_evict("/tape/long")
    # A load takes long enough to be killed in.
    site.tape.down()
    configure(site.tape.directory, "load_time", '"2s"')
    site.tape.up()
    facility.bp("stage", "/tape/long")
    facility.wait_until("the recall has begun", lambda: request_of(facility, "/tape/long")["state"] == "active")
    site.tape.kill()
    assert request_of(facility, "/tape/long")["state"] == "active", "a silent host is not a dead one"
    configure(site.tape.directory, "load_time", '"0s"')
    site.tape.start()
    facility.bp("stage", "--wait", "/tape/long")
    token = site.env(site.token(facility.owner))
    run("xrdcp", "--silent", "--cksum", "adler32:source", f"{facility.endpoint('roots')}//tape/long",
        tmp_path / "back", env=token)  # fmt: skip
    assert is_same(tmp_path / "back", local)
    sizes = sorted(site.disk.objects().values())
    assert sizes.count(local.stat().st_size) == 1, "the object of the first try is gone"
    assert facility.status()["requests_len"] == 0


def test_labels_of_two_hosts_must_differ(site: Site, tmp_path: Path) -> None:
    facility = site.facility
    prefix = facility.status()["volumes"][0]["vid"][:2]
    twin = Host(facility, tmp_path / "t2", "t2", ("tape",), prefix=prefix, volumes=1, drives=1)
    twin.ports = [0, 0]
    twin.join()
    twin.start()
    try:
        end = "is in library t1-lib1"
        facility.wait_until("it is told", lambda: end in twin.log.read_text())
    finally:
        twin.down()
    assert [row["host"] for row in facility.status()["drives"]] == ["t1"]
