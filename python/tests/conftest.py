"""Data that all tests read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

import backplane

# The same examples in every run, and no clock: a test that fails sometimes is a bug.
settings.register_profile("backplane", database=None, deadline=None, derandomize=True)
settings.load_profile("backplane")

ROWS = 5000


def make(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    mass = rng.normal(91.0, 15.0, ROWS).astype("f4")
    # Edges, and values that belong to no bin.
    mass[:8] = [60.0, 120.0, 90.0, np.nan, np.inf, -np.inf, 61.2, 59.999996]
    return {
        "mass": mass,
        "px": rng.normal(0, 20, ROWS).astype("f4"),
        "py": rng.normal(0, 20, ROWS).astype("f4"),
        "eta": rng.normal(0, 1.6, ROWS),
        "w": rng.exponential(1.0, ROWS).astype("f4"),
        "n": rng.poisson(3, ROWS).astype("i4"),
        "event": np.arange(ROWS, dtype="i8") + (1 << 60),
        "good": rng.random(ROWS) < 0.7,
    }


@pytest.fixture(scope="session")
def data() -> dict[str, np.ndarray]:
    parts = [make(seed) for seed in range(3)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ntuple")
    for seed, compression in enumerate(["zstd", "snappy", "none"]):
        pq.write_table(
            pa.table(make(seed)), folder / f"run{seed}.parquet", compression=compression, row_group_size=1700
        )
    return folder


@pytest.fixture
def events(folder: Path) -> backplane.NTuple:
    return backplane.ntuple(folder / "run*.parquet")


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of more than a packet each, so that their chain has many."""
    folder, entries = tmp_path_factory.mktemp("wide"), 300_000
    for number in range(6):
        rng = np.random.default_rng(number)
        columns = {
            "x": rng.normal(50, 20, entries).astype("f4"),
            "w": rng.exponential(1.0, entries) * 10.0 ** rng.integers(-9, 9, entries),
            "n": pa.array(rng.integers(0, 9, entries).astype("i4"), mask=rng.random(entries) < number / 50),
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=70_000, compression="snappy")
    return folder


@pytest.fixture
def chain(wide: Path) -> backplane.NTuple:
    return backplane.ntuple(wide / "*.parquet").define("y", "sqrt(x * x + 1)").where("x > 10")


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    backplane.clear_cache()
