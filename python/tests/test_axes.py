"""Every axis of hist, profiles and quantiles: what hist and NumPy make of the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import awkward as ak
import hist
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hist.axis import Boolean, IntCategory, Integer, Regular, Variable
from hist.axis.transform import Pow, log, sqrt
from hypothesis import given
from hypothesis import strategies as st

import backplane

FLOATS = [
    Regular(10, 1, 100, transform=log),
    Regular(10, 1, 100, transform=sqrt),
    Regular(7, 1, 100, transform=Pow(0.25)),
    Regular(10, -5, 5, flow=False),
    Regular(10, -5, 5, underflow=False),
    Regular(10, 5, -5, overflow=False),
    Regular(6, -1, 2, circular=True),
    Regular(6, -1, 2, growth=True),
    Variable([-3, 0, 0.5, 4], flow=False),
    Variable([-3, 0, 0.5, 4], underflow=False),
    Variable([-3, 0, 0.5, 4], overflow=False),
]
INTS = [
    Integer(-2, 5, flow=False),
    Integer(-2, 5, underflow=False),
    Integer(-2, 5, overflow=False),
    Integer(-2, 5, circular=True),
    Integer(-2, 5, growth=True),
    IntCategory([3, -1, 4]),
    IntCategory([3, -1, 4], overflow=False),
    IntCategory([3, -1, 4], growth=True),
    IntCategory([], growth=True),
    Boolean(),
]
Ntuple = Callable[..., backplane.NTuple]


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Ntuple:
    """Write columns, in several row groups."""
    folder, number = tmp_path_factory.mktemp("axes"), iter(range(10**9))

    def write(**columns: Any) -> backplane.NTuple:
        path = folder / f"{next(number)}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=50)
        return backplane.ntuple(path)

    return write


def edge_cases(axis: Any) -> npt.NDArray[Any]:
    """Give values at, beside and beyond every edge of an axis of floats."""
    edges = np.asarray(axis.edges)
    special = [np.inf, -np.inf, np.nan, 0.0]
    return np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), 3 * edges, special])


def edges_of(axis: Any) -> Any:
    return axis.edges


def compare(found: hist.Hist[Any], axes: list[Any], *values: Any, weight: Any = None) -> None:
    storage = hist.storage.Int64() if weight is None else hist.storage.Weight()
    expected = hist.Hist(*axes, storage=storage).fill(*values, weight=weight)
    for own, other in zip(found.axes, expected.axes, strict=True):
        assert own.traits == other.traits
        np.testing.assert_allclose(edges_of(own), edges_of(other), rtol=1e-12)
    assert found.shape == expected.shape
    if weight is None:
        np.testing.assert_array_equal(found.view(flow=True), expected.view(flow=True))
    else:
        for what in ("values", "variances"):
            ours, theirs = (getattr(one, what)(flow=True) for one in (found, expected))
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("axis", FLOATS, ids=str)
@given(st.lists(st.floats(-20, 120), max_size=120))
def test_floats_go_where_hist_puts_them(of: Ntuple, axis: Any, values: list[float]) -> None:
    array = np.array([*values, 1.0])
    # Where an axis grows or its edges are computed, rounding at an edge is not defined.
    if not axis.traits.growth and getattr(axis, "transform", None) is None and not axis.traits.circular:
        array = np.concatenate([array, edge_cases(axis)])
    else:
        array = np.concatenate([array, [np.nan, np.inf, -np.inf]]) + 1e-3
    weight = np.arange(len(array)) % 7 + 0.5
    chain = of(x=array, w=weight)
    compare(chain.hist("x", axis=axis), [axis], array)
    compare(chain.hist("x", axis=axis, weight="w"), [axis], array, weight=weight)
    kept = weight > 3
    compare(chain.hist("x", axis=axis, where="w > 3"), [axis], array[kept])


@pytest.mark.parametrize("axis", INTS, ids=str)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=120))
def test_whole_numbers_go_where_hist_puts_them(of: Ntuple, axis: Any, values: list[int]) -> None:
    array = np.array(values)
    chain = of(n=array, good=array > 2)
    compare(chain.hist("n", axis=axis), [axis], array)
    other = Regular(3, -9, 9, flow=False)
    compare(chain.hist(("n", "1.0 * n"), axis=[axis, other]), [axis, other], array, array.astype("f8"))
    if isinstance(axis, Boolean | IntCategory):
        compare(chain.hist("good", axis=axis), [axis], array > 2)


def test_edges_that_grow_do_not_depend_on_the_order_of_entries(of: Ntuple) -> None:
    values = [5.0, 0.5, 9.0, 3.0, -1.0, np.inf, np.nan]
    for order in (values, values[::-1]):
        filled = of(x=order).hist("x", axis=Variable([0, 1, 2], growth=True))
        np.testing.assert_allclose(filled.axes[0].edges, [-1, 0, 1, 2, 9], rtol=1e-12)
        assert filled.values().tolist() == [1, 1, 0, 3]


def test_what_is_missing_is_in_no_category(of: Ntuple) -> None:
    chain = of(n=pa.array([1, None, 0, 1]), good=pa.array([True, None, False, None]), x=[0.5, 1.5, 2.5, 3.5])
    assert chain.hist("good", axis=Boolean()).values().tolist() == [1, 1]
    assert chain.hist("n", axis=Boolean()).values().tolist() == [1, 2]
    assert chain.hist("n", axis=IntCategory([1])).values(flow=True).tolist() == [2, 2]
    assert list(chain.hist("n", axis=IntCategory([], growth=True)).axes[0]) == [1, 0]
    for axis in (Boolean(), IntCategory([1])):
        with pytest.raises(backplane.InvalidError, match="takes whole numbers and truth values, and x is float"):
            chain.hist("x", axis=axis)
    with pytest.raises(backplane.InvalidError, match="takes text"):
        chain.hist("x", axis=hist.axis.StrCategory(["a"]))
    with pytest.raises(backplane.InvalidError, match="tells other edges"):
        chain.hist("x", axis=Variable([0, 1, 3], circular=True))


def test_a_variable_axis_grows_once(of: Ntuple) -> None:
    # Where boost-histogram puts new edges depends on the order of the values; here it is that of the extremes.
    axis = Variable([-3, 0, 0.5, 4], growth=True)
    found = of(x=[1.0, 9.0, -5.0, np.inf, 5.0, np.nan]).hist("x", axis=axis)
    edges = np.asarray(found.axes[0].edges)
    assert set(axis.edges) <= set(edges)
    assert (edges[0] <= -5, edges[-1] > 9, found.sum()) == (True, True, 4)
    assert found.values(flow=True)[-1] == 2


def test_axes_of_lists(of: Ntuple) -> None:
    jets = ak.Array([[1.0, 30.0], [], [4.0], [-8.0, 64.0, 2.0]])
    chain = of(Jet_pt=ak.to_arrow(jets, extensionarray=False), met=[1.0, 2.0, 3.0, 4.0])
    flat = ak.to_numpy(ak.flatten(jets))
    for axis in FLOATS:
        compare(chain.hist("Jet_pt[Jet_pt > 0]", axis=axis), [axis], flat[flat > 0])
        compare(chain.hist("Jet_pt", axis=axis, where="Jet_pt > 3"), [axis], flat[flat > 3])
    growing = Regular(2, 0, 1, growth=True)
    compare(chain.hist("met", axis=growing, where="any(Jet_pt > 20)"), [growing], np.array([1.0, 4.0]))


def test_growth_has_a_bound(of: Ntuple) -> None:
    chain = of(x=[0.0, 1e9], n=[0, 2**40])
    for name, axis in [("x", Regular(10, 0, 1, growth=True)), ("n", Integer(0, 5, growth=True))]:
        with pytest.raises(backplane.InvalidError, match="would grow to"):
            chain.hist(name, axis=axis)


def test_booked_and_partial_histograms_have_every_axis(chain: backplane.NTuple) -> None:
    seen: list[list[hist.Hist[Any]]] = []
    axes = [Regular(20, 1, 100, transform=log), Regular(5, 0, 50, growth=True), Integer(0, 9, circular=True)]
    requests = [backplane.HistRequest(name, axis=axis) for name, axis in zip(["x", "x", "n"], axes, strict=True)]
    filled = chain.hists(requests, partial=seen.append)
    assert seen[-1] == filled
    booked = [chain.book(request.variable, axis=request.axis) for request in requests]
    assert [one.result() for one in booked] == filled


def view(histogram: hist.Hist[Any]) -> dict[str, npt.NDArray[Any]]:
    array: Any = histogram.view(flow=True)
    return {name: np.asarray(array[name]) for name in array.dtype.names}


@pytest.mark.parametrize("axis", [Regular(8, -2, 2), Regular(8, -2, 2, flow=False), Regular(4, 0, 1, growth=True)])
def test_a_profile_is_that_of_hist(of: Ntuple, axis: Any) -> None:
    rng = np.random.default_rng(3)
    x, y, w = rng.normal(0, 1.5, 500), rng.normal(3, 2, 500), rng.exponential(1, 500)
    chain = of(x=x, y=y, w=w)
    plain = hist.Hist(axis, storage=hist.storage.Mean()).fill(x, sample=y)
    weighted = hist.Hist(axis, storage=hist.storage.WeightedMean()).fill(x, sample=y, weight=w)
    partial: list[Any] = []
    pairs: list[tuple[hist.Hist[Any], hist.Hist[Any]]] = [
        (chain.profile("x", "y", axis=axis, partial=partial.append), plain),
        (chain.profile("x", "y", axis=axis, weight="w"), weighted),
    ]
    for found, expected in pairs:
        assert found.storage_type is expected.storage_type
        for name, array in view(found).items():
            np.testing.assert_allclose(array, view(expected)[name], rtol=1e-9, atol=1e-9, err_msg=name)
    assert partial[-1][0] == chain.profile("x", "y", axis=axis)
    one = chain.profile("x", "7.1", bins=3, range=(-9, 9))
    assert view(one)["_sum_of_deltas_squared"].min() >= 0


@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=80), st.sampled_from([0.001, 0.01, 0.1]))
def test_quantiles_are_within_their_accuracy(of: Ntuple, values: list[float], accuracy: float) -> None:
    array = np.array(values)
    q = np.linspace(0, 1, 11)
    exact = np.quantile(array, q, method="lower")
    found = of(x=array).quantiles("x", q, accuracy=accuracy)
    is_finite = np.isfinite(exact)
    assert np.array_equal(found[~is_finite], exact[~is_finite])
    error = np.abs(found[is_finite] - exact[is_finite])
    assert (error <= (accuracy + 1e-9) * np.abs(exact[is_finite])).all()


def test_quantiles_of_weights_lists_and_nothing(of: Ntuple) -> None:
    jets = ak.Array([[1.0, 30.0], [], [4.0], [-8.0, 64.0, 2.0]])
    chain = of(Jet_pt=ak.to_arrow(jets, extensionarray=False), x=[1.0, 2.0, 4.0, np.nan], w=[1.0, 0.0, 2.0, 5.0])
    assert chain.quantiles("Jet_pt", 0.5, where="Jet_pt > 0")[0] == pytest.approx(4, rel=0.01)
    assert chain.quantiles("x", [0.3, 0.4], weight="w") == pytest.approx([1, 4], rel=0.01)
    assert np.isnan(chain.quantiles("x", [0, 1], where="x > 9")).all()
    for wrong in (-0.1, [0.5, 1.1], float("nan")):
        with pytest.raises(backplane.InvalidError, match="are not between 0 and 1"):
            chain.quantiles("x", wrong)
    with pytest.raises(backplane.InvalidError, match=r"accuracy 0\.5 is not between"):
        chain.quantiles("x", 0.5, accuracy=0.5)
    with pytest.raises(backplane.InvalidError) as raised:
        chain.quantiles("x + ptt", 0.5)
    assert str(raised.value).splitlines()[-2:] == ["  x + ptt", "      ^"]
