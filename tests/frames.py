"""Hand-made XRootD frames, for what no proper client sends. Numbers are those of the XRootD protocol 5.2."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import urllib.parse
from dataclasses import dataclass
from types import TracebackType
from typing import Self

OK, OKSOFAR, ERROR, WAIT_LATER, STATUS = 0, 4000, 4003, 4006, 4007
CLOSE, LOGIN, OPEN, PING, READ, READV, PGWRITE, PGREAD, STAT, WRITE = (
    3003, 3007, 3010, 3011, 3013, 3025, 3026, 3030, 3017, 3019,
)  # fmt: skip
READ_ONLY, NEW, UPDATE, FORCE = 0x10, 0x08, 0x20, 0x02
HANDSHAKE = struct.pack(">5i", 0, 0, 0, 4, 2012)


@dataclass(frozen=True)
class Answer:
    """One answer frame."""

    stream: int
    status: int
    body: bytes

    @property
    def error(self) -> int:
        """Error number of a refusal."""
        assert self.status == ERROR, f"answer {self.status} with {self.body[:100]!r}, not a refusal"
        return int(struct.unpack(">i", self.body[:4])[0])


class HungUpError(Exception):
    """The server ended the connection."""


class Raw:
    """A connection on which anything can be sent."""

    def __init__(self, root: str) -> None:
        where = urllib.parse.urlsplit(root)
        assert where.hostname is not None
        self.socket = socket.create_connection((where.hostname, where.port or 1094), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise HungUpError from error

    def receive(self, count: int) -> bytes:
        """Receive exactly so many bytes."""
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionError as error:
                raise HungUpError from error
            if not more:
                raise HungUpError
            data += more
        return data

    def answer(self) -> Answer:
        """Receive one frame."""
        stream, status, length = struct.unpack(">HHi", self.receive(8))
        assert 0 <= length <= 64 << 20, f"answer of {length} bytes"
        return Answer(stream, status, self.receive(length))

    def refusal(self) -> int | None:
        """Receive what a malformed request is answered with: an error number, or None for a hang-up."""
        try:
            return self.answer().error
        except HungUpError:
            return None

    def request(self, code: int, parameters: bytes = b"", data: bytes = b"", length: int | None = None) -> None:
        """Send a request; `length` can lie about its data."""
        head = struct.pack(">HH16s", 7, code, parameters.ljust(16, b"\0"))
        self.send(head + struct.pack(">i", len(data) if length is None else length) + data)

    def login(self, user: str = pwd.getpwuid(os.getuid()).pw_name) -> Self:
        """Shake hands and log in; the protocol has room for eight bytes of the name."""
        self.send(HANDSHAKE)
        self.answer()
        self.request(LOGIN, struct.pack(">i8sBBBB", 1, user.encode()[:8], 0, 0, 5, 0))
        assert self.answer().status == OK
        return self

    def open(self, path: str, options: int = READ_ONLY, mode: int = 0o644) -> bytes:
        """Open a file; returns its handle."""
        self.request(OPEN, struct.pack(">HH12x", mode, options), path.encode())
        answer = self.answer()
        assert answer.status == OK, answer
        return answer.body[:4]
