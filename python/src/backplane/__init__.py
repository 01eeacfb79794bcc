"""Files, tapes, jobs and n-tuples of a data facility.

Connect to a facility and look at data in it::

    import backplane

    facility = backplane.connect("my-facility")
    events = facility.ntuple("/data/run*.parquet").define("pt", "sqrt(px**2 + py**2)")
    spectrum = events.hist("pt", bins=100, range=(0, 50), where="abs(eta) < 2.4")

Local files need no facility: see `ntuple`. Programs that read by fsspec, such as pandas, pyarrow, dask and uproot, find
the facility under ``bp://``: see `backplane.fsspec`.
"""

from ._cache import CacheUse, cache_use, clear_cache, set_cache_capacity, set_cache_directory
from ._errors import (
    BackplaneError,
    BusyError,
    CorruptError,
    ExistsError,
    FacilityIOError,
    InternalError,
    InvalidError,
    IsDirectoryError,
    JobFailedError,
    NoSpaceError,
    NotDirectoryError,
    NotEmptyError,
    NotFoundError,
    OverQuotaError,
    PermissionDeniedError,
    TimeoutExpiredError,
    UnavailableError,
    UnsupportedError,
)
from ._facility import Facility, connect
from ._file import BufferedReader, BufferedWriter, FacilityFile
from ._jobs import Job, JobArray, JobLog, JobResult
from ._ntuple import HistRequest, NTuple, ntuple
from ._shared import SharedFile
from ._tables import Record, Table
from .analysis import Cluster, cluster

__version__ = "0.1.0"

__all__ = [
    "BackplaneError",
    "BufferedReader",
    "BufferedWriter",
    "BusyError",
    "CacheUse",
    "Cluster",
    "CorruptError",
    "ExistsError",
    "Facility",
    "FacilityFile",
    "FacilityIOError",
    "HistRequest",
    "InternalError",
    "InvalidError",
    "IsDirectoryError",
    "Job",
    "JobArray",
    "JobFailedError",
    "JobLog",
    "JobResult",
    "NTuple",
    "NoSpaceError",
    "NotDirectoryError",
    "NotEmptyError",
    "NotFoundError",
    "OverQuotaError",
    "PermissionDeniedError",
    "Record",
    "SharedFile",
    "Table",
    "TimeoutExpiredError",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "cache_use",
    "clear_cache",
    "cluster",
    "connect",
    "ntuple",
    "set_cache_capacity",
    "set_cache_directory",
]
