"""A processor of coffea runs unchanged on our engines, and gives what coffea's own executor gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backplane

ak = pytest.importorskip("awkward")
uproot = pytest.importorskip("uproot")
processor = pytest.importorskip("coffea.processor")
distributed = pytest.importorskip("distributed")

from coffea.nanoevents import BaseSchema  # noqa: E402
from coffea.processor.test_items import NanoTestProcessor  # noqa: E402

from backplane.coffea import BackplaneExecutor  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def fileset(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder, files = tmp_path_factory.mktemp("nano"), {}
    for dataset in ("DYJets", "Data"):
        rng = np.random.default_rng(len(dataset))
        counts = rng.integers(0, 4, 3000)
        total = int(counts.sum())
        muons = {
            "pt": rng.exponential(40, total),
            "eta": rng.normal(0, 1.5, total),
            "phi": rng.uniform(-3, 3, total),
            "mass": np.full(total, 0.105),
            "charge": rng.choice([-1, 1], total),
        }
        place = folder / f"{dataset}.root"
        with uproot.recreate(place) as file:
            # An assignment would write an RNTuple.
            content = {"Muon": ak.unflatten(ak.zip(muons), counts), "run": np.ones(3000, "i4")}
            file.mktree("Events", {name: ak.type(ak.Array(values)).content for name, values in content.items()})
            file["Events"].extend(content)
        files[dataset] = {"files": {str(place): "Events"}}
    return files


def run(executor: Any, fileset: dict[str, Any]) -> Any:
    runner = processor.Runner(executor=executor, schema=BaseSchema, chunksize=700)
    return runner(fileset, processor_instance=NanoTestProcessor(mode="eager"))


def test_a_processor_of_coffea_runs_unchanged(fileset: dict[str, Any], tmp_path: Path) -> None:
    expected = run(processor.IterativeExecutor(status=False), fileset)
    here = run(BackplaneExecutor(status=False), fileset)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", local_directory=tmp_path
        ) as workers,
        backplane.cluster(workers.scheduler_address) as cluster,
    ):
        there = run(BackplaneExecutor(status=False, cluster=cluster), fileset)
    assert expected["cutflow"]["Data_mass"] > 1000
    assert here == there
    for found in (here, there):
        assert found["cutflow"] == expected["cutflow"]
        for name in ("mass", "pt"):
            for dataset in ("DYJets", "Data"):
                one, other = (result[name][{"dataset": dataset}] for result in (found, expected))
                np.testing.assert_array_equal(one.values(flow=True), other.values(flow=True))
