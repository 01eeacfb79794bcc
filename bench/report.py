"""Tables that fit 110 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .results import Measured, Result, Verdict, verdicts

MISSING = "-"
WIDTH = 110

Table = list[list[str]]


def number(value: float | None, digits: int = 3) -> str:
    """Write a figure with so many significant digits, never with an exponent."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}".replace(",", " ")
    text = f"{value:.{digits}g}"
    return f"{value:.9f}".rstrip("0").rstrip(".") if "e" in text else text


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Write a table of Markdown whose columns line up; the first `left` columns are text."""
    body = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in body) for column in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * width if column < left else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join([line(body[0]), line(rule), *map(line, body[1:])])


def markdown(results: list[Result], document: dict[str, Any]) -> str:
    """Write the whole report."""
    machine, stated = document["machine"], document["options"]
    parts = [
        "# Remote file I/O, measured",
        f"{stated['date'][:16]}. Medians of {stated['runs']} runs, systems in turn; file of {stated['size_mib']} MiB.",
        "Server and client CPU: processor time of the whole process tree, user and kernel. Spread: half the distance\n"
        "between the fastest and the slowest run. Everything is on loopback: both ends share the processors.\n"
        "p99 first: time from a reader's first request to its first byte; RSS: largest memory of the server.",
        "## Machine",
        table(["", ""], [[key, str(value)] for key, value in machine.items()], left=2),
        "## Targets",
        _targets(verdicts(results)),
    ]
    parts += _groups(results)
    parts += ["## Commands", _commands(results), "## Versions"]
    parts.append(table(["", ""], [[key, str(value)] for key, value in document["versions"].items()], left=2))
    return "\n\n".join(parts) + "\n"


def _targets(judged: list[Verdict]) -> str:
    rows = [
        [
            verdict.target.text,
            f"{'≥' if verdict.target.is_floor else '≤'} {verdict.target.bound:g}",
            number(verdict.measured),
            verdict.word,
        ]
        for verdict in judged
    ]
    return table(["target", "bound", "measured", ""], rows)


def _groups(results: list[Result]) -> Iterable[str]:
    """One table for each case with its own contenders; one for each family of cases."""
    families: dict[str, list[Result]] = {}
    for result in results:
        families.setdefault(_family(result.case.name), []).append(result)
    titles = {
        "small": "Small operations: so many requests in flight (deep), raw load generator",
        "block": "Block size: one sequential reader, 8 reads in flight, raw load generator",
        "streams": "Streams: sequential readers of 1 MiB blocks, raw load generator",
        "disk": "A real disk with nothing cached, readers of 1 MiB blocks, raw load generator",
    }
    for family, members in families.items():
        if family in titles:
            yield f"## {titles[family]}\n\n{_family_table(family, members)}"
        else:
            (result,) = members
            yield f"## {result.case.title}\n\n{_transfer_table(result)}"


def _family(name: str) -> str:
    head = name.partition(".")[0]
    return "small" if head in ("random", "readv", "stat", "open") else head


def _transfer_table(result: Result) -> str:
    header = ["client and server", "integrity", "GB/s", "spread", "ratio", "server s/GB", "client s/GB"]
    rows = []
    for one in result.measured:
        if not one.samples:
            rows.append([one.label, reason(one)[:13], MISSING, MISSING, MISSING, MISSING, MISSING])
            continue
        rate, server, client = (one.median(metric, "bytes") for metric in ("rate", "server_cpu", "client_cpu"))
        rows.append(
            [
                one.label,
                one.note[:13],
                number(rate and rate / 1e9),
                percent(one.spread("bytes")),
                number(result.ratio(one)),
                number(server and server * 1e9),
                number(client and client * 1e9),
            ]
        )
    reference = result.find(result.case.reference)
    return (
        table(header, rows, left=2)
        + f"\n\nRatio: rate against {reference.label if reference else result.case.reference}."
    )


def _family_table(family: str, members: list[Result]) -> str:
    if family == "small":
        header = ["", "server", "ops/s", "spread", "ratio", "server µs", "client µs", "p50 µs", "p99 µs"]
    else:
        header = [
            "",
            "server",
            "GB/s",
            "spread",
            "ratio",
            "server s/GB",
            "client s/GB",
            "p99 first ms",
            "RSS MiB",
            "own MiB",
        ]
    rows = []
    for result in members:
        for index, one in enumerate(result.measured):
            title = _short_title(result) if index == 0 else ""
            if one.samples:
                cells = _small_cells(one) if family == "small" else _stream_cells(one)
                rows.append([title, one.label, *cells[:2], number(result.ratio(one)), *cells[2:]])
            else:
                rows.append([title, one.label, reason(one)[:20], *[MISSING] * (len(header) - 3)])
    return table(header, rows, left=2)


def _short_title(result: Result) -> str:
    head, _, tail = result.case.name.partition(".")
    return tail if head in ("block", "streams", "disk") else result.case.title


def _small_cells(one: Measured) -> list[str]:
    unit = "operations"
    server, client = one.median("server_cpu", unit), one.median("client_cpu", unit)
    return [
        number(one.median("rate", unit)),
        percent(one.spread(unit)),
        number(server and server * 1e6),
        number(client and client * 1e6),
        number(one.quantile_us("latency_us", "p50")),
        number(one.quantile_us("latency_us", "p99")),
    ]


def _stream_cells(one: Measured) -> list[str]:
    unit = "bytes"
    rate, server, client = (one.median(metric, unit) for metric in ("rate", "server_cpu", "client_cpu"))
    first = one.quantile_us("first_byte_us", "p99")
    return [
        number(rate and rate / 1e9),
        percent(one.spread(unit)),
        number(server and server * 1e9),
        number(client and client * 1e9),
        number(first and first / 1e3),
        number(one.median("resident_mib", unit)),
        number(one.median("own_mib", unit)),
    ]


def percent(value: float | None) -> str:
    """Write a relative spread."""
    return MISSING if value is None else f"±{value * 100:.0f} %"


def reason(one: Measured) -> str:
    """Say why there is no figure."""
    return one.missing_word if one.missing else f"failed: {one.failed}"


def _commands(results: list[Result]) -> str:
    """Show the exact command of every contender, and why one is missing."""
    lines = []
    for result in results:
        for one in result.measured:
            said = one.command if one.command else f"not run: {one.missing}"
            said += f"\n    failed: {one.failed}" if one.failed else ""
            lines.append(f"{result.case.name:14} {one.name}\n    {said}")
    return "```\n" + "\n".join(lines) + "\n```"
