"""Other people's programs read and write a facility by fsspec: uproot, pandas, pyarrow, dask."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

from clients import missing, run
from conftest import one_facility
from facility import Facility

pandas = pytest.importorskip("pandas")
dask_frames = pytest.importorskip("dask.dataframe")
parquet = pytest.importorskip("pyarrow.parquet")
dataset = pytest.importorskip("pyarrow.dataset")

ROWS = 50_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Start one facility for all of these."""
    directory = tmp_path_factory.mktemp("fsspec") / "facility"
    options = {"volume_size": "64MiB", "volumes": 4, "slots": 6, "drives": 1}
    with one_facility(directory, **options) as facility:
        facility.up()
        yield facility


@pytest.fixture(autouse=True)
def _found(shared: Facility, monkeypatch: pytest.MonkeyPatch) -> None:
    """Say where the facility is, as users do."""
    monkeypatch.setenv("BP_FACILITY", str(shared.directory))
    if "bp" not in fsspec.available_protocols():
        missing("the Python package, with its entry point,")


def frame() -> pandas.DataFrame:
    """Make a table."""
    rng = np.random.default_rng(1)
    return pandas.DataFrame(
        {
            "run": np.repeat(np.arange(ROWS // 1000, dtype=np.int32), 1000),
            "mass": rng.normal(91.2, 2.5, ROWS),
            "charge": rng.choice(np.array([-1, 1], dtype=np.int8), ROWS),
        }
    )


def urls(shared: Facility, path: str) -> list[str]:
    """Name one path in both ways."""
    return [f"bp://{path}", f"bp://{shared.root.removeprefix('root://')}{path}"]


def test_the_protocol_is_found_without_an_import() -> None:
    """A process that never heard of us opens a URL of ours."""
    program = """
import fsspec, sys
with fsspec.open("bp:///greeting", "wb") as file:
    file.write(b"hello")
with fsspec.open("bp:///greeting", "r") as file:
    print(file.read())
assert not any(name.startswith("XRootD") for name in sys.modules)
"""
    assert run(sys.executable, "-W", "error", "-c", program).out == "hello\n"


def test_root_is_left_to_others_unless_asked() -> None:
    """Only `register(root=True)` takes the place of fsspec-xrootd."""
    program = """
import fsspec, backplane.fsspec
backplane.fsspec.register()
try:
    before = fsspec.get_filesystem_class("root").__module__
except (ImportError, ValueError):
    before = "nobody"
backplane.fsspec.register(root=True)
print(before.split(".")[0], fsspec.get_filesystem_class("root").__module__.split(".")[0])
"""
    before, after = run(sys.executable, "-c", program).out.split()
    assert (before in ("fsspec_xrootd", "nobody"), after) == (True, "backplane")


UPROOT = """
import json, sys, zlib
import numpy as np, uproot
import backplane.fsspec

backplane.fsspec.register(root=True)
sums = {}
for url in sys.argv[1:]:
    with uproot.open(url) as file:
        columns = file["events"].arrays(library="np")
        whole = [zlib.adler32(np.ascontiguousarray(columns[name]).tobytes()) for name in sorted(columns)]
        bins = zlib.adler32(file["hist"].values().tobytes())
    chunks = 1
    for chunk in uproot.iterate({url: "events"}, ["mass"], step_size=7_777, library="np"):
        chunks = zlib.adler32(chunk["mass"].tobytes(), chunks)
    sums[url] = [*whole, bins, chunks]
assert not any(name.startswith(("XRootD", "fsspec_xrootd")) for name in sys.modules), "the other client was used"
print(json.dumps(sums))
"""


def test_uproot_reads_the_same_by_every_url(shared: Facility, tmp_path: Path) -> None:
    """Whole columns, chunks and a histogram, by `bp://` and by `root://`, online and from tape."""
    uproot = pytest.importorskip("uproot")
    local, table = tmp_path / "events.root", frame()
    with uproot.recreate(local) as file:
        tree = file.mktree("events", {name: table[name].dtype for name in table})
        for start in range(0, ROWS, 5000):
            tree.extend({name: table[name].to_numpy()[start : start + 5000] for name in table})
        file["hist"] = np.histogram(table["mass"], bins=100, range=(80, 100))
    shared.put(local, "/uproot/events.root")
    places = [str(local), *urls(shared, "/uproot/events.root"), shared.url("/uproot/events.root")]
    sums = json.loads(run(sys.executable, "-W", "error", "-c", UPROOT, *places).out)
    assert len(sums) == 4
    assert len({tuple(each) for each in sums.values()}) == 1, sums
    shared.archive_and_evict("/uproot/events.root")
    recalled = json.loads(run(sys.executable, "-W", "error", "-c", UPROOT, "bp:///uproot/events.root").out)
    assert recalled["bp:///uproot/events.root"] == sums[str(local)]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "json"])
def test_pandas_writes_and_reads(shared: Facility, suffix: str) -> None:
    """Tables come back as they went."""
    table, path = frame().head(5000), f"/pandas/table.{suffix}"
    for url in urls(shared, path):
        if "csv" in suffix:
            table.to_csv(url, index=False)
            found = pandas.read_csv(url, dtype=dict(table.dtypes))
        elif suffix == "json":
            table.to_json(url, orient="records", double_precision=15)
            found = pandas.read_json(url, orient="records", dtype=dict(table.dtypes))
        else:
            table.to_parquet(url)
            found = pandas.read_parquet(url, columns=["mass", "run", "charge"])[list(table)]
        pandas.testing.assert_frame_equal(found, table)
    assert shared.state(path) == "online"


def test_pandas_hears_what_is_not_there() -> None:
    """The exception is the one that a local file would give."""
    with pytest.raises(FileNotFoundError):
        pandas.read_csv("bp:///none.csv")
    with pytest.raises(FileNotFoundError):
        pandas.read_parquet("bp:///none.parquet")


def test_pyarrow_reads_columns_and_data_sets(shared: Facility) -> None:
    """By our file system as it is, and by its wrapper in pyarrow."""
    pyarrow, arrow_fs = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.fs")
    ours = fsspec.filesystem("bp")
    table = pyarrow.Table.from_pandas(frame(), preserve_index=False)
    wrapped = arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(ours))
    parquet.write_table(table, "/arrow/one.parquet", filesystem=ours, row_group_size=5000)
    for system in (ours, wrapped):
        found = parquet.read_table("/arrow/one.parquet", filesystem=system, columns=["mass"], pre_buffer=True)
        assert found["mass"].equals(table["mass"])
    dataset.write_dataset(table, "/arrow/set", filesystem=wrapped, format="parquet", partitioning=["run"])
    whole = dataset.dataset("/arrow/set", filesystem=ours, partitioning=["run"])
    assert whole.count_rows() == ROWS
    some = whole.to_table(columns=["mass"], filter=dataset.field("run") == 7)
    assert sorted(some["mass"].to_pylist()) == sorted(table["mass"].slice(7000, 1000).to_pylist())
    info = wrapped.get_file_info(["/arrow/one.parquet", "/arrow/set", "/arrow/none"])
    assert [each.type.name for each in info] == ["File", "Directory", "NotFound"]
    wrapped.move("/arrow/one.parquet", "/arrow/two.parquet")
    wrapped.delete_dir("/arrow/set")
    with wrapped.open_input_file("/arrow/two.parquet") as file:
        assert file.read_at(4, 0) == b"PAR1"
    assert shared.read("/arrow/two.parquet")[:4] == b"PAR1"


# This dask calls pandas as the next pandas will not have it.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask_reads_and_writes_in_many_tasks(shared: Facility, scheduler: str) -> None:
    """Tables in several files, read by patterns; a file of text in blocks."""
    dask = pytest.importorskip("dask")
    table, top = frame(), f"/dask/{scheduler}"
    with dask.config.set(scheduler=scheduler, num_workers=2):
        tasks = dask_frames.from_pandas(table, npartitions=5)
        tasks.to_parquet(f"bp://{top}/parquet")
        for url in urls(shared, f"{top}/parquet"):
            back = dask_frames.read_parquet(url)
            assert back.npartitions == 5
            assert back["mass"].sum().compute() == pytest.approx(table["mass"].sum())
        some = dask_frames.read_parquet(f"bp://{top}/parquet/*.parquet", columns=["run"], filters=[("run", "==", 3)])
        assert len(some) == 1000
        tasks.to_csv(f"bp://{top}/csv/part-*.csv", index=False)
        lines = dask_frames.read_csv(f"bp://{top}/csv/*.csv", blocksize=50_000)
        assert lines.npartitions > 5
        assert lines["run"].sum().compute() == table["run"].sum()


def test_caching_file_systems_of_fsspec() -> None:
    """A chained URL keeps a local copy, and sees when the file is another one, however soon."""
    ours = fsspec.filesystem("bp")
    options = {"filecache": {"check_files": True}}
    for content in (b"first", b"first", b"again"):
        ours.pipe("/cached", content)
        with fsspec.open("filecache::bp:///cached", "rb", **options) as file:
            assert file.read() == content
