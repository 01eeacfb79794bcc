"""Measure a mounted facility beside a local file system and GlusterFS: tables, and plots.

``make bench-share`` builds first and then runs ``python -m bench.share``. Systems take turns, and all lie on one disk.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from .. import machine
from ..head import HERE, ROOT
from ..servers import NotInstalledError
from . import cases
from .report import Results, draw, report
from .systems import Gluster, Local, Mounts, System

KIB, MIB = 1 << 10, 1 << 20
BLOCKS = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
WAYS = {"buffered": (False, False), "direct": (True, False), "locked": (False, True)}
"""Ways to move blocks: past every cache, and with a lock around each."""


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench.share", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=10_000, help="small files [10000]")
    parser.add_argument("--mib", type=int, default=1024, help="MiB of a large file [1024]")
    parser.add_argument("--rounds", type=int, default=1000, help="locks [1000]")
    parser.add_argument("--runs", type=int, default=3, help="runs of each [3]")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="a directory on a real disk")
    parser.add_argument("--systems", default="local,backplane,glusterfs", help="only these, the first is the measure")
    parser.add_argument("--only", help="only cases whose name begins with this")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where the results go")
    parser.add_argument("--bin", type=Path, default=ROOT / "target" / "release", help="where bp and bpd are")
    return parser.parse_args(arguments)


Case = Callable[[System, cases.Mounts], cases.Figures]


def all_cases(options: argparse.Namespace, place: Path) -> dict[str, Case]:
    """Everything that is measured, by name."""
    size = options.mib * MIB
    found: dict[str, Case] = {
        "tree": partial(cases.tree, archive=cases.make_tree(place, options.files)),
        "git": partial(cases.clone, repository=cases.make_repository(place, options.files)),
        "metadata": partial(cases.metadata, program=cases.compiled(place), files=options.files),
        "locks": partial(cases.locks, rounds=options.rounds),
    }
    for way, (is_direct, is_locked) in WAYS.items():
        for block in BLOCKS:
            work = partial(cases.blocks, size=block, most=size, is_direct=is_direct, is_locked=is_locked)
            found[f"blocks.{way}.{block}"] = work
    for consumers in (1, 2, 4):
        found[f"producer.{consumers}"] = partial(cases.producer, size=size, consumers=consumers)
    return {name: case for name, case in found.items() if name.startswith(options.only or "")}


def started(options: argparse.Namespace, place: Path, stack: ExitStack) -> dict[str, tuple[System, cases.Mounts]]:
    """Start the systems that are there."""
    running = {}
    for name in options.systems.split(","):
        own = place / name
        own.mkdir()
        makers: dict[str, Callable[[], System]] = {
            "local": partial(Local, own),
            "backplane": partial(Mounts, own, options.bin),
            "glusterfs": partial(Gluster, own),
        }
        system = makers[name]()
        stack.callback(system.stop)
        try:
            running[name] = (system, system.start())
        except NotInstalledError as error:
            print(f"{name} is left out: {error}", flush=True)
    return running


def measure(options: argparse.Namespace, place: Path, stack: ExitStack) -> Results:
    """Measure all cases, the systems in turn; medians."""
    running = started(options, place, stack)
    results: Results = {}
    for name, case in all_cases(options, place).items():
        runs: dict[str, list[cases.Figures]] = {system: [] for system in running}
        for _ in range(options.runs):
            for system, (own, mounts) in running.items():
                runs[system].append(case(own, mounts))
        results[name] = {
            system: {figure: statistics.median(one[figure] for one in mine) for figure in mine[0]}
            for system, mine in runs.items()
        }
        print(name, json.dumps(results[name]), flush=True)
    return results


def main(arguments: list[str] | None = None) -> int:
    """Measure, write tables and plots."""
    options = options_of(arguments)
    described = machine.describe(options.disk / "share")
    with ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="bench-share-", dir=options.disk))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o755)
        results = measure(options, place, stack)
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.out / f"share-{datetime.datetime.now(tz=datetime.UTC).date()}"
    name.with_suffix(".json").write_text(json.dumps(results, indent=1))
    name.with_suffix(".md").write_text(report(results, described, options.runs))
    draw(results, name)
    print(f"wrote {name}.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
