"""Files of a facility as Python file objects."""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from . import _core

if TYPE_CHECKING:
    from typing_extensions import Buffer

Mode: TypeAlias = Literal["rb", "wb", "xb"]
ReadMode: TypeAlias = Literal["automatic", "sequential", "random"]

READ_BUFFER_BYTES = 128 << 10
"""What a buffered reader reads at least: little, so that reads here and there stay cheap; the client reads ahead."""

WRITE_BUFFER_BYTES = 8 << 20
"""What a buffered writer sends at once: enough for several requests under way."""


class FacilityFile(io.RawIOBase):
    """An open file of a facility: the interface of `io.RawIOBase`, unbuffered.

    Reads and writes may be as large as you like: large ones keep many requests in flight. What is written becomes
    the content of the file when it is closed. If a ``with`` block ends by an exception, it is given up instead.

    Threads may use `read_ranges` and `read_ranges_into` at the same time; the others share one position.

    Parameters
    ----------
    url : str
        ``root://host:port//path``.
    mode : {"rb", "wb", "xb"}
        Read; write and replace; write a new file.
    user : str
        On whose behalf.
    path : str, optional
        Takes the place of the path in `url`.
    size : int, optional
        Bytes that will be written, if that is known: they are made room for, or refused at once.
    name : str, optional
        What the file is called; `url` and `path` unless given.
    """

    def __init__(
        self,
        url: str,
        mode: Mode,
        user: str,
        *,
        path: str | None = None,
        size: int | None = None,
        name: str | None = None,
    ) -> None:
        # What follows the question mark may prove who the user is.
        url_shown = url.partition("?")[0]
        self.name = name or (url_shown if path is None else f"{url_shown}/{path}")
        self.mode = mode
        self._is_writing = mode != "rb"
        # Only the main thread hears signals while it waits for a recall.
        patient = threading.current_thread() is threading.main_thread()
        self._file = _core.RemoteFile(url, mode, user, path=path, size=size, patient=patient)
        self._position = 0
        self._size = 0 if self._is_writing else self._file.size

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<FacilityFile {self.name} {self.mode!r}{state}>"

    @property
    def size(self) -> int:
        """Size in bytes: when the file was opened, or as far as it is written."""
        return self._size

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
        """Read into a buffer, as `io.RawIOBase.readinto` does; fewer bytes only at the end of the file.

        The bytes go straight to the buffer, while other threads run: none of them may use it before this returns.

        Parameters
        ----------
        buffer : buffer
            Anything contiguous and writable: a `bytearray`, a NumPy array of any type of numbers.

        Returns
        -------
        int
            How many bytes were read.

        Examples
        --------
        >>> import numpy as np
        >>> facility.write_bytes("/numbers", np.arange(5.0))
        >>> numbers = np.empty(5)
        >>> with facility.open("/numbers") as file:
        ...     file.readinto(numbers)
        40
        >>> numbers
        array([0., 1., 2., 3., 4.])
        """
        self._check_readable()
        count = self._file.read_into(self._position, buffer)
        self._position += count
        return count

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes, or all that is left; fewer only at the end of the file."""
        self._check_readable()
        left = max(self._size - self._position, 0)
        data = self._file.read(self._position, left if size is None or size < 0 else min(size, left))
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """Read from the position to the end of the file."""
        return self.read()

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Read many ranges in few requests; the position stays.

        Parameters
        ----------
        ranges : iterable of (int, int)
            Offset and length of each, in any order; they may overlap.

        Returns
        -------
        list of bytes
            One for each range. What lies behind the end of the file is left out.

        Examples
        --------
        >>> facility.write_bytes("/letters", b"abcdefgh")
        >>> with facility.open("/letters") as file:
        ...     file.read_ranges([(6, 5), (0, 2)])
        [b'gh', b'ab']
        """
        self._check_readable()
        return self._file.read_ranges(list(ranges))

    def read_ranges_into(self, offsets: Sequence[int], buffers: Sequence[Buffer]) -> list[int]:
        """Read many ranges into buffers, as `readinto` does; the position stays.

        Parameters
        ----------
        offsets : sequence of int
            Where each range begins.
        buffers : sequence of buffer
            Where it goes; its size is the length of the range. They must not overlap.

        Returns
        -------
        list of int
            How many bytes each buffer got: all that it holds, but for the end of the file.
        """
        self._check_readable()
        return self._file.read_ranges_into(list(offsets), list(buffers))

    def preseek(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Announce what will be read, in this order: it is sent ahead, and reads are answered from what has come.

        A hint: it changes speed and never results.

        Parameters
        ----------
        ranges : iterable of (int, int)
            Offset and length of each. No range takes back what was announced before.

        Examples
        --------
        >>> facility.write_bytes("/letters", b"abcdefgh")
        >>> with facility.open("/letters") as file:
        ...     file.preseek([(1, 2), (5, 2)])
        ...     _ = file.seek(1)
        ...     file.read(2)
        b'bc'
        """
        self._check_readable()
        self._file.preseek(list(ranges))

    def advise(self, mode: ReadMode) -> None:
        """Say how the file will be read. A hint: it changes speed and never results.

        Parameters
        ----------
        mode : {"automatic", "sequential", "random"}
            Found out from what is read, as without advice; much is read ahead; nothing is.
        """
        self._check_readable()
        self._file.advise(mode)

    def write(self, data: Buffer, /) -> int:
        """Write all of the data at the position, and return its length in bytes."""
        self._check_open()
        if not self._is_writing:
            raise io.UnsupportedOperation("not writable")
        length = memoryview(data).nbytes
        self._file.write_at(self._position, data)
        self._position += length
        self._size = max(self._size, self._position)
        return length

    def upload(self, path: str, progress: Callable[[int], object] | None = None) -> None:
        """Write a local file from the start of this one.

        Parameters
        ----------
        path : str
            The local file.
        progress : callable, optional
            Gets the bytes done, several times a second and at the end.
        """
        self._check_open()
        self._file.upload(path, progress)

    def download(self, path: str, progress: Callable[[int], object] | None = None) -> None:
        """Write all of this file to a local one, which is made or replaced.

        Parameters
        ----------
        path : str
            The local file.
        progress : callable, optional
            As of `upload`.
        """
        self._check_readable()
        self._file.download(path, progress)

    def copy_from(self, other: FacilityFile, progress: Callable[[int], object] | None = None) -> None:
        """Write the content of another file from the start of this one.

        Parameters
        ----------
        other : FacilityFile
            Open for reading.
        progress : callable, optional
            As of `upload`.
        """
        self._check_open()
        self._file.copy_from(other._file, progress)

    def detach_remote(self) -> _core.RemoteFile:
        """Hand over the compiled part, which has no position; this object is closed."""
        self._check_open()
        super().close()
        return self._file

    def buffered(self, buffer_bytes: int | None = None) -> BufferedReader | BufferedWriter:
        r"""Wrap into a buffer, for many small reads or writes.

        Parameters
        ----------
        buffer_bytes : int, optional
            128 KiB for reading and 8 MiB for writing unless given.

        Returns
        -------
        io.BufferedReader or io.BufferedWriter
            The buffered file; closing it closes this one.

        Examples
        --------
        >>> facility.write_bytes("/lines", b"one\ntwo\n")
        >>> with facility.open("/lines").buffered() as file:
        ...     file.readlines()
        [b'one\n', b'two\n']
        """
        self._check_open()
        if self._is_writing:
            return BufferedWriter(self, buffer_bytes or WRITE_BUFFER_BYTES)
        return BufferedReader(self, buffer_bytes or READ_BUFFER_BYTES)

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
        if hasattr(self, "_file"):
            self.give_up_unclosed()

    def give_up_unclosed(self) -> None:
        """Give up what was written if nobody closed the file: committing it would pass a fragment off as the whole."""
        if self.closed:
            return
        if self._is_writing:
            message = f"{self.name} was written and not closed: what was written is given up"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
        self.abandon()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check_readable(self) -> None:
        self._check_open()
        if self._is_writing:
            raise io.UnsupportedOperation("not readable")


class BufferedReader(io.BufferedReader):
    """A file that is read through a buffer; vector reads and hints go past it.

    Parameters
    ----------
    file : FacilityFile
        Open for reading.
    buffer_bytes : int
        Size of the buffer.
    """

    def __init__(self, file: FacilityFile, buffer_bytes: int = READ_BUFFER_BYTES) -> None:
        super().__init__(file, buffer_bytes)
        self._file = file
        self.read_ranges = file.read_ranges
        self.read_ranges_into = file.read_ranges_into
        self.preseek = file.preseek
        self.advise = file.advise

    @property
    def size(self) -> int:
        """Size in bytes when the file was opened."""
        return self._file.size


class BufferedWriter(io.BufferedWriter):
    """A file that is written through a buffer; it is committed by `close` and by nothing else.

    Parameters
    ----------
    file : FacilityFile
        Open for writing.
    buffer_bytes : int
        Size of the buffer.
    """

    def __init__(self, file: FacilityFile, buffer_bytes: int = WRITE_BUFFER_BYTES) -> None:
        super().__init__(file, buffer_bytes)
        self._file = file

    @property
    def size(self) -> int:
        """Bytes as far as they are sent."""
        return self._file.size

    def abandon(self) -> None:
        """Close and give up what was written: the name stays as it was before the file was opened."""
        self._file.abandon()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abandon()
        else:
            self.close()

    def __del__(self) -> None:
        # The base class would commit a fragment.
        if hasattr(self, "_file"):
            self._file.give_up_unclosed()
