"""A private Slurm of Debian's packages, without systemd and without accounting, to compare our commands with."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from clients import DEADLINE, Outcome, need, run, skip, until
from facility import free_ports

CPUS = 4
"""Processors that its node pretends to have."""

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "sinfo", "squeue")
"""What has to be installed (Debian: munge, slurm-wlm)."""

# Loopback only; jobs are followed by /proc, so that no control groups are needed.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SchedulerParameters=batch_sched_delay=0,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} RealMemory=4000
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE
"""


class Slurm:
    """One controller and one node, which runs jobs as root.

    Parameters
    ----------
    directory
        Where it keeps everything.
    """

    def __init__(self, directory: Path) -> None:
        if os.getuid() != 0:
            skip("only root can start a Slurm")
        need(*PROGRAMS)
        self.directory = directory
        self.cpus = CPUS
        self.configuration = directory / "slurm.conf"
        self._running = ExitStack()

    def __call__(self, program: str, *words: str | Path, cwd: Path, check: bool = True) -> Outcome:
        """Run one of its commands in a directory."""
        return run(program, *words, env={"SLURM_CONF": str(self.configuration)}, cwd=cwd, check=check)

    def start(self) -> None:
        """Start its daemons; the node takes jobs when this returns."""
        for name in ("state", "spool"):
            (self.directory / name).mkdir()
        host = socket.gethostname().split(".")[0]
        self.configuration.write_text(
            CONFIGURATION.format(host=host, ports=free_ports(2), directory=self.directory, cpus=CPUS)
        )
        self._start_munge()
        self._controller = self._daemon("slurmctld", "-D", "-f", self.configuration)
        self._daemon("slurmd", "-D", "-N", "n1", "-f", self.configuration)
        self._until("its node is idle", lambda: self.ask("sinfo", "-h", "-o", "%t") == "idle")

    def lose(self) -> None:
        """Kill the controller and start it anew without what it knew: it has lost all jobs."""
        self._controller.kill()
        self._controller.wait()
        shutil.rmtree(self.directory / "state")
        (self.directory / "state").mkdir()
        self._controller = self._daemon("slurmctld", "-D", "-c", "-f", self.configuration)
        self._until("its node is idle again", lambda: self.ask("sinfo", "-h", "-o", "%t") == "idle")

    def _start_munge(self) -> None:
        key = self.directory / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        files = {"key-file": "munge.key", "pid-file": "munge.pid", "seed-file": "munge.seed", "log-file": "munge.log"}
        words = [f"--{option}={self.directory / name}" for option, name in files.items()]
        # By force: it does not like sockets in a directory that only root may enter.
        self._daemon("munged", "--foreground", "--force", f"--socket={self.directory}/munge.socket", *words)
        self._until("the socket of munge is there", (self.directory / "munge.socket").is_socket)

    def _daemon(self, program: str, *words: str | Path) -> subprocess.Popen[bytes]:
        with (self.directory / f"{program}.output").open("wb") as output:
            process = subprocess.Popen(
                [program, *map(str, words)], cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._running.callback(_end, process)
        return process

    def ask(self, *words: str) -> str:
        """Run one of its commands, whatever comes of it; what it prints."""
        return self(*words, cwd=self.directory, check=False).out.strip()

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        try:
            until(what, is_so)
        except AssertionError as late:
            logs = "".join(log.read_text(errors="replace") for log in self.directory.glob("*.[lo]*"))
            raise AssertionError(f"Slurm: {late}\n{logs}") from late

    def stop(self) -> None:
        """Cancel its jobs, which would outlive it, and end its daemons, the last one first."""
        with self._running, suppress(AssertionError):
            self("scancel", "--user", "root", cwd=self.directory, check=False)
            until("its jobs are over", lambda: self.ask("squeue", "-h") == "")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def slurm() -> Iterator[Slurm]:
    """Run a Slurm. Its directory is short: names of sockets are."""
    directory = Path(tempfile.mkdtemp(prefix="bpslurm"))
    try:
        cluster = Slurm(directory)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
