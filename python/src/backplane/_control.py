"""The management API: calls as JSON over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from ._calls import News
from ._errors import CorruptError, TimeoutExpiredError, UnavailableError, failure

_DEADLINE_S = 60.0
# Longest wait asked for in one call.
_WAIT_MAX_S = 30.0
_REPLY_BYTES_MAX = 256 << 20
# The slowest copy within a facility that we wait for.
_COPY_BYTES_PER_S = 5e6
# The tag of a pending reply.
_TAG_FIELD = "x-backplane-reply-tag"
# A facility is near: a proxy for the outside world would not find it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# The socket in a facility's directory at which its daemon knows by itself who calls.
_SOCKET = "bp.sock"
# What requests over the socket are addressed to: HTTP wants a host, and this one is here.
_HERE = "http://localhost"


class _SocketConnection(http.client.HTTPConnection):
    """A connection to the daemon that serves a directory."""

    def __init__(self, directory: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._directory = directory

    def connect(self) -> None:
        """Connect, however long the path of the directory is: those of sockets are short."""
        self.sock = connect_socket(self._directory, self.timeout)


def connect_socket(directory: Path, timeout: float | None) -> socket.socket:
    """Connect to the daemon that serves a directory.

    Parameters
    ----------
    directory : Path
        The facility's directory.
    timeout : float or None
        Seconds for connecting, and for what follows.

    Returns
    -------
    socket.socket
        Of a daemon that lives: that of a dead one refuses.
    """
    found = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(f"/proc/self/fd/{found}/{_SOCKET}")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(found)
    return connection


class _SocketHandler(urllib.request.HTTPHandler):
    """Opens every URL at the socket in a directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def http_open(self, request: urllib.request.Request) -> Any:
        """Open a URL, whatever host it names."""

        def connection(_host: str, /, *, timeout: float | None = None, **_: Any) -> _SocketConnection:
            return _SocketConnection(self._directory, timeout)

        return self.do_open(connection, request)


class Control:
    """Makes calls to the management API of one facility.

    Parameters
    ----------
    place : str
        ``http://host:port``, or the directory of a facility on this host, whose daemon is reached at the socket in it.
    user : str
        On whose behalf.
    """

    def __init__(self, place: str, user: str) -> None:
        self.user = user
        self._token = ("", 0.0)
        if place.startswith(("http://", "https://")):
            self.http = self._address = place.rstrip("/")
            self._opener = _OPENER
        else:
            self.http, self._address = place, _HERE
            handler = _SocketHandler(Path(place))
            self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)

    def __reduce__(self) -> tuple[type[Control], tuple[str, str]]:
        """Pickle without connections, and without what proves who the user is."""
        return Control, (self.http, self.user)

    def data_token(self) -> str:
        """Make a token that proves to the data doors who the user is; it is replaced long before it ends."""
        token, renew = self._token
        if time.time() > renew:
            created = self.call("create_token", {"user": self.user})
            token, now = str(created["token"]), time.time()
            self._token = (token, now + (created["expires"] / 1000 - now) / 2)
        return token

    def call(
        self, name: str, body: dict[str, Any] | None = None, *, wait_s: float = 0.0, news: News | None = None
    ) -> Any:
        """Make one call.

        Parameters
        ----------
        name : str
            Of the call.
        body : dict, optional
            Its fields.
        wait_s : float, optional
            How long the answer may be held back while it is pending, at most 30 s.
        news : News, optional
            What was seen: another pending reply is given at once, and noted there.

        Returns
        -------
        object
            The reply, from JSON.

        Raises
        ------
        BackplaneError
            The failure that the facility answered, or that it cannot be reached.
        """
        wait_s = min(max(wait_s, 0.0), _WAIT_MAX_S)
        seen = f"&seen={news.tag}" if news and news.tag else ""
        request = urllib.request.Request(
            f"{self._address}/api/v1/{name}?wait={round(wait_s * 1000)}ms{seen}",
            data=json.dumps(body or {}).encode(),
            headers={"content-type": "application/json", "x-backplane-user": self.user},
            method="POST",
        )
        try:
            with self._opener.open(request, timeout=_DEADLINE_S + wait_s) as answer:
                if news:
                    tag = answer.headers.get(_TAG_FIELD, "")
                    # It becomes a part of a URL.
                    news.tag = tag if tag.isascii() and tag.isalnum() else ""
                text = answer.read(_REPLY_BYTES_MAX)
                if answer.length:
                    # Reading up to a bound does not say that the head went away amid its reply.
                    raise http.client.IncompleteRead(text, answer.length)
                return json.loads(text)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(name, error.code, error.read(_REPLY_BYTES_MAX)) from None
        except TimeoutError as error:
            raise TimeoutExpiredError(f"{self.http} did not answer {name} in time") from error
        except (http.client.HTTPException, OSError) as error:
            cause = getattr(error, "reason", error)
            if isinstance(cause, socket.timeout | TimeoutError):
                raise TimeoutExpiredError(f"{self.http} did not answer {name} in time") from error
            raise UnavailableError(
                f"cannot reach the facility at {self.http} for {name}: {cause}",
                "is it running? `bp up DIR` starts it",
            ) from error
        except ValueError as error:
            raise CorruptError(
                f"{self.http} answered {name} with something else than JSON: {error}",
                "client and facility may have different versions",
            ) from error

    def copy(self, source: str, target: str, *, size: int) -> bool:
        """Copy a file within the facility, and replace what is there; no byte comes here.

        Parameters
        ----------
        source, target : str
            Absolute paths.
        size : int
            Of the source, in bytes: it says how long the copy may take.

        Returns
        -------
        bool
            Whether it was done. If not, the caller does it in another way, which also tells what is wrong.
        """
        request = urllib.request.Request(
            self._address + urllib.parse.quote(source),
            headers={
                "destination": self._address + urllib.parse.quote(target),
                "overwrite": "T",
                "x-backplane-user": self.user,
            },
            method="COPY",
        )
        try:
            with self._opener.open(request, timeout=_DEADLINE_S + size / _COPY_BYTES_PER_S):
                return True
        except TimeoutError as error:
            raise TimeoutExpiredError(f"{self.http} did not copy {source} to {target} in time") from error
        except (http.client.HTTPException, OSError) as error:
            if isinstance(getattr(error, "reason", None), TimeoutError):
                raise TimeoutExpiredError(f"{self.http} did not copy {source} to {target} in time") from error
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            return False

    def _refusal(self, name: str, status: int, text: bytes) -> Exception:
        try:
            told = json.loads(text)
            return failure(told["kind"], told["what"], told.get("hint"))
        except (ValueError, KeyError, TypeError, AttributeError):
            return UnavailableError(
                f"{self.http} answered {name} with HTTP status {status}",
                "is that address a Backplane facility?",
            )
