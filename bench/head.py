"""Measures what one head does in a second: names, creates, opens and listings, without doors.

``make bench-head`` builds first and then runs ``python -m bench.head``. Engines are measured in turn: SQLite in a file
on a real disk, PostgreSQL in a private server of Debian's package beside it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import machine
from .report import number, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


@dataclass(frozen=True)
class Case:
    """One kind of call, from so many clients."""

    task: str
    clients: int
    text: str
    floor: float | None = None
    """Operations a second that have been set out to be reached on SQLite; on PostgreSQL half of it, where it writes."""

    @property
    def name(self) -> str:
        """Name it, unlike any other."""
        return f"{self.text}, {self.clients} client{'s' if self.clients > 1 else ''}"

    @property
    def writes(self) -> bool:
        """Tell whether the calls have to be durable."""
        return self.task in ("mkdir", "create", "write")


CASES = [
    Case("mkdir", 1, "directories"),
    Case("mkdir", 64, "directories"),
    Case("create", 1, "creates", 3_000),
    Case("create", 64, "creates", 25_000),
    Case("write", 64, "creates and commits"),
    Case("lookup-inside", 1, "look-ups inside the head", 300_000),
    Case("lookup", 64, "look-ups"),
    Case("open", 64, "opens"),
    Case("list", 1, "listings of 1000"),
]


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench.head", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=100_000, help="files that are there before [100000]")
    parser.add_argument("--runs", type=int, default=5, help="runs of each [5]")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a run [2]")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="a directory on a real disk")
    parser.add_argument("--engines", default="sqlite,postgresql", help="only these [sqlite,postgresql]")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where the results go")
    parser.add_argument("--bin", type=Path, default=ROOT / "target" / "release", help="where head-load is")
    return parser.parse_args(arguments)


@contextmanager
def postgresql(directory: Path) -> Iterator[str]:
    """Run a private server with its defaults; the URL of an empty database."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not versions:
        raise FileNotFoundError("PostgreSQL is not installed (Debian: postgresql)")
    programs = versions[-1].parent
    owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    directory.mkdir()
    os.chown(directory, owner.pw_uid, owner.pw_gid)

    def call(*command: str | Path) -> None:
        identity: dict[str, Any] = {"user": owner.pw_uid, "group": owner.pw_gid} if os.geteuid() == 0 else {}
        with (directory / "log").open("ab") as log:
            subprocess.run(command, check=True, cwd="/", stdout=log, stderr=log, **identity)

    data = directory / "data"
    (directory / "log").touch()
    os.chown(directory / "log", owner.pw_uid, owner.pw_gid)
    call(programs / "initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--locale=C")
    sockets = f"-k '{directory}' -c listen_addresses="
    call(programs / "pg_ctl", "-D", data, "-l", directory / "server.log", "-w", "-o", sockets, "start")
    try:
        call(programs / "createdb", "-h", directory, "bench")
        quoted = str(directory).replace("/", "%2F")
        yield f"postgresql://{owner.pw_name}@{quoted}/bench"
    finally:
        call(programs / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop")


def load(options: argparse.Namespace, catalogue: str, *arguments: str) -> dict[str, Any]:
    """Run the generator once."""
    command = [options.bin / "head-load", "--catalogue", catalogue, "--files", str(options.files), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def median(runs: list[dict[str, Any]], key: str) -> float:
    """Middle one of several runs."""
    return statistics.median(run[key] for run in runs)


def measure(options: argparse.Namespace, catalogues: dict[str, str]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Measure all cases, the engines in turn."""
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for case in CASES:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in catalogues}
        for _ in range(options.runs):
            for name, catalogue in catalogues.items():
                length = f"{options.seconds * 1000:.0f}ms"
                run = load(options, catalogue, "--clients", str(case.clients), "--duration", length, case.task)
                runs[name].append(run)
        for name, mine in runs.items():
            rate = number(median(mine, "operations_per_s"))
            print(f"{case.name:<44} {name:<11} {rate:>9} /s", flush=True)
        results[case.name] = runs
    return results


def verdict(case: Case, engine: str, rate: float) -> list[str]:
    """Say what has been set out, and whether it was reached."""
    if case.floor is None or (engine != "sqlite" and not case.writes):
        return ["", ""]
    floor = case.floor if engine == "sqlite" else case.floor / 2
    return [f"≥ {number(floor)}", "reached" if rate >= floor else "missed"]


def report(options: argparse.Namespace, results: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Write the tables."""
    rows = []
    for case in CASES:
        for engine, runs in results[case.name].items():
            rate = median(runs, "operations_per_s")
            latencies = [number(median(runs, key)) for key in ("p50_us", "p99_us")]
            memory = number(median(runs, "rss_mib"))
            rows.append(
                [case.text, str(case.clients), engine, number(rate), *latencies, memory, *verdict(case, engine, rate)]
            )
    header = ["call", "clients", "engine", "/s", "p50 µs", "p99 µs", "MiB", "set out", ""]
    today = datetime.datetime.now(tz=datetime.UTC).date()
    described = machine.describe(options.disk / "catalogue")
    parts = [
        "# One head, measured",
        f"{today}. Medians of {options.runs} runs of {options.seconds} s, engines in turn; {options.files} files.",
        "## Machine",
        table(["", ""], [[key, str(value)] for key, value in described.items()], left=2),
        "## Calls",
        "Directories, creates and commits are durable before they are answered. Calls come from threads other than\n"
        "the head's, but where the table says so. MiB: largest memory of the head with its clients.",
        table(header, rows),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Measure and write tables."""
    options = options_of(arguments)
    with ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="bench-head-", dir=options.disk))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o755)
        catalogues = {}
        for engine in options.engines.split(","):
            if engine == "sqlite":
                catalogues[engine] = str(place / "catalogue")
            else:
                catalogues[engine] = stack.enter_context(postgresql(place / "server"))
        for engine, catalogue in catalogues.items():
            filled = load(options, catalogue, "fill", str(options.files))
            print(f"filled {engine}: {number(filled['operations_per_s'])} files/s", flush=True)
        results = measure(options, catalogues)
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.out / f"head-{datetime.datetime.now(tz=datetime.UTC).date()}"
    name.with_suffix(".json").write_text(json.dumps(results, indent=1))
    name.with_suffix(".md").write_text(report(options, results))
    print(f"wrote {name}.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
