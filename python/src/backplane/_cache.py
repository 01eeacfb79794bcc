"""The cache of decoded columns of this process."""

from __future__ import annotations

import os
from typing import NamedTuple

from . import _core


class CacheUse(NamedTuple):
    """What the column cache holds, and how often it helped.

    Attributes
    ----------
    capacity_bytes : int
        Most bytes it may hold.
    held_bytes : int
        Bytes it holds.
    hits : int
        Columns of row groups that were found.
    misses : int
        Columns of row groups that were not in memory.
    disk_capacity_bytes, disk_held_bytes, disk_hits, disk_misses : int
        The same of the directory that `set_cache_directory` named. What was not there either had to be decoded.
    """

    capacity_bytes: int
    held_bytes: int
    hits: int
    misses: int
    disk_capacity_bytes: int = 0
    disk_held_bytes: int = 0
    disk_hits: int = 0
    disk_misses: int = 0


def cache_use() -> CacheUse:
    """Tell what the column cache holds.

    Returns
    -------
    CacheUse
        As it is now.

    Examples
    --------
    >>> cache_use().capacity_bytes > 0
    True
    """
    return CacheUse(*_core.cache_use())


def set_cache_capacity(capacity_bytes: int) -> None:
    """Change the capacity of the column cache and drop what no longer fits.

    Parameters
    ----------
    capacity_bytes : int
        Most bytes it may hold; at first 2 GiB, or a quarter of the memory if that is less.
    """
    _core.set_cache_capacity(capacity_bytes)


def set_cache_directory(path: str | os.PathLike[str] | None, capacity_bytes: int = 32 << 30) -> None:
    """Keep decoded columns in a directory of this host, too: for the next process, and when memory is short.

    A column is found again as long as its file has the content from which it was decoded. The longest unused go first.
    Several processes may use one directory; it can hold a sixteenth more for each of them.

    Parameters
    ----------
    path : path or None
        A directory in which only you may write; it is made if it is not there. `None` ends it, and leaves what is in
        the directory.
    capacity_bytes : int, optional
        Most bytes it may hold; 32 GiB unless given.

    Raises
    ------
    PermissionDeniedError
        If others may write there.
    """
    _core.set_cache_directory(None if path is None else os.fspath(path), capacity_bytes)


def clear_cache() -> None:
    """Drop all cached columns from memory."""
    _core.clear_cache()
