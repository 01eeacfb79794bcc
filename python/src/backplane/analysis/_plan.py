"""A plan: all that a process needs to compute some packets of a pass, as bytes."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from .. import _core
from .._errors import CorruptError, InvalidError, UnsupportedError
from .._results import as_array, as_bins
from ._chunks import ChunkFunction, call_on_packets
from ._merge import Nodes

# Of the format of plans and parts; both ends must have the same.
_MAGIC = b"backplane plan 2\n"
# A plan of a hundred thousand files with a thousand row groups each would be longer; nobody means that.
_PLAN_BYTES_MAX = 1 << 30

Told: TypeAlias = Callable[[int, int], object] | None
RowGroups: TypeAlias = tuple[int, int, int, int]


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is computed: variables, cuts, histograms, arrays; or a function of chunks.

    Attributes
    ----------
    definitions : tuple of pairs of str
        Name and expression of each variable.
    filters : tuple of str
        Cuts.
    histograms : sequence
        As the kernels take them: axes, cut, weight.
    arrays : sequence of str
        Expressions that are collected, or that the function gets.
    function : ChunkFunction, optional
        What is called with each chunk.
    """

    definitions: tuple[tuple[str, str], ...]
    filters: tuple[str, ...]
    histograms: Sequence[_core.Histogram] = ()
    arrays: Sequence[str] = ()
    function: ChunkFunction | None = None

    @property
    def is_weighted(self) -> list[bool]:
        """Whether each histogram has weights."""
        return [weight is not None for _, _, weight in self.histograms]


@dataclasses.dataclass
class Part:
    """The result of some packets that follow each other.

    Attributes
    ----------
    first, end : int
        Which packets, half-open.
    entries : int
        How many entries they have.
    counts : list of numpy.ndarray
        Bins of the histograms without weights; of the others nothing.
    nodes : list of tuple
        Level, index and value of nodes, a tuple: bins of the weighted histograms, or what the function returned.
    arrays : list of numpy.ndarray
        Values of the entries that passed.
    """

    first: int
    end: int
    entries: int
    counts: list[Any]
    nodes: list[tuple[int, int, Any]]
    arrays: list[Any]


class Plan:
    """A selection and the chain that it is made of, or some packets of it.

    Parameters
    ----------
    chain : _core.Chain
        What another process opens again, by the names and versions of its files.
    selection : Selection
        What is computed.

    Attributes
    ----------
    first : int
        Number of the first packet; 0 unless these are some packets only.
    entries : list of int
        How many entries each packet has.
    """

    def __init__(self, chain: _core.Chain, selection: Selection) -> None:
        self.selection = selection
        self._user, self._numbers = chain.user, chain.numbers
        self._files, self._columns, self._refused = chain.describe()
        self._packets: list[list[RowGroups]] = []
        self._chain: _core.Chain | None = chain
        self._count(0, chain.packets())

    def _count(self, first: int, row_groups: Sequence[RowGroups]) -> None:
        self.first = first
        self._packets = [[] for _ in range(row_groups[-1][0] + 1 - first if row_groups else 0)]
        for one in row_groups:
            self._packets[one[0] - first].append(one)
        self.entries = [
            sum(sum(self._files[file][2][start:end]) for _, file, start, end in packet) for packet in self._packets
        ]

    def __len__(self) -> int:
        """Count the packets."""
        return len(self._packets)

    def name(self, packet: int) -> str:
        """Say for people which entries a packet has.

        Parameters
        ----------
        packet : int
            Its number.

        Returns
        -------
        str
            File and row groups at which it begins.
        """
        _, file, start, end = self._packets[packet - self.first][0]
        place = self._files[file][0].split("?")[0]
        return f"row groups {start}..{end} of {place}"

    def key(self, packet: int) -> tuple[str, str, int]:
        """Tell which columns a packet needs: equal for all plans over the same files.

        Parameters
        ----------
        packet : int
            Its number.

        Returns
        -------
        tuple
            Place and version of the file, and the row group at which it begins.
        """
        _, file, start, _ = self._packets[packet - self.first][0]
        place, version, *_ = self._files[file]
        return place.split("?")[0], version, start

    def __bytes__(self) -> bytes:
        return self.cut(self.first, self.first + len(self))

    def cut(self, first: int, end: int) -> bytes:
        """Write down some packets, for a process that computes no others.

        Parameters
        ----------
        first, end : int
            Which packets, half-open.

        Returns
        -------
        bytes
            Some hundred, and as many for each file; see `Plan.of`.
        """
        row_groups, low, high = self._row_groups(first, end)
        selection = self.selection
        function = selection.function
        fields = {
            "user": self._user,
            "files": self._files[low:high],
            "columns": self._columns,
            "refused": self._refused,
            "numbers": self._numbers,
            "first": first,
            "packets": row_groups,
            "definitions": selection.definitions,
            "filters": selection.filters,
            "histograms": selection.histograms,
            "arrays": list(selection.arrays),
            "function": None if function is None else base64.b64encode(bytes(function)).decode(),
        }
        return _MAGIC + zlib.compress(json.dumps(fields).encode(), 1)

    def for_a_job(self) -> bytes:
        """Write it down for a job, which proves by itself who its user is.

        Returns
        -------
        bytes
            As `cut` gives them, without what proves who asks.

        Raises
        ------
        InvalidError
            If a file is on this host only.
        """
        here = next((file[0] for file in self._files if "://" not in file[0]), None)
        if here is not None:
            raise InvalidError(
                f"{here} is a file of this host, which jobs do not see", "put it into the facility: facility.ntuple(…)"
            )
        files = self._files
        try:
            self._files = [
                (_bare(place), version, rows, [_with_places(friend, _bare) for friend in friends])
                for place, version, rows, friends in files
            ]
            return bytes(self)
        finally:
            self._files = files

    @classmethod
    def of(cls, data: bytes) -> Plan:
        """Read a plan that another process wrote.

        Parameters
        ----------
        data : bytes
            From somebody who may run any code here: it can have a function.

        Returns
        -------
        Plan
            The same.
        """
        if not data.startswith(_MAGIC):
            raise UnsupportedError(
                "the plan was made by another version of backplane", "install the same version on workers and client"
            )
        try:
            inflater = zlib.decompressobj()
            fields = json.loads(inflater.decompress(data[len(_MAGIC) :], _PLAN_BYTES_MAX))
            plan = cls.__new__(cls)
            plan._read(fields)
        except (ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
            raise CorruptError(f"the plan is damaged: {error}", "run the pass again") from error
        return plan

    def _read(self, fields: dict[str, Any]) -> None:
        self._user = fields["user"]
        self._files = [
            (place, version, rows, [_as_friend(*friend) for friend in friends])
            for place, version, rows, friends in fields["files"]
        ]
        self._columns = [_as_column(*column) for column in fields["columns"]]
        self._numbers = fields["numbers"]
        self._refused = [(name, why) for name, why in fields["refused"]]
        function = fields["function"]
        self.selection = Selection(
            tuple((name, expr) for name, expr in fields["definitions"]),
            tuple(fields["filters"]),
            [([_as_axis(axis) for axis in axes], cut, weight) for axes, cut, weight in fields["histograms"]],
            fields["arrays"],
            None if function is None else ChunkFunction.of(base64.b64decode(function)),
        )
        self._chain = None
        self._count(fields["first"], [(packet, file, start, end) for packet, file, start, end in fields["packets"]])

    def run(self, first: int, end: int, threads: int, told: Told = None) -> Part:
        """Compute some packets.

        Parameters
        ----------
        first, end : int
            Which packets, half-open.
        threads : int
            How many; 0 for one per processor.
        told : callable, optional
            Called several times a second with entries done and total; what it raises stops the pass.

        Returns
        -------
        Part
            Their result.
        """
        if not self.first <= first < end <= self.first + len(self):
            raise InvalidError(f"packets {first}..{end} of {self.first}..{self.first + len(self)}")
        chain, row_groups = self._open(first, end)
        of_packets, selection = self.entries[first - self.first : end - self.first], self.selection
        entries = sum(of_packets)
        if selection.function is not None:
            nodes = Nodes()
            for packet, value in call_on_packets(chain, selection, row_groups, of_packets, threads, told):
                nodes.add(0, packet, (value,))
            return Part(first, end, entries, [], list(nodes), [])
        counts, sums, arrays = chain.run_packets(
            selection.definitions, selection.filters, selection.histograms, selection.arrays, threads, row_groups, told
        )
        kept = [
            None if weighted else as_bins(data, False)
            for data, weighted in zip(counts, selection.is_weighted, strict=True)
        ]
        nodes_list = [(level, index, tuple(as_bins(data, True) for data in bins)) for level, index, bins in sums]
        return Part(first, end, entries, kept, nodes_list, [as_array(*values) for values in arrays])

    def _open(self, first: int, end: int) -> tuple[_core.Chain, list[RowGroups]]:
        """Open the files of some packets, and count these files from 0."""
        row_groups, low, high = self._row_groups(first, end)
        if self._chain is not None:
            return self._chain, [(packet, file + low, start, stop) for packet, file, start, stop in row_groups]
        files = [
            (own_place(place), version, [_with_places(friend, own_place) for friend in friends])
            for place, version, _, friends in self._files[low:high]
        ]
        return _core.Chain.part(files, self._columns, self._refused, self._numbers, self._user), row_groups

    def _row_groups(self, first: int, end: int) -> tuple[list[RowGroups], int, int]:
        """Give the row groups of some packets with files counted from the first of them, and which files these are."""
        row_groups = [one for packet in self._packets[first - self.first : end - self.first] for one in packet]
        if not row_groups:
            return [], 0, 0
        low, high = row_groups[0][1], row_groups[-1][1] + 1
        return [(packet, file - low, start, stop) for packet, file, start, stop in row_groups], low, high


def _as_column(name: str, kind: str, is_optional: bool, is_list: bool, default: list[Any]) -> _core.Column:
    return name, kind, is_optional, is_list, default


def _as_friend(prefix: str, columns: list[Any], files: list[Any]) -> _core.Friend:
    """Make tuples of the lists that JSON has."""
    return (
        prefix,
        [_as_column(*column) for column in columns],
        [(place, version, start, end) for place, version, start, end in files],
    )


def _with_places(friend: _core.Friend, place_of: Callable[[str], str]) -> _core.Friend:
    """Say where else the files of a friend are."""
    prefix, columns, files = friend
    return prefix, columns, [(place_of(place), version, start, end) for place, version, start, end in files]


def _bare(place: str) -> str:
    """Leave out what proves who asks."""
    return place.split("?")[0]


def _as_axis(pair: Any) -> tuple[str, _core.Axis]:
    """Give an axis the types that the kernels tell apart, which JSON does not."""
    expr, axis = pair
    if len(axis) == 3 and isinstance(axis[0], int):
        return expr, (axis[0], float(axis[1]), float(axis[2]))
    if len(axis) == 2 and all(isinstance(number, int) for number in axis):
        return expr, (axis[0], axis[1])
    return expr, [float(edge) for edge in axis]


def own_place(place: str, environment: Mapping[str, str] = os.environ) -> str:
    """Say where a file is for this process.

    Parameters
    ----------
    place : str
        Path or URL as the client has it.
    environment : mapping
        A job finds a fresher proof of its user there, and the data door as its host reaches it.

    Returns
    -------
    str
        Path or URL.

    Examples
    --------
    >>> own_place("root://127.0.0.1:1094//a?authz=Bearer%20x", {"BEARER_TOKEN_FILE": "t", "BP_ROOT": "root://head:1094"})
    'root://head:1094//a'
    >>> own_place("/data/a?b", {"BEARER_TOKEN_FILE": "t"})
    '/data/a?b'
    """
    if "://" not in place:
        return place
    if any(environment.get(name) for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE")):
        place = place.split("?")[0]
    url, door = urlsplit(place), environment.get("BP_ROOT")
    # Beside the head its door is at an address that means another host elsewhere.
    is_local = url.hostname in ("127.0.0.1", "::1", "localhost")
    return f"{door.rstrip('/')}{place[place.index(url.netloc) + len(url.netloc) :]}" if door and is_local else place
