"""Sessions: results outlive the process that asked for them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest

import backplane
from backplane import HistRequest
from backplane._jobs import OVER, Job
from backplane.analysis._plan import Plan, Selection
from backplane.analysis._session import Snapshot

WAIT_S = 120.0
REQUESTS = [
    HistRequest("x", bins=50, range=(0, 100), where="n > 2"),
    HistRequest("y", axis=hist.axis.Regular(20, 1, 100, transform=hist.axis.transform.log), weight="w"),
    HistRequest("x", bins=5, range=(0, 100), sample="y"),
]


@pytest.fixture(scope="module")
def batch(
    start_facility: Callable[..., contextlib.AbstractContextManager[backplane.Facility]],
    tmp_path_factory: pytest.TempPathFactory,
    wide: Path,
) -> Iterator[backplane.Facility]:
    with start_facility(tmp_path_factory.mktemp("session") / "facility", cpus=2) as facility:
        facility.put(wide, "/data/wide", recursive=True)
        yield facility


def there(facility: backplane.Facility) -> backplane.NTuple:
    return facility.ntuple("/data/wide/*.parquet").define("y", "sqrt(x * x + 1)").where("x > 10")


def test_a_session_finds_its_results_again(batch: backplane.Facility, chain: backplane.NTuple) -> None:
    session = batch.session("spectra", directory="/home/me")
    assert (list(session), len(session)) == ([], 0)
    asked = session.hists("all", there(batch), REQUESTS)
    # Another process, on another day.
    again = backplane.connect(batch.http or batch.root).session("spectra", directory="/home/me")
    assert list(again) == ["all"]
    found = again["all"].result(WAIT_S)
    assert found == chain.hists(REQUESTS) == asked.partial()
    assert (again["all"].state, asked.progress) == ("done", "1800000 of 1800000")
    assert "spectra" in repr(again)
    assert "1800000 of 1800000" in again._repr_html_()
    with pytest.raises(backplane.ExistsError, match="has a result 'all'"):
        session.hists("all", there(batch), REQUESTS)
    with pytest.raises(KeyError):
        session["../all"]
    again.remove()
    assert list(batch.session("spectra", directory="/home/me")) == []


def test_a_result_that_fails_says_why(batch: backplane.Facility) -> None:
    session = batch.session("failures", directory="/home/me")
    source = batch.read_bytes("/data/wide/0.parquet")
    batch.write_bytes("/data/goes.parquet", source)
    chain = batch.ntuple("/data/goes.parquet")
    batch.write_bytes("/data/goes.parquet", batch.read_bytes("/data/wide/1.parquet"))
    result = session.hists("changed", chain, [HistRequest("x", range=(0, 100))])
    with pytest.raises(backplane.UnavailableError, match=r"session result 'changed'.*goes\.parquet"):
        result.result(WAIT_S)
    assert result.state == "failed"
    assert result.partial()[0].sum() == 0
    result.remove()
    assert list(session) == []


# It writes when it is asked to end, as a job does that is about to show how far it is.
LATE = """
import signal, sys
import backplane
facility, path = backplane.connect(), sys.argv[1]
def end(*_):
    facility.write_bytes(path + "/snapshot", b"")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def late_jobs(batch: backplane.Facility, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the jobs of sessions write late."""
    submit = batch.submit

    def submit_late(command: list[str], **known: Any) -> Job:
        return submit([sys.executable, "-c", LATE, command[-1]], **known)

    monkeypatch.setattr(batch, "submit", submit_late)


@pytest.mark.usefixtures("late_jobs")
def test_what_is_removed_does_not_come_back(batch: backplane.Facility) -> None:
    session = batch.session("ghosts", directory="/home/me")
    result = session.hists("late", there(batch), REQUESTS[:1])
    job = result.job
    assert job is not None
    assert "ready" in next(job.follow())[1]
    session["late"].remove()
    assert job.state in OVER
    assert list(session) == []


@pytest.mark.usefixtures("late_jobs")
def test_a_job_whose_number_is_not_kept_is_ended(batch: backplane.Facility, monkeypatch: pytest.MonkeyPatch) -> None:
    session = batch.session("lost", directory="/home/me")
    write = batch.write_bytes

    def fails(path: str, data: bytes) -> None:
        if path.endswith("/job"):
            raise backplane.NoSpaceError("it is full")
        write(path, data)

    monkeypatch.setattr(batch, "write_bytes", fails)
    with pytest.raises(backplane.NoSpaceError, match="it is full"):
        session.hists("number", there(batch), REQUESTS[:1])
    assert list(session) == []
    jobs = [job for job in batch.jobs() if job["spec"]["name"] == "lost.number"]
    assert [job["state"] for job in jobs] == ["cancelled"]


def test_what_cannot_be_a_session_is_refused(batch: backplane.Facility, wide: Path) -> None:
    for name in ("", "a/b", "..", ".hidden", "x" * 65):
        with pytest.raises(backplane.InvalidError, match="cannot be the name"):
            batch.session(name)
    session = batch.session("odd", directory="/home/me")
    with pytest.raises(backplane.InvalidError, match="is a file of this host"):
        session.hists("local", backplane.ntuple(wide / "*.parquet"), REQUESTS[:0])
    with pytest.raises(backplane.InvalidError, match="cannot be the name"):
        session.hists("a b", there(batch), REQUESTS[:1])
    assert list(session) == []
    batch._call("set_mode", {"path": "/home/me/.sessions/odd", "mode": 0o755})
    with pytest.raises(backplane.PermissionDeniedError, match="others than"):
        batch.session("odd", directory="/home/me")


def test_a_plan_for_a_job_has_no_proof_of_its_user(batch: backplane.Facility) -> None:
    chain = there(batch)
    data = Plan(chain._chain, Selection((), (), [])).for_a_job()
    places = [place for place, *_ in Plan.of(data)._files]
    assert places
    assert all("?" not in place for place in places)


def test_snapshots_survive_and_damage_is_named() -> None:
    snapshot = Snapshot(3, 7, error="µ", bins=[np.arange(3.0), None, np.ones((2, 2))])
    again = Snapshot.of(bytes(snapshot))
    assert (again.done, again.total, again.is_final, again.error) == (3, 7, False, "µ")
    assert again.bins[1] is None
    np.testing.assert_array_equal(again.bins[2], np.ones((2, 2)))
    assert Snapshot.of(bytes(Snapshot())) == Snapshot()
    for damaged in (b"", b"no", bytes(snapshot)[:-30]):
        with pytest.raises(backplane.CorruptError, match="is damaged"):
            Snapshot.of(damaged)
