"""One pass over a Dask cluster: hands out packets, and adds what comes back."""

from __future__ import annotations

import dataclasses
import queue
import time
import uuid
from collections import Counter
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from distributed import Future
from distributed.scheduler import KilledWorker

from .._errors import UnavailableError
from ._collect import Collector
from ._engine import PARTIAL_S, Outcome, outcome_of
from ._plan import Plan
from ._presence import Presence
from ._schedule import Schedule, Task
from ._worker import compute

if TYPE_CHECKING:
    from ._cluster import Cluster
    from ._engine import Partial

# How long the loop waits for a result before it looks at everything else.
_TICK_S = 0.1
# A result that is on a worker which just died is computed again by Dask; others are not kept waiting for it.
_GATHER_S = 10.0
# At the end, what one worker has had for so long goes to an idle one as well; the first answer counts.
_SLOW_S = 5.0
# Of packets whose worker is remembered.
_HOMES_MAX = 1_000_000


@dataclasses.dataclass
class _Given:
    """A task at a worker."""

    task: Task
    worker: str
    future: Future
    since: float


class Pass:
    """One pass.

    Parameters
    ----------
    cluster : Cluster
        Who computes.
    plan : Plan
        What is computed.
    homes : mutable mapping
        Which worker computed packets with the same columns last; it is kept up to date.
    progress : callable, optional
        Called with entries done and total.
    partial : callable, optional
        Called with the bins of all histograms as far as they are filled.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        homes: MutableMapping[Any, str],
        progress: Callable[[int, int], object] | None,
        partial: Partial,
    ) -> None:
        self._cluster, self._client, self._plan, self._homes = cluster, cluster.client, plan, homes
        self._progress, self._partial = progress, partial
        self._collector = Collector(plan)
        self._total = sum(plan.entries)
        self._schedule = Schedule(plan.entries, {})
        self._presence = Presence(cluster)
        self._given: dict[str, _Given] = {}
        self._done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._shown = float("-inf")
        self._name = f"backplane-{uuid.uuid4().hex}"

    def run(self) -> Outcome:
        """Compute it.

        Returns
        -------
        Outcome
            Of all packets.
        """
        self._look()
        keys = map(self._plan.key, range(len(self._plan)))
        known = ((packet, self._homes.get(key)) for packet, key in enumerate(keys))
        self._schedule = Schedule(
            self._plan.entries,
            {packet: home for packet, home in known if home in self._presence.workers and home is not None},
        )
        try:
            while not self._collector.is_complete:
                self._look()
                self._hand_out()
                self._tell()
                try:
                    self._take(self._done.get(timeout=_TICK_S))
                except queue.Empty:
                    continue
        finally:
            if futures := [given.future for given in self._given.values()]:
                self._client.cancel(futures, force=True)
        self._tell(is_end=True)
        return outcome_of(self._collector)

    def _look(self) -> None:
        self._presence.look(f"{self._collector.entries} of {self._total} entries are done")

    def _hand_out(self) -> None:
        load = Counter(given.worker for given in self._given.values())
        slots = sum(self._presence.workers.values())
        # Each has one task more than it can run, so that it never waits for us.
        for turn in range(max(self._presence.workers.values(), default=0) + 1):
            for worker, threads in self._presence.workers.items():
                if load[worker] == turn and turn <= threads:
                    task = self._schedule.give(worker, slots) or self._slow_one(worker, load[worker])
                    if task is None:
                        continue
                    load[worker] += 1
                    self._submit(task, worker)

    def _slow_one(self, worker: str, load: int) -> Task | None:
        """Choose what an idle worker computes a second time, because another is very slow or stuck."""
        if load or self._schedule.left:
            return None
        copies = Counter(given.task for given in self._given.values())
        now = time.monotonic()
        slow = [
            given
            for given in self._given.values()
            if given.worker != worker and copies[given.task] == 1 and now - given.since > _SLOW_S
        ]
        return min(slow, key=lambda given: given.since).task if slow else None

    def _submit(self, task: Task, worker: str) -> None:
        key = f"{self._name}-{task.first}-{task.end}-{uuid.uuid4().hex[:8]}"
        data = self._plan.cut(task.first, task.end)
        # If the worker dies, Dask gives the task to another.
        future = self._client.submit(
            compute, data, task.first, task.end, key=key, pure=False, workers=[worker], allow_other_workers=True
        )
        self._given[key] = _Given(task, worker, future, time.monotonic())
        future.add_done_callback(self._done.put)

    def _take(self, future: Future) -> None:
        given = self._given.get(future.key)
        if given is None:
            return
        if future.status == "error":
            self._raise(given.task, future.exception(timeout=_GATHER_S))
        if future.status != "finished":
            # The scheduler forgot it.
            del self._given[future.key]
            if not any(other.task == given.task for other in self._given.values()):
                self._schedule.put_back([given.task])
            return
        try:
            part, worker, seconds = future.result(timeout=_GATHER_S)
        except TimeoutError:
            future.add_done_callback(self._done.put)
            return
        self._forget(given.task)
        if self._collector.add(part):
            self._schedule.observe(worker, given.task, seconds)
            self._remember(given.task, worker)

    def _forget(self, task: Task) -> None:
        """Drop a task that is done, and whoever computes it a second time."""
        copies = [key for key, given in self._given.items() if given.task == task]
        futures = [self._given.pop(key).future for key in copies]
        if too_late := [future for future in futures if future.status == "pending"]:
            self._client.cancel(too_late, force=True)

    def _remember(self, task: Task, worker: str) -> None:
        if len(self._homes) > _HOMES_MAX:
            self._homes.clear()
        for packet in range(task.first, task.end):
            self._homes[self._plan.key(packet)] = worker

    def _raise(self, task: Task, error: BaseException | None) -> None:
        if isinstance(error, KilledWorker):
            raise UnavailableError(
                f"{self._plan.name(task.first)}: {error.allowed_failures + 1} workers died while they computed this",
                "see what the workers printed; they may need more memory, or smaller row groups",
            ) from error
        assert error is not None, "a task that failed has a reason"
        raise error

    def _tell(self, *, is_end: bool = False) -> None:
        if self._progress is not None:
            self._progress(self._collector.entries, self._total)
        now = time.monotonic()
        if self._partial is not None and (is_end or now - self._shown > PARTIAL_S):
            self._shown = now
            self._partial(self._collector.bins())
