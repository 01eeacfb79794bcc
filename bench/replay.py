"""Replays a trace of jobs, beside first-come order and classic fair share: ``make bench-replay``.

The trace is in the standard workload format of the Parallel Workloads Archive, which has many of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from .plots import FAINT, INK, STYLE

SCHEDULERS = {
    "backplane": ("Backplane", "#1d4ed8"),
    "classic": ("classic fair share, every 5 min", "#d97706"),
    "fifo": ("first come, first served", "#a8a29e"),
}
"""Their names in the result, in words, and their colours."""


def measure(program: Path, trace: Path) -> Any:
    """Replay a trace, packed or not; yields what the program says."""
    with tempfile.TemporaryDirectory() as directory:
        plain, result = Path(directory) / "trace.swf", Path(directory) / "result.json"
        plain.write_bytes(gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes())
        subprocess.run([program, plain, result], check=True)
        return json.loads(result.read_text())


def table(result: Any) -> str:
    """Figures as a table in Markdown."""
    rows = {
        "mean wait, h": lambda figures: f"{figures['wait_mean'] / 3600:.2f}",
        "wait of nine jobs in ten, h": lambda figures: f"{figures['wait_p90'] / 3600:.2f}",
        "wait of 99 in 100, h": lambda figures: f"{figures['wait_p99'] / 3600:.2f}",
        "mean wait of a user, median of users, h": lambda figures: f"{figures['user_wait_p50'] / 3600:.2f}",
        "mean wait of a user, nine in ten users, h": lambda figures: f"{figures['user_wait_p90'] / 3600:.2f}",
        "mean slowdown": lambda figures: f"{figures['slowdown_mean']:.1f}",
        "utilisation": lambda figures: f"{figures['utilisation']:.1%}",
    }
    known = result["schedulers"]
    lines = ["| | " + " | ".join(words for words, _ in SCHEDULERS.values()) + " |", "| --- " * 4 + "|"]
    for what, text in rows.items():
        cells = " | ".join(text(known[name]["figures"]) for name in SCHEDULERS)
        lines.append(f"| {what} | {cells} |")
    seconds = " | ".join(f"{known[name]['seconds']:.2f}" for name in SCHEDULERS)
    return "\n".join([*lines, f"| time of the replay, s | {seconds} |", ""])


def draw(result: Any, stem: Path) -> None:
    """Draw what part of the jobs, and of the users, waits how long."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
        for name, (words, colour) in SCHEDULERS.items():
            figures = result["schedulers"][name]["figures"]
            users = sorted(user["wait_mean"] for user in figures["users"])
            for panel, waits in zip(axes, (figures["waits"], users), strict=True):
                # A minute is as good as nothing, and has a place on the axis.
                hours = [max(wait, 60) / 3600 for wait in waits]
                parts = [index / max(len(hours) - 1, 1) for index in range(len(hours))]
                panel.plot(hours, parts, color=colour, lw=2, label=words)
        for panel, title in zip(axes, ("Part of the jobs", "Part of the users, by their mean"), strict=True):
            panel.set_xscale("log")
            panel.set_title(title, loc="left", fontsize=10.5, color=INK)
            panel.set_xlabel("wait of at most, h")
            panel.grid(color=FAINT, lw=0.9)
        axes[0].legend(frameon=False, fontsize=9, loc="lower right")
        figure.tight_layout()
        for suffix in ("svg", "png"):
            figure.savefig(
                stem.with_suffix(f".{suffix}"), dpi=120, metadata={"Date": None} if suffix == "svg" else None
            )
        plt.close(figure)


def main() -> None:
    """Replay the trace that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="SWF, perhaps packed with gzip")
    parser.add_argument("--program", type=Path, default=Path("target/release/replay"))
    parser.add_argument("--out", type=Path, default=Path("bench/results/replay"), help="files begin with this name")
    words = parser.parse_args()
    result = measure(words.program, words.trace)
    words.out.parent.mkdir(parents=True, exist_ok=True)
    draw(result, words.out)
    about = f"{result['jobs']} jobs on {result['cpus']} processors; {result['left_out']} left out\n\n"
    words.out.with_suffix(".md").write_text(about + table(result))


if __name__ == "__main__":
    main()
