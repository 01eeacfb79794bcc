"""The management API: calls as JSON over HTTP."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ._errors import CorruptError, TimeoutExpiredError, UnavailableError, failure

_DEADLINE_S = 60.0
# Longest wait asked for in one call.
_WAIT_MAX_S = 30.0
_REPLY_BYTES_MAX = 256 << 20
# The slowest copy within a facility that we wait for.
_COPY_BYTES_PER_S = 5e6
# A facility is near: a proxy for the outside world would not find it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Control:
    """Makes calls to the management API of one facility.

    Parameters
    ----------
    http : str
        ``http://host:port``.
    user : str
        On whose behalf.
    """

    def __init__(self, http: str, user: str) -> None:
        self.http = http.rstrip("/")
        self.user = user

    def call(self, name: str, body: dict[str, Any] | None = None, *, wait_s: float = 0.0) -> Any:
        """Make one call.

        Parameters
        ----------
        name : str
            Of the call.
        body : dict, optional
            Its fields.
        wait_s : float, optional
            How long the answer may be held back while it is pending, at most 30 s.

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
        request = urllib.request.Request(
            f"{self.http}/api/v1/{name}?wait={round(wait_s * 1000)}ms",
            data=json.dumps(body or {}).encode(),
            headers={"content-type": "application/json", "x-backplane-user": self.user},
            method="POST",
        )
        try:
            with _OPENER.open(request, timeout=_DEADLINE_S + wait_s) as answer:
                return json.loads(answer.read(_REPLY_BYTES_MAX))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(name, error.code, error.read(_REPLY_BYTES_MAX)) from None
        except TimeoutError as error:
            raise TimeoutExpiredError(f"{self.http} did not answer {name} in time") from error
        except (urllib.error.URLError, OSError) as error:
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
                "client and facility may be of different versions",
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
            self.http + urllib.parse.quote(source),
            headers={
                "destination": self.http + urllib.parse.quote(target),
                "overwrite": "T",
                "x-backplane-user": self.user,
            },
            method="COPY",
        )
        try:
            with _OPENER.open(request, timeout=_DEADLINE_S + size / _COPY_BYTES_PER_S):
                return True
        except TimeoutError as error:
            raise TimeoutExpiredError(f"{self.http} did not copy {source} to {target} in time") from error
        except OSError as error:
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
