"""Clients that go on until they are killed: `PYTHON worker.py KIND ROOT HTTP DIRECTORY JOURNAL SEED CLIENTS`."""

from __future__ import annotations

import random
import sys
import threading
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from soak.doors import Bindings, Door, Http, LostError, RefusedError, Root
from soak.journal import ABSENT, Journal, make_content, sum_of

SLOTS = 5
"""Files of one client."""

NOISE = random.Random(7).randbytes(1 << 16)


def choose_size(rng: random.Random) -> int:
    """Choose a size: mostly small, sometimes some MiB."""
    most = rng.choices([0, 5000, 100_000, 1 << 20, 6 << 20], [1, 10, 10, 4, 1])[0]
    return rng.randrange(most) if most else 0


class Client:
    """One client with its own directory.

    Parameters
    ----------
    door
        How it reaches the facility.
    directory
        Where its files are; nobody else writes there.
    journal
        Where it notes what it does.
    rng
        Of all choices.
    stopped
        Ends it between two steps.
    """

    def __init__(
        self, door: Door, directory: str, journal: Journal, rng: random.Random, stopped: threading.Event
    ) -> None:
        self.door = door
        self._directory = directory
        self._journal = journal
        self._rng = rng
        self._stopped = stopped
        self._is_lost = True
        self._uncertain: set[str] = set()

    def run(self) -> None:
        """Go on until stopped."""
        while not self._stopped.is_set():
            slot = f"{self._directory}-{self._rng.randrange(SLOTS)}"
            act = self._rng.choices([self._put, self._get, self._remove, self._list], [8, 8, 2, 1])[0]
            try:
                act(slot)
            except LostError as lost:
                self._journal.lose(slot, lost)
                self._uncertain.add(slot)
                self._stopped.wait(self._rng.uniform(0.1, 0.5))
            except RefusedError as refused:
                # Whatever was cut off may still be in the way for a moment.
                if slot not in self._uncertain:
                    self._journal.complain(slot, f"{act.__name__}: {refused}")
                self._stopped.wait(0.2)
            except Exception as error:
                self._journal.complain(slot, f"{act.__name__}: {error!r}")
                self._stopped.wait(1)
        self.door.close()

    def _put(self, path: str) -> None:
        data = make_content(self._rng.getrandbits(48), choose_size(self._rng), NOISE)
        self._journal.begin(path, sum_of(data))
        self.door.put(path, data)
        self._journal.end(path, sum_of(data))
        self._uncertain.discard(path)

    def _get(self, path: str) -> None:
        data = self.door.get(path)
        found = ABSENT if data is None else sum_of(data)
        allowed = self._journal.allowed(path)
        if found not in allowed:
            self._journal.complain(path, f"{type(self.door).__name__} reads {found}, which is none of {allowed}")

    def _remove(self, path: str) -> None:
        self._journal.begin(path, ABSENT)
        was_there = self.door.remove(path)
        if not was_there and ABSENT not in self._journal.allowed(path):
            self._journal.complain(path, "was not there when it was removed")
        self._journal.end(path, ABSENT)
        self._uncertain.discard(path)

    def _list(self, path: str) -> None:
        directory = path.rsplit("/", 1)[0]
        listed = self.door.names(directory)
        mine = [f"{self._directory}-{slot}" for slot in range(SLOTS)]
        for one in mine:
            allowed, is_listed = self._journal.allowed(one), one.rsplit("/", 1)[1] in listed
            if (allowed == {ABSENT} and is_listed) or (ABSENT not in allowed and not is_listed):
                self._journal.complain(one, f"listed: {is_listed}, may be: {allowed}")


def main() -> None:
    """Run clients of one kind until somebody kills the process, or closes its standard input."""
    kind, root, http, directory, journal_file, seed, count = sys.argv[1:8]
    journal, stopped = Journal(Path(journal_file)), threading.Event()
    make = {"root": lambda: Root(root), "http": lambda: Http(http), "bindings": lambda: Bindings(root)}[kind]
    clients = [
        Client(make(), f"{directory}/{number}", journal, random.Random(f"{seed}.{number}"), stopped)
        for number in range(int(count))
    ]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopped.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
