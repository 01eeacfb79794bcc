"""Booked histograms: all that are booked on one n-tuple are filled in one pass, when the first of them is looked at."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import hist

    from .._ntuple import HistRequest, NTuple
    from .._progress import Progress


class Booked:
    """A histogram that is filled later; made by `NTuple.book`.

    Examples
    --------
    >>> chain = backplane.ntuple("run*.parquet")  # doctest: +SKIP
    >>> central = chain.where("abs(eta) < 1").book("pt", bins=50, range=(0, 100))  # doctest: +SKIP
    >>> forward = chain.where("abs(eta) > 1").book("pt", bins=50, range=(0, 100))  # doctest: +SKIP
    >>> central.result().plot(), forward.result().plot()  # one pass  # doctest: +SKIP
    """

    def __init__(self, ntuple: NTuple, request: HistRequest, pending: list[weakref.ref[Booked]]) -> None:
        self._ntuple, self._request, self._pending = ntuple, request, pending
        self._result: hist.Hist[Any] | None = None
        pending.append(weakref.ref(self))

    @property
    def is_done(self) -> bool:
        """Whether it is filled."""
        return self._result is not None

    def __repr__(self) -> str:
        return f"<Booked histogram of {self._request.variable!r}{', filled' if self.is_done else ''}>"

    def result(self, *, progress: Progress = None) -> hist.Hist[Any]:
        """Give the histogram; the first call fills all that are booked on the n-tuple, whatever their cuts.

        Parameters
        ----------
        progress : bool or callable, optional
            As in `NTuple.hist`.

        Returns
        -------
        hist.Hist
            Filled.
        """
        while self._result is None:
            fill(self._pending, self, progress)
        return self._result


def fill(pending: list[weakref.ref[Booked]], wanted: Booked, progress: Progress) -> None:
    """Fill all histograms that go into one pass with one that is wanted: those whose variables mean the same.

    Parameters
    ----------
    pending : list
        Of all; those that are filled are removed.
    wanted : Booked
        It is filled in any case.
    progress : bool or callable, optional
        As in `NTuple.hist`.
    """
    definitions = dict(wanted._ntuple._definitions)
    chosen, others = [wanted], []
    for one in filter(None, (reference() for reference in pending)):
        own = dict(one._ntuple._definitions)
        if one is wanted or one.is_done:
            continue
        if one._ntuple._engine is wanted._ntuple._engine and all(definitions.get(n, e) == e for n, e in own.items()):
            definitions.update(own)
            chosen.append(one)
        else:
            others.append(one)
    together = wanted._ntuple._with(tuple(definitions.items()), ())
    filled = together.hists([_with_cuts(one) for one in chosen], progress=progress)
    for one, histogram in zip(chosen, filled, strict=True):
        one._result = histogram
    pending[:] = [weakref.ref(one) for one in others]


def _with_cuts(booked: Booked) -> HistRequest:
    """Move the cuts of its n-tuple into the request, which then stands for itself."""
    import dataclasses

    cuts = [*booked._ntuple._filters, *filter(None, [booked._request.where])]
    return dataclasses.replace(booked._request, where=" and ".join(f"({cut})" for cut in cuts) or None)
