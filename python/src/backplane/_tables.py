"""What calls answer, as lists and dictionaries that notebooks show as tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

# A notebook with more rows becomes slow, and nobody reads them.
_ROWS_MAX = 100
# Longer texts are cut in a cell; the value itself is whole.
_CELL_CHARACTERS_MAX = 200
_BYTES = frozenset({"size", "bytes", "memory_bytes", "memory_bytes_max", "capacity_bytes", "free_bytes", "held_bytes"})
# Milliseconds since 1970, as the management API has them.
_TIMES = frozenset({"modified", "submitted", "started", "ended", "created", "now"})


class Table(list[dict[str, Any]]):
    """A list of dictionaries; a notebook shows it as a table.

    Parameters
    ----------
    rows : iterable of dict
        The rows.
    columns : sequence of str, optional
        Keys that are shown; all that occur unless given.

    Examples
    --------
    >>> rows = Table([{"name": "a", "size": 2_000_000}], ["name", "size"])
    >>> rows[0]["size"]
    2000000
    >>> "2.0 MB" in rows._repr_html_()
    True
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = (), columns: Sequence[str] = ()) -> None:
        super().__init__(rows)
        self._columns = tuple(columns)

    def _repr_html_(self) -> str:
        shown = self[:_ROWS_MAX]
        columns = list(self._columns) or list(dict.fromkeys(key for row in shown for key in row))
        rows = [[cell_text(row.get(column), column) for column in columns] for row in shown]
        more = len(self) - len(shown)
        return table_html(columns, rows) + (f"<p>and {more} more</p>" if more else "")


class Record(dict[str, Any]):
    """A dictionary; a notebook shows it as a table of two columns."""

    def _repr_html_(self) -> str:
        return record_html(self)


def record_html(fields: Mapping[str, Any]) -> str:
    """Write fields as a table with a row for each.

    Parameters
    ----------
    fields : mapping
        Names and values; what is `None` is left out.

    Returns
    -------
    str
        HTML.
    """
    rows = [[name, cell_text(value, name)] for name, value in fields.items() if value is not None]
    return table_html((), rows)


def table_html(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table.

    Parameters
    ----------
    columns : sequence of str
        Titles; none for a table without.
    rows : iterable of sequence of str
        Texts; names may be anything, so all of them are escaped.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> table_html(["a"], [["<b>"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{html.escape(title)}</th>" for title in columns)
    body = ["".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows]
    lines = [head, *body] if head else body
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def cell_text(value: Any, name: str = "") -> str:
    """Write a value for people.

    Parameters
    ----------
    value : object
        Of a reply.
    name : str, optional
        What it is called, which says whether a number is bytes or a time.

    Returns
    -------
    str
        Short.

    Examples
    --------
    >>> cell_text(1_234_567, "size")
    '1.2 MB'
    >>> cell_text(0, "modified")
    '1970-01-01 00:00:00Z'
    >>> cell_text(["a", "b"]), cell_text(None)
    ('a, b', '')
    """
    if value is None:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and name in _BYTES:
        return human_bytes(value)
    if is_number and name in _TIMES:
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {cell_text(inner, key)}" for key, inner in value.items())
    elif isinstance(value, list | tuple):
        text = ", ".join(cell_text(inner) for inner in value[:_ROWS_MAX])
    else:
        text = str(value)
    return text if len(text) <= _CELL_CHARACTERS_MAX else text[: _CELL_CHARACTERS_MAX - 1] + "…"


def human_bytes(count: float) -> str:
    """Write a number of bytes with a decimal unit.

    Parameters
    ----------
    count : float
        Bytes.

    Returns
    -------
    str
        Such as ``1.2 MB``.

    Examples
    --------
    >>> [human_bytes(count) for count in (0, 999, 1000, 2_500_000_000)]
    ['0 B', '999 B', '1.0 kB', '2.5 GB']
    """
    for size, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"
