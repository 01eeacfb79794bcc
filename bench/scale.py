"""Measures a facility with many files: opens that are sent on, a long listing, a scan, a head with ten million files.

``make bench-head`` builds first and runs ``python -m bench.head``, then this. Opens and listings are asked over the
network by `rfio-load`, of our own head and of XRootD's in turn; everything is on one machine, on a real disk.
"""

from __future__ import annotations

import argparse
import datetime
import http.client
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from . import machine
from .clients import Load
from .cluster import Member, XrootdCluster, wait_until
from .head import HERE, ROOT, load
from .measure import CommandFailedError, Sample, memory_now, sampled
from .report import number, table
from .servers import Backplane, NotInstalledError, Server, Xrootd

SESSIONS = 8
PARTS = ("opens", "list", "scan", "files")
SCAN_S = 900.0
"""Seconds that a scan may take."""
SCAN_STOPS_S = 4.0
"""A disk server hears within 3 s that a scan was stopped."""
CHANGES_PER_S = 100
"""Changes of the namespace in a facility that is written to."""
WARMING_RUNS = 10
"""Runs of opens of any file before they count: a head that is in use has its cache filled."""
SCAN_WINDOWS = 4
"""Runs of a second each time that a scan works or rests."""
SCAN_LOOKS_MIN = 2500
"""Objects that it has to look at in each of them, those counted that it has told of when it is stopped."""
ADOPTION_S = 3600.0
"""Seconds that an adoption may take."""
FILE_BYTES = 1000
LONGEST_START_S = 5.0
CACHE_MIB = max(512, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8 >> 20)
"""What a head keeps of its catalogue in memory, by default."""


Started = TypeVar("Started", bound=Server)


@dataclass(frozen=True)
class Row:
    """One line of the table: who did what, how fast, at what cost, and what had been set out."""

    what: str
    who: str
    figures: Sequence[str]
    set_out: str = ""
    is_reached: bool | None = None

    def cells(self) -> list[str]:
        """Write it for a table."""
        verdict = {None: "", True: "reached", False: "missed"}[self.is_reached]
        return [self.what, self.who, *self.figures, self.set_out, verdict]


@dataclass
class Bench:
    """What all parts need."""

    options: argparse.Namespace
    place: Path
    load: Load
    stack: ExitStack
    rows: list[Row] = field(default_factory=list)
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def directory(self, name: str) -> Path:
        """Make a directory that servers of other users can look into."""
        path = self.place / name
        path.mkdir()
        path.chmod(0o755)
        return path

    def start(self, server: Started) -> Started:
        """Start a server until the end."""
        self.stack.callback(server.stop)
        server.start()
        return server

    def ask(self, server: Server, mode: Sequence[str], path: str, seconds: float | None = None) -> Sample:
        """Ask one server for a while, or once."""
        span = ["--count", "1"] if seconds is None else ["--duration", f"{int(seconds * 1000)}ms"]
        sessions = ["--sessions", "1" if seconds is None else str(SESSIONS)]
        return sampled(server.pid, lambda: self.load.run(server, mode, [*span, *sessions], path))

    def in_turn(self, name: str, asks: dict[str, Callable[[], Sample]]) -> dict[str, list[Sample]]:
        """Ask everybody as often as the options say, one after the other."""
        taken: dict[str, list[Sample]] = {who: [] for who in asks}
        for _ in range(self.options.runs):
            for who, ask in asks.items():
                taken[who].append(ask())
        for who, samples in taken.items():
            self.runs[f"{name}, {who}"] = [sample.__dict__ | {"memory": sample.memory.__dict__} for sample in samples]
        return taken

    def add(self, row: Row) -> None:
        """Keep a line, and say it."""
        self.rows.append(row)
        print("  ".join(row.cells()), flush=True)


def median(samples: list[Sample], value: Callable[[Sample], float]) -> float:
    """Middle one of several runs."""
    return statistics.median(map(value, samples))


def p99_us(sample: Sample) -> float:
    """Slowest hundredth of the answers."""
    latencies: Any = sample.details["latency_us"]
    return float(latencies["p99"])


def figures(samples: list[Sample]) -> list[str]:
    """Write rate, slowest hundredth, processor time for each answer, and memory."""
    cpu = median(samples, lambda one: (one.server_cpu_s or 0.0) / max(one.operations, 1) * 1e6)
    memory = max(one.memory.anonymous for one in samples) / (1 << 20)
    rate = median(samples, lambda one: one.operations / one.seconds)
    return [number(rate), number(median(samples, p99_us)), number(cpu), number(memory)]


# Opens that are sent on


def measure_opens(bench: Bench) -> None:
    """Ask for files that lie elsewhere: the answer is where."""
    place = bench.directory("opens")
    tree = bench.directory("opens-tree")
    tree.chmod(0o777)
    ours = bench.start(Backplane(place, bench.options.bin, bench.directory("opens-data")))
    bench.start(Member(ours, place / "d1"))
    ours.bp("pool", "freeze", "disk1")
    servers: dict[str, Server] = {"backplane": ours}
    for session in range(SESSIONS):
        (tree / f"f{session}").write_bytes(bytes(FILE_BYTES))
        ours.put(tree / f"f{session}", f"/f{session}")
    with suppress(NotInstalledError):
        servers["xrootd manager"] = bench.start(XrootdCluster(bench.directory("opens-xrootd"), tree))
    path = "/f{n}"
    for server in servers.values():
        wait_until("opens are answered", lambda server=server: answers(bench, server, path))
    for depth in (1, 16):
        asks = {
            who: lambda server=server, depth=depth: bench.ask(server, ["open", str(depth)], path, 2.0)
            for who, server in servers.items()
        }
        taken = bench.in_turn(f"opens, {depth} in flight", asks)
        for who, samples in taken.items():
            if any(one.details["redirected"] != one.operations for one in samples):
                raise AssertionError(f"{who} has answered opens itself")
            rate = median(samples, lambda one: one.operations / one.seconds)
            mine = ("≥ 15 000", rate >= 15_000) if who == "backplane" else ("", None)
            bench.add(Row(f"opens with redirect, 8 sessions, {depth} in flight", who, figures(samples), *mine))


def answers(bench: Bench, server: Server, path: str) -> bool:
    """Tell whether a server answers opens of all files."""
    try:
        bench.ask(server, ["open", "1"], path, 0.05)
    except CommandFailedError:
        return False
    return True


# A long directory, and a scan of what it holds


def make_tree(tree: Path, entries: int) -> None:
    """Write a directory of many files."""
    block = bytes(FILE_BYTES)
    for entry in range(entries):
        descriptor = os.open(tree / f"event-{entry:08}.raw", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(descriptor, block)
        os.close(descriptor)


@contextmanager
def adopted(bench: Bench) -> Iterator[tuple[Backplane, Path]]:
    """Run a facility that has adopted a directory of many files."""
    data = bench.directory("long-data")
    tree = bench.directory("long-tree")
    (tree / "long").mkdir()
    began = time.monotonic()
    make_tree(tree / "long", bench.options.entries)
    print(f"wrote {bench.options.entries} files in {time.monotonic() - began:.0f} s", flush=True)
    ours = Backplane(bench.directory("long"), bench.options.bin, data)
    ours.start()
    ours.stop()
    file = ours.directory / "facility.toml"
    file.write_text(file.read_text().replace("adopt = []", f'adopt = ["{tree}"]'))
    ours.resume()
    try:
        began = time.monotonic()
        ours.bp("adopt", str(tree / "long"), "/long", "--bytes", "10GB", deadline_s=ADOPTION_S)
        seconds = time.monotonic() - began
        rate = [number(bench.options.entries / seconds), "", "", number(memory_of(ours))]
        bench.add(Row(f"adoption of {bench.options.entries} files", "backplane", rate))
        yield ours, tree
    finally:
        ours.stop()


def memory_of(server: Server) -> float:
    """MiB that a server has now, without mapped files."""
    return memory_now(server.pid).anonymous / (1 << 20) if server.pid else 0.0


def measure_list(bench: Bench, ours: Backplane, tree: Path) -> None:
    """List a directory, with the attributes of all that is in it."""
    servers: dict[str, Server] = {"backplane": ours}
    binary = shutil.which("xrootd")
    with suppress(NotInstalledError):
        peer = Xrootd(bench.directory("long-xrootd"), tree, "xrootd5", Path(binary) if binary else None)
        servers["xrootd"] = bench.start(peer)
    asks = {who: lambda server=server: bench.ask(server, ["list"], "/long") for who, server in servers.items()}
    for who, samples in bench.in_turn("listing", asks).items():
        seconds = median(samples, lambda one: one.seconds)
        mine = ("≤ 3 s", seconds <= 3) if who == "backplane" else ("", None)
        memory = max(one.memory.anonymous for one in samples) / (1 << 20)
        cpu = median(samples, lambda one: (one.server_cpu_s or 0.0) * 1e6)
        shown = [f"{seconds:.2f} s", "", number(cpu), number(memory)]
        bench.add(Row(f"listing of {bench.options.entries} entries with attributes", who, shown, *mine))


def measure_scan(bench: Bench, ours: Backplane) -> None:
    """Compare opens while a scan works with opens at rest, for two loads; then scan all of it."""
    ours.bp("scan", "start")
    most = beside_scan(bench, ours, "as many opens as are answered", None)
    beside_scan(bench, ours, "half as many", int(most / 2))
    ours.bp("scan", "stop")
    time.sleep(SCAN_STOPS_S)
    opens = opens_of(bench, ours, None)
    began = time.monotonic()
    ours.bp("scan", "start")
    while scan_state(ours)["state"] != "done" and time.monotonic() - began < SCAN_S:
        opens()
    seconds = time.monotonic() - began
    bench.runs["scan"] = [scan_state(ours) | {"seconds": seconds}]
    shown = [number(bench.options.entries / seconds), "", "", number(memory_of(ours))]
    whole = (f"≤ 300 s: {seconds:.0f} s", seconds <= 300)
    bench.add(Row(f"scan of {bench.options.entries} objects beside these opens", "backplane", shown, *whole))


def scan_state(ours: Backplane) -> dict[str, Any]:
    """Read how far the scan has come."""
    (scan,) = json.loads(ours.bp("--json", "scan", "status"))["scans"]
    found: dict[str, Any] = scan
    return found


def opens_of(bench: Bench, ours: Backplane, rate: int | None) -> Callable[[], Sample]:
    """Open files that are in nobody's way for a second, as often as they are answered or at a rate."""
    span = ["--duration", "1s", "--sessions", str(SESSIONS), *(["--rate", str(rate)] if rate else [])]
    path = "/long/event-0000000{n}.raw"
    return lambda: sampled(ours.pid, lambda: bench.load.run(ours, ["open"], span, path))


def beside_scan(bench: Bench, ours: Backplane, load: str, rate: int | None) -> float:
    """Stop a running scan and have it go on, in turn, so that both meet the same machine. Opens a second at rest."""
    opens = opens_of(bench, ours, rate)
    opens()
    looks = scan_state(ours)["looks"]
    at_rest: list[Sample] = []
    during: list[Sample] = []
    for _ in range(bench.options.runs * 2):
        ours.bp("scan", "stop")
        time.sleep(SCAN_STOPS_S)
        at_rest.extend(opens() for _ in range(SCAN_WINDOWS))
        ours.bp("scan", "resume")
        # The disk server has heard of it, and the first look is over.
        time.sleep(0.3)
        during.extend(opens() for _ in range(SCAN_WINDOWS))
    looks = scan_state(ours)["looks"] - looks
    rest, busy = median(at_rest, p99_us), median(during, p99_us)
    each = {"rest_p99_us": [p99_us(one) for one in at_rest], "busy_p99_us": [p99_us(one) for one in during]}
    bench.runs[f"scan, {load}"] = [each | {"looks": looks}]
    if looks < len(during) * SCAN_LOOKS_MIN:
        raise AssertionError(f"the scan looked at {looks} objects only: nothing was compared")
    bench.add(Row(f"opens with close, {load}, at rest", "backplane", figures(at_rest)))
    kept = (f"p99 ≤ 1.2 of that: {busy / rest:.2f}", busy <= 1.2 * rest)
    bench.add(Row(f"opens with close, {load}, during a scan", "backplane", figures(during), *kept))
    return median(at_rest, lambda one: one.operations / one.seconds)


# A head with many files


def filled(bench: Bench, files: int) -> Backplane:
    """Make a facility whose catalogue has so many files, on a disk server that is far away; start it."""
    place = bench.directory(f"files-{files}")
    ours = Backplane(place, bench.options.bin, bench.directory(f"files-{files}-data"))
    ours.start()
    bench.stack.callback(ours.stop)
    ours.stop()
    options = argparse.Namespace(**{**vars(bench.options), "files": files})
    catalogue = str(ours.directory / "catalogue.sqlite")
    rate = load(options, catalogue, "--partition", "far", "fill", str(files))["operations_per_s"]
    print(f"filled with {files} files: {number(rate)} a second", flush=True)
    return ours


def start(bench: Bench, ours: Backplane, files: int) -> None:
    """Start a facility until its doors are open, and ask for its state."""
    began = time.monotonic()
    ours.resume()
    seconds = time.monotonic() - began
    began = time.monotonic()
    ours.bp("status")
    asked = time.monotonic() - began
    shown = [f"{seconds:.2f} s", "", "", number(memory_of(ours))]
    bench.add(Row(f"start with {files} files", "backplane", shown, "≤ 5 s", seconds <= LONGEST_START_S))
    bench.add(Row(f"bp status with {files} files", "backplane", [f"{asked:.2f} s", "", "", ""]))


def opens_of_any(bench: Bench, ours: Backplane, used: int) -> Sample:
    """Open any of the first files for a while."""
    options = ["--duration", "3s", "--sessions", str(SESSIONS), "--files", str(used)]
    return sampled(ours.pid, lambda: bench.load.run(ours, ["open"], options, "/data/d{d}/f{r}"))


def measure_files(bench: Bench) -> None:
    """Compare a head with few files and one with many: start, memory, opens of files that were not used lately."""
    few, many = 10_000, bench.options.files
    servers = {files: filled(bench, files) for files in (few, many)}
    for files, ours in servers.items():
        start(bench, ours, files)

    def opens(files: int, used: int) -> Sample:
        return opens_of_any(bench, servers[files], used)

    # How many files there are, and how many of them are used.
    cases = {f"{used} of {files}": (files, used) for files, used in ((few, few), (many, few), (many, many))}
    for _ in range(WARMING_RUNS):
        opens(many, many)
    samples = bench.in_turn("opens", {name: lambda case=case: opens(*case) for name, case in cases.items()})
    p99 = {name: median(taken, p99_us) for name, taken in samples.items()}
    least = next(iter(p99.values()))
    for name, taken in samples.items():
        ratio = p99[name] / least
        verdict = ("", None) if ratio == 1 else (f"p99 ≤ 2 of the first: {ratio:.2f}", ratio <= 2)
        bench.add(Row(f"opens with redirect of any {name} files, 8 sessions", "backplane", figures(taken), *verdict))
    all_samples = [one for taken in samples.values() for one in taken]
    memory = max(memory_of(servers[many]), *(one.memory.anonymous / (1 << 20) for one in all_samples))
    bound = CACHE_MIB + 300
    bench.add(
        Row("memory of the head then", "backplane", ["", "", "", number(memory)], f"≤ {bound} MiB", memory <= bound)
    )

    measure_changing(bench, servers)


@contextmanager
def changing(ours: Backplane) -> Iterator[None]:
    """Make directories, so many a second: what doors have kept is asked for again."""
    ended = threading.Event()
    made: list[int] = []

    def make() -> None:
        door = http.client.HTTPConnection("127.0.0.1", ours.http_port, timeout=30)
        while not ended.wait(1 / CHANGES_PER_S):
            door.request("MKCOL", f"/made-{time.monotonic_ns()}")
            answer = door.getresponse()
            answer.read()
            made.append(answer.status)

    maker = threading.Thread(target=make)
    maker.start()
    try:
        yield
    finally:
        ended.set()
        maker.join()
    if not made or set(made) != {HTTPStatus.CREATED}:
        raise AssertionError(f"directories were not made: {set(made)}")


def measure_changing(bench: Bench, servers: dict[int, Backplane]) -> None:
    """Compare opens while the namespace changes all the time, so that each facility asks its catalogue."""

    def opens(files: int) -> Sample:
        with changing(servers[files]):
            return opens_of_any(bench, servers[files], files)

    asks = {str(files): lambda files=files: opens(files) for files in servers}
    taken = bench.in_turn("opens while directories are made", asks)
    p99 = [median(samples, p99_us) for samples in taken.values()]
    for (files, samples), one in zip(taken.items(), p99, strict=True):
        ratio = one / p99[0]
        verdict = ("", None) if one is p99[0] else (f"p99 ≤ 2 of the first: {ratio:.2f}", ratio <= 2)
        what = f"opens of any of {files} files, while {CHANGES_PER_S} directories a second are made"
        bench.add(Row(what, "backplane", figures(samples), *verdict))


# The report


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench.scale", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entries", type=int, default=1_000_000, help="files of the long directory [1000000]")
    parser.add_argument("--files", type=int, default=10_000_000, help="files of the large catalogue [10000000]")
    parser.add_argument("--runs", type=int, default=5, help="runs of each [5]")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"only these [{','.join(PARTS)}]")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="a directory on a real disk")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where the results go")
    parser.add_argument("--bin", type=Path, default=ROOT / "target" / "release", help="where the programs are")
    return parser.parse_args(arguments)


def report(bench: Bench) -> str:
    """Write the table."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    described = machine.describe(bench.place)
    parts = [
        "# A facility with many files, measured",
        f"{today}. Medians of {bench.options.runs} runs, systems in turn; both ends on one machine.",
        "## Machine",
        table(["", ""], [[key, str(value)] for key, value in described.items()], left=2),
        "## Figures",
        "CPU: processor time of the server for one answer. MiB: largest memory of the server without mapped files; of\n"
        "a head without doors, with its clients. An open with redirect is answered with where the file is.",
        table(["", "of", "/s", "p99 µs", "CPU µs", "MiB", "set out", ""], [row.cells() for row in bench.rows], left=2),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the table."""
    options = options_of(arguments)
    parts = options.parts.split(",")
    with ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="bench-scale-", dir=options.disk))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o755)
        bench = Bench(options, place, Load(options.bin / "rfio-load"), stack)
        if "opens" in parts:
            measure_opens(bench)
        if "list" in parts or "scan" in parts:
            with adopted(bench) as (ours, tree):
                if "list" in parts:
                    measure_list(bench, ours, tree)
                if "scan" in parts:
                    measure_scan(bench, ours)
        if "files" in parts:
            measure_files(bench)
        text = report(bench)
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.out / f"scale-{datetime.datetime.now(tz=datetime.UTC).date()}"
    name.with_suffix(".json").write_text(json.dumps(bench.runs, indent=1, default=str))
    name.with_suffix(".md").write_text(text)
    print(f"wrote {name}.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
