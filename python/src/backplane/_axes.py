"""Axes: from what users give to what hist and the kernels take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import boost_histogram
import hist
import hist.axis
import numpy as np

from ._calls import whole_number
from ._errors import InvalidError

if TYPE_CHECKING:
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


def _named(axis: Any, expr: str) -> Any:
    """Copy an axis, named by its variable unless it has a name; an expression becomes the label only.

    Axes are those of hist or of boost-histogram, which have no names. The kernels know axes with both flow bins only:
    all others are refused here, before anything is read.
    """
    if not isinstance(axis, boost_histogram.axis.Axis):
        raise InvalidError(f"{axis!r} is no axis of hist or boost-histogram", "use hist.axis.Regular(bins, low, high)")
    name, label = getattr(axis, "name", ""), getattr(axis, "label", "")
    if not name and expr.isidentifier() and expr not in _RESERVED_NAMES:
        name = expr
    label = expr if label in ("", getattr(axis, "name", "")) else label
    traits = axis.traits
    if traits.underflow and traits.overflow and not traits.circular and not traits.growth:
        edges = axis.edges
        if isinstance(axis, boost_histogram.axis.Regular) and axis.transform is None:
            return hist.axis.Regular(len(axis), edges[0], edges[-1], name=name, label=label)
        if isinstance(axis, boost_histogram.axis.Variable):
            return hist.axis.Variable(edges, name=name, label=label)
        if isinstance(axis, boost_histogram.axis.Integer):
            return hist.axis.Integer(int(edges[0]), int(edges[-1]), name=name, label=label)
    raise InvalidError(
        f"axis {axis!r} cannot be filled by the kernels",
        "use Regular, Variable or Integer with both flow bins, or fill it from arrays()",
    )


def core_axis(axis: Any) -> _core.Axis:
    """Write an axis as the kernels take it.

    Parameters
    ----------
    axis : hist axis
        Of `axes_of`.

    Returns
    -------
    tuple or list
        See `_core.Axis`.
    """
    if isinstance(axis, hist.axis.Regular):
        return (len(axis), float(axis.edges[0]), float(axis.edges[-1]))
    if isinstance(axis, hist.axis.Integer):
        return (int(axis.edges[0]), len(axis))
    return [float(edge) for edge in axis.edges]
