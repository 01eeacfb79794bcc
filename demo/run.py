"""The main job of a facility, from generator to Z peak: ``make demo`` runs this.

Batch jobs make events and archive them; they leave the disks; a job that needs them brings them back; and a physicist
looks at them from Python. Everything is real: the programs, the tape labels, the queues and the waiting.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import backplane
from zpeak import BINS, CUT, MASS, RANGE, draw, fit_peak

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DATA = "/data/z"
START = time.monotonic()
# Longest patience with any step.
PATIENCE_S = 600.0
TOLERANCE_GEV = 0.5


def say(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"{time.monotonic() - START:7.1f} s  {text}", flush=True)


def headline(text: str) -> None:
    """Print the name of a step."""
    print(f"\n── {text} {'─' * max(0, 90 - len(text))}", flush=True)


def bp(*arguments: str) -> None:
    """Run a verb of the command line, in the open."""
    binary = ROOT / "target" / "release" / "bp"
    print(f"$ bp {' '.join(arguments)}", flush=True)
    subprocess.run([binary, *arguments], check=True, timeout=PATIENCE_S)


class Watcher(threading.Thread):
    """Prints what jobs and drives do, and why they wait, whenever it changes."""

    def __init__(self, facility: backplane.Facility) -> None:
        super().__init__(daemon=True)
        self._facility = facility
        self._seen: dict[str, str] = {}
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Look ten times a second until told to stop."""
        while not self._stop_asked.wait(0.1):
            self.look()

    def look(self) -> None:
        """Print what is new."""
        status = self._facility.status()
        for drive in status["drives"]:
            self._tell(drive["name"], describe_drive(drive))
        for job in reversed(status["jobs"]):
            self._tell(f"job {job['id']}", f"{job['spec']['name']:8} {describe_job(job)}")

    def stop(self) -> None:
        """Stop, after a last look."""
        self._stop_asked.set()
        self.join()
        self.look()

    def _tell(self, what: str, now: str) -> None:
        before = self._seen.get(what)
        # A countdown is not news.
        news = re.sub(r"in [0-9.]+ s", "soon", now)
        self._seen[what] = news
        is_old = before is None and (now.startswith("idle") or now.endswith("done"))
        if news != before and not is_old:
            say(f"{what:12} {now}")


def describe_drive(drive: dict[str, Any]) -> str:
    """Describe a drive in words."""
    volume = drive["vid"] or "empty"
    if drive["trouble"]:
        return f"out of use: {drive['trouble']}"
    if drive["phase"] == "idle":
        return f"idle, {volume}"
    what = f" {drive['path']}" if drive["path"] else ""
    return f"{drive['phase'].replace('_', ' ')} {volume}{what}"


def describe_job(job: dict[str, Any]) -> str:
    """Describe a job in words."""
    reason = job.get("reason")
    return f"{job['state']}: {reason}" if reason else str(job["state"])


@contextmanager
def watched(facility: backplane.Facility) -> Iterator[None]:
    """Print what happens inside the block."""
    watcher = Watcher(facility)
    watcher.start()
    try:
        yield
    finally:
        watcher.stop()


def start_facility(place: Path) -> backplane.Facility:
    """Make and start a facility in an empty place."""
    if (place / "endpoints.json").exists():
        bp("down", str(place))
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    # Small cartridges, so that the data spread over several, and a load that takes as long as one can watch.
    tape = ["--drives", "2", "--slots", "8", "--volumes", "6", "--volume-size", "1MiB", "--load-time", "1500ms"]
    bp("create", str(place), "--name", "zpeak-demo", *tape)
    bp("up", str(place), "--detach", "--root-port", "0", "--http-port", "0")
    return backplane.connect(place)


def run_jobs(facility: backplane.Facility, jobs: list[int]) -> None:
    """Wait for jobs; one that fails ends the demonstration with what it printed."""
    for job in facility.wait_for_jobs(jobs, wait_s=PATIENCE_S):
        if job["state"] != "done":
            print(facility.job_log(job["id"])["stderr"], file=sys.stderr)
            sys.exit(f"job {job['id']} ({job['spec']['name']}) {describe_job(job)}")


def produce(facility: backplane.Facility, runs: int, events: int) -> list[str]:
    """Make events in batch; each job writes an n-tuple and archives it."""
    facility.mkdir(DATA, parents=True)
    paths = [f"{DATA}/run{run:02}.parquet" for run in range(1, runs + 1)]
    program = [sys.executable, str(HERE / "generate_muons.py")]
    with watched(facility):
        jobs = [
            facility.submit(
                [*program, str(run), str(events), "muons.parquet"],
                outputs={"muons.parquet": path},
                name=f"run{run:02}",
                archive=True,
            )
            for run, path in enumerate(paths, 1)
        ]
        run_jobs(facility, jobs)
    return paths


def can_mount(facility: backplane.Facility) -> bool:
    """Tell whether a worker mounts the facility for jobs: one that is root, on a host with FUSE."""
    return any("mount" in worker.get("labels", []) for worker in facility.status()["workers"])


def select(facility: backplane.Facility, paths: list[str]) -> None:
    """Submit a job that needs files that are only on tape, and watch them come back by themselves."""
    names = {path: path.rpartition("/")[2] for path in paths}
    mount = can_mount(facility)
    if mount:
        say("the job has the facility mounted: it reads its inputs by their path, and nothing is copied")
    else:
        say("no worker here can mount (it takes root and /dev/fuse): the inputs of the job are copied")
    program = [sys.executable, str(HERE / "select_muons.py"), "selected.parquet", *names.values()]
    with watched(facility):
        job = facility.submit(
            program,
            inputs=names,
            outputs={"selected.parquet": f"{DATA}/selected.parquet"},
            name="select",
            archive=True,
            mount=mount,
        )
        run_jobs(facility, [job])
    say(facility.job_log(job)["stdout"].strip())


def analyse(facility: backplane.Facility, picture: Path) -> float:
    """Fill the mass over the chain, fit the peak, draw it. Returns the mass in GeV."""
    chain = facility.ntuple(f"{DATA}/run*.parquet").define("mass", MASS)
    for turn in ("from the disk server", "from the column cache"):
        began = time.monotonic()
        histogram = chain.hist("mass", bins=BINS, range=RANGE, where=CUT, progress=turn.startswith("from the disk"))
        say(f"{len(chain):,} entries histogrammed {turn} in {(time.monotonic() - began) * 1e3:.0f} ms")
    fit = fit_peak(histogram)
    title = f"Z → μμ, Pythia 8, pp at 13 TeV: {int(histogram.sum()):,} pairs"
    draw(histogram, fit, picture, title)
    say(f"fitted Z mass {fit.mass:.3f} ± {fit.mass_error:.3f} GeV, width {fit.width:.2f} GeV")
    return fit.mass


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "demo-out", help="where the facility and the picture go")
    parser.add_argument("--runs", type=int, default=6, help="generator jobs")
    parser.add_argument("--events", type=int, default=8000, help="events of each job")
    parser.add_argument("--stop", action="store_true", help="stop the facility at the end")
    options = parser.parse_args()
    place, picture = options.out / "facility", options.out / "zpeak.png"

    headline("1. A facility: disk, tape, batch and head in one process")
    facility = start_facility(place)
    headline(f"2. {options.runs} batch jobs make Z → μμ events with Pythia 8 and archive them to tape")
    paths = produce(facility, options.runs, options.events)
    headline("3. The files leave the disks")
    bp("-f", str(place), "evict", *paths)
    bp("-f", str(place), "ls", "-l", DATA)
    headline("4. A selection job names the nearline files as inputs: recall, hold, release, dispatch")
    select(facility, paths)
    headline("5. The dimuon mass over the chain, from Python")
    mass = analyse(facility, picture)
    headline("6. The bill")
    bp("-f", str(place), "bill")
    bp("-f", str(place), "volumes")

    headline("Done")
    print(f"Z mass   {mass:.3f} GeV")
    print(f"picture  {picture}")
    if options.stop:
        bp("down", str(place))
    else:
        endpoints = json.loads((place / "endpoints.json").read_text())
        print(f"console  {endpoints['http']}/console")
        print(f"explore  export BP_FACILITY={place}; bp status")
        print(f"stop     bp down {place}")
    if abs(mass - 91.19) > TOLERANCE_GEV:
        sys.exit(f"the fitted mass {mass:.2f} GeV is not within {TOLERANCE_GEV} GeV of 91.19")


if __name__ == "__main__":
    main()
