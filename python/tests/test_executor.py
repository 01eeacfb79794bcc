"""Functions that run as jobs of a real facility."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections.abc import Iterator

import pytest

import backplane

pytest.importorskip("cloudpickle")


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
