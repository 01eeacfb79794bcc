"""What the parts of a facility have in common: they make calls."""

from __future__ import annotations

import contextlib
import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from ._errors import InvalidError, TimeoutExpiredError, UnavailableError

if TYPE_CHECKING:
    from concurrent.futures import Future

# How old what a person sees may be that waits: guesses of when a turn comes, and what others do in the queue. What
# happens to the thing itself is told at once.
LIVELY_S = 5.0
# How long who waits tries to reach a head that is gone: longer than any restart, and not for ever.
AWAY_S = 3600.0
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


class Away:
    """For how long a head has been away that may be starting again."""

    # Failures that pass by themselves.
    ERRORS = (UnavailableError, TimeoutExpiredError)

    def __init__(self) -> None:
        self._since: float | None = None

    def is_back(self) -> None:
        """Note that it has answered."""
        self._since = None

    def is_too_long(self) -> bool:
        """Note that it has not answered.

        Returns
        -------
        bool
            Whether those who wait have to be told.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since > AWAY_S


def fail(future: Future[Any], error: BaseException) -> None:
    """Have a future raise an exception, unless it has its result already.

    Parameters
    ----------
    future : concurrent.futures.Future
        Of what failed.
    error : BaseException
        What it raises.
    """
    if future.done() and not future.cancelled():
        return
    # It says so if those who wait for it know already that it is cancelled.
    with contextlib.suppress(RuntimeError):
        if future.set_running_or_notify_cancel():
            future.set_exception(error)


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
