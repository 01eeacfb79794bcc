"""Which packets a worker gets next: decided without a clock and without a network, so that it can be tested."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping

# A task should take about so long: short enough to stop soon, to show progress and to end together; long enough that
# the few milliseconds of handing it out do not count.
TASK_S = 0.5


@dataclasses.dataclass(frozen=True)
class Task:
    """Packets that follow each other.

    Attributes
    ----------
    first, end : int
        Half-open.
    """

    first: int
    end: int


class Schedule:
    """Packets that nobody has yet, by the worker that has their columns in its cache.

    Parameters
    ----------
    entries : sequence of int
        Of each packet.
    homes : mapping
        Packet and the worker that computed one with the same columns before.
    """

    def __init__(self, entries: list[int], homes: Mapping[int, str]) -> None:
        self._entries = entries
        self._free: dict[str | None, deque[int]] = {}
        for packet in range(len(entries)):
            self._free.setdefault(homes.get(packet), deque()).append(packet)
        self._rates: dict[str, float] = {}

    @property
    def left(self) -> int:
        """How many packets nobody has."""
        return sum(map(len, self._free.values()))

    def observe(self, worker: str, task: Task, seconds: float) -> None:
        """Learn how fast a worker is.

        Parameters
        ----------
        worker : str
            Who computed the task.
        task : Task
            What.
        seconds : float
            How long it took there.
        """
        rate = sum(self._entries[task.first : task.end]) / max(seconds, 1e-3)
        known = self._rates.get(worker)
        # The first tasks read files and later ones may not: believe the newest most.
        self._rates[worker] = rate if known is None else 0.5 * (known + rate)

    def give(self, worker: str, slots: int) -> Task | None:
        """Choose the next task of a worker.

        Parameters
        ----------
        worker : str
            Who has nothing to do.
        slots : int
            Of all workers: towards the end tasks become small, so that all are ready together.

        Returns
        -------
        Task or None
            `None` if nobody's packets are left.
        """
        homes = [home for home, packets in self._free.items() if packets]
        if not homes:
            return None
        if worker in homes:
            home: str | None = worker
        elif None in homes:
            home = None
        else:
            # Help whoever has most to do, from the end that it comes to last.
            home = max(homes, key=lambda home: len(self._free[home]))
        limit = max(self.left // (2 * max(slots, 1)), 1)
        is_stolen = home not in (worker, None)
        return self._take(self._free[home], self._wanted(worker), limit, from_end=is_stolen)

    def _wanted(self, worker: str) -> float:
        """Entries that this worker does in the time of a task; one packet if that is not known."""
        return self._rates.get(worker, 0.0) * TASK_S

    def _take(self, packets: deque[int], wanted: float, limit: int, *, from_end: bool) -> Task:
        take, step = (packets.pop, -1) if from_end else (packets.popleft, 1)
        first = last = take()
        entries = self._entries[first]
        for _ in range(limit - 1):
            if not packets:
                break
            following = packets[-1 if from_end else 0]
            if following != last + step or entries + self._entries[following] > wanted:
                break
            last = take()
            entries += self._entries[last]
        low, high = min(first, last), max(first, last)
        return Task(low, high + 1)

    def put_back(self, tasks: Iterable[Task]) -> None:
        """Take tasks back that were given and not computed.

        Parameters
        ----------
        tasks : iterable of Task
            Which.
        """
        packets = self._free.setdefault(None, deque())
        for task in tasks:
            packets.extend(range(task.first, task.end))
        self._free[None] = deque(sorted(packets))
