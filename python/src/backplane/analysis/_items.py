"""A function called with each of many items on the workers of a cluster."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from distributed import Future

from ._merge import Nodes
from ._presence import Presence

if TYPE_CHECKING:
    from ._cluster import Cluster

# How long the loop waits for a result before it looks whether there are workers.
_TICK_S = 0.5
# A result on a worker which just died is computed again by Dask; others are not kept waiting for it.
_GATHER_S = 10.0


def map_items(
    cluster: Cluster, function: Callable[[Any], Any], items: Sequence[Any], merge: Callable[[Any, Any], Any]
) -> Any:
    """Call a function with each item and add what it returns, in an order that depends on their number only.

    Parameters
    ----------
    cluster : Cluster
        Who computes.
    function : callable
        Of one item.
    items : sequence
        What to work on.
    merge : callable
        Of an earlier and a later result.

    Returns
    -------
    object
        The sum; `None` of nothing.
    """
    name, nodes, presence = f"backplane-{uuid.uuid4().hex}", Nodes(merge), Presence(cluster)
    keys = [f"{name}-{number}" for number in range(len(items))]
    done: queue.SimpleQueue[Future] = queue.SimpleQueue()
    # If a worker dies, Dask gives its items to others.
    pending = dict(zip(keys, cluster.client.map(function, items, key=keys, pure=False), strict=True))
    for future in pending.values():
        future.add_done_callback(done.put)
    try:
        while pending:
            presence.look(f"{len(items) - len(pending)} of {len(items)} items are done")
            try:
                future = done.get(timeout=_TICK_S)
                result = future.result(timeout=_GATHER_S)
            except queue.Empty:
                continue
            except TimeoutError:
                if future.status == "error":
                    raise
                future.add_done_callback(done.put)
                continue
            if pending.pop(future.key, None) is not None:
                nodes.add(0, int(str(future.key).rpartition("-")[2]), result)
    finally:
        if pending:
            cluster.client.cancel(list(pending.values()), force=True)
    return nodes.total()
