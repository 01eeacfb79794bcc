"""A worker of a cluster, as a batch job: ``python -m backplane.analysis._job FILE``."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

# A worker whose scheduler is gone for so long gives its slot back.
_DEATH_S = 60.0


async def work(about: dict[str, Any]) -> None:
    """Be a worker until the cluster is closed.

    Parameters
    ----------
    about : dict
        What `FacilityCluster` wrote: ``scheduler``, ``certificate``, ``key``, ``threads``, ``memory_bytes``.
    """
    from distributed import Security, Worker

    from .. import set_cache_capacity

    own = {"tls_worker_cert": about["certificate"], "tls_worker_key": about["key"]}
    security = Security(require_encryption=True, tls_ca_file=about["certificate"], **own)
    if about["memory_bytes"]:
        # The other half is for what is being read and computed.
        set_cache_capacity(about["memory_bytes"] // 2)
    async with Worker(
        about["scheduler"],
        security=security,
        name=f"job-{os.environ.get('BP_JOB_ID', os.getpid())}-{os.environ.get('BP_ATTEMPT', 0)}",
        nthreads=about["threads"],
        # The batch system limits memory; Dask would stop giving tasks to a worker whose cache is well filled.
        memory_limit=0,
        local_directory=os.environ.get("TMPDIR", "/tmp"),
        death_timeout=_DEATH_S,
        dashboard=False,
    ) as worker:
        await worker.finished()


def main(place: str) -> None:
    """Read what the cluster wrote, and work.

    Parameters
    ----------
    place : str
        The file; it has a key, so it is removed once it has been read.
    """
    file = Path(place)
    about = json.loads(file.read_bytes())
    file.unlink()
    asyncio.run(work(about))


if __name__ == "__main__":
    main(sys.argv[1])
