"""Whom jobs run as, and what they cannot reach: real users and real uids, which only root can make."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import subprocess
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from clients import DEADLINE, run
from conftest import MakeFacility
from facility import Facility, Json, configure
from people import add_user, remove_user
from test_batch import SHELL, Gate, gate, wait_begun  # noqa: F401

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can make users and become them")

SLOTS = range(1_900_000_000, 1_900_000_002)
"""Uids that nobody has."""


@dataclass
class User:
    """Somebody whom this host knows."""

    name: str
    uid: int
    gid: int

    def run(self, *argv: str | Path, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command as this user, who has no other groups."""
        environment = {"PATH": os.environ["PATH"], "HOME": "/", "USER": self.name, "LOGNAME": self.name, **env}
        words = [str(word) for word in argv]
        done = subprocess.run(
            words, user=self.uid, group=self.gid, extra_groups=[], env=environment, check=False, cwd="/",
            capture_output=True, text=True, timeout=DEADLINE,
        )  # fmt: skip
        assert not check or done.returncode == 0, done
        return done

    def bp(self, facility: Facility, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `bp` as this user, who cannot enter the facility's directory."""
        return self.run(facility.bin / "bp", *words, check=check, BP_FACILITY=facility.http)

    def submit(self, facility: Facility, *words: str | Path) -> int:
        """Submit a job as this user."""
        return int(self.bp(facility, "submit", *words).stdout)


@pytest.fixture(scope="module")
def users() -> Iterator[list[User]]:
    """Make two users."""
    names = [f"bpt{os.getpid() % 100_000}{letter}" for letter in "ab"]
    for name in names:
        add_user(name, Path("/nonexistent"))
    yield [User(name, pwd.getpwnam(name).pw_uid, pwd.getpwnam(name).pw_gid) for name in names]
    for name in names:
        remove_user(name)


@pytest.fixture
def ada(users: list[User]) -> User:
    """One of them."""
    return users[0]


def token(facility: Facility, user: str) -> str:
    """Make a token of a user."""
    return run(facility.bin / "bpd", "token", facility.directory, f"--user={user}").out.strip()


def submit_by_token(facility: Facility, user: str, script: str, **more: object) -> tuple[int, Json]:
    """Submit a job as a user whom only the facility knows, once a worker has said whom it runs."""
    facility.wait_until("a worker", lambda: bool(facility.status()["workers"]))
    spec = {"name": user, "command": [*SHELL, script], **more}
    body = json.dumps({"spec": spec})
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(facility.http).netloc, timeout=DEADLINE)
    headers = {"content-type": "application/json", "authorization": f"Bearer {token(facility, user)}"}
    try:
        connection.request("POST", "/api/v1/submit", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def printed(facility: Facility, job: int, user: User | None = None) -> str:
    """Wait for a job that goes well and read what it printed, as its user."""
    info = facility.wait_job(job)
    log = user.bp(facility, "log", str(job)).stdout if user else facility.bp("log", str(job)).out
    assert info["state"] == "done", (info.get("reason"), info, log)
    return log


# As whom


def test_a_job_runs_as_the_user_who_submitted_it(facility: Facility, ada: User) -> None:
    facility.bp("mkdir", "/ada")
    facility.bp("chmod", "777", "/ada")
    script = "id -un; id -u; id -g; id -G; grep NoNewPrivs /proc/self/status; stat -c %U . > o"
    job = ada.submit(facility, "--output", "o:/ada/o", "--", *SHELL, script)
    words = printed(facility, job).split()
    assert words == [ada.name, str(ada.uid), str(ada.gid), str(ada.gid), "NoNewPrivs:", "1"]
    info = facility.job(job)
    assert (info["owner"], info["run_as"]) == (ada.name, ada.name)
    assert facility.read("/ada/o").decode().strip() == ada.name
    assert facility.stat("/ada/o")["owner"] == ada.name


def test_the_owner_of_the_facility_runs_as_root_without_its_powers(facility: Facility) -> None:
    job = facility.submit("--", *SHELL, "id -u; grep -c '^Cap.*:.0000000000000000$' /proc/self/status")
    assert printed(facility, job).split() == ["0", "5"]


@pytest.mark.parametrize("name", ["nobody-knows-me", "daemon", "nobody"])
def test_a_user_who_cannot_be_run_is_refused_with_the_next_step(facility: Facility, name: str) -> None:
    status, refused = submit_by_token(facility, name, "id")
    assert status == 403
    assert f"no worker runs jobs of user {name}" in refused["what"]
    assert "slot_uids" in refused["hint"]


def test_nobody_is_root_because_of_a_name(make_facility: MakeFacility) -> None:
    facility = make_facility(owner="lab")
    facility.up()
    status, refused = submit_by_token(facility, "root", "id")
    assert status == 403, refused


def test_unknown_users_have_a_uid_each_as_long_as_their_job_runs(
    make_facility: MakeFacility,
    gate: Gate,  # noqa: F811
) -> None:
    facility = make_facility()
    facility.configure("slot_uids", f'"{SLOTS[0]}-{SLOTS[-1]}"')
    facility.keep_ports()
    facility.up()
    gate.path.chmod(0o666)
    script = f"read go < {gate.path}; id -u; id -G; touch /var/tmp/x /tmp/x"
    jobs = [submit_by_token(facility, user, script)[1]["job"] for user in ("ann", "bob")]
    for job in jobs:
        wait_begun(facility, job)
    uids = {facility.job(job)["run_as"] for job in jobs}
    assert uids == {str(uid) for uid in SLOTS}
    # Who takes the jobs up keeps their users.
    facility.kill()
    facility.up()
    gate.open(2)
    for job in jobs:
        uid = facility.job(job)["run_as"]
        assert printed(facility, job).split() == [uid, uid]
    # They are free again.
    job = submit_by_token(facility, "eve", "id -u")[1]["job"]
    assert int(printed(facility, job)) in SLOTS
    assert "everybody" in facility.bp("status").out


# What it reaches


def test_a_job_reads_nothing_of_the_facility(facility: Facility, ada: User) -> None:
    facility.put_bytes(b"content of a file", "/f")
    facility.bp("archive", "--wait", "/f")
    directory = facility.directory
    script = f"""
        for f in {directory}/key {directory}/catalogue.sqlite {directory}/facility.toml; do
            test -e $f && echo sees $f
        done
        grep -rl content {directory} && echo reads
        find {directory} -type f
        test "$(cat /proc/{facility.pid}/environ /proc/{facility.pid}/maps 2> /dev/null)" && echo traces
        exit 0
    """
    for submit in (facility.submit, lambda *words: ada.submit(facility, *words)):
        files = printed(facility, submit("--", *SHELL, script)).split()
        assert all("/credentials/" in file for file in files), files
        assert any(file.endswith("/token") for file in files), "but its token"


def test_a_job_reaches_no_other_job_of_the_same_user(facility: Facility, ada: User, gate: Gate) -> None:  # noqa: F811
    gate.path.chmod(0o666)
    first = ada.submit(facility, "--", *SHELL, f"echo secret > file; echo secret > /tmp/file; read go < {gate.path}")
    wait_begun(facility, first)
    scratch = facility.directory / "batch" / "runs" / f"{first}.1" / "scratch"
    script = f"""
        ls {scratch} {scratch.parent} /tmp/file && exit 1
        for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2> /dev/null | grep '[r]ead go' && exit 2
        kill -9 -1
        exit 3
    """
    # It ends all that it sees, itself left out.
    info = facility.wait_job(ada.submit(facility, "--", *SHELL, script))
    assert info["exit"] == {"code": 3}, facility.bp("log", str(info["id"])).text
    assert facility.job(first)["state"] == "running"
    gate.open()
    assert facility.wait_job(first)["state"] == "done"


def test_a_forged_end_is_not_believed(facility: Facility, ada: User) -> None:
    record = {"exit": {"code": 0}, "usage": {"cpu": 0, "wall": 0, "memory_bytes_max": 0}}
    text = json.dumps({**record, "not_enforced": [], "left_behind": []})
    script = f"""
        for d in .. ../control {facility.directory}/batch/runs/$BP_JOB_ID.1/control; do
            mkdir -p $d; echo '{text}' > $d/exit.json
        done
        exec sleep 1000
    """
    facility.bp("mkdir", "/out")
    facility.bp("chmod", "777", "/out")
    for submit in (facility.submit, lambda *words: ada.submit(facility, *words)):
        job = submit("--output", "o:/out/o", "--", *SHELL, script)
        wait_begun(facility, job)
        facility.bp("cancel", str(job))
        info = facility.wait_job(job)
        assert (info["state"], info["exit"]) == ("cancelled", "cancelled")


def test_what_a_job_keeps_in_temporary_directories_goes_with_it(facility: Facility, ada: User) -> None:
    mark = f"bp-{os.getpid()}"
    script = f"for d in /tmp /var/tmp /dev/shm; do echo x > $d/{mark} && ls -A $d; done"
    assert printed(facility, ada.submit(facility, "--", *SHELL, script)).split().count(mark) == 3
    assert not [d for d in ("/tmp", "/var/tmp", "/dev/shm") if (Path(d) / mark).exists()]
    facility.wait_until("the run is forgotten", lambda: not list((facility.directory / "batch" / "runs").iterdir()))


@pytest.mark.parametrize(
    "trick", ["ln -s /etc/shadow o", "ln -s ../control/stdout o", "ln /etc/hostname o || mkfifo o"]
)
def test_a_job_has_nobody_read_for_it(facility: Facility, ada: User, trick: str) -> None:
    facility.bp("mkdir", "/out")
    facility.bp("chmod", "777", "/out")
    job = ada.submit(facility, "--output", "o:/out/o", "--", *SHELL, trick)
    info = facility.wait_job(job)
    assert info["state"] == "failed"
    assert "output_failed" in info["exit"]
    assert facility.bp("stat", "/out/o", check=False).code == 3


def test_a_job_that_fills_the_disk_is_ended(make_facility: MakeFacility, ada: User) -> None:
    facility = make_facility()
    facility.configure("scratch", '"1MiB"')
    facility.configure("output", '"64KiB"')
    facility.up()
    fill = "i=0; while :; do i=$((i+1)); head -c 100000 /dev/zero > /tmp/f$i; sleep 0.1; done"
    for script, why in ((fill, "hold more than 1MiB"), ("yes", "standard output is longer than 64KiB")):
        info = facility.wait_job(ada.submit(facility, "--", *SHELL, script))
        assert info["state"] == "failed"
        assert why in info["reason"]


# Daemons that are not root, and heads that demand tokens


@pytest.fixture
def ours(ada: User, shared: Path) -> Iterator[Facility]:
    """Make a facility of somebody who is not root; not started."""
    home = shared / "home"
    home.mkdir()
    os.chown(home, ada.uid, ada.gid)
    facility = Facility(home / "facility", owner=ada.name)
    ada.run(facility.bin / "bp", "create", facility.directory, "--volume-size=64MiB", "--volumes=2", "--cpus=2")
    yield facility
    ada.run(facility.bin / "bp", "down", facility.directory)


def up(facility: Facility, user: User) -> None:
    """Start a daemon as its user."""
    user.run(facility.bin / "bp", "up", facility.directory, "--detach", "--root-port=0", "--http-port=0")
    facility.read_endpoints()


def test_a_daemon_that_is_not_root_runs_the_jobs_of_its_owner_only(ours: Facility, users: list[User]) -> None:
    ada, bob = users
    up(ours, ada)
    script = f"id -u; find {ours.directory} -type f -name key; ls /proc | grep -c '^[0-9]*$'"
    job = ada.submit(ours, "--", *SHELL, script)
    words = printed(ours, job, ada).split()
    assert words[0] == str(ada.uid)
    not_enforced = [
        limit for limit in ours.job(job).get("not_enforced", []) if limit.startswith(("files", "processes"))
    ]
    if ada.run("unshare", "--user", "--mount", "--pid", "--fork", "--mount-proc", "true", check=False).returncode == 0:
        assert not_enforced == []
        assert len(words) == 2, "it sees a key"
        assert int(words[1]) < 8, "it sees processes of others"
    else:
        assert not_enforced, "what the kernel forbids is said"
    refused = bob.bp(ours, "submit", "--", "/bin/true", check=False)
    assert refused.returncode != 0
    assert f"runs as {ada.name}" in refused.stderr
    assert "run_others_as_me" in refused.stderr
    status = ours.bp("status").out
    assert "the owner" in status


def test_an_administrator_may_run_the_jobs_of_others_as_the_daemon(ours: Facility, users: list[User]) -> None:
    ada, bob = users
    configure(ours.directory, "run_others_as_me", "true")
    up(ours, ada)
    assert printed(ours, bob.submit(ours, "--", *SHELL, "id -u"), bob).split() == [str(ada.uid)]
    assert "jobs of all users run as the daemon's user" in ours.log.read_text()


def test_a_daemon_that_is_root_does_not_run_others_as_root(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.configure("run_others_as_me", "true")
    refused = run(facility.bin / "bpd", "run", facility.directory, "--root-port=0", "--http-port=0", check=False)
    assert refused.code != 0
    assert "bpd runs as root" in refused.text


def test_a_head_that_demands_tokens_runs_no_jobs_by_itself(make_facility: MakeFacility) -> None:
    facility = make_facility()
    facility.configure("require_token", "true")
    facility.up()
    facility.call = partial(facility.call, key=True)  # type: ignore[method-assign]
    assert facility.status()["workers"] == []
    assert "beside_head" in facility.log.read_text()
