"""Clusters whose workers are batch jobs of a facility."""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
import socket
import sys
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex
from urllib.parse import urlsplit

from .._calls import whole_number
from .._errors import BackplaneError, InvalidError
from .._jobs import OVER
from ._cluster import WAIT_S, Cluster, need_distributed

if TYPE_CHECKING:
    from typing import Self

    from .._facility import Facility
    from .._jobs import Job

# How long closing waits until the jobs are over: they are told first, and killed then.
_CLOSE_S = 60.0
_WORKERS_MAX = 10_000
# How often a pass asks whether jobs of workers failed.
_TEND_S = 2.0
# Jobs that failed one after the other before they were workers: then the reason is not one of a moment.
_IN_VAIN_MAX = 3


class FacilityCluster(Cluster):
    """A Dask scheduler in this process, whose workers are jobs; made by `Facility.cluster`.

    Only who has the key of this cluster may join or send work. It is made anew for each cluster, and lies in a
    directory of the facility that is open to its owner only.

    While a pass runs, a job that failed is submitted again: its host died, or it needed too much memory. After three
    jobs in a row that failed before they were workers no more are submitted until somebody calls `scale`.

    Parameters
    ----------
    facility : Facility
        Where the jobs run.
    command : list of str
        How they start Python.
    threads : int
        Of each worker, which are slots of its job.
    memory_bytes : int
        Of each worker; 0 for no wish.
    wall_s : float
        Longest run of a job.
    directory : str
        Where the key lies.
    host : str, optional
        Address of this host as workers reach it.
    wait_s : float
        See `Cluster`.

    Attributes
    ----------
    jobs : list of Job
        The workers, also those that are over.
    """

    def __init__(
        self,
        facility: Facility,
        command: list[str],
        *,
        threads: int,
        memory_bytes: int,
        wall_s: float,
        directory: str,
        host: str | None,
        wait_s: SupportsFloat = WAIT_S,
    ) -> None:
        distributed = need_distributed()
        security = distributed.Security.temporary()
        options = {
            "protocol": "tls://",
            "host": own_address(facility.root) if host is None else host,
            "port": 0,
            "dashboard": False,
            "security": security,
        }
        scheduler = {"cls": distributed.Scheduler, "options": options}
        with contextlib.ExitStack() as opened:
            local = opened.enter_context(
                distributed.SpecCluster(workers={}, scheduler=scheduler, security=security, silence_logs=False)
            )
            client = opened.enter_context(distributed.Client(local, security=security, set_as_default=False))
            super().__init__(client, wait_s=wait_s)
            self.jobs: list[Job] = []
            self._facility, self._command, self._threads = facility, command, threads
            self._resources: dict[str, Any] = {"cpus": threads, "memory_bytes": memory_bytes, "wall_s": wall_s}
            about = {
                "scheduler": local.scheduler_address,
                "certificate": security.tls_ca_file,
                "key": security.tls_worker_key,
                "threads": threads,
                "memory_bytes": memory_bytes,
            }
            self._tended: list[Job] = []
            self._tending: Future[None] | None = None
            self._tend_at, self._in_vain = 0.0, 0
            self._joined: set[int] = set()
            self._failed: Job | None = None
            self._key = self._keep(directory, json.dumps(about).encode())
            opened.callback(self._remove_key)
            opened.callback(self._end_jobs)
            # No job is submitted after the others have been ended.
            self._pool = opened.enter_context(ThreadPoolExecutor(1, "backplane-tend"))
            self._closing = opened.pop_all()

    def _keep(self, directory: str, data: bytes) -> str:
        """Write the key where nobody else can read it."""
        private = posixpath.join(directory, f".cluster-{uuid.uuid4().hex[:12]}")
        self._facility._make_private(private)
        path = posixpath.join(private, "worker.json")
        self._facility.write_bytes(path, data)
        return path

    def scale(self, workers: SupportsIndex) -> Self:
        """Change the number of workers: submit more jobs, or end the newest ones.

        Parameters
        ----------
        workers : int
            How many there shall be; passes that run go on.

        Returns
        -------
        FacilityCluster
            Itself.
        """
        wanted = whole_number(workers, "workers")
        if not 0 <= wanted <= _WORKERS_MAX:
            raise InvalidError(f"{wanted} workers; 0 to {_WORKERS_MAX} are possible")
        self._in_vain = 0
        active = self._active()
        for job in active[wanted:]:
            job.cancel()
        for _ in range(wanted - len(active)):
            self._submit()
        return self

    def _submit(self) -> None:
        job = self._facility.submit(
            [*self._command, "-m", "backplane.analysis._job", "worker.json"],
            inputs=[self._key],
            name="analysis-worker",
            **self._resources,
        )
        self.jobs.append(job)
        self._tended.append(job)

    def tend(self) -> None:
        """Submit jobs again that failed; a pass asks for it now and then."""
        known = self.client.scheduler_info(n_workers=-1)["workers"].values()
        names = (re.match(r"job-(\d+)-", str(about["name"])) for about in known)
        self._joined.update(int(name[1]) for name in names if name)
        if time.monotonic() < self._tend_at or (self._tending is not None and not self._tending.done()):
            return
        self._tend_at = time.monotonic() + _TEND_S
        # The head may be away for a while, and the pass goes on meanwhile.
        self._tending = self._pool.submit(self._replace_failed)

    def _replace_failed(self) -> None:
        with contextlib.suppress(BackplaneError):
            known = self._facility.jobs(self._tended) if self._tended else []
            states = {about["id"]: about["state"] for about in known}
            for job in [job for job in self._tended if states.get(job.id) in OVER]:
                self._tended.remove(job)
                # What was cancelled was not wanted any more.
                if states[job.id] != "failed":
                    continue
                self._in_vain = 0 if job.id in self._joined else self._in_vain + 1
                self._failed = job
                if self._in_vain < _IN_VAIN_MAX:
                    self._submit()

    def _active(self) -> list[Job]:
        """Those jobs that are not over, oldest first."""
        if not self.jobs:
            return []
        states = {about["id"]: about["state"] for about in self._facility.jobs(self.jobs)}
        return [job for job in self.jobs if states.get(job.id) not in OVER]

    def why(self) -> str | None:
        """Say what the newest job waits for, or how the last one that failed ended.

        Returns
        -------
        str or None
            `None` if there is no job.
        """
        if not self.jobs:
            return None
        job = self.jobs[-1] if self._failed is None or not self._in_vain else self._failed
        about = job.info()
        reason = f": {about['reason']}" if about.get("reason") else ""
        return f"job {job} is {about['state']}{reason}; `bp why {job}` and `bp log {job}` tell more"

    def _remove_key(self) -> None:
        with contextlib.suppress(BackplaneError):
            self._facility.rm(posixpath.dirname(self._key), recursive=True)

    def _end_jobs(self) -> None:
        active = self._active()
        for job in active:
            # It may end in this moment.
            with contextlib.suppress(BackplaneError):
                job.cancel()
        if active:
            self._facility.wait_for_jobs(active, wait_s=_CLOSE_S)

    def __repr__(self) -> str:
        return f"<Cluster of {len(self.workers)} workers, jobs {', '.join(map(str, self.jobs))}>"


def own_address(root: str) -> str:
    """Find the address of this host as others of the facility see it.

    Parameters
    ----------
    root : str
        The data door.

    Returns
    -------
    str
        The one from which this host reaches that door.
    """
    door = urlsplit(root)
    target = (door.hostname or "localhost", door.port or 1094)
    family, _, _, _, address = socket.getaddrinfo(*target, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        # Nothing is sent: the kernel chooses a route.
        sock.connect(address)
        return str(sock.getsockname()[0])


def start(
    facility: Facility,
    workers: SupportsIndex,
    *,
    cpus: SupportsIndex,
    memory_bytes: SupportsIndex,
    wall_s: SupportsFloat,
    directory: str | None,
    python: str | None,
    host: str | None,
    wait_s: SupportsFloat,
) -> FacilityCluster:
    """Start a cluster; see `Facility.cluster`.

    Parameters
    ----------
    facility : Facility
        Where the jobs run.
    workers, cpus, memory_bytes, wall_s, directory, python, host, wait_s
        As there.

    Returns
    -------
    FacilityCluster
        With its jobs submitted.
    """
    made = FacilityCluster(
        facility,
        [sys.executable if python is None else python],
        threads=whole_number(cpus, "cpus"),
        memory_bytes=whole_number(memory_bytes, "memory_bytes"),
        wall_s=float(wall_s),
        directory=posixpath.join("/home", facility.user) if directory is None else directory,
        host=host,
        wait_s=wait_s,
    )
    try:
        return made.scale(workers)
    except BaseException:
        made.close()
        raise
