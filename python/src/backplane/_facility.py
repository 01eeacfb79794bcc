"""A facility: its files, tapes, jobs and n-tuples."""

from __future__ import annotations

import json
import os
import posixpath
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

from ._calls import AWAY_S, Away, News, check_absolute
from ._control import Control, connect_socket
from ._errors import (
    BackplaneError,
    CorruptError,
    InvalidError,
    NotFoundError,
    TimeoutExpiredError,
    UnavailableError,
    UnsupportedError,
    failure,
)
from ._file import FacilityFile, Mode
from ._jobs import JobVerbs
from ._ntuple import NTuple, open_chain
from ._shared import SharedFile, SharedMode, SharedSessions
from ._staging import stage_futures
from ._tables import Record, Table, record_html
from ._transfers import TransferVerbs
from ._user import this_user
from ._waiting import WaitProgress, bring_online
from .analysis._cluster import WAIT_S

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Buffer

    from ._executor import JobExecutor
    from ._ntuple import Defaults
    from .analysis._jobs import FacilityCluster
    from .analysis._session import Session
    from .fsspec import FacilityFileSystem

# The environment variable that names the facility's directory or its HTTP endpoint.
ENVIRONMENT = "BP_FACILITY"

# How long connecting to the daemon may take: it waits while as many others wait as its queue holds.
_CONNECT_S = 10.0
_COLUMNS = ("path", "state", "waits")
# One wait of a call that may be pending; the calls repeat it.
_WAIT_S = 30.0
# Longest pause between two tries.
_AWAY_PAUSE_S = 5.0


def connect(where: str | os.PathLike[str] | None = None, *, user: str | None = None) -> Facility:
    """Connect to a facility.

    Parameters
    ----------
    where : path or str, optional
        The facility's directory, its ``http://`` endpoint, or its ``root://`` endpoint, which offers data but no
        management. Left out, the environment variable ``BP_FACILITY`` says where.
    user : str, optional
        On whose behalf; the name of this user unless given.

    Returns
    -------
    Facility
        Ready to use.

    Raises
    ------
    UnavailableError
        If nothing answers there.
    """
    place = os.fspath(where) if where is not None else os.environ.get(ENVIRONMENT, "")
    if not place:
        raise InvalidError(
            "no facility was named", f"give its directory or endpoint, or set the variable {ENVIRONMENT}"
        )
    user = this_user() if user is None else user
    if place.startswith(("root://", "roots://", "xroot://", "xroots://")):
        return Facility(place.rstrip("/"), None, user)
    if place.startswith(("http://", "https://")):
        control = Control(place, user)
        return Facility(control.call("status")["root"], control, user)
    if "://" in place:
        raise InvalidError(f"{place} is not an endpoint of a facility", "endpoints begin with http:// or root://")
    return _connect_directory(Path(place), user)


def _connect_directory(directory: Path, user: str) -> Facility:
    endpoints = _read_endpoints(directory)
    if endpoints["http"].startswith("https://"):
        # A host that joined: the facility's head is elsewhere.
        return Facility(endpoints["root"], Control(endpoints["http"], user), user)
    # Nothing is sent to a port before the daemon has shown that it lives: once it has died anybody may have its ports.
    # It clears the endpoints before it opens its socket, so those that stand there now are its own.
    try:
        connect_socket(directory, _CONNECT_S).close()
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise UnavailableError(
            f"the facility in {directory} is not running", f"`bp up {directory}` starts it"
        ) from error
    endpoints = _read_endpoints(directory)
    control = Control(str(directory.absolute()), user)
    return Facility(
        endpoints["root"], control, user, http=endpoints["http"], is_token_required=endpoints["is_token_required"]
    )


def _read_endpoints(directory: Path) -> dict[str, Any]:
    file = directory / "endpoints.json"
    try:
        endpoints = json.loads(file.read_bytes())
        found: dict[str, Any] = {key: str(endpoints[key]) for key in ("root", "http")}
        return {**found, "is_token_required": bool(endpoints.get("is_token_required"))}
    except FileNotFoundError as error:
        raise NotFoundError(
            f"{file} does not exist", f"is the facility running? `bp up {directory}` starts it"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{file} is damaged: {error}") from error


class Facility(TransferVerbs, JobVerbs):
    """A facility; make one with `connect`.

    Attributes
    ----------
    root : str
        Its XRootD door, ``root://host:port``.
    user : str
        On whose behalf calls are made.
    """

    def __init__(
        self,
        root: str,
        control: Control | None,
        user: str,
        *,
        http: str | None = None,
        is_token_required: bool = False,
    ) -> None:
        self.root = root.rstrip("/")
        self.user = user
        self._control = control
        self._http = http
        self._is_token_required = is_token_required
        self._shared: SharedSessions | None = None

    def __repr__(self) -> str:
        return f"<Facility {self.http or self.root}>"

    def _repr_html_(self) -> str:
        shown: dict[str, Any] = {"facility": self.http or self.root, "root": self.root, "user": self.user}
        if self._control is not None:
            status = self.status()
            shown.update({key: status.get(key) for key in ("name", "version", "files")})
            shown["console"] = f"{self.http}/console"
        return record_html(shown)

    @property
    def http(self) -> str | None:
        """Its management door, ``http://host:port``, if that is known."""
        return self._http or (self._control.http if self._control else None)

    def _door(self, path: str = "") -> str:
        """Give the URL of a path with what proves who the user is: it is for the data doors only, and never shown."""
        if self._control is None or not self._is_token_required:
            return f"{self.root}/{path}" if path else self.root
        return f"{self.root}/{path or '/'}?authz=Bearer%20{self._control.data_token()}"

    def url(self, path: str) -> str:
        """Give the ``root://`` URL of a path, for other programs.

        Parameters
        ----------
        path : str
            Absolute path in the facility.

        Returns
        -------
        str
            Such as ``root://host:1094//data/run1.parquet``.
        """
        check_absolute(path)
        return f"{self.root}/{path}"

    def open(self, path: str, mode: Mode = "rb") -> FacilityFile:
        """Open a file; a file that is on tape only is recalled first.

        Parameters
        ----------
        path : str
            Absolute path in the facility.
        mode : {"rb", "wb", "xb"}
            Read; write and replace; write a new file.

        Returns
        -------
        FacilityFile
            A raw file object. What is written becomes visible when it is closed.
        """
        return self._open_file(path, mode)

    def open_shared(self, path: str, mode: SharedMode = "r+b") -> SharedFile:
        """Open a file that is changed in place, by several programs and hosts at the same time, without a mount.

        Parameters
        ----------
        path : str
            Absolute path in the facility.
        mode : {"r+b", "rb", "w+b", "x+b", "a+b"}
            Read and write; read what others write meanwhile; empty or make; make a new file; append.

        Returns
        -------
        SharedFile
            A raw file object. What is written is seen by others at once.

        Examples
        --------
        >>> with facility.open_shared("/log", "a+b") as log:
        ...     _ = log.write(b"begun")
        ...     with facility.open_shared("/log", "rb") as reader:
        ...         reader.read()
        b'begun'
        """
        check_absolute(path)
        if self._control is None:
            raise UnsupportedError(
                "files are changed in place through the management API", "connect by its directory or http:// address"
            )
        if self._shared is None:
            self._shared = SharedSessions(self._control.http, self.user)
        return self._shared.open(path, mode)

    def _open_file(self, path: str, mode: Mode, size: int | None = None) -> FacilityFile:
        check_absolute(path)
        return FacilityFile(self._door(), mode, self.user, path=path, size=size, name=self.url(path))

    def read_bytes(self, path: str) -> bytes:
        """Read a whole file.

        Parameters
        ----------
        path : str
            Absolute path in the facility.

        Returns
        -------
        bytes
            Its content.
        """
        with self.open(path) as file:
            return file.read()

    def write_bytes(self, path: str, data: Buffer) -> None:
        """Write a whole file, and replace what is there.

        Parameters
        ----------
        path : str
            Absolute path in the facility; missing directories are made.
        data : buffer
            Its content.

        Examples
        --------
        >>> facility.write_bytes("/data/greeting", b"hello")
        >>> facility.read_bytes("/data/greeting")
        b'hello'
        """
        with self.open(path, "wb") as file:
            file.write(data)

    def filesystem(self) -> FacilityFileSystem:
        """Give the fsspec file system of this facility, for pandas, pyarrow, dask and the like.

        Returns
        -------
        backplane.fsspec.FacilityFileSystem
            See there.
        """
        # fsspec is needed by those who ask for it only.
        from .fsspec import FacilityFileSystem

        found: FacilityFileSystem = FacilityFileSystem(
            self.root, http=self._management(), user=self.user, is_token_required=self._is_token_required
        )
        return found

    def _management(self) -> str | None:
        """Say where calls are made: at an address, or, where tokens are demanded, in a directory."""
        return self._control.http if self._control and self._is_token_required else self.http

    def stage(
        self, paths: str | Iterable[str], *, pin_s: float | None = None, wait_s: float = 0.0
    ) -> list[dict[str, Any]]:
        """Ask for disk replicas of files.

        Parameters
        ----------
        paths : str or iterable of str
            Absolute paths.
        pin_s : float, optional
            Keep the replicas for this long.
        wait_s : float, optional
            Wait this long for all of them to be online.

        Returns
        -------
        list of dict
            ``path``, ``state`` and what it ``waits`` for, for each path.

        Raises
        ------
        BackplaneError
            The failure of the first path that was refused.
        TimeoutExpiredError
            If not all are online in time.
        """
        pin = None if pin_s is None else round(float(pin_s) * 1000)
        files = self._files("stage", paths, pin=pin)
        return self._await(files, "online", wait_s)

    def stage_futures(self, paths: str | Iterable[str], *, pin_s: float | None = None) -> dict[str, Future[str]]:
        """Ask for disk replicas of files, and be told of each when it is there.

        Parameters
        ----------
        paths : str or iterable of str
            Absolute paths.
        pin_s : float, optional
            Keep the replicas for this long.

        Returns
        -------
        dict of str to concurrent.futures.Future
            By path. The result of a future is its path; a file that cannot be staged is its exception. One that is
            cancelled is not waited for any more; its recall goes on.

        Examples
        --------
        >>> facility.write_bytes("/data/staged", b"here")
        >>> [future.result(60) for future in facility.stage_futures("/data/staged").values()]
        ['/data/staged']
        """
        pin = None if pin_s is None else round(float(pin_s) * 1000)
        return stage_futures(self._call, [paths] if isinstance(paths, str) else list(paths), pin)

    def archive(self, paths: str | Iterable[str], *, wait_s: float = 0.0) -> list[dict[str, Any]]:
        """Ask for tape copies of files.

        Parameters
        ----------
        paths : str or iterable of str
            Absolute paths.
        wait_s : float, optional
            Wait this long for all of them to be on tape.

        Returns
        -------
        list of dict
            As in `stage`.
        """
        return self._await(self._files("archive", paths), "archived", wait_s)

    def evict(self, paths: str | Iterable[str]) -> list[dict[str, Any]]:
        """Drop the disk replicas of files that are safe on tape.

        Parameters
        ----------
        paths : str or iterable of str
            Absolute paths.

        Returns
        -------
        list of dict
            As in `stage`.
        """
        return self._files("evict", paths)

    def status(self) -> dict[str, Any]:
        """Show the facility at a glance: files, pools, drives, volumes, requests, workers, jobs.

        Returns
        -------
        dict
            As the management API gives it.
        """
        return Record(self._call("status"))

    def events(
        self, types: str | Iterable[str] = (), *, since_s: float | None = None, follow: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Tell what happened in the facility lately, oldest first: what the head still has in memory.

        Parameters
        ----------
        types : str or iterable of str, optional
            Patterns of types, ``"drive.*"``; all unless given.
        since_s : float, optional
            Only events of the last so many seconds.
        follow : bool, optional
            Go on with what happens next, without an end; also when the head has started anew.

        Yields
        ------
        dict
            ``number``, ``at`` (milliseconds since 1970), ``type``, ``subject`` and ``what``. Numbers begin with 1 at
            each start of the head; a gap between them is what is not kept any more, or of other types.
        """
        patterns = [types] if isinstance(types, str) else list(types)
        body: dict[str, Any] = {"types": patterns}
        if since_s is not None:
            body["since"] = int((time.time() - since_s) * 1000)
        while True:
            told = self._events(body, follow=follow)
            yield from map(Record, told["events"])
            if not (follow or told["events"]):
                return
            body |= {"after": told["next_after"], "incarnation": told["incarnation"]}

    def _events(self, body: dict[str, Any], *, follow: bool) -> Any:
        """Ask for events; who follows and has been answered before goes on when the head is back."""
        deadline, pause_s = time.monotonic() + AWAY_S, 0.25
        while True:
            try:
                return self._call("get_events", body, wait_s=_WAIT_S if follow else 0.0)
            except Away.ERRORS:
                if not follow or "after" not in body or time.monotonic() > deadline:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _AWAY_PAUSE_S)

    def executor(
        self, directory: str, *, python: str | None = None, running_max: int | None = None, **options: Any
    ) -> JobExecutor:
        """Run Python functions as jobs, behind the interface of `concurrent.futures`.

        Parameters
        ----------
        directory : str
            Path in the facility below which functions and results are kept until they have been read.
        python : str, optional
            The interpreter on the workers; the one that runs here unless given.
        running_max : int, optional
            Jobs of one `JobExecutor.map` that run at the same time at most.
        **options
            As of `submit`: ``cpus``, ``memory_bytes``, ``wall_s``, ``environment``, ``inputs`` and so on.

        Returns
        -------
        JobExecutor
            Its ``submit`` gives futures, its ``map`` results. It needs cloudpickle here and on the workers.

        Examples
        --------
        >>> with facility.executor("/work") as executor:
        ...     future = executor.submit(pow, 2, 10)
        ...     print(future.result(60), list(executor.map(lambda x: x * x, range(4), chunksize=2)))
        1024 [0, 1, 4, 9]
        """
        from ._executor import JobExecutor

        return JobExecutor(self, directory, python, options, running_max)

    def ntuple(
        self,
        places: str | Iterable[str],
        *,
        tree: str | None = None,
        defaults: Defaults | None = None,
        numbers: Iterable[str] = (),
        threads: int = 0,
        progress: WaitProgress = None,
    ) -> NTuple:
        """Open Parquet or ROOT files of the facility as one n-tuple; those that are on tape only are recalled first.

        All files are staged before the first is waited for, so that each volume is read once, in the order of the tape.

        Parameters
        ----------
        places : str or iterable of str
            Absolute paths or patterns, as in `glob`.
        tree : str, optional
            Which RNTuple or TTree of ROOT files, by its path; needed if a file has several.
        defaults, numbers
            As in `backplane.ntuple`.
        threads : int, optional
            0 for one per processor.
        progress : bool or callable, optional
            Says what the files wait for: left out, at a terminal and in a notebook. A function gets how many files are
            online, how many there are, and those that are not, as `stage` returns them.

        Returns
        -------
        NTuple
            All files as one, in the order of the places, those of a pattern in name order.

        Raises
        ------
        NotFoundError
            If a pattern matches nothing.
        """
        paths = list(self._named(places))
        if self._control is not None:
            bring_online(self._call, paths, progress)
        chain = open_chain(list(map(self._door, paths)), self.user, tree, defaults, numbers)
        return NTuple(chain, threads=threads)

    def cluster(
        self,
        workers: SupportsIndex = 1,
        *,
        cpus: SupportsIndex = 1,
        memory_bytes: SupportsIndex = 0,
        wall_s: SupportsFloat = 24 * 3600,
        directory: str | None = None,
        python: str | None = None,
        host: str | None = None,
        wait_s: SupportsFloat = WAIT_S,
    ) -> FacilityCluster:
        """Start workers as batch jobs, which compute passes over n-tuples together.

        Use it in a ``with`` statement: at its end the jobs end, too. A pass begins with the first worker, and others
        join as the batch system starts them.

        Parameters
        ----------
        workers : int
            How many; `FacilityCluster.scale` changes it.
        cpus : int
            Slots and threads of each.
        memory_bytes : int
            Memory of each; half of it holds columns. 0 for no wish.
        wall_s : float
            Longest run.
        directory : str, optional
            Directory of the facility for the key of the cluster, in a directory that only you can read; your home,
            ``/home/USER``, unless given.
        python : str, optional
            The interpreter on the hosts of the workers, with this package; that of this process unless given.
        host : str, optional
            Address of this host as workers reach it; found out unless given.
        wait_s : float, optional
            How long a pass waits while there is no worker at all.

        Returns
        -------
        FacilityCluster
            With its jobs submitted.
        """
        from .analysis._jobs import start

        return start(
            self,
            workers,
            cpus=cpus,
            memory_bytes=memory_bytes,
            wall_s=wall_s,
            directory=directory,
            python=python,
            host=host,
            wait_s=wait_s,
        )

    def session(self, name: str, *, directory: str | None = None) -> Session:
        """Open a session: results that batch jobs compute, and that are found again by the name of the session.

        Parameters
        ----------
        name : str
            Letters, digits, dots, dashes and underscores; the session is made if it is not there.
        directory : str, optional
            Directory of the facility below which sessions lie; your home, ``/home/USER``, unless given.

        Returns
        -------
        Session
            A mapping of its results by their names.

        Examples
        --------
        >>> session = facility.session("z-peak")  # doctest: +SKIP
        >>> session.hists("mass", chain, [HistRequest("mass", range=(60, 120))])  # doctest: +SKIP
        >>> # The next day, on another host:
        >>> facility.session("z-peak")["mass"].result()[0].plot()  # doctest: +SKIP
        """
        from .analysis._session import open_session

        return open_session(self, name, directory)

    def _make_private(self, path: str) -> None:
        """Make a directory that only its owner can open, and those that lead to it."""
        try:
            self.mkdir(posixpath.dirname(path), parents=True)
            self._call("mkdir", {"path": path, "mode": 0o700})
        except BackplaneError as error:
            if error.hint is None:
                error.add_note("hint: name a directory of the facility where you may write, by directory=…")
            raise

    def _call(
        self, name: str, body: dict[str, Any] | None = None, *, wait_s: float = 0.0, news: News | None = None
    ) -> Any:
        if self._control is None:
            raise UnsupportedError(
                f"{self.root} offers data only, not {name}",
                "connect to the facility's directory or http:// endpoint",
            )
        return self._control.call(name, body, wait_s=wait_s, news=news)

    def _files(self, name: str, paths: str | Iterable[str], **fields: Any) -> list[dict[str, Any]]:
        body = {"paths": [paths] if isinstance(paths, str) else list(paths), **fields}
        files = Table(self._call(name, body)["files"], _COLUMNS)
        _raise_first(files)
        return files

    def _await(self, files: list[dict[str, Any]], want: str, wait_s: float) -> list[dict[str, Any]]:
        deadline = time.monotonic() + wait_s
        paths = [file["path"] for file in files]
        while wait_s > 0 and any(file.get("waits") for file in files):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                waiting = next(file for file in files if file.get("waits"))
                raise TimeoutExpiredError(
                    f"{waiting['path']} is not {want} after {wait_s:g} s; it waits for {waiting['waits']}"
                )
            body = {"paths": paths, "want": want}
            files = Table(self._call("await", body, wait_s=min(left_s, _WAIT_S))["files"], _COLUMNS)
            _raise_first(files)
        return files


def _raise_first(files: Iterable[Mapping[str, Any]]) -> None:
    for file in files:
        refused = file.get("failure")
        if refused:
            error: BackplaneError = failure(refused["kind"], refused["what"], refused.get("hint"))
            raise error
