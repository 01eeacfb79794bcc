"""Adding results of parts of a pass, in an order that depends on the chain alone.

Floats added in another order give another sum. So packets are added as a binary tree over their numbers: node
``(level, index)`` stands for packets ``index << level`` up to ``(index + 1) << level``. Two halves of a node are added
as soon as both are there, whoever computed them, and so the result is the same to the last bit, and little waits.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._errors import InvalidError


def merge(first: Any, second: Any) -> Any:
    """Add two results by their type; neither is changed.

    Parameters
    ----------
    first, second : object
        Of earlier and of later entries. Mappings merge key by key and tuples element by element, lists are joined,
        sets united, tables and awkward arrays stacked; all else is added: numbers, histograms, NumPy arrays of one
        shape, and objects with ``+``. `None` adds nothing.

    Returns
    -------
    object
        Of the same type.

    Raises
    ------
    InvalidError
        If they do not go together.

    Examples
    --------
    >>> merge({"n": 1, "files": ["a"]}, {"n": 2, "files": ["b"], "more": 3})
    {'n': 3, 'files': ['a', 'b'], 'more': 3}
    """
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return _merge_mappings(first, second)
    if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
        return tuple(map(merge, first, second))
    if isinstance(first, set | frozenset) and isinstance(second, set | frozenset):
        return first | second
    if isinstance(first, str | bytes | bool) or isinstance(second, str | bytes | bool):
        raise _unmergeable(first, second, "return it in a list, or in a set")
    return _stacked(first, second)


def _merge_mappings(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> dict[Any, Any]:
    merged = dict(first)
    for key, value in second.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return merged


def _stacked(first: Any, second: Any) -> Any:
    # Only what is imported already can be the type of a result.
    modules = sys.modules
    if "awkward" in modules and isinstance(first, modules["awkward"].Array):
        return modules["awkward"].concatenate([first, second])
    if "pandas" in modules and isinstance(first, modules["pandas"].DataFrame):
        return modules["pandas"].concat([first, second], ignore_index=True)
    if "pyarrow" in modules and isinstance(first, modules["pyarrow"].Table):
        return modules["pyarrow"].concat_tables([first, second])
    shapes = [getattr(one, "shape", ()) for one in (first, second)]
    if "numpy" in modules and isinstance(first, modules["numpy"].ndarray) and shapes[0] != shapes[1]:
        raise _unmergeable(first, second, "return it in a list; arrays are added element by element")
    try:
        return first + second
    except (TypeError, ValueError) as error:
        raise _unmergeable(first, second, "return numbers, histograms, lists, or dictionaries of these") from error


def _unmergeable(first: Any, second: Any, hint: str) -> InvalidError:
    names = " and ".join(type(one).__name__ for one in (first, second))
    return InvalidError(f"results of two parts cannot be merged: {names}", hint)


class Nodes:
    """Sums of packets, added as far as they can be.

    Parameters
    ----------
    merge : callable
        Of an earlier and a later value.

    Examples
    --------
    >>> nodes = Nodes()
    >>> for packet in (2, 0, 3, 1):
    ...     nodes.add(0, packet, [packet])
    >>> list(nodes), nodes.total()
    ([(2, 0, [0, 1, 2, 3])], [0, 1, 2, 3])
    """

    def __init__(self, merge: Callable[[Any, Any], Any] = merge) -> None:
        self._merge = merge
        self._nodes: dict[tuple[int, int], Any] = {}

    def add(self, level: int, index: int, value: Any) -> None:
        """Add the value of a node.

        Parameters
        ----------
        level, index : int
            Which packets it stands for; none of them was added before.
        value : object
            Their sum.
        """
        while (level, index ^ 1) in self._nodes:
            other = self._nodes.pop((level, index ^ 1))
            value = self._merge(other, value) if index & 1 else self._merge(value, other)
            level, index = level + 1, index >> 1
        self._nodes[level, index] = value

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        for (level, index), value in sorted(self._nodes.items(), key=lambda node: node[0][1] << node[0][0]):
            yield level, index, value

    def total(self) -> Any:
        """Add everything that is there, in the order of the packets.

        Returns
        -------
        object
            The sum; `None` of nothing.
        """
        values = [value for _, _, value in self]
        return functools.reduce(self._merge, values) if values else None
