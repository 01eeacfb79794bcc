"""Measures durable jobs a second, beside Slurm, GNU parallel, task spooler and xargs: ``make bench-batch``.

Every contender runs ``/bin/true`` so many times, two at a time, on this host; what is not installed is named in the
table. Only Backplane and Slurm keep jobs on disk, and only Backplane has a job on disk before it says that it took it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .machine import describe

SLOTS = 2
"""Jobs that run at a time."""
DEADLINE_S = 600.0
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Figure:
    """What one contender did."""

    name: str
    jobs: int
    jobs_s: float | None = None
    """From the first submission until all were over."""
    submit_ms: float | None = None
    """Median of what one submission took."""
    missing: str = ""


class Backplane:
    """A facility with one worker.

    Parameters
    ----------
    directory
        Where it is made.
    programs
        The directory of ``bp`` and ``bpd``.
    """

    def __init__(self, directory: Path, programs: Path) -> None:
        self.directory = directory
        self._bp = str(programs / "bp")
        self.bp("create", str(directory), "--volumes=1", f"--cpus={SLOTS}")

    def bp(self, *words: str) -> str:
        """Run ``bp``."""
        environment = {**os.environ, "BP_FACILITY": str(self.directory)}
        return subprocess.run(
            [self._bp, *words], env=environment, check=True, capture_output=True, text=True, timeout=DEADLINE_S
        ).stdout

    @contextmanager
    def up(self) -> Iterator[None]:
        """Run it."""
        self.bp("up", str(self.directory), "--detach", "--root-port=0", "--http-port=0")
        endpoints = json.loads((self.directory / "endpoints.json").read_text())
        self.pid = int(endpoints["pid"])
        address = urllib.parse.urlsplit(endpoints["http"]).netloc
        self._connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
        try:
            yield
        finally:
            self._connection.close()
            self.bp("down", str(self.directory))

    def call(self, name: str, wait_s: int = 0, **arguments: object) -> Any:
        """Make a call of the management API, over one connection."""
        target = f"/api/v1/{name}" + (f"?wait={wait_s}s" if wait_s else "")
        self._connection.request("POST", target, json.dumps(arguments), {"content-type": "application/json"})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{name}: {answer.status} {body.decode(errors='replace')}")
        return json.loads(body)

    def wait(self, selection: dict[str, object], count: int) -> None:
        """Wait until jobs are over, and look whether all went well."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            jobs = self.call("await_jobs", wait_s=20, **selection)["jobs"]
            if all(job["state"] == "done" for job in jobs):
                assert len(jobs) == count
                return
            if bad := [job for job in jobs if job["state"] in ("failed", "cancelled")]:
                raise RuntimeError(f"a job failed: {bad[0]}")
        raise RuntimeError(f"not all jobs are over after {DEADLINE_S:.0f} s")

    def each(self, count: int) -> Figure:
        """Submit jobs one by one."""
        begin, times, ids = time.perf_counter(), [], []
        for _ in range(count):
            before = time.perf_counter()
            ids.append(self.call("submit", spec={"command": ["/bin/true"], "name": "true"})["job"])
            times.append(time.perf_counter() - before)
        self.wait({"ids": ids}, count)
        return _figure("Backplane, one by one", count, begin, times)

    def array(self, count: int) -> Figure:
        """Submit an array."""
        begin = time.perf_counter()
        spec = {"command": ["/bin/true"], "name": "true"}
        first = self.call("submit", spec=spec, array={"indices": [{"start": 1, "end": count, "step": 1}]})["job"]
        taken = time.perf_counter() - begin
        self.wait({"select": [first]}, count)
        return _figure("Backplane, an array", count, begin, [taken])

    def waiting(self, count: int) -> dict[str, float]:
        """Let jobs wait, and say what the head needs for them."""
        before = _resident_mib(self.pid)
        begin = time.perf_counter()
        spec = {"command": ["/bin/true"], "name": "true", "held": True}
        first = self.call("submit", spec=spec, array={"indices": [{"start": 1, "end": count, "step": 1}]})["job"]
        submitted, grown = time.perf_counter() - begin, _resident_mib(self.pid)
        begin = time.perf_counter()
        listed = self.call("jobs", elements=True, brief=True, limit=count)["jobs"]
        listing = time.perf_counter() - begin
        begin = time.perf_counter()
        self.call("cancel_jobs", jobs=[first])
        cancelled = time.perf_counter() - begin
        assert len(listed) == count
        return {
            "jobs": count,
            "submit_s": submitted,
            "list_s": listing,
            "cancel_s": cancelled,
            "resident_mib_before": before,
            "resident_mib": grown,
        }


def _resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _figure(name: str, count: int, begin: float, times: list[float]) -> Figure:
    seconds = time.perf_counter() - begin
    return Figure(name, count, count / seconds, statistics.median(times) * 1000 if times else None)


def _missing(name: str, count: int, what: str) -> Figure:
    return Figure(name, count, missing=what)


def _command(name: str, program: str, count: int, words: list[str], given: str | None = None) -> Figure:
    """Measure a program that runs all jobs by itself."""
    if shutil.which(program) is None:
        return _missing(name, count, f"{program} is not installed")
    begin = time.perf_counter()
    subprocess.run(words, input=given, text=True, check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_S)
    return _figure(name, count, begin, [])


def xargs(count: int) -> Figure:
    """Run them without any queue: the floor."""
    given = "\n".join(map(str, range(count)))
    return _command("xargs -P", "xargs", count, ["xargs", f"-P{SLOTS}", "-n1", "/bin/true"], given)


def parallel(count: int) -> Figure:
    """GNU parallel."""
    given = "\n".join(map(str, range(count)))
    return _command("GNU parallel", "parallel", count, ["parallel", "--will-cite", f"-j{SLOTS}", "/bin/true"], given)


def spooler(count: int) -> Figure:
    """Task spooler."""
    if shutil.which("tsp") is None:
        return _missing("task spooler", count, "tsp is not installed (the package task-spooler)")
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "TS_SOCKET": f"{directory}/socket", "TMPDIR": directory}

        def tsp(*words: str) -> None:
            subprocess.run(["tsp", *words], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_S)

        tsp("-S", str(SLOTS))
        try:
            begin, times = time.perf_counter(), []
            for _ in range(count):
                before = time.perf_counter()
                tsp("-n", "/bin/true")
                times.append(time.perf_counter() - before)
            # It waits for the last one; with two at a time the one before may run a moment longer.
            tsp("-w")
            return _figure("task spooler", count, begin, times)
        finally:
            tsp("-K")


def slurm(count: int) -> list[Figure]:
    """Slurm, as the tests start it: jobs one by one, then an array."""
    names = ("Slurm, one by one", "Slurm, an array")
    if lacking := [one for one in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(one) is None]:
        return [_missing(name, count, f"{lacking[0]} is not installed") for name in names]
    if os.getuid() != 0:
        return [_missing(name, count, "only root can start a Slurm") for name in names]
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from slurm import slurm as started
    except ImportError as cause:
        return [_missing(name, count, f"the tests' Python packages are missing: {cause}") for name in names]
    with started() as cluster, tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        script = place / "job"
        script.write_text("#!/bin/sh\nexec /bin/true\n")
        options = ["--parsable", "--output=/dev/null", f"--cpus-per-task={cluster.cpus // SLOTS}"]

        def run(name: str, submissions: list[list[str]]) -> Figure:
            begin, times = time.perf_counter(), []
            for words in submissions:
                before = time.perf_counter()
                cluster("sbatch", *options, *words, script, cwd=place)
                times.append(time.perf_counter() - before)
            end = time.monotonic() + DEADLINE_S
            while cluster("squeue", "--noheader", "--states=pending,running,completing", cwd=place).out.strip():
                if time.monotonic() > end:
                    raise RuntimeError(f"Slurm still has jobs after {DEADLINE_S:.0f} s")
                time.sleep(0.1)
            return _figure(name, count, begin, times)

        return [run(names[0], [[]] * count), run(names[1], [[f"--array=1-{count}"]])]


def table(figures: list[Figure]) -> str:
    """Figures as a table in Markdown."""
    lines = ["| | jobs | jobs/s | submission, ms |", "| --- | --- | --- | --- |"]
    for one in figures:
        if one.missing:
            lines.append(f"| {one.name} | {one.jobs} | {one.missing} | |")
            continue
        submit = "" if one.submit_ms is None else f"{one.submit_ms:.2f}"
        lines.append(f"| {one.name} | {one.jobs} | {one.jobs_s:.0f} | {submit} |")
    return "\n".join([*lines, ""])


def measure(words: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Run all contenders."""
    figures: list[Figure] = []

    def add(*more: Figure) -> None:
        figures.extend(more)
        for one in more:
            say(f"{one.name}: {one.missing or f'{one.jobs_s:.0f} jobs/s'}")

    with tempfile.TemporaryDirectory(dir=words.place) as directory:
        place = Path(directory)
        place.chmod(0o755)
        machine = describe(place)
        ours = Backplane(place / "facility", words.bin)
        with ours.up():
            for _ in range(words.runs):
                add(ours.each(words.jobs), ours.array(words.jobs))
            waiting = ours.waiting(words.waiting)
    for _ in range(words.runs):
        add(xargs(words.jobs), parallel(words.jobs), spooler(words.jobs))
    add(*slurm(words.slurm_jobs))
    return {"machine": machine, "waiting": waiting, "figures": [asdict(one) for one in figures]}


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=ROOT / "target/release", help="the directory of bp and bpd")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--slurm-jobs", type=int, default=200, help="it is slower")
    parser.add_argument("--waiting", type=int, default=100_000, help="jobs that wait")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--place", type=Path, default=None, help="where the facility is made [default: /tmp]")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/batch", help="files begin with this name")
    words = parser.parse_args()
    result = measure(words, lambda text: print(text, file=sys.stderr))
    words.out.parent.mkdir(parents=True, exist_ok=True)
    words.out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    about = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    rows = "\n".join(f"| {name} | {value:.4g} |" for name, value in result["waiting"].items())
    text = table([Figure(**one) for one in result["figures"]])
    words.out.with_suffix(".md").write_text(
        f"{about}\n\n{text}\nJobs that wait:\n\n| | |\n| --- | --- |\n{rows}\n",
    )


if __name__ == "__main__":
    main()
