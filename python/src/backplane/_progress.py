"""A line on the terminal that says how far a pass is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

Progress: TypeAlias = bool | Callable[[int, int], object] | None
"""`None` shows a line if standard error is a terminal, `True` always; a function gets entries done and total."""

_INTERVAL_S = 0.1


class ProgressLine:
    """Rewrites one line: entries done and total, entries per second, time left.

    Parameters
    ----------
    out : TextIO, optional
        Where to write; standard error unless given.
    clock : callable, optional
        Seconds that never go back.
    """

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = sys.stderr if out is None else out
        self._clock = clock
        self._begin = clock()
        self._shown: float | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show the state, at most ten times a second and always at the end."""
        now = self._clock()
        is_end = done >= total
        if self._shown is not None and now - self._shown < _INTERVAL_S and not is_end:
            return
        # A pass that is over before anybody could read the line shows none.
        if self._shown is None and is_end and now - self._begin < _INTERVAL_S:
            return
        self._shown = now
        self._out.write("\r\x1b[K" + describe(done, total, now - self._begin) + ("\n" if is_end else ""))
        self._out.flush()


def describe(done: int, total: int, seconds: float) -> str:
    """Say how far a pass is.

    Parameters
    ----------
    done, total : int
        Entries.
    seconds : float
        Since the begin.

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> describe(5_000_000, 20_000_000, 2.0)
    '5.0 M of 20.0 M entries (25 %), 2.5 M/s, 6 s left'
    >>> describe(0, 1000, 0.5)
    '0 of 1.0 k entries (0 %)'
    """
    share = done / total if total else 1.0
    line = f"{_count(done)} of {_count(total)} entries ({share:.0%})".replace("%", " %")
    if done and seconds > 0:
        rate = done / seconds
        line += f", {_count(rate)}/s"
        if done < total:
            line += f", {(total - done) / rate:.0f} s left"
    return line


def _count(number: float) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"


def callback(progress: Progress) -> Callable[[int, int], object] | None:
    """Make the function that a pass calls.

    Parameters
    ----------
    progress : bool, callable or None
        As users give it.

    Returns
    -------
    callable or None
        Called with entries done and total.
    """
    if callable(progress):
        return progress
    if progress or (progress is None and sys.stderr.isatty()):
        return ProgressLine()
    return None
