"""Histograms of one pass: what the kernels are asked for, and what is made of their answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._axes import AxisFill, axes_of, fill_of, grown, is_growing, names_of, settle
from .._results import as_hist, as_profile
from ._chunks import ChunkFunction

if TYPE_CHECKING:
    import hist
    import numpy.typing as npt

    from .. import _core
    from .._ntuple import HistRequest, NTuple


class Filling:
    """The histograms of some requests.

    Parameters
    ----------
    ntuple : NTuple
        What they are filled from.
    requests : sequence of HistRequest
        What users want.

    Attributes
    ----------
    wanted : list
        What the kernels fill: a profile is made of several of their histograms.
    """

    def __init__(self, ntuple: NTuple, requests: Sequence[HistRequest]) -> None:
        self._requests = requests

        def type_of(expr: str) -> str:
            return ntuple._chain.check(ntuple._definitions, (), [expr])[0]

        axes = _with_grown(ntuple, requests, [axes_of(request) for request in requests], type_of)
        self._fills = [
            [fill_of(axis, name, type_of) for axis, name in zip(own, names_of(request.variable), strict=True)]
            for request, own in zip(requests, axes, strict=True)
        ]
        # Errors are about what was typed, not about what is made of it.
        for request, fills in zip(requests, self._fills, strict=True):
            names = names_of(request.variable)
            made = [name for name, fill in zip(names, fills, strict=True) if fill.expr != name]
            for expr in [*made, *filter(None, [request.sample])]:
                type_of(expr)
        self.wanted: list[_core.Histogram] = [
            ([(fill.expr, fill.core) for fill in fills], request.where, weight)
            for request, fills in zip(requests, self._fills, strict=True)
            for weight in _weights(request)
        ]

    def finish(self, bins: Sequence[npt.NDArray[Any] | None]) -> list[hist.Hist[Any]]:
        """Make histograms of bins.

        Parameters
        ----------
        bins : sequence of numpy.ndarray or None
            Of what was wanted, as far as they are filled.

        Returns
        -------
        list of hist.Hist
            In the order of the requests.
        """
        rest = iter(bins)
        return [
            _finished(request, fills, [next(rest) for _ in _weights(request)])
            for request, fills in zip(self._requests, self._fills, strict=True)
        ]


def _weights(request: HistRequest) -> list[str | None]:
    """Give the weight of each histogram that the kernels fill for a request."""
    weight, sample = request.weight, request.sample
    if sample is None:
        return [weight]
    if weight is None:
        return [None, sample]
    return [weight, f"({weight}) * ({sample})", f"({weight}) * ({sample}) * ({sample})"]


def _finished(
    request: HistRequest, fills: Sequence[AxisFill], bins: Sequence[npt.NDArray[Any] | None]
) -> hist.Hist[Any]:
    axes, is_weighted = [fill.axis for fill in fills], request.weight is not None
    # Of weighted sums there is nothing before the first packet.
    settled = [settle(one, fills) for one in bins if one is not None]
    if request.sample is None:
        return as_hist(axes, settled[0] if settled else None, is_weighted)
    return as_profile(axes, settled if len(settled) == len(bins) else None, is_weighted)


def _with_grown(
    ntuple: NTuple, requests: Sequence[HistRequest], axes: list[list[Any]], type_of: Callable[[str], str]
) -> list[list[Any]]:
    """Look in a pass of its own how large the axes that grow become."""
    growing = {f"{row}.{column}": (row, column) for row, column in _growing(axes)}
    if not growing:
        return axes
    exprs = [
        _passing(names_of(requests[row].variable)[column], requests[row].where, type_of)
        for row, column in growing.values()
    ]
    are_categories = {name: not axes[row][column].traits.ordered for name, (row, column) in growing.items()}
    scan = ChunkFunction(functools.partial(_scan, are_categories), tuple(growing), "np")
    seen = ntuple._run(False, arrays=exprs, function=scan).value or {}
    axes = [list(own) for own in axes]
    for name, (row, column) in growing.items():
        values = np.array(list(dict.fromkeys(seen.get(name, []))))
        axes[row][column] = grown(axes[row][column], values)
    return axes


def _growing(axes: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int]]:
    for row, own in enumerate(axes):
        for column, axis in enumerate(own):
            if is_growing(axis):
                yield row, column


def _passing(expr: str, cut: str | None, type_of: Callable[[str], str]) -> str:
    """Write an expression that is no number where a cut does not hold."""
    if cut is None:
        return f"1.0 * ({expr})"
    if type_of(cut).startswith("list") and not type_of(expr).startswith("list"):
        cut = f"any({cut})"
    return f"where({cut}, 1.0 * ({expr}), 0.0 / 0.0)"


def _scan(are_categories: dict[str, bool], chunk: dict[str, Any]) -> dict[str, list[float]]:
    """Find the least and the largest value, or all categories in the order in which they occur."""
    found = {}
    for name, array in chunk.items():
        values = np.ma.compressed(array) if isinstance(array, np.ndarray) else _elements(array)
        values = values[np.isfinite(values)]
        if are_categories[name]:
            _, first = np.unique(values, return_index=True)
            values = values[np.sort(first)]
        elif len(values):
            values = np.array([values.min(), values.max()])
        found[name] = values.tolist()
    return found


def _elements(lists: Any) -> npt.NDArray[Any]:
    import awkward

    elements: npt.NDArray[Any] = np.ma.compressed(awkward.to_numpy(awkward.ravel(lists)))
    return elements
