"""Results of the kernels against NumPy and boost-histogram on the same data."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import boost_histogram as bh
import hist
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backplane
from backplane import HistRequest, NTuple

_DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
Data = dict[str, npt.NDArray[Any]]


def same(found: hist.Hist[Any], expected: hist.Hist[Any]) -> None:
    view: Any = found.view(flow=True)
    reference: Any = expected.view(flow=True)
    if view.dtype.names:
        np.testing.assert_allclose(view["value"], reference["value"], rtol=1e-12)
        np.testing.assert_allclose(view["variance"], reference["variance"], rtol=1e-12)
    else:
        assert view.dtype == reference.dtype
        np.testing.assert_array_equal(view, reference)
    for axis, other in zip(found.axes, expected.axes, strict=True):
        np.testing.assert_array_equal(axis.edges, other.edges)


def test_columns_and_entries(events: NTuple) -> None:
    assert len(events) == events.entries == 15000
    assert events.columns == {
        "mass": "float",
        "px": "float",
        "py": "float",
        "eta": "float",
        "w": "float",
        "n": "int",
        "event": "int",
        "good": "bool",
    }
    more = events.define("pt", "sqrt(px**2 + py**2)").filter("pt > 20")
    assert more.columns["pt"] == "float"
    assert "pt" not in events.columns
    assert repr(more) == "<NTuple of 15000 entries, 9 columns, where (pt > 20)>"


def test_one_histogram_equals_boost_histogram(events: NTuple, data: Data) -> None:
    found = events.hist("mass", bins=100, range=(60, 120))
    expected = hist.Hist(hist.axis.Regular(100, 60, 120), storage=hist.storage.Int64())
    expected.fill(data["mass"])
    same(found, expected)
    assert found.axes[0].name == "mass"
    assert found.axes[0].label == "mass"
    assert found.sum(flow=True) == 15000


@pytest.mark.parametrize(
    "axis",
    [
        hist.axis.Regular(7, -1.1, 2.3, name="n", label="jets"),
        hist.axis.Regular(13, 5.0, -3.0),
        hist.axis.Variable([0, 1, 1.5, 4, 9]),
        hist.axis.Integer(1, 6),
    ],
    ids=str,
)
@pytest.mark.parametrize("variable", ["n", "eta", "px"])
def test_every_axis_equals_boost_histogram(events: NTuple, data: Data, axis: Any, variable: str) -> None:
    values = data[variable]
    if isinstance(axis, hist.axis.Integer):
        values = np.floor(values).astype(int)
    expected = hist.Hist(axis, storage=hist.storage.Int64())
    expected.fill(values)
    found = events.hist(variable, axis=axis)
    same(found, expected)
    assert found.axes[0].name == (axis.name or variable)
    assert axis.label == ("jets" if axis.name else axis.label)


def test_cut_and_derived_variable(events: NTuple, data: Data) -> None:
    px, py = data["px"].astype("f8"), data["py"].astype("f8")
    pt = np.sqrt(px * px + py * py)
    cut = (np.abs(data["eta"]) < 1.5) & data["good"]
    expected = hist.Hist(hist.axis.Regular(50, 0, 80), storage=hist.storage.Int64())
    expected.fill(pt[cut])
    ntuple = events.define("pt", "sqrt(px**2 + py**2)")
    same(ntuple.hist("pt", bins=50, range=(0, 80), where="abs(eta) < 1.5 and good"), expected)
    same(ntuple.filter("abs(eta) < 1.5").filter("good").hist("pt", bins=50, range=(0, 80)), expected)
    same(events.hist("hypot(px, py)", bins=50, range=(0, 80), where="good && !(abs(eta) >= 1.5)"), expected)
    assert events.hist("px + py", bins=5, range=(0, 1)).axes[0].label == "px + py"


def test_weights(events: NTuple, data: Data) -> None:
    expected = hist.Hist(hist.axis.Regular(30, 60, 120), storage=hist.storage.Weight())
    cut = data["n"] > 1
    expected.fill(data["mass"][cut], weight=2 * data["w"][cut].astype("f8"))
    found = events.hist("mass", bins=30, range=(60, 120), where="n > 1", weight="2 * w")
    same(found, expected)
    assert isinstance(found.view(), type(expected.view()))


def test_two_dimensions(events: NTuple, data: Data) -> None:
    axes: list[Any] = [hist.axis.Regular(10, -40, 40), hist.axis.Integer(0, 8)]
    expected = hist.Hist(*axes, storage=hist.storage.Int64())
    expected.fill(data["px"], data["n"])
    same(events.hist(("px", "n"), axis=axes), expected)
    found = events.hist(("px", "py"), bins=(10, 20), range=((-40, 40), (-50, 50)))
    assert found.values(flow=True).shape == (12, 22)
    assert [axis.name for axis in found.axes] == ["px", "py"]
    reference = hist.Hist(*found.axes, storage=hist.storage.Int64())
    same(found, reference.fill(data["px"], data["py"]))


def test_many_in_one_pass(events: NTuple, data: Data) -> None:
    px, py = events.hist(["px", "py"], bins=20, range=(-60, 60))
    cut, weighted = events.hists(
        [
            HistRequest("px", bins=20, range=(-60, 60), where="good"),
            HistRequest("py", bins=20, range=(-60, 60), where="not good", weight="w"),
        ]
    )
    for found, values in [(px, data["px"]), (py, data["py"]), (cut, data["px"][data["good"]])]:
        same(found, hist.Hist(found.axes[0], storage=hist.storage.Int64()).fill(values))
    bad = ~data["good"]
    same(weighted, hist.Hist(py.axes[0], storage=hist.storage.Weight()).fill(data["py"][bad], weight=data["w"][bad]))


def test_threads_do_not_change_the_result(folder: Path) -> None:
    def run(threads: int) -> hist.Hist[Any]:
        ntuple = backplane.ntuple(folder / "*.parquet", threads=threads)
        return ntuple.hist("mass", bins=9, range=(0, 200), weight="w")

    assert all(run(threads) == run(1) for threads in (2, 3, 8))


def test_arrays(events: NTuple, data: Data) -> None:
    arrays = events.arrays(["mass", "event", "n", "good", "eta * 2", "n + 1", "n > 2"], where="good and n > 2")
    cut = data["good"] & (data["n"] > 2)
    for name in ("mass", "event", "n", "good"):
        np.testing.assert_array_equal(arrays[name], data[name][cut])
        assert arrays[name].dtype == data[name].dtype
    np.testing.assert_array_equal(arrays["eta * 2"], data["eta"][cut] * 2)
    np.testing.assert_array_equal(arrays["n + 1"], data["n"][cut].astype("i8") + 1)
    assert arrays["n > 2"].all()
    arrays["eta * 2"][0] = 1.0
    assert events.arrays("n")["n"].shape == (15000,)


def test_the_second_pass_decodes_nothing(events: NTuple) -> None:
    events.hist("mass", range=(0, 1))
    before = backplane.cache_use()
    events.hist("mass * 2", range=(0, 1))
    after = backplane.cache_use()
    assert (after.misses, after.hits) == (before.misses, before.hits + 9)


def test_missing_values(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1.5, None, 2.5]), "n": pa.array([1, None, 3], pa.int32()), "s": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "f.parquet")
    ntuple = backplane.ntuple(f"file://{tmp_path}/f.parquet")
    assert ntuple.columns == {"x": "float", "n": "int"}
    assert ntuple.unusable == {"s": "is text or bytes, not numbers"}
    arrays = ntuple.arrays(["x", "n", "isnan(n)"])
    np.testing.assert_array_equal(arrays["x"], [1.5, np.nan, 2.5])
    assert isinstance(arrays["n"], np.ma.MaskedArray)
    assert (arrays["n"].dtype, arrays["n"].tolist()) == (np.dtype("i4"), [1, None, 3])
    counts = ntuple.hist("n", bins=2, range=(0.5, 2.5)).values(flow=True)
    assert counts.tolist() == [0, 1, 0, 2], "what is missing is counted as NaN is"
    assert arrays["isnan(n)"].tolist() == [False, True, False]
    with pytest.raises(backplane.UnsupportedError, match='column "s" at 1 is text'):
        ntuple.filter("s > 1")


def test_errors_come_at_once_and_say_where(events: NTuple, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(backplane.InvalidError, match=r'where: unknown column "ptt" at 3; columns are mass') as raised:
        events.define("pt", "px").filter("1+ptt")
    assert raised.value.hint == 'did you mean "pt"?'
    assert "hint: did you mean" in raised.value.__notes__[0]
    with pytest.raises(ValueError, match="define pt: "):
        events.define("pt", "px +")
    with pytest.raises(backplane.ExistsError):
        events.define("px", "1")
    with pytest.raises(backplane.InvalidError, match="has no range"):
        events.hist("px")
    with pytest.raises(backplane.InvalidError, match="has no width"):
        events.hist("px", range=(1, 1))
    with pytest.raises(backplane.InvalidError, match="2 axes for 1"):
        events.hist("px", axis=[hist.axis.Integer(0, 1), hist.axis.Integer(0, 1)])
    with pytest.raises(FileNotFoundError, match="no file matches"):
        backplane.ntuple(tmp_path / "*.parquet")
    with pytest.raises(FileNotFoundError):
        backplane.ntuple(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"no")
    with pytest.raises(backplane.CorruptError, match="not a Parquet file"):
        backplane.ntuple(tmp_path / "bad.parquet")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "other.parquet")
    with pytest.raises(backplane.InvalidError, match=r"other\.parquet: no columns \"mass\""):
        backplane.ntuple([folder / "run0.parquet", tmp_path / "other.parquet"])


def test_an_exception_in_progress_stops_the_pass(events: NTuple) -> None:
    def stop(_done: int, _total: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        events.hist("mass", range=(0, 1), progress=stop)


def test_progress_ends_at_the_total(events: NTuple) -> None:
    told: list[tuple[int, int]] = []
    events.hist("mass", range=(0, 1), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (15000, 15000)
    assert told == sorted(told)


@given(
    values=st.lists(st.floats(width=32), max_size=60),
    bins=st.integers(1, 300),
    low=st.floats(-1e3, 1e3),
    width=st.floats(1e-3, 1e4),
)
def test_any_values_go_where_boost_histogram_puts_them(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], bins: int, low: float, width: float
) -> None:
    # Values at every edge as well: there rounding decides.
    edges = low + np.arange(bins + 1) * width / bins
    array = np.concatenate([np.array(values, "f8"), edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
    axis = hist.axis.Regular(bins, low, low + width)
    expected = hist.Hist(axis, storage=hist.storage.Int64()).fill(array)
    path = tmp_path_factory.mktemp("any") / "f.parquet"
    pq.write_table(pa.table({"x": array}), path)
    same(backplane.ntuple(path).hist("x", axis=axis), expected)


def test_axes_of_boost_histogram_and_numbers_of_numpy(events: backplane.NTuple, data: dict[str, np.ndarray]) -> None:
    expected = events.hist("mass", bins=60, range=(60, 120))
    for filled in (
        events.hist("mass", bins=np.int64(60), range=(np.float32(60), np.int16(120))),
        events.hist("mass", bins=np.uint8(60), range=np.array([60, 120])),
        events.hist("mass", axis=bh.axis.Regular(60, 60, 120)),
        events.hist("mass", axis=bh.axis.Variable(np.linspace(60, 120, 61))),
    ):
        assert np.array_equal(filled.values(flow=True), expected.values(flow=True))
        assert filled.axes[0].name == "mass"
    two = events.hist(("n", "eta"), axis=[bh.axis.Integer(0, 8), hist.axis.Regular(10, -2, 2)])
    assert [axis.name for axis in two.axes] == ["n", "eta"]
    counts = np.array([5, 4], dtype="i2")
    both = events.hist(("n", "eta"), bins=counts, range=np.array([[0.0, 5.0], [-2.0, 2.0]]))
    assert [len(axis) for axis in both.axes] == [5, 4]
    assert len(data["n"]) == two.sum(flow=True)


@pytest.mark.parametrize(
    "axis",
    [
        bh.axis.Regular(10, 1, 100, transform=bh.axis.transform.Function(_DOUBLE(math.log), _DOUBLE(math.exp))),
        bh.axis.IntCategory([1, 2]),
        bh.axis.StrCategory(["a"]),
        bh.axis.Boolean(),
        np.linspace(0, 1, 11),
        100,
        "mass",
    ],
)
def test_other_axes_are_refused_before_the_pass(events: backplane.NTuple, axis: object) -> None:
    heard: list[object] = []
    with pytest.raises(backplane.InvalidError, match=r"axis|axes"):
        events.hist("mass", axis=axis, progress=lambda *now: heard.append(now))
    assert heard == []


@pytest.mark.parametrize(
    ("bins", "span"),
    [(1.5, (0, 1)), ("10", (0, 1)), (10, (0, 1, 2)), (10, 5), (None, (0, 1)), (np.float64(10), (0, 1))],
)
def test_odd_numbers_of_bins_are_refused(events: backplane.NTuple, bins: Any, span: Any) -> None:
    with pytest.raises(backplane.InvalidError):
        events.hist("mass", bins=bins, range=span)
