"""What fsspec reads ``root://`` with, chosen when it asks for the first time.

Where fsspec-xrootd is installed it is that: its users rely on proofs that only XRootD's own library knows. Elsewhere
``root://`` would need packages that most people do not have, so `RootFileSystem` stands in. Both packages say to fsspec
that they serve ``root``, and which of them is heard is chance: that is why the choice is made here as well.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "RootFileSystem":
        try:
            return importlib.import_module("fsspec_xrootd").XRootDFileSystem
        except ImportError:
            # It is not installed, or the library that it needs is not.
            pass
    if name in ("RootFileSystem", "RootsFileSystem"):
        from . import _systems

        return getattr(_systems, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
