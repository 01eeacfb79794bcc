"""Measures remote file I/O beside the servers and clients that others use.

``make bench-rfio`` builds first and then runs ``python -m bench.rfio``. Servers run on loopback, over files on the same
file system; systems are measured in turn, so that what the machine does meanwhile hits all alike.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import machine
from .cases import Bench, Case, Contender, chosen
from .clients import Bp, Client, Curl, IperfClient, Load, xrdcps
from .measure import CommandFailedError, run
from .report import markdown
from .results import Measured, Result, to_json, verdicts
from .servers import BIG, Backplane, Iperf, Nginx, NotInstalledError, Server, Xrootd, adler32_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
QUICK_CASES = [
    "download",
    "upload",
    "random.64",
    "stat.64",
    "open.1",
    "readv",
    "block.64KiB",
    "block.1MiB",
    "streams.[18]",
]
WARM_UP_RUNS = 1
"""Runs before those that count: the first one pays for page faults and growing buffers."""
BUSY_LOAD = 0.5
"""A machine with more to do than this gives figures that nobody should believe."""


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench.rfio", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few cases, short runs: does it work at all")
    parser.add_argument(
        "--cases", action="append", metavar="GLOB", help="only these cases, as block.* (may be repeated)"
    )
    parser.add_argument("--systems", default="", metavar="NAMES", help="only these servers, as backplane,xrootd6")
    parser.add_argument("--size", type=int, metavar="MIB", help="size of the file [2048; quick 64]")
    parser.add_argument("--runs", type=int, help="runs of each [5; quick 3]")
    parser.add_argument("--seconds", type=float, help="length of a run of the load generator [2; quick 0.3]")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where the results go")
    parser.add_argument("--data", type=Path, help="where the files go [/dev/shm, or the temporary directory]")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="a directory on a real disk")
    parser.add_argument("--bin", type=Path, default=ROOT / "target" / "release", help="where bp, bpd, rfio-load are")
    prefix = os.environ.get("XROOTD6")
    parser.add_argument("--xrootd6", type=Path, default=Path(prefix) if prefix else None, help="prefix of XRootD 6")
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    options = parser.parse_args(arguments)
    options.size = options.size or (64 if options.quick else 2048)
    options.runs = options.runs or (3 if options.quick else 5)
    options.seconds = options.seconds or (0.3 if options.quick else 2.0)
    options.cases = options.cases or (QUICK_CASES if options.quick else ["*"])
    if options.data is None:
        shared = Path("/dev/shm")
        options.data = shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
    return options


def make_bench(options: argparse.Namespace, place: Path, data: Path, disk: Path) -> Bench:
    """Name all servers and clients; nothing is started."""
    tree, disk_tree = data / "tree", disk / "tree"
    for directory in (data, disk, tree, disk_tree):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
    six = options.xrootd6 / "bin" / "xrootd" if options.xrootd6 else None
    five = shutil.which("xrootd")
    servers: list[Server] = [
        Backplane(place, options.bin, data),
        Xrootd(place, tree, "xrootd6", six),
        Xrootd(place, tree, "xrootd5", Path(five) if five else None),
        Nginx(place, tree),
        Iperf(place),
        Xrootd(place, disk_tree, "xrootd6-disk", six),
    ]
    for name, is_direct in (("backplane-disk", False), ("backplane-direct", True)):
        server = Backplane(place / name, options.bin, disk, is_direct)
        server.name, server.label = name, name.replace("backplane-", "Backplane, ").replace("disk", "buffered")
        servers.append(server)
    clients: dict[str, Client] = {**xrdcps(options.xrootd6), "bp": Bp(options.bin), "curl": Curl()}
    clients["iperf3"] = IperfClient()
    load = Load(options.bin / "rfio-load")
    size = options.size << 20
    return Bench({server.name: server for server in servers}, clients, load, data / "source", size, "", options.seconds)


def start(bench: Bench, wanted: set[str], stack: ExitStack) -> dict[str, NotInstalledError]:
    """Start the servers that are wanted; why the others are missing."""
    missing: dict[str, NotInstalledError] = {}
    for name in sorted(wanted):
        server = bench.servers[name]
        try:
            server.place.mkdir(exist_ok=True)
            stack.callback(server.stop)
            server.start()
            put(bench, server)
        except NotInstalledError as why:
            missing[name] = why
    return missing


def put(bench: Bench, server: Server) -> None:
    """Give a server the file; one on another file system gets a copy, the others a link."""
    source = bench.source
    tree = getattr(server, "tree", None)
    if tree is not None and tree.stat().st_dev != source.stat().st_dev:
        shutil.copyfile(source, tree / BIG.lstrip("/"))
    else:
        server.put(source, BIG)


def measure(case: Case, missing: dict[str, NotInstalledError], runs: int) -> Result:
    """Run the contenders of a case in turn."""
    result = Result(case, [Measured(one.name, one.label, one.note) for one in case.contenders])
    pairs = list(zip(case.contenders, result.measured, strict=True))
    for turn in range(WARM_UP_RUNS + runs):
        for contender, measured in pairs:
            if not (measured.missing or measured.failed):
                _run_once(contender, measured, missing, counts=turn >= WARM_UP_RUNS)
    return result


def _run_once(contender: Contender, measured: Measured, missing: dict[str, NotInstalledError], *, counts: bool) -> None:
    try:
        if contender.server in missing:
            raise missing[contender.server]
        measured.command = shlex.join(contender.command())
        sample = contender.work()
        if counts:
            measured.samples.append(sample)
    except NotInstalledError as why:
        measured.missing, measured.missing_word = str(why), why.word
    except (CommandFailedError, AssertionError, OSError, ValueError) as why:
        measured.failed = str(why)


def say(result: Result) -> None:
    """Print a line for each contender."""
    for one in result.measured:
        rate = one.median("rate", result.case.unit)
        if rate is None:
            print(f"  {one.label:34} {one.missing or one.failed}", flush=True)
            continue
        is_bytes = result.case.unit == "bytes"
        shown = f"{rate / 1e9:8.3f} GB/s" if is_bytes else f"{rate:10,.0f} /s  "
        server = one.median("server_cpu", result.case.unit)
        scale, unit = (1e9, "s/GB") if is_bytes else (1e6, "µs  ")
        cost = f"server {server * scale:8.3f} {unit}" if server is not None else ""
        ratio = result.ratio(one)
        print(
            f"  {one.label:34} {shown}  {cost}  ratio {ratio:.2f}" if ratio else f"  {one.label:34} {shown}  {cost}",
            flush=True,
        )


def measure_all(options: argparse.Namespace, stack: ExitStack) -> tuple[list[Result], dict[str, Any]]:
    """Start servers, run all cases, collect."""
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rfio-")))
    place.chmod(0o755)
    data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rfio-", dir=options.data)))
    disk = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rfio-", dir=options.disk)))
    described = machine.describe(data)
    bench = make_bench(options, place, data, disk)
    systems = [name for name in options.systems.split(",") if name]
    wanted = {one.server for case in chosen(bench.cases(), options.cases, systems) for one in case.contenders}
    run([str(bench.load.program), "fill", str(bench.source), str(bench.size)])
    bench.source.chmod(0o644)
    bench.adler32 = adler32_of(bench.source)
    missing = start(bench, wanted, stack)
    results = []
    # Labels carry versions, which are known now.
    for case in chosen(bench.cases(), options.cases, systems):
        print(f"{case.name}: {case.title}", flush=True)
        results.append(measure(case, missing, options.runs))
        say(results[-1])
    versions = {name: bench.servers[name].version or str(missing.get(name, "")) for name in sorted(wanted)}
    stated = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
        "runs": options.runs,
        "size_mib": options.size,
        "seconds": options.seconds,
        "quick": options.quick,
        "servers": {name: shlex.join(bench.servers[name].command) for name in sorted(wanted - missing.keys())},
    }
    return results, to_json(results, described, versions, stated)


def write(results: list[Result], document: dict[str, Any], out: Path) -> list[Path]:
    """Write JSON, tables and plots."""
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"rfio-{document['options']['date'][:10]}"
    raw, tables = stem.with_suffix(".json"), stem.with_suffix(".md")
    raw.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    tables.write_text(markdown(results, document))
    try:
        from .plots import draw
    except ImportError as why:
        print(f"no plots: {why}", file=sys.stderr)
        return [raw, tables]
    return [raw, tables, *draw(results, stem, footnote(document))]


def footnote(document: dict[str, Any]) -> str:
    """Say in a line what the plots were measured on, and how."""
    described, stated = document["machine"], document["options"]
    return (
        f"{described['processor']}, {described['cores']} cores, Linux {described['kernel']}, loopback, files in "
        f"{described['files on']}.\nPoints: medians of {stated['runs']} runs; bands: all runs. {stated['date'][:10]}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; 1 if something that is installed failed."""
    options = options_of(arguments)
    if options.list:
        with tempfile.TemporaryDirectory() as there:
            bench = make_bench(options, Path(there), Path(there), Path(there))
            for case in chosen(bench.cases(), options.cases, []):
                print(f"{case.name:16} {case.title}")
        return 0
    if os.getloadavg()[0] > BUSY_LOAD:
        print(f"warning: the machine is busy (load {os.getloadavg()[0]:.1f}); figures will be noisy", file=sys.stderr)
    # Whoever ends the run wants no servers left behind, nor gigabytes in memory.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(f"ended by {signal.Signals(number).name}"))
    began = time.monotonic()
    with ExitStack() as stack:
        results, document = measure_all(options, stack)
    print("\ntargets")
    for verdict in verdicts(results):
        shown = "" if verdict.measured is None else f"{verdict.measured:.2f}"
        sign = "≥" if verdict.target.is_floor else "≤"
        print(f"  {verdict.target.text:62} {sign} {verdict.target.bound:5g}  {shown:>7}  {verdict.word}")
    for file in write(results, document, options.out):
        print(f"wrote {file}")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if any(one.failed for result in results for one in result.measured) else 0


if __name__ == "__main__":
    sys.exit(main())
