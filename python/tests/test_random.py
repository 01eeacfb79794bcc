"""Random columns and expressions: the kernels compute what NumPy and awkward compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backplane

Columns = dict[str, Any]


class Expr(NamedTuple):
    """An expression, and what it is: floats of 64 bits, in which a missing value is NaN."""

    text: str
    value: Callable[[Columns], Any]


def events(draw: st.DrawFn) -> tuple[pa.Table, Columns]:
    """Draw a table of some rows, and its columns as NumPy and awkward arrays."""
    rows = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
    table, columns = {}, {}
    for name, kind in [("x", "f4"), ("y", "f8"), ("n", "i4"), ("m", "i8")]:
        values = rng.normal(0, 10, rows).astype(kind)
        if kind.startswith("f"):
            values = np.where(rng.random(rows) < 0.1, rng.choice(special, rows), values).astype(kind)
        mask = rng.random(rows) < draw(st.sampled_from([0.0, 0.3]))
        table[name] = pa.array(values, mask=mask)
        columns[name] = np.where(mask, np.nan, values.astype("f8"))
    table["b"] = pa.array(rng.random(rows) < 0.5)
    columns["b"] = table["b"].to_numpy(zero_copy_only=False)
    counts = rng.integers(0, 5, rows)
    for name, kind in [("J_pt", "f4"), ("J_eta", "f8")]:
        lists = ak.unflatten(rng.normal(0, 10, int(counts.sum())).astype(kind), counts)
        table[name] = ak.to_arrow(lists, extensionarray=False)
        columns[name] = ak.values_astype(lists, "f8")
    return pa.table(table), columns


def number(value: float) -> Expr:
    return Expr(f"({value!r})", lambda _: np.float64(value))


def column(name: str) -> Expr:
    return Expr(name, lambda columns: columns[name])


def joined(form: str, function: Callable[..., Any], *parts: Expr) -> Expr:
    return Expr(
        form.format(*(part.text for part in parts)), lambda columns: function(*(p.value(columns) for p in parts))
    )


CONSTANTS = st.sampled_from([0.0, 0.5, 2.0, -3.0, 1e10]).map(number)
ARITHMETIC: list[tuple[str, Any]] = [
    ("({} + {})", np.add),
    ("({} - {})", np.subtract),
    ("({} * {})", np.multiply),
    ("({} / {})", np.divide),
]
FUNCTIONS: list[tuple[str, Any]] = [
    ("(-{})", np.negative),
    ("abs({})", np.abs),
    ("sqrt({})", np.sqrt),
    ("floor({})", np.floor),
]
RELATIONS: list[tuple[str, Any]] = [
    ("({} < {})", np.less),
    ("({} >= {})", np.greater_equal),
    ("({} == {})", np.equal),
    ("({} != {})", np.not_equal),
]


def formed(forms: list[tuple[str, Any]], *parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(lambda form, *drawn: joined(*form, *drawn), st.sampled_from(forms), *parts)


def truths(numbers: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Compare, and combine what was compared."""
    simple = st.one_of(formed(RELATIONS, numbers, numbers), st.just(column("b")))
    both: list[tuple[str, Any]] = [("({} and {})", np.logical_and), ("({} or {})", np.logical_or)]
    return st.one_of(simple, formed([("(not {})", np.logical_not)], simple), formed(both, simple, simple))


def grown(numbers: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    choice: list[tuple[str, Any]] = [("where({}, {}, {})", np.where)]
    return st.one_of(
        formed(FUNCTIONS, numbers),
        formed(ARITHMETIC, numbers, numbers),
        formed(choice, truths(numbers), numbers, numbers),
    )


PLAIN = st.recursive(st.one_of(CONSTANTS, *[st.just(column(name)) for name in "xynm"]), grown, max_leaves=8)


def cut(values: Any, condition: Any) -> Any:
    return ak.broadcast_arrays(values, condition)[0][ak.broadcast_arrays(values, condition)[1]]


SIMPLE = st.one_of(CONSTANTS, *[st.just(column(name)) for name in "xy"])
LISTS = st.recursive(
    st.sampled_from([column("J_pt"), column("J_eta")]),
    lambda inner: st.one_of(formed(FUNCTIONS, inner), formed(ARITHMETIC, inner, st.one_of(inner, SIMPLE))),
    max_leaves=4,
)
SELECTED = st.one_of(LISTS, formed([("({}[{}])", cut)], LISTS, formed(RELATIONS[:2], LISTS, st.one_of(LISTS, SIMPLE))))
REDUCTIONS: list[tuple[str, Any]] = [
    ("sum({})", lambda lists: ak.sum(lists, axis=1)),
    ("count({})", lambda lists: ak.num(lists, axis=1)),
    ("sum({} > 0)", lambda lists: ak.sum(lists > 0, axis=1)),
]
REDUCED = formed(REDUCTIONS, SELECTED)


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[[pa.Table], backplane.NTuple]:
    folder, numbers = tmp_path_factory.mktemp("random"), iter(range(10**9))

    def made(table: pa.Table) -> backplane.NTuple:
        # In files and row groups that cut the entries anywhere.
        number = next(numbers)
        middle = number % (len(table) + 1)
        for place, part in [("a", table.slice(0, middle)), ("b", table.slice(middle))]:
            pq.write_table(part, folder / f"{number}{place}.parquet", row_group_size=1 + number % 17)
        return backplane.ntuple(folder / f"{number}[ab].parquet", threads=1 + number % 3)

    return made


def floats(values: Any, rows: int) -> Any:
    """Give floats in which a missing value is NaN, one for each row."""
    array: Any = np.ma.filled(np.ma.asarray(ak.to_numpy(values), "f8"), np.nan)
    return np.broadcast_to(array, rows)


@given(st.data(), st.lists(st.one_of(PLAIN, REDUCED), min_size=1, max_size=3), truths(PLAIN))
@settings(max_examples=150)
def test_values_are_those_of_numpy(
    write: Callable[[pa.Table], backplane.NTuple], data: st.DataObject, exprs: list[Expr], condition: Expr
) -> None:
    table, columns = data.draw(st.composite(events)())
    chain = write(table)
    with np.errstate(all="ignore"):
        keep = np.broadcast_to(condition.value(columns), len(table))
        expected = [floats(expr.value(columns), len(table))[keep] for expr in exprs]
    found = chain.arrays([expr.text for expr in exprs], where=condition.text)
    for expr, own in zip(exprs, expected, strict=True):
        np.testing.assert_allclose(floats(found[expr.text], len(own)), own, rtol=1e-9, atol=1e-9, err_msg=expr.text)


@given(st.data(), SELECTED)
@settings(max_examples=100)
def test_lists_are_those_of_awkward(
    write: Callable[[pa.Table], backplane.NTuple], data: st.DataObject, expr: Expr
) -> None:
    table, columns = data.draw(st.composite(events)())
    with np.errstate(all="ignore"):
        expected = expr.value(columns)
    found = write(table).arrays([expr.text])[expr.text]
    assert ak.num(found).tolist() == ak.num(expected).tolist()
    own, other = (ak.to_numpy(ak.flatten(lists)).astype("f8") for lists in (found, expected))
    np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9, err_msg=expr.text)
