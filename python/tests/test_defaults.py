"""Columns that a file lacks, and columns that are numbers by request."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backplane
from backplane.analysis._plan import Plan, Selection


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def test_all_columns_that_a_file_lacks_are_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.parquet", x=[1], y=[2], z=[3])
    less = write(tmp_path / "b.parquet", x=[1])
    with pytest.raises(backplane.InvalidError, match=r'b\.parquet: no columns "y", "z", which .*a\.parquet has'):
        backplane.ntuple([whole, less])
    with pytest.raises(backplane.InvalidError, match=r'a\.parquet: columns "y", "z" are not in .*b\.parquet'):
        backplane.ntuple([less, whole])
    many = write(tmp_path / "c.parquet", x=[1], **{f"v{number}": [1] for number in range(14)})
    with pytest.raises(backplane.InvalidError, match='"v10", "v11" and 2 more are not in') as raised:
        backplane.ntuple([less, many])
    assert "default" in (raised.value.hint or "")


@pytest.mark.parametrize("order", [1, -1])
def test_a_default_stands_for_a_column_that_a_file_lacks(tmp_path: Path, order: int) -> None:
    files = [
        write(tmp_path / "a.parquet", x=[1, 2, 3], w=[0.5, 0.25, 2.0], n=[1, None, 3], good=[True, False, None]),
        write(tmp_path / "b.parquet", x=[4, 5, 6]),
    ][::order]
    chain = backplane.ntuple(files, defaults={"w": np.float32(1), "n": np.int64(7), "good": None})
    assert chain.columns == {"x": "int", "w": "float", "n": "int", "good": "bool"}
    found = chain.to_awkward()
    found = found[ak.argsort(found.x)]
    assert found.w.to_list() == [0.5, 0.25, 2.0, 1.0, 1.0, 1.0]
    assert found.n.to_list() == [1, None, 3, 7, 7, 7]
    assert found.good.to_list() == [True, False, None, None, None, None]
    assert chain.hist("x", bins=6, range=(1, 7), weight="w").values().tolist() == [0.5, 0.25, 2, 1, 1, 1]
    assert chain.hist("x", bins=6, range=(1, 7), where="good").sum() == 1


def lists(*rows: list[float]) -> pa.Array:
    return pa.array(list(rows), pa.list_(pa.float32()))


def test_lists_that_a_file_lacks_are_as_long_as_their_collection(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.parquet", Jet_pt=lists([1, 2], []), Jet_id=lists([5, 6], []), Muon_pt=lists([3], [4])),
        write(tmp_path / "b.parquet", Jet_pt=lists([7], [8, 9, 10])),
    ]
    chain = backplane.ntuple(files, defaults={"Jet_id": 1, "Muon_pt": 0})
    found: dict[str, Any] = chain.arrays(["Jet_id", "Muon_pt", "sum(Jet_id)"])
    assert found["Jet_id"].to_list() == [[5, 6], [], [1], [1, 1, 1]]
    assert found["Muon_pt"].to_list() == [[3], [4], [], []]
    assert found["sum(Jet_id)"].tolist() == [11, 0, 1, 3]
    missing = backplane.ntuple(files, defaults={"Jet_id": None, "Muon_pt": None})
    assert missing.hist("Jet_id", bins=10, range=(0, 10)).sum() == 2


def test_defaults_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.parquet", x=[1], n=[1]), write(tmp_path / "b.parquet", x=[1])]
    for defaults, what in [
        ({"n": 0.5}, 'default 0.5 of column "n", which is int'),
        ({"n": True}, 'default true of column "n", which is int'),
        ({"n": 0, "m": 0}, 'no file has a column "m", for which there is a default'),
        ({"n": "0"}, "default '0' of column 'n' is no number"),
        ({"n": 2**63}, "is no number of 64 bits"),
    ]:
        with pytest.raises(backplane.InvalidError, match=what):
            backplane.ntuple(files, defaults=defaults)  # type: ignore[arg-type]


MOMENT = datetime.datetime(2026, 11, 26, 17, 30, 0, 250_000)


@pytest.fixture
def moments(tmp_path: Path) -> list[Path]:
    units = ("s", "ms", "us", "ns")
    whole = MOMENT.replace(microsecond=0)
    files = [write(tmp_path / f"{unit}.parquet", t=pa.array([whole, None], pa.timestamp(unit))) for unit in units]
    old = tmp_path / "old.parquet"
    table = pa.table({"t": pa.array([MOMENT], pa.timestamp("ns"))})
    pq.write_table(table, old, use_deprecated_int96_timestamps=True)
    return [*files, old]


def test_times_of_all_units_are_seconds_by_request(moments: list[Path]) -> None:
    seconds = MOMENT.replace(tzinfo=datetime.UTC).timestamp()
    with pytest.raises(backplane.InvalidError, match='column "t" is timestamp'):
        backplane.ntuple(moments)
    found = backplane.ntuple(moments, numbers=["t"]).arrays(["t"], where="t == t")["t"]
    assert found.tolist() == [int(seconds)] * 4 + [seconds]
    # The same column as whole numbers is another one in the cache.
    assert backplane.ntuple(moments[1]).arrays(["t"])["t"][0] == int(seconds) * 1000
    assert backplane.ntuple(moments[-1]).unusable["t"].startswith("is an old 96-bit timestamp")
    with pytest.raises(backplane.InvalidError, match='no file has a column "u", which numbers names'):
        backplane.ntuple(moments, numbers=["t", "u"])


def test_dates_and_times_of_the_day_are_seconds_by_request(tmp_path: Path) -> None:
    day, noon = datetime.date(1970, 1, 3), datetime.time(12, 0, 0, 500_000)
    lengths = pa.array([1500, -1], pa.duration("ms"))
    path = write(tmp_path / "a.parquet", day=[day, None], noon=[noon, noon], length=lengths)
    chain = backplane.ntuple(path, numbers=["day", "noon", "length"])
    assert chain.arrays(["noon", "length"]).popitem()[1].tolist() == [1.5, -0.001]
    assert chain.arrays(["noon"])["noon"].tolist() == [43_200.5] * 2
    assert chain.arrays(["day"])["day"][0] == 2 * 86_400
    assert np.isnan(chain.arrays(["day"])["day"][1])


@pytest.mark.parametrize("digits", [4, 9, 18, 38])
def test_decimals_are_the_nearest_floats_by_request(tmp_path: Path, digits: int) -> None:
    decimal.getcontext().prec = 60
    rng = np.random.default_rng(digits)
    numbers = [decimal.Decimal(int.from_bytes(rng.bytes(16)) % 10**digits).scaleb(-2) for _ in range(100)]
    numbers += [-number for number in numbers]
    for store_as_integer in (False, True):
        path = tmp_path / f"{store_as_integer}.parquet"
        table = pa.table({"price": pa.array([*numbers, None], pa.decimal128(digits, 2))})
        pq.write_table(table, path, store_decimal_as_integer=store_as_integer)
        assert backplane.ntuple(path).unusable["price"].startswith("is decimal")
        found = backplane.ntuple(path, numbers="price").arrays(["price"])["price"]
        assert found[:-1].tolist() == [float(number) for number in numbers]
        assert np.isnan(found[-1])


def test_another_process_reads_the_same(tmp_path: Path, moments: list[Path]) -> None:
    files = [write(tmp_path / "a.parquet", x=[1.0], n=[1]), write(tmp_path / "b.parquet", x=[2.0])]
    for chain, exprs in [
        (backplane.ntuple(files, defaults={"n": 7}), ["x", "n"]),
        (backplane.ntuple(files, defaults={"n": None}), ["x", "isnan(n)"]),
        (backplane.ntuple(moments, numbers=["t"]), ["t"]),
    ]:
        plan = Plan(chain._chain, Selection((), (), arrays=exprs))
        part = Plan.of(bytes(plan)).run(0, len(plan), 1)
        for own, other in zip(chain.arrays(exprs).values(), part.arrays, strict=True):
            np.testing.assert_array_equal(own, other)
