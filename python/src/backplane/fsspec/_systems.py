"""The two file systems: of a facility, and of any XRootD server."""

from __future__ import annotations

import hashlib
import os
from typing import Any
from urllib.parse import urlsplit

from .._control import Control
from .._errors import InvalidError
from .._facility import connect
from .._user import this_user
from ._filesystem import DoorFileSystem, Info


def _split_authority(url: str) -> tuple[str, str | None]:
    """Take the host with its port and the user out of a URL."""
    authority = urlsplit(url.partition("?")[0]).netloc
    user, _, host = authority.rpartition("@")
    return host, user or None


class FacilityFileSystem(DoorFileSystem):
    """The files of a facility, for fsspec: ``bp:///path`` and ``bp://host:port/path``.

    Pickled, it goes to other processes with the address of the door that it has found, so that they see the same files
    whatever ``BP_FACILITY`` says there.

    Parameters
    ----------
    facility : path or str, optional
        The facility's directory, its ``http://`` endpoint, or its ``root://`` or ``roots://`` endpoint. Left out, the
        environment variable ``BP_FACILITY`` says where.
    http : str, optional
        Its management door, ``http://host:port``, or its directory, for copies within the facility. Found out from the
        first two kinds of `facility`.
    user : str, optional
        On whose behalf; the name of this user unless given.
    is_token_required : bool, optional
        Whether the data doors demand tokens. Found out from the facility's directory, whose daemon then makes them.

    Examples
    --------
    >>> fs = FacilityFileSystem()
    >>> fs.pipe("/runs/1.txt", b"one")
    >>> fs.glob("/runs/*.txt")
    ['/runs/1.txt']
    >>> with fs.open("/runs/1.txt", "rt") as file:
    ...     file.read()
    'one'
    """

    protocol = ("bp",)

    def __init__(
        self,
        facility: str | os.PathLike[str] | None = None,
        http: str | None = None,
        user: str | None = None,
        is_token_required: bool = False,
        **storage_options: Any,
    ) -> None:
        super().__init__(**storage_options)
        # `_locate` has put the door here, whatever was given.
        self._door = str(facility)
        self._user = user or this_user()
        self._control = None if http is None else Control(http, self._user)
        self._is_token_required = is_token_required

    @classmethod
    def _locate(
        cls,
        facility: str | os.PathLike[str] | None = None,
        http: str | None = None,
        user: str | None = None,
        is_token_required: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        found = connect(facility, user=user)
        return {
            "facility": found.root,
            "http": http or found._management(),
            "user": found.user,
            "is_token_required": is_token_required or found._is_token_required,
            **options,
        }

    def _prove(self, opaque: str) -> str:
        if opaque or self._control is None or not self._is_token_required:
            return opaque
        return f"?authz=Bearer%20{self._control.data_token()}"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        host, user = _split_authority(path)
        options = {"facility": f"root://{host}" if host else None, "user": user}
        return {key: value for key, value in options.items() if value is not None}

    def unstrip_protocol(self, name: str) -> str:
        """Give the URL of a path, with host and port.

        Parameters
        ----------
        name : str
            Path or URL.

        Returns
        -------
        str
            Such as ``bp://host:1094/data/run1.parquet``.
        """
        return f"bp://{self._door.partition('://')[2]}{self._strip_protocol(name)}"

    def ukey(self, path: str) -> str:
        """Give a string that is another one when the file was changed, also within one second."""
        info = self.info(path)
        # The facility knows it from when the file was written.
        known = self.checksum(path) if info["type"] == "file" else ()
        return hashlib.sha256(repr([info["ino"], info["size"], info["mtime"], *known]).encode()).hexdigest()

    def _copy_in_server(self, source: Info, target: str) -> bool:
        if self._control is None:
            return False
        parent = self._parent(target)
        self.makedirs(parent, exist_ok=True)
        return self._control.copy(source["name"], target, size=source["size"])


class RootFileSystem(DoorFileSystem):
    """The files of any XRootD server, for fsspec: ``root://host:port//path``, opaque part and all.

    It stands in for fsspec-xrootd: options of that which have no meaning here are accepted and have no effect.

    Parameters
    ----------
    hostid : str
        ``host``, ``host:port`` or ``user@host:port``.
    user : str, optional
        On whose behalf; the one in `hostid`, or the name of this user, unless given.

    Examples
    --------
    >>> fs = RootFileSystem("alice@disk1:1094")
    >>> fs.unstrip_protocol("/data/run1.root")
    'root://disk1:1094//data/run1.root'
    """

    protocol: tuple[str, ...] = ("root", "xroot")

    def __init__(self, hostid: str = "", user: str | None = None, **storage_options: Any) -> None:
        super().__init__(**storage_options)
        self.hostid = hostid
        self._door = f"{self.protocol[0]}://{hostid}"
        self._user = user or this_user()

    @classmethod
    def _locate(cls, hostid: str = "", user: str | None = None, **options: Any) -> dict[str, Any]:
        host, named = _split_authority(f"root://{hostid}")
        if not host:
            raise InvalidError("no XRootD server was named", "write root://host:port//path")
        return {"hostid": host, "user": user or named or this_user(), **options}

    @classmethod
    def _split(cls, path: str) -> tuple[str, str]:
        path, separator, opaque = path.partition("?")
        return path, separator + opaque

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        host, user = _split_authority(path)
        return {"hostid": f"{user}@{host}" if user else host}

    def unstrip_protocol(self, name: str) -> str:
        """Give the URL of a path.

        Parameters
        ----------
        name : str
            Path or URL.

        Returns
        -------
        str
            Such as ``root://host:1094//data/run1.root``.
        """
        return f"{self._door}/{self._strip_protocol(name)}"


class RootsFileSystem(RootFileSystem):
    """The same with TLS from the start: ``roots://host:port//path``."""

    protocol = ("roots", "xroots")
