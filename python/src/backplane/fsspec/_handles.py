"""Files that stay open for a moment: many programs read a file by one call after the other, each with the path."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from .. import _core

# How old an open file may become, in seconds since it was opened: so long a change by others may go unseen.
AGE_MAX_S = 5.0
# Open files of one process; the longest unused goes first.
_FILES_MAX = 64

_Key = tuple[str, str, str]


@dataclass
class _Held:
    file: _core.RemoteFile
    opened_s: float


@dataclass
class Handles:
    """Open files by door, user and path; shared by the threads of a process.

    Attributes
    ----------
    clock : callable
        Seconds that never go back.
    """

    clock: Callable[[], float] = time.monotonic
    _held: OrderedDict[_Key, _Held] = field(default_factory=OrderedDict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    # Of each door, how often something was changed there.
    _changes: dict[str, int] = field(default_factory=dict)
    _sweeper: threading.Thread | None = None

    def find(self, door: str, user: str, path: str) -> _core.RemoteFile | None:
        """Find an open file that is young enough.

        Parameters
        ----------
        door, user, path : str
            Which.

        Returns
        -------
        RemoteFile or None
            Open for reading; whoever holds it may go on reading when it is forgotten here.
        """
        key = (door, user, path)
        with self._changed:
            held = self._held.get(key)
            if held is None or self.clock() - held.opened_s > AGE_MAX_S:
                return None
            self._held.move_to_end(key)
            return held.file

    def open(self, door: str, user: str, path: str, opener: Callable[[], _core.RemoteFile]) -> _core.RemoteFile:
        """Open a file and keep it.

        Parameters
        ----------
        door, user, path : str
            Which.
        opener : callable
            Opens it.

        Returns
        -------
        RemoteFile
            Open for reading.
        """
        with self._changed:
            before = self._changes.get(door, 0)
        opened_s = self.clock()
        file = opener()
        with self._changed:
            # What was opened before a change of our own must not be found after it.
            if self._changes.get(door, 0) == before:
                self._held[(door, user, path)] = _Held(file, opened_s)
                self._held.move_to_end((door, user, path))
                while len(self._held) > _FILES_MAX:
                    self._held.popitem(last=False)
                self._wake_sweeper()
        return file

    def forget(self, door: str) -> None:
        """Forget all files of a door, because something was changed there."""
        with self._changed:
            self._changes[door] = self._changes.get(door, 0) + 1
            for key in [key for key in self._held if key[0] == door]:
                del self._held[key]

    def drop(self, file: _core.RemoteFile) -> None:
        """Forget one file."""
        with self._changed:
            for key in [key for key, held in self._held.items() if held.file is file]:
                del self._held[key]

    def reset(self) -> None:
        """Start anew: in a forked child the lock may be taken for ever, and there is no sweeper."""
        self._held = OrderedDict()
        self._changed = threading.Condition()
        self._sweeper = None

    def _wake_sweeper(self) -> None:
        if self._sweeper is None:
            self._sweeper = threading.Thread(target=self._sweep, name="bp-handles", daemon=True)
            self._sweeper.start()

    def _sweep(self) -> None:
        """Close what is too old, until nothing is left."""
        with self._changed:
            while self._held:
                oldest_s = min(held.opened_s for held in self._held.values())
                self._changed.wait(timeout=max(oldest_s + AGE_MAX_S - self.clock(), 0.01))
                now = self.clock()
                for key in [key for key, held in self._held.items() if now - held.opened_s > AGE_MAX_S]:
                    del self._held[key]
            self._sweeper = None


HANDLES = Handles()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HANDLES.reset)
