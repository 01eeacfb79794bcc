"""Selects good muon pairs from several n-tuples and writes them as one.

A batch job runs it in its scratch directory, where its inputs lie: ``select_muons.py OUTPUT INPUT...``.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PT_MIN = 20.0
ETA_MAX = 2.4


def is_good(table: pa.Table) -> pa.ChunkedArray:
    """Tell whether both muons are inside the detector, with opposite charges."""
    keep = pc.equal(pc.add(table["q1"], table["q2"]), 0)
    for place in (1, 2):
        keep = pc.and_(keep, pc.greater(table[f"pt{place}"], PT_MIN))
        keep = pc.and_(keep, pc.less(pc.abs(table[f"eta{place}"]), ETA_MAX))
    return keep


def main() -> None:
    """Entry point of the job."""
    output, inputs = sys.argv[1], sys.argv[2:]
    tables = [pq.read_table(name) for name in inputs]
    events = pa.concat_tables(tables)
    good = events.filter(is_good(events))
    pq.write_table(good, output, compression="zstd")
    print(f"{good.num_rows} of {events.num_rows} events from {len(inputs)} files in {output}")


if __name__ == "__main__":
    main()
