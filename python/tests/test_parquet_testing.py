"""Files of apache/parquet-testing: every column is read as pyarrow reads it, or refused by name and reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backplane

FILES = sorted(path for path in (Path(__file__).parent / "data" / "parquet-testing").iterdir() if path.suffix != ".md")

REFUSED: dict[str, tuple[type[Exception], str]] = {
    "PARQUET-1481": (backplane.CorruptError, "footer: Unexpected Type -7"),
    "dict-page-offset-zero": (backplane.CorruptError, "footer: Expected list element type"),
    "encrypt_columns_and_footer": (backplane.UnsupportedError, "is encrypted"),
}
"""Files that cannot be opened, by the beginning of their names."""
DAMAGED = {
    ("ARROW-GH-45185", "x"): "4 values of 5",
    ("ARROW-RS-GH-6229-DICTHEADER", "region_key"): "are not in the file",
    ("rle-dict-uncompressed-corrupt-checksum", "long_field"): "Page CRC checksum mismatch",
}
"""Columns that cannot be read."""
WITHOUT_REFERENCE = {"ARROW-RS-GH-6229-DICTHEADER", "encrypt_columns_plaintext_footer", "int96_from_spark"}
"""Files that pyarrow does not read, or not right: times of 96 bits may be longer than its nanoseconds."""
REASONS = (
    "is text or bytes",
    "is a list of lists",
    "is a map",
    "is a list of nothing but missing values",
    "is of a logical type that is not known",
    "is encrypted",
)


def name_of(path: Path) -> str:
    return path.name.split(".")[0]


def plain(array: pa.ChunkedArray) -> Any:
    """Give the numbers that we read a column as."""
    kind = array.type
    if pa.types.is_decimal(kind):
        return [None if value is None else float(value) for value in array.to_pylist()]
    if pa.types.is_timestamp(kind):
        ticks = array.cast(pa.int64()).to_pylist()
        return [None if value is None else value / 1e9 if kind.unit == "ns" else value for value in ticks]
    return ak.to_list(ak.from_arrow(array))


def reference(path: Path, column: str) -> Any:
    file = pq.ParquetFile(path)
    table = file.read(columns=[column])
    if not table.column_names:
        table = file.read(columns=[column.split(".")[0]])
    if column in table.column_names:
        return plain(table[column])
    values = ak.from_arrow(table)
    for field in column.split("."):
        values = values[field]
    return ak.to_list(values)


def same(own: Any, other: Any) -> bool:
    if isinstance(own, list):
        # A missing list is empty.
        other = [] if other is None else other
        return len(own) == len(other) and all(map(same, own, other))
    if own is None or own != own:
        return other is None or other != other
    return bool(own == other)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_column_is_that_of_pyarrow_or_refused(path: Path) -> None:
    if name_of(path) in REFUSED:
        error, what = REFUSED[name_of(path)]
        with pytest.raises(error, match=what):
            backplane.ntuple(path)
        return
    chain = backplane.ntuple(path)
    numbers = [name for name, why in chain.unusable.items() if why.startswith(("is decimal", "is an old 96-bit"))]
    chain = backplane.ntuple(path, numbers=numbers)
    assert all(why.startswith(REASONS) for why in chain.unusable.values()), chain.unusable
    for column in chain.columns:
        if damage := DAMAGED.get((name_of(path), column)):
            with pytest.raises(backplane.CorruptError, match=damage):
                chain.arrays([f"`{column}`"])
            continue
        # Elements of one column are one collection, whatever stands beside it.
        (found,) = chain.arrays([f"`{column}`"]).values()
        assert len(found) == chain.entries
        if name_of(path) not in WITHOUT_REFERENCE:
            assert same(ak.to_list(found), reference(path, column)), column


def test_old_times_are_read_as_spark_reads_them() -> None:
    (path,) = (path for path in FILES if name_of(path) == "int96_from_spark")
    found = backplane.ntuple(path, numbers=["a"]).arrays(["a"])["a"]
    # In microseconds, from the description of the file.
    expected = [1704141296123456, 1704070800000000, 253402225200000000, 1735599600000000, None, 9089380393200000000]
    assert same(found.tolist(), [None if one is None else one / 1e6 for one in expected])


def test_the_files_have_columns_of_every_kind() -> None:
    chains = [backplane.ntuple(path) for path in FILES if name_of(path) not in REFUSED]
    kinds = {kind for chain in chains for kind in chain.columns.values()}
    assert kinds >= {"bool", "int", "float", "list[int]"}
    assert {why.split(";")[0] for chain in chains for why in chain.unusable.values()} >= {"is decimal"}
