"""The progress line, on a clock of its own."""

from __future__ import annotations

import io

from backplane._progress import ProgressLine, callback, describe


def test_lines() -> None:
    assert describe(20_000_000, 20_000_000, 4.0) == "20.0 M of 20.0 M entries (100 %), 5.0 M/s"
    assert describe(0, 0, 0.0) == "0 of 0 entries (100 %)"


def test_the_line_is_rewritten_at_most_ten_times_a_second() -> None:
    now = [0.0]
    out = io.StringIO()
    line = ProgressLine(out, lambda: now[0])
    for step in range(101):
        now[0] = step / 100
        line(step, 100)
    shown = out.getvalue().split("\r\x1b[K")[1:]
    assert 10 <= len(shown) <= 12
    assert shown[-1] == "100 of 100 entries (100 %), 100/s\n"


def test_a_pass_that_is_over_at_once_shows_nothing() -> None:
    out = io.StringIO()
    ProgressLine(out, lambda: 0.0)(5, 5)
    assert out.getvalue() == ""


def test_who_is_told() -> None:
    def told(_done: int, _total: int) -> None:
        pass

    assert callback(told) is told
    assert isinstance(callback(True), ProgressLine)
    assert callback(False) is None
