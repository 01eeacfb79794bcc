"""What waiting costs: opens of nearline files that wait, on a volume that cannot be read.

Prints processor time of the daemon without and with them, how often it wakes up, its memory for each wait, and how long
`bp ls` takes without and with them.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

FILES = 100
CALLS = 250
"""Opens of one session: a session may have 256 calls under way."""
LOGIN, OPEN, WAITRESP = 3007, 3010, 4006
DEADLINE_S = 120.0


class Session:
    """A connection that has logged in."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=DEADLINE_S)
        self.socket.sendall(struct.pack(">5i", 0, 0, 0, 4, 2012))
        self.answer()
        # The client takes answers that come later, and speaks protocol 5.
        self.socket.sendall(struct.pack(">2sHi8s4Bi", b"\0\1", LOGIN, os.getpid(), b"bench", 0, 0, 0x85, 0, 0))
        self.answer()

    def answer(self) -> int:
        """Read one answer; returns its status."""
        head = self.exactly(8)
        _, status, length = struct.unpack(">2sHi", head)
        self.exactly(length)
        return int(status)

    def exactly(self, length: int) -> bytes:
        """Read so many bytes."""
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                raise ConnectionError("the server has closed the connection")
            data += piece
        return data

    def open(self, number: int, path: str) -> None:
        """Ask for a file."""
        name = path.encode()
        self.socket.sendall(struct.pack(">HHHH12xi", number, OPEN, 0, 0x10, len(name)) + name)


def processor_s(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wakeups(pid: int) -> dict[str, int]:
    """How often each thread of a process has waited and was woken."""
    word = "\nvoluntary_ctxt_switches:"
    counts = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # It may have ended since it was listed.
        with suppress(OSError):
            counts[task.name] = int((task / "status").read_text().split(word)[1].split()[0])
    return counts


def memory_bytes(pid: int) -> int:
    """Memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bp", default="bp", help="the program")
    parser.add_argument("--waits", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        directory = f"{top}/f"
        environment = dict(os.environ, BP_FACILITY=directory)

        def bp(*words: str) -> str:
            done = subprocess.run([options.bp, *words], env=environment, capture_output=True, text=True, check=True)
            return done.stdout

        def ls_s() -> float:
            times = []
            for _ in range(11):
                begin = time.perf_counter()
                bp("ls", "/d")
                times.append(time.perf_counter() - begin)
            return statistics.median(times)

        bp("up", directory, "--create", "--detach", "--root-port", "0", "--http-port", "0", "--volumes", "1")
        try:
            measure(options, Path(directory), bp, ls_s)
        finally:
            bp("down", directory)


def measure(options: argparse.Namespace, directory: Path, bp, ls_s) -> None:  # type: ignore[no-untyped-def]
    """Make files that are on a volume that cannot be read, let opens wait for them, and look."""
    endpoints = json.loads((directory / "endpoints.json").read_text())
    pid, (host, port) = endpoints["pid"], endpoints["root"].removeprefix("root://").rsplit(":", 1)
    names = [f"/d/f{number}" for number in range(FILES)]
    bp("mkdir", "/d")
    sample = directory.parent / "sample"
    sample.write_bytes(b"x" * 1000)
    for name in names:
        bp("put", str(sample), name)
    bp("archive", "-r", "--wait", "/d")
    bp("evict", "-r", "/d")
    bp("admin", "volume", "set", json.loads(bp("--json", "volumes"))[0]["vid"], "suspect")
    before_s, idle, woken = ls_s(), processor_s(pid), wakeups(pid)
    time.sleep(options.seconds)
    idle = (processor_s(pid) - idle) / options.seconds
    # Threads that began or ended meanwhile do not count.
    woken_hz = sum(count - woken.get(task, count) for task, count in wakeups(pid).items()) / options.seconds
    memory = memory_bytes(pid)
    sessions = [Session((host, int(port))) for _ in range(-(-options.waits // CALLS))]
    for number in range(options.waits):
        sessions[number // CALLS].open(number % CALLS + 1, names[number % FILES])
    for number in range(options.waits):
        status = sessions[number // CALLS].answer()
        assert status == WAITRESP, status
    each = (memory_bytes(pid) - memory) / options.waits
    busy = processor_s(pid)
    time.sleep(options.seconds)
    busy = (processor_s(pid) - busy) / options.seconds
    print(
        f"{options.waits} waiting opens: {busy:.4f} of a processor (without them {idle:.4f}, {woken_hz:.0f} wake-ups/s)"
    )
    print(f"memory for each: {each / 1024:.1f} KiB")
    print(f"bp ls: {ls_s() * 1000:.0f} ms (without them {before_s * 1000:.0f} ms)")


if __name__ == "__main__":
    main()
