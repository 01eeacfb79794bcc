"""What the parts of a facility have in common: they make calls."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, SupportsIndex

from ._errors import InvalidError


class Calls(ABC):
    """Makes calls of the management API; the parts of a facility are built on it."""

    @abstractmethod
    def _call(self, name: str, body: dict[str, Any] | None = None, *, wait_s: float = 0.0) -> Any: ...

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
