"""Fills a histogram over a chain of Parquet n-tuples: ``histogram.py PATTERN EXPRESSION [--cut CUT] [--bins N]``.

BP_FACILITY names the facility. Files that are on tape only are recalled first.
"""

from __future__ import annotations

import argparse

import backplane


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", help="files of the facility, as /data/run*.parquet")
    parser.add_argument("expression", help="a column or an expression of columns, as 'sqrt(px**2 + py**2)'")
    parser.add_argument("--cut", help="count only entries for which this holds")
    parser.add_argument("--bins", type=int, default=10)
    parser.add_argument("--range", type=float, nargs=2, default=(0.0, 100.0), metavar=("FROM", "TO"))
    args = parser.parse_args()
    chain = backplane.connect().ntuple(args.pattern).define("x", args.expression)
    histogram = chain.hist("x", bins=args.bins, range=tuple(args.range), where=args.cut)
    edges, counts = histogram.axes[0].edges, histogram.values()
    scale = 50 / max(counts.max(), 1)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        print(f"{low:8.2f} {high:8.2f} {int(count):8d} {'#' * int(count * scale)}")


if __name__ == "__main__":
    main()
