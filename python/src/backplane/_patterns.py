"""What a path with patterns stands for.

A path that exists is that path, whatever characters its names have: only otherwise are they patterns. So it is for each
name in a path, here and on the host, for the shell command and the inputs of jobs.
"""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Callable, Iterable
from pathlib import Path

_MAGIC = frozenset("*?[")


def is_pattern(path: str) -> bool:
    """Tell whether a path could be a pattern.

    Parameters
    ----------
    path : str
        Path or name.

    Returns
    -------
    bool
        Whether it has ``*``, ``?`` or ``[``.
    """
    return not _MAGIC.isdisjoint(path)


def expand(path: str, exists: Callable[[str], bool], matches: Callable[[str, str, bool], Iterable[str]]) -> list[str]:
    """Find what a path stands for.

    Parameters
    ----------
    path : str
        With patterns in any of its names.
    exists : callable
        Whether there is something at a path.
    matches : callable
        Paths of what is in a directory and fits a pattern, in name order; only directories unless it is the last name.

    Returns
    -------
    list of str
        In the order of their names; empty if nothing is there.
    """
    found = ["/"] if path.startswith("/") else [""]
    names = [name for name in path.split("/") if name]
    for depth, name in enumerate(names):
        is_last = depth + 1 == len(names)
        longer: list[str] = []
        for directory in found:
            literal = posixpath.join(directory, name)
            # What leads to the last name is looked for with it.
            if not (is_last or is_pattern(name)) or exists(literal):
                longer.append(literal)
            elif is_pattern(name):
                longer.extend(matches(directory, name, is_last))
        found = longer
    return found


def expand_local(path: str) -> list[str]:
    """Find what a path on this host stands for.

    Parameters
    ----------
    path : str
        With patterns in any of its names.

    Returns
    -------
    list of str
        In name order; empty if nothing is there.
    """

    def matches(directory: str, name: str, is_last: bool) -> list[str]:
        found = glob.glob(posixpath.join(glob.escape(directory), name))
        return found if is_last else [place for place in found if Path(place).is_dir()]

    # In the order of the whole paths, as ever: "a-b/c" is before "a/c".
    return sorted(expand(path, os.path.lexists, matches))
