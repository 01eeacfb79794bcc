"""Several ranges of several files at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .. import _core

_Result = TypeVar("_Result")

# Files that are read at the same time by one call.
_THREADS_MAX = 8


def several(act: Callable[[str], _Result], paths: Sequence[str]) -> Iterable[_Result]:
    """Act on several paths at the same time.

    Parameters
    ----------
    act : callable
        Gets a path.
    paths : sequence of str
        The paths.

    Returns
    -------
    iterable
        What it gave for each, in their order.
    """
    if len(paths) <= 1:
        return map(act, paths)
    with ThreadPoolExecutor(min(len(paths), _THREADS_MAX), thread_name_prefix="bp-read") as pool:
        return list(pool.map(act, paths))


def read_cuts(file: _core.RemoteFile, cuts: Sequence[slice], max_gap: int | None) -> list[bytes]:
    """Read parts of a file by one vector read.

    Parameters
    ----------
    file : RemoteFile
        Open for reading.
    cuts : sequence of slice
        What is negative counts from the end, what lies behind it is left out.
    max_gap : int or None
        Most bytes between two ranges that are read as one.

    Returns
    -------
    list of bytes
        One for each cut.
    """
    ranges = []
    for cut in cuts:
        first, stop, _ = cut.indices(file.size)
        ranges.append((first, max(stop - first, 0)))
    if not max_gap:
        return file.read_ranges(ranges)
    spans = merge(ranges, max_gap)
    pieces = [memoryview(piece) for piece in file.read_ranges([span for span, _ in spans])]
    found = [b""] * len(ranges)
    for ((start, _), members), piece in zip(spans, pieces, strict=True):
        for index in members:
            offset, length = ranges[index]
            found[index] = bytes(piece[offset - start : offset - start + length])
    return found


def merge(ranges: Sequence[tuple[int, int]], max_gap: int) -> list[tuple[tuple[int, int], list[int]]]:
    """Merge ranges that lie close together.

    Parameters
    ----------
    ranges : sequence of (int, int)
        Offset and length of each.
    max_gap : int
        Most bytes between two that become one.

    Returns
    -------
    list of ((int, int), list of int)
        Offset and length of each span, and the indices of the ranges in it; empty ranges are in none.

    Examples
    --------
    >>> merge([(100, 10), (0, 10), (12, 3), (5, 0)], 2)
    [((0, 15), [1, 2]), ((100, 10), [0])]
    """
    spans: list[tuple[int, int, list[int]]] = []
    order = sorted((offset, length, index) for index, (offset, length) in enumerate(ranges) if length)
    for offset, length, index in order:
        if spans and offset - spans[-1][1] <= max_gap:
            start, end, members = spans[-1]
            spans[-1] = (start, max(end, offset + length), [*members, index])
        else:
            spans.append((offset, offset + length, [index]))
    return [((start, end - start), members) for start, end, members in spans]
