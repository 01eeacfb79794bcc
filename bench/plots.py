"""The two plots: rate and processor time against block size, and against streams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from .results import Measured, Result

COLOURS = {
    "backplane": "#1d4ed8",
    "xrootd6": "#d97706",
    "xrootd5": "#a8a29e",
    "backplane-disk": "#1d4ed8",
    "backplane-direct": "#7c3aed",
    "xrootd6-disk": "#d97706",
}
"""A system has the same colour everywhere."""
INK, FAINT = "#1f2937", "#e5e7eb"
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20}
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9ca3af",
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
}


@dataclass
class Line:
    """One system: points with the range over runs."""

    server: str
    label: str
    x: list[float]
    rate: list[tuple[float, float, float]]
    cpu: list[tuple[float, float, float]]


def draw(results: list[Result], stem: Path, footnote: str) -> list[Path]:
    """Draw what there is enough of; each plot as SVG and PNG."""
    made: list[Path] = []
    blocks, streams = _lines(results, "block"), _lines(results, "streams")
    with mpl.rc_context(STYLE):
        if blocks:
            ticks = blocks[0].x
            figure = _figure(blocks, ticks, [_size_text(size) for size in ticks], "block size")
            made += _save(
                figure, stem.with_name(f"{stem.name}-block"), "One sequential reader, 8 reads in flight", footnote
            )
        if streams:
            ticks = streams[0].x
            figure = _figure(
                streams, ticks, [f"{count:g}" for count in ticks], "sequential readers, 1 MiB blocks, 2 in flight each"
            )
            made += _save(figure, stem.with_name(f"{stem.name}-streams"), "Many readers at the same time", footnote)
    return made


def _lines(results: list[Result], family: str) -> list[Line]:
    """Collect the lines of a family of cases; a line needs two points."""
    lines: dict[str, Line] = {}
    for result in results:
        head, _, tail = result.case.name.partition(".")
        if head != family:
            continue
        for one in result.measured:
            if one.samples:
                server = one.name.partition(">")[2]
                line = lines.setdefault(server, Line(server, one.label, [], [], []))
                line.x.append(_number(tail))
                line.rate.append(_range(one, "rate", 1e-9))
                line.cpu.append(_range(one, "server_cpu", 1e9))
    return [line for line in lines.values() if len(line.x) > 1]


def _range(one: Measured, metric: str, scale: float) -> tuple[float, float, float]:
    values = one.values("rate" if metric == "rate" else "server_cpu", "bytes")
    middle = one.median("rate" if metric == "rate" else "server_cpu", "bytes") or 0.0
    return min(values) * scale, middle * scale, max(values) * scale


def _number(tail: str) -> float:
    unit = tail[-3:]
    return float(tail[:-3]) * SIZES[unit] if unit in SIZES else float(tail)


def _size_text(size: float) -> str:
    return f"{size / SIZES['MiB']:g} MiB" if size >= SIZES["MiB"] else f"{size / SIZES['KiB']:g} KiB"


def _figure(lines: list[Line], ticks: list[float], names: list[str], x_label: str) -> Figure:
    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 7.8), sharex=True, gridspec_kw={"hspace": 0.24})
    _panel(above, lines, "rate", "Rate, GB/s: higher is better")
    _panel(below, lines, "cpu", "Server processor time, s/GB: lower is better")
    below.set_xscale("log", base=2)
    below.xaxis.set_major_locator(FixedLocator(ticks))
    below.xaxis.set_minor_locator(NullLocator())
    below.set_xticks(ticks, names)
    below.set_xlim(ticks[0] / 1.12, ticks[-1] * 1.06)
    below.set_xlabel(x_label, labelpad=8)
    return figure


def _panel(axes: Axes, lines: list[Line], which: str, title: str) -> None:
    """Draw one quantity: medians as a line, the range over runs as a band, the name at the end of the line."""
    ends = []
    for line in lines:
        points = line.rate if which == "rate" else line.cpu
        low, middle, high = zip(*points, strict=True)
        colour = COLOURS.get(line.server, INK)
        axes.fill_between(line.x, low, high, color=colour, alpha=0.13, lw=0)
        axes.plot(line.x, middle, color=colour, lw=2.2, marker="o", ms=4.5, mec="white", mew=0.8, clip_on=False)
        ends.append((middle[-1], line.label, colour))
    axes.set_yscale("log")
    axes.set_title(title, loc="left", fontsize=10.5, pad=10)
    _ticks_of_1_2_5(axes)
    axes.grid(axis="y", color=FAINT, lw=0.9)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    _label_ends(axes, ends)


def _ticks_of_1_2_5(axes: Axes) -> None:
    """Put ticks at 1, 2, 5 and their decades; the frame ends at the first ones outside the data."""
    low, high = axes.dataLim.intervaly
    steps = [mantissa * 10.0**power for power in range(-4, 5) for mantissa in (1, 2, 5)]
    floor = max((step for step in steps if step <= low), default=steps[0])
    ceiling = min((step for step in steps if step >= high), default=steps[-1])
    axes.yaxis.set_major_locator(FixedLocator([step for step in steps if floor <= step <= ceiling]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(floor, ceiling)


def _label_ends(axes: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Write names beside the last points, pushed apart until none covers another."""
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = sorted((float(to_axes.transform((1, value))[1]), name, colour) for value, name, colour in ends)
    for place, (_, name, colour) in zip(_apart([place for place, _, _ in wanted]), wanted, strict=True):
        axes.annotate(
            name,
            (1, place),
            xycoords="axes fraction",
            xytext=(12, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontweight="bold",
            fontsize=9.5,
            annotation_clip=False,
        )


def _apart(places: list[float], gap: float = 0.08) -> list[float]:
    """Move sorted places as little as makes them `gap` apart: neighbours that collide share the move."""
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _spread(groups[-1], gap)[0] - _spread(groups[-2], gap)[-1] < gap:
            last = groups.pop()
            groups[-1] += last
    return [place for group in groups for place in _spread(group, gap)]


def _spread(group: list[float], gap: float) -> list[float]:
    """Place a group evenly around its middle."""
    middle = sum(group) / len(group)
    return [middle + (index - (len(group) - 1) / 2) * gap for index in range(len(group))]


def _save(figure: Figure, stem: Path, title: str, footnote: str) -> list[Path]:
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold", y=0.985)
    figure.text(0.02, 0.012, footnote, fontsize=8, color="#6b7280", va="bottom", linespacing=1.4)
    figure.subplots_adjust(left=0.085, right=0.83, top=0.885, bottom=0.135)
    made = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]
    for file in made:
        figure.savefig(file, dpi=150)
    plt.close(figure)
    return made
