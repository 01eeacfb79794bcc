"""Passes over n-tuples beside hand-written C, DuckDB, Polars and boost-histogram: ``make bench-analysis``.

Every contender computes the same six queries of the same columns, and must find the same entries. Peers that are not
installed are named and left out. ``--quick`` is for tests: it looks whether all works, and its figures mean nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import datetime
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import backplane
from backplane import HistRequest

from .machine import describe
from .report import number, table

CUT = "abs(eta) < 2.4"
CUT_Q = f"{CUT} and q > 0"
TEN = [
    ("px", -50, 50),
    ("py", -50, 50),
    ("e", 0, 200),
    ("phi", -3.2, 3.2),
    ("chi2", 0, 20),
    ("iso", 0, 1),
    ("dxy", -0.05, 0.05),
    ("btag", 0, 1),
    ("met", 0, 200),
    ("ht", 0, 800),
]
QUERIES = {
    "F1": "one histogram of a column",
    "F2": f"the same, where {CUT_Q}",
    "F3": f"sqrt(px*px + py*py), where {CUT_Q}",
    "F4": f"px and py in two dimensions, where {CUT}",
    "F5": "profile of e in eta",
    "F6": f"ten histograms in one pass, where {CUT}",
}
COLUMNS = sorted({"px", "py", "eta", "q"} | {name for name, _, _ in TEN})
STRIDE = 104
# The C loops and SQL compute in 32 bits: at an edge an entry may be in the bin beside.
TOLERANCE = 1e-4
Data = dict[str, np.ndarray[Any, Any]]
Query = Callable[[], float]


@dataclasses.dataclass
class Measured:
    """One query of one contender."""

    system: str
    query: str
    mode: str
    seconds: float
    entries: float


def events(seed: int, rows: int) -> Data:
    """Make entries of a few correlated columns, all of 32-bit floats."""
    rng = np.random.default_rng(seed)
    pt, phi = rng.exponential(12, rows) + 0.5, rng.uniform(-np.pi, np.pi, rows)
    eta = rng.normal(0, 1.6, rows)
    columns = {
        "px": pt * np.cos(phi),
        "py": pt * np.sin(phi),
        "e": pt * np.cosh(eta),
        "eta": eta,
        "phi": phi,
        "q": rng.integers(0, 2, rows) * 2 - 1,
        "chi2": rng.chisquare(4, rows),
        "iso": rng.exponential(0.1, rows),
        "dxy": rng.normal(0, 0.01, rows),
        "btag": rng.beta(0.5, 2, rows),
        "met": rng.exponential(25, rows),
        "ht": rng.gamma(3, 60, rows),
    }
    return {name: np.asarray(values, "f4") for name, values in columns.items()}


def write(directory: Path, rows: int, files: int) -> tuple[list[Path], Data]:
    """Write them as Parquet files; gives the files, and all columns in memory."""
    parts = [events(number, rows // files) for number in range(files)]
    places = [directory / f"flat-{number}.parquet" for number in range(files)]
    for place, part in zip(places, parts, strict=True):
        pq.write_table(pa.table(part), place, compression="zstd", row_group_size=250_000, use_dictionary=False)
    return places, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def limit(data: Data, directory: Path, threads: int) -> dict[str, Query]:
    """Build the C loops."""
    library, source = directory / "limit.so", Path(__file__).with_name("analysis_limit.c")
    flags = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library), "-lm"], check=True)
    loops = ctypes.CDLL(str(library))
    rows = ctypes.c_int64(len(data["px"]))

    def pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    def call(name: str, columns: Iterable[str], size: int, inside: Callable[[Any], float]) -> Query:
        arrays = [pointer(data[column]) for column in columns]

        def run() -> float:
            out = np.zeros(size)
            getattr(loops, name)(*arrays, rows, pointer(out), threads)
            return inside(out)

        return run

    def inside(out: Any) -> float:
        return float(out[1:101].sum())

    ten = (ctypes.c_void_p * len(TEN))(*[data[name].ctypes.data for name, _, _ in TEN])
    edges = np.array([[low, high] for _, low, high in TEN], "f8").T.copy()

    def f6() -> float:
        out = np.zeros(len(TEN) * STRIDE)
        loops.f6(ten, pointer(edges[0]), pointer(edges[1]), pointer(data["eta"]), rows, pointer(out), threads)
        return float(out.reshape(-1, STRIDE)[:, 1:101].sum())

    square = (STRIDE, STRIDE)
    return {
        "F1": call("f1", ["px"], STRIDE, inside),
        "F2": call("f2", ["px", "eta", "q"], STRIDE, inside),
        "F3": call("f3", ["px", "py", "eta", "q"], STRIDE, inside),
        "F4": call("f4", ["px", "py", "eta"], STRIDE**2, lambda out: float(out.reshape(square)[1:101, 1:101].sum())),
        "F5": call("f5", ["eta", "e"], 3 * STRIDE, lambda out: float(out.reshape(-1, 3)[1:101, 0].sum())),
        "F6": f6,
    }


def own(places: list[Path], threads: int) -> dict[str, Query]:
    """Give our own passes."""
    chain = backplane.ntuple(places, threads=threads)
    ten = [HistRequest(name, bins=100, range=(low, high), where=CUT) for name, low, high in TEN]
    narrow = {"bins": 100, "range": (-50, 50)}
    return {
        "F1": lambda: float(chain.hist("px", bins=100, range=(-50, 50)).sum()),
        "F2": lambda: float(chain.hist("px", bins=100, range=(-50, 50), where=CUT_Q).sum()),
        "F3": lambda: float(chain.hist("sqrt(px*px + py*py)", bins=100, range=(0, 100), where=CUT_Q).sum()),
        "F4": lambda: float(chain.hist(("px", "py"), where=CUT, **narrow).sum()),  # type: ignore[arg-type]
        "F5": lambda: float(chain.profile("eta", "e", bins=100, range=(-4, 4)).view()["count"].sum()),
        "F6": lambda: sum(float(one.sum()) for one in chain.hists(ten)),
    }


def boost(data: Data, threads: int) -> dict[str, Query]:
    """Fill boost-histogram from NumPy arrays."""
    import boost_histogram as bh

    def axis(low: float, high: float) -> Any:
        return bh.axis.Regular(100, low, high)

    def count(*columns: tuple[Any, float, float]) -> float:
        filled = bh.Histogram(*(axis(low, high) for _, low, high in columns))
        return float(filled.fill(*(values for values, _, _ in columns), threads=threads).sum())

    def passing() -> Any:
        return np.abs(data["eta"]) < 2.4

    def positive() -> Any:
        return passing() & (data["q"] > 0)

    def f3() -> float:
        keep = positive()
        px, py = data["px"][keep], data["py"][keep]
        return count((np.sqrt(px * px + py * py), 0, 100))

    def f4() -> float:
        keep = passing()
        return count((data["px"][keep], -50, 50), (data["py"][keep], -50, 50))

    def f5() -> float:
        profile = bh.Histogram(axis(-4, 4), storage=bh.storage.Mean())
        return float(profile.fill(data["eta"], sample=data["e"]).view()["count"].sum())

    def f6() -> float:
        keep = passing()
        return sum(count((data[name][keep], low, high)) for name, low, high in TEN)

    return {
        "F1": lambda: count((data["px"], -50, 50)),
        "F2": lambda: count((data["px"][positive()], -50, 50)),
        "F3": f3,
        "F4": f4,
        "F5": f5,
        "F6": f6,
    }


def _within(name: str, low: float, high: float, cut: str = "true") -> str:
    return f"from T where {cut} and {name} >= {low} and {name} < {high} group by 1"


def statements() -> dict[str, str]:
    """Give the queries as SQL: a count for each bin that is not empty."""
    bin_px = "select cast(floor(px + 50) as int) b, count(*) n"
    radius = "select cast(floor(sqrt(px*px + py*py)) as int) b, count(*) n"
    both = "select cast(floor(px + 50) as int) * 100 + cast(floor(py + 50) as int) b, count(*) n"
    profile = "select cast(floor((eta + 4) * 12.5) as int) b, count(*) n, avg(e) m, stddev(e) s"
    ten = [
        f"select {100 * number} + cast(floor(({name} - ({low})) * {100 / (high - low)}) as int) b, count(*) n "
        + _within(name, low, high, CUT)
        for number, (name, low, high) in enumerate(TEN)
    ]
    return {
        "F1": f"{bin_px} {_within('px', -50, 50)}",
        "F2": f"{bin_px} {_within('px', -50, 50, CUT_Q)}",
        "F3": f"{radius} from T where {CUT_Q} and sqrt(px*px + py*py) < 100 group by 1",
        "F4": f"{both} {_within('py', -50, 50, f'{CUT} and px >= -50 and px < 50')}",
        "F5": f"{profile} {_within('eta', -4, 4)}",
        "F6": " union all ".join(ten),
    }


def duckdb(data: Data, threads: int) -> dict[str, Query]:
    """Ask DuckDB, with the columns in a table of its own."""
    import duckdb as peer

    connection = peer.connect()
    connection.execute(f"set threads = {threads}")
    arrow = pa.table({name: data[name] for name in COLUMNS})
    connection.register("arrow", arrow)
    connection.execute("create temp table T as select * from arrow")

    def ask(statement: str) -> Query:
        return lambda: float(connection.execute(statement).fetchnumpy()["n"].sum())

    return {name: ask(statement) for name, statement in statements().items()}


def polars(data: Data, _threads: int) -> dict[str, Query]:
    """Ask Polars, with the columns in a frame; it takes its number of threads from the environment."""
    import polars as peer

    context = peer.SQLContext(T=peer.from_arrow(pa.table({name: data[name] for name in COLUMNS})).lazy())

    def ask(statement: str) -> Query:
        return lambda: float(context.execute(statement).collect(engine="streaming")["n"].sum())

    return {name: ask(statement) for name, statement in statements().items()}


PEERS: dict[str, Callable[[Data, int], dict[str, Query]]] = {
    "boost-histogram": boost,
    "duckdb": duckdb,
    "polars": polars,
}


def timed(query: Query, runs: int) -> tuple[float, float]:
    """Run a query several times, once in vain; gives the median of the seconds, and what it counted."""
    entries, seconds = query(), []
    for _ in range(runs):
        begin = time.perf_counter()
        entries = query()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), entries


def measure(directory: Path, rows: int, runs: int, threads: int) -> tuple[list[Measured], list[str]]:
    """Run everything; gives the figures, and which peers are not here."""
    places, data = write(directory, rows, 4)
    contenders = {"C": limit(data, directory, threads), "backplane": own(places, threads)}
    absent = []
    for name, make in PEERS.items():
        try:
            contenders[name] = make(data, threads)
        except ImportError:
            absent.append(name)
    found = []
    for query in QUERIES:
        expected = None
        for system, queries in contenders.items():
            seconds, entries = timed(queries[query], runs)
            expected = entries if expected is None else expected
            if abs(entries - expected) > TOLERANCE * expected:
                raise SystemExit(f"{system} counts {entries} in {query}, C {expected}")
            found.append(Measured(system, query, "warm", seconds, entries))
    cold = own(places, threads)
    for query in QUERIES:
        backplane.clear_cache()
        begin = time.perf_counter()
        entries = cold[query]()
        found.append(Measured("backplane", query, "cold", time.perf_counter() - begin, entries))
    return found, absent


def report(found: list[Measured], absent: list[str], about: dict[str, str], rows: int, runs: int) -> str:
    """Write a page of Markdown."""
    by_key = {(one.system, one.query, one.mode): one.seconds for one in found}
    systems = [system for system in ("backplane", *PEERS) if (system, "F1", "warm") in by_key]
    body = [
        [
            f"{query}: {words}",
            number(by_key["C", query, "warm"] * 1e3),
            *(number(by_key[system, query, "warm"] / by_key["C", query, "warm"]) for system in systems),
            number(by_key["backplane", query, "cold"] / by_key["C", query, "warm"]),
        ]
        for query, words in QUERIES.items()
    ]
    header = ["query", "C, ms", *systems, "backplane, cold"]
    parts = [
        "# Passes over n-tuples, measured",
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M}. {rows} entries of {len(COLUMNS)} columns; medians of "
        f"{runs} runs with all columns in memory.\nRatios to the loops of bench/analysis_limit.c. Cold: decoded from "
        "zstd, one run.",
        table(header, body),
        "## Machine",
        table(["", ""], [[key, value] for key, value in about.items()], left=2),
    ]
    if absent:
        parts.append(f"Not installed, and left out: {', '.join(absent)}.")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--quick", action="store_true", help="a few entries: whether it works, not how fast it is")
    args = parser.parse_args()
    rows, runs = (200_000, 1) if args.quick else (args.rows, args.runs)
    os.environ["POLARS_MAX_THREADS"] = str(args.threads)
    with tempfile.TemporaryDirectory(prefix="backplane-bench-") as directory:
        about = describe(Path(directory))
        found, absent = measure(Path(directory), rows, runs, args.threads)
    page = report(found, absent, about, rows, runs)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "analysis.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
