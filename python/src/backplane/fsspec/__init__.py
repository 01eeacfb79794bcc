"""The facility as a file system of fsspec: what pandas, pyarrow, dask, uproot and many others read by.

URLs are ``bp:///path`` in the facility that ``BP_FACILITY`` names, or ``bp://host:port/path`` with the host and port of
a data door. Where the package is installed, fsspec finds ``bp`` by itself::

    import pandas

    frame = pandas.read_parquet("bp:///data/run1.parquet")
    frame.to_csv("bp:///data/run1.csv")

`FacilityFileSystem` has all that fsspec's file systems have, and takes the options that stand there
(``storage_options`` of pandas and dask). pyarrow takes it as it is::

    import pyarrow.parquet
    from backplane.fsspec import FacilityFileSystem

    table = pyarrow.parquet.read_table("/data/run1.parquet", filesystem=FacilityFileSystem())

For ``root://`` and ``roots://``, of any XRootD server, there is `RootFileSystem`: it stands in for fsspec-xrootd
without the XRootD libraries. Where fsspec-xrootd is installed, that reads ``root://`` unless ``register(root=True)``
says otherwise.

What is written appears when its file is closed, whole or not at all: a ``with`` block over ``fs.open`` that ends by an
exception leaves what was there before. Libraries that close their file after a failure of their own commit what they
wrote so far; a ``with fs.transaction`` around them does not. Files that are on tape only are recalled when they are
opened.
"""

from __future__ import annotations

import fsspec as _fsspec

from ._filesystem import DoorFileSystem
from ._objects import CachedFile, ReadFile, WriteFile
from ._systems import FacilityFileSystem, RootFileSystem, RootsFileSystem

__all__ = [
    "CachedFile",
    "DoorFileSystem",
    "FacilityFileSystem",
    "ReadFile",
    "RootFileSystem",
    "RootsFileSystem",
    "WriteFile",
    "register",
]


def register(*, root: bool = False) -> None:
    """Make fsspec use these file systems in this process.

    For ``bp`` that is needed only where the package is not installed but found on the search path.

    Parameters
    ----------
    root : bool, optional
        For ``root``, ``roots``, ``xroot`` and ``xroots`` too, also where fsspec-xrootd is installed.

    Examples
    --------
    >>> import fsspec
    >>> register()
    >>> fsspec.get_filesystem_class("bp").__name__
    'FacilityFileSystem'
    """
    _fsspec.register_implementation("bp", FacilityFileSystem, clobber=True)
    if root:
        for system in (RootFileSystem, RootsFileSystem):
            for protocol in system.protocol:
                _fsspec.register_implementation(protocol, system, clobber=True)
