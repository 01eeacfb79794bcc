"""Real users of this host, made for a test, and what they run."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import DEADLINE, XRD_ENVIRONMENT, Outcome, need
from facility import binaries


@dataclass(frozen=True)
class Person:
    """A user of this host.

    Parameters
    ----------
    name, uid
        As the user database has them.
    home
        A directory of theirs, which they can reach.
    """

    name: str
    uid: int
    home: Path

    def run(self, *argv: str | Path, env: dict[str, str] | None = None, stdin: bytes = b"") -> Outcome:
        """Run a command as this user, however it ends."""
        words = tuple(str(word) for word in argv)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "USER": self.name, **XRD_ENVIRONMENT}
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            timeout=DEADLINE,
            env={**environment, **(env or {})},
            check=False,
            cwd=self.home,
            user=self.uid,
            group=self.uid,
            extra_groups=[],
        )
        return Outcome(
            words, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def does(self, *argv: str | Path, env: dict[str, str] | None = None, stdin: bytes = b"") -> Outcome:
        """Run a command as this user, which must succeed."""
        outcome = self.run(*argv, env=env, stdin=stdin)
        assert outcome.code == 0, str(outcome)
        return outcome


@contextmanager
def people(*names: str) -> Iterator[list[Person]]:
    """Make users for as long as a test runs; only root can."""
    if os.geteuid() != 0:
        pytest.skip("only root can make users and run programs as them")
    need("useradd", "userdel")
    # pytest's own directories can be reached by their owner only.
    top = Path(tempfile.mkdtemp(prefix="bp-people-"))
    top.chmod(0o755)
    made: list[Person] = []
    try:
        for name in names:
            home = top / name
            subprocess.run(["useradd", "--user-group", "--no-create-home", "--home-dir", home, name], check=True)
            entry = pwd.getpwnam(name)
            home.mkdir(mode=0o700)
            os.chown(home, entry.pw_uid, entry.pw_gid)
            made.append(Person(name, entry.pw_uid, home))
        yield made
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError):
                subprocess.run(["userdel", "--force", name], check=True, capture_output=True)
        shutil.rmtree(top, ignore_errors=True)


def programs_for(top: Path) -> Path:
    """Copy `bp` and `bpd` to where every user can run them."""
    where = top / "bin"
    where.mkdir(exist_ok=True)
    for name in ("bp", "bpd"):
        shutil.copy(binaries() / name, where / name)
        (where / name).chmod(0o755)
    where.chmod(0o755)
    return where
