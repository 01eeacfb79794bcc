"""What users of awkward, pandas, Arrow and RDataFrame expect of an n-tuple."""

from __future__ import annotations

from typing import Any

import hist
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backplane
from backplane import NTuple

ak = pytest.importorskip("awkward")
pandas = pytest.importorskip("pandas")


def count(chunk: Any) -> dict[str, Any]:
    filled: Any = hist.Hist(hist.axis.Regular(20, 0, 100, name="x"), storage=hist.storage.Weight())
    filled.fill(chunk["x"], weight=chunk["w"])
    return {"entries": len(chunk["x"]), "sum": float(np.sum(chunk["w"])), "h": filled, "chunks": [len(chunk["x"])]}


def test_a_function_sees_every_entry_once(chain: NTuple) -> None:
    told: list[tuple[int, int]] = []
    found = chain.map(count, ["x", "w"], library="np", progress=lambda *now: told.append(now))
    arrays = chain.arrays(["x", "w"])
    assert found["entries"] == len(arrays["x"]) == sum(found["chunks"])
    assert len(found["chunks"]) > 1
    np.testing.assert_allclose(found["sum"], arrays["w"].sum())
    expected: Any = hist.Hist(hist.axis.Regular(20, 0, 100), storage=hist.storage.Weight())
    expected.fill(arrays["x"], weight=arrays["w"])
    np.testing.assert_allclose(found["h"].values(flow=True), expected.values(flow=True))
    assert told[-1] == (chain.entries, chain.entries)
    assert told == sorted(told)
    again = backplane.ntuple(chain._chain.describe()[0][0][0]).map(count, ["x", "w"], library="np")
    assert again["entries"] == 300_000


def test_chunks_are_of_the_library_that_was_asked_for(chain: NTuple) -> None:
    few = chain.where("x > 120")
    records = few.map(lambda chunk: [chunk], library="ak")
    assert set(ak.fields(records[0])) == {"x", "w", "n", "y"}
    frames = few.map(lambda chunk: [chunk], ["n", "x + 1"], library="pd")
    assert list(frames[0].columns) == ["n", "x + 1"]
    total = few.to_numpy(["n"])["n"]
    assert sum(int(chunk.n.sum()) for chunk in frames) == int(total.sum())
    assert few.map(lambda chunk: ak.sum(chunk.n), ["n"]) == int(total.sum())
    with pytest.raises(backplane.InvalidError, match="library 'root' is not one of"):
        few.map(len, library="root")
    with pytest.raises(ZeroDivisionError):
        few.map(lambda _chunk: 1 / 0, ["n"])


def test_selections_as_tables(tmp_path: Any) -> None:
    columns = {
        "x": pa.array([1.5, None, 3.0]),
        "odd name": pa.array([1, None, 3], pa.int32()),
        "b": [True, False, True],
    }
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    chain = backplane.ntuple(tmp_path / "f.parquet").define("y", "x * 2")
    table = chain.to_arrow()
    assert table.column_names == ["x", "odd name", "b", "y"]
    assert table["odd name"].to_pylist() == [1, None, 3]
    assert table["odd name"].type == pa.int32()
    assert chain.to_awkward(["odd name", "b"]).tolist() == [
        {"odd name": 1, "b": True},
        {"odd name": None, "b": False},
        {"odd name": 3, "b": True},
    ]
    frame = chain.where("b").to_pandas()
    assert frame.y.tolist() == [3.0, 6.0]
    assert chain.to_pandas(["odd name"])["odd name"].isna().tolist() == [False, True, False]
    assert chain.to_numpy("x")["x"][0] == 1.5


def test_lists_are_tables_too(tmp_path: Any) -> None:
    lists = {"Jet_pt": [[1.0, 2.0], [], [3.0]], "n": [1, 2, 3]}
    pq.write_table(pa.table(lists), tmp_path / "f.parquet")
    chain = backplane.ntuple([tmp_path / "f.parquet"] * 2).where("n != 2")
    assert chain.to_arrow(["Jet_pt"])["Jet_pt"].to_pylist() == [[1.0, 2.0], [3.0]] * 2
    assert chain.to_awkward()["Jet_pt"].tolist() == [[1.0, 2.0], [3.0]] * 2
    assert chain.to_pandas()["Jet_pt"].tolist() == [[1.0, 2.0], [3.0]] * 2
    assert chain.map(lambda chunk: ak.sum(chunk.Jet_pt), ["Jet_pt"]) == 12.0


def test_booked_histograms_are_filled_in_one_pass(chain: NTuple) -> None:
    low, high = chain.where("n < 4"), chain.where("n >= 4 or isnan(n)")
    booked = [low.book("x", bins=10, range=(0, 100)), high.book("y", bins=10, range=(0, 100), weight="w")]
    # The same name for something else: it needs a pass of its own.
    other = low.define("z", "x").book("z", bins=5, range=(0, 100))
    clash = high.define("z", "w").book("z", bins=5, range=(0, 100))
    forgotten = chain.book("x", range=(0, 1))
    del forgotten
    passes: list[int] = []
    first = booked[0].result(progress=lambda done, total: passes.append(done) if done == total else None)
    assert booked[1].is_done
    assert other.is_done
    assert not clash.is_done
    assert len(set(passes)) == 1
    assert first == low.hist("x", bins=10, range=(0, 100))
    assert booked[1].result() == high.hist("y", bins=10, range=(0, 100), weight="w")
    assert other.result() == low.hist("x", bins=5, range=(0, 100)) or other.result().sum() == first.sum()
    assert clash.result() == high.define("z", "w").hist("z", bins=5, range=(0, 100))
    assert chain._pending == []


def test_importing_the_package_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = "import sys, backplane; print([name for name in ('numpy', 'hist', 'pandas', 'dask') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
