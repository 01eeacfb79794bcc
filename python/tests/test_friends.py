"""Friends: columns of other files, entry by entry."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backplane
from backplane.analysis._plan import Plan, Selection

TOTAL = 60


def divide(folder: Path, table: pa.Table, cuts: list[int], rows: int) -> list[Path]:
    """Write a table as several files in row groups of so many rows."""
    ends = [0, *sorted(cuts), len(table)]
    files = [folder / f"{number}.parquet" for number in range(len(ends) - 1)]
    folder.mkdir(exist_ok=True)
    for file, start, end in zip(files, ends, ends[1:], strict=False):
        pq.write_table(table.slice(start, end - start), file, row_group_size=rows)
    return files


def tables() -> tuple[pa.Table, pa.Table]:
    counts = np.arange(TOTAL) % 4
    jets = [ak.unflatten(np.arange(counts.sum()) * scale, counts) for scale in (1.0, 0.5)]
    score, pt = (ak.to_arrow(array, extensionarray=False) for array in jets)
    numbers = np.arange(TOTAL)
    main = pa.table({"n": numbers, "Jet_pt": pt})
    return main, pa.table({"Jet_score": score, "w": pa.array(numbers / 4, mask=numbers % 7 == 0), "k": numbers})


CUTS = st.lists(st.integers(0, TOTAL), max_size=3)


@given(CUTS, CUTS, st.integers(1, 20), st.integers(1, 20))
def test_entries_stand_beside_their_own_however_files_are_divided(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], other_cuts: list[int], rows: int, other_rows: int
) -> None:
    folder = tmp_path_factory.mktemp("friends")
    main, other = tables()
    chain = backplane.ntuple(divide(folder / "main", main, cuts, rows))
    both = chain.friend(backplane.ntuple(divide(folder / "other", other, other_cuts, other_rows)))
    assert both.entries == TOTAL
    found = both.where("n % 2 == 0").arrays(["n", "k", "w", "sum(Jet_pt * (Jet_score > 3))"])
    expected = np.arange(0, TOTAL, 2)
    assert found["n"].tolist() == found["k"].tolist() == expected.tolist()
    assert np.array_equal(found["w"], np.where(expected % 7 == 0, np.nan, expected / 4), equal_nan=True)
    pt, score = (ak.from_arrow(table[name]) for table, name in [(main, "Jet_pt"), (other, "Jet_score")])
    assert found["sum(Jet_pt * (Jet_score > 3))"].tolist() == ak.sum(pt * (score > 3), axis=1)[::2].to_list()


def test_names_of_both_are_kept_apart(tmp_path: Path) -> None:
    main, other = tables()
    chain = backplane.ntuple(divide(tmp_path / "main", main, [], 7))
    twin = backplane.ntuple(divide(tmp_path / "twin", main, [20], 9))
    with pytest.raises(backplane.InvalidError, match='a friend has a column "n", too'):
        chain.friend(twin)
    both = chain.friend(twin, prefix="new").friend(backplane.ntuple(divide(tmp_path / "other", other, [], 30)))
    assert list(both.columns) == ["n", "Jet_pt", "newn", "newJet_pt", "Jet_score", "w", "k"]
    assert both.where("newn != n").to_numpy(["n"])["n"].tolist() == []
    filled = (both.hist(name, bins=10, range=(0, 100)).values(flow=True).tolist() for name in ("newJet_pt", "Jet_pt"))
    assert next(filled) == next(filled)
    plan = Plan(both._chain, Selection((), (), arrays=["n + newn + k", "Jet_score"]))
    part = Plan.of(bytes(plan)).run(0, len(plan), 1)
    assert part.arrays[0].tolist() == (3 * np.arange(TOTAL)).tolist()
    assert part.arrays[1].to_list() == ak.from_arrow(other["Jet_score"]).to_list()


def test_the_cache_keeps_columns_of_friends_apart_that_chains_see_otherwise(tmp_path: Path) -> None:
    times = pa.array([Decimal(number) for number in range(4)], pa.decimal128(9, 2))
    pq.write_table(pa.table({"t": times, "n": range(4)}), tmp_path / "main.parquet")
    pq.write_table(pa.table({"t": times, "score": [0.5] * 4}), tmp_path / "friend.parquet")
    chains = [backplane.ntuple(tmp_path / f"{name}.parquet") for name in ("main", "friend")]
    both = chains[0].friend(chains[1], prefix="f_")
    assert both.to_numpy(["f_score"])["f_score"].tolist() == [0.5] * 4
    chains = [backplane.ntuple(tmp_path / f"{name}.parquet", numbers=["t"]) for name in ("main", "friend")]
    both = chains[0].friend(chains[1], prefix="f_")
    assert both.to_numpy(["f_t"])["f_t"].tolist() == [0, 1, 2, 3]
    # A float beside one of 64 bits, and by itself.
    files = [tmp_path / f"s{bytes_}.parquet" for bytes_ in (4, 8)]
    for file, kind in zip(files, ("f4", "f8"), strict=True):
        pq.write_table(pa.table({"s": np.arange(4, dtype=kind)}), file)
    main = tmp_path / "main.parquet"
    for count, kind in ((2, "f8"), (1, "f4"), (2, "f8")):
        found = backplane.ntuple([main] * count).friend(backplane.ntuple(files[:count])).to_numpy(["s"])["s"]
        assert (found.dtype, found.tolist()) == (kind, list(range(4)) * count)


def test_friends_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    main, other = tables()
    chain = backplane.ntuple(divide(tmp_path / "main", main, [30], 7))
    friend = backplane.ntuple(divide(tmp_path / "other", other, [10], 7))
    short = backplane.ntuple(divide(tmp_path / "short", other.slice(1), [], 7))
    with pytest.raises(backplane.InvalidError, match="n-tuple of 60 entries has a friend of 59"):
        chain.friend(short)
    with pytest.raises(backplane.InvalidError, match="a friend has cuts or variables"):
        chain.friend(friend.where("k > 3"))
    with pytest.raises(backplane.InvalidError, match="a friend cannot have friends"):
        friend.friend(chain.friend(friend, prefix="f"), prefix="g")
    uneven = other.set_column(0, "Jet_score", pa.array([[1.0]] * TOTAL))
    wrong = chain.friend(backplane.ntuple(divide(tmp_path / "uneven", uneven, [], 7)))
    with pytest.raises(backplane.InvalidError, match=r"entry 0: .Jet_pt. has 0 elements, .Jet_score. has 1"):
        wrong.hist("Jet_pt * Jet_score", range=(0, 1))


def test_a_changed_friend_is_noticed(tmp_path: Path) -> None:
    main, other = tables()
    files = divide(tmp_path / "other", other, [], 7)
    both = backplane.ntuple(divide(tmp_path / "main", main, [], 7)).friend(backplane.ntuple(files))
    assert both.hist("w", range=(0, 15)).sum() > 0
    pq.write_table(other.slice(0, 60), tmp_path / "new.parquet")
    (tmp_path / "new.parquet").replace(files[0])
    with pytest.raises(backplane.InvalidError, match="changed since the n-tuple was opened"):
        both.hist("w", range=(0, 15))
