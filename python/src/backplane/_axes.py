"""Axes: from what users give to what hist and the kernels take.

The kernels know regular, variable and integer axes with both flow bins. Every other axis of hist is filled as one of
these: transforms and circles are made by the expression, and bins that the axis does not have are left out, or joined,
afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import boost_histogram
import hist
import hist.axis
import hist.axis.transform
import numpy as np

from ._calls import whole_number
from ._errors import InvalidError

if TYPE_CHECKING:
    import numpy.typing as npt

    from . import _core
    from ._ntuple import HistRequest, Variable


def names_of(variable: Variable) -> tuple[str, ...]:
    """Give the expression of each axis.

    Parameters
    ----------
    variable : str or tuple of str
        As users give it.

    Returns
    -------
    tuple of str
        One for each axis.
    """
    return (variable,) if isinstance(variable, str) else tuple(variable)


def axes_of(request: HistRequest) -> list[Any]:
    """Make the axes of a request.

    Parameters
    ----------
    request : HistRequest
        With axes, or with bins and ranges.

    Returns
    -------
    list of hist axes
        Named by their variables.
    """
    names = names_of(request.variable)
    if request.axis is not None:
        axes = list(request.axis) if isinstance(request.axis, list | tuple) else [request.axis]
        if len(axes) != len(names):
            raise InvalidError(f"{len(axes)} axes for {len(names)} variables")
        return [_named(axis, name) for axis, name in zip(axes, names, strict=True)]
    if request.range is None:
        raise InvalidError(
            f"histogram of {', '.join(names)} has no range", "give range=(low, high), or axis=hist.axis.…"
        )
    counts = _each(request.bins, len(names), ())
    pairs = _each(request.range, len(names), (2,))
    if len(counts) != len(names) or len(pairs) != len(names):
        raise InvalidError(f"{len(counts)} bins and {len(pairs)} ranges for {len(names)} variables")
    return [_named(_regular(*each), each[0]) for each in zip(names, counts, pairs, strict=True)]


def _each(given: Any, count: int, shape: tuple[int, ...]) -> list[Any]:
    """Give one of these for each axis: `given` itself has that shape if it is for all of them."""
    if _shape(given) == shape or not isinstance(given, Iterable):
        return [given] * count
    return list(given)


def _shape(given: Any) -> tuple[int, ...] | None:
    try:
        return tuple(np.shape(given))
    except ValueError:
        # It has parts of different lengths.
        return None


def _regular(name: str, bins: Any, pair: Any) -> hist.axis.Regular:
    count = whole_number(bins, f"the number of bins of {name}")
    if _shape(pair) != (2,):
        raise InvalidError(f"range {pair!r} of {name} is not a pair of numbers", "give range=(low, high)")
    low, high = float(pair[0]), float(pair[1])
    if not (np.isfinite(low) and np.isfinite(high) and low != high) or count < 1:
        raise InvalidError(f"axis of {name} with {count} bins from {low} to {high} has no width")
    return hist.axis.Regular(count, low, high)


# Names that hist keeps for arguments of its own.
_RESERVED_NAMES = frozenset({"weight", "sample", "threads"})
# Bins of one axis at most, as the kernels have it; and whole numbers that are exact as floats.
_BINS_MAX = 1 << 20
_WHOLE_MAX = 1 << 53

TypeOf: TypeAlias = Callable[[str], str]
"""Tells the type of an expression."""


def _named(axis: Any, expr: str) -> Any:
    """Copy an axis, named by its variable unless it has a name; an expression becomes the label only.

    Axes are those of hist or of boost-histogram, which have no names.
    """
    if not isinstance(axis, boost_histogram.axis.Axis):
        raise InvalidError(f"{axis!r} is no axis of hist or boost-histogram", "use hist.axis.Regular(bins, low, high)")
    if isinstance(axis, boost_histogram.axis.StrCategory):
        raise InvalidError(f"axis {axis!r} takes text, and columns are numbers", "use IntCategory")
    if isinstance(axis, boost_histogram.axis.Variable) and axis.traits.circular:
        raise InvalidError(
            f"axis {axis!r} cannot be filled: boost-histogram tells other edges of circular axes than it was given",
            "use a circular Regular axis, or a Variable axis and x % period as its variable",
        )
    name, label = getattr(axis, "name", ""), getattr(axis, "label", "")
    if not name and expr.isidentifier() and expr not in _RESERVED_NAMES:
        name = expr
    # Hist copies axes, makes those of boost-histogram its own, and can rename them.
    axes: Any = hist.Hist(axis).axes
    axes.name = (name,)
    axes.label = (expr if label in ("", getattr(axis, "name", "")) else label,)
    return axes[0]


@dataclasses.dataclass(frozen=True)
class AxisFill:
    """How the kernels fill an axis.

    Attributes
    ----------
    axis : hist axis
        Of the result.
    expr : str
        What they sort into bins.
    core : _core.Axis
        Their axis.
    slots : numpy.ndarray, optional
        For each of their bins, flow bins included, that of the result, or -1; the same ones if left out.
    """

    axis: Any
    expr: str
    core: _core.Axis
    slots: npt.NDArray[np.int64] | None = None


def fill_of(axis: Any, expr: str, type_of: TypeOf) -> AxisFill:
    """Choose how the kernels fill an axis.

    Parameters
    ----------
    axis : hist axis
        Of `axes_of`; one that grows is as large as it becomes.
    expr : str
        Its variable.
    type_of : callable
        Tells the type of an expression.

    Returns
    -------
    AxisFill
        See there.
    """
    traits, count = axis.traits, len(axis)
    if isinstance(axis, hist.axis.IntCategory | hist.axis.Boolean):
        return _categories(axis, expr, type_of)
    if isinstance(axis, hist.axis.Integer):
        start = int(axis.edges[0]) if count else 0
        core: _core.Axis = (start, count)
        if traits.circular:
            place = f"(floor({expr}) - {_number(start)})"
            return AxisFill(axis, f"{place} - floor({place} / {count}) * {count}", (0, count), _flow(axis))
        return AxisFill(axis, expr, core, _flow(axis))
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    if isinstance(axis, hist.axis.Variable):
        if not traits.overflow:
            # The last bin has its upper edge then.
            inside = _number(float(axis.centers[-1]))
            expr = f"where(({expr}) == {_number(high)}, {inside}, 1.0 * ({expr}))"
        return AxisFill(axis, expr, list(map(float, axis.edges)), _flow(axis))
    # In the middle of these operations boost-histogram has the place on an axis from 0 to 1.
    place = f"((({expr}) - {_number(low)}) / {_number(high - low)})"
    if traits.circular:
        return AxisFill(axis, f"{place} - floor({place})", (count, 0.0, 1.0), _flow(axis))
    if not traits.overflow:
        return AxisFill(axis, f"where({place} == 1.0, {1 - 0.5 / count}, {place})", (count, 0.0, 1.0), _flow(axis))
    expr, low, high = _transformed(axis, expr, low, high)
    return AxisFill(axis, expr, (count, low, high), _flow(axis))


def _number(value: float) -> str:
    """Write a number as expressions have it: they have no negative literals."""
    text = repr(value)
    return f"({text})" if value < 0 else text


def _transformed(axis: Any, expr: str, low: float, high: float) -> tuple[str, float, float]:
    transform = axis.transform
    if transform is None:
        return expr, low, high
    low, high = float(transform.forward(low)), float(transform.forward(high))
    if isinstance(transform, hist.axis.transform.Pow):
        return f"pow({expr}, {_number(float(transform.power))})", low, high
    for name in ("log", "sqrt"):
        if transform == getattr(hist.axis.transform, name):
            return f"{name}({expr})", low, high
    raise InvalidError(
        f"axis {axis!r} has a transform that the kernels do not know",
        "use log, sqrt or Pow, write it into the expression, or fill the histogram in a function for map()",
    )


def _flow(axis: Any) -> npt.NDArray[np.int64] | None:
    """Leave out the flow bins that the axis does not have."""
    traits, count = axis.traits, len(axis)
    if traits.underflow and traits.overflow:
        return None
    first = 1 if traits.underflow else 0
    slots = np.arange(-1, count + 1) + first
    slots[0] = 0 if traits.underflow else -1
    slots[-1] = count + first if traits.overflow else -1
    return slots


def _categories(axis: Any, expr: str, type_of: TypeOf) -> AxisFill:
    """Give each whole number a bin of its own, and find out which bin of the axis that is."""
    kind = type_of(expr)
    if kind.removeprefix("list[").rstrip("]") not in ("int", "bool"):
        raise InvalidError(
            f"axis {axis!r} takes whole numbers and truth values, and {expr} is {kind}", "use floor(), or Integer"
        )
    if isinstance(axis, hist.axis.Boolean):
        # What is not 0 is true, and what is missing neither.
        edges, slots = [float(-_WHOLE_MAX), 0.0, 1.0, float(_WHOLE_MAX)], [-1, 1, 0, 1, -1]
        return AxisFill(axis, f"1.0 * ({expr})", edges, np.array(slots))
    values = [int(axis.bin(number)) for number in range(len(axis))]
    if any(abs(value) >= _WHOLE_MAX for value in values):
        raise InvalidError(f"axis {axis!r} has categories beyond 2**53")
    other = len(axis) if axis.traits.overflow else -1
    all_edges = sorted({value + step for value in values for step in (0, 1)}) or [0, 1]
    places = {value: place for place, value in enumerate(values)}
    inner = [places.get(edge, other) for edge in all_edges[:-1]]
    return AxisFill(axis, f"1.0 * ({expr})", list(map(float, all_edges)), np.array([other, *inner, other]))


def core_shape(fills: Sequence[AxisFill]) -> tuple[int, ...]:
    """Tell how many bins the kernels have along each axis.

    Parameters
    ----------
    fills : sequence of AxisFill
        Of the axes of a histogram.

    Returns
    -------
    tuple of int
        Flow bins included.
    """
    return tuple(_core_bins(fill.core) + 2 for fill in fills)


def _core_bins(core: _core.Axis) -> int:
    if isinstance(core, list):
        return len(core) - 1
    return core[0] if len(core) == 3 else core[1]


def settle(bins: npt.NDArray[Any], fills: Sequence[AxisFill]) -> npt.NDArray[Any]:
    """Move what the kernels counted into the bins of the axes.

    Parameters
    ----------
    bins : numpy.ndarray
        Of the kernels: one row for each bin, of one or more values.
    fills : sequence of AxisFill
        How the axes were filled.

    Returns
    -------
    numpy.ndarray
        With one dimension for each axis, and that of the values, if there is one, last.
    """
    array = bins.reshape(*core_shape(fills), *bins.shape[1:])
    for dimension, fill in enumerate(fills):
        if fill.slots is None:
            continue
        own = np.moveaxis(array, dimension, 0)
        moved = np.zeros((fill.axis.extent, *own.shape[1:]), own.dtype)
        is_kept = fill.slots >= 0
        np.add.at(moved, fill.slots[is_kept], own[is_kept])
        array = np.moveaxis(moved, 0, dimension)
    return array


def is_growing(axis: Any) -> bool:
    """Tell whether an axis grows with what is filled.

    Parameters
    ----------
    axis : hist axis
        Of `axes_of`.

    Returns
    -------
    bool
        Then `grown` says how large it becomes.
    """
    return bool(axis.traits.growth)


def grown(axis: Any, values: npt.NDArray[Any]) -> Any:
    """Let an axis grow as boost-histogram does, except for a growing `hist.axis.Variable`.

    There boost-histogram adds an edge at each value beyond the ends, so that edges depend on the order of filling.
    Here it gets the least and the largest value only.

    Parameters
    ----------
    axis : hist axis
        One that grows.
    values : numpy.ndarray
        The least and the largest finite value, or all categories in the order in which they occur.

    Returns
    -------
    hist axis
        With room for them.
    """
    is_whole = isinstance(axis, hist.axis.Integer | hist.axis.IntCategory)
    if isinstance(axis, hist.axis.Regular | hist.axis.Integer) and len(values):
        width = 1.0 if is_whole else float(axis.widths[0])
        bins = (max(values.max(), axis.edges[-1]) - min(values.min(), axis.edges[0])) / width
        if bins > _BINS_MAX:
            raise InvalidError(
                f"axis {axis!r} would grow to {bins:.3g} bins for values from {values.min()} to {values.max()}",
                f"at most {_BINS_MAX} are possible: cut the values, or give a range",
            )
    holder: hist.Hist[Any] = hist.Hist(axis)
    holder.fill(np.floor(values).astype("i8") if is_whole else values.astype("f8"))
    if len(holder.axes[0]) > _BINS_MAX:
        raise InvalidError(f"axis of {expr_of(axis)} would grow to {len(holder.axes[0])} bins", "cut the values")
    return holder.axes[0]


def expr_of(axis: Any) -> str:
    """Say for people what is filled along an axis.

    Parameters
    ----------
    axis : hist axis
        Of `axes_of`.

    Returns
    -------
    str
        Its label.
    """
    return str(axis.label)
