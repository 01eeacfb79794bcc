"""Functions that run as jobs of a real facility."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import backplane
from backplane import _executor
from backplane._executor import JobExecutor

pytest.importorskip("cloudpickle")

Start = Callable[..., AbstractContextManager[backplane.Facility]]


@pytest.fixture
def executor(live: backplane.Facility) -> Iterator[concurrent.futures.Executor]:
    with live.executor("/tasks") as made:
        yield made


def test_functions_run_as_jobs(live: backplane.Facility, executor: concurrent.futures.Executor) -> None:
    factor = 3

    def compute(x: int, y: int = 0) -> tuple[int, str]:
        return factor * x + y, os.environ["BP_JOB_ID"]

    future = executor.submit(compute, 4, y=2)
    value, job = future.result(60)
    assert value == 14
    assert live.job(int(job)).state == "done"
    assert future.done()
    assert not future.cancel()


def test_a_map_is_one_array_in_the_order_of_its_arguments(executor: concurrent.futures.Executor) -> None:
    found = list(executor.map(lambda x, y: (x * y, os.environ["BP_ARRAY_ID"]), range(10), range(10), chunksize=3))
    assert [value for value, _ in found] == [x * x for x in range(10)]
    assert len({array for _, array in found}) == 1
    assert list(executor.map(str, [])) == []


def test_what_a_function_raises_is_raised_here(executor: concurrent.futures.Executor) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        executor.submit(lambda: 1 / 0).result(60)
    assert "ZeroDivisionError" in str(raised.value.__cause__)
    ended = executor.submit(lambda: os._exit(3))
    with pytest.raises(backplane.JobFailedError, match="3"):
        ended.result(60)
    unpicklable = executor.submit(lambda: (_ for _ in ()))
    with pytest.raises(Exception, match="pickle"):
        unpicklable.result(60)


def test_futures_can_be_cancelled_and_waited_for(live: backplane.Facility) -> None:
    executor = live.executor("/tasks")
    quick, slow = executor.submit(pow, 2, 3), executor.submit(time.sleep, 1000)
    assert quick.result(60) == 8
    done, waiting = concurrent.futures.wait([slow], timeout=0)
    assert not done
    assert waiting == {slow}
    executor.shutdown(wait=True, cancel_futures=True)
    assert slow.cancelled()
    assert slow.job.wait(60).state == "cancelled"
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(pow, 2, 3)
    with pytest.raises(backplane.NotFoundError):
        live.stat(executor._directory)


def test_the_directory_is_private(live: backplane.Facility) -> None:
    with live.executor("/tasks") as executor:
        executor.submit(pow, 2, 3).result(60)
        assert live.stat(executor._directory)["mode"] & 0o077 == 0, "who writes there has code run"


def test_whatever_ends_the_collector_is_told_and_the_next_function_has_another(
    live: backplane.Facility, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = live.executor("/tasks")
    with monkeypatch.context() as broken:
        broken.setattr(executor, "_wait_for_events", lambda: dict[str, set[int]]()["a bug"])
        slow = executor.submit(time.sleep, 1000)
        with pytest.raises(KeyError, match="a bug"):
            slow.result(60)
    slow.job.cancel()
    assert executor.submit(pow, 2, 3).result(60) == 8
    executor.shutdown()


def test_an_end_that_is_told_before_the_future_is_here(
    start_facility: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two slots: one job runs all the time, so that the collector always waits.
    with start_facility(tmp_path / "facility", cpus=2) as facility:
        executor = facility.executor("/tasks")
        slow = executor.submit(time.sleep, 1000)
        told, wait_for_events, submit = threading.Event(), executor._wait_for_events, facility.submit

        def wait() -> set[int] | None:
            ended = wait_for_events()
            told.set()
            return ended

        def submit_and_wait(*args: object, **options: object) -> backplane.Job:
            told.clear()
            job: backplane.Job = submit(*args, **options)  # type: ignore[arg-type]
            job.wait(60)
            assert told.wait(60)
            return job

        monkeypatch.setattr(executor, "_wait_for_events", wait)
        # The call that waits is one from before; the end of this job ends it.
        executor.submit(pow, 2, 2).result(60)
        monkeypatch.setattr(facility, "submit", submit_and_wait)
        assert executor.submit(pow, 2, 3).result(20) == 8
        slow.cancel()
        executor.shutdown()


def test_a_lost_event_is_no_lost_result(live: backplane.Facility, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_executor, "_LOOK_S", 0.0)
    executor = live.executor("/tasks")
    wait_for_events = executor._wait_for_events
    monkeypatch.setattr(executor, "_wait_for_events", lambda: wait_for_events() and set())
    assert executor.submit(pow, 2, 3).result(60) == 8
    executor.shutdown()


def test_a_head_that_is_away_while_a_result_is_read(live: backplane.Facility, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_executor, "_PAUSE_S", 0.0)
    failures, read = [backplane.UnavailableError("the head is starting")] * 2, live.read_bytes

    def read_later(path: str) -> bytes:
        if failures:
            raise failures.pop()
        return read(path)

    monkeypatch.setattr(live, "read_bytes", read_later)
    with live.executor("/tasks") as executor:
        assert executor.submit(pow, 2, 3).result(60) == 8
    assert not failures


def test_who_shuts_down_waits_for_results_that_are_being_read(
    live: backplane.Facility, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reading, go_on, take = threading.Event(), threading.Event(), JobExecutor._take

    def wait_and_take(*args: object) -> object:
        is_reading.set()
        assert go_on.wait(60)
        return take(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(JobExecutor, "_take", wait_and_take)
    executor = live.executor("/tasks")
    future = executor.submit(pow, 2, 3)
    assert is_reading.wait(60)
    assert list(executor._waiting) == [future.job], "so shutdown waits for it"
    go_on.set()
    executor.shutdown()
    assert future.result(0) == 8


def test_an_array_is_its_jobs(live: backplane.Facility) -> None:
    command = ["/bin/sh", "-c", "echo $BP_ARRAY_INDEX; exit $BP_ARRAY_INDEX"]
    array = live.submit_array(command, indices="0-2", running_max=2, name="three")
    assert len(array) == 3
    assert [result.code for result in array.wait(60)] == [0, 1, 2]
    assert [job.log().stdout for job in array] == ["0\n", "1\n", "2\n"]
    assert array[-1].id == array.id + 2
    assert array[:2] == [array.id, array.id + 1]
    with pytest.raises(backplane.InvalidError, match="does not name indices"):
        live.submit_array(command, indices="a-b")
    with pytest.raises(backplane.InvalidError, match="no jobs"):
        live.submit_array(command, indices=[])
