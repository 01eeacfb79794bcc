"""Snapshots: what is written is what `arrays` gives, whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backplane


def test_a_snapshot_has_the_entries_that_pass(chain: backplane.NTuple, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = tmp_path / "skim.parquet"
    written = chain.where("n > 5").snapshot(path, progress=lambda done, total: told.append((done, total)))
    again, expected = backplane.ntuple(path), chain.where("n > 5").to_numpy()
    assert again.entries == written == len(expected["x"])
    assert again.columns == chain.columns
    for name, array in again.arrays(expected).items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])
    assert told[-1] == (1_800_000, 1_800_000)
    # Packets of which a few entries pass share row groups.
    assert pq.ParquetFile(path).num_row_groups <= written // 262_144 + 1
    assert [one.name for one in tmp_path.iterdir()] == ["skim.parquet"]
    (mask := os.umask(0), os.umask(mask))
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_missing_values_lists_and_names_survive(tmp_path: Path) -> None:
    jets = ak.Array([[1.5, 2.5], [], [30.0, 4.0, 5.0]])
    table = {
        "n": pa.array([1, None, 3], pa.int32()),
        "good": pa.array([True, None, False]),
        "odd name": pa.array([0.5, 1.5, 2.5]),
        "Jet_pt": ak.to_arrow(jets, extensionarray=False),
        "Jet_id": pa.array([[1, None], [], [2, 3, 4]], pa.list_(pa.int64())),
    }
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    chain = backplane.ntuple(tmp_path / "a.parquet").define("Jet_double", "2 * Jet_pt")
    for compression in ("zstd", "snappy", "none"):
        assert chain.snapshot(tmp_path / "b.parquet", compression=compression) == 3
        again = backplane.ntuple(tmp_path / "b.parquet")
        assert again.columns == chain.columns
        assert again.to_awkward().to_list() == chain.to_awkward().to_list()
    chain.snapshot(tmp_path / "c.parquet", {"Jet_hard": "Jet_pt[Jet_pt > 2]", "hardest": "max(Jet_pt)"})
    assert pq.read_table(tmp_path / "c.parquet").to_pydict() == {
        "Jet_hard": [[2.5], [], [30.0, 4.0, 5.0]],
        "hardest": [2.5, pytest.approx(float("nan"), nan_ok=True), 30.0],
    }


def test_a_snapshot_without_entries_has_its_columns(chain: backplane.NTuple, tmp_path: Path) -> None:
    assert chain.where("x < -1e9").snapshot(tmp_path / "none.parquet") == 0
    assert pq.read_schema(tmp_path / "none.parquet").names == ["x", "w", "n", "y"]
    sink = io.BytesIO()
    assert chain.where("x < -1e9").snapshot(sink, ["x"]) == 0
    assert len(pq.read_table(io.BytesIO(sink.getvalue()))) == 0


def test_what_fails_leaves_nothing_and_keeps_what_was_there(chain: backplane.NTuple, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"of before")

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chain.snapshot(path, progress=stop)
    with pytest.raises(backplane.InvalidError, match="unknown column"):
        chain.snapshot(path, ["nothing"])
    assert path.read_bytes() == b"of before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        chain.snapshot(tmp_path / "no" / "a.parquet")


def test_what_fails_leaves_an_open_file_as_it_was(chain: backplane.NTuple) -> None:
    def stop(done: int, _total: int) -> None:
        if done > 600_000:
            raise KeyboardInterrupt

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    sink, pipe = io.BytesIO(), Pipe()
    sink.write(b"of before")
    for place in (sink, pipe):
        with pytest.raises(KeyboardInterrupt):
            chain.snapshot(place, progress=stop)
    assert (sink.getvalue(), sink.tell()) == (b"of before", 9)
    assert len(pipe.getvalue()) > 100_000, "it stopped after a row group"


def test_what_fails_gives_a_file_of_a_facility_up(
    start_facility: Callable[..., contextlib.AbstractContextManager[backplane.Facility]],
    chain: backplane.NTuple,
    tmp_path: Path,
) -> None:
    def stop(done: int, _total: int) -> None:
        if done > 600_000:
            raise KeyboardInterrupt

    with start_facility(tmp_path / "facility") as facility:
        for path, is_buffered in (("/a", False), ("/b", True)):
            facility.write_bytes(path, b"of before")
            file = facility.open(path, "wb")
            writer: Any = file.buffered() if is_buffered else file
            with pytest.raises(KeyboardInterrupt):
                chain.snapshot(writer, progress=stop)
            writer.close()
            assert facility.read_bytes(path) == b"of before"


def test_a_chain_can_replace_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), path)
    chain = backplane.ntuple(path)
    assert chain.where("x > 1").snapshot(path) == 2
    assert backplane.ntuple(path).entries == 2
    with pytest.raises(backplane.InvalidError, match="changed since the n-tuple was opened"):
        chain.snapshot(path)
