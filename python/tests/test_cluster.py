"""Passes on workers of Dask, as processes of their own: who comes, goes or is slow never changes a result."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backplane
from backplane import Cluster, HistRequest, NTuple

distributed = pytest.importorskip("distributed")

WAIT_S = 120.0
REQUESTS = [
    HistRequest("x", bins=50, range=(0, 100)),
    HistRequest("y", bins=20, range=(0, 100), where="n > 2", weight="w"),
    HistRequest(("x", "n"), axis=[hist.axis.Variable([0, 20, 50, 100]), hist.axis.Integer(0, 9)], weight="w * w"),
]


@pytest.fixture
def workers() -> Iterator[Any]:
    """Two workers, which are processes of their own."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1", silence_logs=50
    ) as local:
        yield local


@pytest.fixture
def cluster(workers: Any) -> Iterator[Cluster]:
    with distributed.Client(workers, set_as_default=False) as client:
        yield backplane.cluster(client, wait_s=WAIT_S)


def same(found: list[Any], expected: list[Any]) -> None:
    """Equal to the last bit."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.view(flow=True), other.view(flow=True), strict=True)
        assert one.axes == other.axes


def test_a_cluster_gives_what_this_process_gives(cluster: Cluster, chain: NTuple) -> None:
    told: list[tuple[int, int]] = []
    expected = chain.hists(REQUESTS)
    with cluster:
        same(chain.hists(REQUESTS, progress=lambda done, total: told.append((done, total))), expected)
    assert told == sorted(told)
    assert told[-1] == (chain.entries, chain.entries)
    arrays: dict[str, Any] = chain.arrays(["n", "y"])
    there: dict[str, Any] = chain.on(cluster).arrays(["n", "y"])
    np.testing.assert_array_equal(there["y"], arrays["y"])
    np.testing.assert_array_equal(there["n"].mask, arrays["n"].mask)
    assert there["n"].tolist() == arrays["n"].tolist()


def test_lists_are_computed_there_as_here(cluster: Cluster, tmp_path: Path) -> None:
    ak = pytest.importorskip("awkward")
    rng = np.random.default_rng(3)
    places = [tmp_path / f"{number}.parquet" for number in range(3)]
    for place in places:
        counts = rng.integers(0, 5, 150_000)
        jets = ak.unflatten(rng.exponential(30, int(counts.sum())).astype("f4"), counts)
        pq.write_table(pa.table({"Jet_pt": ak.to_arrow(jets, extensionarray=False), "met": rng.random(150_000)}), place)
    chain = backplane.ntuple(places).where("count(Jet_pt > 40) >= 1")
    requests = [
        HistRequest("Jet_pt[Jet_pt < 60]", bins=30, range=(0, 60), weight="met"),
        HistRequest("met", range=(0, 1)),
    ]
    same(chain.on(cluster).hists(requests), chain.hists(requests))
    here, there = chain.to_awkward(["Jet_pt"]), chain.on(cluster).to_awkward(["Jet_pt"])
    assert ak.array_equal(here, there)
    assert chain.on(cluster).map(lambda chunk: ak.sum(chunk.Jet_pt, axis=None), ["Jet_pt"]) > 0


def test_columns_are_found_where_they_were_read(cluster: Cluster, chain: NTuple) -> None:
    here = backplane.cache_use()
    chain.on(cluster).hists(REQUESTS)
    first = cluster.cache_use()
    chain.on(cluster).hists(REQUESTS)
    second = cluster.cache_use()
    assert backplane.cache_use() == here, "this process reads nothing"
    again = sum(second[worker]["misses"] - first[worker]["misses"] for worker in first)
    once = sum(use["misses"] for use in first.values())
    assert once >= 3 * 30
    # A worker that is ready early may help the other.
    assert again <= once / 2


class Gate:
    """Stops a pass at its first progress until somebody has done something."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act: Callable[[], object] | None = act
        self.told: list[int] = []

    def __call__(self, done: int, _total: int) -> None:
        self.told.append(done)
        if done and self.act is not None:
            act, self.act = self.act, None
            act()


def test_a_killed_worker_changes_nothing(cluster: Cluster, chain: NTuple) -> None:
    def kill() -> None:
        (pid, *_) = cluster.client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)

    gate = Gate(kill)
    same(chain.on(cluster).hists(REQUESTS, progress=gate), chain.hists(REQUESTS))
    assert gate.act is None
    assert gate.told == sorted(gate.told)
    assert gate.told[-1] == chain.entries


def test_a_late_worker_joins_and_one_that_is_stuck_is_passed_by(cluster: Cluster, workers: Any, chain: NTuple) -> None:
    stuck: list[int] = []

    def stop_one_and_add_another() -> None:
        (pid, *_) = cluster.client.run(os.getpid).values()
        os.kill(pid, signal.SIGSTOP)
        stuck.append(pid)
        workers.scale(3)
        cluster.wait_for_workers(3, WAIT_S)

    gate = Gate(stop_one_and_add_another)
    try:
        same(chain.on(cluster).hists(REQUESTS, progress=gate), chain.hists(REQUESTS))
    finally:
        for pid in stuck:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert gate.told[-1] == chain.entries


def test_partial_histograms_and_an_exception_in_progress(cluster: Cluster, chain: NTuple) -> None:
    shown: list[float] = []
    whole = chain.on(cluster).hist("x", bins=5, range=(0, 100), partial=lambda now: shown.append(now[0].sum()))
    assert shown == sorted(shown)
    assert shown[-1] == whole.sum()

    def stop(_done: int, _total: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        chain.on(cluster).hist("x", range=(0, 1), progress=stop)
    assert chain.on(cluster).hist("x", bins=5, range=(0, 100)) == whole, "the cluster goes on"


def test_failures_of_workers_come_as_they_are(cluster: Cluster, tmp_path: Path) -> None:
    place = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0]}), place)
    chain = backplane.ntuple(place).on(cluster)
    assert chain.hist("x", bins=2, range=(0, 3)).sum() == 2
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), place)
    with pytest.raises(backplane.InvalidError, match=r"f\.parquet") as raised:
        chain.hist("x", bins=2, range=(0, 3))
    assert raised.value.hint is not None
    with pytest.raises(backplane.InvalidError, match="unknown column"):
        chain.hist("y", range=(0, 1))


def test_a_cluster_without_workers_is_waited_for_and_explained(chain: NTuple) -> None:
    expected = chain.hist("x", bins=3, range=(0, 100))
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1", silence_logs=50) as local,
        backplane.cluster(local.scheduler_address, wait_s=0.2) as cluster,
    ):
        with pytest.raises(backplane.TimeoutExpiredError, match="no worker for"):
            chain.hist("x", range=(0, 1))
        with pytest.raises(backplane.TimeoutExpiredError, match="0 of 1 workers"):
            cluster.wait_for_workers(1, 0.1)
        cluster.wait_s = WAIT_S
        comes_late = threading.Thread(target=local.scale, args=[1])
        comes_late.start()
        assert chain.hist("x", bins=3, range=(0, 100)) == expected
        comes_late.join()


# Workers as batch jobs


@pytest.fixture(scope="module")
def batch(
    start_facility: Callable[..., contextlib.AbstractContextManager[backplane.Facility]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[backplane.Facility]:
    """A facility with slots for three workers."""
    with start_facility(tmp_path_factory.mktemp("batch") / "facility", cpus=3) as facility:
        yield facility


@pytest.fixture(scope="module")
def there(batch: backplane.Facility, wide: Path) -> NTuple:
    batch.put(wide, "/data/wide", recursive=True)
    return batch.ntuple("/data/wide/*.parquet").define("y", "sqrt(x * x + 1)").where("x > 10")


def test_jobs_are_workers_that_come_and_go(batch: backplane.Facility, chain: NTuple, there: NTuple) -> None:
    expected = chain.hists(REQUESTS)
    with batch.cluster(workers=2, directory="/home/me", wait_s=WAIT_S) as cluster:
        same(there.hists(REQUESTS), expected)

        def end_one_and_add_another() -> None:
            cluster.jobs[0].cancel()
            cluster.jobs[0].wait(WAIT_S)
            cluster.scale(2)

        gate = Gate(end_one_and_add_another)
        same(there.hists(REQUESTS, progress=gate), expected)
        assert gate.act is None
        (private,) = batch.ls("/home/me")
        assert private["mode"] & 0o077 == 0, "the key is read by its owner only"
        address = cluster.client.scheduler.address
        assert address.startswith("tls://")
        jobs = list(cluster.jobs)
    assert len(jobs) == 3
    assert all(job.result is not None for job in jobs), "no job is left"
    assert batch.ls("/home/me") == []
    same(there.hists(REQUESTS), expected)


def test_a_worker_job_that_died_is_started_again(batch: backplane.Facility, chain: NTuple, there: NTuple) -> None:
    expected = chain.hists(REQUESTS)
    with batch.cluster(workers=1, directory="/home/me", wait_s=WAIT_S) as cluster:
        cluster.wait_for_workers(1, WAIT_S)

        def end_the_worker() -> None:
            # Its number in the job is not one of this host.
            cluster.client.run(os._exit, 1, on_error="ignore")
            first.wait(WAIT_S)

        (first,) = cluster.jobs
        gate = Gate(end_the_worker)
        # There is no other worker: the pass ends only if a new one comes.
        same(there.hists(REQUESTS, progress=gate), expected)
        assert gate.act is None
        _, second = cluster.jobs
        assert first.info()["state"] == "failed"
        assert second.info()["state"] == "running"


def test_who_has_no_key_is_refused(batch: backplane.Facility) -> None:
    with batch.cluster(workers=0, directory="/home/me") as cluster:
        address = cluster.client.scheduler.address
        for security in (None, distributed.Security.temporary()):
            with pytest.raises((OSError, TypeError, RuntimeError)):
                distributed.Client(address, security=security, timeout=5, set_as_default=False)


def test_a_worker_that_cannot_start_is_explained(batch: backplane.Facility, there: NTuple) -> None:
    with batch.cluster(workers=1, directory="/home/me", python="/nonexistent/python", wait_s=2) as cluster:
        cluster.jobs[0].wait(WAIT_S)
        cluster.wait_s = 20
        with pytest.raises(backplane.TimeoutExpiredError, match="no worker for") as raised:
            there.hist("x", range=(0, 1))
        assert "failed" in str(raised.value.hint)
        # It is tried three times, and not for ever.
        assert len(cluster.jobs) == 3
    with pytest.raises(backplane.InvalidError, match="10001 workers"):
        batch.cluster(workers=10_001, directory="/home/me")


def test_functions_run_there_as_here(cluster: Cluster, chain: NTuple) -> None:
    weight = 2.5

    def tally(chunk: Any) -> dict[str, Any]:
        return {"sum": weight * float(np.sum(chunk["w"])), "lengths": [len(chunk["x"])]}

    assert chain.on(cluster).map(tally, ["x", "w"], library="np") == chain.map(tally, ["x", "w"], library="np")
    with pytest.raises(ZeroDivisionError):
        chain.on(cluster).map(lambda _chunk: 1 // 0, ["x"], library="np")
    values = [0.1 * 3**number for number in range(37)]
    assert cluster.map_items(lambda value: [value], values) == values
    assert cluster.map_items(len, []) is None
    with pytest.raises(TypeError):
        cluster.map_items(len, [1])
