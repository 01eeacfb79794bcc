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

OK, OKSOFAR, ATTENTION, ERROR, WAIT_LATER, STATUS = 0, 4000, 4001, 4003, 4006, 4007
AUTH, CHMOD, CLOSE, DIRLIST, PROTOCOL, LOGIN, MKDIR, MV, OPEN, PING = (
    3000, 3002, 3003, 3004, 3006, 3007, 3008, 3009, 3010, 3011,
)  # fmt: skip
READ, RM, RMDIR, SYNC, STAT, WRITE, STATX, ENDSESS, BIND, READV, PGWRITE, TRUNCATE, PGREAD, WRITEV = (
    3013, 3014, 3015, 3016, 3017, 3019, 3022, 3023, 3024, 3025, 3026, 3028, 3030, 3031,
)  # fmt: skip
READ_ONLY, NEW, UPDATE, FORCE = 0x10, 0x08, 0x20, 0x02
HANDSHAKE = struct.pack(">5i", 0, 0, 0, 4, 2012)
PAGE_BYTES = 4096


def _crc32c_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC32C = [_crc32c_of_byte(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    """Sum bytes as pages are summed (Castagnoli)."""
    total = 0xFFFFFFFF
    for byte in data:
        total = _CRC32C[(total ^ byte) & 0xFF] ^ (total >> 8)
    return total ^ 0xFFFFFFFF


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

    def late_answer(self) -> Answer:
        """Receive the frame that was announced by `WAIT_LATER`: it comes inside of another one."""
        outer = self.answer()
        assert outer.status == ATTENTION, outer
        stream, status, length = struct.unpack(">HHi", outer.body[8:16])
        assert length == len(outer.body) - 16, outer
        return Answer(stream, status, outer.body[16:])

    def status(self) -> tuple[bool, bytes, bytes]:
        """Receive one answer of pages: whether it is the last, what it says of them, and the bytes that follow."""
        answer = self.answer()
        assert answer.status == STATUS, answer
        total, stream, _, is_partial, length = struct.unpack(">IHBB4xI", answer.body[:16])
        assert crc32c(answer.body[4:]) == total, "the sum of the answer itself"
        assert stream == answer.stream
        return not is_partial, answer.body[16:], self.receive(length)

    def pages(self) -> bytes:
        """Receive the answers to a page read, compare the sum of each page; returns the bytes."""
        found, is_last = b"", False
        while not is_last:
            is_last, about, data = self.status()
            (offset,) = struct.unpack(">q", about[:8])
            while data:
                count = PAGE_BYTES - offset % PAGE_BYTES
                page = data[4 : 4 + count]
                assert crc32c(page) == struct.unpack(">I", data[:4])[0], f"the sum of the page at {offset}"
                found += page
                offset += len(page)
                data = data[4 + count :]
        return found

    def bad_pages(self) -> list[int]:
        """Receive the answer to a page write; returns the offsets of the pages that must be sent again."""
        _, _, data = self.status()
        return [offset for (offset,) in struct.iter_unpack(">q", data[8:])]

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
        if answer.status == WAIT_LATER:
            answer = self.late_answer()
        assert answer.status == OK, answer
        return answer.body[:4]
