"""Exceptions: one class for each kind of failure, each also the fitting builtin."""

from __future__ import annotations

from errno import (
    EACCES,
    EAGAIN,
    ECONNREFUSED,
    EDQUOT,
    EEXIST,
    EIO,
    EISDIR,
    ENOENT,
    ENOSPC,
    ENOTDIR,
    ENOTEMPTY,
    ETIMEDOUT,
)


class BackplaneError(Exception):
    """Something a facility or a kernel could not do.

    Attributes
    ----------
    kind : str
        What can be done about it, as in replies of the management API.
    what : str
        What failed, and on which thing.
    hint : str or None
        The next step, if one is known.
    """

    kind: str = "internal"

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")

    def __str__(self) -> str:
        # OSError would print an error number that we do not have.
        return self.what


class NotFoundError(BackplaneError, FileNotFoundError):
    """The named thing does not exist."""

    kind = "not_found"
    errno = ENOENT


class ExistsError(BackplaneError, FileExistsError):
    """The named thing exists already."""

    kind = "exists"
    errno = EEXIST


class NotDirectoryError(BackplaneError, NotADirectoryError):
    """A component of the path is not a directory."""

    kind = "not_directory"
    errno = ENOTDIR


class IsDirectoryError(BackplaneError, IsADirectoryError):
    """A directory was named where a file is needed."""

    kind = "is_directory"
    errno = EISDIR


class NotEmptyError(BackplaneError, OSError):
    """The directory still has entries."""

    kind = "not_empty"
    errno = ENOTEMPTY


class PermissionDeniedError(BackplaneError, PermissionError):
    """You may not do this."""

    kind = "permission"
    errno = EACCES


class InvalidError(BackplaneError, ValueError):
    """The request makes no sense, whoever sends it."""

    kind = "invalid"


class BusyError(BackplaneError, BlockingIOError):
    """A bound is reached or the thing is in use; trying later can help."""

    kind = "busy"
    errno = EAGAIN


class NoSpaceError(BackplaneError, OSError):
    """No room left on disk or tape."""

    kind = "no_space"
    errno = ENOSPC


class OverQuotaError(BackplaneError, OSError):
    """A user, group or project holds as much as it may."""

    kind = "over_quota"
    errno = EDQUOT


class CorruptError(BackplaneError, ValueError):
    """Bytes do not match their checksum, label or format."""

    kind = "corrupt"


class FacilityIOError(BackplaneError, OSError):
    """The operating system or a device failed."""

    kind = "io"
    errno = EIO


class UnsupportedError(BackplaneError, NotImplementedError):
    """Known, but not offered here."""

    kind = "unsupported"


class TimeoutExpiredError(BackplaneError, TimeoutError):
    """A deadline passed."""

    kind = "timeout"
    errno = ETIMEDOUT


class UnavailableError(BackplaneError, ConnectionError):
    """The part of the facility that would do it is not there; trying later can help."""

    kind = "unavailable"
    errno = ECONNREFUSED


class InternalError(BackplaneError, RuntimeError):
    """A bug of ours."""

    kind = "internal"


class JobFailedError(BackplaneError, RuntimeError):
    """A job did not end well; raised only where that is asked for."""

    kind = "job_failed"


_BY_KIND: dict[str, type[BackplaneError]] = {
    error.kind: error
    for error in (
        NotFoundError,
        ExistsError,
        NotDirectoryError,
        IsDirectoryError,
        NotEmptyError,
        PermissionDeniedError,
        InvalidError,
        BusyError,
        NoSpaceError,
        OverQuotaError,
        CorruptError,
        FacilityIOError,
        UnsupportedError,
        TimeoutExpiredError,
        UnavailableError,
        InternalError,
    )
}


def failure(kind: str, what: str, hint: str | None = None) -> BackplaneError:
    """Make the exception of a kind.

    Parameters
    ----------
    kind : str
        As in replies of the management API; unknown ones become `InternalError`.
    what : str
        What failed.
    hint : str, optional
        The next step.

    Returns
    -------
    BackplaneError
        To be raised.
    """
    return _BY_KIND.get(kind, InternalError)(what, hint)
