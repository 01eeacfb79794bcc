"""Sessions: results outlive the process that asked for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import hist
import numpy as np
import pytest

import backplane
from backplane import HistRequest
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
