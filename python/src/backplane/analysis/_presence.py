"""Which workers a cluster has, and how long it may have none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .._errors import TimeoutExpiredError

if TYPE_CHECKING:
    from ._cluster import Cluster

# How often the list of workers is asked for: so long a new one has nothing to do.
_ASK_S = 0.5


class Presence:
    """The workers of a cluster, looked at again and again.

    Parameters
    ----------
    cluster : Cluster
        It says how long there may be none.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked, self._seen = float("-inf"), time.monotonic()
        self.workers: dict[str, int] = {}

    def look(self, done: str) -> None:
        """Ask which workers there are.

        Parameters
        ----------
        done : str
            How far it is, for the message.

        Raises
        ------
        TimeoutExpiredError
            If there has been none for too long.
        """
        now = time.monotonic()
        if now - self._asked < _ASK_S:
            return
        self._asked = now
        self._cluster.tend()
        self.workers = self._cluster.workers
        if self.workers:
            self._seen = now
        elif now - self._seen > self._cluster.wait_s:
            raise TimeoutExpiredError(
                f"the cluster has had no worker for {self._cluster.wait_s:g} s; {done}",
                self._cluster.why() or "look at the scheduler's list of workers, and at what the workers print",
            )
