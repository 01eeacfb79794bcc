"""Files of a facility as Python file objects."""

from __future__ import annotations

import io
import os
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from . import _core

if TYPE_CHECKING:
    from typing_extensions import Buffer

Mode: TypeAlias = Literal["rb", "wb", "xb"]

# Pieces that stay in the cache of the processor while they are copied; between them signals are answered.
_PIECE_BYTES = 1 << 20


class FacilityFile(io.RawIOBase):
    """An open file of a facility: the interface of `io.RawIOBase`, unbuffered.

    Reads and writes may be as large as you like: large ones keep many requests in flight. What is written becomes
    the content of the file when it is closed. If a ``with`` block ends by an exception, it is given up instead.
    """

    def __init__(self, url: str, mode: Mode, user: str) -> None:
        self._file = _core.RemoteFile(url, mode, user)
        self._is_writing = mode != "rb"
        self._position = 0
        self._size = 0 if self._is_writing else self._file.size
        self.name = url
        self.mode = mode

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<FacilityFile {self.name} {self.mode!r}{state}>"

    def readable(self) -> bool:
        """Tell whether the file is open for reading."""
        return not self._is_writing

    def writable(self) -> bool:
        """Tell whether the file is open for writing."""
        return self._is_writing

    def seekable(self) -> bool:
        """Tell that the position can be changed."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Change the position, as `io.IOBase.seek` does."""
        self._check_open()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
        if whence not in base:
            raise ValueError(f"whence is {whence}, not 0, 1 or 2")
        position = base[whence] + offset
        if position < 0:
            raise ValueError(f"position {position} is negative")
        self._position = position
        return position

    def tell(self) -> int:
        """Tell the position."""
        self._check_open()
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a buffer, as `io.RawIOBase.readinto` does; fewer bytes only at the end of the file."""
        self._check_open()
        if self._is_writing:
            raise io.UnsupportedOperation("not readable")
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), max(self._size - self._position, 0))
        for start in range(0, wanted, _PIECE_BYTES):
            piece = view[start : min(start + _PIECE_BYTES, wanted)]
            self._file.read_into(self._position, piece)
            self._position += len(piece)
        return wanted

    def readall(self) -> bytes:
        """Read from the position to the end of the file."""
        buffer = bytearray(max(self._size - self._position, 0))
        self.readinto(buffer)
        return bytes(buffer)

    def write(self, data: Buffer, /) -> int:
        """Write all of the data at the position, and return its length in bytes."""
        self._check_open()
        if not self._is_writing:
            raise io.UnsupportedOperation("not writable")
        view = memoryview(data).cast("B")
        for start in range(0, len(view), 8 * _PIECE_BYTES):
            piece = view[start : start + 8 * _PIECE_BYTES]
            self._file.write_at(self._position, piece)
            self._position += len(piece)
            self._size = max(self._size, self._position)
        return len(view)

    def close(self) -> None:
        """Close; what was written is committed, or the exception tells why not."""
        if not self.closed:
            # The base class marks it closed first, so that a failed close is not tried again by the collector.
            super().close()
            self._file.close()

    def abandon(self) -> None:
        """Close and give up what was written: the name stays as it was before the file was opened."""
        self._file.abandon()
        super().close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._is_writing:
            self.abandon()
        else:
            self.close()

    def __del__(self) -> None:
        # A file that nobody closed was not finished: committing it would pass a fragment off as the whole.
        if hasattr(self, "_file") and not self.closed:
            self.abandon()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
