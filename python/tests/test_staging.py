"""Futures of staged files: each is told alone, and waiting survives a head that is away."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

import pytest

import backplane
from backplane import _staging
from backplane._staging import stage_futures

File = dict[str, Any]


def nearline(path: str) -> File:
    return {"path": path, "state": "nearline", "waits": "volume BP0001"}


class Head:
    """Answers what a test has laid out."""

    def __init__(self, turns: list[dict[str, File] | Exception]) -> None:
        self.turns = turns
        self.go_on = threading.Event()

    def __call__(self, name: str, body: dict[str, Any], *, wait_s: float = 0.0) -> dict[str, list[File]]:
        if name == "await_any":
            assert wait_s > 0
            assert self.go_on.wait(30)
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return {"files": [turn.get(path, nearline(path)) for path in body["paths"]]}


def test_each_file_is_told_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_staging, "_PAUSE_S", 0.0)
    missing = {"path": "/m", "failure": {"kind": "not_found", "what": "/m does not exist"}}
    gone = backplane.UnavailableError("the head is starting")
    both = {path: {"path": path, "state": "both"} for path in ("/a", "/b", "/c")}
    head = Head([{"/m": missing, "/c": both["/c"]}, gone, {"/b": both["/b"]}, {"/a": both["/a"]}])
    futures = stage_futures(head, ["/a", "/b", "/m", "/c", "/x"], None)
    assert futures["/c"].result(0) == "/c"
    assert isinstance(futures["/m"].exception(0), backplane.NotFoundError)
    assert futures["/x"].cancel()
    head.go_on.set()
    assert [futures[path].result(30) for path in ("/b", "/a")] == ["/b", "/a"]


def test_a_failure_of_the_call_is_that_of_all() -> None:
    head = Head([{}, backplane.InvalidError("no")])
    futures = stage_futures(head, ["/a", "/b"], 5)
    head.go_on.set()
    for future in futures.values():
        assert isinstance(future.exception(30), backplane.InvalidError)


def test_what_nobody_expected_is_told_to_all() -> None:
    head = Head([{}, RuntimeError("a bug")])
    futures = stage_futures(head, ["/a", "/b"], None)
    head.go_on.set()
    for future in futures.values():
        with pytest.raises(RuntimeError, match="a bug"):
            future.result(30)


def test_a_cancelled_future_keeps_nobody_waiting() -> None:
    head = Head([{}, {"/b": {"path": "/b", "state": "both"}}])
    futures = stage_futures(head, ["/a", "/b"], None)
    assert futures["/a"].cancel()
    head.go_on.set()
    assert not concurrent.futures.wait(futures.values(), timeout=30).not_done
