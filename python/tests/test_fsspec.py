"""A real facility as a file system of fsspec."""

from __future__ import annotations

import gzip
import itertools
import multiprocessing
import pickle
import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.callbacks import Callback
from hypothesis import given
from hypothesis import strategies as st

import backplane
from backplane import Facility
from backplane.fsspec import FacilityFileSystem, RootFileSystem, RootsFileSystem, WriteFile, register
from backplane.fsspec._handles import AGE_MAX_S, Handles
from backplane.fsspec._ranges import merge

CONTENT = random.Random(1).randbytes(3_000_001)
_numbers = itertools.count()


@pytest.fixture(params=["bp", "root"])
def fs(request: pytest.FixtureRequest, live: Facility) -> Any:
    """The same files by both file systems."""
    if request.param == "bp":
        return live.filesystem()
    return RootFileSystem(live.root.removeprefix("root://"))


@pytest.fixture
def top(fs: Any) -> str:
    """A directory of our own."""
    top = f"/fsspec/{next(_numbers)}"
    fs.makedirs(top)
    return top


# Where files are


def test_urls_name_door_and_path(live: Facility, monkeypatch: pytest.MonkeyPatch) -> None:
    host = live.root.removeprefix("root://")
    monkeypatch.setenv("BP_FACILITY", str(live.http))
    register()
    for url in ("bp:///a/b", f"bp://{host}/a/b", f"bp://{live.user}@{host}/a/b/"):
        fs, path = fsspec.core.url_to_fs(url)
        assert isinstance(fs, FacilityFileSystem)
        assert path == "/a/b"
        assert fs.unstrip_protocol(path) == f"bp://{host}/a/b"
    strip = FacilityFileSystem._strip_protocol
    assert strip(["bp://h:1", "bp://h:1/", "bp:///a/", "//a", "a", "/", Path("/p/q")]) == [
        "/", "/", "/a", "/a", "/a", "/", "/p/q",
    ]  # fmt: skip
    strip = RootFileSystem._strip_protocol
    assert strip(["root://h:1//a/b", "xroot://u@h/a", "root://h//a?authz=x://y"]) == ["/a/b", "/a", "/a?authz=x://y"]
    assert RootFileSystem("h:1").unstrip_protocol("/a") == "root://h:1//a"
    assert RootsFileSystem("h:1").unstrip_protocol("/a") == "roots://h:1//a"
    with pytest.raises(ValueError, match="no XRootD server was named"):
        RootFileSystem()


def test_one_instance_for_each_place(live: Facility, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = live.filesystem()
    monkeypatch.setenv("BP_FACILITY", str(live.http))
    assert FacilityFileSystem() is fs
    assert FacilityFileSystem(str(live.http)) is fs
    assert FacilityFileSystem(live.root) != fs
    assert FacilityFileSystem(user="alice") != fs
    monkeypatch.setenv("BP_FACILITY", "root://elsewhere:1")
    assert FacilityFileSystem() != fs
    # What is pickled here means the same elsewhere.
    assert pickle.loads(pickle.dumps(fs)) is fs
    assert RootFileSystem("alice@h:1") is RootFileSystem("h:1", user="alice")
    monkeypatch.delenv("BP_FACILITY")
    with pytest.raises(backplane.InvalidError, match="no facility was named"):
        FacilityFileSystem()


@pytest.fixture
def known() -> Iterator[dict[str, type]]:
    """What fsspec has loaded: nothing of ours, and afterwards what it had."""
    # The name `fsspec.registry` is the read-only view of this dictionary.
    known: dict[str, type] = sys.modules["fsspec.registry"]._registry
    before = dict(known)
    for protocol in ("bp", "root", "roots", "xroot", "xroots"):
        known.pop(protocol, None)
    yield known
    known.clear()
    known.update(before)


def test_registration_takes_root_only_if_asked(known: dict[str, type]) -> None:
    register()
    assert fsspec.get_filesystem_class("bp") is FacilityFileSystem
    assert "root" not in known
    register(root=True)
    assert fsspec.get_filesystem_class("root") is RootFileSystem
    assert fsspec.get_filesystem_class("xroots") is RootsFileSystem


# Names


def test_names(fs: Any, top: str) -> None:
    fs.pipe({f"{top}/b/2": b"22", f"{top}/b/1": b"1", f"{top}/a": b""})
    assert fs.ls(top, detail=False) == [f"{top}/a", f"{top}/b"]
    assert [(entry["name"], entry["type"], entry["size"]) for entry in fs.ls(f"{top}/b")] == [
        (f"{top}/b/1", "file", 1),
        (f"{top}/b/2", "file", 2),
    ]
    assert fs.ls(f"{top}/a", detail=False) == [f"{top}/a"]
    assert fs.ls(f"{top}/b/2")[0] == fs.info(f"{top}/b/2") == fs.ls(f"{top}/b")[1]
    assert fs.info(top)["type"] == "directory"
    assert fs.find(top) == [f"{top}/a", f"{top}/b/1", f"{top}/b/2"]
    assert fs.glob(f"{top}/**/[12]") == [f"{top}/b/1", f"{top}/b/2"]
    assert fs.glob(f"{top}/none/*") == []
    assert [(path, *map(sorted, rest)) for path, *rest in fs.walk(top)] == [
        (top, ["b"], ["a"]),
        (f"{top}/b", [], ["1", "2"]),
    ]
    assert fs.du(top) == 3
    assert (fs.exists(top), fs.exists(f"{top}/none"), fs.exists(f"{top}/a/below")) == (True, False, False)
    assert (fs.isdir(top), fs.isfile(top), fs.isdir(f"{top}/a"), fs.isfile(f"{top}/a")) == (True, False, False, True)
    assert fs.size(f"{top}/b/2") == 2


def test_directories(fs: Any, top: str) -> None:
    fs.mkdir(f"{top}/x/y/z")
    fs.makedirs(f"{top}/x/y/z", exist_ok=True)
    for again in (fs.mkdir, fs.makedirs):
        with pytest.raises(FileExistsError):
            again(f"{top}/x/y/z")
    with pytest.raises(FileNotFoundError):
        fs.mkdir(f"{top}/n/o", create_parents=False)
    fs.makedirs("/", exist_ok=True)
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir(f"{top}/x/y")
    fs.rmdir(f"{top}/x/y/z")
    assert fs.ls(f"{top}/x/y") == []
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{top}/x/y/z")


def test_removal(fs: Any, top: str) -> None:
    fs.pipe({f"{top}/t/{name}": b"x" for name in ("a", "b", "d/e", "d/f/g")})
    fs.rm(f"{top}/t/a")
    fs.rm(f"{top}/t/[b]")
    assert fs.find(top) == [f"{top}/t/d/e", f"{top}/t/d/f/g"]
    with pytest.raises(OSError, match="directory"):
        fs.rm(f"{top}/t/d")
    fs.rm(f"{top}/t", recursive=True)
    assert fs.ls(top) == []
    for recursive in (False, True):
        with pytest.raises(FileNotFoundError):
            fs.rm(f"{top}/t", recursive=recursive)


def test_moves(fs: Any, top: str) -> None:
    fs.pipe({f"{top}/a": b"a", f"{top}/d/b": b"b"})
    fs.mv(f"{top}/a", f"{top}/c")
    fs.mv(f"{top}/c", f"{top}/d")
    fs.mv(f"{top}/d", f"{top}/e", recursive=True)
    fs.mv(f"{top}/e/b", f"{top}/e/b")
    assert fs.find(top) == [f"{top}/e/b", f"{top}/e/c"]
    assert fs.cat(f"{top}/e/*") == {f"{top}/e/b": b"b", f"{top}/e/c": b"a"}
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{top}/none", f"{top}/x")


def test_copies(fs: Any, top: str) -> None:
    fs.pipe({f"{top}/s/a": CONTENT, f"{top}/s/d/what b%41": b"b"})
    fs.cp_file(f"{top}/s/a", f"{top}/new/dir/a")
    fs.cp_file(f"{top}/s/a", f"{top}/new/dir/a")
    assert fs.cat(f"{top}/new/dir/a") == CONTENT
    if isinstance(fs, FacilityFileSystem):
        fs.copy(f"{top}/s", f"{top}/tree", recursive=True)
        assert fs.cat(f"{top}/tree/d/what b%41") == b"b"
    with pytest.raises(FileNotFoundError):
        fs.cp_file(f"{top}/none", f"{top}/x")


def test_a_facility_copies_by_itself(live: Facility, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = live.filesystem()
    fs.pipe("/fsspec/source %41", b"content")
    monkeypatch.setattr("backplane._file.FacilityFile.copy_from", None)
    fs.cp_file("/fsspec/source %41", "/fsspec/deep/er/target %42")
    assert fs.cat("/fsspec/deep/er/target %42") == b"content"


def test_times_and_sums(fs: Any, top: str) -> None:
    start = datetime.now(UTC).replace(microsecond=0)
    fs.pipe(f"{top}/a", b"abc")
    assert start <= fs.modified(f"{top}/a") <= datetime.now(UTC)
    assert start <= fs.created(f"{top}/a") <= datetime.now(UTC)
    assert fs.checksum(f"{top}/a", "adler32") == ("adler32", "024d0127")
    assert len(fs.checksum(f"{top}/a")) == 2
    key = fs.ukey(f"{top}/a")
    assert fs.ukey(f"{top}/a") == key
    fs.pipe(f"{top}/a", b"abcd")
    assert fs.ukey(f"{top}/a") != key
    fs.chmod(f"{top}/a", 0o640)
    assert fs.info(f"{top}/a").get("mode", 0o640) & 0o777 == 0o640


def test_a_quick_change_changes_the_key(live: Facility) -> None:
    fs = live.filesystem()
    keys = set()
    for content in (b"one", b"two", b"six"):
        fs.pipe("/fsspec/key", content)
        keys.add(fs.ukey("/fsspec/key"))
    assert len(keys) == 3


# Content


def test_files_are_opened_in_the_usual_ways(fs: Any, top: str) -> None:
    path = f"{top}/f"
    with fs.open(path, "wb") as file:
        file.write(CONTENT)
    with fs.open(path) as file:
        assert (file.size, file.path, file.fs) == (len(CONTENT), path, fs)
        assert file.info() == fs.info(path)
        assert file.read(5) == CONTENT[:5]
        copy = pickle.loads(pickle.dumps(file))
        assert copy.read() == CONTENT[5:]
        copy.close()
    with fs.open(path, block_size=1000) as file:
        file.seek(-10, 2)
        assert file.read() == CONTENT[-10:]
    with fs.open(f"{top}/text", "w", encoding="latin-1", newline="\r\n") as file:
        file.write("grün\n")
    assert fs.cat(f"{top}/text") == b"gr\xfcn\r\n"
    with fs.open(f"{top}/text", "r", encoding="latin-1") as file:
        assert file.readlines() == ["grün\n"]
    with pytest.raises(FileExistsError):
        fs.open(path, "xb")
    with fs.open(f"{top}/x", "x") as file:
        file.write("once")
    fs.touch(f"{top}/empty")
    assert fs.head(path, 3) + fs.tail(path, 3) == CONTENT[:3] + CONTENT[-3:]
    assert fs.cat([f"{top}/x", f"{top}/empty"]) == {f"{top}/x": b"once", f"{top}/empty": b""}


@pytest.mark.parametrize("mode", ["ab", "r+b", "rb+", "a", "w+b", "wb+", "r+"])
def test_modes_that_change_files_in_place_are_refused(fs: Any, top: str, mode: str) -> None:
    fs.touch(f"{top}/f")
    with pytest.raises(NotImplementedError, match="is not one of rb, wb, xb"):
        fs.open(f"{top}/f", mode)


@pytest.mark.parametrize("cache", ["readahead", "blockcache", "bytes", "all", "none", "background"])
def test_caches_of_fsspec(fs: Any, top: str, cache: str) -> None:
    fs.pipe(f"{top}/f", CONTENT)
    with fs.open(f"{top}/f", block_size=100_000, cache_type=cache) as file:
        file.seek(99_990)
        assert file.read(30) == CONTENT[99_990:100_020]
        assert file.readline() == CONTENT[100_020:].partition(b"\n")[0] + b"\n"


def test_compressed_files(fs: Any, top: str) -> None:
    with fs.open(f"{top}/f.gz", "wt", compression="infer") as file:
        file.write("line\n" * 1000)
    assert gzip.decompress(fs.cat(f"{top}/f.gz")) == b"line\n" * 1000
    with fs.open(f"{top}/f.gz", "rt", compression="gzip") as file:
        assert file.readline() == "line\n"
    with fsspec.open(fs.unstrip_protocol(f"{top}/g.gz"), "wb", compression="gzip") as file:
        file.write(b"x")
    assert gzip.decompress(fs.cat(f"{top}/g.gz")) == b"x"


@pytest.mark.parametrize(("mode", "options"), [("wb", {}), ("w", {}), ("wb", {"compression": "gzip"})])
def test_what_fails_is_given_up(fs: Any, top: str, mode: str, options: dict[str, str]) -> None:
    fs.pipe(f"{top}/f", b"before")

    def fail() -> None:
        with fs.open(f"{top}/f", mode, **options) as file:
            file.write("half" if mode == "w" else b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert fs.cat(f"{top}/f") == b"before"
    file = fs.open(f"{top}/f", mode, **options)
    file.write("half" if mode == "w" else b"half")
    with pytest.warns(ResourceWarning, match="not closed"):
        del file
    assert fs.cat(f"{top}/f") == b"before"


def test_transactions(fs: Any, top: str) -> None:
    fs.pipe(f"{top}/a", b"before")
    with fs.transaction:
        with fs.open(f"{top}/a", "wb") as file:
            assert isinstance(file, WriteFile)
            file.write(b"after")
        assert file.closed
        with fs.open(f"{top}/b", "w") as file:
            file.write("new")
        assert fs.cat(f"{top}/a") == b"before"
        assert not fs.isfile(f"{top}/b") or fs.size(f"{top}/b") == 0
    assert fs.cat(f"{top}/*") == {f"{top}/a": b"after", f"{top}/b": b"new"}

    def fail() -> None:
        with fs.transaction:
            with fs.open(f"{top}/a", "wb") as file:
                file.write(b"never")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert fs.cat(f"{top}/a") == b"after"


def test_ranges(fs: Any, top: str) -> None:
    fs.pipe({f"{top}/a": CONTENT, f"{top}/b": b"0123456789"})
    rng = random.Random(4)
    starts = [rng.randrange(len(CONTENT)) for _ in range(500)]
    ends = [start + rng.randrange(9000) for start in starts]
    expected = [CONTENT[start:end] for start, end in zip(starts, ends, strict=True)]
    for gap in (None, 0, 100, 1 << 20):
        assert fs.cat_ranges([f"{top}/a"] * 500, starts, ends, max_gap=gap, on_error="raise") == expected
    paths = [f"{top}/b", f"{top}/a", f"{top}/none", f"{top}/b", f"{top}/b"]
    found = fs.cat_ranges(paths, [2, 0, 0, -3, 7], [4, 9, 9, None, 2])
    assert found[:2] + found[3:] == [b"23", CONTENT[:9], b"789", b""]
    assert isinstance(found[2], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, 0, 1, on_error="raise")
    assert fs.cat_ranges([f"{top}/b"] * 2, 0, 1) == [b"0", b"0"]
    assert fs.cat_ranges([], [], []) == []
    with pytest.raises(ValueError, match="do not go together"):
        fs.cat_ranges([f"{top}/b"], [1, 2], [3])
    assert [fs.cat_file(f"{top}/b", start, end) for start, end in ((-3, None), (2, -2), (8, 99), (50, 60))] == [
        b"789",
        b"234567",
        b"89",
        b"",
    ]


def test_many_threads_use_one_file_system(fs: Any, top: str) -> None:
    fs.pipe({f"{top}/{name}": CONTENT for name in "ab"})

    def read(seed: int) -> bool:
        rng = random.Random(seed)
        path = f"{top}/{rng.choice('ab')}"
        start = rng.randrange(len(CONTENT))
        return bool(fs.cat_file(path, start, start + 7000) == CONTENT[start : start + 7000])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(200)))


def test_our_own_changes_are_seen_at_once(fs: Any, top: str) -> None:
    path = f"{top}/f"
    for content in (b"one", b"other", b"third"):
        fs.pipe(path, content)
        assert fs.cat(path) == content
        with fs.open(path, "wb") as file:
            file.write(content * 2)
        assert fs.cat(path) == content * 2
    fs.pipe(f"{top}/g", b"moved")
    fs.rm(path)
    with pytest.raises(FileNotFoundError):
        fs.cat(path)
    fs.mv(f"{top}/g", path)
    assert fs.cat(path) == b"moved"


class Counting(Callback):
    """Remembers what it heard."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[int] = []

    def call(self, *_: Any, **__: Any) -> None:
        self.heard.append(self.value)


def test_whole_files_come_and_go(fs: Any, top: str, tmp_path: Path) -> None:
    local, back = tmp_path / "local", tmp_path / "deep" / "back"
    local.write_bytes(CONTENT)
    for transfer, *names in ((fs.put_file, local, f"{top}/new/f"), (fs.get_file, f"{top}/new/f", back)):
        call: Any = Counting()
        transfer(*names, callback=call)
        assert (call.size, call.value) == (len(CONTENT), len(CONTENT))
        assert call.heard == sorted(call.heard)
    assert back.read_bytes() == CONTENT
    assert list(back.parent.iterdir()) == [back]
    with pytest.raises(FileExistsError):
        fs.put_file(local, f"{top}/new/f", mode="create")
    fs.put(str(tmp_path), f"{top}/tree", recursive=True)
    fs.get(f"{top}/tree", str(tmp_path / "again"), recursive=True)
    assert (tmp_path / "again" / "deep" / "back").read_bytes() == CONTENT
    with (tmp_path / "object").open("wb") as file:
        fs.get_file(f"{top}/new/f", file)
    assert (tmp_path / "object").read_bytes() == CONTENT


def test_a_transfer_that_is_stopped_leaves_nothing(fs: Any, top: str, tmp_path: Path) -> None:
    class Stopping(Callback):
        def absolute_update(self, value: int) -> None:
            raise KeyError(value)

    (tmp_path / "local").write_bytes(CONTENT)
    fs.pipe(f"{top}/f", b"before")
    with pytest.raises(KeyError):
        fs.put_file(tmp_path / "local", f"{top}/f", callback=Stopping())
    assert fs.cat(f"{top}/f") == b"before"
    with pytest.raises(KeyError):
        fs.get_file(f"{top}/f", tmp_path / "back", callback=Stopping())
    with pytest.raises(FileNotFoundError):
        fs.put_file(tmp_path / "none", f"{top}/f")
    with pytest.raises(FileNotFoundError):
        fs.get_file(f"{top}/none", tmp_path / "back")
    assert [path.name for path in tmp_path.iterdir()] == ["local"]


# Other processes


def child(fs: Any, path: str, found: Any) -> None:
    found.put((fs.cat_file(path, 1, 4), fs.exists(path)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_use_it(fs: Any, top: str, method: str) -> None:
    fs.pipe(f"{top}/f", b"abcdef")
    assert fs.cat_file(f"{top}/f") == b"abcdef"
    context: Any = multiprocessing.get_context(method)
    found = context.Queue()
    process = context.Process(target=child, args=(fs, f"{top}/f", found))
    process.start()
    assert found.get(timeout=60) == (b"bcd", True)
    process.join(60)
    assert process.exitcode == 0


def test_failures_go_to_other_processes_whole(fs: Any) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        fs.info("/fsspec/none")
    error: Any = raised.value
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.what, copy.hint, copy.errno) == (type(error), error.what, error.hint, 2)


def test_a_door_that_is_closed_is_not_a_missing_file() -> None:
    fs = FacilityFileSystem("root://127.0.0.1:9")
    for ask in (fs.exists, fs.isdir, fs.isfile, fs.ls, fs.find, fs.cat_file):
        with pytest.raises(ConnectionError):
            ask("/a")


# Files that stay open for a moment


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_handles_are_young_and_never_older_than_a_change() -> None:
    clock = Clock()
    handles: Any = Handles(clock=clock)
    handles._sweeper = threading.current_thread()  # Nobody sweeps: the clock stands still.

    def opener(name: str) -> Any:
        return lambda: name

    assert handles.find("d", "u", "/a") is None
    assert handles.open("d", "u", "/a", opener("first")) == "first"
    assert (handles.find("d", "u", "/a"), handles.find("d", "v", "/a"), handles.find("e", "u", "/a")) == (
        "first",
        None,
        None,
    )
    clock.now_s = AGE_MAX_S + 1
    assert handles.find("d", "u", "/a") is None

    def open_while_it_changes() -> Any:
        handles.forget("d")
        return "old"

    assert handles.open("d", "u", "/a", open_while_it_changes) == "old"
    assert handles.find("d", "u", "/a") is None
    file = handles.open("d", "u", "/a", opener("new"))
    handles.drop(file)
    assert handles.find("d", "u", "/a") is None
    for index in range(1000):
        handles.open("d", "u", f"/{index}", opener("many"))
    assert len(handles._held) == 64


def test_handles_are_swept() -> None:
    start_s = time.monotonic()
    # A clock on which every look is a minute later.
    handles: Any = Handles(clock=lambda: start_s + 60 * next(_numbers))
    handles.open("d", "u", "/a", lambda: "file")
    sweeper = handles._sweeper
    if sweeper is not None:
        sweeper.join(60)
    assert not handles._held
    assert handles._sweeper is None


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30))), st.integers(0, 20))
def test_merged_ranges_hold_all_bytes(ranges: list[tuple[int, int]], max_gap: int) -> None:
    spans = merge(ranges, max_gap)
    assert sorted(index for _, members in spans for index in members) == [
        i for i, (_, length) in enumerate(ranges) if length
    ]
    for (start, length), members in spans:
        assert all(start <= ranges[i][0] and sum(ranges[i]) <= start + length for i in members)
    for ((start, length), _), ((after, _), _) in itertools.pairwise(spans):
        assert start + length + max_gap < after
