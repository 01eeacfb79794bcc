"""Copies between this host and a facility."""

from __future__ import annotations

import os
import posixpath
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from ._calls import check_absolute
from ._errors import ExistsError, InvalidError, IsDirectoryError, NotDirectoryError, NotFoundError
from ._file import FacilityFile, Mode
from ._names import NameVerbs

LocalPath: TypeAlias = str | os.PathLike[str]
TransferProgress: TypeAlias = Callable[[int], object] | None
"""Gets the bytes of the file that were moved so far, several times a second."""


class TransferVerbs(NameVerbs):
    """Copies between this host and a facility."""

    @abstractmethod
    def _open_file(self, path: str, mode: Mode, size: int | None = None) -> FacilityFile: ...

    def put(
        self,
        local: LocalPath,
        path: str,
        *,
        replace: bool = False,
        recursive: bool = False,
        progress: TransferProgress = None,
    ) -> str:
        """Copy a local file into the facility.

        Parameters
        ----------
        local : path
            The file; a directory with `recursive`, whose symbolic links are left out.
        path : str
            Absolute path in the facility, or a directory there to put it into. Missing directories are made; with a
            slash at its end the path means a directory.
        replace : bool, optional
            Whether a file that exists is replaced.
        recursive : bool, optional
            Copy directories with what is in them.
        progress : callable, optional
            Gets the bytes moved so far of each file.

        Returns
        -------
        str
            Where it is in the facility.

        Raises
        ------
        ExistsError
            If the file exists and may not be replaced; it stays as it is.

        Examples
        --------
        >>> from pathlib import Path
        >>> _ = Path("/tmp/bp-example.txt").write_text("hello")
        >>> facility.put("/tmp/bp-example.txt", "/put/", replace=True)
        '/put/bp-example.txt'
        >>> facility.get("/put/bp-example.txt", "/tmp/bp-example.txt", replace=True)
        PosixPath('/tmp/bp-example.txt')
        """
        check_absolute(path)
        source = Path(local)
        name = source.absolute().name
        if path.endswith("/") or self._is_directory(path):
            path = posixpath.join(path, name)
        if not source.is_dir():
            self._put_file(source, path, replace, progress)
            return path
        if not recursive:
            raise IsDirectoryError(f"{source} is a directory", "recursive=True copies it with what is in it")
        self.mkdir(path, parents=True)
        for file, relative in _local_tree(source):
            target = posixpath.join(path, relative)
            if file.is_dir():
                self.mkdir(target, parents=True)
            else:
                self._put_file(file, target, replace, progress)
        return path

    def get(
        self,
        path: str,
        local: LocalPath = ".",
        *,
        replace: bool = False,
        recursive: bool = False,
        progress: TransferProgress = None,
    ) -> Path:
        """Copy a file out of the facility; one that is on tape only is recalled first.

        Parameters
        ----------
        path : str
            Absolute path in the facility; a directory with `recursive`.
        local : path, optional
            Local path, or a directory to put it into; this directory unless given.
        replace : bool, optional
            Whether a local file that exists is replaced.
        recursive : bool, optional
            Copy directories with what is in them. All their files are staged before the first is waited for.
        progress : callable, optional
            Gets the bytes moved so far of each file.

        Returns
        -------
        Path
            Where it is on this host. A file appears when it is whole.

        Raises
        ------
        ExistsError
            If the local file exists and may not be replaced.
        """
        check_absolute(path)
        target = Path(local)
        if target.is_dir():
            target /= posixpath.basename(path.rstrip("/"))
        elif os.fspath(local).endswith("/"):
            raise NotDirectoryError(f"{os.fspath(local)} is no directory", "make it first")
        if not self._is_directory(path):
            self._get_file(path, target, replace, progress)
            return target
        if not recursive:
            raise IsDirectoryError(f"{path} is a directory", "recursive=True copies it with what is in it")
        below = self._below(path)
        files = [place for place, entry in below if entry["kind"] == "file"]
        if files:
            self._call("stage", {"paths": files, "pin": None})
        target.mkdir(exist_ok=True)
        for place, entry in below:
            copy = target / posixpath.relpath(place, path)
            if entry["kind"] == "directory":
                copy.mkdir(exist_ok=True)
            else:
                self._get_file(place, copy, replace, progress)
        return target

    def _keep(self, local: LocalPath, path: str) -> str:
        """Put a file where jobs find it, unless it is there; returns where. Others are not replaced: jobs may wait."""
        if path.endswith("/") or self._is_directory(path):
            path = posixpath.join(path, Path(local).name)
        try:
            size = self._call("stat", {"path": path})["size"]
        except FileNotFoundError:
            return self.put(local, path)
        if size == Path(local).stat().st_size:
            with self._open_file(path, "rb") as file:
                if file.read() == Path(local).read_bytes():
                    return path
        raise ExistsError(
            f"{path} exists and differs from {os.fspath(local)}",
            "name another path, or replace it by put(…, replace=True)",
        )

    def _put_file(self, source: Path, path: str, replace: bool, progress: TransferProgress) -> None:
        if not source.is_file():
            if not source.exists():
                raise NotFoundError(f"{source} does not exist on this host")
            # Of a pipe or a device nobody knows how long it is.
            raise InvalidError(f"{source} is no plain file", "open() writes what comes from elsewhere")
        with self._open_file(path, "wb" if replace else "xb", source.stat().st_size) as file:
            file.upload(str(source), progress)

    def _get_file(self, path: str, target: Path, replace: bool, progress: TransferProgress) -> None:
        if not replace and os.path.lexists(target):
            raise ExistsError(f"{target} exists", "replace=True replaces it")
        part = target.with_name(f".{target.name}.part-{os.getpid()}")
        try:
            with self._open_file(path, "rb") as file:
                file.download(str(part), progress)
            if replace:
                part.replace(target)
            else:
                _rename_new(part, target)
        finally:
            part.unlink(missing_ok=True)


def _rename_new(part: Path, target: Path) -> None:
    """Give a file its name unless somebody has taken it meanwhile."""
    try:
        os.link(part, target)
    except FileExistsError as error:
        raise ExistsError(f"{target} exists", "replace=True replaces it") from error
    except OSError:
        # A file system without hard links.
        part.rename(target)


def _local_tree(top: Path) -> Iterator[tuple[Path, str]]:
    """List what is below a directory, without recursion and without following symbolic links."""
    left = [(top, "")]
    while left:
        directory, relative = left.pop()
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            place = posixpath.join(relative, entry.name)
            if entry.is_dir(follow_symlinks=False):
                left.append((Path(entry.path), place))
                yield Path(entry.path), place
            elif entry.is_file(follow_symlinks=False):
                yield Path(entry.path), place
