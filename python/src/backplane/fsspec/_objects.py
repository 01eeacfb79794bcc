"""Open files as fsspec hands them out."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from fsspec.compression import compr
from fsspec.spec import AbstractBufferedFile

from .. import _core
from .._file import READ_BUFFER_BYTES, WRITE_BUFFER_BYTES, BufferedReader, BufferedWriter, Mode

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._filesystem import DoorFileSystem

# Buffers outside of these bounds help nobody.
_BLOCK_BYTES_MIN = 4 << 10
_BLOCK_BYTES_MAX = 64 << 20


def _bound(block_size: int | str | None, otherwise: int) -> int:
    if block_size is None or isinstance(block_size, str):
        return otherwise
    return min(max(block_size, _BLOCK_BYTES_MIN), _BLOCK_BYTES_MAX)


class ReadFile(BufferedReader):
    """A file that is read; what will be read next is found out and read ahead by the client.

    Attributes
    ----------
    fs : DoorFileSystem
        Where it is.
    path : str
        Which it is.
    blocksize : int
        Size of the buffer in bytes.
    """

    def __init__(self, fs: DoorFileSystem, path: str, block_size: int | str | None = None) -> None:
        self.blocksize = _bound(block_size, READ_BUFFER_BYTES)
        super().__init__(fs._open_raw(path, "rb"), self.blocksize)
        self.fs = fs
        self.path = path

    @property
    def full_name(self) -> str:
        """The URL."""
        return str(self.fs.unstrip_protocol(self.path))

    def info(self) -> dict[str, Any]:
        """Describe the path, as `DoorFileSystem.info` does."""
        return self.fs.info(self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.fs, self.path, self.blocksize, self.tell())


def _reopen(fs: DoorFileSystem, path: str, block_size: int, position: int) -> ReadFile:
    file = ReadFile(fs, path, block_size)
    file.seek(position)
    return file


class WriteFile(BufferedWriter):
    """A file that is written; it appears when it is closed, or in a transaction when that ends.

    Attributes
    ----------
    fs : DoorFileSystem
        Where it is.
    path : str
        Which it is.
    autocommit : bool
        Whether `close` makes it appear; otherwise `commit` does.
    """

    def __init__(
        self, fs: DoorFileSystem, path: str, mode: Mode, block_size: int | str | None = None, *, autocommit: bool = True
    ) -> None:
        # A file that could not be opened is closed.
        self._is_finished = True
        super().__init__(fs._open_raw(path, mode), _bound(block_size, WRITE_BUFFER_BYTES))
        self._is_finished = False
        self.fs = fs
        self.path = path
        self.autocommit = autocommit

    @property
    def full_name(self) -> str:
        """The URL."""
        return str(self.fs.unstrip_protocol(self.path))

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._is_finished or super().closed

    def close(self) -> None:
        """Close; the exception tells why what was written could not be committed."""
        if self.closed:
            return
        if self.autocommit:
            self.commit()
        else:
            self.flush()
            self._is_finished = True

    def commit(self) -> None:
        """Make what was written the content of the file."""
        try:
            super().close()
        finally:
            self._is_finished = True
            self.fs.invalidate_cache(self.path)

    def discard(self) -> None:
        """Give up what was written."""
        self.abandon()


class CompressedWriter(io.RawIOBase):
    """A file that is compressed while it is written; unlike most of their kind it closes what is below.

    Parameters
    ----------
    file : WriteFile
        Gets what is compressed.
    codec : str
        One of `fsspec.compression.compr`.
    """

    def __init__(self, file: WriteFile, codec: str) -> None:
        self._file = file
        self._compressor = compr[codec](file, mode="w")

    def writable(self) -> bool:
        """Tell that it is for writing."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Compress all of the data, and return its length in bytes."""
        self._compressor.write(data)
        return memoryview(data).nbytes

    def close(self) -> None:
        """Finish, and close the file below."""
        if not self.closed:
            super().close()
            self._compressor.close()
            self._file.close()

    def abandon(self) -> None:
        """Close and give up what was written."""
        self._file.abandon()
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abandon()
        else:
            self.close()

    def __del__(self) -> None:
        # The file below is given up when its turn comes.
        pass


class TextWriter(io.TextIOWrapper):
    """A file that is written as text; a ``with`` block that ends by an exception gives it up.

    Parameters
    ----------
    file : WriteFile or CompressedWriter
        Gets what is encoded.
    options
        As of `io.TextIOWrapper`.
    """

    def __init__(self, file: WriteFile | CompressedWriter, **options: Any) -> None:
        super().__init__(file, **options)  # type: ignore[arg-type]
        self._file = file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._file.abandon()
        else:
            self.close()

    def __del__(self) -> None:
        # The base class would commit a fragment; the file below is given up when its turn comes.
        pass


class CachedFile(AbstractBufferedFile):
    """A file that is read through one of fsspec's caches, where somebody asked for that.

    Parameters
    ----------
    fs : DoorFileSystem
        Where it is.
    path : str
        Which it is.
    options
        As of `fsspec.spec.AbstractBufferedFile`.
    """

    def __init__(self, fs: DoorFileSystem, path: str, **options: Any) -> None:
        self._remote: _core.RemoteFile = fs._open_remote(path)
        options["size"] = self._remote.size
        super().__init__(fs, path, "rb", **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._remote.read(start, end - start)

    def close(self) -> None:
        """Close."""
        super().close()
        self._remote.close()


def open_file(
    fs: DoorFileSystem,
    path: str,
    mode: Mode,
    block_size: int | str | None,
    cache_type: str,
    cache_options: dict[str, Any] | None,
    autocommit: bool,
) -> ReadFile | WriteFile | CachedFile:
    """Open a file for fsspec.

    Parameters
    ----------
    fs : DoorFileSystem
        Where it is.
    path : str
        Which.
    mode : {"rb", "wb", "xb"}
        Read; write and replace; write a new file.
    block_size : int, optional
        Size of the buffer in bytes.
    cache_type : str
        ``"default"``, or one of `fsspec.caching.caches`, which then takes the place of our read-ahead.
    cache_options : dict, optional
        Of that cache.
    autocommit : bool
        Whether closing it commits it.

    Returns
    -------
    ReadFile, WriteFile or CachedFile
        The file.
    """
    if mode != "rb":
        return WriteFile(fs, path, mode, block_size, autocommit=autocommit)
    if cache_type != "default":
        options = {"block_size": block_size, "cache_type": cache_type, "cache_options": cache_options}
        return CachedFile(fs, path, **options)
    return ReadFile(fs, path, block_size)
