"""Processors of coffea, on the engines of this package.

Give a `BackplaneExecutor` to coffea's runner; the processor stays as it is::

    from coffea import processor
    from backplane.coffea import BackplaneExecutor

    with facility.cluster(workers=8) as cluster:
        run = processor.Runner(executor=BackplaneExecutor(cluster=cluster), schema=NanoAODSchema)
        out = run(fileset, processor_instance=MyProcessor(), treename="Events")

Results are added in an order that does not depend on the workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from coffea.processor import accumulate
from coffea.processor.executor import ExecutorBase

from .analysis import Cluster
from .analysis._merge import Nodes

__all__ = ["BackplaneExecutor"]


@dataclasses.dataclass
class BackplaneExecutor(ExecutorBase):
    """Runs the chunks of coffea on a cluster, or one after the other in this process.

    Attributes
    ----------
    cluster : Cluster, optional
        From `backplane.cluster` or `Facility.cluster`; this process if left out.
    """

    cluster: Cluster | None = None

    def __call__(self, items: Iterable[Any], function: Callable[[Any], Any], accumulator: Any) -> tuple[Any, int]:
        """Call a function with each item and add what it returns.

        Parameters
        ----------
        items : iterable
            What to work on.
        function : callable
            Of one item.
        accumulator : object
            To which results are added; `None` for nothing yet.

        Returns
        -------
        tuple
            The sum, and 0 as nothing failed.
        """
        todo = list(items)
        if self.cluster is not None:
            total = self.cluster.map_items(function, todo, _add)
        else:
            nodes = Nodes(_add)
            for number, item in enumerate(todo):
                nodes.add(0, number, function(item))
            total = nodes.total()
        return (accumulator if total is None else accumulate([total], accumulator)), 0


def _add(first: Any, second: Any) -> Any:
    return accumulate([first, second])
