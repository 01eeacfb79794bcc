"""Clusters: passes on the workers of Dask."""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

from .._calls import whole_number
from .._errors import TimeoutExpiredError, UnsupportedError
from ._engine import Engine, Outcome, reset_engine, set_engine
from ._merge import merge

if TYPE_CHECKING:
    from typing import Self

    from distributed import Client

    from .. import _core
    from ._engine import Partial
    from ._plan import Selection

# How long a pass waits for the first worker, or for another when all are gone: a batch system may be busy.
WAIT_S = 3600.0


class Cluster(Engine):
    """Workers that compute passes together; make one with `cluster` or `Facility.cluster`.

    In its ``with`` block all passes of this thread run there. `NTuple.on` sends those of one n-tuple there, anywhere.
    Results are equal to those of this process, to the last bit, however many workers there are, die or join.

    Attributes
    ----------
    client : distributed.Client
        The connection to the Dask scheduler.
    wait_s : float
        How long a pass waits while there is no worker at all.

    Examples
    --------
    >>> with backplane.cluster("tls://scheduler:8786", security=security):  # doctest: +SKIP
    ...     chain.hist("pt", bins=100, range=(0, 50))
    """

    def __init__(
        self, client: Client, *, wait_s: SupportsFloat = WAIT_S, closing: Callable[[], object] | None = None
    ) -> None:
        self.client = client
        self.wait_s = float(wait_s)
        self._homes: dict[Any, str] = {}
        self._closing = contextlib.ExitStack()
        if closing is not None:
            self._closing.callback(closing)
        self._tokens: list[contextvars.Token[Engine]] = []

    def __enter__(self) -> Self:
        self._tokens.append(set_engine(self))
        return self

    def __exit__(self, *_error: object) -> None:
        reset_engine(self._tokens.pop())
        if not self._tokens:
            self.close()

    def __repr__(self) -> str:
        return f"<Cluster of {len(self.workers)} workers>"

    @property
    def workers(self) -> dict[str, int]:
        """Addresses of the workers that are there now, and the threads of each."""
        known = self.client.scheduler_info(n_workers=-1)["workers"]
        return {address: int(about["nthreads"]) for address, about in known.items()}

    def wait_for_workers(self, count: SupportsIndex = 1, wait_s: SupportsFloat = WAIT_S) -> Self:
        """Wait until workers are there. A pass needs none of it: it begins with the first, and later ones join.

        Parameters
        ----------
        count : int
            How many.
        wait_s : float
            How long to wait.

        Returns
        -------
        Cluster
            Itself.

        Raises
        ------
        TimeoutExpiredError
            If not so many come in time.
        """
        wanted, begin = whole_number(count, "count"), time.monotonic()
        try:
            self.client.wait_for_workers(wanted, timeout=float(wait_s))
        except TimeoutError as error:
            waited = time.monotonic() - begin
            come = f"{len(self.workers)} of {wanted} workers have come in {waited:.0f} s"
            raise TimeoutExpiredError(come, self.why()) from error
        return self

    def cache_use(self) -> dict[str, dict[str, int]]:
        """Tell what the column caches of the workers hold.

        Returns
        -------
        dict
            For each worker as `backplane.cache_use`.
        """
        from ._worker import columns_held

        held: dict[str, dict[str, int]] = self.client.run(columns_held)
        return held

    def run(
        self,
        chain: _core.Chain,
        selection: Selection,
        threads: int,
        progress: Callable[[int, int], object] | None,
        partial: Partial,
    ) -> Outcome:
        """See `Engine.run`; the number of threads is that of the workers."""
        from ._engine import EMBEDDED
        from ._pass import Pass
        from ._plan import Plan

        if chain.entries == 0:
            return EMBEDDED.run(chain, selection, threads, progress, partial)
        return Pass(self, Plan(chain, selection), self._homes, progress, partial).run()

    def map_items(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        merge: Callable[[Any, Any], Any] = merge,
    ) -> Any:
        """Call a function with each of many items on the workers, and add what it returns.

        Parameters
        ----------
        function : callable
            Of one item.
        items : iterable
            What to work on.
        merge : callable, optional
            Of an earlier and a later result; by type unless given.

        Returns
        -------
        object
            The sum, in an order that does not depend on the workers; `None` of nothing.
        """
        from ._items import map_items

        return map_items(self, function, list(items), merge)

    def tend(self) -> None:
        """Look after the workers; a pass asks for it now and then."""

    def why(self) -> str | None:
        """Say what a cluster without workers waits for.

        Returns
        -------
        str or None
            `None` if that is not known.
        """
        return None

    def close(self) -> None:
        """Give up what was made for this cluster: workers that were started for it, and the connection to them."""
        self._closing.close()


def cluster(client: Client | str, *, security: Any = None, wait_s: SupportsFloat = WAIT_S) -> Cluster:
    """Use a Dask cluster that is there already.

    Its workers need this package in the same version, and must see the files under the same names.

    Parameters
    ----------
    client : distributed.Client or str
        A connection, which stays open, or the address of a scheduler.
    security : distributed.Security, optional
        For the address of a scheduler: certificates and keys.
    wait_s : float, optional
        How long a pass waits while there is no worker at all.

    Returns
    -------
    Cluster
        To be used in a ``with`` statement, or with `NTuple.on`.

    Raises
    ------
    UnsupportedError
        If `distributed` is not installed.
    """
    distributed = need_distributed()
    if not isinstance(client, str):
        return Cluster(client, wait_s=wait_s)
    connection = distributed.Client(client, security=security, set_as_default=False)
    return Cluster(connection, wait_s=wait_s, closing=connection.close)


def need_distributed() -> Any:
    """Import Dask's distributed scheduler.

    Returns
    -------
    module
        `distributed`.
    """
    try:
        import distributed
    except ImportError as error:
        raise UnsupportedError("clusters need the package distributed", "pip install 'backplane[cluster]'") from error
    return distributed
