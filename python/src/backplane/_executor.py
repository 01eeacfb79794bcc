"""Runs Python functions as jobs, behind the interface of `concurrent.futures`."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import io
import itertools
import pickle
import posixpath
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ._calls import Away, fail
from ._errors import BackplaneError, InvalidError, JobFailedError, NotFoundError
from ._jobs import OVER, Job, JobResult, named_inputs

if TYPE_CHECKING:
    from ._facility import Facility

_P = ParamSpec("_P")
_T = TypeVar("_T")

# One wait for the end of any job.
_WAIT_S = 30.0
# Pause after a call that failed: the head may be starting again.
_PAUSE_S = 1.0
# How long a job whose end was not told stays unnoticed: then all are looked at.
_LOOK_S = 300.0
# Jobs of one look.
_LOOKED_MAX = 1000
# Calls of one array: it stays far below what a facility takes.
_ARRAY_MAX = 100_000
# What runs on the worker: it needs Python and cloudpickle there, nothing of ours.
_PROGRAM = """\
import os, pickle, sys, traceback
import cloudpickle
index = int(os.environ.get("BP_ARRAY_INDEX", "0"))
try:
    with open("calls", "rb") as file:
        offsets = pickle.load(file)
        start = file.tell()
        function = pickle.load(file)
        file.seek(start + offsets[index])
        args, kwargs = pickle.load(file)
    answer = (True, function(*args, **kwargs), None)
except BaseException as error:
    answer = (False, error, traceback.format_exc())
try:
    data = cloudpickle.dumps(answer)
except Exception as error:
    text = f"{answer[1]!r} cannot be pickled: {error}"
    data = pickle.dumps((False, pickle.PicklingError(text), answer[2]))
with open(f"result.{index}", "wb") as file:
    file.write(data)
"""


class RemoteError(Exception):
    """Where a function failed on the worker: the cause of the exception that a future raises."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class JobFuture(concurrent.futures.Future[_T]):
    """The result of a function that runs as a job.

    Attributes
    ----------
    job : Job
        The job.
    """

    job: Job

    def cancel(self) -> bool:
        """Cancel the job, also while it runs.

        Returns
        -------
        bool
            Whether the result is not to come any more; `False` if it is there already.
        """
        cancelled = super().cancel()
        if cancelled:
            # If it is over, its result is not wanted.
            with contextlib.suppress(InvalidError):
                self.job.cancel()
        return cancelled


@dataclasses.dataclass
class _Waiting:
    """A future whose result is not there yet."""

    future: JobFuture[Any]
    path: str
    unread: Away = dataclasses.field(default_factory=Away)


class JobExecutor(concurrent.futures.Executor):
    """Runs functions as jobs of a facility. Made by `Facility.executor`.

    Functions and arguments travel by cloudpickle, which must be installed here and on the workers; results come back as
    files of the facility, in a directory that only you can open, and are removed when they have been read.
    """

    def __init__(
        self,
        facility: Facility,
        directory: str,
        python: str | None,
        options: Mapping[str, Any],
        running_max: int | None,
    ) -> None:
        self._facility = facility
        self._directory = posixpath.join(directory, f"executor-{uuid.uuid4().hex[:12]}")
        self._python, self._options, self._running_max = python or sys.executable, dict(options), running_max
        # Guards what follows; notified when there is a future to wait for, or when it is shut down.
        self._changed = threading.Condition()
        self._waiting: dict[int, _Waiting] = {}
        self._is_shut_down = False
        self._is_collecting = False
        self._has_directory = False
        reply = facility._call("get_events", {"newest": 0})
        self._seen = {"after": reply["next_after"], "incarnation": reply["incarnation"]}

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> JobFuture[_T]:
        """Run a function as a job.

        Parameters
        ----------
        fn : callable
            What cloudpickle can pickle: also lambdas and functions of a notebook.
        *args, **kwargs
            Its arguments.

        Returns
        -------
        JobFuture
            Its result; ``job`` is the job.
        """
        futures: list[JobFuture[_T]] = self._run(fn, [(args, kwargs)], name=_name_of(fn))
        return futures[0]

    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,  # noqa: ARG002
    ) -> Iterator[_T]:
        """Run a function for each element, as the elements of one array of jobs.

        Parameters
        ----------
        fn : callable
            Takes one argument of each iterable.
        *iterables : iterable
            The arguments.
        timeout : float, optional
            Seconds from now until the last result has to be there.
        chunksize : int
            Elements for each job.
        buffersize : int, optional
            Not obeyed: all jobs are submitted at once, and wait in their queue.

        Returns
        -------
        iterator
            The results, in the order of the arguments.
        """
        if chunksize < 1:
            raise InvalidError(f"chunksize is {chunksize}, and at least 1")
        deadline = None if timeout is None else time.monotonic() + timeout
        elements = zip(*iterables, strict=False)
        chunks = iter(lambda: list(itertools.islice(elements, chunksize)), [])
        futures: list[JobFuture[list[_T]]] = []
        while part := list(itertools.islice(chunks, _ARRAY_MAX)):
            futures += self._run(_by_chunk(fn), [((chunk,), {}) for chunk in part], name=_name_of(fn))
        return self._results(futures, deadline)

    @staticmethod
    def _results(futures: Sequence[JobFuture[list[_T]]], deadline: float | None) -> Iterator[_T]:
        try:
            for future in futures:
                left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                yield from future.result(left_s)
        finally:
            for future in futures:
                future.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more functions.

        Parameters
        ----------
        wait : bool
            Return when all results are there.
        cancel_futures : bool
            Cancel the jobs whose results are not there yet.
        """
        with self._changed:
            self._is_shut_down = True
            waiting = [one.future for one in self._waiting.values()]
            self._changed.notify_all()
        if cancel_futures:
            for future in waiting:
                future.cancel()
        if wait and self._has_directory:
            concurrent.futures.wait(waiting)
            self._remove_directory()

    def _run(
        self, fn: Callable[..., Any], calls: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]], *, name: str
    ) -> list[Any]:
        """Submit one job for each call, and have their ends waited for."""
        self._begin()
        place = posixpath.join(self._directory, uuid.uuid4().hex[:12])
        calls_path = f"{place}.calls"
        self._facility.write_bytes(calls_path, _pack(fn, calls))
        options: dict[str, Any] = {"name": name, **self._options}
        options["inputs"] = {**named_inputs(options.get("inputs", ())), calls_path: "calls"}
        options["outputs"] = {**(options.get("outputs") or {}), "result.*": place}
        # Nobody looks at the event that a job has ended before its future is here.
        with self._changed:
            self._check_open()
            futures = []
            for index, job in enumerate(self._submit_jobs(len(calls), options)):
                future: JobFuture[Any] = JobFuture()
                future.job = job
                self._waiting[int(job)] = _Waiting(future, posixpath.join(place, f"result.{index}"))
                futures.append(future)
            if not self._is_collecting:
                self._is_collecting = True
                # A daemon: a program that forgets its futures can end.
                threading.Thread(target=self._collect, name="backplane-executor", daemon=True).start()
            self._changed.notify_all()
        return futures

    def _check_open(self) -> None:
        if self._is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _begin(self) -> None:
        """Make the directory before the first function: what lies there is run, here and on the workers."""
        with self._changed:
            self._check_open()
            if not self._has_directory:
                self._facility._make_private(self._directory)
                self._has_directory = True

    def _submit_jobs(self, count: int, options: dict[str, Any]) -> Sequence[Job]:
        command = [self._python, "-c", _PROGRAM]
        if count == 1:
            return [self._facility.submit(command, **options)]
        return self._facility.submit_array(command, indices=range(count), running_max=self._running_max, **options)

    def _collect(self) -> None:
        """Give each future its result. Whatever ends this thread is told to those that are left."""
        try:
            self._follow()
        except BaseException as error:
            self._fail_all(error)

    def _follow(self) -> None:
        """Wait for events of jobs in one call, whatever their number, until there is nothing to wait for any more."""
        away = Away()
        # The first look is at all: they may have ended before anybody waited.
        ended: set[int] | None = None
        looked = time.monotonic()
        while known := self._known():
            if ended is None or time.monotonic() - looked > _LOOK_S:
                ended, looked = known, time.monotonic()
            try:
                are_all_read = self._settle(known & ended)
                # Those that are over and could not be read are tried again soon.
                ended = self._wait_for_events() if are_all_read else None
                away.is_back()
            except Away.ERRORS:
                if away.is_too_long():
                    raise
                are_all_read, ended = False, None
            if not are_all_read:
                time.sleep(_PAUSE_S)

    def _known(self) -> set[int]:
        """Return jobs whose futures wait, when there are some; none if there are to be none any more."""
        with self._changed:
            while not self._waiting and not self._is_shut_down:
                self._changed.wait()
            return set(self._waiting)

    def _wait_for_events(self) -> set[int] | None:
        """Return jobs that ended since the last call; `None` if events were missed, and all have to be looked at."""
        reply = self._facility._call("get_events", {**self._seen, "types": ["job.*"]}, wait_s=_WAIT_S)
        is_whole = reply["incarnation"] == self._seen["incarnation"] and not reply["missed"]
        self._seen = {"after": reply["next_after"], "incarnation": reply["incarnation"]}
        return {int(event["subject"]) for event in reply["events"]} if is_whole else None

    def _settle(self, jobs: Iterable[int]) -> bool:
        """Give the futures of jobs that are over their results; tell whether all of these could be read."""
        ordered, are_all_read = sorted(jobs), True
        for start in range(0, len(ordered), _LOOKED_MAX):
            for info in self._facility.jobs(ordered[start : start + _LOOKED_MAX]):
                if info["state"] in OVER and not self._finish(info["id"], JobResult.of(info)):
                    are_all_read = False
        return are_all_read

    def _finish(self, job: int, result: JobResult) -> bool:
        """Give the future of a job its result; tell whether that could be read."""
        one = self._waiting[job]
        answer: tuple[bool, Any, str | None] = (False, None, None)
        if not one.future.cancelled():
            try:
                answer = self._take(one.path, result)
            except Away.ERRORS as error:
                if not one.unread.is_too_long():
                    return False
                answer = (False, error, None)
            except BaseException as error:
                answer = (False, error, None)
        # Until then it is waited for: who shuts down removes what is read here.
        try:
            _tell(one.future, *answer)
        finally:
            with self._changed:
                del self._waiting[job]
        return True

    def _take(self, path: str, result: JobResult) -> tuple[bool, Any, str | None]:
        if not result.ok:
            raise self._failed(result)
        answer: tuple[bool, Any, str | None] = pickle.loads(self._facility.read_bytes(path))
        # Else it goes with the directory.
        with contextlib.suppress(BackplaneError):
            self._facility.remove(path)
        return answer

    def _failed(self, result: JobResult) -> JobFailedError:
        why = f": {result.reason}" if result.reason else ""
        lines: list[str] = []
        with contextlib.suppress(BackplaneError):
            lines = self._facility.job(result.job).log().stderr.strip().splitlines()
        last = f" ({lines[-1]})" if lines else ""
        return JobFailedError(
            f"job {result.job} {result.state}{why}{last}", f"`bp log {result.job}` shows what it printed"
        )

    def _fail_all(self, error: BaseException) -> None:
        """Fail the futures that are left; those of later functions have another thread."""
        with self._changed:
            waiting, self._waiting, self._is_collecting = self._waiting, {}, False
        for one in waiting.values():
            fail(one.future, error)

    def _remove_directory(self) -> None:
        """Remove what functions and results have left behind."""
        with contextlib.suppress(NotFoundError):
            self._facility.rm(self._directory, recursive=True)


def _tell(future: JobFuture[Any], ok: bool, value: Any, text: str | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if ok:
        future.set_result(value)
        return
    if text is not None:
        value.__cause__ = RemoteError(text)
    future.set_exception(value)


def _by_chunk(fn: Callable[..., _T]) -> Callable[[Sequence[tuple[Any, ...]]], list[_T]]:
    """Call a function for each element of a chunk. What is returned is pickled by value: workers need not have us."""

    def call(chunk: Sequence[tuple[Any, ...]]) -> list[_T]:
        return [fn(*args) for args in chunk]

    return call


def _name_of(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))


def _pack(fn: Callable[..., Any], calls: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> bytes:
    """Write where each call begins, the function once, and the calls."""
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]

    data, offsets = io.BytesIO(), []
    data.write(cloudpickle.dumps(fn))
    for args, kwargs in calls:
        offsets.append(data.tell())
        data.write(cloudpickle.dumps((args, dict(kwargs))))
    return pickle.dumps(offsets) + data.getvalue()
