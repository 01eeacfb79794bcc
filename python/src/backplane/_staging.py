"""Files that are staged, as futures: whoever waits is told of each when it is on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ._errors import BackplaneError, TimeoutExpiredError, UnavailableError, failure

# Paths of one call: it stays far below the longest one that is taken.
_PART_LEN = 1000
# One wait for any of the files.
_WAIT_S = 30.0
# Pause after a call that failed: the head may be starting again.
_PAUSE_S = 1.0
# How long the head may be away before those who wait are told.
_AWAY_S = 3600.0

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
    """Wait until the last file is there."""
    away_since: float | None = None
    while waiting := [(path, future) for path, future in waiting if not future.cancelled()]:
        first, later = waiting[:_PART_LEN], waiting[_PART_LEN:]
        body = {"paths": [path for path, _ in first], "want": "online"}
        try:
            files = call("await_any", body, wait_s=_WAIT_S)["files"]
        except (UnavailableError, TimeoutExpiredError) as error:
            away_since = time.monotonic() if away_since is None else away_since
            if time.monotonic() - away_since > _AWAY_S:
                _give_up(waiting, error)
                return
            time.sleep(_PAUSE_S)
        except BackplaneError as error:
            _give_up(waiting, error)
            return
        else:
            away_since = None
            waiting = later + _settle(first, files)


def _give_up(waiting: _Waiting, error: BackplaneError) -> None:
    for _, future in waiting:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
