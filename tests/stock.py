"""A server of the field, Debian's xrootd, that serves a directory of the test."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clients import DEADLINE, need
from facility import free_ports

STARTS = 5
"""Times that a server is started which crashes before it listens, as 5.5.3 does now and then on two processors."""


@contextmanager
def stock_server(*settings: str) -> Iterator[tuple[str, Path]]:
    """Serve a directory, with more lines of configuration; give the URL and the directory."""
    need("xrootd")
    # Not below the directory of the tests: that one is for its owner alone, and the server must not be root.
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        words, port = _configure(top, settings)
        server = _start(words, port, top)
        try:
            yield f"root://localhost:{port}//data", top / "data"
        finally:
            server.terminate()
            server.wait(DEADLINE)


def _configure(top: Path, settings: tuple[str, ...]) -> tuple[list[str | Path], int]:
    """Write what it is to do; give its command and its port."""
    top.chmod(0o755)
    for name in ("data", "adm"):
        (top / name).mkdir()
    (port,) = free_ports(1)
    lines = [
        "all.export /data", f"oss.localroot {top}", f"all.adminpath {top}/adm", f"all.pidpath {top}/adm",
        f"xrd.port {port}", "xrootd.chksum adler32", *settings,
    ]  # fmt: skip
    (top / "x.cfg").write_text("".join(f"{line}\n" for line in lines))
    words: list[str | Path] = ["xrootd", "-c", top / "x.cfg", "-l", top / "log", "-n", "stock"]
    if Path("/proc/self").owner() == "root":
        for path in [top, *top.rglob("*")]:
            shutil.chown(path, "nobody")
        words += ["-R", "nobody"]
    return words, port


def _start(words: list[str | Path], port: int, top: Path) -> subprocess.Popen[bytes]:
    """Start it and wait until it answers."""
    for _ in range(STARTS):
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if _answers(server, port):
            return server
        if server.wait(DEADLINE) != -signal.SIGSEGV:
            break
    said = "".join(log.read_text() for log in top.rglob("log") if log.is_file())
    raise AssertionError(f"the server of the field does not start: {server.returncode}\n{said}")


def _answers(server: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until it answers or is not there; one that does neither is killed."""
    end = time.monotonic() + DEADLINE
    while server.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    server.kill()
    return False
