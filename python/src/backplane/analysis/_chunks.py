"""Functions of users, called with a chunk of entries at a time."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .._errors import InvalidError
from .._results import as_array

if TYPE_CHECKING:
    from .. import _core
    from ._plan import RowGroups, Selection, Told

# What users write is seldom made to be called by several threads.
_calling = threading.Lock()

LIBRARIES = ("ak", "np", "pd")


@dataclasses.dataclass(frozen=True)
class ChunkFunction:
    """A function and what it gets.

    Attributes
    ----------
    function : callable
        Of one chunk.
    names : tuple of str
        How the chunk calls the expressions that are collected for it.
    library : str
        ``"ak"`` for an awkward array of records, ``"np"`` for a dictionary of NumPy arrays, ``"pd"`` for a data frame.
    """

    function: Callable[[Any], Any]
    names: tuple[str, ...]
    library: str

    def __bytes__(self) -> bytes:
        # What a user defines in a notebook can be sent by it only.
        import cloudpickle

        data: bytes = cloudpickle.dumps((self.function, self.names, self.library))
        return data

    @classmethod
    def of(cls, data: bytes) -> ChunkFunction:
        """Read what another process wrote.

        Parameters
        ----------
        data : bytes
            From somebody who may run any code here.

        Returns
        -------
        ChunkFunction
            The same.
        """
        import cloudpickle

        function, names, library = cloudpickle.loads(data)
        return cls(function, names, library)


def as_chunk(arrays: dict[str, Any], library: str) -> Any:
    """Make of arrays what a function gets.

    Parameters
    ----------
    arrays : dict of arrays
        Values by expression.
    library : str
        See `ChunkFunction`.

    Returns
    -------
    object
        A chunk.
    """
    if library == "np":
        return arrays
    if library == "pd":
        import pandas

        return pandas.DataFrame({name: _filled(array) for name, array in arrays.items()})
    if library == "ak":
        import awkward

        return awkward.Array({name: _optional(array) for name, array in arrays.items()})
    raise InvalidError(f"library {library!r} is not one of {', '.join(LIBRARIES)}")


def as_table(arrays: dict[str, Any]) -> Any:
    """Make an Arrow table of arrays.

    Parameters
    ----------
    arrays : dict of arrays
        Values by expression.

    Returns
    -------
    pyarrow.Table
        With nulls where values are missing.
    """
    import numpy
    import pyarrow

    def column(array: Any) -> Any:
        if isinstance(array, numpy.ndarray):
            return pyarrow.array(array)
        import awkward

        return awkward.to_arrow(array, extensionarray=False)

    return pyarrow.table({name: column(array) for name, array in arrays.items()})


def _filled(array: Any) -> Any:
    """Give pandas its own type for values that may be missing."""
    import numpy
    import pandas

    if not isinstance(array, numpy.ndarray):
        # Lists: pandas has no type for them.
        return array.to_list()
    if not isinstance(array, numpy.ma.MaskedArray):
        return array
    kind = "boolean" if array.dtype == bool else array.dtype.name.replace("int", "Int")
    return pandas.array(array.tolist(), kind)


def _optional(array: Any) -> Any:
    import awkward
    import numpy

    return awkward.from_numpy(array) if isinstance(array, numpy.ma.MaskedArray) else array


def call_on_packets(
    chain: _core.Chain,
    selection: Selection,
    row_groups: Sequence[RowGroups],
    entries: Sequence[int],
    threads: int,
    told: Told,
) -> Iterator[tuple[int, Any]]:
    """Call the function of a selection with the chunk of each packet.

    The next chunk is read while the function has this one. The function is never called twice at a time in a process.

    Parameters
    ----------
    chain : _core.Chain
        Where the entries are.
    selection : Selection
        With a function.
    row_groups : sequence
        Of the packets, in their order.
    entries : sequence of int
        How many each packet has.
    threads : int
        How many read.
    told : callable, optional
        Called before each call of the function, and at the end, with entries done and total; what it raises stops
        everything.

    Yields
    ------
    tuple
        Number of the packet, and what the function returned.
    """
    assert selection.function is not None
    function, names, library = dataclasses.astuple(selection.function)
    packets = [list(group) for _, group in itertools.groupby(row_groups, key=lambda one: one[0])]

    def read(packet: list[RowGroups]) -> Any:
        _, _, arrays = chain.run_packets(
            selection.definitions, selection.filters, (), selection.arrays, threads, packet, None
        )
        named = {name: as_array(*values) for name, values in zip(names, arrays, strict=True)}
        return as_chunk(named, library)

    done, total = 0, sum(entries)
    with ThreadPoolExecutor(1, "backplane-read") as pool:
        coming = pool.submit(read, packets[0])
        for number, packet in enumerate(packets):
            if told is not None:
                told(done, total)
            chunk = coming.result()
            if number + 1 < len(packets):
                coming = pool.submit(read, packets[number + 1])
            with _calling:
                value = function(chunk)
            yield packet[0][0], value
            done += entries[number]
    if told is not None:
        told(done, total)
