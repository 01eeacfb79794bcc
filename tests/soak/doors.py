"""Clients of every kind with one face: put, get, remove, list; all in this process but those that are programs."""

from __future__ import annotations

import http.client
import json
import struct
import subprocess
import threading
import urllib.parse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import frames

CHUNK_BYTES = 1 << 20
DEADLINE = 60.0
ATTN, WAIT = 4001, 4005


class LostError(Exception):
    """The connection is gone: what was asked for may have happened."""


class RefusedError(Exception):
    """The facility said no."""


class Door(Protocol):
    """What every kind of client can do; a path that is not there is read as None."""

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a file."""

    def get(self, path: str) -> bytes | None:
        """Read a whole file."""

    def remove(self, path: str) -> bool:
        """Remove a file; whether it was there."""

    def names(self, path: str) -> set[str]:
        """List a directory."""

    def close(self) -> None:
        """Let go of connections."""


class Root:
    """Frames made by hand on one session, which is opened again when it breaks."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._peer: frames.Raw | None = None

    def _ask(self, code: int, parameters: bytes = b"", data: bytes = b"") -> bytes:
        try:
            if self._peer is None:
                self._peer = frames.Raw(self._root)
                self._peer.socket.settimeout(DEADLINE)
                self._peer.login()
            return self._answer(self._peer, code, parameters, data)
        except (OSError, frames.HungUpError) as error:
            self.close()
            raise LostError(repr(error)) from error

    def _answer(self, peer: frames.Raw, code: int, parameters: bytes, data: bytes) -> bytes:
        body = b""
        while True:
            peer.request(code, parameters, data)
            answer = peer.answer()
            while answer.status == frames.OKSOFAR:
                body += answer.body
                answer = peer.answer()
            if answer.status == frames.WAIT_LATER:
                late = peer.answer()
                assert late.status == ATTN, late
                _, status, length = struct.unpack(">HHi", late.body[8:16])
                answer = frames.Answer(answer.stream, status, late.body[16 : 16 + length])
            if answer.status == WAIT:
                # It is busy: come again, not before it said.
                threading.Event().wait(min(struct.unpack(">i", answer.body[:4])[0], 5))
                continue
            if answer.status == frames.ERROR:
                raise RefusedError(f"{answer.error} {answer.body[4:].decode(errors='replace')}")
            assert answer.status == frames.OK, answer
            return body + answer.body

    def _open(self, path: str, options: int) -> bytes:
        return self._ask(frames.OPEN, struct.pack(">HH12x", 0o644, options), path.encode())[:4]

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a file."""
        handle = self._open(path, frames.FORCE | frames.UPDATE)
        for offset in range(0, len(data), CHUNK_BYTES):
            chunk = data[offset : offset + CHUNK_BYTES]
            self._ask(frames.WRITE, struct.pack(">4sq4x", handle, offset), chunk)
        self._ask(frames.CLOSE, handle)

    def get(self, path: str) -> bytes | None:
        """Read a whole file."""
        try:
            handle = self._open(path, frames.READ_ONLY)
        except RefusedError as refused:
            if str(refused).startswith("3011"):
                return None
            raise
        data, more = bytearray(), b"?"
        while more:
            more = self._ask(frames.READ, struct.pack(">4sqi", handle, len(data), CHUNK_BYTES))
            data += more
        self._ask(frames.CLOSE, handle)
        return bytes(data)

    def remove(self, path: str) -> bool:
        """Remove a file."""
        try:
            self._ask(frames.RM, b"", path.encode())
        except RefusedError as refused:
            if str(refused).startswith("3011"):
                return False
            raise
        return True

    def names(self, path: str) -> set[str]:
        """List a directory."""
        return set(self._ask(frames.DIRLIST, b"", path.encode()).rstrip(b"\0").decode().split())

    def close(self) -> None:
        """Close the session."""
        if self._peer:
            self._peer.socket.close()
            self._peer = None


class Http:
    """One HTTP connection that is kept."""

    def __init__(self, where: str) -> None:
        self._netloc = urllib.parse.urlsplit(where).netloc
        self._connection: http.client.HTTPConnection | None = None

    def _ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._netloc, timeout=DEADLINE)
            self._connection.request(method, urllib.parse.quote(path), body, headers)
            answer = self._connection.getresponse()
            status, data = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise LostError(repr(error)) from error
        if status == 503:
            threading.Event().wait(1)
            return self._ask(method, path, body, **headers)
        if status >= 400 and status != 404:
            raise RefusedError(f"{method}: {status} {data[:300].decode(errors='replace')}")
        return status, data

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a file."""
        status, _ = self._ask("PUT", path, data)
        if status not in (201, 204):
            raise RefusedError(f"PUT: {status}")

    def get(self, path: str) -> bytes | None:
        """Read a whole file."""
        status, data = self._ask("GET", path)
        return data if status == 200 else None

    def remove(self, path: str) -> bool:
        """Remove a file."""
        return self._ask("DELETE", path)[0] != 404

    def names(self, path: str) -> set[str]:
        """List a directory by the management API."""
        body = json.dumps({"path": path}).encode()
        _, data = self._ask("POST", "/api/v1/list", body, **{"content-type": "application/json"})
        return {entry["name"] for entry in json.loads(data)["entries"]}

    def close(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()
            self._connection = None


class Bindings:
    """The XRootD Python bindings; all clients of a process share its connections, as they do in real programs."""

    def __init__(self, root: str) -> None:
        from XRootD import client

        self._client = client
        self._root = root

    @staticmethod
    def _check(status: Any) -> None:
        if status.ok:
            return
        text = f"{status.errno} {status.message}"
        # 400 is an answer of the server; all others are troubles on the way.
        raise RefusedError(text) if status.code == 400 else LostError(text)

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a file."""
        from XRootD.client.flags import OpenFlags

        file = self._client.File()
        self._check(file.open(f"{self._root}/{path}", OpenFlags.DELETE | OpenFlags.UPDATE)[0])
        try:
            for offset in range(0, len(data), CHUNK_BYTES):
                self._check(file.write(data[offset : offset + CHUNK_BYTES], offset)[0])
        except (LostError, RefusedError):
            file.close()
            raise
        self._check(file.close()[0])

    def get(self, path: str) -> bytes | None:
        """Read a whole file."""
        file = self._client.File()
        status, _ = file.open(f"{self._root}/{path}")
        if not status.ok and status.errno == 3011:
            return None
        self._check(status)
        status, data = file.read()
        with suppress(LostError):
            self._check(file.close()[0])
        self._check(status)
        return bytes(data)

    def remove(self, path: str) -> bool:
        """Remove a file."""
        status, _ = self._client.FileSystem(self._root).rm(path)
        if not status.ok and status.errno == 3011:
            return False
        self._check(status)
        return True

    def names(self, path: str) -> set[str]:
        """List a directory."""
        status, listed = self._client.FileSystem(self._root).dirlist(path)
        self._check(status)
        return {entry.name for entry in listed}

    def close(self) -> None:
        """Leave the connections to the library."""


Spawn = Callable[..., "subprocess.Popen[bytes]"]


class Programs:
    """A program for each thing that is done, run by `spawn`, so that somebody can kill it.

    Parameters
    ----------
    spawn
        Starts a program.
    local
        A directory for what is copied.
    verbs
        Command lines with PATH and LOCAL for put, get, remove and names.
    says
        What a program means by its code and its words: "missing", "refused" or, if nobody answered it, "lost".
    """

    def __init__(self, spawn: Spawn, local: Path, verbs: dict[str, list[str]], says: Callable[[int, str], str]) -> None:
        self._spawn = spawn
        self._local = local
        self._verbs = verbs
        self._says = says

    def _run(self, verb: str, path: str) -> tuple[int, str, str]:
        words = [word.replace("PATH", path).replace("LOCAL", str(self._local)) for word in self._verbs[verb]]
        process = self._spawn(words)
        try:
            out, err = process.communicate(timeout=DEADLINE * 2)
        except subprocess.TimeoutExpired as late:
            process.kill()
            process.communicate()
            raise RefusedError(f"{words} is not done after {DEADLINE * 2} s") from late
        text = err.decode(errors="replace") + out.decode(errors="replace") * (process.returncode != 0)
        if process.returncode == 0:
            return 0, out.decode(errors="replace"), text
        meaning = "lost" if process.returncode < 0 else self._says(process.returncode, text)
        if meaning == "missing":
            return 1, "", text
        # A program that was killed, or that found nobody there, may have done its work.
        kind = RefusedError if meaning == "refused" else LostError
        raise kind(f"{words[0]} ended with {process.returncode}: {text}")

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a file."""
        self._local.write_bytes(data)
        code, _, text = self._run("put", path)
        if code != 0:
            raise RefusedError(text)

    def get(self, path: str) -> bytes | None:
        """Read a whole file."""
        self._local.unlink(missing_ok=True)
        code, _, _ = self._run("get", path)
        return self._local.read_bytes() if code == 0 else None

    def remove(self, path: str) -> bool:
        """Remove a file."""
        return self._run("remove", path)[0] == 0

    def names(self, path: str) -> set[str]:
        """List a directory."""
        code, out, text = self._run("names", path)
        if code != 0:
            raise RefusedError(text)
        return {line.rstrip("/").rsplit("/", 1)[-1] for line in out.splitlines() if line}

    def close(self) -> None:
        """Nothing is kept."""
