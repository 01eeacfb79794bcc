"""What a facility does with names: list, find, rename, remove."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable
from typing import Any, Literal

from ._calls import Calls, check_absolute
from ._errors import ExistsError, InvalidError, IsDirectoryError, NotDirectoryError, NotFoundError
from ._patterns import expand, is_pattern
from ._tables import Record, Table

_COLUMNS = ("name", "kind", "size", "state", "owner", "group", "modified")


class NameVerbs(Calls):
    """What a facility does with names."""

    def ls(self, path: str = "/") -> list[dict[str, Any]]:
        """List a directory.

        Parameters
        ----------
        path : str
            Absolute path of the directory.

        Returns
        -------
        list of dict
            In name order: ``name``, ``kind``, ``size``, ``state`` and so on; a notebook shows them as a table.
        """
        return Table(self._entries(path), _COLUMNS)

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
        return Record(self._call("stat", {"path": path}))

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

    def find(
        self, path: str = "/", name: str = "*", *, kind: Literal["file", "directory"] | None = "file"
    ) -> list[str]:
        """Find what is below a directory, however deep.

        Parameters
        ----------
        path : str
            Absolute path; of a file, that file.
        name : str, optional
            Pattern that last components match: ``*``, ``?`` and ``[``.
        kind : {"file", "directory"}, optional
            What is meant; `None` for both.

        Returns
        -------
        list of str
            Paths; what is in a directory follows it, in name order.

        Examples
        --------
        >>> facility.write_bytes("/found/deep/a.txt", b"")
        >>> facility.write_bytes("/found/b.root", b"")
        >>> facility.find("/found")
        ['/found/b.root', '/found/deep/a.txt']
        >>> facility.find("/found", "*.txt")
        ['/found/deep/a.txt']
        >>> facility.find("/found", kind="directory")
        ['/found/deep']
        """
        check_absolute(path)
        if self._call("stat", {"path": path})["kind"] != "directory":
            is_meant = kind != "directory" and fnmatch.fnmatchcase(posixpath.basename(path), name)
            return [path] if is_meant else []
        return [
            place
            for place, entry in self._below(path)
            if kind in (None, entry["kind"]) and fnmatch.fnmatchcase(entry["name"], name)
        ]

    def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory.

        Parameters
        ----------
        path : str
            Absolute path.
        parents : bool, optional
            Make missing parents, and accept a directory that exists.
        """
        self._call("mkdir", {"path": path, "parents": bool(parents)})

    def mv(self, path: str, to: str, *, replace: bool = False) -> str:
        """Rename a file or a directory.

        Parameters
        ----------
        path : str
            Absolute path.
        to : str
            New path, or the directory to move it into.
        replace : bool, optional
            Whether a file that has the new name is replaced.

        Returns
        -------
        str
            Where it is now.

        Raises
        ------
        ExistsError
            If something has the new name and may not be replaced.

        Examples
        --------
        >>> facility.write_bytes("/moves/a", b"1")
        >>> facility.mkdir("/moves/into")
        >>> facility.mv("/moves/a", "/moves/into")
        '/moves/into/a'
        """
        check_absolute(path)
        target = self._target(to, posixpath.basename(path.rstrip("/")))
        try:
            self._call("rename", {"from": path, "to": target, "is_new": not replace})
        except ExistsError as error:
            if error.hint is None and not replace:
                raise ExistsError(error.what, "replace=True replaces a file that exists") from None
            raise
        return target

    def rm(self, paths: str | Iterable[str], *, recursive: bool = False) -> None:
        """Remove files; `restore` brings them back as long as the trash has them.

        Parameters
        ----------
        paths : str or iterable of str
            Absolute paths, or patterns as in `glob`.
        recursive : bool, optional
            Remove directories, with all that is in them.

        Raises
        ------
        NotFoundError
            If a path is not there, or a pattern matches nothing.
        IsDirectoryError
            If a path is a directory and `recursive` was not given; what was named before it is removed.

        Examples
        --------
        >>> facility.write_bytes("/old/run/a", b"1")
        >>> facility.rm("/old", recursive=True)
        >>> facility.find("/", "old", kind="directory")
        []
        """
        for path in self._named(paths):
            if not self._is_directory(path):
                self._call("remove", {"path": path})
            elif recursive:
                self._remove_tree(path)
            else:
                raise IsDirectoryError(f"{path} is a directory", "recursive=True removes it with all that is in it")

    def remove(self, path: str) -> None:
        """Remove a file, or an empty directory; `restore` brings a file back as long as the trash has it.

        Parameters
        ----------
        path : str
            Absolute path.
        """
        is_directory = self.stat(path)["kind"] == "directory"
        self._call("remove_directory" if is_directory else "remove", {"path": path})

    def trash(self, path: str | None = None) -> list[dict[str, Any]]:
        """List what was removed, overwritten or replaced and can be restored.

        Parameters
        ----------
        path : str, optional
            Only what was at this path or below it.

        Returns
        -------
        list of dict
            Removed last first, each with ``id``, ``path``, ``size``, ``owner``, ``removed`` and ``until`` (in ms since
            1970), ``remover``, ``why`` and ``state``.
        """
        found: list[dict[str, Any]] = []
        after: dict[str, Any] | None = None
        while True:
            page = self._call("get_trash", {"path": path, "after": after})
            found += page["files"]
            after = page.get("next")
            if after is None:
                return found

    def restore(self, what: str | int, *, to: str | None = None) -> list[str]:
        """Bring back what was removed.

        Parameters
        ----------
        what : str or int
            A path: the file that was removed last there, or all that was removed below it. Or the ``id`` of one file.
        to : str, optional
            Restore it under this path.

        Returns
        -------
        list of str
            Paths of the files that came back. What was at a path that is taken now stays in the trash.

        Raises
        ------
        NotFoundError
            If nothing of it is in the trash.
        ExistsError
            If another file has its name now.

        Examples
        --------
        >>> facility.write_bytes("/kept/run/a", b"1")
        >>> facility.rm("/kept", recursive=True)
        >>> facility.restore("/kept")
        ['/kept/run/a']
        """
        named = {"path": what} if isinstance(what, str) else {"id": int(what)}
        back: list[str] = []
        after: dict[str, Any] | None = None
        while True:
            part = self._call("restore_trash", {**named, "to": to, "after": after})
            back += part["files"]
            after = part.get("next")
            if after is None:
                return back

    def empty_trash(self, path: str | None = None) -> int:
        """Remove what is in the trash for good; only the owner of the facility may.

        Parameters
        ----------
        path : str, optional
            Only what was at this path or below it.

        Returns
        -------
        int
            How many files are gone.
        """
        files = 0
        while True:
            part = self._call("empty_trash", {"path": path})
            files += int(part["files"])
            if not part["is_more"]:
                return files

    def _remove_tree(self, path: str) -> None:
        below = self._below(path)
        # What is in a directory follows it: from the end each one is empty when its turn comes.
        for place, entry in reversed(below):
            self._call("remove_directory" if entry["kind"] == "directory" else "remove", {"path": place})
        self._call("remove_directory", {"path": path})

    def _below(self, path: str) -> list[tuple[str, dict[str, Any]]]:
        """List a tree without what is at its root; users make trees of any depth, so it is no recursion."""
        found: list[tuple[str, dict[str, Any]]] = []
        left = [(posixpath.join(path, entry["name"]), entry) for entry in self._entries(path)][::-1]
        while left:
            place, entry = left.pop()
            found.append((place, entry))
            if entry["kind"] == "directory":
                try:
                    inside = list(self._entries(place))
                except NotFoundError:
                    # Somebody removed it meanwhile.
                    continue
                left.extend((posixpath.join(place, child["name"]), child) for child in reversed(inside))
        return found

    def _named(self, paths: str | Iterable[str]) -> list[str]:
        """Expand patterns; one that matches nothing is a failure."""
        named: list[str] = []
        for path in [paths] if isinstance(paths, str) else paths:
            check_absolute(path)
            found = self.glob(path) if is_pattern(path) else [path]
            if not found:
                raise NotFoundError(f"no file matches {path}")
            named.extend(found)
        return named

    def _target(self, to: str, name: str) -> str:
        """Say where something of a name comes: below a directory, or at the path itself."""
        check_absolute(to)
        if self._is_directory(to):
            return posixpath.join(to, name)
        if to.endswith("/"):
            raise NotDirectoryError(f"{to} is no directory", f"make it with mkdir({to.rstrip('/')!r}, parents=True)")
        return to

    def _exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except (NotFoundError, NotDirectoryError):
            return False
        return True

    def _matches(self, directory: str, name: str, is_last: bool) -> Iterable[str]:
        try:
            for entry in self._entries(directory):
                if fnmatch.fnmatchcase(entry["name"], name) and (is_last or entry["kind"] == "directory"):
                    yield posixpath.join(directory, entry["name"])
        except (NotFoundError, NotDirectoryError):
            # A pattern asks what there is: nothing.
            return
