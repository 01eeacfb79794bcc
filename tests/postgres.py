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

from clients import DEADLINE


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
        settings = f"-k '{self.directory}' -c listen_addresses= -c fsync=off -c shared_buffers=32MB"
        self._run("pg_ctl", "-D", data, "-l", self.directory / "log", "-w", "-o", settings, "start")

    def stop(self) -> None:
        """Stop it at once."""
        self._run("pg_ctl", "-D", self.directory / "data", "-m", "immediate", "stop")

    def database(self) -> str:
        """Make an empty database; its URL."""
        self._count += 1
        name = f"cat{self._count}"
        self._run("createdb", "-h", self.directory, "-U", self.user, "-T", "template0", name)
        return f"postgresql://{self.user}@{str(self.directory).replace('/', '%2F')}/{name}"


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
