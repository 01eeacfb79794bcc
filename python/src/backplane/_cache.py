"""The cache of decoded columns of this process."""

from __future__ import annotations

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
        Columns of row groups that had to be decoded.
    """

    capacity_bytes: int
    held_bytes: int
    hits: int
    misses: int


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


def clear_cache() -> None:
    """Drop all cached columns."""
    _core.clear_cache()
