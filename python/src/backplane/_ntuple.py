"""N-tuples: tables of entries in many files, histogrammed by compiled kernels."""

from __future__ import annotations

import dataclasses
import html
import os
from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias, overload

import boost_histogram
import hist
import hist.axis
import hist.storage
import numpy as np
import numpy.typing as npt

from . import _core
from ._calls import whole_number
from ._errors import InvalidError, NotFoundError
from ._patterns import expand_local, is_pattern
from ._progress import Progress, callback
from ._tables import table_html
from ._user import this_user

Variable: TypeAlias = str | tuple[str, ...]
"""An expression, or a tuple of them for a histogram with several axes."""
Hist: TypeAlias = "hist.Hist[Any]"
Bins: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
Range: TypeAlias = tuple[SupportsFloat, SupportsFloat]
Ranges: TypeAlias = Range | Sequence[Range] | npt.NDArray[Any]
_Values: TypeAlias = tuple[str, bytearray, bytearray | None]
Places: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclasses.dataclass(frozen=True)
class HistRequest:
    """One of several histograms that are filled in one pass.

    Attributes
    ----------
    variable : str or tuple of str
        What is filled; a tuple makes one axis for each.
    bins : int or sequence of int
        Number of bins, one for all axes or one for each.
    range : pair of float or sequence of pairs, optional
        Lower and upper edge, one pair for all axes or one for each.
    axis : hist or boost-histogram axis, or sequence of them, optional
        Instead of `bins` and `range`.
    where : str, optional
        Which entries; all if left out.
    weight : str, optional
        Weight of an entry.
    """

    variable: Variable
    bins: Bins = 100
    range: Ranges | None = None
    axis: Any = None
    where: str | None = None
    weight: str | None = None


class NTuple:
    """A lazy table of entries: several Parquet files as one.

    Nothing is read but the description of the files until `hist`, `hists` or `arrays` is called. Every method that
    returns an `NTuple` leaves this one as it is. Make one with `ntuple` or `Facility.ntuple`.

    Expressions are those of Python and ROOT alike: ``sqrt(px**2 + py**2) > 20 and abs(eta) < 2.4``. They are
    computed with 64 bits whatever the columns are stored in. What is missing behaves as NaN does: every comparison with
    it is false but ``!=``, and what is computed of it is missing, too. ``isnan`` finds it. A missing truth value is
    neither true nor false, so that neither ``good`` nor ``not good`` lets its entry pass.
    """

    def __init__(
        self,
        chain: _core.Chain,
        definitions: tuple[tuple[str, str], ...] = (),
        filters: tuple[str, ...] = (),
        threads: int = 0,
    ) -> None:
        self._chain = chain
        self._definitions = definitions
        self._filters = filters
        self._threads = whole_number(threads, "threads")

    @property
    def columns(self) -> dict[str, str]:
        """Names of columns and defined variables, with their types: ``bool``, ``int`` or ``float``."""
        columns = dict(self._chain.columns)
        names = [name for name, _ in self._definitions]
        types = self._chain.check(self._definitions, (), [_quoted(name) for name in names])
        columns.update(zip(names, types, strict=True))
        return columns

    @property
    def unusable(self) -> dict[str, str]:
        """Columns that kernels cannot use, and why."""
        return dict(self._chain.refused)

    @property
    def entries(self) -> int:
        """Entries of all files, before any cut."""
        return self._chain.entries

    def __len__(self) -> int:
        return self._chain.entries

    def __repr__(self) -> str:
        cuts = f", where {' and '.join(f'({cut})' for cut in self._filters)}" if self._filters else ""
        return f"<NTuple of {self.entries} entries, {len(self.columns)} columns{cuts}>"

    def _repr_html_(self) -> str:
        definitions = dict(self._definitions)
        rows = [[name, kind, definitions.get(name, "")] for name, kind in self.columns.items()]
        rows += [[name, "unusable", why] for name, why in self.unusable.items()]
        return f"<p>{html.escape(repr(self)[1:-1])}</p>" + table_html(("column", "type", "defined as"), rows)

    def define(self, name: str, expr: str) -> NTuple:
        """Add a variable.

        Parameters
        ----------
        name : str
            Its name; may not be that of a column or an earlier variable.
        expr : str
            Its value from columns and earlier variables.

        Returns
        -------
        NTuple
            With the variable.

        Raises
        ------
        InvalidError
            If the expression makes no sense; the message says where.
        """
        return self._checked(definitions=(*self._definitions, (name, expr)))

    def filter(self, where: str) -> NTuple:
        """Keep only entries for which an expression holds.

        Parameters
        ----------
        where : str
            The cut; it is added to earlier ones.

        Returns
        -------
        NTuple
            With the cut.
        """
        return self._checked(filters=(*self._filters, where))

    @overload
    def hist(
        self,
        variable: Variable,
        *,
        bins: Bins = ...,
        range: Ranges | None = ...,
        axis: Any = ...,
        where: str | None = ...,
        weight: str | None = ...,
        progress: Progress = ...,
    ) -> Hist: ...
    @overload
    def hist(
        self,
        variable: list[Variable] | list[str] | list[tuple[str, ...]],
        *,
        bins: Bins = ...,
        range: Ranges | None = ...,
        axis: Any = ...,
        where: str | None = ...,
        weight: str | None = ...,
        progress: Progress = ...,
    ) -> list[Hist]: ...
    def hist(
        self,
        variable: Variable | list[Variable] | list[str] | list[tuple[str, ...]],
        *,
        bins: Bins = 100,
        range: Ranges | None = None,  # noqa: A002
        axis: Any = None,
        where: str | None = None,
        weight: str | None = None,
        progress: Progress = None,
    ) -> Hist | list[Hist]:
        """Fill a histogram.

        Parameters
        ----------
        variable : str, tuple of str, or list of these
            An expression; a tuple for a histogram with several axes; a list for several histograms in one pass.
        bins : int or sequence of int
            Number of bins, one for all axes or one for each.
        range : pair of float or sequence of pairs
            Lower and upper edge, one pair for all axes or one for each.
        axis : hist or boost-histogram axis, or sequence of them, optional
            Instead of `bins` and `range`.
        where : str, optional
            Which entries; all if left out.
        weight : str, optional
            Weight of an entry; the histogram then has storage `hist.storage.Weight`, otherwise `Int64`.
        progress : bool or callable, optional
            True for a line on the terminal, or a function of entries done and total.

        Returns
        -------
        hist.Hist or list of hist.Hist
            Filled, flow bins included, equal to what boost-histogram fills from the same values.
        """
        variables = variable if isinstance(variable, list) else [variable]
        requests = [HistRequest(one, bins, range, axis, where, weight) for one in variables]
        filled = self.hists(requests, progress=progress)
        return filled if isinstance(variable, list) else filled[0]

    def hists(self, requests: Iterable[HistRequest], *, progress: Progress = None) -> list[Hist]:
        """Fill several histograms in one pass.

        Parameters
        ----------
        requests : iterable of HistRequest
            What to fill.
        progress : bool or callable, optional
            As in `hist`.

        Returns
        -------
        list of hist.Hist
            In the order of the requests.
        """
        empty = [(request, _names(request.variable), _axes(request)) for request in requests]
        wanted = [
            (list(zip(names, map(_core_axis, axes), strict=True)), request.where, request.weight)
            for request, names, axes in empty
        ]
        filled, _ = self._run(wanted, (), progress)
        return [
            _as_hist(axes, bins, request.weight is not None)
            for (request, _, axes), bins in zip(empty, filled, strict=True)
        ]

    def arrays(
        self, exprs: Iterable[str], *, where: str | None = None, progress: Progress = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Collect values of all entries that pass the cuts.

        Parameters
        ----------
        exprs : iterable of str
            Columns, variables or expressions.
        where : str, optional
            Which entries; all if left out.
        progress : bool or callable, optional
            As in `hist`.

        Returns
        -------
        dict of numpy.ndarray
            Values by expression, in the order of the files. Columns keep the type they are stored in, the wider one if
            files differ. Missing floats are NaN; where other values are missing the array is a
            `numpy.ma.MaskedArray`, which hides them.
        """
        names = [exprs] if isinstance(exprs, str) else list(exprs)
        ntuple = self if where is None else self.filter(where)
        _, arrays = ntuple._run((), names, progress)
        return {name: _as_array(*values) for name, values in zip(names, arrays, strict=True)}

    def _run(
        self, histograms: Sequence[_core.Histogram], arrays: Sequence[str], progress: Progress
    ) -> tuple[list[bytearray], list[_Values]]:
        call = callback(progress)
        return self._chain.run(self._definitions, self._filters, histograms, arrays, self._threads, call)

    def _checked(
        self,
        definitions: tuple[tuple[str, str], ...] | None = None,
        filters: tuple[str, ...] | None = None,
    ) -> NTuple:
        definitions = self._definitions if definitions is None else definitions
        filters = self._filters if filters is None else filters
        self._chain.check(definitions, filters, ())
        return NTuple(self._chain, definitions, filters, self._threads)


def ntuple(places: Places, *, threads: int = 0) -> NTuple:
    """Open Parquet files of this host, or ``root://`` URLs, as one n-tuple.

    Parameters
    ----------
    places : path or iterable of paths
        Files; ``*``, ``?`` and ``[`` in local paths are expanded in name order. A file that has just that name is meant
        itself.
    threads : int, optional
        0 for one per processor.

    Returns
    -------
    NTuple
        All files as one. Files without entries add nothing. Integers of different widths, and floats, are of the wider
        one; times of different units and other types that differ are refused.

    Raises
    ------
    NotFoundError
        If a pattern matches nothing.
    InvalidError
        If the files do not have the same columns; the message names files, column and types. Later, if a file is no
        longer the one that was opened.
    UnsupportedError
        If a file is encrypted as a whole. Columns that are encrypted or cannot be read otherwise are `unusable`.
    CorruptError
        If a file is damaged. Later, if a page does not match its checksum.
    """
    return NTuple(_core.Chain(_expand(places), this_user()), threads=threads)


def _expand(places: Places) -> list[str]:
    if isinstance(places, str | os.PathLike):
        places = [places]
    expanded: list[str] = []
    for place in places:
        local = os.fspath(place).removeprefix("file://")
        if "://" in local or not is_pattern(local):
            expanded.append(local)
            continue
        found = expand_local(local)
        if not found:
            raise NotFoundError(f"no file matches {local}")
        expanded.extend(found)
    return expanded


def _quoted(name: str) -> str:
    return f"`{name}`"


def _names(variable: Variable) -> tuple[str, ...]:
    return (variable,) if isinstance(variable, str) else tuple(variable)


def _axes(request: HistRequest) -> list[Any]:
    names = _names(request.variable)
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


def _core_axis(axis: Any) -> _core.Axis:
    if isinstance(axis, hist.axis.Regular):
        return (len(axis), float(axis.edges[0]), float(axis.edges[-1]))
    if isinstance(axis, hist.axis.Integer):
        return (int(axis.edges[0]), len(axis))
    return [float(edge) for edge in axis.edges]


def _as_array(dtype: str, data: bytearray, missing: bytearray | None) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.frombuffer(data, dtype)
    if missing is None:
        return array
    masked: npt.NDArray[Any] = np.ma.MaskedArray(array, np.frombuffer(missing, "?"))
    return masked


def _as_hist(axes: Sequence[Any], data: bytearray, is_weighted: bool) -> Hist:
    shape = tuple(axis.extent for axis in axes)
    if not is_weighted:
        filled: Hist = hist.Hist(*axes, storage=hist.storage.Int64())
        filled.view(flow=True)[...] = np.frombuffer(data, "<u8").reshape(shape)
        return filled
    filled = hist.Hist(*axes, storage=hist.storage.Weight())
    sums = np.frombuffer(data, "<f8").reshape((*shape, 2))
    view: Any = filled.view(flow=True)
    view["value"], view["variance"] = sums[..., 0], sums[..., 1]
    return filled
