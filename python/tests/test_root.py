"""ROOT files: RNTuples and TTrees mean what uproot reads of them."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot

import backplane
from backplane.analysis import _tree

FILES = sorted((Path(__file__).parents[2] / "crates/ntuple/testdata/rntuple").glob("*.root"))


def leaves(name: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Give the columns that an array of records has, with their values."""
    fields = ak.fields(array)
    if not fields and not ak.is_tuple(array):
        yield name, array
    for field in fields:
        # Elements of a tuple have an underscore in the file.
        yield from leaves(f"{name}._{field}" if ak.is_tuple(array) else f"{name}.{field}", array[field])


def expected(path: Path, tree: str) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    table = uproot.open(path)[tree]
    fields = table.keys(recursive=False)
    # Uproot takes a while for each of the thousand fields of a NanoAOD file.
    for field in fields[:: len(fields) // 50 + 1]:
        columns.update(leaves(field, table[field].array()))
    return columns


def groups(names: list[str]) -> Iterator[list[str]]:
    """Divide names by what stands before the first underscore or dot; those without one stand alone."""
    found: dict[str, list[str]] = {}
    for name in names:
        begin = re.split("[_.]", name)[0]
        found.setdefault(name if begin == name else f"{begin}_", []).append(name)
    yield from found.values()


def same(own: Any, other: Any) -> bool:
    own, other = ak.Array(own), ak.Array(other)
    if own.ndim != other.ndim or (own.ndim > 1 and ak.any(ak.num(own) != ak.num(other))):
        return False
    own, other = ak.to_numpy(ak.ravel(own)), ak.to_numpy(ak.ravel(other))
    return bool(np.array_equal(own, other, equal_nan=own.dtype.kind == "f"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_column_that_is_read_is_that_of_uproot(path: Path) -> None:
    trees = [key.split(";")[0] for key, kind in uproot.open(path).classnames().items() if kind == "ROOT::RNTuple"]
    for tree in trees:
        ours, theirs = backplane.ntuple(path, tree=tree), expected(path, tree)
        assert ours.entries == uproot.open(path)[tree].num_entries
        known = ours.columns
        names = [name for name in known if name in theirs]
        # Lists whose names begin alike would be one collection.
        for group in groups(names):
            values = ours.arrays([f"`{name}`" for name in group])
            for name in group:
                assert same(values[f"`{name}`"], theirs[name]), name
        for name, array in theirs.items():
            # Numbers and lists of them are never refused.
            is_hidden = name.startswith("_collection") or "::" in name
            if not is_hidden and array.ndim <= 2 and "string" not in str(array.type) and "union" not in str(array.type):
                assert name in known, (name, ours.unusable)
        for why in ours.unusable.values():
            assert why


def test_an_rntuple_fills_what_its_parquet_twin_fills(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 5, 1000)
    jets = ak.unflatten(rng.exponential(30, counts.sum()).astype("f4"), counts)
    columns = {"met": rng.exponential(20, 1000), "n": np.arange(1000), "good": rng.random(1000) < 0.5}
    pq.write_table(
        pa.table(columns | {"Jet_pt": ak.to_arrow(jets, extensionarray=False)}),
        tmp_path / "a.parquet",
        row_group_size=300,
    )
    for compression in (None, uproot.ZLIB(4), uproot.LZMA(1), uproot.LZ4(4), uproot.ZSTD(3)):
        with uproot.recreate(tmp_path / "a.root", compression=compression) as file:
            table = ak.Array(columns | {"Jet_pt": jets})
            file.mkrntuple("Events", table[:400])
            file["Events"].extend(table[400:])
        filled = [
            backplane.ntuple(tmp_path / name).hist(
                "Jet_pt[Jet_pt > 10]", bins=20, range=(0, 100), where="good and n > 10", weight="met"
            )
            for name in ("a.parquet", "a.root")
        ]
        assert np.allclose(filled[0].values(flow=True), filled[1].values(flow=True), rtol=1e-12)
    both = backplane.ntuple([tmp_path / "a.parquet", tmp_path / "a.root"])
    assert both.entries == 2000


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 4, 1000)
    muons = ak.unflatten(rng.exponential(20, counts.sum()).astype("f4"), counts)
    columns = {
        "x": rng.normal(size=1000).astype("f4"),
        "n": np.arange(1000, dtype="u2"),
        "good": rng.random(1000) < 0.5,
        "Muon_pt": muons,
        "vertex": rng.normal(size=(1000, 3)),
    }
    with uproot.recreate(tmp_path / "tree.root") as file:
        # What is only assigned becomes an RNTuple.
        file.mktree("dir/Events", columns)
        file["dir/Events"].extend(columns)
    assert uproot.open(tmp_path / "tree.root").classname_of("dir/Events") == "TTree"
    return tmp_path / "tree.root"


def test_a_tree_is_read_column_by_column(tree: Path) -> None:
    ours, theirs = backplane.ntuple(tree), uproot.open(tree)["dir/Events"]
    assert ours.entries == 2000
    assert ours.columns == {
        "x": "float",
        "n": "int",
        "good": "bool",
        "nMuon_pt": "int",
        "Muon_pt": "list[float]",
        "vertex": "list[float]",
    }
    for name, values in ours.arrays(ours.columns).items():
        assert same(values, theirs[name].array()), name
    before = backplane.cache_use()
    filled = ours.hist("x", bins=10, range=(-3, 3), where="good")
    assert filled.sum(flow=True) == np.sum(theirs["good"].array())
    assert backplane.cache_use().misses == before.misses


def test_values_that_no_kernel_keeps_are_refused(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "big.root") as file:
        file.mktree("Events", {"big": np.array([1, 1 << 63], "u8")})
    with pytest.raises(
        backplane.UnsupportedError, match=r'big\.root: branch "big" from entry 0: 922.*808 is too large'
    ):
        backplane.ntuple(tmp_path / "big.root").arrays(["big"])


def test_a_failure_to_read_a_tree_keeps_its_kind(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_gone(_file: Any, _buffer: Any) -> int:
        raise backplane.UnavailableError(f"{tree}: no server has it", "try again")

    ours = backplane.ntuple(tree)
    monkeypatch.setattr(_tree._File, "readinto", is_gone)
    for read in (lambda: ours.arrays(["x"]), lambda: backplane.ntuple(tree)):
        with pytest.raises(backplane.UnavailableError) as failure:
            read()
        assert re.fullmatch(rf"{tree}: (branch|TTree) .*: no server has it", failure.value.what)
        assert failure.value.what.count(str(tree)) == 1
        assert failure.value.hint == "try again"


def test_a_tree_that_is_opened_can_be_interrupted(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_file: Any, _buffer: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(_tree._File, "readinto", interrupt)
    with pytest.raises(KeyboardInterrupt):
        backplane.ntuple(tree)


def test_columns_that_another_uproot_numbered_are_read_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def misses() -> int:
        before = backplane.cache_use().misses
        backplane.ntuple(tree).arrays(["x"])
        return backplane.cache_use().misses - before

    first = misses()
    assert first > misses() == 0
    monkeypatch.setattr(uproot, "__version__", "0.1")
    assert misses() == first


def test_which_tree_is_meant(tmp_path: Path, tree: Path) -> None:
    with pytest.raises(backplane.NotFoundError, match='no n-tuple "Muons", there are "dir/Events"'):
        backplane.ntuple(tree, tree="Muons")
    several = next(path for path in FILES if "multiple-rntuples" in path.stem)
    with pytest.raises(backplane.InvalidError, match='has 2 n-tuples: "A", "B"'):
        backplane.ntuple(several)
    assert backplane.ntuple(several, tree="B").columns == {"g": "int"}
    with uproot.recreate(tmp_path / "none.root") as file:
        file["text"] = "no n-tuple"
    with pytest.raises(backplane.NotFoundError, match="no RNTuple or TTree"):
        backplane.ntuple(tmp_path / "none.root")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    data = bytearray(FILES[0].read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    (tmp_path / "bad.root").write_bytes(data)

    def read() -> None:
        broken = backplane.ntuple(tmp_path / "bad.root")
        broken.arrays(broken.columns)

    with pytest.raises(backplane.CorruptError, match=r"bad\.root: .*checksum does not match"):
        read()
