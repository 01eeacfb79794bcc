"""What runs in the workers of a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from distributed import get_worker
from distributed.worker import thread_state

from .._cache import cache_use
from .._errors import BusyError
from ._plan import Part, Plan


def compute(data: bytes, first: int, end: int) -> tuple[Part, str, float]:
    """Compute some packets.

    Parameters
    ----------
    data : bytes
        A plan of just these: nothing else has to be fetched from another worker, which may be dead or stuck.
    first, end : int
        Which packets, half-open.

    Returns
    -------
    tuple
        The part, the address of this worker, and how many seconds it took.
    """
    begin = time.monotonic()
    # Dask gives a worker as many tasks at a time as it has threads.
    part = Plan.of(data).run(first, end, 1, _stop_if_cancelled())
    return part, get_worker().address, time.monotonic() - begin


def _stop_if_cancelled() -> Callable[[int, int], None]:
    """Make what a pass calls now and then: Dask itself never ends a task that has begun."""
    worker, key = get_worker(), thread_state.key

    def told(_done: int, _total: int) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise BusyError("cancelled")

    return told


def columns_held() -> dict[str, int]:
    """Tell what the column cache of this worker holds.

    Returns
    -------
    dict
        As `backplane.cache_use`.
    """
    return cache_use()._asdict()
