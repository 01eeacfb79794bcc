"""What POSIX promises to programs, as pjdfstest checks it, on a mount that all users of a host use."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import missing
from facility import Facility
from mounting import mounted, shared

__all__ = ["shared"]

ROOT = Path(__file__).parents[1]
# The users are on every Debian system. What is asked for beyond POSIX is what mounts have.
CONFIGURATION = """
[features]
utime_now = {}
utimensat = {}
rename_ctime = {}

[settings]
# Times are those of the head, in milliseconds.
naptime = 0.02

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
MINUTES = 10


def program() -> str:
    """Find it: where `make need-test` puts it, or on the search path."""
    own = ROOT / "target" / "tools" / "bin" / "pjdfstest"
    found = str(own) if own.exists() else shutil.which("pjdfstest")
    if found is None:
        missing("pjdfstest (`make need-test` installs it)")
    return str(found)


@pytest.fixture
def place() -> Iterator[Path]:
    """Make a directory that all users reach, with a name so short that sockets below it can be named."""
    with tempfile.TemporaryDirectory(prefix="p") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_nothing_that_posix_promises_is_missing(shared: Facility, place: Path) -> None:
    tool, configuration = program(), place / "pjdfstest.toml"
    configuration.write_text(CONFIGURATION)
    with mounted(shared, place / "m", "--allow-other") as mount:
        work = mount / "w"
        work.mkdir()
        for directory in (mount, work):
            directory.chmod(0o755)
        other = place / "other"
        other.mkdir()
        command = [tool, "--configuration-file", configuration, "--path", work, "--secondary-fs", other]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=MINUTES * 60, check=False)
    said = re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout)
    failed = [line.split()[0] for line in said.splitlines() if line.rstrip().endswith("FAILED")]
    passed = [line for line in said.splitlines() if line.rstrip().endswith(" ok")]
    assert failed == [], said
    assert ended.returncode == 0, said + ended.stderr
    assert len(passed) > 300, said
