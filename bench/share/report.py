"""Tables and plots of what mounts do."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from ..plots import FAINT, INK, STYLE
from ..report import number, table

Results = dict[str, dict[str, dict[str, float]]]
"""Medians: case, system, figure."""

LABELS = {"local": "local", "backplane": "Backplane", "glusterfs": "GlusterFS"}
COLOURS = {"local": "#9ca3af", "backplane": "#1d4ed8", "glusterfs": "#d97706"}
MB = 1e6

GOALS = {
    ("tree", "total"): "≤ 4",
    ("tree", "worst"): "≤ 20",
    ("git", "git clone"): "≤ 3",
    ("metadata", "create"): "≥ 6 000 /s",
    ("metadata", "stat"): "≥ 300 000 /s",
    ("locks", "lock and unlock"): "≤ 150 µs",
    ("locks", "hand-over"): "≤ 2 000 µs",
}
"""What has been set out; a bare number is a ratio to the first system."""


def report(results: Results, machine: Mapping[str, str], runs: int) -> str:
    """Write all tables."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    parts = [
        "# The shared file system, measured",
        f"{today}. Medians of {runs} runs, systems in turn, all on one disk and one host with two mounts.\n"
        "A ratio is to the local file system; of seconds less is better, of rates more.",
        "## Machine",
        table(["", ""], [[key, value] for key, value in machine.items()], left=2),
    ]
    titles = {
        "tree": ("Small files: unpacked by one mount, read by the other, seconds", 1.0),
        "git": ("A repository, seconds", 1.0),
        "metadata": ("Small files, 4 threads of one mount, operations a second", 1.0),
        "locks": ("Locks, microseconds", 1.0),
    }
    for name, (title, scale) in titles.items():
        if name in results:
            parts += [f"## {title}", _table(name, with_sums(name, results[name]), scale)]
    parts += _families(results)
    return "\n\n".join(parts) + "\n"


def with_sums(name: str, systems: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Add the total of all phases."""
    if name != "tree":
        return systems
    return {system: {**figures, "total": sum(figures.values())} for system, figures in systems.items()}


def _table(name: str, systems: dict[str, dict[str, float]], scale: float) -> str:
    base = next(iter(systems.values()))
    header = [""]
    for index, system in enumerate(systems):
        header += [LABELS[system]] if index == 0 else [LABELS[system], "ratio"]
    rows = []
    for figure in base:
        row = [figure]
        for index, figures in enumerate(systems.values()):
            row.append(number(figures[figure] * scale))
            if index > 0:
                row.append(number(figures[figure] / base[figure]))
        rows.append([*row, GOALS.get((name, figure), "")])
    if name == "tree":
        rows.append(_worst(systems))
    return table([*header, "set out"], rows)


def _worst(systems: dict[str, dict[str, float]]) -> list[str]:
    """Find the worst phase of each system."""
    base = next(iter(systems.values()))
    row = ["worst phase", ""]
    for figures in list(systems.values())[1:]:
        ratios = {phase: figures[phase] / base[phase] for phase in base}
        worst = max(ratios, key=lambda phase: ratios[phase])
        row += [worst, number(ratios[worst])]
    return [*row, GOALS["tree", "worst"]]


def _families(results: Results) -> list[str]:
    """One table for each way to move blocks, one for producers."""
    parts = []
    for way in ("buffered", "direct", "locked"):
        mine = {name: found for name, found in results.items() if name.startswith(f"blocks.{way}.")}
        if mine:
            parts += [f"## Blocks, {way}: MB/s of one writer, then one reader", _lines(mine, "block", block_text)]
    mine = {name: found for name, found in results.items() if name.startswith("producer.")}
    if mine:
        parts += ["## A file that grows: MB/s of each consumer", _lines(mine, "consumers", str)]
    return parts


def _lines(family: Results, what: str, text: object) -> str:
    assert callable(text)
    first = next(iter(family.values()))
    columns = [(system, figure) for system, figures in first.items() for figure in figures]
    header = [what, *(f"{LABELS[system]} {figure}" for system, figure in columns)]
    rows = [
        [text(name.rpartition(".")[2]), *(number(found[system][figure] / MB) for system, figure in columns)]
        for name, found in family.items()
    ]
    return table(header, rows)


def block_text(size: str) -> str:
    """Write a number of bytes with its unit."""
    count = int(size)
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def draw(results: Results, stem: Path) -> list[Path]:
    """Draw rate against block size, and producers; each plot as SVG and PNG."""
    made: list[Path] = []
    with mpl.rc_context(STYLE):
        for way in ("buffered", "direct", "locked"):
            family = {name: found for name, found in results.items() if name.startswith(f"blocks.{way}.")}
            if len(family) > 1:
                made += _draw(family, stem.with_name(f"{stem.name}-{way}"), f"One mount, {way}", "block size")
        family = {name: found for name, found in results.items() if name.startswith("producer.")}
        if len(family) > 1:
            made += _draw(
                family, stem.with_name(f"{stem.name}-producer"), "Consumers of a file that grows", "consumers"
            )
    return made


def _draw(family: Results, stem: Path, title: str, x_label: str) -> list[Path]:
    names = list(family)
    first = next(iter(family.values()))
    figures = list(next(iter(first.values())))
    texts = [name.rpartition(".")[2] for name in names]
    texts = [block_text(text) for text in texts] if x_label == "block size" else texts
    figure, panels = plt.subplots(1, len(figures), figsize=(10, 4.2), sharey=True)
    for axes, what in zip(panels, figures, strict=True):
        _panel(axes, [{system: found[system][what] for system in first} for found in family.values()], texts)
        axes.set_title(f"{what}, MB/s: higher is better", loc="left", fontsize=10.5)
        axes.set_xlabel(x_label)
    panels[0].legend(frameon=False)
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold")
    figure.tight_layout()
    made = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]
    for file in made:
        figure.savefig(file, dpi=150)
    plt.close(figure)
    return made


def _panel(axes: Axes, points: list[dict[str, float]], texts: list[str]) -> None:
    for system in points[0]:
        rates = [point[system] / MB for point in points]
        axes.plot(texts, rates, color=COLOURS.get(system, INK), lw=2.2, marker="o", ms=4.5, label=LABELS[system])
    axes.set_yscale("log")
    axes.grid(axis="y", color=FAINT, lw=0.9)
    axes.tick_params(length=0, pad=6)
    axes.tick_params(axis="x", rotation=35)
