"""Sessions: results that are computed by batch jobs and kept in the facility, and found again from anywhere.

Each result is a directory of its own below that of the session. Nobody but its owner may enter it, because reading it
can run code: ``plan`` is what the job computes, ``request`` how its bins become histograms, and ``snapshot`` what it
has so far, which the job replaces now and then. ``job`` has the number of the job.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import pickle
import posixpath
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy as np

from .._calls import whole_number
from .._errors import (
    BackplaneError,
    CorruptError,
    ExistsError,
    InvalidError,
    NotFoundError,
    PermissionDeniedError,
    TimeoutExpiredError,
    UnavailableError,
)
from .._jobs import OVER, WAIT_MAX_S
from .._tables import table_html
from ._filling import Filling
from ._plan import Plan, Selection

if TYPE_CHECKING:
    import hist

    from .._facility import Facility
    from .._jobs import Job
    from .._ntuple import HistRequest, NTuple

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# How long a job that was cancelled may take to end.
_ENDS_WITHIN_S = 60.0


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """How far a result is.

    Attributes
    ----------
    done, total : int
        Entries.
    is_final : bool
        Whether it is all of the result.
    error : str, optional
        Why it could not be computed.
    bins : list of numpy.ndarray or None
        Of the histograms of the kernels.
    """

    done: int = 0
    total: int = 0
    is_final: bool = False
    error: str | None = None
    bins: list[Any] = dataclasses.field(default_factory=list)

    def __bytes__(self) -> bytes:
        about = {name: getattr(self, name) for name in ("done", "total", "is_final", "error")}
        known = {str(number): one for number, one in enumerate(self.bins) if one is not None}
        out = io.BytesIO()
        text = json.dumps(about | {"count": len(self.bins)}).encode()
        np.savez(out, about=np.frombuffer(text, "u1"), **known)
        return out.getvalue()

    @classmethod
    def of(cls, data: bytes) -> Snapshot:
        """Read what a job wrote.

        Parameters
        ----------
        data : bytes
            From it.

        Returns
        -------
        Snapshot
            The same.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                about = json.loads(arrays["about"].tobytes())
                numbers = range(about.pop("count"))
                return cls(**about, bins=[arrays.get(str(number)) for number in numbers])
        except (ValueError, TypeError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise CorruptError(f"the snapshot of a session is damaged: {error}", "remove the result") from error


class Session(Mapping[str, "SessionResult"]):
    """Results by their names; made by `Facility.session`.

    It lives in the facility: whoever opens it by its name, on this host or another, finds what was computed, and what
    runs.

    Parameters
    ----------
    facility : Facility
        Where it is.
    path : str
        Its directory.
    """

    def __init__(self, facility: Facility, path: str) -> None:
        self._facility, self._path = facility, path
        with contextlib.suppress(FileExistsError):
            facility._make_private(path)
        about = facility.stat(path)
        if about["mode"] & 0o077 or about["owner"] != facility.user:
            raise PermissionDeniedError(
                f"session {path}: others than {facility.user} can enter its directory", f"bp chmod 700 {path}"
            )

    @property
    def name(self) -> str:
        """Its name."""
        return posixpath.basename(self._path)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(entry["name"] for entry in self._facility.ls(self._path)))

    def __len__(self) -> int:
        return len(self._facility.ls(self._path))

    def __getitem__(self, name: str) -> SessionResult:
        if not _NAME.fullmatch(name) or name not in list(self):
            raise KeyError(name)
        return SessionResult(self._facility, posixpath.join(self._path, name))

    def __repr__(self) -> str:
        return f"<Session {self.name!r} of {', '.join(self) or 'no results'}>"

    def _repr_html_(self) -> str:
        rows = [(name, result.state, result.progress) for name, result in self.items()]
        return table_html(("result", "state", "entries"), rows)

    def hists(
        self,
        name: str,
        ntuple: NTuple,
        requests: Iterable[HistRequest],
        *,
        cpus: SupportsIndex = 1,
        memory_bytes: SupportsIndex = 0,
        wall_s: SupportsFloat = 24 * 3600,
        python: str | None = None,
    ) -> SessionResult:
        """Let a batch job fill histograms, and go.

        Parameters
        ----------
        name : str
            Of the result: letters, digits, dots, dashes and underscores.
        ntuple : NTuple
            Of files of the facility.
        requests : iterable of HistRequest
            What to fill.
        cpus, memory_bytes, wall_s
            Of the job.
        python : str, optional
            The interpreter on the host of the job, with this package; that of this process unless given.

        Returns
        -------
        SessionResult
            Its `SessionResult.result` is a list of histograms.

        Raises
        ------
        ExistsError
            If there is a result of that name.
        """
        if not _NAME.fullmatch(name):
            raise InvalidError(f"{name!r} cannot be the name of a result", "use letters, digits, dots and dashes")
        filling = Filling(ntuple, list(requests))
        plan = Plan(ntuple._chain, Selection(ntuple._definitions, ntuple._filters, filling.wanted))
        data = plan.for_a_job()
        path = posixpath.join(self._path, name)
        try:
            self._facility.mkdir(path)
        except FileExistsError as error:
            raise ExistsError(f"session {self.name} has a result {name!r}", "remove() it, or choose a name") from error
        result = SessionResult(self._facility, path)
        try:
            self._facility.write_bytes(f"{path}/plan", data)
            self._facility.write_bytes(f"{path}/request", pickle.dumps(filling))
            result._job = self._facility.submit(
                [python or sys.executable, "-m", "backplane.analysis._session_job", path],
                inputs=[f"{path}/plan"],
                name=f"{self.name}.{name}",
                cpus=cpus,
                memory_bytes=memory_bytes,
                wall_s=wall_s,
                environment={"BP_SESSION_THREADS": str(whole_number(cpus, "cpus"))},
            )
            self._facility.write_bytes(f"{path}/job", str(result._job).encode())
        except BaseException:
            # What went wrong first is what the caller has to know.
            with contextlib.suppress(BackplaneError):
                result.remove()
            raise
        return result

    def remove(self) -> None:
        """End what runs, and remove all results and the session; see `SessionResult.remove`."""
        results = list(self.values())
        for result in results:
            result._end()
        for result in results:
            result.remove()
        self._facility.rm(self._path, recursive=True)


class SessionResult:
    """A result of a session, whether or not it is computed yet.

    Parameters
    ----------
    facility : Facility
        Where it is.
    path : str
        Its directory.
    """

    def __init__(self, facility: Facility, path: str) -> None:
        self._facility, self._path = facility, path
        # Where it was submitted: its number may not be written yet.
        self._job: Job | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return posixpath.basename(self._path)

    def __repr__(self) -> str:
        return f"<SessionResult {self.name!r}, {self.state}, {self.progress} entries>"

    @property
    def job(self) -> Job | None:
        """The job that computes it; `None` if it was not submitted, because its client died."""
        if self._job is not None:
            return self._job
        data = self._read("job")
        return None if data is None else self._facility.job(int(data))

    @property
    def state(self) -> str:
        """That of its job: ``"queued"``, ``"running"``, ``"done"``, ``"failed"`` or another one."""
        if self._snapshot().is_final:
            return "done"
        try:
            job = self.job
            return "not submitted" if job is None else job.state
        except NotFoundError:
            return "lost"

    @property
    def progress(self) -> str:
        """Entries done and total."""
        now = self._snapshot()
        return f"{now.done} of {now.total}" if now.total or now.is_final else "0"

    def _read(self, what: str) -> bytes | None:
        try:
            return self._facility.read_bytes(f"{self._path}/{what}")
        except NotFoundError:
            return None

    def _snapshot(self) -> Snapshot:
        data = self._read("snapshot")
        return Snapshot() if data is None else Snapshot.of(data)

    def _histograms(self, snapshot: Snapshot) -> list[hist.Hist[Any]]:
        data = self._read("request")
        if data is None:
            raise NotFoundError(f"session result {self.name!r} is not complete", "remove() it, and ask for it again")
        filling: Filling = pickle.loads(data)
        return filling.finish(snapshot.bins or [None for _ in filling.wanted])

    def partial(self) -> list[hist.Hist[Any]]:
        """Give the histograms as far as they are filled.

        Returns
        -------
        list of hist.Hist
            Empty ones if there is nothing yet.
        """
        return self._histograms(self._snapshot())

    def result(self, wait_s: SupportsFloat = WAIT_MAX_S) -> list[hist.Hist[Any]]:
        """Wait until it is computed, and give it.

        Parameters
        ----------
        wait_s : float, optional
            How long to wait; at most a week unless given.

        Returns
        -------
        list of hist.Hist
            Filled.

        Raises
        ------
        TimeoutExpiredError
            If it is not computed in time.
        UnavailableError
            If it could not be computed.
        """
        snapshot = self._snapshot()
        if not snapshot.is_final:
            job = self.job
            if job is None:
                raise UnavailableError(f"session result {self.name!r} was not submitted", "remove() it, and ask again")
            ended = job.wait(wait_s)
            snapshot = self._snapshot()
            if not snapshot.is_final:
                reason = snapshot.error or f"job {job} is {ended.state}"
                raise UnavailableError(f"session result {self.name!r}: {reason}", f"`bp log {job}` tells more")
        return self._histograms(snapshot)

    def cancel(self) -> None:
        """End its job, if it is not over; what it has so far stays."""
        job = self.job
        if job is not None and job.state not in OVER:
            job.cancel()

    def remove(self) -> None:
        """End its job, wait until it writes no more, and remove what it has.

        Raises
        ------
        TimeoutExpiredError
            If the job does not end within a minute; nothing is removed then.
        """
        self._end()
        with contextlib.suppress(NotFoundError):
            if (job := self.job) is not None:
                job.wait(_ENDS_WITHIN_S, progress=False)
        self._facility.rm(self._path, recursive=True)

    def _end(self) -> None:
        try:
            self.cancel()
        except BackplaneError as error:
            # It was over, or is known no more.
            if isinstance(error, TimeoutExpiredError | PermissionDeniedError):
                raise


def open_session(facility: Facility, name: str, directory: str | None) -> Session:
    """Open a session; see `Facility.session`.

    Parameters
    ----------
    facility : Facility
        Where it is.
    name : str
        Its name.
    directory : str, optional
        Where sessions lie.

    Returns
    -------
    Session
        The one of that name.
    """
    if not _NAME.fullmatch(name):
        raise InvalidError(f"{name!r} cannot be the name of a session", "use letters, digits, dots and dashes")
    home = posixpath.join("/home", facility.user) if directory is None else directory
    return Session(facility, posixpath.join(home, ".sessions", name))
