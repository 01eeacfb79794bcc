"""A real facility in a directory: made, started, asked, killed, stopped, and its log read."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import pwd
import re
import select
import shutil
import signal
import socket
import sqlite3
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from clients import DEADLINE, Outcome, fails, run

Json = dict[str, Any]

OWNER = pwd.getpwuid(os.getuid()).pw_name
"""XRootD clients log in with the name that goes with the user id, whatever the environment says."""

LOOPBACK = ["127.0.0.0/8", "::1/128"]
"""Networks that servers connect to for clients only where `[reach] allow` says so."""

PORTS = range(20000, 32768)
"""Below the range from which the kernel takes ports for whoever does not care."""
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
"""Number of this process among those that run tests side by side; each has ports and users of its own."""
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
"""How many of them there are."""

_LOG_TROUBLE = re.compile(r"^\S+Z\s+(WARN|ERROR)\s|panicked at")


@cache
def binaries() -> Path:
    """Find `bp` and `bpd` where every user and every job can run them."""
    built = _built()
    # Each job has a /tmp of its own.
    is_seen = not any(built.is_relative_to(hidden) for hidden in ("/tmp", "/var/tmp"))
    if os.getuid() != 0 or (is_seen and all(place.stat().st_mode & 0o001 for place in (built, *built.parents))):
        return built
    copies = Path(tempfile.mkdtemp(prefix="backplane-test-", dir="/var/lib"))
    atexit.register(shutil.rmtree, copies, ignore_errors=True)
    copies.chmod(0o755)
    for file in built.iterdir():
        if file.is_file() and file.suffix in ("", ".so", ".a") and not file.name.startswith("."):
            shutil.copy(file, copies)
    return copies


def _built() -> Path:
    """Find the programs: where BP_BIN says, else the release build, else the debug build."""
    if given := os.environ.get("BP_BIN"):
        return Path(given)
    target = Path(__file__).resolve().parent.parent / "target"
    for profile in ("release", "debug"):
        if (target / profile / "bp").exists() and (target / profile / "bpd").exists():
            return target / profile
    pytest.fail(f"neither release nor debug build in {target}: `cargo build -p daemon -p cli`", pytrace=False)


def free_ports(count: int) -> list[int]:
    """Find ports that nobody has, and that nobody gets by chance while a facility is down for a moment."""
    ports = PORTS[WORKER::WORKERS]
    first = os.getpid() * 7 % len(ports)
    found: list[int] = []
    for offset in range(len(ports)):
        port = ports[(first + offset) % len(ports)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


def configure(directory: Path, key: str, value: str) -> None:
    """Change one key of the facility.toml in a directory; it must be there."""
    file = directory / "facility.toml"
    text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", file.read_text())
    assert count == 1, f"{count} keys {key} in {file}"
    file.write_text(text)


class ApiError(AssertionError):
    """The management API refused a call."""

    def __init__(self, status: int, failure: Json) -> None:
        super().__init__(f"{status}: {failure}")
        self.status = status
        self.failure = failure


class LocalConnection(http.client.HTTPConnection):
    """A connection to the socket in a facility's directory."""

    def __init__(self, directory: Path, deadline: float = DEADLINE) -> None:
        super().__init__("localhost", timeout=deadline)
        self.directory = directory

    def connect(self) -> None:
        """Connect by way of the opened directory: the path of a socket has 107 bytes at most."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        opened = os.open(self.directory, os.O_PATH)
        try:
            self.sock.connect(f"/proc/self/fd/{opened}/bp.sock")
        finally:
            os.close(opened)


class Facility:
    """One facility with its daemon.

    Parameters
    ----------
    directory
        Where it is.
    owner
        Who makes and runs it.
    """

    def __init__(self, directory: Path, owner: str = OWNER) -> None:
        self.directory = directory
        self.bin = binaries()
        self.expected_log: list[re.Pattern[str]] = []
        self.environment: dict[str, str] = {}
        """What its daemon is given beside that of the tests."""
        self.owner = owner
        self.pid = 0
        self.root = ""
        self.http = ""
        self._ports = (0, 0, 0)

    # Life

    def create(self, **options: str | int) -> None:
        """Make it; options are those of `bp create`."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        run(self.bin / "bp", "create", self.directory, *words, env={"USER": self.owner})
        # Most tests look at the disk after something was removed; those of the trash say how long it is kept.
        self.keep_trash("0s")

    def keep_trash(self, span: str) -> None:
        """Say how long what is removed can be restored."""
        file = self.directory / "facility.toml"
        text, count = re.subn(r'(?m)(^\[trash\]\nretention = )".*"$', rf'\1"{span}"', file.read_text())
        assert count == 1, "the configuration says how long trash is kept"
        file.write_text(text)

    def configure(self, key: str, value: str) -> None:
        """Change one key of facility.toml; it must be there."""
        configure(self.directory, key, value)

    def reach_this_host(self) -> None:
        """Let clients copy from and to other servers of the tests, which all are on this host."""
        self.configure("allow", json.dumps(LOOPBACK))

    def keep_ports(self, https: bool = False) -> None:
        """Use the same ports at every start, so that clients can come back; that of https on demand."""
        root, http, tls = free_ports(3)
        self._ports = (root, http, tls if https else 0)

    def up(self, *options: str) -> None:
        """Start the daemon and wait until it answers."""
        root, http, https = self._ports
        ports = (f"--root-port={root}", f"--http-port={http}", f"--https-port={https}")
        environment = {"USER": self.owner, **self.environment}
        run(self.bin / "bp", "up", self.directory, "--detach", *ports, *options, env=environment)
        self.read_endpoints()

    def read_endpoints(self) -> None:
        """Learn where the doors are."""
        self.pid, self.root, self.http = int(self.endpoint("pid")), self.endpoint("root"), self.endpoint("http")

    def endpoint(self, name: str) -> str:
        """Read where a door is: root, roots, http or https; or who serves it: pid."""
        return str(json.loads((self.directory / "endpoints.json").read_text())[name])

    def down(self) -> None:
        """Stop it as a person does."""
        run(self.bin / "bp", "down", self.directory)
        self.pid = 0

    def kill(self) -> None:
        """End the daemon without a chance to do anything, and wait until the kernel is done with it."""
        kill_and_wait(self.pid)
        self.pid = 0

    @property
    def is_up(self) -> bool:
        """Whether the daemon that was started last is there."""
        if not self.pid:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, 0)
            return True
        return False

    # Asking

    def bp(self, *words: str | Path, deadline: float = DEADLINE, check: bool = True, stdin: bytes = b"") -> Outcome:
        """Run `bp` on this facility."""
        env = {"BP_FACILITY": str(self.directory)}
        return run(self.bin / "bp", *words, deadline=deadline, check=check, env=env, stdin=stdin)

    def bp_fails(self, *words: str | Path) -> Outcome:
        """Run `bp`, which must refuse."""
        return fails(self.bin / "bp", *words, env={"BP_FACILITY": str(self.directory)})

    def bp_json(self, *words: str | Path) -> Json:
        """Run `bp --json` and read its first value."""
        value: Json = json.loads(self.bp("--json", *words).out.splitlines()[0])
        return value

    def connect(self, deadline: float = DEADLINE) -> http.client.HTTPConnection:
        """Open a connection to the HTTP door."""
        return http.client.HTTPConnection(urllib.parse.urlsplit(self.http).netloc, timeout=deadline)

    def call(self, name: str, wait: float = 0, at_socket: bool = False, **arguments: object) -> Json:
        """Make a call of the management API; a pending answer may be held back for `wait` seconds.

        At the socket in the facility's directory its owner needs no token.
        """
        headers = {"content-type": "application/json"}
        target = f"/api/v1/{name}" + (f"?wait={int(wait * 1000)}ms" if wait else "")
        deadline = DEADLINE + wait
        connection = LocalConnection(self.directory, deadline) if at_socket else self.connect(deadline)
        try:
            connection.request("POST", target, json.dumps(arguments), headers)
            answer = connection.getresponse()
            body: Json = json.loads(answer.read() or b"{}")
        finally:
            connection.close()
        if answer.status != 200:
            raise ApiError(answer.status, body)
        return body

    def status(self) -> Json:
        """Read the facility at a glance."""
        return self.call("status")

    def stat(self, path: str) -> Json:
        """Describe a path."""
        return self.call("stat", path=path)

    def state(self, path: str) -> str:
        """Tell where the bytes of a file are."""
        return str(self.stat(path)["state"])

    def volume(self, vid: str) -> Json:
        """Describe a volume."""
        volumes: list[Json] = self.status()["volumes"]
        return next(volume for volume in volumes if volume["vid"] == vid)

    def job(self, job: int) -> Json:
        """Describe a job."""
        (info,) = self.call("jobs", ids=[job])["jobs"]
        assert isinstance(info, dict)
        return info

    def wait_job(self, job: int, deadline: float = DEADLINE) -> Json:
        """Wait until a job is over."""
        info: Json = self.call("await_jobs", wait=deadline, ids=[job])["jobs"][0]
        assert info["state"] in ("done", "failed", "cancelled"), f"not over after {deadline} s: {info}"
        return info

    def submit(self, *words: str | Path) -> int:
        """Submit a job, return its number."""
        return int(self.bp("submit", *words).out)

    @contextmanager
    def events(self, deadline: float) -> Iterator[Iterator[str]]:
        """Follow the console's events: one at once, then one after each change."""
        connection = self.connect(deadline)
        try:
            connection.request("GET", "/console/events", headers={"accept": "text/event-stream"})
            yield _event_data(connection.getresponse())
        finally:
            connection.close()

    def wait_until(self, what: str, is_so: Callable[[], bool], deadline: float = DEADLINE) -> None:
        """Look again whenever the facility says that something changed, until `is_so` or the deadline."""
        end = time.monotonic() + deadline
        with self.events(deadline) as events:
            for _ in events:
                if is_so():
                    return
                if time.monotonic() > end:
                    break
        _give_up(f"{what}: not so after {deadline} s; the facility is\n{self.bp('status', check=False).text}")

    # Data

    def url(self, path: str) -> str:
        """Write the root:// URL of a path."""
        return f"{self.root}/{path}"

    def put(self, local: Path, path: str) -> None:
        """Copy a file in with our own client, where the test is not about copying."""
        self.bp("put", "--parents", local, path)

    def put_bytes(self, data: bytes, path: str) -> None:
        """Make a file of these bytes."""
        self.bp("put", "--parents", "-", path, stdin=data)

    def read(self, path: str) -> bytes:
        """Read a whole file through the HTTP door."""
        connection = self.connect()
        try:
            connection.request("GET", urllib.parse.quote(path))
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise ApiError(answer.status, json.loads(body))
        return body

    def archive_and_evict(self, *paths: str) -> None:
        """Leave files on tape only."""
        self.bp("archive", "--wait", *paths)
        self.bp("evict", *paths)
        assert {self.state(path) for path in paths} == {"nearline"}

    def cartridge(self, vid: str) -> Path:
        """Find the file that is a volume, in its slot or in a drive."""
        (found,) = (self.directory / "tape").rglob(f"{vid}.aws")
        return found

    def objects_on_disk(self) -> dict[int, int]:
        """List the objects that lie on the partition, with sizes, whatever state they are in."""
        disk = self.directory / "disk" / "disk1"
        files = [*disk.glob("objects/*/*"), *disk.glob("incoming/*")]
        sizes = {}
        for file in files:
            # The disk server may delete one while we look.
            with suppress(FileNotFoundError):
                if file.suffix != ".json":
                    sizes[int(file.name)] = file.stat().st_size
        return sizes

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Read the catalogue of a facility that is down: while it is up nobody else may."""
        catalogue = sqlite3.connect(f"file:{self.directory / 'catalogue.sqlite'}?mode=ro", uri=True, timeout=10)
        try:
            return catalogue.execute(sql).fetchall()
        finally:
            catalogue.close()

    def wait_removals(self, deadline: float = DEADLINE) -> None:
        """Wait until the janitor has deleted all that the catalogue does not know."""

        def is_clean() -> bool:
            partitions = [partition for pool in self.status()["pools"] for partition in pool["partitions"]]
            return len(self.objects_on_disk()) == sum(int(partition["replicas"]) for partition in partitions)

        self.wait_until("only catalogued objects lie on disk", is_clean, deadline)

    # Log

    def expect_log(self, pattern: str) -> None:
        """Accept warnings and errors that match."""
        self.expected_log.append(re.compile(pattern))

    @property
    def log(self) -> Path:
        """Where the daemon writes what it does."""
        return self.directory / "log" / "bpd.log"

    def unexpected_log(self) -> list[str]:
        """List warnings, errors and panics that nobody expected."""
        if not self.log.exists():
            return []
        odd, is_stopping = [], False
        for line in self.log.read_text(errors="replace").splitlines():
            is_stopping = (is_stopping or "; finishing open requests" in line) and "facility is up" not in line
            # A room that was just about to ask finds the door closed; a drive ends its session.
            is_late = is_stopping and re.search("cannot reach the facility|the tape server is stopping", line)
            if _LOG_TROUBLE.search(line) and not is_late:
                odd.append(line)
        return [line for line in odd if not any(pattern.search(line) for pattern in self.expected_log)]

    def clean_up(self) -> None:
        """Stop what runs; a daemon that does not stop is killed, and that is a failure."""
        if self.is_up:
            # Shepherds outlive the daemon, on purpose; nobody wants their jobs after the test.
            jobs = [job["id"] for job in self.call("jobs", at_socket=True, active_only=True)["jobs"]]
            # A selection of its number is a whole array; what has ended meanwhile is no failure.
            self.call("cancel_jobs", at_socket=True, jobs=jobs)
            self.call("await_jobs", wait=DEADLINE, at_socket=True, select=jobs)
            outcome = run(self.bin / "bp", "down", self.directory, check=False, deadline=150)
            if self.is_up and outcome.code != 0:
                self.kill()
                pytest.fail(f"the daemon had to be killed: {outcome}", pytrace=False)


def kill_and_wait(pid: int, deadline: float = DEADLINE) -> None:
    """Send SIGKILL to a process that need not be a child, and wait until it is gone."""
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        ready, _, _ = select.select([handle], [], [], deadline)
        assert ready, f"process {pid} survives SIGKILL for {deadline} s"
    finally:
        os.close(handle)


def _event_data(answer: http.client.HTTPResponse) -> Iterator[str]:
    """Take server-sent events apart: the data of each."""
    assert answer.status == 200, answer.status
    assert (answer.getheader("content-type") or "").startswith("text/event-stream")
    data: list[str] = []
    while line := answer.readline():
        text = line.decode().rstrip("\r\n")
        if text.startswith("data:"):
            data.append(text[5:].lstrip(" "))
        elif not text and data:
            yield "\n".join(data)
            data.clear()


def _give_up(why: str) -> NoReturn:
    pytest.fail(why, pytrace=False)
