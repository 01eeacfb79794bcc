"""Brings files onto disk before they are read, and says meanwhile what they wait for."""

from __future__ import annotations

import html
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO, TypeAlias

from ._calls import LIVELY_S, News
from ._errors import PermissionDeniedError, failure

File: TypeAlias = dict[str, Any]
Teller: TypeAlias = Callable[[int, int, list[File]], object]
WaitProgress: TypeAlias = bool | Teller | None
"""`None` shows what is waited for at a terminal and in a notebook, `True` always; a function gets how many files are
online, how many there are, and those that are not, as `Facility.stage` returns them."""

# Paths of one call: it stays far below the longest one that is taken.
_PART_LEN = 1000
# How long one call waits if nobody watches.
_CALM_S = 30.0
# Reasons that a notebook shows at once.
_REASONS_MAX = 8


def bring_online(call: Callable[..., Any], paths: Sequence[str], progress: WaitProgress = None) -> None:
    """Have all files staged, then wait until they are on disk.

    Parameters
    ----------
    call : callable
        Makes a call of the management API.
    paths : sequence of str
        Absolute paths.
    progress : bool, callable or None
        Who is told meanwhile.

    Raises
    ------
    BackplaneError
        The failure of a file that cannot come onto disk.
    """
    # All of them before the first is waited for: the tape room then reads each volume once, in the order of the tape.
    waiting = _stage(call, paths)
    if not waiting:
        return
    teller = _teller(progress)
    news = None if teller is None else News()
    try:
        while waiting:
            if teller is not None:
                teller(len(paths) - len(waiting), len(paths), waiting)
            first, later = waiting[:_PART_LEN], waiting[_PART_LEN:]
            body = {"paths": [file["path"] for file in first], "want": "online"}
            if news:
                news.pace()
            reply = call("await_any", body, wait_s=LIVELY_S if news else _CALM_S, news=news)
            waiting = _waiting(reply["files"]) + later
    finally:
        if isinstance(teller, Line | Cell):
            teller.close()


def _stage(call: Callable[..., Any], paths: Sequence[str]) -> list[File]:
    waiting: list[File] = []
    for begin in range(0, len(paths), _PART_LEN):
        body = {"paths": list(paths[begin : begin + _PART_LEN]), "pin": None}
        try:
            waiting += _waiting(call("stage", body)["files"])
        except PermissionDeniedError:
            # Who may read but not stage, or has a token for files alone, has a file recalled by opening it.
            return []
    return waiting


def _waiting(files: Sequence[File]) -> list[File]:
    for file in files:
        if refused := file.get("failure"):
            raise failure(refused["kind"], refused["what"], refused.get("hint"))
    return [file for file in files if file.get("waits")]


def _teller(progress: WaitProgress) -> Teller | None:
    if callable(progress):
        return progress
    if progress is None or progress is True:
        if _is_notebook():
            return Cell()
        if progress or sys.stderr.isatty():
            return Line()
    return None


def _is_notebook() -> bool:
    # Nobody is in a notebook who has not loaded this.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def describe(online: int, total: int, waiting: Sequence[File]) -> list[str]:
    """Say what is waited for: how many, then each reason with what waits for it, the most frequent first.

    Parameters
    ----------
    online, total : int
        Files.
    waiting : sequence of dict
        Those that are not online.

    Returns
    -------
    list of str
        Lines.

    Examples
    --------
    >>> files = [{"path": f"/d/{n}", "waits": f"volume {n // 2}"} for n in range(3)]
    >>> describe(1, 4, files)
    ['1 of 4 files online', '/d/0 and 1 more: volume 0', '/d/2: volume 1']
    """
    reasons: dict[str, list[File]] = {}
    for file in waiting:
        reasons.setdefault(file["waits"], []).append(file)
    lines = [f"{online} of {total} files online"]
    for reason, files in sorted(reasons.items(), key=lambda item: -len(item[1])):
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        lines.append(f"{files[0]['path']}{more}: {reason}")
    return lines


class Line:
    """Rewrites one line of a terminal.

    Parameters
    ----------
    out : TextIO, optional
        Where to write; standard error unless given.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stderr if out is None else out

    def __call__(self, online: int, total: int, waiting: list[File]) -> None:
        """Show the state, as far as the terminal is wide."""
        text = "; ".join(describe(online, total, waiting))
        # Names may hold what terminals obey.
        shown = "".join(letter if letter.isprintable() else "?" for letter in text)
        width = shutil.get_terminal_size().columns - 1
        self._out.write("\r\x1b[K" + (shown if len(shown) <= width else shown[: width - 1] + "…"))
        self._out.flush()

    def close(self) -> None:
        """Take the line away."""
        self._out.write("\r\x1b[K")
        self._out.flush()


class Cell:
    """Rewrites one output of a notebook."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, online: int, total: int, waiting: list[File]) -> None:
        """Show the state."""
        lines = describe(online, total, waiting)
        more = len(lines) - 1 - _REASONS_MAX
        shown = lines[: _REASONS_MAX + 1] + ([f"and {more} more reasons"] if more > 0 else [])
        self._show("<br>".join(map(html.escape, shown)))

    def close(self) -> None:
        """Empty the output."""
        self._show("")

    def _show(self, text: str) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))
