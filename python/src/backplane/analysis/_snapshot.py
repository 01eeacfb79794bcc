"""Snapshots: the entries that pass, written as a Parquet file."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from .._errors import UnsupportedError
from .._file import BufferedWriter, FacilityFile

if TYPE_CHECKING:
    from .. import _core

Told: TypeAlias = Callable[[int, int], object] | None
Raw: TypeAlias = tuple[str, bytearray, bytearray | None, bytearray | None]

# Rows of a row group at least, while there are more: readers share a file by row groups.
_ROWS = 1 << 18


def write(
    chain: _core.Chain,
    selection: tuple[Sequence[tuple[str, str]], Sequence[str], dict[str, str]],
    threads: int,
    place: str | os.PathLike[str] | IO[bytes],
    compression: str,
    told: Told,
) -> int:
    """Write the entries of a chain that pass.

    Parameters
    ----------
    chain : _core.Chain
        The entries.
    selection : tuple
        Definitions, cuts, and the expression of each column that is written.
    threads : int
        How many compute; 0 for one per processor.
    place : path or file
        Where to; see `backplane.NTuple.snapshot`.
    compression : str
        Codec of the pages.
    told : callable, optional
        Called now and then with entries done and total; what it raises stops everything.

    Returns
    -------
    int
        Entries written.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UnsupportedError("a snapshot needs the package pyarrow", "pip install pyarrow") from error
    definitions, filters, named = selection
    exprs, names = list(named.values()), list(named)

    def read(packet: Sequence[tuple[int, int, int, int]]) -> Any:
        _, _, arrays = chain.run_packets(definitions, filters, (), exprs, threads, packet, None)
        return pyarrow.table([_column(*raw) for raw in arrays], names)

    rows = 0
    with _output(place) as file:
        schema = read([]).schema
        writer = pyarrow.parquet.ParquetWriter(file, schema, compression=compression, write_page_checksum=True)
        with writer:
            for table in _row_groups(_tables(chain, read, told)):
                writer.write_table(table, row_group_size=max(len(table), 1))
                rows += len(table)
    return rows


def _tables(chain: _core.Chain, read: Callable[[Any], Any], told: Told) -> Iterator[Any]:
    """Give the table of each packet; the next is read while somebody has this one."""
    packets = [list(group) for _, group in itertools.groupby(chain.packets(), key=lambda one: one[0])]
    row_groups = [rows for _, _, rows, _ in chain.describe()[0]]
    entries = [sum(sum(row_groups[file][start:end]) for _, file, start, end in packet) for packet in packets]
    done, total = 0, sum(entries)
    with ThreadPoolExecutor(1, "backplane-read") as pool:
        coming = [pool.submit(read, packet) for packet in packets[:1]]
        for number, count in enumerate(entries):
            if told is not None:
                told(done, total)
            table = coming.pop().result()
            coming = [pool.submit(read, packet) for packet in packets[number + 1 : number + 2]]
            yield table
            done += count
    if told is not None:
        told(done, total)


def _row_groups(tables: Iterator[Any]) -> Iterator[Any]:
    """Join small tables: after a sharp cut each packet has a few rows only."""
    import pyarrow

    waiting: list[Any] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= _ROWS:
            yield pyarrow.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pyarrow.concat_tables(waiting)


def _column(dtype: str, data: bytearray, missing: bytearray | None, counts: bytearray | None) -> Any:
    """Make an Arrow array of what a pass collected, of the same type whether or not values are missing."""
    import numpy
    import pyarrow

    mask = None if missing is None else numpy.frombuffer(missing, "?")
    values = pyarrow.array(numpy.frombuffer(data, dtype), mask=mask)
    if counts is None:
        return values
    ends = numpy.concatenate([[0], numpy.cumsum(numpy.frombuffer(counts, "<u4"), dtype="i8")])
    return pyarrow.ListArray.from_arrays(pyarrow.array(ends.astype("i4")), values)


def _given(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Lend a file; a failure leaves what was there before, for the writer has ended what it had as if it were whole."""
    begin = file.tell() if file.seekable() else None
    try:
        yield file
    except BaseException:
        if isinstance(file, FacilityFile | BufferedWriter):
            file.abandon()
        elif begin is not None:
            with contextlib.suppress(io.UnsupportedOperation):
                file.seek(begin)
                file.truncate()
        raise


@contextlib.contextmanager
def _output(place: str | os.PathLike[str] | IO[bytes]) -> Iterator[IO[bytes]]:
    """Open a file that has its name only once all of it is on disk."""
    if not isinstance(place, str | os.PathLike):
        yield from _given(place)
        return
    path = Path(place)
    path = path.resolve() if path.is_symlink() else path
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".bp-part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # As `open` would make it: only mkstemp keeps others out.
            mask = os.umask(0o077)
            os.umask(mask)
            os.fchmod(descriptor, 0o666 & ~mask)
            yield file
            file.flush()
            os.fsync(descriptor)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
