"""A chain means the same in every file, or says which file is in the way."""

from __future__ import annotations

import base64
import datetime
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import backplane

BIG = 2**53 + 1
MOMENT = datetime.datetime(2020, 1, 1, 12, 30)
Chain = Callable[..., backplane.NTuple]


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    """Write one file for each array, as its column `x`, and chain them."""

    def write(*arrays: pa.Array, **how: Any) -> backplane.NTuple:
        places = [tmp_path / f"{number}.parquet" for number in range(len(arrays))]
        for place, array in zip(places, arrays, strict=True):
            pq.write_table(pa.table({"x": array}), place, **how)
        return backplane.ntuple(places)

    return write


def x_of(ntuple: backplane.NTuple, where: str | None = None) -> npt.NDArray[Any]:
    return ntuple.arrays(["x"], where=where)["x"]


TIMES = {
    "timestamp[ms]": pa.array([MOMENT], pa.timestamp("ms")),
    "timestamp[us]": pa.array([MOMENT], pa.timestamp("us")),
    "timestamp[ns]": pa.array([MOMENT], pa.timestamp("ns")),
    "timestamp[us, UTC]": pa.array([MOMENT], pa.timestamp("us", "Europe/Zurich")),
    "date": pa.array([MOMENT.date()]),
    "time[ms]": pa.array([MOMENT.time()], pa.time32("ms")),
    "time[us]": pa.array([MOMENT.time()], pa.time64("us")),
    "duration[s]": pa.array([7], pa.duration("s")),
    "duration[ms]": pa.array([7], pa.duration("ms")),
    "duration[ns]": pa.array([7], pa.duration("ns")),
    "int64": pa.array([7]),
    "bool": pa.array([True]),
    "float64": pa.array([7.0]),
    "decimal(9, 2)": pa.array([7], pa.decimal128(9, 2)),
    "text": pa.array(["7"]),
}


@pytest.mark.parametrize("first", TIMES)
@pytest.mark.parametrize("second", TIMES)
def test_columns_of_other_meaning_are_refused_by_name(chain: Chain, first: str, second: str) -> None:
    if first == second or {first, second} == {"decimal(9, 2)", "text"}:
        chain(TIMES[first], TIMES[second])
        return
    with pytest.raises(backplane.InvalidError) as raised:
        chain(TIMES[first], TIMES[second])
    text = str(raised.value)
    assert f'1.parquet: column "x" is {second}, in ' in text
    assert text.endswith(f"0.parquet it is {first}")


@pytest.mark.parametrize("zones", [("UTC", "Europe/Zurich"), ("Asia/Tokyo", "UTC")])
def test_moments_of_any_zone_are_those_of_utc(chain: Chain, zones: tuple[str, str]) -> None:
    moment = MOMENT.replace(tzinfo=datetime.UTC)
    both = x_of(chain(*(pa.array([moment], pa.timestamp("us", zone)) for zone in zones)))
    assert both.tolist() == [int(moment.timestamp() * 1_000_000)] * 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [("i4", "i8"), ("i1", "i8"), ("u4", "i4"), ("u4", "i8"), ("u8", "i8"), ("u8", "i4"), ("u1", "u8"), ("i2", "u2")],
)
def test_integers_of_any_width_and_sign_keep_every_bit(chain: Chain, kinds: list[str], reverse: bool) -> None:
    edges = [[max(np.iinfo(kind).min, -(2**63)), min(np.iinfo(kind).max, 2**63 - 1), 1] for kind in kinds]
    pairs = list(zip(edges, kinds, strict=True))[:: -1 if reverse else 1]
    ntuple = chain(*(pa.array(np.array(values, kind)) for values, kind in pairs))
    expected = [int(value) for values, _ in pairs for value in values]
    found = x_of(ntuple)
    assert (ntuple.columns["x"], found.dtype.kind, found.tolist()) == ("int", "i", expected)
    assert x_of(ntuple, where="x < 0 and x > 0").dtype == found.dtype
    for value in expected:
        assert x_of(ntuple, where=f"x == {value}").tolist() == [value] * expected.count(value)


def test_unsigned_values_beyond_64_bits_with_a_sign_are_refused(chain: Chain) -> None:
    for values in ([2**63], [None, 2**64 - 1]):
        ntuple = chain(pa.array(values, pa.uint64()))
        with pytest.raises(backplane.UnsupportedError, match=rf'0\.parquet: .*column "x": {values[-1]} is too large'):
            x_of(ntuple)


def test_floats_of_any_width_keep_their_values(chain: Chain) -> None:
    half = np.array([0.1, -65504, 5.96e-8, np.inf, np.nan, -0.0], "f2")
    np.testing.assert_array_equal(x_of(chain(pa.array(half))), half.astype("f4"))
    parts = [half, np.array([0.1, 1e38], "f4"), np.array([0.1, 1e300])]
    found = x_of(chain(*(pa.array(part) for part in parts)))
    assert found.dtype == np.dtype("f8")
    np.testing.assert_array_equal(found, np.concatenate([part.astype("f8") for part in parts]))


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int32(), pa.timestamp("us")])
@pytest.mark.parametrize("statistics", [False, True])
def test_integers_with_missing_values_stay_exact(chain: Chain, kind: pa.DataType, statistics: bool) -> None:
    values: list[Any] = [None, 2**31 - 1, 5] if kind == pa.int32() else [None, BIG, BIG + 1]
    ntuple = chain(pa.array(values, kind), pa.array([], kind), write_statistics=statistics)
    assert ntuple.columns["x"] == "int"
    assert x_of(ntuple).tolist() == values
    assert x_of(ntuple, where="x > 0").tolist() == values[1:]
    assert not isinstance(x_of(ntuple, where="x > 0"), np.ma.MaskedArray)
    for value in values[1:]:
        equal = ntuple.arrays([f"x == {value}", f"x == {value - 1}", f"x != {value}"])
        assert [int(array.sum()) for array in equal.values()] == [1, int(value - 1 in values), 2]
    assert ntuple.arrays(["x + 1"])["x + 1"].tolist() == [None, values[1] + 1, values[2] + 1]
    assert np.isnan(ntuple.arrays(["x * 1.0"])["x * 1.0"][0])


def test_missing_flags_pass_no_cut(chain: Chain) -> None:
    ntuple = chain(pa.array([True, None, False]), pa.array([True]))
    assert ntuple.columns["x"] == "bool"
    assert x_of(ntuple).tolist() == [True, None, False, True]
    assert [len(x_of(ntuple, where=cut)) for cut in ("x", "not x", "x or not x", "isnan(x)")] == [2, 1, 3, 1]


@pytest.mark.parametrize("statistics", [False, True])
def test_files_without_entries_or_statistics_change_nothing(tmp_path: Path, statistics: bool) -> None:
    def write(name: str, count: int, **how: Any) -> Path:
        table = pa.table(
            {"event": pa.array([BIG, BIG + 1][:count], pa.int64()), "good": pa.array([True, False][:count])}
        )
        pq.write_table(table, tmp_path / name, write_statistics=statistics, **how)
        return tmp_path / name

    full, empty = write("full", 2), write("empty", 0)
    other = tmp_path / "other"
    pq.write_table(pa.table({"event": pa.array([], pa.float64()), "more": pa.array([], pa.string())}), other)
    none = tmp_path / "no row group"
    with pq.ParquetWriter(none, pa.schema({"event": pa.null()})):
        pass
    for places in ([full], [empty, full], [full, empty], [other, full, none], [none, empty, full, other]):
        ntuple = backplane.ntuple(places)
        assert (ntuple.columns, ntuple.entries) == ({"event": "int", "good": "bool"}, 2)
        assert ntuple.arrays(["event"], where="good")["event"].tolist() == [BIG]
        assert int(ntuple.arrays([f"event == {BIG - 1}"])[f"event == {BIG - 1}"].sum()) == 0
    assert backplane.ntuple([empty, other]).entries == 0


def test_a_column_without_a_type_goes_with_every_other(chain: Chain) -> None:
    nothing = pa.nulls(2)
    for other in (pa.array([BIG]), pa.array([True])):
        assert x_of(chain(nothing, other)).tolist() == [None, None, other[0].as_py()]
        assert x_of(chain(other, nothing)).tolist() == [other[0].as_py(), None, None]
    np.testing.assert_array_equal(x_of(chain(nothing, pa.array([0.5]))), [np.nan, np.nan, 0.5])
    assert chain(nothing).unusable == {"x": "has no type: all its values are missing"}


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("page", ["1.0", "2.0"])
@pytest.mark.parametrize("is_checked", [False, True])
def test_every_codec_is_read(chain: Chain, codec: str, page: str, is_checked: bool) -> None:
    values = pa.array([*range(5000), None])
    how = {"compression": codec, "data_page_version": page, "write_page_checksum": is_checked}
    assert x_of(chain(values, **how)).tolist() == values.to_pylist()


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        (pa.array(range(5000)), "DELTA_BINARY_PACKED"),
        (pa.array(range(5000), pa.int32()), "BYTE_STREAM_SPLIT"),
        (pa.array(np.arange(5000.0)), "BYTE_STREAM_SPLIT"),
        (pa.array(np.arange(5000) % 3 == 0), "RLE"),
    ],
)
def test_every_encoding_is_read(chain: Chain, values: pa.Array, encoding: str) -> None:
    found = x_of(chain(values, use_dictionary=False, column_encoding={"x": encoding}))
    assert found.tolist() == values.to_pylist()


@pytest.mark.parametrize(("dictionary", "page"), [(False, r"page \d+"), (True, "dictionary page")])
def test_a_page_that_differs_from_its_checksum_is_damaged(tmp_path: Path, dictionary: bool, page: str) -> None:
    place, values = tmp_path / "f.parquet", np.arange(5000.0)
    table = pa.table({"y": values, "x": values})
    pq.write_table(table, place, use_dictionary=dictionary, write_page_checksum=True, compression="none")
    raw = bytearray(place.read_bytes())
    raw[raw.rfind(np.float64(500).tobytes()) + 6] ^= 0x10
    place.write_bytes(raw)
    ntuple = backplane.ntuple(place)
    with pytest.raises(backplane.CorruptError, match=rf'f\.parquet: row group 0, column "x": {page}: .*CRC'):
        x_of(ntuple)
    assert ntuple.arrays(["y"])["y"].tolist() == values.tolist()


def test_two_columns_of_one_name_are_not_supported(tmp_path: Path) -> None:
    place = tmp_path / "f.parquet"
    pq.write_table(pa.table([[1], [2], [3]], names=["x", "y", "x"]), place)
    ntuple = backplane.ntuple(place)
    assert ntuple.columns == {"y": "int"}
    with pytest.raises(backplane.UnsupportedError, match='column "x" at 1 is there 2 times'):
        x_of(ntuple)
    pq.write_table(pa.table({"x": [1], "y": [2]}), tmp_path / "one")
    both = backplane.ntuple([tmp_path / "one", place])
    assert both.arrays(["y"])["y"].tolist() == [2, 2]
    with pytest.raises(backplane.UnsupportedError, match=r'column "x" at 1 is there 2 times.*f\.parquet'):
        x_of(both)


class _Keys(pe.KmsClient):  # type: ignore[misc]
    def wrap_key(self, key_bytes: bytes, _master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("is_footer_plain", [False, True])
def test_what_is_encrypted_is_not_called_damaged(tmp_path: Path, is_footer_plain: bool) -> None:
    configuration = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["x"]}, plaintext_footer=is_footer_plain, double_wrapping=False
    )
    factory = pe.CryptoFactory(lambda _configuration: _Keys())
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    place, table = tmp_path / "f.parquet", pa.table({"x": [1.0], "y": [2.0]})
    with pq.ParquetWriter(place, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(backplane.UnsupportedError, match="is encrypted"):
        x_of(backplane.ntuple(place))
    if is_footer_plain:
        ntuple = backplane.ntuple(place)
        assert ntuple.unusable == {"x": "is encrypted"}
        assert ntuple.arrays(["y"])["y"].tolist() == [2.0]


def footer_of(raw: bytes | bytearray) -> int:
    return len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")


@pytest.mark.parametrize(("codec", "why"), [(3, "LZO"), (8, "codec 8"), (33, "codec 33")])
def test_codecs_that_are_not_read_are_named(tmp_path: Path, codec: int, why: str) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"column": [1.0]}), buffer, compression="none")
    raw = bytearray(buffer.getvalue())
    at = raw.index(b"\x06column\x15\x00", footer_of(raw))
    raw[at + 8] = codec << 1
    (tmp_path / "f.parquet").write_bytes(raw)
    with pytest.raises(backplane.UnsupportedError, match=f'column "column" .*{why}'):
        backplane.ntuple(tmp_path / "f.parquet").arrays(["column"])


def test_a_damaged_footer_is_told_once_and_quietly(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": [1.0]}), buffer, use_dictionary=False, compression="none", write_statistics=False)
    raw = bytearray(buffer.getvalue())
    # data_page_offset 4, as a zigzag number.
    raw[raw.index(b"\x26\x08", footer_of(raw)) + 1] = 0x07
    (tmp_path / "offset").write_bytes(raw)
    good = buffer.getvalue()
    for number, at in enumerate(range(footer_of(good), len(good) - 8, 3)):
        raw = bytearray(good)
        raw[at] ^= 0xFF
        (tmp_path / str(number)).write_bytes(raw)
    code = """
import backplane, pathlib, sys
for place in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    try:
        backplane.ntuple(place).arrays(["x"])
    except backplane.BackplaneError as error:
        assert not isinstance(error, backplane.InternalError), error
        print(place.name, error)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert any(line.startswith("offset ") for line in done.stdout.splitlines())


def rewrite(place: Path, value: float) -> None:
    pq.write_table(pa.table({"x": [value]}), place, compression="none")


def test_a_replaced_file_is_never_answered_from_old_columns(tmp_path: Path) -> None:
    place, new = tmp_path / "f.parquet", tmp_path / "new"
    rewrite(place, 1.0)
    before = place.stat()
    held = backplane.ntuple(place)
    assert x_of(held).tolist() == [1.0]
    rewrite(new, 2.0)
    new.replace(place)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (place.stat().st_size, place.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert x_of(backplane.ntuple(place)).tolist() == [2.0]
    with pytest.raises(backplane.InvalidError, match=r"f\.parquet: changed since the n-tuple was opened"):
        x_of(held)
    place.unlink()
    with pytest.raises(backplane.NotFoundError):
        x_of(held)


def test_a_file_rewritten_in_place_is_never_answered_from_old_columns(tmp_path: Path) -> None:
    place = tmp_path / "f.parquet"
    rewrite(place, 1.0)
    before = place.stat()
    assert x_of(backplane.ntuple(place)).tolist() == [1.0]
    while place.stat().st_ctime_ns == before.st_ctime_ns:
        rewrite(place, 2.0)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (place.stat().st_ino, place.stat().st_size) == (before.st_ino, before.st_size)
    assert x_of(backplane.ntuple(place)).tolist() == [2.0]


def test_a_chain_holds_a_bounded_number_of_files(tmp_path: Path) -> None:
    rewrite(tmp_path / "0.parquet", 1.0)
    one = (tmp_path / "0.parquet").read_bytes()
    for number in range(1, 2000):
        (tmp_path / f"{number}.parquet").write_bytes(one)
    code = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import backplane
backplane.set_cache_capacity(0)
os.chdir(sys.argv[1])
ntuple = backplane.ntuple("*.parquet", threads=16)
os.chdir("/")
assert ntuple.arrays(["x"])["x"].sum() == ntuple.arrays(["x + 0"])["x + 0"].sum() == len(ntuple) == 2000
assert len(os.listdir("/proc/self/fd")) < 128
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


# Names that look like patterns, with what they match otherwise.
@pytest.mark.parametrize("name", ["run[1].parquet", "run*.parquet", "run?.parquet", "[!a]", "run:12", "*"])
def test_a_literal_name_wins_over_a_pattern(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, other in enumerate(["run1.parquet", "runs.parquet", "b", name]):
        rewrite(tmp_path / other, float(value))
    monkeypatch.chdir(tmp_path)
    for place in (name, tmp_path / name, f"file://{tmp_path}/{name}", f"{tmp_path}/{name}"):
        assert x_of(backplane.ntuple(place)).tolist() == [3.0]
    (tmp_path / name).unlink()
    if name not in ("[!a]", "*", "run:12"):
        assert 3.0 not in x_of(backplane.ntuple(tmp_path / name)).tolist()


def test_a_directory_with_the_name_of_a_pattern_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "run[1]").mkdir()
    rewrite(tmp_path / "run[1]" / "a.parquet", 5.0)
    assert x_of(backplane.ntuple(tmp_path / "run[1]" / "*.parquet")).tolist() == [5.0]


# In a facility


def encoded(value: float) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": [value]}), buffer, compression="none")
    return buffer.getvalue()


def test_literal_names_win_in_a_facility(live: backplane.Facility) -> None:
    files = live.filesystem()
    names = ["run1.parquet", "run2.parquet", "run[1].parquet", "run*", "run:12"]
    for number, name in enumerate(names):
        files.pipe(f"/literal/{name}", encoded(float(number)))
    for name, numbers in (("run[1].parquet", [2]), ("run*", [3]), ("run:12", [4]), ("run[12].parquet", [0, 1])):
        path, found = f"/literal/{name}", [f"/literal/{names[number]}" for number in numbers]
        assert live.glob(path) == files.glob(path) == files.expand_path(path) == found
        assert x_of(live.ntuple(path)).tolist() == numbers


def test_a_replaced_file_of_a_facility_is_never_answered_from_old_columns(live: backplane.Facility) -> None:
    path = "/replaced.parquet"
    for value in (1.0, 2.0, 3.0):
        # Of the same size and, most often, within the same second.
        live.filesystem().pipe(path, encoded(value))
        held = live.ntuple(path)
        assert x_of(held).tolist() == x_of(live.ntuple(path)).tolist() == [value]
    live.filesystem().pipe(path, encoded(4.0))
    with pytest.raises(backplane.InvalidError, match="changed since the n-tuple was opened"):
        x_of(held)
    live.remove(path)
    with pytest.raises(backplane.NotFoundError):
        x_of(held)
