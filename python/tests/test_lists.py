"""Lists and combinations against awkward, and the eight queries of the ADL benchmark on real events."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backplane

ak = pytest.importorskip("awkward")

DATA = Path(__file__).parent / "data" / "adl"
QUERIES = Path(__file__).resolve().parents[2] / "examples" / "adl"
Events = Any


def query(number: int) -> Callable[[backplane.NTuple], Any]:
    spec = importlib.util.spec_from_file_location(f"q{number}", QUERIES / f"q{number}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[[backplane.NTuple], Any] = module.run
    return run


def reference(name: str, low: float, high: float) -> np.ndarray[Any, Any]:
    counts = np.zeros(102)
    for line in (DATA / f"{name}.csv").read_text().split()[1:]:
        center, count = map(float, line.split(","))
        counts[min(max(math.floor((center - low) / (high - low) * 100) + 1, 0), 101)] += count
    return counts


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("number", range(1, 9))
def test_the_queries_give_the_published_histograms(number: int, threads: int) -> None:
    chain = backplane.ntuple(DATA / "events.parquet", threads=threads)
    found = query(number)(chain)
    names = ["q6-1", "q6-2"] if number == 6 else [f"q{number}"]
    for histogram, name in zip(found if number == 6 else [found], names, strict=True):
        edges = histogram.axes[0].edges
        np.testing.assert_array_equal(histogram.values(flow=True), reference(name, edges[0], edges[-1]))


def test_a_list_of_structures_is_a_collection(tmp_path: Path) -> None:
    flat = pq.read_table(DATA / "events.parquet")
    columns = {}
    for group in ("Muon", "Electron", "Jet"):
        names = [name for name in flat.column_names if name.startswith(f"{group}_")]
        lists = [flat[name].combine_chunks() for name in names]
        short = [name.removeprefix(f"{group}_") for name in names]
        elements = pa.StructArray.from_arrays([column.values for column in lists], short)
        columns[group] = pa.ListArray.from_arrays(lists[0].offsets, elements)
    columns["MET"] = pa.StructArray.from_arrays(
        [flat["MET_pt"].combine_chunks(), flat["MET_phi"].combine_chunks()], ["pt", "phi"]
    )
    pq.write_table(pa.table(columns), tmp_path / "nested.parquet", row_group_size=170)
    nested = backplane.ntuple(tmp_path / "nested.parquet")
    assert nested.columns["Jet.pt"] == "list[float]"
    assert nested.columns["MET.pt"] == "float"
    for number in range(1, 9):
        assert query(number)(nested) == query(number)(backplane.ntuple(DATA / "events.parquet"))
    for name in ("Jet_pt", "Jet.pt"):
        assert nested.hist(name, range=(15, 60)).sum(flow=True) == 1699


def events(counts: list[tuple[int, int]], seed: int) -> pa.Table:
    """Make entries with lists of these lengths."""
    rng = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {
        "x": pa.array(rng.normal(size=len(counts))),
        "k": pa.array(rng.integers(0, 4, len(counts)).astype("i4")),
    }
    for place, group in enumerate("JM"):
        lengths = [count[place] for count in counts]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("i4")
        size = int(offsets[-1])
        pt = rng.exponential(30, size).astype("f4")
        pt[rng.random(size) < 0.05] = np.nan
        values = {
            "pt": pa.array(pt),
            "eta": pa.array(rng.normal(0, 1.5, size)),
            "phi": pa.array(rng.uniform(-4, 4, size)),
            "mass": pa.array(rng.exponential(3, size).astype("f4")),
            "q": pa.array(rng.integers(-1, 2, size).astype("i4")),
            "good": pa.array(rng.random(size) < 0.6),
        }
        for name, elements in values.items():
            columns[f"{group}_{name}"] = pa.ListArray.from_arrays(pa.array(offsets), elements)
    return pa.table(columns)


def nan_min(values: Any) -> Any:
    return ak.fill_none(ak.min(values, axis=-1, mask_identity=True), np.nan)


def nan_max(values: Any) -> Any:
    return ak.fill_none(ak.max(values, axis=-1, mask_identity=True), np.nan)


def vectors(group: Any) -> Any:
    px, py = group.pt * np.cos(group.phi), group.pt * np.sin(group.phi)
    pz = group.pt * np.sinh(group.eta)
    return ak.zip({"x": px, "y": py, "z": pz, "e": np.sqrt(px**2 + py**2 + pz**2 + group.mass**2)})


def mass(*parts: Any) -> Any:
    x, y, z, e = (sum(part[name] for part in parts) for name in "xyze")
    square = e**2 - x**2 - y**2 - z**2
    return np.copysign(np.sqrt(abs(square)), square)


def delta_r(a: Any, b: Any) -> Any:
    phi = a.phi - b.phi
    phi = phi - 2 * np.pi * np.round(phi / (2 * np.pi))
    return np.sqrt((a.eta - b.eta) ** 2 + phi**2)


def near(e: Events) -> Any:
    jets, muons = ak.unzip(ak.cartesian([e.J, e.M], nested=True))
    return delta_r(jets, muons)


def one(values: Any, axis: int = 1) -> Any:
    return ak.fill_none(ak.firsts(values, axis=axis), np.nan)


def best(values: Any, key: Any, *, least: bool = True) -> Any:
    choose = ak.argmin if least else ak.argmax
    return one(values[choose(key, axis=1, keepdims=True)])


def crossed(e: Events) -> Any:
    return ak.cartesian([e.J, e.M], nested=True)


def lonely(e: Events) -> Any:
    jets, muons = ak.unzip(ak.cartesian([e.J, e.M[e.M.good]], nested=True))
    return e.J.eta[~ak.any(delta_r(jets, muons) < 1, axis=2)]


def by_index(e: Events) -> Any:
    muons = crossed(e)["1"]
    return one(muons.eta[crossed(e)["0"].q == ak.local_index(muons.eta, axis=2)], axis=2)


def half_charge(e: Events) -> Any:
    return one(ak.combinations(e.J, 2)["0"].q / 2)


def side(e: Events) -> Any:
    eta = ak.combinations(e.J, 2)["0"].eta
    return one(ak.where(eta > 0, 1.0, 2.0))


def differing(e: Events) -> Any:
    p = ak.combinations(e.J, 2)
    return nan_max(p["0"].eta[p["0"].q != p["1"].q])


# What each expression gives, by awkward.
EXPRESSIONS: list[tuple[str, Callable[[Events], Any]]] = [
    ("J.pt", lambda e: e.J.pt),
    ("J_pt * 2 + x", lambda e: e.J.pt * 2.0 + e.x),
    ("J.pt[J.eta < 0]", lambda e: e.J.pt[e.J.eta < 0]),
    ("J.pt[J.good][J.eta[J.good] < x]", lambda e: e.J.pt[e.J.good & (e.J.eta < e.x)]),
    ("count(J)", lambda e: ak.num(e.J)),
    ("count(J[J.good])", lambda e: ak.sum(e.J.good, axis=1)),
    ("sum(J.good)", lambda e: ak.sum(e.J.good, axis=1)),
    ("sum(J.eta)", lambda e: ak.sum(e.J.eta, axis=1)),
    ("sum(J.q[J.good])", lambda e: ak.sum(e.J.q[e.J.good], axis=1)),
    ("any(J.pt > 40)", lambda e: ak.any(e.J.pt > 40, axis=1)),
    ("all(J.eta > -1)", lambda e: ak.all(e.J.eta > -1, axis=1)),
    ("all((J.eta > -1)[J.good])", lambda e: ak.all((e.J.eta > -1)[e.J.good], axis=1)),
    ("min(J.eta)", lambda e: nan_min(e.J.eta)),
    ("max(J.eta[J.good])", lambda e: nan_max(e.J.eta[e.J.good])),
    ("max(J.q)", lambda e: ak.max(e.J.q, axis=1)),
    ("mean(J.eta)", lambda e: ak.fill_none(ak.mean(e.J.eta, axis=1), np.nan)),
    ("first(J.eta)", lambda e: ak.fill_none(ak.firsts(e.J.eta), np.nan)),
    ("last(J.eta)", lambda e: ak.fill_none(ak.firsts(e.J.eta[:, ::-1]), np.nan)),
    ("J.eta[1]", lambda e: ak.fill_none(ak.firsts(e.J.eta[:, 1:]), np.nan)),
    ("first(J.q)", lambda e: ak.firsts(e.J.q)),
    ("J.q[-1]", lambda e: ak.firsts(e.J.q[:, ::-1])),
    ("argmin(J.eta)", lambda e: ak.argmin(e.J.eta, axis=1)),
    ("J.phi[argmax(J.eta)]", lambda e: best(e.J.phi, e.J.eta, least=False)),
    (
        "J[J.good][argmax(J.eta[J.good])].phi",
        lambda e: best(e.J.phi[e.J.good], e.J.eta[e.J.good], least=False),
    ),
    ("closest(J.eta, x)", lambda e: best(e.J.eta, abs(e.J.eta - e.x))),
    ("J.eta[k]", lambda e: ak.fill_none(ak.firsts(e.J.eta[ak.local_index(e.J.eta) == e.k]), np.nan)),
    ("J.index", lambda e: ak.local_index(e.J)),
    ("count(pairs(J))", lambda e: ak.num(ak.combinations(e.J, 2))),
    ("count(pairs(J[J.good]))", lambda e: ak.num(ak.combinations(e.J[e.J.good], 2))),
    ("count(triples(J))", lambda e: ak.num(ak.combinations(e.J, 3))),
    ("count(pairs(J, M))", lambda e: ak.num(ak.cartesian([e.J, e.M]))),
    ("pairs(J).a.eta - pairs(J).b.eta", lambda e: (lambda p: p["0"].eta - p["1"].eta)(ak.combinations(e.J, 2))),
    ("pairs(J.eta).b", lambda e: ak.combinations(e.J.eta, 2)["1"]),
    ("pairs(J, M).a.eta * pairs(J, M).b.eta", lambda e: (lambda p: p["0"].eta * p["1"].eta)(ak.cartesian([e.J, e.M]))),
    ("(pairs(J).a + pairs(J).b).mass", lambda e: (lambda p: mass(p["0"], p["1"]))(ak.combinations(vectors(e.J), 2))),
    ("triples(J[J.good]).c.eta", lambda e: ak.combinations(e.J[e.J.good], 3)["2"].eta),
    ("sum(triples(J).b.eta)", lambda e: ak.sum(ak.combinations(e.J, 3)["1"].eta, axis=1)),
    ("concat(J, M).eta", lambda e: ak.concatenate([e.J.eta, e.M.eta], axis=1)),
    ("concat(J, M, J).source", lambda e: ak.concatenate([e.J.q * 0, e.M.q * 0 + 1, e.J.q * 0 + 2], axis=1)),
    ("concat(J[J.good], M).eta", lambda e: ak.concatenate([e.J.eta[e.J.good], e.M.eta], axis=1)),
    ("any(deltar(J, M) < 1)", lambda e: ak.any(near(e) < 1, axis=2)),
    ("min(deltar(J, M))", lambda e: ak.fill_none(ak.min(near(e), axis=2), np.nan)),
    (
        "M[argmin(deltar(J, M))].eta",
        lambda e: one(crossed(e)["1"].eta[ak.argmin(near(e), axis=2, keepdims=True)], axis=2),
    ),
    ("J[not any(deltar(J, M[M.good]) < 1)].eta", lonely),
    ("M.eta[J.q]", by_index),
    ("sum(J).px", lambda e: ak.sum(vectors(e.J).x, axis=1)),
    # Nothing is computed of a combination that is not there.
    ("first(pairs(J).a.q / 2)", half_charge),
    ("first(where(pairs(J).a.eta > 0, 1.0, 2.0))", side),
    ("first(cross(J, M).a.eta)", lambda e: one(crossed(e)["0"].eta, axis=2)),
    ("first(cross(J, M).a.q)", lambda e: ak.firsts(crossed(e)["0"].q, axis=2)),
    ("first(vector(1, 2, 3, J.pt)).px", lambda e: ak.fill_none(ak.firsts(e.J.eta * 0 + 1.0), np.nan)),
    ("max(pairs(J).a.eta[pairs(J).a.q != pairs(J).b.q])", differing),
]


def plain(values: Any) -> list[Any]:
    if isinstance(values, np.ma.MaskedArray):
        return [
            None if gone else value
            for value, gone in zip(values.data.tolist(), np.ma.getmaskarray(values).tolist(), strict=True)
        ]
    listed: list[Any] = values.tolist()
    return listed


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return (math.isnan(found) and math.isnan(expected)) or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == expected)


@settings(max_examples=25)
@given(counts=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=40), seed=st.integers(0, 1000))
def test_expressions_are_those_of_awkward(
    tmp_path_factory: pytest.TempPathFactory, counts: list[tuple[int, int]], seed: int
) -> None:
    place = tmp_path_factory.mktemp("lists") / "events.parquet"
    table = events(counts, seed)
    pq.write_table(table, place, row_group_size=7)
    chain = backplane.ntuple(place)
    array = ak.from_arrow(table)
    array = ak.with_field(array, ak.values_astype(array.J_mass, "f8"), "J_mass")
    names = ("pt", "eta", "phi", "mass", "q", "good")
    groups = {group: ak.zip({name: array[f"{group}_{name}"] for name in names}) for group in "JM"}
    e = ak.zip({"x": array.x, "k": array.k, **groups}, depth_limit=1)
    found = chain.arrays([text for text, _ in EXPRESSIONS])
    passed = chain.arrays([text for text, _ in EXPRESSIONS], where="count(J) > 2 and any(M.good)")
    is_passed = ak.to_numpy((ak.num(e.J) > 2) & ak.any(e.M.good, axis=1))
    for text, by_awkward in EXPRESSIONS:
        if not counts:
            assert len(found[text]) == 0
            continue
        expected = by_awkward(e)
        assert same(plain(found[text]), ak.to_list(expected)), text
        assert same(plain(passed[text]), ak.to_list(expected[is_passed])), text
