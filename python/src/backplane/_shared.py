"""Files that are changed in place, by several programs and hosts at the same time."""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from . import _core
from ._errors import BusyError

if TYPE_CHECKING:
    from typing_extensions import Buffer

SharedMode: TypeAlias = Literal["rb", "r+b", "w+b", "x+b", "a+b"]


class SharedFile(io.RawIOBase):
    """An open file that is changed in place: the interface of `io.RawIOBase`, unbuffered.

    What is written is seen by all programs that have the file open like this or through a mount, on whatever host, as
    soon as `write` returns. It is durable after `sync` or `close`. Threads may use the file at the same time, but share
    one position.

    Parameters
    ----------
    file : _core.SharedFile
        The compiled part.
    mode : {"rb", "r+b", "w+b", "x+b", "a+b"}
        As it was opened.
    name : str
        Its path.
    owner : object
        What ends the session when nobody uses it any more.
    """

    def __init__(self, file: _core.SharedFile, mode: SharedMode, name: str, owner: object) -> None:
        self.name = name
        self.mode = mode
        self._file = file
        self._owner = owner
        self._position = 0

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<SharedFile {self.name} {self.mode!r}{state}>"

    @property
    def size(self) -> int:
        """Size in bytes now: others may change it."""
        self._check_open()
        return self._file.size

    def readable(self) -> bool:
        """Tell that the file can be read."""
        return True

    def writable(self) -> bool:
        """Tell whether the file can be written."""
        return self.mode != "rb"

    def seekable(self) -> bool:
        """Tell that the position can be changed."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Change the position, as `io.IOBase.seek` does."""
        self._check_open()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise ValueError(f"whence is {whence}, not 0, 1 or 2")
        base = self._file.size if whence == os.SEEK_END else self._position if whence == os.SEEK_CUR else 0
        if base + offset < 0:
            raise ValueError(f"position {base + offset} is negative")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Tell the position."""
        self._check_open()
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a buffer, as `io.RawIOBase.readinto` does; fewer bytes only at the end of the file."""
        self._check_open()
        count = self._file.read_into(self._position, buffer)
        self._position += count
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes, or all that is left; fewer only at the end of the file."""
        data = self.read_at(self._position, None if size is None or size < 0 else size)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """Read from the position to the end of the file."""
        return self.read()

    def read_at(self, offset: int, size: int | None = None) -> bytes:
        """Read from an offset, as `read` does; the position stays."""
        self._check_open()
        return self._file.read(offset, size)

    def write(self, data: Buffer, /) -> int:
        """Write all of the data at the position, or at the end in mode ``a+b``, and return its length in bytes.

        In mode ``a+b`` up to 32 MiB are appended in one piece, whoever else appends.
        """
        self._check_writable()
        length = memoryview(data).nbytes
        self._file.write_at(self._position, data)
        self._position = self._file.size if self.mode == "a+b" else self._position + length
        return length

    def write_at(self, offset: int, data: Buffer) -> None:
        """Write all of the data at an offset; the position stays."""
        self._check_writable()
        self._file.write_at(offset, data)

    def truncate(self, size: int | None = None, /) -> int:
        """Set the size; to the position unless given."""
        self._check_writable()
        size = self._position if size is None else size
        self._file.truncate(size)
        return size

    def sync(self) -> None:
        """Return when all that was written is durable.

        Raises
        ------
        BackplaneError
            If something that was written is lost. It is told once.
        """
        self._check_open()
        self._file.sync()

    def flush(self) -> None:
        """Do nothing: others see what was written already, and `sync` makes it durable."""
        self._check_open()

    @contextmanager
    def locked(
        self, start: int = 0, end: int | None = None, *, exclusive: bool = True, wait: bool = True
    ) -> Iterator[None]:
        """Hold a lock on a range during a ``with`` block.

        It holds against locks of other open files and of programs in mounts (``fcntl``), and is advisory as they are.

        Parameters
        ----------
        start, end : int, optional
            The range: all of the file unless given, however long it becomes.
        exclusive : bool, optional
            Whether nobody else may hold it; else others may hold it shared, too.
        wait : bool, optional
            Whether to wait until it can be had.

        Raises
        ------
        BusyError
            If others hold it, and `wait` is false.

        Examples
        --------
        >>> facility.write_bytes("/counter", b"41")
        >>> with facility.open_shared("/counter", "r+b") as file, file.locked():
        ...     count = int(file.read_at(0)) + 1
        ...     file.write_at(0, b"%d" % count)
        >>> facility.read_bytes("/counter")
        b'42'
        """
        self._check_open()
        if not self._file.lock(start, end, exclusive, wait):
            raise BusyError(f"{self.name} is locked by others", "`bp lease` shows by whom")
        try:
            yield
        finally:
            if not self.closed:
                self._file.lock(start, end, None, False)

    def close(self) -> None:
        """Close; what was written is durable then, or the exception tells that it is lost."""
        if not self.closed:
            # The base class marks it closed first, so that a failed close is not tried again by the collector.
            super().close()
            self._file.close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check_writable(self) -> None:
        self._check_open()
        if self.mode == "rb":
            raise io.UnsupportedOperation("not writable")


class SharedSessions:
    """The session of this process with a facility, begun when it is needed.

    Parameters
    ----------
    place : str
        The facility's directory or address.
    user : str
        On whose behalf.
    """

    def __init__(self, place: str, user: str) -> None:
        self._place = (place, user)
        self._session: _core.SharedSession | None = None

    def __reduce__(self) -> tuple[type[SharedSessions], tuple[str, str]]:
        """Pickle without the session, which is this process's."""
        return SharedSessions, self._place

    def open(self, path: str, mode: SharedMode) -> SharedFile:
        """Open a file of the facility."""
        # A process that was forked has nothing of the session of its parent but its memory.
        if self._session is None or not self._session.is_own:
            self._session = _core.SharedSession(*self._place)
            weakref.finalize(self, _end, self._session, os.getpid())
        return SharedFile(self._session.open(path, mode), mode, path, self)


def _end(session: _core.SharedSession, process: int) -> None:
    """End a session in the process that has begun it."""
    if process == os.getpid():
        session.end()
