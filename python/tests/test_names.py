"""Names and copies of a real facility, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import backplane


def test_find_sees_all_that_is_below(live: backplane.Facility) -> None:
    for path in ("/f/b/x.root", "/f/a.root", "/f/c.txt"):
        live.write_bytes(path, b"")
    live.mkdir("/f/empty")
    assert live.find("/f") == ["/f/a.root", "/f/b/x.root", "/f/c.txt"]
    assert live.find("/f", "*.root") == ["/f/a.root", "/f/b/x.root"]
    assert live.find("/f", kind="directory") == ["/f/b", "/f/empty"]
    assert live.find("/f", kind=None) == ["/f/a.root", "/f/b", "/f/b/x.root", "/f/c.txt", "/f/empty"]
    assert live.find("/f/a.root") == ["/f/a.root"]
    assert live.find("/f/a.root", "*.txt") == []
    with pytest.raises(backplane.NotFoundError):
        live.find("/f/none")
    with pytest.raises(backplane.InvalidError, match="does not begin with /"):
        live.find("f")


def test_a_tree_as_deep_as_they_may_be(live: backplane.Facility) -> None:
    top = "/deep" + "/d" * 120
    live.write_bytes(f"{top}/f", b"x")
    assert live.find("/deep") == [f"{top}/f"]
    assert len(live.find("/deep", kind=None)) == 121
    live.rm("/deep", recursive=True)
    assert live.glob("/deep*") == []


def test_mv_replaces_nothing_by_accident(live: backplane.Facility) -> None:
    live.write_bytes("/m/a", b"a")
    live.write_bytes("/m/b", b"b")
    live.mkdir("/m/into")
    with pytest.raises(backplane.ExistsError, match="/m/b") as raised:
        live.mv("/m/a", "/m/b")
    assert raised.value.hint
    assert live.read_bytes("/m/b") == b"b"
    assert live.mv("/m/a", "/m/b", replace=True) == "/m/b"
    assert live.read_bytes("/m/b") == b"a"
    assert live.mv("/m/b", "/m/into/") == "/m/into/b"
    assert live.mv("/m/into", "/m/now") == "/m/now"
    assert live.find("/m") == ["/m/now/b"]
    with pytest.raises(backplane.NotDirectoryError, match="/m/none/"):
        live.mv("/m/now/b", "/m/none/")
    with pytest.raises(backplane.NotFoundError):
        live.mv("/m/none", "/m/other")


def test_rm_removes_what_was_named(live: backplane.Facility) -> None:
    for path in ("/r/a1", "/r/a2", "/r/d/x", "/r/keep"):
        live.write_bytes(path, b"")
    with pytest.raises(backplane.IsDirectoryError, match="/r/d is a directory"):
        live.rm("/r/d")
    with pytest.raises(backplane.NotFoundError, match=r"no file matches /r/z\*"):
        live.rm("/r/z*")
    with pytest.raises(backplane.NotFoundError):
        live.rm("/r/none", recursive=True)
    live.rm("/r/a*")
    assert live.find("/r") == ["/r/d/x", "/r/keep"]
    live.rm(["/r/d", "/r/keep"], recursive=True)
    assert live.ls("/r") == []


def test_put_and_get(live: backplane.Facility, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = tmp_path / "file"
    local.write_bytes(b"x" * 3_000_000)
    heard: list[int] = []
    assert live.put(local, "/p/file", progress=heard.append) == "/p/file"
    assert heard[-1] == 3_000_000
    assert live.put(str(local), "/p/new/") == "/p/new/file"
    assert live.read_bytes("/p/new/file") == local.read_bytes()
    local.write_bytes(b"other")
    with pytest.raises(FileExistsError):
        live.put(local, "/p")
    assert live.stat("/p/file")["size"] == 3_000_000
    live.put(local, "/p", replace=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(backplane.ExistsError, match="file exists"):
        live.get("/p/file")
    local.unlink()
    assert live.get("/p/file") == Path("file")
    assert local.read_bytes() == b"other"
    local.write_bytes(b"old")
    assert live.get("/p/file", tmp_path, replace=True) == local
    assert local.read_bytes() == b"other"
    assert [place.name for place in tmp_path.iterdir()] == ["file"], "no fragment stays"
    with pytest.raises(backplane.NotFoundError, match="on this host"):
        live.put("none", "/p/x")
    with pytest.raises(backplane.NotFoundError):
        live.get("/p/none", "x")
    with pytest.raises(backplane.NotDirectoryError):
        live.get("/p/file", "none/")
    assert [place.name for place in tmp_path.iterdir()] == ["file"]


def test_trees_go_and_come(live: backplane.Facility, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "empty").mkdir()
    (tree / "deep" / "er" / "f").write_bytes(b"f")
    (tree / "g").write_bytes(b"g")
    (tree / "link").symlink_to("/etc/passwd")
    with pytest.raises(backplane.IsDirectoryError, match="recursive=True"):
        live.put(tree, "/t")
    assert live.put(tree, "/t/", recursive=True) == "/t/tree"
    assert live.find("/t", kind=None) == ["/t/tree", "/t/tree/deep", "/t/tree/deep/er", "/t/tree/deep/er/f",
                                          "/t/tree/empty", "/t/tree/g"]  # fmt: skip
    with pytest.raises(backplane.IsDirectoryError, match="recursive=True"):
        live.get("/t/tree", tmp_path / "back")
    live.archive(live.find("/t"), wait_s=60)
    live.evict(live.find("/t"))
    live.get("/t/tree", tmp_path / "back", recursive=True)
    assert (tmp_path / "back" / "deep" / "er" / "f").read_bytes() == b"f"
    assert (tmp_path / "back" / "g").read_bytes() == b"g"
    assert (tmp_path / "back" / "empty").is_dir()
