"""A facility: its files, tapes, jobs and n-tuples."""

from __future__ import annotations

import fnmatch
import json
import os
import posixpath
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _core
from ._control import Control, connect_socket
from ._errors import (
    BackplaneError,
    CorruptError,
    InvalidError,
    NotDirectoryError,
    NotFoundError,
    TimeoutExpiredError,
    UnavailableError,
    UnsupportedError,
    failure,
)
from ._file import FacilityFile, Mode
from ._ntuple import NTuple
from ._patterns import expand, is_pattern
from ._user import this_user

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from .fsspec import FacilityFileSystem

# The environment variable that names the facility's directory or its HTTP endpoint.
ENVIRONMENT = "BP_FACILITY"

# How long connecting to the daemon may take: it waits while as many others wait as its queue holds.
_CONNECT_S = 10.0
# One wait of a call that may be pending; the calls repeat it.
_WAIT_S = 30.0


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


class Facility:
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

    def __repr__(self) -> str:
        return f"<Facility {self.http or self.root}>"

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
        self._check_absolute(path)
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
        self._check_absolute(path)
        return FacilityFile(self._door(), mode, self.user, path=path, name=self.url(path))

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

    def ls(self, path: str = "/") -> list[dict[str, Any]]:
        """List a directory.

        Parameters
        ----------
        path : str
            Absolute path of the directory.

        Returns
        -------
        list of dict
            In name order: ``name``, ``kind``, ``size``, ``state`` and so on.
        """
        return list(self._entries(path))

    def stat(self, path: str) -> dict[str, Any]:
        """Describe a path: metadata, replicas, tape copies, pins, and what it waits for.

        Parameters
        ----------
        path : str
            Absolute path of a file or directory.

        Returns
        -------
        dict
            As the management API gives it.
        """
        reply: dict[str, Any] = self._call("stat", {"path": path})
        return reply

    def glob(self, pattern: str) -> list[str]:
        """Find paths; ``*``, ``?`` and ``[`` match within one name, unless there is something of just that name.

        Parameters
        ----------
        pattern : str
            Absolute path with patterns.

        Returns
        -------
        list of str
            In name order; empty if nothing matches.
        """
        if not pattern.startswith("/"):
            raise InvalidError(f"pattern {pattern!r} does not begin with /")
        return expand(pattern, self._exists, self._matches)

    def remove(self, path: str) -> None:
        """Remove a file with its replicas and tape copies, or an empty directory.

        Parameters
        ----------
        path : str
            Absolute path.
        """
        is_directory = self.stat(path)["kind"] == "directory"
        self._call("remove_directory" if is_directory else "remove", {"path": path})

    def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory.

        Parameters
        ----------
        path : str
            Absolute path.
        parents : bool, optional
            Make missing parents, and accept a directory that exists.
        """
        self._call("mkdir", {"path": path, "parents": parents})

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
        pin = None if pin_s is None else round(pin_s * 1000)
        files = self._files("stage", paths, pin=pin)
        return self._await(files, "online", wait_s)

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

    def submit(
        self,
        command: Sequence[str],
        *,
        inputs: Iterable[str] | Mapping[str, str] = (),
        outputs: Mapping[str, str] | None = None,
        name: str | None = None,
        cpus: int = 1,
        memory_bytes: int = 0,
        wall_s: float = 24 * 3600,
        environment: Mapping[str, str] | None = None,
        archive: bool = False,
    ) -> int:
        """Submit a batch job.

        Parameters
        ----------
        command : sequence of str
            Program and arguments; not a line for a shell.
        inputs : iterable of str, or mapping of str to str
            Paths in the facility that must be online before it starts. They appear in the scratch directory under
            their last component, or under the name that the mapping gives for the path.
        outputs : mapping of str to str
            Name in the scratch directory and path in the facility of what is stored when it exits with 0.
        name : str, optional
            For people; the program's name unless given.
        cpus : int
            Slots.
        memory_bytes : int
            Memory; 0 for no wish.
        wall_s : float
            Longest run.
        environment : mapping of str to str, optional
            Added to its environment.
        archive : bool
            The job is done only when its outputs are on tape.

        Returns
        -------
        int
            Number of the job.
        """
        if isinstance(command, str) or not command:
            raise InvalidError(f"command {command!r} is not a list of program and arguments")
        named = inputs if isinstance(inputs, Mapping) else {path: posixpath.basename(path) for path in inputs}
        spec = {
            "name": posixpath.basename(command[0]) if name is None else name,
            "command": list(command),
            "resources": {"cpus": cpus, "memory_bytes": memory_bytes, "wall": round(wall_s * 1000)},
            "inputs": [{"path": path, "name": alias} for path, alias in named.items()],
            "outputs": [{"name": alias, "path": path} for alias, path in (outputs or {}).items()],
            "archive": archive,
            "environment": dict(environment or {}),
        }
        return int(self._call("submit", {"spec": spec})["job"])

    def jobs(self, ids: Iterable[int] = (), *, active_only: bool = False) -> list[dict[str, Any]]:
        """Show jobs, newest first.

        Parameters
        ----------
        ids : iterable of int
            Only these; the newest ones if left out.
        active_only : bool
            Leave out those that are over.

        Returns
        -------
        list of dict
            ``id``, ``state``, ``reason``, ``worker``, ``exit`` and so on.
        """
        reply = self._call("jobs", {"ids": list(ids), "active_only": active_only})
        return list(reply["jobs"])

    def wait_for_jobs(self, ids: Iterable[int], *, wait_s: float) -> list[dict[str, Any]]:
        """Wait until jobs are over.

        Parameters
        ----------
        ids : iterable of int
            The jobs.
        wait_s : float
            How long to wait.

        Returns
        -------
        list of dict
            The jobs as they are then.

        Raises
        ------
        TimeoutExpiredError
            If not all are over in time.
        """
        body = {"ids": list(ids)}
        deadline = time.monotonic() + wait_s
        while True:
            left_s = max(deadline - time.monotonic(), 0.0)
            jobs = list(self._call("await_jobs", body, wait_s=min(left_s, _WAIT_S))["jobs"])
            waiting = [job["id"] for job in jobs if job["state"] not in ("done", "failed", "cancelled")]
            if not waiting:
                return jobs
            if time.monotonic() >= deadline:
                raise TimeoutExpiredError(f"jobs {', '.join(map(str, waiting))} are not over after {wait_s:g} s")

    def cancel(self, job: int) -> None:
        """End a job, whatever its state.

        Parameters
        ----------
        job : int
            Its number.
        """
        self._call("cancel_job", {"job": job})

    def job_log(self, job: int) -> dict[str, str]:
        """Show the end of what a job printed.

        Parameters
        ----------
        job : int
            Its number.

        Returns
        -------
        dict
            ``stdout`` and ``stderr``.
        """
        reply: dict[str, str] = self._call("job_log", {"job": job})
        return reply

    def status(self) -> dict[str, Any]:
        """Show the facility at a glance: files, pools, drives, volumes, requests, workers, jobs.

        Returns
        -------
        dict
            As the management API gives it.
        """
        reply: dict[str, Any] = self._call("status")
        return reply

    def ntuple(self, places: str | Iterable[str], *, threads: int = 0) -> NTuple:
        """Open Parquet files of the facility as one n-tuple.

        Parameters
        ----------
        places : str or iterable of str
            Absolute paths or patterns, as in `glob`.
        threads : int, optional
            0 for one per processor.

        Returns
        -------
        NTuple
            All files as one, in the order of the places, those of a pattern in name order.

        Raises
        ------
        NotFoundError
            If a pattern matches nothing.
        """
        urls: list[str] = []
        for place in [places] if isinstance(places, str) else places:
            found = self.glob(place) if is_pattern(place) else [place]
            if not found:
                raise NotFoundError(f"no file matches {place}")
            for path in found:
                self._check_absolute(path)
            urls.extend(map(self._door, found))
        return NTuple(_core.Chain(urls, self.user), threads=threads)

    @staticmethod
    def _check_absolute(path: str) -> None:
        if not path.startswith("/"):
            raise InvalidError(f"path {path!r} does not begin with /")

    def _call(self, name: str, body: dict[str, Any] | None = None, *, wait_s: float = 0.0) -> Any:
        if self._control is None:
            raise UnsupportedError(
                f"{self.root} offers data only, not {name}",
                "connect to the facility's directory or http:// endpoint",
            )
        return self._control.call(name, body, wait_s=wait_s)

    def _entries(self, path: str) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            page = self._call("list", {"path": path, "after": after})
            yield from page["entries"]
            if not page["is_partial"] or not page["entries"]:
                return
            after = page["entries"][-1]["name"]

    def _exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except (NotFoundError, NotDirectoryError):
            return False
        return True

    def _matches(self, directory: str, name: str, is_last: bool) -> Iterator[str]:
        try:
            for entry in self._entries(directory):
                if fnmatch.fnmatchcase(entry["name"], name) and (is_last or entry["kind"] == "directory"):
                    yield posixpath.join(directory, entry["name"])
        except (NotFoundError, NotDirectoryError):
            # A pattern asks what there is: nothing.
            return

    def _files(self, name: str, paths: str | Iterable[str], **fields: Any) -> list[dict[str, Any]]:
        body = {"paths": [paths] if isinstance(paths, str) else list(paths), **fields}
        files = list(self._call(name, body)["files"])
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
            files = list(self._call("await", body, wait_s=min(left_s, _WAIT_S))["files"])
            _raise_first(files)
        return files


def _raise_first(files: Iterable[Mapping[str, Any]]) -> None:
    for file in files:
        refused = file.get("failure")
        if refused:
            error: BackplaneError = failure(refused["kind"], refused["what"], refused.get("hint"))
            raise error
