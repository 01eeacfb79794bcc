"""What all our file systems of fsspec have in common: names and files of one XRootD door."""

from __future__ import annotations

import functools
import hashlib
import html
import os
import posixpath
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.config import apply_config
from fsspec.core import get_compression
from fsspec.spec import AbstractFileSystem, _Cached
from fsspec.utils import isfilelike, stringify_path

from .. import _core
from .._errors import InvalidError, UnsupportedError
from .._file import FacilityFile, Mode
from .._patterns import is_pattern
from ._handles import HANDLES
from ._objects import CachedFile, CompressedWriter, ReadFile, TextWriter, WriteFile, open_file
from ._ranges import read_cuts, several

Info: TypeAlias = dict[str, Any]
_Result = TypeVar("_Result")

# What a path that is not there makes a server say.
_MISSING = (FileNotFoundError, NotADirectoryError)


class _Located(_Cached):
    """Finds out where a file system is before its instance is looked for: the place is what tells instances apart."""

    def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: N805 - the class of a class
        return super().__call__(**cls._locate(*args, **apply_config(cls, options)))


class DoorFileSystem(AbstractFileSystem, metaclass=_Located):
    """Names and files of one XRootD door.

    Use `FacilityFileSystem` or `RootFileSystem`. Methods that are not listed here are those of
    `fsspec.spec.AbstractFileSystem`. Threads may use one instance at the same time. Listings are not cached. Between
    two calls of `cat_file` or `cat_ranges` a file stays open for up to five seconds: for so long they may miss that
    another process replaced it. What this process changes they see at once.
    """

    root_marker = "/"
    blocksize = 8 << 20
    # `root://host:port`, and on whose behalf; set by the subclasses.
    _door: str
    _user: str

    def __repr__(self) -> str:
        # Its base class prints what options it was made with, which may be a proof of who the user is.
        return f"<{type(self).__name__} {self.unstrip_protocol('/')}>"

    def _repr_html_(self) -> str:
        return html.escape(repr(self))

    @classmethod
    @abstractmethod
    def _locate(cls, **options: Any) -> dict[str, Any]:
        """Replace options that depend on the surroundings by what they stand for here and now."""

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = str(stringify_path(path))
        scheme, separator, rest = path.partition("://")
        if separator and scheme in cls.protocol:
            # What is before the path is the door.
            path = rest[rest.find("/") :] if "/" in rest else "/"
        return "/" + path.strip("/")

    @classmethod
    def _split(cls, path: str) -> tuple[str, str]:
        """Take a path apart: the door's path, and what follows the question mark where there is such a thing."""
        return path, ""

    def _prove(self, opaque: str) -> str:
        """Add what proves to the door who the user is, if it is to be added here."""
        return opaque

    def _on(self, path: str) -> tuple[_core.RemoteNames, str]:
        path, opaque = self._split(self._strip_protocol(path))
        return _core.RemoteNames(f"{self._door}//{self._prove(opaque)}", self._user), path

    def _open_raw(self, path: str, mode: Mode, size: int | None = None) -> FacilityFile:
        path, opaque = self._split(self._strip_protocol(path))
        return FacilityFile(f"{self._door}//{self._prove(opaque)}", mode, self._user, path=path, size=size)

    def _open_remote(self, path: str) -> _core.RemoteFile:
        return self._open_raw(path, "rb").detach_remote()

    def _read(self, path: str, read: Callable[[_core.RemoteFile], _Result]) -> _Result:
        """Read from a file that stays open for a moment."""
        path = self._strip_protocol(path)
        found = HANDLES.find(self._door, self._user, path)
        if found is not None:
            try:
                return read(found)
            except (OSError, ValueError):
                # It may have been replaced since; a new one tells.
                HANDLES.drop(found)
        return read(HANDLES.open(self._door, self._user, path, functools.partial(self._open_remote, path)))

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget which files are open.

        Parameters
        ----------
        path : str, optional
            What changed; all files of the door are forgotten whatever it is.
        """
        HANDLES.forget(self._door)
        super().invalidate_cache(path)

    # Names

    def info(self, path: str, **_: Any) -> Info:
        """Describe a path.

        Parameters
        ----------
        path : str
            Path or URL.

        Returns
        -------
        dict
            ``name``, ``size`` in bytes, ``type`` (``"file"``, ``"directory"`` or ``"other"``), ``mtime`` in seconds,
            ``ino``, ``is_online`` (it can be read without a recall), ``is_archived`` (it is on tape), and where the
            server tells it ``created`` (when attributes changed, in seconds), ``mode``, ``owner`` and ``group``.

        Examples
        --------
        >>> fs.pipe("/data/a", b"abc")
        >>> info = fs.info("bp:///data/a")
        >>> info["name"], info["size"], info["type"]
        ('/data/a', 3, 'file')
        """
        names, target = self._on(path)
        return _info(self._strip_protocol(path), names.stat(target))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a directory.

        Parameters
        ----------
        path : str
            Path or URL; of a file, that file is listed.
        detail : bool, optional
            Whether to describe each as `info` does.

        Returns
        -------
        list of dict or list of str
            In name order.

        Examples
        --------
        >>> fs.makedirs("/lists/sub")
        >>> fs.touch("/lists/empty")
        >>> fs.ls("/lists", detail=False)
        ['/lists/empty', '/lists/sub']
        """
        path = self._strip_protocol(path)
        names, target = self._on(path)
        try:
            entries = sorted(names.list(target), key=lambda entry: entry[0])
        except NotADirectoryError:
            entry = self.info(path)
            return [entry if detail else entry["name"]]
        if not detail:
            return [posixpath.join(target, name) for name, _ in entries]
        places = [(posixpath.join(target, name), attributes) for name, attributes in entries]
        return [_info(place, attributes or names.stat(place)) for place, attributes in places]

    def exists(self, path: str, **_: Any) -> bool:
        """Tell whether there is something at a path; a door that does not answer is an exception."""
        return self._is(path, ("file", "directory", "other"))

    def isdir(self, path: str) -> bool:
        """Tell whether a path is a directory; a door that does not answer is an exception."""
        return self._is(path, ("directory",))

    def isfile(self, path: str) -> bool:
        """Tell whether a path is a file; a door that does not answer is an exception."""
        return self._is(path, ("file",))

    def _is(self, path: str, kinds: tuple[str, ...]) -> bool:
        try:
            return self.info(path)["type"] in kinds
        except _MISSING:
            return False

    def glob(self, path: str, maxdepth: int | None = None, **options: Any) -> Any:
        """Find paths; what has just the name of the pattern is meant itself.

        Parameters
        ----------
        path : str
            Path or URL with patterns, as `fsspec.AbstractFileSystem.glob` takes them.
        maxdepth : int, optional
            Most levels that ``**`` stands for.
        **options
            ``detail=True`` to have each described as `info` does.

        Returns
        -------
        list of str or dict of str to dict
            What is there, in name order.

        Examples
        --------
        >>> fs.pipe({"/names/run[1].txt": b"", "/names/run1.txt": b"", "/names/run2.txt": b""})
        >>> fs.glob("/names/run[1].txt")
        ['/names/run[1].txt']
        >>> fs.glob("/names/run[12].txt")
        ['/names/run1.txt', '/names/run2.txt']
        """
        literal = self._strip_protocol(path)
        # The protocol has no names with a question mark.
        if is_pattern(literal) and "?" not in literal and self.exists(literal):
            return {literal: self.info(literal)} if options.get("detail") else [literal]
        return super().glob(path, maxdepth=maxdepth, **options)

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: Any = "omit", **options: Any
    ) -> Iterator[Any]:
        """Walk a tree, as `os.walk` does; what cannot be listed because the door does not answer is an exception."""
        on_error = _omit if on_error == "omit" else on_error
        yield from super().walk(path, maxdepth=maxdepth, topdown=topdown, on_error=on_error, **options)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Make a directory; one that exists is a failure.

        Parameters
        ----------
        path : str
            Path or URL.
        create_parents : bool, optional
            Whether to make its parents too.
        """
        names, path = self._on(path)
        if create_parents and posixpath.dirname(path) != "/":
            names.mkdir(posixpath.dirname(path), True)
        names.mkdir(path, False)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and its parents.

        Parameters
        ----------
        path : str
            Path or URL.
        exist_ok : bool, optional
            Whether it may exist.
        """
        if not exist_ok:
            return self.mkdir(path)
        names, path = self._on(path)
        if path != "/":
            names.mkdir(path, True)
        return None

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        names, path = self._on(path)
        names.rmdir(path)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        names, target = self._on(path)
        names.remove(target)
        self.invalidate_cache(path)

    _rm = rm_file

    def rm(self, path: str | Sequence[str], recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files, or trees.

        Parameters
        ----------
        path : str or list of str
            Paths, URLs or patterns.
        recursive : bool, optional
            Whether directories are removed with all that is in them.
        maxdepth : int, optional
            How deep to go.
        """
        paths = self.expand_path(path)
        if not recursive:
            for each in paths:
                self.rm_file(each)
            return
        found: dict[str, Info] = {}
        for each in paths:
            tree = self.find(each, maxdepth=maxdepth, withdirs=True, detail=True)
            # What is not there is not found, and must not pass as removed.
            found.update(tree or {each: self.info(each)})
        for name in sorted(found, reverse=True):
            if found[name]["type"] == "directory":
                self.rmdir(name)
            else:
                self.rm_file(name)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        """Rename a file or a directory.

        Parameters
        ----------
        path1 : str
            What. A pattern or list moves several, by copies.
        path2 : str
            New name, or the directory to move it to.
        recursive, maxdepth
            As of `fsspec.spec.AbstractFileSystem.mv`, for several.
        """
        if not isinstance(path1, str) or "*" in path1 or "[" in path1:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        names, source = self._on(path1)
        _, target = self._on(path2)
        if path2.endswith("/") or self.isdir(target):
            target = posixpath.join(target, posixpath.basename(source))
        if source != target:
            names.rename(source, target)
            self.invalidate_cache(path1)

    def chmod(self, path: str, mode: int) -> None:
        """Change permission bits."""
        names, path = self._on(path)
        names.chmod(path, mode)

    def created(self, path: str) -> datetime:
        """Tell when attributes of a path last changed, as local files do; UTC."""
        info = self.info(path)
        return datetime.fromtimestamp(info["created"] if "created" in info else info["mtime"], UTC)

    def modified(self, path: str) -> datetime:
        """Tell when the content of a path last changed; UTC."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def checksum(self, path: str, algorithm: str | None = None) -> tuple[str, str]:
        """Ask for the checksum of a file.

        Parameters
        ----------
        path : str
            Path or URL.
        algorithm : str, optional
            Such as ``"adler32"`` or ``"crc32c"``; the server chooses unless given.

        Returns
        -------
        tuple of str
            Algorithm and sum in hexadecimal.

        Examples
        --------
        >>> fs.pipe("/data/a", b"abc")
        >>> fs.checksum("/data/a", "adler32")
        ('adler32', '024d0127')
        """
        names, target = self._on(path)
        return names.checksum(target, algorithm)

    def ukey(self, path: str) -> str:
        """Give a string that is another one when the file was changed."""
        info = self.info(path)
        return hashlib.sha256(repr([info[key] for key in ("ino", "size", "mtime", "type")]).encode()).hexdigest()

    # Content

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        """Open a file, as `fsspec.spec.AbstractFileSystem.open` does.

        Parameters
        ----------
        path : str
            Path or URL.
        mode : str
            ``"r"``, ``"w"`` or ``"x"``, with ``"b"`` for bytes or ``"t"`` for text.
        block_size : int, optional
            Size of the buffer in bytes.
        cache_options : dict, optional
            Of the cache that an option ``cache_type`` names; without one the client reads ahead.
        compression : str, optional
            Such as ``"gzip"``, or ``"infer"`` to tell by the name.
        options
            ``encoding``, ``errors`` and ``newline`` of text.

        Returns
        -------
        file object
            If a ``with`` block over it ends by an exception, what was written is given up.
        """
        if mode[:1] not in ("w", "x") or "+" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **options)
        text = {key: options.pop(key) for key in ("encoding", "errors", "newline") if key in options}
        file = super().open(path, mode.replace("t", "").replace("b", "") + "b", block_size, cache_options, **options)
        codec = get_compression(path, compression)
        if codec is not None:
            file = CompressedWriter(file, codec)
        return file if "b" in mode else TextWriter(file, **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        cache_type: str = "default",
        **_: Any,
    ) -> ReadFile | WriteFile | CachedFile:
        for known in get_args(Mode):
            if mode == known:
                return open_file(self, path, known, block_size, cache_type, cache_options, autocommit)
        raise UnsupportedError(
            f"mode {mode!r} is not one of rb, wb, xb", "files are written whole; read it, and write it anew"
        )

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Read a file or a range of it.

        Parameters
        ----------
        path : str
            Path or URL.
        start, end : int, optional
            As of a slice: what is negative counts from the end, what lies behind it is left out.

        Returns
        -------
        bytes
            The content.

        Examples
        --------
        >>> fs.pipe("/data/a", b"abcdef")
        >>> fs.cat_file("/data/a", 1, -1)
        b'bcde'
        """

        def read(file: _core.RemoteFile) -> bytes:
            first, stop, _ = slice(start, end).indices(file.size)
            return file.read(first, max(stop - first, 0))

        return self._read(path, read)

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Read many ranges of files: one vector read for each file, several files at the same time.

        Parameters
        ----------
        paths : list of str
            Path or URL for each range; the same one for many ranges.
        starts, ends : list of int, or int
            As of `cat_file`.
        max_gap : int, optional
            Ranges with so many bytes between them are read as one. Touching and overlapping ones always are.
        on_error : {"return", "raise"}
            Whether an exception takes the place of what could not be read.

        Returns
        -------
        list of bytes
            In the order of the ranges.

        Examples
        --------
        >>> fs.pipe("/data/a", b"abcdef")
        >>> fs.cat_ranges(["/data/a", "/data/a"], [0, -2], [2, None])
        [b'ab', b'ef']
        """
        if isinstance(paths, str):
            raise InvalidError("paths is one path, not a list of them")
        bounds = [
            list(each) if isinstance(each, list | tuple) or hasattr(each, "__len__") else [each] * len(paths)
            for each in (starts, ends)
        ]
        if any(len(each) != len(paths) for each in bounds):
            raise InvalidError(
                f"{len(paths)} paths, {len(bounds[0])} starts and {len(bounds[1])} ends do not go together"
            )
        places: dict[str, list[int]] = defaultdict(list)
        for index, path in enumerate(paths):
            places[self._strip_protocol(path)].append(index)

        def read(path: str) -> list[Any]:
            cuts = [slice(bounds[0][index], bounds[1][index]) for index in places[path]]
            try:
                return self._read(path, functools.partial(read_cuts, cuts=cuts, max_gap=max_gap))
            except Exception as error:
                if on_error == "raise":
                    raise
                return [error] * len(cuts)

        found: list[Any] = [None] * len(paths)
        for path, pieces in zip(places, several(read, list(places)), strict=True):
            for index, piece in zip(places[path], pieces, strict=True):
                found[index] = piece
        return found

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        """Write a whole file.

        Parameters
        ----------
        path : str
            Path or URL; missing directories are made.
        value : buffer
            Its content.
        mode : {"overwrite", "create"}
            Whether it may exist.
        """
        size = memoryview(value).nbytes
        with self._open_raw(path, "xb" if mode == "create" else "wb", size) as file:
            file.write(value)
        self.invalidate_cache(path)

    def get_file(
        self, rpath: str, lpath: Any = None, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **_: Any
    ) -> None:
        """Copy a file to a local one, which appears when it is complete.

        Parameters
        ----------
        rpath : str
            Path or URL; of a directory, only that is made.
        lpath : path or file object
            Local path, whose directories are made.
        callback : fsspec.callbacks.Callback, optional
            Hears how far it is.
        outfile : file object, optional
            Written instead of `lpath`.
        """
        if outfile is not None or isfilelike(lpath):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile)
            return
        target = Path(os.fsdecode(lpath))
        if self.isdir(rpath):
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part-{os.getpid()}")
        remote = self._open_remote(rpath)
        try:
            callback.set_size(remote.size)
            remote.download(str(part), callback.absolute_update)
            part.replace(target)
        finally:
            remote.close()
            part.unlink(missing_ok=True)

    def put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **_: Any
    ) -> None:
        """Copy a local file here.

        Parameters
        ----------
        lpath : path
            Local path; of a directory, only that is made.
        rpath : str
            Path or URL; missing directories are made.
        callback : fsspec.callbacks.Callback, optional
            Hears how far it is.
        mode : {"overwrite", "create"}
            Whether it may exist.
        """
        source = Path(os.fsdecode(lpath))
        if source.is_dir():
            self.makedirs(rpath, exist_ok=True)
            return
        size = source.stat().st_size
        callback.set_size(size)
        with self._open_raw(rpath, "xb" if mode == "create" else "wb", size) as file:
            file.upload(str(source), callback.absolute_update)
        self.invalidate_cache(rpath)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy a file, in the server if that can; of a directory, only that is made.

        Parameters
        ----------
        path1, path2 : str
            Paths or URLs, from and to; missing directories are made.
        """
        source = self.info(path1)
        if source["type"] == "directory":
            self.makedirs(path2, exist_ok=True)
            return
        if not self._copy_in_server(source, self._strip_protocol(path2)):
            with self._open_raw(path1, "rb") as reader, self._open_raw(path2, "wb", source["size"]) as writer:
                writer.copy_from(reader)
        self.invalidate_cache(path2)

    def _copy_in_server(self, source: Info, target: str) -> bool:  # noqa: ARG002 - of the subclasses that can
        """Copy without a byte coming here; `False` if that cannot be done."""
        return False


def _info(path: str, attributes: _core.Attributes) -> Info:
    info: Info = {
        "name": path,
        "size": attributes.size,
        "type": attributes.kind,
        "mtime": float(attributes.modified_s),
        "ino": attributes.id,
        "is_online": attributes.is_online,
        "is_archived": attributes.is_archived,
    }
    if attributes.changed_s is not None:
        owner = {"mode": attributes.mode, "owner": attributes.owner, "group": attributes.group}
        info |= {"created": float(attributes.changed_s), **owner}
    return info


def _omit(error: OSError) -> None:
    if not isinstance(error, (*_MISSING, PermissionError)):
        raise error
