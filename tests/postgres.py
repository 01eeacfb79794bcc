"""A private PostgreSQL server of Debian's package, for facilities whose catalogue is in a database."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from authority import certify
from clients import DEADLINE, need
from facility import free_ports


class Postgres:
    """One server, reached by a socket in a directory of its own.

    Parameters
    ----------
    directory
        Where it keeps everything.
    """

    def __init__(self, directory: Path) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not found:
            pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
        self.bin = found[-1].parent
        self.directory = directory
        # The server refuses to run as root.
        self._owner = pwd.getpwnam("postgres") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
        self._count = 0
        self.port = 5432
        """What its socket is named after, and where it listens once it is told to."""

    @property
    def user(self) -> str:
        """Who may do everything in it."""
        return self._owner.pw_name

    def _run(self, program: str, *words: str | Path) -> None:
        command = [str(self.bin / program), *map(str, words)]
        ids = {"user": self._owner.pw_uid, "group": self._owner.pw_gid} if os.getuid() == 0 else {}
        log = self.directory / "output"
        with log.open("ab") as output:
            done = subprocess.run(
                command, check=False, cwd="/", timeout=DEADLINE, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, **ids,
            )  # fmt: skip
        assert done.returncode == 0, f"{command}:\n{log.read_text()}"

    def start(self) -> None:
        """Make it and start it."""
        os.chown(self.directory, self._owner.pw_uid, self._owner.pw_gid)
        data = self.directory / "data"
        self._run("initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--locale=C", "-U", self.user)
        self._control("start", "-c listen_addresses=")

    def _control(self, verb: str, settings: str) -> None:
        own = f"-k '{self.directory}' -p {self.port} -c fsync=off -c shared_buffers=32MB {settings}"
        where = ("-D", self.directory / "data", "-l", self.directory / "log")
        self._run("pg_ctl", *where, "-w", "-m", "fast", "-o", own, verb)

    def certify(self, names: str) -> Path:
        """Make its certificate; that of the authority."""
        need("openssl")
        return certify(self.directory, names)

    def listen(self, password: str, tls: bool) -> None:
        """Listen on loopback, too: for who has the password and, by what it is told, speaks TLS."""
        data = self.directory / "data"
        self._run(
            "psql", "-qX", *self._place(), "-d", "postgres", "-c", f"ALTER ROLE {self.user} PASSWORD '{password}'"
        )
        (data / "pg_hba.conf").write_text("local all all trust\nhostssl all all all scram-sha-256\n")
        self.port = self.port if self.port != 5432 else free_ports(1)[0]
        key = self.directory / "host.key"
        os.chown(key, self._owner.pw_uid, self._owner.pw_gid)
        key.chmod(0o600)
        files = f"-c ssl_cert_file='{self.directory}/host.crt' -c ssl_key_file='{self.directory}/host.key'"
        self._control("restart", f"-c listen_addresses=127.0.0.1 -c ssl={'on' if tls else 'off'} {files}")

    def _place(self) -> tuple[str | Path, ...]:
        return ("-h", self.directory, "-p", str(self.port), "-U", self.user)

    def stop(self) -> None:
        """Stop it at once."""
        self._run("pg_ctl", "-D", self.directory / "data", "-m", "immediate", "stop")

    def database(self, host: str = "") -> str:
        """Make an empty database; its URL, by the socket or, where it listens, by a host's name."""
        self._count += 1
        name = f"cat{self._count}"
        self._run("createdb", *self._place(), "-T", "template0", name)
        place = f"{host}:{self.port}" if host else str(self.directory).replace("/", "%2F")
        return f"postgresql://{self.user}@{place}/{name}"


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server. Its directory is short: names of sockets are."""
    directory = Path(tempfile.mkdtemp(prefix="bppg"))
    server = Postgres(directory)
    try:
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
