"""Engines: who computes a pass. The one in this process is used unless another is named."""

from __future__ import annotations

import contextvars
import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .. import _core
    from ._collect import Collector
    from ._plan import Plan, Selection

Partial: TypeAlias = Callable[[list[Any]], object] | None
"""Called now and then with the bins of all histograms as far as they are filled."""

# How often a partial result is shown: as often as somebody can look.
PARTIAL_S = 0.25


@dataclasses.dataclass
class Outcome:
    """What a pass gave.

    Attributes
    ----------
    bins : list of numpy.ndarray or None
        Of the histograms.
    arrays : list of numpy.ndarray
        Values of entries.
    value : object
        What a function returned.
    """

    bins: list[Any]
    arrays: list[Any]
    value: Any = None


class Engine(ABC):
    """Computes passes."""

    @abstractmethod
    def run(
        self,
        chain: _core.Chain,
        selection: Selection,
        threads: int,
        progress: Callable[[int, int], object] | None,
        partial: Partial,
    ) -> Outcome:
        """Compute a selection over all entries of a chain.

        Parameters
        ----------
        chain : _core.Chain
            The entries.
        selection : Selection
            What is computed.
        threads : int
            How many in this process; 0 for one per processor.
        progress : callable, optional
            Called with entries done and total; what it raises stops the pass.
        partial : callable, optional
            See `Partial`.

        Returns
        -------
        Outcome
            Equal to the last bit, whatever the engine.
        """


class Embedded(Engine):
    """The threads of this process."""

    def run(
        self,
        chain: _core.Chain,
        selection: Selection,
        threads: int,
        progress: Callable[[int, int], object] | None,
        partial: Partial,
    ) -> Outcome:
        """See `Engine.run`."""
        # Not before somebody computes: NumPy takes half of the time that importing this package may take.
        from .._results import as_array, as_bins
        from ._plan import Plan

        if selection.function is not None or partial is not None:
            return _in_steps(Plan(chain, selection), threads, progress, partial)
        filled, arrays = chain.run(
            selection.definitions, selection.filters, selection.histograms, selection.arrays, threads, progress
        )
        bins = [as_bins(data, weighted) for data, weighted in zip(filled, selection.is_weighted, strict=True)]
        return Outcome(bins, [as_array(*values) for values in arrays])


def _in_steps(plan: Plan, threads: int, progress: Callable[[int, int], object] | None, partial: Partial) -> Outcome:
    """Compute as many packets at a time as fit between two looks at the result."""
    from ._collect import Collector

    collector, total, first, count = Collector(plan), sum(plan.entries), 0, 1
    while first < len(plan):
        # Nobody looks at what a function returned so far, and its chunks are read ahead within a step.
        end = len(plan) if partial is None else min(first + count, len(plan))
        before, begin = collector.entries, time.monotonic()

        def told(done: int, _total: int, before: int = before) -> None:
            if progress is not None:
                progress(before + done, total)

        collector.add(plan.run(first, end, threads, told))
        if partial is not None:
            partial(collector.bins())
        count = 2 * count if time.monotonic() - begin < PARTIAL_S / 2 else max(count // 2, 1)
        first = end
    return outcome_of(collector)


def outcome_of(collector: Collector) -> Outcome:
    """Give the result of a pass that is complete.

    Parameters
    ----------
    collector : Collector
        Of all parts.

    Returns
    -------
    Outcome
        Their sum.
    """
    assert collector.is_complete, "every packet was computed"
    return Outcome(collector.bins(), collector.arrays(), collector.value())


EMBEDDED = Embedded()
_engine: contextvars.ContextVar[Engine] = contextvars.ContextVar("backplane_engine", default=EMBEDDED)


def engine_now() -> Engine:
    """Tell who computes passes here: the cluster whose ``with`` block this is, or this process.

    Returns
    -------
    Engine
        Of this thread.
    """
    return _engine.get()


def set_engine(engine: Engine) -> contextvars.Token[Engine]:
    """Change who computes passes here.

    Parameters
    ----------
    engine : Engine
        From now on.

    Returns
    -------
    contextvars.Token
        For `reset_engine`.
    """
    return _engine.set(engine)


def reset_engine(token: contextvars.Token[Engine]) -> None:
    """Undo `set_engine`.

    Parameters
    ----------
    token : contextvars.Token
        What that returned.
    """
    _engine.reset(token)
