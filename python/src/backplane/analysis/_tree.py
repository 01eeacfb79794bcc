"""TTrees of ROOT files, as uproot reads them, for the kernels."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING, Any

import awkward
import numpy
import uproot
from uproot.interpretation.jagged import AsJagged
from uproot.interpretation.numerical import AsDtype, TruncatedNumerical

from .._errors import UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from .. import _core

# Entries of a row group at least: trees of wide events have clusters of a few hundred.
_ENTRIES = 1 << 16
# Elements of the lists of a row group.
_ELEMENTS_MAX = (1 << 28) - 1
# How the kernels keep what uproot reads.
_KINDS = {"f2": "f4", "f4": "f4", "f8": "f8", "i1": "i4", "u1": "i4", "i2": "i4", "u2": "i4", "i4": "i4"}
_KINDS |= {"u4": "i8", "i8": "i8", "u8": "i8", "b1": "?"}


class _File(io.RawIOBase):
    """A file that the kernels opened, which notices when it changes."""

    def __init__(self, source: _core.SourceBytes) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.length}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._source.read_at(self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class TreeReader:
    """A TTree whose columns the kernels ask for.

    Parameters
    ----------
    source : _core.SourceBytes
        The ROOT file.
    path : str
        Of the tree in it.
    """

    def __init__(self, source: _core.SourceBytes, path: str) -> None:
        self._tree = uproot.open(_File(source), array_cache=None, object_cache=None)[path]
        branches = self._tree.iteritems(recursive=True, full_paths=True)
        # What has branches below it has its values in them.
        self._branches = [(name.replace("/", "."), branch) for name, branch in branches if not branch.branches]
        # Uproot is not made to be called by several threads.
        self._reading = threading.Lock()

    def columns(self) -> list[tuple[str, str | None, bool, str]]:
        """Tell what the branches are.

        Returns
        -------
        list of tuple
            Name, NumPy type as the kernels keep it, whether each entry has a list, and why it cannot be used.
        """
        return [(name, *_column(branch)) for name, branch in self._branches]

    def ranges(self) -> list[tuple[int, int]]:
        """Divide the entries as the file does.

        Returns
        -------
        list of pair of int
            First entry of each row group, and that after the last.
        """
        ranges, start = [], 0
        for end in self._tree.common_entry_offsets()[1:]:
            if end - start >= _ENTRIES:
                ranges.append((start, end))
                start = end
        if start < self._tree.num_entries:
            ranges.append((start, self._tree.num_entries))
        return ranges

    def read(self, column: int, start: int, end: int) -> tuple[bytes, bytes | None]:
        """Read some entries of a branch.

        Parameters
        ----------
        column : int
            Number of the branch.
        start, end : int
            Which entries, half-open.

        Returns
        -------
        tuple
            Values and, of lists, where each begins and the last ends, as little-endian bytes.
        """
        _, branch = self._branches[column]
        kind, is_list, _ = _column(branch)
        with self._reading:
            array = branch.array(entry_start=start, entry_stop=end, library="ak" if is_list else "np")
        if not is_list:
            return _bytes(numpy.asarray(array), kind), None
        counts = awkward.to_numpy(awkward.num(array, axis=1))
        ends = numpy.concatenate([[0], numpy.cumsum(counts, dtype="i8")])
        if ends[-1] > _ELEMENTS_MAX:
            raise UnsupportedError(
                f"lists of {ends[-1]} elements in {end - start} entries", f"at most {_ELEMENTS_MAX} are possible"
            )
        return _bytes(awkward.to_numpy(awkward.flatten(array, axis=1)), kind), ends.astype("<u4").tobytes()


def _column(branch: Any) -> tuple[str | None, bool, str]:
    interpretation = branch.interpretation
    is_list = isinstance(interpretation, AsJagged)
    inner = interpretation.content if is_list else interpretation
    if not isinstance(inner, AsDtype | TruncatedNumerical):
        return None, False, f"is {branch.typename}, not numbers or lists of them"
    dtype = numpy.dtype(inner.to_dtype)
    if dtype.base.names is not None:
        return None, False, "is a structure of several values in one branch"
    if is_list + len(dtype.shape) > 1:
        return None, False, "is a list of lists; only lists of values can be used"
    kind = _KINDS.get(dtype.base.str[1:])
    return kind, is_list or bool(dtype.shape), "" if kind else f"is {dtype.base}, which kernels do not know"


def _bytes(values: Any, kind: str | None) -> bytes:
    assert kind is not None, "it is in a column that can be used"
    if values.dtype.kind == "u" and values.dtype.itemsize == 8 and (values > numpy.iinfo("i8").max).any():
        raise UnsupportedError(
            f"{values.max()} is too large: unsigned values up to {numpy.iinfo('i8').max} are possible"
        )
    data: bytes = values.astype("?" if kind == "?" else f"<{kind}").tobytes()
    return data
