"""Quantiles of any number of entries, in one pass and a bounded memory.

A sketch counts values in bins whose edges are powers of a number close to 1, so that the middle of the bin in which a
quantile lies is close to it (C. Masson and others, "DDSketch", PVLDB 12, 2019). Such bins are a regular axis of the
logarithm: the kernels fill them as every other histogram, and counts do not depend on the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import InvalidError

if TYPE_CHECKING:
    import numpy.typing as npt

    from .. import _core

# Finer than the first the axis would have more bins than the kernels take.
_ACCURACY_MIN, _ACCURACY_MAX = 0.001, 0.1
# Logarithms of the least and the largest 64-bit float.
_LOG_MIN, _LOG_MAX = -745.0, 710.0


class Sketch:
    """What is filled for some quantiles.

    Parameters
    ----------
    variable : str
        Whose quantiles.
    accuracy : float
        Largest relative error.
    where, weight : str, optional
        As in `NTuple.hist`.

    Attributes
    ----------
    wanted : list
        What the kernels fill: values below, equal to and above 0.
    """

    def __init__(self, variable: str, accuracy: float, where: str | None, weight: str | None) -> None:
        if not _ACCURACY_MIN <= accuracy <= _ACCURACY_MAX:
            raise InvalidError(f"accuracy {accuracy} is not between {_ACCURACY_MIN} and {_ACCURACY_MAX}")
        self._is_weighted = weight is not None
        self._step = math.log((1 + accuracy) / (1 - accuracy))
        self._count = math.ceil((_LOG_MAX - _LOG_MIN) / self._step)
        axis: _core.Axis = (self._count, _LOG_MIN, _LOG_MIN + self._count * self._step)

        def part(expr: str, relation: str, axis: _core.Axis) -> _core.Histogram:
            sign = f"({variable}) {relation} 0"
            return [(expr, axis)], sign if where is None else f"({where}) and ({sign})", weight

        self.wanted = [
            part(f"log(-({variable}))", "<", axis),
            part(f"1.0 * ({variable})", "==", (1, -1.0, 1.0)),
            part(f"log({variable})", ">", axis),
        ]

    def quantiles(self, bins: Iterable[npt.NDArray[Any]], wanted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Give quantiles.

        Parameters
        ----------
        bins : iterable of numpy.ndarray
            Of what was wanted.
        wanted : numpy.ndarray
            Which ones, from 0 to 1.

        Returns
        -------
        numpy.ndarray
            Values; NaN if there is no entry.
        """
        below, zero, above = (one[:, 0] if one.ndim == 2 else one.astype("f8") for one in bins)
        # At the middle of a bin the relative error is the same at both edges; flow bins are 0 and infinity.
        with np.errstate(over="ignore"):
            edges = np.exp(_LOG_MIN + np.arange(self._count) * self._step)
            middle = edges * (2 / (1 + math.exp(-self._step)))
        sizes = np.concatenate([[0.0], middle, [np.inf]])
        values = np.concatenate([-sizes[::-1], [0.0], sizes])
        filled = np.cumsum(np.concatenate([below[::-1], [zero.sum()], above]))
        if not filled[-1] > 0:
            return np.full(len(wanted), np.nan)
        # The value of which this share of all others is smaller, as NumPy's method "lower" has it.
        all_others = filled[-1] if self._is_weighted else filled[-1] - 1
        places = np.searchsorted(filled, wanted * all_others, side="right")
        last = np.flatnonzero(np.diff(filled, prepend=0))[-1]
        found: npt.NDArray[np.float64] = values[np.minimum(places, last)]
        return found
