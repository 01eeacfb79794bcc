"""What expressions compute, against NumPy on values at every edge."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backplane

Grid: TypeAlias = tuple[backplane.NTuple, dict[str, npt.NDArray[Any]]]

TINY = [2.2250738585072014e-308, 1e-320, 1e-200, 1e-20, 1e-8]
USUAL = [0.0, 1.0, 0.5, 2.0, 2.5, 3.5, 0.1, 709.0, 710.0, 745.0, 746.0]
HUGE = [1e8, 1e15 + 0.5, 1e16, 2.0**53 + 2, 1e154, 1e155, 1e200, 1.7976931348623157e308, np.inf]
SPECIAL = np.array([sign * value for value in TINY + USUAL + HUGE for sign in (1, -1)] + [np.nan])
ONE: dict[str, Callable[[Any], Any]] = {
    "sqrt(x)": np.sqrt,
    "exp(x)": np.exp,
    "expm1(x)": np.expm1,
    "log(x)": np.log,
    "log1p(x)": np.log1p,
    "log2(x)": np.log2,
    "log10(x)": np.log10,
    "sin(x)": np.sin,
    "cos(x)": np.cos,
    "tan(x)": np.tan,
    "asin(x)": np.arcsin,
    "acos(x)": np.arccos,
    "atan(x)": np.arctan,
    "sinh(x)": np.sinh,
    "cosh(x)": np.cosh,
    "tanh(x)": np.tanh,
    "floor(x)": np.floor,
    "ceil(x)": np.ceil,
    "round(x)": np.round,
    "abs(x)": np.abs,
    "-x": np.negative,
    "x ** 2": np.square,
    "x ** 0.5": np.sqrt,
    "pow(x, 0.5)": lambda x: np.power(x, np.full(len(x), 0.5)),
    "x ** -1": lambda x: np.power(x, np.full(len(x), -1.0)),
    "x ** 3": lambda x: np.power(x, np.full(len(x), 3.0)),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "hypot(x, y)": np.hypot,
    "hypot(x, 1e300)": lambda x, _y: np.hypot(x, 1e300),
    "hypot(1e-300, y)": lambda _x, y: np.hypot(1e-300, y),
    "atan2(x, y)": np.arctan2,
    "pow(x, y)": np.power,
    "x % y": np.mod,
    "x / y": np.divide,
    "x * y": np.multiply,
    "x + y": np.add,
    "x - y": np.subtract,
    "min(x, y)": np.minimum,
    "max(x, y)": np.maximum,
    "x < y": np.less,
    "x <= y": np.less_equal,
    "x == y": np.equal,
    "x != y": np.not_equal,
}
INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "i % j": np.mod,
    "i + j": np.add,
    "i - j": np.subtract,
    "i * j": np.multiply,
    "min(i, j)": np.minimum,
    "max(i, j)": np.maximum,
    "i / j": np.divide,
    "abs(i)": lambda i, _j: np.abs(i),
    "-i": lambda i, _j: np.negative(i),
    "i < j": np.less,
    "i >= j": np.greater_equal,
}
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """Every special value beside every other, and values of all sizes; as ends of chunks fall."""
    x, y = (part.ravel() for part in np.meshgrid(SPECIAL, SPECIAL))
    sizes = 10.0 ** np.random.default_rng(1).uniform(-320, 308, (2, 3000))
    data = {"x": np.concatenate([x, sizes[0], -sizes[0]]), "y": np.concatenate([y, sizes[1], sizes[1] / 3])}
    edges = np.array([-(2**63), 2**63 - 1, -1, 0, 1, 2, -7, 7, 2**53 + 1, -(2**53) - 1, 10], "i8")
    i, j = (np.resize(part.ravel(), len(data["x"])) for part in np.meshgrid(edges, edges))
    data |= {"i": i, "j": j}
    place = tmp_path_factory.mktemp("grid") / "f.parquet"
    pq.write_table(pa.table(data), place)
    return backplane.ntuple(place), data


def agree(found: npt.NDArray[Any], expected: npt.NDArray[Any], expr: str) -> None:
    # Of the last digits the mathematical library decides; of zeros, infinities and their signs nobody.
    np.testing.assert_allclose(found, expected, rtol=4e-15, atol=2e-323, err_msg=expr)
    if found.dtype.kind == "f" and not expr.startswith(("min", "max")):
        is_number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[is_number]), np.signbit(expected[is_number]), err_msg=expr)


@pytest.mark.parametrize("expr", ONE)
def test_functions_are_right_over_the_whole_range(grid: Grid, expr: str) -> None:
    ntuple, data = grid
    with np.errstate(all="ignore"):
        agree(ntuple.arrays([expr])[expr], ONE[expr](data["x"]), expr)


@pytest.mark.parametrize("expr", TWO)
def test_functions_of_two_are_right_over_the_whole_range(grid: Grid, expr: str) -> None:
    ntuple, data = grid
    with np.errstate(all="ignore"):
        agree(ntuple.arrays([expr])[expr], TWO[expr](data["x"], data["y"]), expr)


@pytest.mark.parametrize("expr", INTEGERS)
def test_integers_are_calculated_as_numpy_does(grid: Grid, expr: str) -> None:
    ntuple, data = grid
    with np.errstate(all="ignore"):
        expected = INTEGERS[expr](data["i"], data["j"])
    found = ntuple.arrays([expr])[expr]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("constant", ["9007199254740992.0", "-0.5", "2.0", "1e300", "9223372036854775808", "-9.3e18"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_integers_are_compared_with_fractions_by_their_values(grid: Grid, relation: str, constant: str) -> None:
    ntuple, data = grid
    # Python does so, too.
    left = [RELATIONS[relation](whole, float(constant)) for whole in data["i"].tolist()]
    right = [RELATIONS[relation](float(constant), whole) for whole in data["i"].tolist()]
    exprs = [f"i {relation} {constant}", f"{constant} {relation} i"]
    assert [array.tolist() for array in ntuple.arrays(exprs).values()] == [left, right]
