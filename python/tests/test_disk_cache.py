"""The column cache on disk: found by the next process, never stale."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backplane

SCRIPT = """
import json, sys, backplane
backplane.set_cache_directory(sys.argv[1], 1 << 26)
filled = backplane.ntuple(sys.argv[2]).hist("x", bins=10, range=(0, 1))
print(json.dumps([filled.values(flow=True).tolist(), backplane.cache_use()._asdict()]))
"""


@pytest.fixture(autouse=True)
def only_memory() -> Iterator[None]:
    yield
    backplane.set_cache_directory(None)


def fill(directory: Path, file: Path) -> tuple[list[float], dict[str, int]]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(directory), str(file)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    bins, use = json.loads(done.stdout)
    return bins, use


def write(path: Path, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).random(5000)
    pq.write_table(pa.table({"x": values}), path, row_group_size=1000)
    return values


def test_the_next_process_finds_columns_and_never_old_ones(tmp_path: Path) -> None:
    file, directory = tmp_path / "a.parquet", tmp_path / "columns"
    values = write(file, 1)
    expected = [0, *np.histogram(values, 10, (0, 1))[0].tolist(), 0]
    bins, use = fill(directory, file)
    assert (bins, use["disk_hits"], use["disk_misses"]) == (expected, 0, 5)
    bins, use = fill(directory, file)
    assert (bins, use["disk_hits"], use["disk_misses"], use["misses"]) == (expected, 5, 0, 5)
    assert 5 * 8000 < use["disk_held_bytes"] <= use["disk_capacity_bytes"] == 1 << 26
    # Another content of the same size under the same name.
    values = write(tmp_path / "b.parquet", 2)
    (tmp_path / "b.parquet").replace(file)
    bins, use = fill(directory, file)
    assert bins == [0, *np.histogram(values, 10, (0, 1))[0].tolist(), 0]
    assert use["disk_hits"] == 0
    # What is damaged is decoded again.
    for column in directory.iterdir():
        column.write_bytes(column.read_bytes()[:-1])
    bins, use = fill(directory, file)
    assert bins == [0, *np.histogram(values, 10, (0, 1))[0].tolist(), 0]
    assert use["disk_hits"] == 0


def test_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(backplane.PermissionDeniedError, match="others may write"):
        backplane.set_cache_directory(tmp_path / "open")
    assert backplane.cache_use().disk_capacity_bytes == 0
    backplane.set_cache_directory(tmp_path / "own", 12345)
    assert backplane.cache_use().disk_capacity_bytes == 12345
