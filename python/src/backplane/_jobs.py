"""Jobs: what is submitted, and what became of it."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import re
import sys
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex, overload

from ._calls import LIVELY_S, Calls, News, whole_number
from ._errors import InvalidError, JobFailedError, TimeoutExpiredError
from ._tables import Record, Table, record_html

OVER = frozenset({"done", "failed", "cancelled"})
_PRINTS_NO_MORE = OVER | {"archiving"}
# One wait of a call that may be pending; the calls repeat it.
_WAIT_S = 30.0
# Nobody waits for longer by mistake: a job that is held for a week needs a person.
WAIT_MAX_S = 7 * 24 * 3600.0
# Jobs that one call waits for.
_AWAITED_MAX = 1000
_INDEX_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_COLUMNS = ("id", "owner", "state", "reason", "worker", "attempt", "submitted", "started", "ended")


class JobLog(str):
    """What a job printed: standard output, then standard error.

    Attributes
    ----------
    stdout, stderr : str
        Each by itself.
    """

    __slots__ = ("stderr", "stdout")
    stdout: str
    stderr: str

    def __new__(cls, stdout: str, stderr: str) -> JobLog:
        between = "\n" if stdout and stderr and not stdout.endswith("\n") else ""
        made = super().__new__(cls, f"{stdout}{between}{stderr}")
        made.stdout, made.stderr = stdout, stderr
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.stdout, self.stderr


@dataclasses.dataclass(frozen=True)
class JobResult:
    """How a job ended.

    Attributes
    ----------
    job : int
        Its number.
    state : str
        ``"done"``, ``"failed"`` or ``"cancelled"``.
    code : int or None
        What the program returned; `None` if it did not end by itself.
    reason : str or None
        Why it failed.
    outputs : tuple of str
        Paths in the facility of what was stored; of a job that failed, none.
    worker : str or None
        Where it ran.
    cpu_s, wall_s : float
        Processor time, and from start to end.
    memory_bytes_max : int
        Largest resident set of one process.
    """

    job: int
    state: str
    code: int | None
    reason: str | None
    outputs: tuple[str, ...]
    worker: str | None
    cpu_s: float
    wall_s: float
    memory_bytes_max: int

    @property
    def ok(self) -> bool:
        """Whether it ended well and its outputs are stored."""
        return self.state == "done"

    def check(self) -> JobResult:
        """Go on only if it ended well.

        Returns
        -------
        JobResult
            Itself.

        Raises
        ------
        JobFailedError
            If it failed or was cancelled; the message says why.
        """
        if not self.ok:
            why = f": {self.reason}" if self.reason else ""
            raise JobFailedError(f"job {self.job} {self.state}{why}", f"`bp log {self.job}` shows what it printed")
        return self

    def _repr_html_(self) -> str:
        return record_html(dataclasses.asdict(self))

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> JobResult:
        """Take it from a reply of the management API.

        Parameters
        ----------
        info : mapping
            A job that is over.

        Returns
        -------
        JobResult
            How it ended.
        """
        ended, usage = info.get("exit"), info.get("usage") or {}
        is_done = info["state"] == "done"
        outputs = (info.get("spec") or {}).get("outputs", ()) if is_done else ()
        return cls(
            job=int(info["id"]),
            state=info["state"],
            code=ended.get("code") if isinstance(ended, Mapping) else None,
            reason=info.get("reason"),
            outputs=tuple(output["path"] for output in outputs),
            worker=info.get("worker"),
            cpu_s=usage.get("cpu", 0) / 1000,
            wall_s=usage.get("wall", 0) / 1000,
            memory_bytes_max=usage.get("memory_bytes_max", 0),
        )


class Job(int):
    """A job; its number is its value, so that it goes wherever the number does.

    Made by `Facility.submit`, or by `Facility.job` from a number.

    Examples
    --------
    >>> job = facility.submit(["/bin/echo", "hello"])
    >>> job.wait(60).ok
    True
    >>> print(job.log(), end="")
    hello
    """

    _verbs: JobVerbs
    _result: JobResult | None

    def __new__(cls, number: SupportsIndex, verbs: JobVerbs) -> Job:
        job = super().__new__(cls, number)
        job._verbs, job._result = verbs, None
        return job

    def __getnewargs__(self) -> tuple[int, JobVerbs]:  # type: ignore[override]
        return int(self), self._verbs

    def __repr__(self) -> str:
        return f"<Job {int(self)}>"

    def __str__(self) -> str:
        return str(int(self))

    @property
    def id(self) -> int:
        """Its number."""
        return int(self)

    def info(self) -> dict[str, Any]:
        """Ask for all that is known of it now.

        Returns
        -------
        dict
            As in `Facility.jobs`.
        """
        (info,) = self._verbs.jobs([self])
        return Record(info)

    @property
    def state(self) -> str:
        """Where it is in its life now: ``"held"``, ``"queued"``, ``"running"``, ``"archiving"``, or how it ended."""
        return str(self.info()["state"])

    @property
    def result(self) -> JobResult | None:
        """How it ended; `None` as long as it is not over."""
        if self._result is None:
            info = self.info()
            self._result = JobResult.of(info) if info["state"] in OVER else None
        return self._result

    def wait(self, wait_s: SupportsFloat = WAIT_MAX_S, *, progress: bool | None = None) -> JobResult:
        """Wait until it is over, however it ends.

        Parameters
        ----------
        wait_s : float, optional
            How long to wait; at most a week unless given.
        progress : bool, optional
            Whether to print what it waits for; if standard error is a terminal unless given.

        Returns
        -------
        JobResult
            How it ended; `JobResult.check` raises if that was not well.

        Raises
        ------
        TimeoutExpiredError
            If it is not over in time; the message says what it waits for.
        """
        (info,) = self._verbs.wait_for_jobs([self], wait_s=wait_s, progress=progress)
        self._result = JobResult.of(info)
        return self._result

    def log(self) -> JobLog:
        """Show what it printed, as far as that is kept; while it runs, what it has printed so far.

        Returns
        -------
        JobLog
            A text; ``stdout`` and ``stderr`` are each by itself.
        """
        told = self._verbs.job_log(self)
        return JobLog(told["stdout"], told["stderr"])

    def follow(self) -> Iterator[tuple[str, str]]:
        """Follow what it prints until it ends.

        Yields
        ------
        tuple of str
            ``"stdout"`` or ``"stderr"``, and the text that comes next there. A job that prints faster than it is
            followed is told with gaps.
        """
        return self._verbs.follow_job(self)

    def cancel(self) -> None:
        """End it, whatever its state."""
        self._verbs.cancel(self)

    def _repr_html_(self) -> str:
        info = self.info()
        spec = info.get("spec") or {}
        shown = {"job": int(self), "name": spec.get("name"), "command": " ".join(spec.get("command", ()))}
        return record_html({**shown, **{key: info.get(key) for key in (*_COLUMNS[1:], "usage")}})


class JobArray(Sequence[Job]):
    """Jobs that were submitted together, in the order of their indices. Made by `JobVerbs.submit_array`."""

    def __init__(self, first: int, count: int, verbs: JobVerbs) -> None:
        self._numbers, self._verbs = range(first, first + count), verbs

    @property
    def id(self) -> int:
        """Its number, which is that of its first job: verbs of ``bp`` take it for all of them."""
        return self._numbers[0]

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job]: ...
    def __getitem__(self, index: int | slice) -> Job | list[Job]:
        if isinstance(index, slice):
            return [Job(number, self._verbs) for number in self._numbers[index]]
        return Job(self._numbers[index], self._verbs)

    def __repr__(self) -> str:
        return f"<JobArray {self.id} of {len(self)}>"

    def wait(self, wait_s: SupportsFloat = WAIT_MAX_S, *, progress: bool | None = None) -> list[JobResult]:
        """Wait until all are over, however they end.

        Parameters
        ----------
        wait_s : float, optional
            How long to wait; at most a week unless given.
        progress : bool, optional
            Whether to print what they wait for; if standard error is a terminal unless given.

        Returns
        -------
        list of JobResult
            How they ended, in the order of the jobs.
        """
        deadline = time.monotonic() + float(wait_s)
        results: list[JobResult] = []
        for start in range(0, len(self), _AWAITED_MAX):
            left_s = max(deadline - time.monotonic(), 0.0)
            numbers = self._numbers[start : start + _AWAITED_MAX]
            results += map(JobResult.of, self._verbs.wait_for_jobs(numbers, wait_s=left_s, progress=progress))
        return results

    def cancel(self) -> None:
        """End all that are not over."""
        self._verbs._call("cancel_jobs", {"jobs": [str(self.id)]})


def _ranges(indices: Iterable[SupportsIndex] | str) -> list[dict[str, int]]:
    """Write indices as the facility takes them: as ranges whose ends are included.

    Examples
    --------
    >>> _ranges(range(0, 10, 2))
    [{'start': 0, 'end': 8, 'step': 2}]
    >>> _ranges("1-10:2,20")
    [{'start': 1, 'end': 10, 'step': 2}, {'start': 20, 'end': 20, 'step': 1}]
    >>> _ranges([3, 4, 5, 9])
    [{'start': 3, 'end': 5, 'step': 1}, {'start': 9, 'end': 9, 'step': 1}]
    """
    if isinstance(indices, str):
        found = [_INDEX_RANGE.fullmatch(part.strip()) for part in indices.split(",")]
        if not all(found):
            raise InvalidError(f"{indices!r} does not name indices", 'write "1-10", "1-10:2" or "1,5,9"')
        parts = [(int(part[1]), int(part[2] or part[1]), int(part[3] or 1)) for part in found if part]
        return [{"start": start, "end": end, "step": step} for start, end, step in parts]
    if isinstance(indices, range) and indices and indices.step > 0:
        return [{"start": indices[0], "end": indices[-1], "step": indices.step}]
    ranges: list[dict[str, int]] = []
    for number in (whole_number(index, "index") for index in indices):
        if ranges and ranges[-1]["end"] + 1 == number:
            ranges[-1]["end"] = number
        else:
            ranges.append({"start": number, "end": number, "step": 1})
    if not ranges:
        raise InvalidError("an array without indices has no jobs")
    return ranges


def named_inputs(inputs: Iterable[str] | Mapping[str, str]) -> Mapping[str, str]:
    """Give each input its name in the scratch directory.

    Parameters
    ----------
    inputs : iterable of str, or mapping of str to str
        Paths, or paths with names.

    Returns
    -------
    mapping of str to str
        Paths with names.
    """
    if isinstance(inputs, str):
        raise InvalidError(f"inputs {inputs!r} is one path, not several", "write inputs=[path]")
    return inputs if isinstance(inputs, Mapping) else {path: posixpath.basename(path) for path in inputs}


def _resources(cpus: SupportsIndex, memory_bytes: SupportsIndex, wall_s: SupportsFloat) -> dict[str, int]:
    return {
        "cpus": whole_number(cpus, "cpus"),
        "memory_bytes": whole_number(memory_bytes, "memory_bytes"),
        "wall": round(float(wall_s) * 1000),
    }


class JobVerbs(Calls):
    """What a facility does with jobs."""

    @abstractmethod
    def _keep(self, local: str | os.PathLike[str], path: str) -> str: ...

    def _shipped(
        self,
        program: str | tuple[str | os.PathLike[str], str],
        inputs: Mapping[str, str],
        arguments: Sequence[str],
    ) -> tuple[Mapping[str, str], list[str]]:
        """Make a program an input, and the command of the job."""
        kept = program if isinstance(program, str) else self._keep(*program)
        name = posixpath.basename(kept)
        return {**inputs, kept: name}, [f"./{name}", *arguments]

    def submit(
        self,
        command: Sequence[str] = (),
        *,
        program: str | tuple[str | os.PathLike[str], str] | None = None,
        inputs: Iterable[str] | Mapping[str, str] = (),
        outputs: Mapping[str, str] | None = None,
        name: str | None = None,
        cpus: SupportsIndex = 1,
        memory_bytes: SupportsIndex = 0,
        wall_s: SupportsFloat = 24 * 3600,
        environment: Mapping[str, str] | None = None,
        archive: bool = False,
        replace: bool = False,
        mount: bool = False,
    ) -> Job:
        """Submit a batch job.

        Parameters
        ----------
        command : sequence of str
            Program and arguments; not a line for a shell. With `program` its arguments.
        program : str, or pair of path and str, optional
            What to run: a path in the facility, or a local file and the path where the facility keeps it.
        inputs : iterable of str, or mapping of str to str
            Paths in the facility that must be online before it starts. They appear in the scratch directory under
            their last component, or under the name that the mapping gives for the path.
        outputs : mapping of str to str
            Name in the scratch directory and path in the facility of what is stored when it exits with 0. ``name/`` is
            all of a directory, a pattern (``*``, ``?``, ``[``) all files that match; their path is a directory.
        name : str, optional
            For people; the program's name unless given.
        cpus : int
            Slots.
        memory_bytes : int
            Memory; 0 for no wish.
        wall_s : float
            Longest run.
        environment : mapping of str to str, optional
            Added to its environment.
        archive : bool
            The job is done only when its outputs are on tape.
        replace : bool
            Its outputs may replace files that exist.
        mount : bool
            The facility is mounted for it where ``BP_MOUNT`` says, with your rights. Its inputs are links into it.

        Returns
        -------
        Job
            Its number, with `Job.wait`, `Job.log` and `Job.result`.

        Raises
        ------
        ExistsError
            If another file is where the program is to be kept; it is not replaced.
        """
        spec = self._spec(
            command,
            program=program,
            inputs=inputs,
            outputs=outputs,
            name=name,
            resources=_resources(cpus, memory_bytes, wall_s),
            environment=environment,
            archive=archive,
            replace=replace,
            mount=mount,
        )
        return Job(self._call("submit", {"spec": spec})["job"], self)

    def submit_array(
        self,
        command: Sequence[str] = (),
        *,
        indices: Iterable[SupportsIndex] | str,
        running_max: SupportsIndex | None = None,
        program: str | tuple[str | os.PathLike[str], str] | None = None,
        inputs: Iterable[str] | Mapping[str, str] = (),
        outputs: Mapping[str, str] | None = None,
        name: str | None = None,
        cpus: SupportsIndex = 1,
        memory_bytes: SupportsIndex = 0,
        wall_s: SupportsFloat = 24 * 3600,
        environment: Mapping[str, str] | None = None,
        archive: bool = False,
        replace: bool = False,
        mount: bool = False,
    ) -> JobArray:
        """Submit one job for each index, in one call.

        Parameters
        ----------
        command : sequence of str
            Program and arguments, the same for all; the index is in ``BP_ARRAY_INDEX``.
        indices : iterable of int, or str
            The indices: ``range(10)``, or a text such as ``"1-10:2,20"``, whose ends are included.
        running_max : int, optional
            Jobs that run at the same time at most.
        program, inputs, outputs, name, cpus, memory_bytes, wall_s, environment, archive, replace, mount
            As of `submit`, for each job. Outputs have names that differ: a pattern or directory, in one directory.

        Returns
        -------
        JobArray
            The jobs, in the order of the indices.

        Examples
        --------
        >>> array = facility.submit_array(["/bin/sh", "-c", "echo $BP_ARRAY_INDEX"], indices=range(1, 4))
        >>> [result.ok for result in array.wait(60)]
        [True, True, True]
        >>> print(array[2].log(), end="")
        3
        """
        ranges = _ranges(indices)
        spec = self._spec(
            command,
            program=program,
            inputs=inputs,
            outputs=outputs,
            name=name,
            resources=_resources(cpus, memory_bytes, wall_s),
            environment=environment,
            archive=archive,
            replace=replace,
            mount=mount,
        )
        most = None if running_max is None else whole_number(running_max, "running_max")
        reply = self._call("submit", {"spec": spec, "array": {"indices": ranges, "running_max": most}})
        return JobArray(reply["job"], reply["count"], self)

    def _spec(
        self,
        command: Sequence[str],
        *,
        program: str | tuple[str | os.PathLike[str], str] | None,
        inputs: Iterable[str] | Mapping[str, str],
        outputs: Mapping[str, str] | None,
        name: str | None,
        resources: dict[str, int],
        environment: Mapping[str, str] | None,
        archive: bool,
        replace: bool,
        mount: bool,
    ) -> dict[str, Any]:
        if isinstance(command, str) or not (command or program):
            raise InvalidError(f"command {command!r} is not a list of program and arguments")
        named = named_inputs(inputs)
        if program is not None:
            named, command = self._shipped(program, named, command)
        return {
            "name": posixpath.basename(command[0]) if name is None else name,
            "command": list(command),
            "resources": resources,
            "inputs": [{"path": path, "name": alias} for path, alias in named.items()],
            "outputs": [{"name": alias, "path": path} for alias, path in (outputs or {}).items()],
            "archive": bool(archive),
            "replace": bool(replace),
            **({"mount": True} if mount else {}),
            "environment": dict(environment or {}),
        }

    def job(self, number: SupportsIndex) -> Job:
        """Give the job that has a number.

        Parameters
        ----------
        number : int
            Its number; whether there is such a job is asked later.

        Returns
        -------
        Job
            The job.
        """
        return Job(whole_number(number, "job"), self)

    def jobs(self, ids: Iterable[SupportsIndex] = (), *, active_only: bool = False) -> list[dict[str, Any]]:
        """Show jobs, newest first.

        Parameters
        ----------
        ids : iterable of int
            Only these; the newest ones if left out.
        active_only : bool
            Leave out those that are over.

        Returns
        -------
        list of dict
            ``id``, ``state``, ``reason``, ``worker``, ``exit`` and so on; a notebook shows them as a table.
        """
        body = {"ids": [whole_number(number, "job") for number in ids], "active_only": bool(active_only)}
        return Table(self._call("jobs", body)["jobs"], _COLUMNS)

    def wait_for_jobs(
        self, ids: Iterable[SupportsIndex], *, wait_s: SupportsFloat, progress: bool | None = False
    ) -> list[dict[str, Any]]:
        """Wait until jobs are over.

        Parameters
        ----------
        ids : iterable of int
            The jobs.
        wait_s : float
            How long to wait.
        progress : bool, optional
            Whether to print what they wait for on standard error; `None`: if that is a terminal.

        Returns
        -------
        list of dict
            The jobs as they are then.

        Raises
        ------
        TimeoutExpiredError
            If not all are over in time.
        """
        body = {"ids": [whole_number(number, "job") for number in ids]}
        deadline = time.monotonic() + float(wait_s)
        tell = _Teller() if progress or (progress is None and sys.stderr.isatty()) else None
        # The first answer comes at once if somebody looks, so that there is something to see.
        news, step_s = (News(), 0.0) if tell else (None, _WAIT_S)
        while True:
            left_s = max(deadline - time.monotonic(), 0.0)
            if news:
                news.pace()
            jobs = list(self._call("await_jobs", body, wait_s=min(left_s, step_s), news=news)["jobs"])
            step_s = LIVELY_S if tell else _WAIT_S
            waiting = [job for job in jobs if job["state"] not in OVER]
            if tell:
                tell(waiting)
            if not waiting:
                return Table(jobs, _COLUMNS)
            if time.monotonic() >= deadline:
                ids_text = ", ".join(str(job["id"]) for job in waiting)
                why = f"; {_told(waiting[0])}" if waiting[0].get("reason") else ""
                raise TimeoutExpiredError(f"jobs {ids_text} are not over after {float(wait_s):g} s{why}")

    def cancel(self, job: SupportsIndex) -> None:
        """End a job, whatever its state.

        Parameters
        ----------
        job : int
            Its number.
        """
        self._call("cancel_job", {"job": whole_number(job, "job")})

    def job_log(self, job: SupportsIndex) -> dict[str, str]:
        """Show what a job printed, as far as that is kept; while it runs, what it has printed so far.

        Parameters
        ----------
        job : int
            Its number.

        Returns
        -------
        dict
            ``stdout`` and ``stderr``.
        """
        number = whole_number(job, "job")
        reply: dict[str, str] = self._call("job_log", {"job": number})
        if any(reply.values()) or self.jobs([number])[0]["state"] != "running":
            return reply
        told = {"stdout": "", "stderr": ""}
        for stream, text in self.follow_job(number, more=False):
            told[stream] += text
        # It may have ended meanwhile.
        return told if any(told.values()) else dict(self._call("job_log", {"job": number}))

    def follow_job(self, job: SupportsIndex, *, more: bool = True) -> Iterator[tuple[str, str]]:
        """Follow what a job prints until it ends.

        Parameters
        ----------
        job : int
            Its number.
        more : bool, optional
            Wait for what it prints next; if not, it ends with what the job has printed so far.

        Yields
        ------
        tuple of str
            ``"stdout"`` or ``"stderr"``, and the text that comes next there. A job that prints faster than it is
            followed is told with gaps.
        """
        number, attempt, after, was_told = whole_number(job, "job"), 0, [0, 0], False
        while True:
            body = {"job": number, "attempt": attempt, "after": after, "more": bool(more)}
            told = self._call("follow_job", body, wait_s=_WAIT_S)
            if told["state"] in _PRINTS_NO_MORE and not was_told:
                yield from ((stream, text) for stream, text in self._call("job_log", {"job": number}).items() if text)
                return
            after = after if told["attempt"] == attempt else [0, 0]
            attempt = told["attempt"]
            for index, stream in enumerate(("stdout", "stderr")):
                for piece in told["pieces"][index]:
                    was_told, after[index] = True, piece["end"]
                    yield stream, piece["text"]
            if told["is_all"] or not (more or told["state"] == "running"):
                return


def _told(job: Mapping[str, Any]) -> str:
    reason = job.get("reason")
    return f"job {job['id']} {job['state']}" + (f": {reason}" if reason else "")


class _Teller:
    """Prints what jobs wait for, when it changes."""

    def __init__(self) -> None:
        self._said: dict[int, str] = {}

    def __call__(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        for job in jobs:
            text = _told(job)
            if self._said.get(job["id"]) != text:
                self._said[job["id"]] = text
                print(text, file=sys.stderr, flush=True)
