"""Load from several clients at once, and a record of what the facility acknowledged to each.

A client is acknowledged by the exit code of its command. Whatever was cut off may or may not have happened: the record
then allows the content of before and the content of after, and nothing else.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clients import Outcome, adler32, make_bytes, run
from facility import Facility

ABSENT = "absent"
"""What stands for no file in a record."""

QUICK = {
    "XRD_CONNECTIONRETRY": "0",
    "XRD_CONNECTIONWINDOW": "1",
    "XRD_STREAMERRORWINDOW": "1",
    "XRD_REQUESTTIMEOUT": "20",
}
"""A client that gives up soon: the facility is killed all the time."""

COMMAND_DEADLINE = 120.0


class Record:
    """What each path may hold: one sum after an acknowledgement, several after a cut-off."""

    def __init__(self) -> None:
        self._allowed: dict[str, set[str]] = {}
        self._history: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def begin(self, path: str, new: str) -> None:
        """Note that `path` may become `new` from now on."""
        with self._lock:
            self._allowed.setdefault(path, {ABSENT}).add(new)

    def end(self, path: str, new: str) -> None:
        """Note that the facility said so: `path` is `new`."""
        with self._lock:
            self._allowed[path] = {new}

    def note(self, path: str, what: str) -> None:
        """Keep what was done to a path, for whoever has to find out what went wrong."""
        with self._lock:
            self._history.setdefault(path, []).append(f"{time.time():.3f} {what}")

    def history(self, path: str) -> str:
        """Tell what was done to a path."""
        with self._lock:
            return "\n".join(["", *self._history.get(path, [])])

    def allowed(self, path: str) -> set[str]:
        """List what a path may hold now."""
        with self._lock:
            return set(self._allowed[path])

    def paths(self) -> list[str]:
        """List all paths that were ever written."""
        with self._lock:
            return sorted(self._allowed)

    def certain(self) -> list[str]:
        """List the paths whose content was acknowledged."""
        with self._lock:
            return sorted(path for path, sums in self._allowed.items() if len(sums) == 1 and ABSENT not in sums)


@dataclass
class Job:
    """What a submitted job does, and so what its record must say."""

    number: int
    exit: dict[str, int]
    content: bytes | None = None
    output: str = ""


@dataclass
class Storm:
    """Clients that go on until they are told to stop.

    Parameters
    ----------
    facility
        Its ports must stay the same.
    scratch
        For local files, and for the notes that jobs leave when they begin and end.
    seed
        Of all choices.
    """

    facility: Facility
    scratch: Path
    seed: int
    record: Record = field(default_factory=Record)
    jobs: dict[int, Job] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._acknowledged = 0
        self._busy = 0
        self._is_paused = False
        self._is_over = False
        self.counts: dict[str, int] = {}
        self._threads = [
            threading.Thread(target=self._work, args=(f"{kind.__name__}{n}", kind, self.seed * 100 + i), daemon=True)
            for i, (n, kind) in enumerate(self._clients())
        ]

    def _clients(self) -> list[tuple[int, Callable[[random.Random, Path], bool]]]:
        """List what each client does, with its number among those that do the same."""
        return [
            (0, self._write),
            (1, self._write),
            (2, self._write),
            (0, self._move),
            (0, self._read),
            (0, self._submit),
        ]

    # Control

    def start(self) -> None:
        """Start all clients."""
        for thread in self._threads:
            thread.start()

    def wait_acknowledged(self, more: int, deadline: float) -> None:
        """Wait until so many more commands were acknowledged."""
        with self._changed:
            goal = self._acknowledged + more
            done = self._changed.wait_for(lambda: self._acknowledged >= goal or bool(self.trouble), deadline)
        assert not self.trouble, self.trouble
        assert done, f"only {self._acknowledged} of {goal} commands were acknowledged in {deadline} s"

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hold all clients between two commands."""
        with self._changed:
            self._is_paused = True
            assert self._changed.wait_for(lambda: self._busy == 0, COMMAND_DEADLINE * 2), "a client hangs"
        try:
            yield
        finally:
            with self._changed:
                self._is_paused = False
                self._changed.notify_all()

    def stop(self) -> None:
        """End all clients."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(COMMAND_DEADLINE * 2)
            assert not thread.is_alive(), "a client hangs"
        assert not self.trouble, self.trouble

    def _work(self, name: str, act: Callable[[random.Random, Path], bool], seed: int) -> None:
        rng = random.Random(seed)
        local = self.scratch / name
        local.mkdir()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_paused or self._is_over)
                if self._is_over:
                    return
                self._busy += 1
            is_acknowledged = False
            try:
                is_acknowledged = act(rng, local)
            except Exception as error:
                self.trouble.append(f"{name}: {error!r}")
            finally:
                with self._changed:
                    self._busy -= 1
                    if is_acknowledged:
                        self._acknowledged += 1
                        kind = act.__name__.strip("_")
                        self.counts[kind] = self.counts.get(kind, 0) + 1
                    self._changed.notify_all()
            if not is_acknowledged:
                # Most likely nobody is there: do not spin. Whoever restarts the facility wakes nobody, so a bound.
                with self._changed:
                    self._changed.wait(0.05)
            if self.trouble:
                return

    # Clients

    def _run(self, *words: str | Path) -> Outcome:
        return run(*words, check=False, deadline=COMMAND_DEADLINE, env=QUICK)

    def _bp(self, *words: str | Path) -> Outcome:
        return self.facility.bp(*words, check=False, deadline=COMMAND_DEADLINE)

    def _write(self, rng: random.Random, local: Path) -> bool:
        """Write a new file or replace one; now and then remove one. Each writer has its own names."""
        mine = [path for path in self.record.paths() if path.startswith(f"/storm/{local.name}-")]
        if mine and rng.random() < 0.1:
            path = rng.choice(mine)
            self.record.begin(path, ABSENT)
            self.record.note(path, "rm begins")
            removed = self._run("xrdfs", self.facility.root, "rm", path)
            self.record.note(path, f"rm ended {removed.code} {removed.text.strip()}")
            if removed.code == 0:
                self.record.end(path, ABSENT)
            return removed.code == 0
        is_new = not mine or rng.random() < 0.75
        path = f"/storm/{local.name}-{rng.randrange(1 << 40):010x}" if is_new else rng.choice(mine)
        data = make_bytes(rng.choice([0, 1, 4096, 50_000, 300_000, 2_000_000]), rng.randrange(1 << 40))
        file = local / "data"
        file.write_bytes(data)
        self.record.begin(path, adler32(data))
        self.record.note(path, f"put of {adler32(data)} with {len(data)} bytes begins")
        put = self._run("xrdcp", "-s", "-f", file, self.facility.url(path))
        self.record.note(path, f"put of {adler32(data)} ended {put.code} {put.text.strip()}")
        # xrdcp ends with 0 if its connection broke between the last write and the close: it cannot send the close, says
        # so on standard error, and takes the file for closed. Nobody acknowledged that file.
        is_acknowledged = put.code == 0 and "Unable to send the message kXR_close" not in put.err
        if is_acknowledged:
            self.record.end(path, adler32(data))
        return is_acknowledged

    def _move(self, rng: random.Random, local: Path) -> bool:
        """Archive, evict or stage a few files. What is refused for its state is no trouble."""
        del local
        paths = self.record.certain()
        if not paths:
            return False
        some = rng.sample(paths, min(len(paths), rng.randrange(1, 9)))
        verb = rng.choice(["archive", "archive", "evict", "stage"])
        return self._bp(verb, *some).code == 0

    def _read(self, rng: random.Random, local: Path) -> bool:
        """Read a file back: it holds what it may hold, before or after."""
        paths = self.record.certain()
        if not paths:
            return False
        path, back = rng.choice(paths), local / "back"
        before = self.record.allowed(path)
        got = self._run("xrdcp", "-s", "-f", self.facility.url(path), back)
        if got.code != 0:
            return False
        found = adler32(back.read_bytes())
        # Somebody else may have replaced it meanwhile, and begun once more.
        if found not in before | self.record.allowed(path):
            self.trouble.append(f"{path} holds {found}, allowed were {before} and then {self.record.allowed(path)}")
        return True

    def _submit(self, rng: random.Random, local: Path) -> bool:
        """Submit a short job whose end is known."""
        note = self.scratch / "notes" / f"{rng.randrange(1 << 40):010x}"
        kind, code, pause = rng.choice(["store", "fail", "signal"]), rng.randrange(1, 100), rng.choice([0, 0.3, 1])
        output = f"/storm/{local.name}-{note.name}"
        content = make_bytes(1000, code).hex().encode()
        # The job takes its time, so that a kill meets it in every phase.
        script = f"echo begin >> {note}; sleep {pause}; "
        if kind == "store":
            words: tuple[str, ...] = ("--output", f"o:{output}")
            script += f"printf %s {content.decode()} > o; echo end >> {note}"
            job = Job(0, {"code": 0}, content, output)
        else:
            words = ()
            signal = rng.choice([9, 15])
            script += f"echo end >> {note}; " + (f"exit {code}" if kind == "fail" else f"kill -{signal} $$")
            job = Job(0, {"code": code} if kind == "fail" else {"signal": signal})
        submitted = self._bp("submit", "--name", note.name, *words, "--", "/bin/sh", "-c", script)
        # What was cut off may run or not; but what printed its number must.
        if not re.fullmatch(r"\d+\n", submitted.out):
            return False
        job.number = int(submitted.out)
        self.jobs[job.number] = job
        return True

    # Checks

    def read_all(self, into: Path) -> None:
        """Read every path back: what was acknowledged is there, the rest is old or new and never in between."""
        listed = set(run("xrdfs", self.facility.root, "ls", "/storm").out.split())
        paths = [path for path in self.record.paths() if path in listed]
        for path in self.record.paths():
            if path not in listed:
                assert ABSENT in self.record.allowed(path), (
                    f"{path} was acknowledged and is gone{self.record.history(path)}"
                )
        into.mkdir(exist_ok=True)
        for start in range(0, len(paths), 50):
            some = paths[start : start + 50]
            urls = [self.facility.url(path) for path in some]
            run("xrdcp", "-s", "-f", "--parallel", "4", *urls, f"{into}/", deadline=300)
            for path in some:
                back = into / path.rsplit("/", 1)[1]
                found = adler32(back.read_bytes())
                assert found in self.record.allowed(path), (
                    f"{path} holds {found}, not {self.record.allowed(path)}{self.record.history(path)}"
                )
                back.unlink()

    def check_jobs(self, deadline: float) -> None:
        """Wait for every acknowledged job: its record tells what the process did, which it did once."""
        end = time.monotonic() + deadline
        numbers = sorted(self.jobs)
        while True:
            infos = self.facility.call("await_jobs", wait=30, ids=numbers)["jobs"]
            left = [info for info in infos if info["state"] not in ("done", "failed", "cancelled")]
            if not left:
                break
            assert time.monotonic() < end, f"jobs are not over after {deadline} s: {left[:3]}"
        for info in infos:
            job = self.jobs[info["id"]]
            assert info["exit"] == job.exit, f"the process ended with {job.exit}, the record is {info}"
            assert info["state"] == ("done" if job.content is not None else "failed"), info
            note = self.scratch / "notes" / info["spec"]["name"]
            assert note.read_text() == "begin\nend\n", f"job {job.number} did not run exactly once: {info}"
            if job.content is not None:
                assert self.facility.read(job.output) == job.content, f"output of job {job.number}"
        assert len(infos) == len(numbers)

    def check_drained(self, deadline: float = COMMAND_DEADLINE) -> None:
        """Wait until nothing is left in the tape queue."""
        self.facility.wait_until(
            "the tape queue is empty", lambda: self.facility.status()["requests_len"] == 0, deadline
        )


def check_catalogue(facility: Facility) -> None:
    """Compare catalogue and disk of a facility that is down, object by object."""
    disk = facility.directory / "disk" / "disk1"
    rows = facility.query(
        "SELECT r.object, r.state, n.id, n.size, n.adler32 FROM replica r LEFT JOIN node n ON n.id = r.file"
    )
    assert {state for _, state, *_ in rows} <= {"online"}, "writes, recalls and removals are over"
    for number, _, file, size, total in rows:
        data = disk / "objects" / f"{number & 0xFF:02x}" / str(number)
        about = json.loads(data.with_name(f"{number}.json").read_text())
        assert file is not None, f"object {number} belongs to no file"
        assert data.stat().st_size == size == about["size"], f"object {number}"
        assert adler32(data.read_bytes()) == f"{total:08x}", f"object {number} is not what the catalogue says"
    assert set(facility.objects_on_disk()) == {number for number, *_ in rows}, "leftovers on disk"
    assert list((disk / "incoming").iterdir()) == []
    assert facility.query("SELECT * FROM request") == []
    states = facility.query("SELECT count(*) FROM node WHERE kind = 'file' AND adler32 IS NULL")
    assert states == [(0,)], "a file that was never completed"
    at = facility.query("SELECT DISTINCT vid, fseq, block FROM copy")
    assert len({file[:2] for file in at}) == len({(vid, block) for vid, _, block in at}) == len(at)
