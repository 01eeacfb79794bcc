"""The management API against a server of our own, and files against a stand-in for the data door."""

from __future__ import annotations

import io
import json
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import BaseServer, UnixStreamServer
from typing import Any

import pytest

import backplane
from backplane import Facility, FacilityFile
from backplane._control import Control
from backplane._errors import _BY_KIND, failure

Answer = tuple[int, Any]


class Door:
    """Answers calls from a table and remembers them."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[dict[str, Any]], Answer]] = {}
        self.calls: list[tuple[str, dict[str, Any], str | None]] = []
        self.queries: list[str] = []
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                name, _, query = self.path.removeprefix("/api/v1/").partition("?")
                door.queries.append(query)
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                door.calls.append((name, body, self.headers["x-backplane-user"]))
                status, reply = door.answers[name](body)
                text = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.send_header("x-backplane-reply-tag", f"tag{len(door.queries)}")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.handler = Handler
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.http = f"http://127.0.0.1:{self.server.server_port}"
        self.servers: list[BaseServer] = [self.server]
        self.threads = [threading.Thread(target=self.server.serve_forever)]
        self.threads[0].start()

    def listen(self, directory: Path) -> None:
        """Answer at the socket in a directory, too."""
        found = os.open(directory, os.O_PATH)
        server = UnixStreamServer(f"/proc/self/fd/{found}/bp.sock", self.handler)
        os.close(found)
        self.servers.append(server)
        self.threads.append(threading.Thread(target=server.serve_forever))
        self.threads[-1].start()

    def close(self) -> None:
        """Stop listening."""
        for server, thread in zip(self.servers, self.threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()

    def reply(self, name: str, reply: Any, status: int = 200) -> None:
        self.answers[name] = lambda _body: (status, reply)


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.close()


@pytest.fixture
def facility(door: Door, tmp_path: Path) -> Facility:
    endpoints = {"root": "root://127.0.0.1:1", "http": "http://127.0.0.1:1", "pid": 1, "facility": "f"}
    (tmp_path / "endpoints.json").write_text(json.dumps(endpoints))
    door.listen(tmp_path)
    return backplane.connect(tmp_path, user="alice")


def test_where_a_facility_is_found(
    door: Door, facility: Facility, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert facility.url("/data/a") == "root://127.0.0.1:1//data/a"
    door.reply("status", {"root": "root://h:2"})
    assert backplane.connect(door.http).root == "root://h:2"
    monkeypatch.setenv("BP_FACILITY", str(tmp_path))
    assert backplane.connect().root == "root://127.0.0.1:1"
    monkeypatch.delenv("BP_FACILITY")
    with pytest.raises(backplane.InvalidError, match="no facility was named"):
        backplane.connect()
    with pytest.raises(FileNotFoundError, match=r"endpoints\.json does not exist"):
        backplane.connect(tmp_path / "none")
    (tmp_path / "endpoints.json").write_text("{}")
    with pytest.raises(backplane.CorruptError):
        backplane.connect(tmp_path)
    data_only = backplane.connect("root://h:2/")
    with pytest.raises(backplane.UnsupportedError, match="offers data only, not status"):
        data_only.status()


def test_failures_of_the_facility_are_exceptions(door: Door, facility: Facility) -> None:
    door.reply("stat", {"kind": "not_found", "what": "no /a", "hint": "look in /b"}, 404)
    with pytest.raises(FileNotFoundError, match="no /a") as raised:
        facility.stat("/a")
    assert isinstance(raised.value, backplane.NotFoundError)
    assert raised.value.hint == "look in /b"
    door.reply("stat", b"<html>", 502)
    with pytest.raises(backplane.UnavailableError, match="HTTP status 502"):
        facility.stat("/a")
    door.reply("stat", b"not json")
    with pytest.raises(backplane.CorruptError, match="something else than JSON"):
        facility.stat("/a")


@pytest.mark.parametrize("reply", [b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", b"HTTP/1.1\r\n\r\n", b"?"])
def test_a_head_that_dies_amid_its_reply_is_away(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(backplane.UnavailableError, match="for stat"):
            Control(f"http://127.0.0.1:{server.getsockname()[1]}", "alice").call("stat", {"path": "/a"})
        thread.join()


def test_nobody_there(tmp_path: Path) -> None:
    """Of a daemon that died the socket is left; its ports may be anybody's, and are not asked."""
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        port = squatter.getsockname()[1]
        endpoints = {"root": f"root://127.0.0.1:{port}", "http": f"http://127.0.0.1:{port}", "is_token_required": True}
        (tmp_path / "endpoints.json").write_text(json.dumps(endpoints))
        with pytest.raises(ConnectionError, match="is not running"):
            backplane.connect(tmp_path)
        found = os.open(tmp_path, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(f"/proc/self/fd/{found}/bp.sock")
        os.close(found)
        with pytest.raises(backplane.UnavailableError, match="is not running") as raised:
            backplane.connect(tmp_path)
        assert raised.value.hint == f"`bp up {tmp_path}` starts it"
        squatter.setblocking(False)
        with pytest.raises(BlockingIOError):
            squatter.accept()


def test_where_tokens_are_demanded_the_daemon_makes_them(door: Door, tmp_path: Path) -> None:
    """They are for the data doors, made anew in time, and shown nowhere."""
    deep = tmp_path / ("deep/" * 40)
    deep.mkdir(parents=True)
    endpoints = {"root": "root://127.0.0.1:1", "http": door.http, "is_token_required": True}
    (deep / "endpoints.json").write_text(json.dumps(endpoints))
    door.listen(deep)
    facility = backplane.connect(deep, user="alice")
    door.reply("create_token", {"token": "a.b.c", "expires": (time.time() + 3600) * 1000})
    assert facility._door("/x") == "root://127.0.0.1:1//x?authz=Bearer%20a.b.c"
    assert facility._door() == "root://127.0.0.1:1//?authz=Bearer%20a.b.c"
    assert door.calls == [("create_token", {"user": "alice"}, "alice")]
    assert "a.b.c" not in f"{facility!r} {facility.url('/x')} {facility.filesystem()!r}"
    system = facility.filesystem()
    assert "a.b.c" not in str(pickle.dumps(system))
    assert system._prove("") == "?authz=Bearer%20a.b.c"
    assert system._prove("?own=1") == "?own=1"
    assert facility.http == door.http
    door.reply("status", {"root": "r"})
    assert pickle.loads(pickle.dumps(facility._control)).call("status") == {"root": "r"}


def test_every_kind_has_its_class() -> None:
    for kind, error in _BY_KIND.items():
        made = failure(kind, "what", "hint")
        assert type(made) is error
        assert str(made) == "what"
    assert isinstance(failure("of the future", "what"), backplane.InternalError)


TREE = {
    "/": [("data", "directory"), ("x", "file")],
    "/data": [
        ("2025", "directory"),
        ("2026", "directory"),
        ("20??", "directory"),
        ("run0", "file"),
        ("run[0]", "file"),
    ],
    "/data/2025": [("run1", "file"), ("run2", "file"), ("notes", "file")],
    "/data/2026": [("run3", "file")],
    "/data/20??": [("run4", "file")],
}


def tree(body: dict[str, Any]) -> Answer:
    entries = TREE.get(body["path"])
    if entries is None:
        return 404, {"kind": "not_found", "what": body["path"]}
    rest = [{"name": name, "kind": kind} for name, kind in sorted(entries) if name > body["after"]]
    # Pages of two, so that paging is seen.
    return 200, {"entries": rest[:2], "is_partial": len(rest) > 2}


def stat(body: dict[str, Any]) -> Answer:
    directory, name = body["path"].rsplit("/", 1)
    kinds = dict(TREE.get(directory or "/", ()))
    return (200, {"kind": kinds[name]}) if name in kinds else (404, {"kind": "not_found", "what": body["path"]})


def test_listing_and_patterns(door: Door, facility: Facility) -> None:
    door.answers["list"] = tree
    door.answers["stat"] = stat
    assert [entry["name"] for entry in facility.ls("/data")] == ["2025", "2026", "20??", "run0", "run[0]"]
    assert facility.glob("/data/202*/run*") == ["/data/2025/run1", "/data/2025/run2", "/data/2026/run3"]
    assert facility.glob("/data/202?") == ["/data/2025", "/data/2026"]
    assert facility.glob("/none/*") == []
    assert facility.glob("/data/2025/run1") == ["/data/2025/run1"]
    # What exists is no pattern, wherever in the path.
    assert facility.glob("/data/run[0]") == ["/data/run[0]"]
    assert facility.glob("/data/run[01]") == ["/data/run0"]
    assert facility.glob("/data/20??/*") == ["/data/20??/run4"]
    with pytest.raises(backplane.InvalidError):
        facility.glob("data/*")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        facility.ntuple("/data/*.parquet")


def test_tape(door: Door, facility: Facility) -> None:
    waits = [{"path": "/a", "state": "nearline", "waits": "volume A00001"}]
    online = [{"path": "/a", "state": "both"}]
    door.reply("stage", {"files": waits})
    door.reply("await", {"files": online})
    assert facility.stage("/a") == waits
    assert facility.stage(["/a"], pin_s=60, wait_s=10) == online
    assert door.calls[1:] == [
        ("stage", {"paths": ["/a"], "pin": 60000}, "alice"),
        ("await", {"paths": ["/a"], "want": "online"}, "alice"),
    ]
    door.reply("evict", {"files": [{"path": "/a", "failure": {"kind": "busy", "what": "/a is pinned"}}]})
    with pytest.raises(BlockingIOError, match="/a is pinned"):
        facility.evict("/a")


def test_jobs(door: Door, facility: Facility) -> None:
    door.reply("submit", {"job": 7})
    job = facility.submit(["/bin/fit", "-v"], inputs=["/data/run1"], outputs={"fit.json": "/fits/1"}, wall_s=60)
    assert job == 7
    spec = door.calls[0][1]["spec"]
    assert spec["name"] == "fit"
    assert spec["inputs"] == [{"path": "/data/run1", "name": "run1"}]
    assert spec["outputs"] == [{"name": "fit.json", "path": "/fits/1"}]
    assert spec["resources"] == {"cpus": 1, "memory_bytes": 0, "wall": 60000}
    states = iter(["running", "done"])
    door.answers["await_jobs"] = lambda body: (200, {"jobs": [{"id": body["ids"][0], "state": next(states)}]})
    assert facility.wait_for_jobs([7], wait_s=60) == [{"id": 7, "state": "done"}]
    door.reply("await_jobs", {"jobs": [{"id": 7, "state": "held"}]})
    with pytest.raises(TimeoutError, match="jobs 7 are not over"):
        facility.wait_for_jobs([7], wait_s=0)
    with pytest.raises(backplane.InvalidError):
        facility.submit("fit -v")


def test_who_watches_a_job_waits_for_changes(
    door: Door, facility: Facility, capsys: pytest.CaptureFixture[str]
) -> None:
    states = iter(["held", "running", "done"])
    door.answers["await_jobs"] = lambda body: (200, {"jobs": [{"id": body["ids"][0], "state": next(states)}]})
    facility.wait_for_jobs([7], wait_s=60, progress=True)
    # The first answer comes at once; then the facility answers when it has another one.
    assert door.queries == ["wait=0ms", "wait=5000ms&seen=tag1", "wait=5000ms&seen=tag2"]
    assert "running" in capsys.readouterr().err
    door.queries.clear()
    states = iter(["held", "done"])
    facility.wait_for_jobs([7], wait_s=60)
    assert door.queries == ["wait=30000ms"] * 2


def test_a_follower_of_events_outlives_the_head(door: Door, facility: Facility) -> None:
    first = {"events": [{"number": 9, "what": "a"}], "next_after": 9, "incarnation": 1}
    later = {"events": [{"number": 1, "what": "b"}], "next_after": 1, "incarnation": 2}
    away = {"kind": "unavailable", "what": "the head is starting"}
    answers = iter([(200, first), (503, away), (503, away), (200, later)])
    door.answers["get_events"] = lambda _body: next(answers)
    following = facility.events(follow=True)
    assert [next(following)["number"], next(following)["number"]] == [9, 1]
    # Where it went on: the head knows by its start number that these numbers are of an earlier one.
    assert door.calls[-1][1]["after"] == 9
    # A head that was never there is not waited for.
    door.reply("get_events", away, 503)
    with pytest.raises(backplane.UnavailableError):
        next(facility.events(follow=True))


def test_a_job_is_followed_piece_by_piece(door: Door, facility: Facility) -> None:
    def piece(start: int, text: str) -> dict[str, object]:
        return {"start": start, "end": start + len(text), "text": text}

    replies = iter(
        [
            {"state": "running", "attempt": 1, "pieces": [[piece(0, "one\n")], [piece(0, "err\n")]], "is_all": False},
            {"state": "running", "attempt": 1, "pieces": [[], []], "is_all": False},
            {"state": "running", "attempt": 2, "pieces": [[piece(0, "again\n"), piece(9, "x")], []], "is_all": False},
            {"state": "done", "attempt": 2, "pieces": [[piece(10, "end")], []], "is_all": True},
        ]
    )
    door.answers["follow_job"] = lambda _: (200, next(replies))
    told = list(facility.follow_job(7))
    assert told == [("stdout", "one\n"), ("stderr", "err\n"), ("stdout", "again\n"), ("stdout", "x"), ("stdout", "end")]
    asked = [(body["attempt"], body["after"]) for name, body, *_ in door.calls if name == "follow_job"]
    assert asked == [(0, [0, 0]), (1, [4, 4]), (1, [4, 4]), (2, [10, 0])]
    # What is over is shown as it is kept.
    door.reply("follow_job", {"state": "failed", "attempt": 1, "pieces": [[], []], "is_all": True})
    door.reply("job_log", {"stdout": "kept", "stderr": ""})
    assert list(facility.follow_job(7)) == [("stdout", "kept")]


def test_remove_knows_directories(door: Door, facility: Facility) -> None:
    for kind, call in [("directory", "remove_directory"), ("file", "remove")]:
        door.reply("stat", {"kind": kind})
        door.reply(call, {})
        facility.remove("/a")
        assert door.calls[-1][0] == call


class Store:
    """Stands in for `_core.RemoteFile`: a dictionary of committed files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def open(self, root: str, mode: str, _user: str, path: str | None = None, **_: object) -> Any:
        store, url = self, root if path is None else f"{root}/{path}"

        class File:
            data = bytearray(store.files[url] if mode == "rb" else b"")
            size = len(data)

            def read_into(self, offset: int, buffer: memoryview) -> int:
                piece = self.read(offset, len(buffer))
                buffer[: len(piece)] = piece
                return len(piece)

            def read(self, offset: int, length: int) -> bytes:
                return bytes(self.data[offset : offset + length])

            def write_at(self, offset: int, data: memoryview) -> None:
                self.data[offset : offset + len(data)] = data

            def close(self) -> None:
                if mode != "rb":
                    store.files[url] = bytes(self.data)

            def abandon(self) -> None:
                pass

        return File()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store()
    monkeypatch.setattr("backplane._core.RemoteFile", store.open)
    return store


def test_files_are_file_objects(store: Store) -> None:
    facility = backplane.connect("root://h:1")
    content = bytes(range(256)) * 20000
    with facility.open("/a", "wb") as file:
        assert (file.writable(), file.readable()) == (True, False)
        assert file.write(content) == len(content)
    assert store.files == {"root://h:1//a": content}
    with facility.open("/a") as file:
        assert file.read(3) == content[:3]
        assert file.tell() == 3
        assert file.seek(-4, io.SEEK_END) == len(content) - 4
        assert file.read() == content[-4:]
        assert file.read() == b""
        assert file.seek(1 << 40) == 1 << 40
        assert file.readinto(bytearray(5)) == 0
        file.seek(0)
        assert io.BufferedReader(file).read() == content
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    with pytest.raises(ValueError, match="begin with /"):
        facility.open("a")


def test_what_fails_is_not_committed(store: Store) -> None:
    def fail() -> None:
        with FacilityFile("u", "xb", "alice") as file:
            file.write(b"half")
            raise KeyError("half way")

    with pytest.raises(KeyError):
        fail()
    file = FacilityFile("u", "wb", "alice")
    file.write(b"forgotten")
    with pytest.warns(ResourceWarning, match="u was written and not closed"):
        del file
    assert store.files == {}
