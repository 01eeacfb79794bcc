"""Jobs of a real facility, from Python."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

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


def test_a_program_is_shipped_and_never_replaced(live: backplane.Facility, tmp_path: Path) -> None:
    local = tmp_path / "say.sh"
    local.write_text('#!/bin/sh\necho "$@"\n')
    for _ in range(2):
        job = live.submit(["a b", "c"], program=(local, "/programs/"))
        assert job.wait(60).ok
        assert job.log() == "a b c\n"
    assert live.read_bytes("/programs/say.sh") == local.read_bytes()
    assert live.submit(program="/programs/say.sh").wait(60).ok
    local.write_text("#!/bin/sh\nexit 1 ####\n")
    with pytest.raises(FileExistsError, match="differs from"):
        live.submit(program=(local, "/programs/say.sh"))
    with pytest.raises(backplane.InvalidError, match="not a list"):
        live.submit()
