"""N-tuples: tables of entries in many files, histogrammed by compiled kernels."""

from __future__ import annotations

import dataclasses
import html
import os
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, overload

from . import _core
from ._calls import whole_number
from ._errors import InvalidError, NotFoundError
from ._patterns import expand_local, is_pattern
from ._progress import callback
from ._tables import table_html
from ._user import this_user

if TYPE_CHECKING:
    import weakref
    from collections.abc import Sequence
    from typing import SupportsFloat, SupportsIndex, TypeAlias

    import hist
    import numpy as np
    import numpy.typing as npt

    from ._progress import Progress
    from .analysis._book import Booked
    from .analysis._engine import Engine, Outcome

    Variable: TypeAlias = str | tuple[str, ...]
    """An expression, or a tuple of them for a histogram with several axes."""
    Hist: TypeAlias = hist.Hist[Any]
    Bins: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
    Range: TypeAlias = tuple[SupportsFloat, SupportsFloat]
    Ranges: TypeAlias = Range | Sequence[Range] | npt.NDArray[Any]
    Defaults: TypeAlias = Mapping[str, bool | SupportsIndex | SupportsFloat | None]
    Places: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
    Partial: TypeAlias = Callable[[list[Hist]], object] | None
    """Called several times a second with all histograms of the pass as far as they are filled."""


@dataclasses.dataclass(frozen=True)
class HistRequest:
    """One of several histograms that are filled in one pass.

    Attributes
    ----------
    variable : str or tuple of str
        What is filled; a tuple makes one axis for each.
    bins : int or sequence of int
        Number of bins, one for all axes or one for each.
    range : pair of float or sequence of pairs, optional
        Lower and upper edge, one pair for all axes or one for each.
    axis : hist or boost-histogram axis, or sequence of them, optional
        Instead of `bins` and `range`.
    where : str, optional
        Which entries; all if left out.
    weight : str, optional
        Weight of an entry.
    sample : str, optional
        Makes a profile: see `NTuple.profile`.
    """

    variable: Variable
    bins: Bins = 100
    range: Ranges | None = None
    axis: Any = None
    where: str | None = None
    weight: str | None = None
    sample: str | None = None


class NTuple:
    """A lazy table of entries: several Parquet or ROOT files as one.

    Nothing is read but the description of the files until `hist`, `hists` or `arrays` is called. Every method that
    returns an `NTuple` leaves this one as it is. Make one with `ntuple` or `Facility.ntuple`.

    Expressions are those of Python and ROOT alike: ``sqrt(px**2 + py**2) > 20 and abs(eta) < 2.4``. They are
    computed with 64 bits whatever the columns are stored in. What is missing behaves as NaN does: every comparison with
    it is false but ``!=``, and what is computed of it is missing, too. ``isnan`` finds it. A missing truth value is
    neither true nor false, so that neither ``good`` nor ``not good`` lets its entry pass.
    """

    def __init__(
        self,
        chain: _core.Chain,
        definitions: tuple[tuple[str, str], ...] = (),
        filters: tuple[str, ...] = (),
        threads: int = 0,
        engine: Engine | None = None,
        pending: list[weakref.ref[Booked]] | None = None,
    ) -> None:
        self._chain = chain
        self._definitions = definitions
        self._filters = filters
        self._threads = whole_number(threads, "threads")
        self._engine = engine
        # Those of all n-tuples that were made of one.
        self._pending: list[weakref.ref[Booked]] = [] if pending is None else pending

    @property
    def columns(self) -> dict[str, str]:
        """Names of columns and defined variables, with their types: ``bool``, ``int`` or ``float``."""
        columns = dict(self._chain.columns)
        names = [name for name, _ in self._definitions]
        types = self._chain.check(self._definitions, (), [_quoted(name) for name in names])
        columns.update(zip(names, types, strict=True))
        return columns

    @property
    def unusable(self) -> dict[str, str]:
        """Columns that kernels cannot use, and why."""
        return dict(self._chain.refused)

    @property
    def entries(self) -> int:
        """Entries of all files, before any cut."""
        return self._chain.entries

    def __len__(self) -> int:
        return self._chain.entries

    def __repr__(self) -> str:
        cuts = f", where {' and '.join(f'({cut})' for cut in self._filters)}" if self._filters else ""
        return f"<NTuple of {self.entries} entries, {len(self.columns)} columns{cuts}>"

    def _repr_html_(self) -> str:
        definitions = dict(self._definitions)
        rows = [[name, kind, definitions.get(name, "")] for name, kind in self.columns.items()]
        rows += [[name, "unusable", why] for name, why in self.unusable.items()]
        return f"<p>{html.escape(repr(self)[1:-1])}</p>" + table_html(("column", "type", "defined as"), rows)

    def define(self, name: str, expr: str) -> NTuple:
        """Add a variable.

        Parameters
        ----------
        name : str
            Its name; may not be that of a column or an earlier variable.
        expr : str
            Its value from columns and earlier variables.

        Returns
        -------
        NTuple
            With the variable.

        Raises
        ------
        InvalidError
            If the expression makes no sense; the message says where.
        """
        return self._checked(definitions=(*self._definitions, (name, expr)))

    def where(self, cut: str) -> NTuple:
        """Keep only entries for which an expression holds.

        Parameters
        ----------
        cut : str
            The expression; it is added to earlier ones.

        Returns
        -------
        NTuple
            With the cut.
        """
        return self._checked(filters=(*self._filters, cut))

    def filter(self, where: str) -> NTuple:
        """Do what `NTuple.where` does, by the name that RDataFrame has for it.

        Parameters
        ----------
        where : str
            The cut; it is added to earlier ones.

        Returns
        -------
        NTuple
            With the cut.
        """
        return self.where(where)

    def friend(self, other: NTuple, *, prefix: str = "") -> NTuple:
        """Put the columns of another n-tuple beside those of this one, entry by entry.

        Parameters
        ----------
        other : NTuple
            Of as many entries in the same order, without cuts and variables; its files may be divided otherwise.
        prefix : str, optional
            What stands in front of the names of its columns; needed if both have columns of one name. Lists of one
            collection belong together as in one file: `Jet_score` of a friend is a variable of each jet. With the
            prefix ``"new"`` it is `newJet_score`, of the collection `newJet`.

        Returns
        -------
        NTuple
            Of the same entries.

        Raises
        ------
        InvalidError
            If the numbers of entries differ, or a column is in both.
        """
        if other._definitions or other._filters:
            raise InvalidError(
                "a friend has cuts or variables: its entries would not be those of the files",
                "write it with snapshot(), or make its variables in the n-tuple that it is a friend of",
            )
        return NTuple(
            self._chain.befriend(other._chain, prefix), self._definitions, self._filters, self._threads, self._engine
        )

    def on(self, engine: Engine) -> NTuple:
        """Let a cluster compute the passes of this n-tuple.

        Parameters
        ----------
        engine : Cluster
            From `backplane.cluster` or `Facility.cluster`.

        Returns
        -------
        NTuple
            Of the same entries.
        """
        return NTuple(self._chain, self._definitions, self._filters, self._threads, engine, self._pending)

    @overload
    def hist(
        self,
        variable: Variable,
        *,
        bins: Bins = ...,
        range: Ranges | None = ...,
        axis: Any = ...,
        where: str | None = ...,
        weight: str | None = ...,
        progress: Progress = ...,
        partial: Partial = ...,
    ) -> Hist: ...
    @overload
    def hist(
        self,
        variable: list[Variable] | list[str] | list[tuple[str, ...]],
        *,
        bins: Bins = ...,
        range: Ranges | None = ...,
        axis: Any = ...,
        where: str | None = ...,
        weight: str | None = ...,
        progress: Progress = ...,
        partial: Partial = ...,
    ) -> list[Hist]: ...
    def hist(
        self,
        variable: Variable | list[Variable] | list[str] | list[tuple[str, ...]],
        *,
        bins: Bins = 100,
        range: Ranges | None = None,  # noqa: A002
        axis: Any = None,
        where: str | None = None,
        weight: str | None = None,
        progress: Progress = None,
        partial: Partial = None,
    ) -> Hist | list[Hist]:
        """Fill a histogram.

        Parameters
        ----------
        variable : str, tuple of str, or list of these
            An expression; a tuple for a histogram with several axes; a list for several histograms in one pass.
        bins : int or sequence of int
            Number of bins, one for all axes or one for each.
        range : pair of float or sequence of pairs
            Lower and upper edge, one pair for all axes or one for each.
        axis : hist or boost-histogram axis, or sequence of them, optional
            Instead of `bins` and `range`.
        where : str, optional
            Which entries; all if left out.
        weight : str, optional
            Weight of an entry; the histogram then has storage `hist.storage.Weight`, otherwise `Int64`.
        progress : bool or callable, optional
            True for a line on the terminal, or a function of entries done and total.
        partial : callable, optional
            Called several times a second with the list of all histograms as far as they are filled.

        Returns
        -------
        hist.Hist or list of hist.Hist
            Filled, flow bins included, equal to what boost-histogram fills from the same values.
        """
        variables = variable if isinstance(variable, list) else [variable]
        requests = [HistRequest(one, bins, range, axis, where, weight) for one in variables]
        filled = self.hists(requests, progress=progress, partial=partial)
        return filled if isinstance(variable, list) else filled[0]

    def hists(
        self, requests: Iterable[HistRequest], *, progress: Progress = None, partial: Partial = None
    ) -> list[Hist]:
        """Fill several histograms in one pass.

        Parameters
        ----------
        requests : iterable of HistRequest
            What to fill.
        progress : bool or callable, optional
            As in `hist`.
        partial : callable, optional
            As in `hist`.

        Returns
        -------
        list of hist.Hist
            In the order of the requests.
        """
        # What plots and fills is imported by those who fill only.
        from .analysis._filling import Filling

        filling = Filling(self, list(requests))
        show = None if partial is None else lambda bins: partial(filling.finish(bins))
        return filling.finish(self._run(progress, show, histograms=filling.wanted).bins)

    def profile(
        self,
        variable: Variable,
        sample: str,
        *,
        bins: Bins = 100,
        range: Ranges | None = None,  # noqa: A002
        axis: Any = None,
        where: str | None = None,
        weight: str | None = None,
        progress: Progress = None,
        partial: Partial = None,
    ) -> Hist:
        """Fill a profile: the mean of a sample, and how far it scatters, in bins of a variable.

        Parameters
        ----------
        variable, bins, range, axis, where, weight, progress, partial
            As in `hist`.
        sample : str
            An expression whose mean is taken.

        Returns
        -------
        hist.Hist
            With the storage `hist.storage.Mean`, or `hist.storage.WeightedMean` if there are weights. Means are made of
            sums: far from 0 they scatter with the rounding of the sum of squares, as profiles of ROOT do.
        """
        request = HistRequest(variable, bins, range, axis, where, weight, sample)
        return self.hists([request], progress=progress, partial=partial)[0]

    def quantiles(
        self,
        variable: str,
        q: SupportsFloat | Sequence[SupportsFloat] | npt.NDArray[Any],
        *,
        accuracy: float = 0.01,
        where: str | None = None,
        weight: str | None = None,
        progress: Progress = None,
    ) -> npt.NDArray[np.float64]:
        """Give quantiles of a variable, to within a relative error.

        Parameters
        ----------
        variable : str
            An expression.
        q : float or sequence of float
            Which quantiles, from 0 to 1; 0.5 is the median.
        accuracy : float, optional
            Largest relative error, from 0.001 to 0.1. Memory goes with its inverse: some 2 MB for 0.01.
        where, weight, progress
            As in `hist`.

        Returns
        -------
        numpy.ndarray
            One for each of `q`; NaN if no entry passes. NaN and missing values do not count.
        """
        import numpy

        from .analysis._quantiles import Sketch

        wanted = numpy.atleast_1d(numpy.asarray(q, "f8"))
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise InvalidError(f"quantiles {q!r} are not between 0 and 1")
        # Errors are about what was typed.
        self._chain.check(self._definitions, (), [one for one in (variable, where) if one is not None])
        sketch = Sketch(variable, float(accuracy), where, weight)
        return sketch.quantiles(self._run(progress, histograms=sketch.wanted).bins, wanted)

    def book(
        self,
        variable: Variable,
        *,
        bins: Bins = 100,
        range: Ranges | None = None,  # noqa: A002
        axis: Any = None,
        where: str | None = None,
        weight: str | None = None,
    ) -> Booked:
        """Fill a histogram later, together with all others that are booked.

        Parameters
        ----------
        variable, bins, range, axis, where, weight
            As in `hist`, for one histogram.

        Returns
        -------
        Booked
            Its `Booked.result` fills all histograms booked on the n-tuple, with whatever cuts, in one pass.
        """
        from .analysis._book import Booked

        request = HistRequest(variable, bins, range, axis, where, weight)
        return Booked(self, request, self._pending)

    def map(
        self,
        function: Callable[[Any], Any],
        columns: Iterable[str] | None = None,
        *,
        library: str = "ak",
        progress: Progress = None,
    ) -> Any:
        """Call a function of your own with a chunk of entries at a time, and add what it returns.

        It runs where the other passes run: here, or on the workers of a cluster.

        Parameters
        ----------
        function : callable
            Of a chunk of the entries that pass the cuts; chunks have some 262,144 entries, and are the same every time.
        columns : iterable of str, optional
            Columns, variables or expressions of the chunk; all columns and variables if left out.
        library : {"ak", "np", "pd"}
            What a chunk is: an awkward array of records, a dictionary of NumPy arrays, or a pandas data frame.
        progress : bool or callable, optional
            As in `hist`.

        Returns
        -------
        object
            What the function returned for all chunks, added in their order by `backplane.analysis.merge`: numbers and
            histograms are added, dictionaries merged, lists joined. `None` if there is no entry.
        """
        from .analysis._chunks import LIBRARIES, ChunkFunction

        if library not in LIBRARIES:
            raise InvalidError(f"library {library!r} is not one of {', '.join(LIBRARIES)}")
        named = self._named(columns)
        called = ChunkFunction(function, tuple(named), library)
        return self._run(progress, arrays=list(named.values()), function=called).value

    def to_numpy(self, columns: Iterable[str] | None = None, *, progress: Progress = None) -> dict[str, Any]:
        """Collect values of all entries that pass the cuts as NumPy arrays.

        Parameters
        ----------
        columns : iterable of str, optional
            Columns, variables or expressions; all columns and variables if left out.
        progress : bool or callable, optional
            As in `hist`.

        Returns
        -------
        dict of numpy.ndarray
            As in `arrays`.
        """
        named = self._named(columns)
        return dict(zip(named, self._run(progress, arrays=list(named.values())).arrays, strict=True))

    def to_awkward(self, columns: Iterable[str] | None = None, *, progress: Progress = None) -> Any:
        """Do the same as an awkward array.

        Parameters
        ----------
        columns, progress
            As in `to_numpy`.

        Returns
        -------
        awkward.Array
            Of records; what is missing is `None`, but for floats, which are NaN.
        """
        from .analysis._chunks import as_chunk

        return as_chunk(self.to_numpy(columns, progress=progress), "ak")

    def to_pandas(self, columns: Iterable[str] | None = None, *, progress: Progress = None) -> Any:
        """Do the same as a pandas data frame.

        Parameters
        ----------
        columns, progress
            As in `to_numpy`.

        Returns
        -------
        pandas.DataFrame
            With a column of pandas' nullable types where values are missing.
        """
        from .analysis._chunks import as_chunk

        return as_chunk(self.to_numpy(columns, progress=progress), "pd")

    def to_arrow(self, columns: Iterable[str] | None = None, *, progress: Progress = None) -> Any:
        """Do the same as an Arrow table.

        Parameters
        ----------
        columns, progress
            As in `to_numpy`.

        Returns
        -------
        pyarrow.Table
            With nulls where values are missing.
        """
        from .analysis._chunks import as_table

        return as_table(self.to_numpy(columns, progress=progress))

    def snapshot(
        self,
        place: str | os.PathLike[str] | IO[bytes],
        columns: Iterable[str] | Mapping[str, str] | None = None,
        *,
        compression: str = "zstd",
        progress: Progress = None,
    ) -> int:
        """Write all entries that pass the cuts as a Parquet file.

        Entries keep their order, and columns the type they are stored in. Some 262,144 entries are in memory at a time,
        or one row group if that is larger. It is written by this process, not by the workers of a cluster.

        Parameters
        ----------
        place : path or binary file
            A path of this host: the file has its name once all of it is on disk, and replaces what is there. Or a file
            that is open for writing, such as ``facility.open("/data/skim.parquet", "wb")``. After a failure a file of
            a facility is given up, and another one is truncated to where it was if it can seek.
        columns : iterable of str, or dict, optional
            Columns, variables or expressions, or expressions by the names they are written under; all columns and
            variables if left out.
        compression : {"zstd", "snappy", "lz4", "gzip", "brotli", "none"}
            Codec.
        progress : bool or callable, optional
            As in `hist`.

        Returns
        -------
        int
            Entries written.
        """
        from .analysis._snapshot import write

        selection = (self._definitions, self._filters, self._named(columns))
        return write(self._chain, selection, self._threads, place, compression, callback(progress))

    def _named(self, columns: Iterable[str] | Mapping[str, str] | None) -> dict[str, str]:
        """Give each of these its expression; all columns and variables if none are named."""
        if isinstance(columns, Mapping):
            return dict(columns)
        known = self.columns
        wanted = known if columns is None else [columns] if isinstance(columns, str) else columns
        return {name: _quoted(name) if name in known else name for name in wanted}

    def arrays(
        self, exprs: Iterable[str], *, where: str | None = None, progress: Progress = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Collect values of all entries that pass the cuts.

        Parameters
        ----------
        exprs : iterable of str
            Columns, variables or expressions.
        where : str, optional
            Which entries; all if left out.
        progress : bool or callable, optional
            As in `hist`.

        Returns
        -------
        dict of numpy.ndarray or awkward.Array
            Values by expression, in the order of the files. Columns keep the type they are stored in, the wider one if
            files differ. Missing floats are NaN; where other values are missing the array is a
            `numpy.ma.MaskedArray`, which hides them. Lists are awkward arrays.
        """
        names = [exprs] if isinstance(exprs, str) else list(exprs)
        ntuple = self if where is None else self.where(where)
        return dict(zip(names, ntuple._run(progress, arrays=names).arrays, strict=True))

    def _run(self, progress: Progress, partial: Callable[[list[Any]], object] | None = None, **wanted: Any) -> Outcome:
        from .analysis._engine import engine_now
        from .analysis._plan import Selection

        engine = engine_now() if self._engine is None else self._engine
        selection = Selection(self._definitions, self._filters, **wanted)
        return engine.run(self._chain, selection, self._threads, callback(progress), partial)

    def _checked(
        self,
        definitions: tuple[tuple[str, str], ...] | None = None,
        filters: tuple[str, ...] | None = None,
    ) -> NTuple:
        definitions = self._definitions if definitions is None else definitions
        filters = self._filters if filters is None else filters
        self._chain.check(definitions, filters, ())
        return self._with(definitions, filters)

    def _with(self, definitions: tuple[tuple[str, str], ...], filters: tuple[str, ...]) -> NTuple:
        return NTuple(self._chain, definitions, filters, self._threads, self._engine, self._pending)


def ntuple(
    places: Places,
    *,
    tree: str | None = None,
    defaults: Defaults | None = None,
    numbers: Iterable[str] = (),
    threads: int = 0,
) -> NTuple:
    """Open Parquet or ROOT files of this host, or ``root://`` URLs, as one n-tuple.

    Parameters
    ----------
    places : path or iterable of paths
        Files; ``*``, ``?`` and ``[`` in local paths are expanded in name order. A file that has just that name is meant
        itself.
    tree : str, optional
        Which RNTuple or TTree of ROOT files, by its path; needed if a file has several.
    defaults : dict, optional
        What columns are in files that lack them: a number or truth value, or `None` for missing values. In a column of
        lists it is that of every element; the lists are empty if the file has no other column of the collection.
    numbers : iterable of str, optional
        Columns of decimals, dates, times, time stamps and durations that are read as floats, times in seconds since
        1970 or midnight. Then files may have them in different units. A float holds a microsecond of today.
    threads : int, optional
        0 for one per processor.

    Returns
    -------
    NTuple
        All files as one. Files without entries add nothing. Integers of different widths, and floats, are of the wider
        one; times of different units and other types that differ are refused.

    Raises
    ------
    NotFoundError
        If a pattern matches nothing.
    InvalidError
        If the files do not have the same columns; the message names files, column and types. Later, if a file is no
        longer the one that was opened.
    UnsupportedError
        If a file is encrypted as a whole. Columns that are encrypted or cannot be read otherwise are `unusable`.
    CorruptError
        If a file is damaged. Later, if a page does not match its checksum.
    """
    return NTuple(open_chain(_expand(places), this_user(), tree, defaults, numbers), threads=threads)


def open_chain(
    places: list[str], user: str, tree: str | None, defaults: Defaults | None, numbers: Iterable[str]
) -> _core.Chain:
    """Open files for the kernels.

    Parameters
    ----------
    places : list of str
        Paths and URLs.
    user : str
        On whose behalf.
    tree, defaults, numbers
        As in `ntuple`.

    Returns
    -------
    _core.Chain
        All files as one.
    """
    given = [(name, _plain(name, value)) for name, value in (defaults or {}).items()]
    return _core.Chain(places, user, tree, given, [numbers] if isinstance(numbers, str) else list(numbers))


def _plain(name: str, value: Any) -> bool | int | float | None:
    """Give a default the type that the kernels know; NumPy has others of its own."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    raise InvalidError(f"default {value!r} of column {name!r} is no number of 64 bits, truth value or None")


def _expand(places: Places) -> list[str]:
    if isinstance(places, str | os.PathLike):
        places = [places]
    expanded: list[str] = []
    for place in places:
        local = os.fspath(place).removeprefix("file://")
        if "://" in local or not is_pattern(local):
            expanded.append(local)
            continue
        found = expand_local(local)
        if not found:
            raise NotFoundError(f"no file matches {local}")
        expanded.extend(found)
    return expanded


def _quoted(name: str) -> str:
    return f"`{name}`"
