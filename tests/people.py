"""Real users of this host, made for a test, and what they run."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import DEADLINE, XRD_ENVIRONMENT, Outcome, need
from facility import WORKER, binaries


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
def user_database() -> Iterator[None]:
    """Wait until no other test changes the users of this host: `useradd` itself does not wait."""
    with Path("/run/backplane-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def add_user(name: str, home: Path) -> pwd.struct_passwd:
    """Make a user of this host."""
    words = ("--user-group", "--no-create-home", "--shell", "/bin/sh", "--home-dir", home)
    with user_database():
        subprocess.run(["useradd", *words, name], check=True)
    return pwd.getpwnam(name)


def remove_user(name: str) -> None:
    """Remove a user, if there is one."""
    with user_database():
        subprocess.run(["userdel", "--force", name], check=False, capture_output=True)


@contextmanager
def people(*names: str) -> Iterator[list[Person]]:
    """Make users for as long as a test runs; only root can."""
    if os.geteuid() != 0:
        pytest.skip("only root can make users and run programs as them")
    need("useradd", "userdel")
    names = tuple(f"{name}{WORKER}" for name in names)
    # pytest's own directories can be reached by their owner only.
    top = Path(tempfile.mkdtemp(prefix="bp-people-"))
    top.chmod(0o755)
    made: list[Person] = []
    try:
        for name in names:
            home = top / name
            entry = add_user(name, home)
            home.mkdir(mode=0o700)
            os.chown(home, entry.pw_uid, entry.pw_gid)
            made.append(Person(name, entry.pw_uid, home))
        yield made
    finally:
        for name in names:
            remove_user(name)
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
