"""Chains of files on tape: all are asked for before the first is waited for, and people see why."""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import backplane
from backplane._calls import News
from backplane._waiting import Cell, Line, bring_online

File = dict[str, Any]


def nearline(path: str, why: str = "volume BP0001") -> File:
    return {"path": path, "state": "nearline", "waits": why}


class Head:
    """Answers what a test has laid out, and remembers what it was asked."""

    def __init__(self, staged: Callable[[str], File], turns: list[set[str]]) -> None:
        self.staged = staged
        self.turns = turns
        self.calls: list[tuple[str, list[str]]] = []

    def __call__(
        self, name: str, body: dict[str, Any], *, wait_s: float = 0.0, news: News | None = None
    ) -> dict[str, list[File]]:
        # Who watches is told of every change, at least every few seconds.
        assert name == "stage" or (wait_s > 5) == (news is None)
        paths = body["paths"]
        self.calls.append((name, paths))
        if name == "stage":
            return {"files": [self.staged(path) for path in paths]}
        online = self.turns.pop(0)
        return {"files": [{"path": path, "state": "both"} if path in online else nearline(path) for path in paths]}


def test_all_files_are_staged_before_one_is_waited_for() -> None:
    paths = [f"/d/{number}" for number in range(2500)]
    head = Head(nearline, [set(paths[:1000]), {paths[1000]}, set(paths), set(paths)])
    told: list[tuple[int, int, int]] = []
    bring_online(head, paths, lambda online, total, waiting: told.append((online, total, len(waiting))))
    assert [name for name, _ in head.calls] == ["stage"] * 3 + ["await_any"] * 4
    assert [path for name, called in head.calls if name == "stage" for path in called] == paths
    assert told == [(0, 2500, 2500), (1000, 2500, 1500), (1001, 2500, 1499), (2001, 2500, 499)]
    assert max(len(called) for _, called in head.calls) <= 1000


def test_nobody_waits_for_what_is_online() -> None:
    head = Head(lambda path: {"path": path, "state": "online"}, [])
    bring_online(head, ["/a", "/b"], True)
    assert [name for name, _ in head.calls] == ["stage"]
    bring_online(head, [], True)
    assert len(head.calls) == 1


def test_a_file_that_cannot_come_is_named() -> None:
    def staged(path: str) -> File:
        return {"path": path, "failure": {"kind": "not_found", "what": f"{path} does not exist"}}

    with pytest.raises(FileNotFoundError, match="/gone does not exist"):
        bring_online(Head(staged, []), ["/gone"])


def test_who_may_read_but_not_stage_opens_the_files() -> None:
    def staged(path: str) -> File:
        return {"path": path, "failure": {"kind": "permission", "what": "no"}}

    head = Head(staged, [])
    bring_online(head, ["/a"])
    assert [name for name, _ in head.calls] == ["stage"]


def test_a_token_for_files_alone_is_enough() -> None:
    def refuse(name: str, body: dict[str, Any], *, wait_s: float = 0.0) -> dict[str, list[File]]:
        raise backplane.PermissionDeniedError(f"{name} of {len(body)} for {wait_s}: tokens of jobs are for files only")

    bring_online(refuse, ["/a"])


def test_a_terminal_is_shown_one_line_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = io.StringIO()
    line = Line(out)
    line(1, 3, [nearline("/d/a\x1b[2J"), nearline("/d/b")])
    line.close()
    shown = out.getvalue().split("\r\x1b[K")
    assert shown == ["", "1 of 3 files online; /d/a?[2J and 1 more: volume BP0001", ""]
    line(1, 3, [nearline("/d/" + "x" * 100)])
    assert len(out.getvalue().rsplit("\x1b[K", 1)[1]) == 59


def test_a_notebook_is_shown_one_output_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, text: str) -> None:
            shown.append(text)

    def display(text: str, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(text)
        return Handle()

    module = types.ModuleType("IPython.display")
    module.__dict__.update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    cell = Cell()
    cell(0, 12, [nearline(f"/d/<{number}>", f"reason {number:02}") for number in range(12)])
    cell.close()
    assert shown[0].startswith("0 of 12 files online<br>/d/&lt;0&gt;: reason 00<br>")
    assert shown[0].endswith("<br>and 4 more reasons")
    assert shown[1] == ""


def test_a_chain_on_tape_comes_back(live: backplane.Facility, folder: Path) -> None:
    paths = [live.put(file, "/chain/") for file in sorted(folder.glob("run*.parquet"))]
    live.archive(paths, wait_s=60)
    live.evict(paths)
    told: list[list[File]] = []
    events = live.ntuple("/chain/run*.parquet", progress=lambda *state: told.append(state[2]))
    assert events.entries == 15000
    assert [file["path"] for file in told[0]] == paths
    assert all(file["waits"] for file in told[0])
    count = len(told)
    live.ntuple("/chain/run*.parquet", progress=lambda *_: told.append([]))
    assert len(told) == count, "nothing is told of files that are online"
