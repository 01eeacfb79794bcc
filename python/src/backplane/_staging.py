"""Files that are staged, as futures: whoever waits is told of each when it is on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ._calls import Away, fail
from ._errors import failure

# Paths of one call: it stays far below the longest one that is taken.
_PART_LEN = 1000
# One wait for any of the files.
_WAIT_S = 30.0
# Pause after a call that failed: the head may be starting again.
_PAUSE_S = 1.0

_Waiting = list[tuple[str, "Future[str]"]]


def stage_futures(call: Callable[..., Any], paths: Sequence[str], pin: int | None) -> dict[str, Future[str]]:
    """Ask for disk replicas; the future of each path is done when its file is on disk, or cannot come there.

    Parameters
    ----------
    call : callable
        Makes a call of the management API.
    paths : sequence of str
        Absolute paths.
    pin : int, optional
        How long the replicas are kept, in milliseconds.

    Returns
    -------
    dict of str to Future
        By path; the result is the path.
    """
    futures: dict[str, Future[str]] = {path: Future() for path in paths}
    waiting, names = [], list(futures)
    # All of them before the first is waited for: the tape room then reads each volume once, in the order of the tape.
    for begin in range(0, len(names), _PART_LEN):
        part = names[begin : begin + _PART_LEN]
        asked = [(path, futures[path]) for path in part]
        waiting += _settle(asked, call("stage", {"paths": part, "pin": pin})["files"])
    if waiting:
        threading.Thread(target=_follow, args=(call, waiting), name="backplane-stage", daemon=True).start()
    return futures


def _settle(asked: _Waiting, files: Sequence[dict[str, Any]]) -> _Waiting:
    """Tell those who wait for files that are there, or cannot be; the others wait on."""
    waiting = []
    for (path, future), file in zip(asked, files, strict=True):
        refused = file.get("failure")
        if file.get("waits"):
            waiting.append((path, future))
        elif not future.set_running_or_notify_cancel():
            continue
        elif refused:
            future.set_exception(failure(refused["kind"], refused["what"], refused.get("hint")))
        else:
            future.set_result(path)
    return waiting


def _follow(call: Callable[..., Any], waiting: _Waiting) -> None:
    """Wait until the last file is there. Whatever ends this thread is told to those who still wait."""
    away = Away()
    try:
        while waiting := [(path, future) for path, future in waiting if _is_wanted(future)]:
            first, later = waiting[:_PART_LEN], waiting[_PART_LEN:]
            body = {"paths": [path for path, _ in first], "want": "online"}
            try:
                files = call("await_any", body, wait_s=_WAIT_S)["files"]
            except Away.ERRORS:
                if away.is_too_long():
                    raise
                time.sleep(_PAUSE_S)
                continue
            away.is_back()
            waiting = later + _settle(first, files)
    except BaseException as error:
        for _, future in waiting:
            fail(future, error)


def _is_wanted(future: Future[str]) -> bool:
    # Others may wait for it beside us: they are told of a cancelled one here only.
    return not future.cancelled() or future.set_running_or_notify_cancel()
