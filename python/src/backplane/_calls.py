"""What the parts of a facility have in common: they make calls."""

from __future__ import annotations

import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, SupportsIndex

from ._errors import InvalidError

# How old what a person sees may be that waits: guesses of when a turn comes, and what others do in the queue. What
# happens to the thing itself is told at once.
LIVELY_S = 5.0
# Shortest time between two calls of somebody who waits: the facility holds a call back, something in between may not.
_INTERVAL_MIN_S = 0.2


class News:
    """What a caller has seen of a pending reply: the next call with it is answered as soon as there is another reply.

    Attributes
    ----------
    tag : str
        Of the reply that was seen; empty before the first.
    """

    def __init__(self) -> None:
        self.tag = ""
        self._called_s = 0.0

    def pace(self) -> None:
        """Wait a moment if the last call was just now."""
        time.sleep(max(self._called_s + _INTERVAL_MIN_S - time.monotonic(), 0.0))
        self._called_s = time.monotonic()


class Calls(ABC):
    """Makes calls of the management API; the parts of a facility are built on it."""

    @abstractmethod
    def _call(
        self, name: str, body: dict[str, Any] | None = None, *, wait_s: float = 0.0, news: News | None = None
    ) -> Any: ...

    def _entries(self, path: str) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            page = self._call("list", {"path": path, "after": after})
            yield from page["entries"]
            if not page["is_partial"] or not page["entries"]:
                return
            after = page["entries"][-1]["name"]

    def _is_directory(self, path: str) -> bool:
        try:
            return bool(self._call("stat", {"path": path})["kind"] == "directory")
        except FileNotFoundError:
            return False


def check_absolute(path: str) -> None:
    """Refuse a path that does not begin at the root.

    Parameters
    ----------
    path : str
        In the facility.
    """
    if not path.startswith("/"):
        raise InvalidError(f"path {path!r} does not begin with /")


def whole_number(value: SupportsIndex, what: str) -> int:
    """Take a whole number of any type, as those of NumPy.

    Parameters
    ----------
    value : int or NumPy integer
        The number.
    what : str
        What it is called, for the refusal.

    Returns
    -------
    int
        The same number.

    Raises
    ------
    InvalidError
        If it is no whole number; floats are not, whatever their value.

    Examples
    --------
    >>> import numpy
    >>> whole_number(numpy.int32(4), "cpus")
    4
    """
    try:
        return operator.index(value)
    except TypeError as error:
        raise InvalidError(f"{what} is {value!r}, which is no whole number") from error
