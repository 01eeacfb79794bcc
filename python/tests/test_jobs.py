"""Jobs of a real facility, from Python."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import backplane

SHELL = ["/bin/sh", "-c"]


def test_a_job_is_its_number_and_more(live: backplane.Facility) -> None:
    job = live.submit([*SHELL, "echo out; echo err >&2; echo result > o"], outputs={"o": "/jobs/o"}, name="one")
    result = job.wait(60)
    assert isinstance(job, backplane.Job)
    assert (result.state, result.ok, result.code, result.outputs) == ("done", True, 0, ("/jobs/o",))
    assert result.check() is result
    assert job.result == result
    assert live.job(job.id).result == result
    assert live.read_bytes("/jobs/o") == b"result\n"
    log = job.log()
    assert (log, log.stdout, log.stderr) == ("out\nerr\n", "out\n", "err\n")
    assert pickle.loads(pickle.dumps(log)).stderr == "err\n"
    # Where numbers were, jobs can be.
    assert live.jobs([job])[0]["id"] == job == int(job)
    assert json.dumps([job]) == f"[{job}]" == f"[{int(job)}]"
    assert {int(job)} == {job}
    assert repr(job) == f"<Job {job}>"
    assert pickle.loads(pickle.dumps(job)).state == "done"
    for shown in (job._repr_html_(), result._repr_html_()):
        assert "<td>done</td>" in shown


def test_a_job_that_fails_says_why(live: backplane.Facility) -> None:
    job = live.submit([*SHELL, "exit 3"])
    result = job.wait(60)
    assert (result.state, result.ok, result.code, result.outputs) == ("failed", False, 3, ())
    with pytest.raises(backplane.JobFailedError, match=rf"job {job} failed: .*3") as raised:
        result.check()
    assert raised.value.hint == f"`bp log {job}` shows what it printed"


def test_a_job_that_is_not_over_has_no_result(live: backplane.Facility, capsys: pytest.CaptureFixture[str]) -> None:
    job = live.submit(["/bin/sleep", "1000"])
    try:
        assert job.result is None
        with pytest.raises(backplane.TimeoutExpiredError, match=f"jobs {job} are not over after 0 s"):
            job.wait(0, progress=True)
        assert f"job {job} " in capsys.readouterr().err
    finally:
        job.cancel()
    result = job.wait(60)
    assert (result.state, result.code) == ("cancelled", None)
    with pytest.raises(backplane.JobFailedError, match="cancelled"):
        result.check()


def test_numbers_of_numpy_are_numbers(live: backplane.Facility) -> None:
    job = live.submit(["/bin/true"], cpus=np.int64(1), memory_bytes=np.uint32(1 << 20), wall_s=np.float32(60))
    (info,) = live.wait_for_jobs(np.array([job]), wait_s=np.float64(60))
    assert info["spec"]["resources"] == {"cpus": 1, "memory_bytes": 1 << 20, "wall": 60000}
    assert len(live.jobs(np.array([int(job)]))) == 1
    with pytest.raises(backplane.InvalidError, match=r"cpus is 1\.5, which is no whole number"):
        live.submit(["/bin/true"], cpus=1.5)  # type: ignore[arg-type]
    with pytest.raises(backplane.InvalidError, match="one path, not several"):
        live.submit(["/bin/true"], inputs="/data")
