"""Lists as writers write them: every way, encoding and codec; and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backplane

pytest.importorskip("awkward")

LISTS: list[list[float | None] | None] = [[1.0, 2.5], [], None, [None, 4.0], [5.0] * 300, [-1.0]]
FILLED = [[1.0, 2.5], [], [], [None, 4.0], [5.0] * 300, [-1.0]]


def written(place: Path, columns: dict[str, pa.Array], **how: Any) -> backplane.NTuple:
    pq.write_table(pa.table(columns), place, **how)
    return backplane.ntuple(place)


def plain(values: Any) -> list[Any]:
    """Give the lists with `None` for NaN."""
    return [[None if value != value else value for value in one] for one in values.tolist()]


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    "how",
    [
        {"compression": "brotli"},
        {"compression": "lz4", "data_page_version": "2.0"},
        {"compression": "gzip", "use_dictionary": False, "use_byte_stream_split": True},
        {"compression": "none", "row_group_size": 2, "data_page_size": 64},
        {"compression": "snappy", "use_compliant_nested_type": False},
    ],
    ids=str,
)
def test_lists_of_floats_are_read(tmp_path: Path, make: Any, kind: pa.DataType, how: dict[str, Any]) -> None:
    if kind == pa.float16():
        how = {key: value for key, value in how.items() if key != "use_byte_stream_split"}
    lists = [None if one is None else [None if x is None else kind.to_pandas_dtype()(x) for x in one] for one in LISTS]
    ntuple = written(tmp_path / "f", {"Jet_pt": pa.array(lists, make(kind))}, **how)
    assert ntuple.columns == {"Jet_pt": "list[float]"}
    found = ntuple.arrays(["Jet_pt", "count(Jet)", "min(Jet.pt)"])
    assert plain(found["Jet_pt"]) == FILLED
    assert found["count(Jet)"].tolist() == [2, 0, 0, 2, 300, 1]
    np.testing.assert_array_equal(found["min(Jet.pt)"], [1, np.nan, np.nan, 4, 5, -1])


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], ids=str
)
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BINARY_PACKED", None])
def test_lists_of_integers_are_read(tmp_path: Path, kind: pa.DataType, encoding: str | None) -> None:
    lists = [None if one is None else [None if x is None else abs(int(x)) for x in one] for one in LISTS]
    how: dict[str, Any] = {} if encoding is None else {"use_dictionary": False, "column_encoding": encoding}
    ntuple = written(tmp_path / "f", {"Jet_n": pa.array(lists, pa.list_(kind))}, **how)
    found = ntuple.arrays(["Jet_n", "sum(Jet.n)", "max(Jet.n)", "any(Jet.n > 3)"])
    assert found["Jet_n"].tolist() == [[] if one is None else one for one in lists]
    assert found["sum(Jet.n)"].tolist() == [3, 0, 0, None, 1500, 1]
    assert found["max(Jet.n)"].tolist() == [2, None, None, 4, 5, 1]
    assert found["any(Jet.n > 3)"].tolist() == [False, False, False, True, True, False]


def test_lists_of_truth_values_are_read(tmp_path: Path) -> None:
    lists = [[True, False], [], None, [None, True], [True]]
    ntuple = written(tmp_path / "f", {"Jet_id": pa.array(lists, pa.list_(pa.bool_()))})
    found = ntuple.arrays(["any(Jet.id)", "all(Jet.id)", "count(Jet[Jet.id])"])
    assert found["any(Jet.id)"].tolist() == [True, False, False, True, True]
    # A missing truth value is not true.
    assert found["all(Jet.id)"].tolist() == [False, True, True, False, True]
    assert found["count(Jet[Jet.id])"].tolist() == [1, 0, 0, 1, 1]


def test_nothing_comes_of_nothing(tmp_path: Path) -> None:
    empty = {"Jet_pt": pa.array([], pa.list_(pa.float32())), "MET_pt": pa.array([], pa.float32())}
    hollow = {"Jet_pt": pa.array([[], []], pa.list_(pa.float32())), "MET_pt": pa.array([1, 2], pa.float32())}
    for number, columns in enumerate((empty, hollow)):
        ntuple = written(tmp_path / str(number), columns)
        assert ntuple.hist("Jet.pt", range=(0, 1)).sum(flow=True) == 0
        assert ntuple.hist("pairs(Jet).a.pt", range=(0, 1)).sum(flow=True) == 0
        assert ntuple.hist("max(Jet.pt)", range=(0, 1)).sum(flow=True) == len(ntuple)
        assert ntuple.where("count(Jet) > 0").arrays(["Jet.pt"])["Jet.pt"].tolist() == []
    both = backplane.ntuple([tmp_path / "0", tmp_path / "1"])
    assert both.arrays(["count(pairs(Jet))"])["count(pairs(Jet))"].tolist() == [0, 0]


def test_one_event_with_many_combinations_needs_no_memory_for_them(tmp_path: Path) -> None:
    count = 120
    ntuple = written(tmp_path / "f", {"J_x": pa.array([np.arange(count) * 1.0, [], np.arange(3.0)])})
    found = ntuple.hist("triples(J).a.x", bins=count, range=(0, count))
    first = np.arange(count)
    expected = (count - 1 - first) * (count - 2 - first) // 2
    expected[0] += 1
    np.testing.assert_array_equal(found.values(), expected)


def test_lists_of_one_collection_have_one_length(tmp_path: Path) -> None:
    columns = {"Jet_pt": pa.array([[1.0], [1.0, 2.0], [3.0]]), "Jet_eta": pa.array([[1.0], [1.0, 2.0], [3.0, 4.0]])}
    ntuple = written(tmp_path / "uneven.parquet", columns, row_group_size=2)
    assert ntuple.hist("Jet.pt", range=(0, 9)).sum() == 4
    with pytest.raises(
        backplane.InvalidError, match=r'uneven.parquet: entry 2: "Jet_pt" has 1 elements, "Jet_eta" has 2'
    ):
        ntuple.hist("Jet.pt * Jet.eta", range=(0, 9))


def test_files_must_agree_on_lists(tmp_path: Path) -> None:
    written(tmp_path / "a", {"x": pa.array([[1.0]])})
    written(tmp_path / "b", {"x": pa.array([1.0])})
    with pytest.raises(backplane.InvalidError, match=r'"x" is float64, in .*a it is list of float64'):
        backplane.ntuple([tmp_path / "a", tmp_path / "b"])
    written(tmp_path / "c", {"x": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))})
    assert backplane.ntuple([tmp_path / "a", tmp_path / "c"]).hist("x", range=(0, 9)).sum() == 3


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    columns = {
        "deep": pa.array([[[1.0]]]),
        "text": pa.array([["a"]]),
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        "none": pa.array([[None]], pa.list_(pa.null())),
        "x": pa.array([1.0]),
    }
    ntuple = written(tmp_path / "f", columns)
    assert ntuple.columns == {"x": "float"}
    assert ntuple.unusable["deep"] == "is a list of lists; only lists of values can be used"
    assert ntuple.unusable["text"] == "is text or bytes, not numbers"
    with pytest.raises(backplane.UnsupportedError, match='"deep" at 1 is a list of lists'):
        ntuple.hist("deep", range=(0, 1))


def test_mixed_lists_are_refused_with_both_names(tmp_path: Path) -> None:
    ntuple = written(tmp_path / "f", {"Jet_pt": pa.array([[1.0]]), "Muon_pt": pa.array([[1.0]])})
    with pytest.raises(backplane.InvalidError, match="values of Jet together with values of Muon"):
        ntuple.hist("Jet.pt + Muon.pt", range=(0, 1))
    with pytest.raises(backplane.InvalidError, match=r"is a list\[bool\], not one bool for each entry"):
        ntuple.where("Jet.pt > 3")
