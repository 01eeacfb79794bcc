"""Commands of Slurm and POSIX: `bp` under other names, and other people's tools that submit by them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import DEADLINE, Outcome, run
from conftest import MakeFacility
from facility import Facility

TOOL_DEADLINE = 240.0
"""Tools look at their jobs every some seconds."""


@dataclass(frozen=True)
class Shims:
    """The commands, a directory that jobs see, and the facility behind them."""

    facility: Facility
    place: Path
    work: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a user sets who uses them."""
        path = f"{self.place}:{os.environ.get('PATH', '')}"
        return {"PATH": path, "BP_FACILITY": str(self.facility.directory), "HOME": str(self.work), "TZ": "UTC"}

    def __call__(self, program: str, *words: str | Path, stdin: str = "", check: bool = True) -> Outcome:
        """Run a command in the directory of the jobs."""
        return run(self.place / program, *words, env=self.environment, cwd=self.work, stdin=stdin.encode(), check=check)

    def sbatch(self, *words: str | Path, stdin: str = "") -> str:
        """Submit a job; its number."""
        return self("sbatch", "--parsable", *words, stdin=stdin).out.strip()

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        self.facility.wait_until(what, is_so)

    def wait_states(self, job: str, *states: str) -> None:
        """Wait until a job and its elements are in these states."""

        def is_so() -> bool:
            return self("sacct", "-nPX", "-r", "batch", "-j", job, "-o", "state").out.split() == list(states)

        self.wait(f"job {job} is {states}", is_so)


@pytest.fixture
def shims(make_facility: MakeFacility, shared: Path) -> Shims:
    """Make the commands of a facility that keeps its ports."""
    facility = make_facility(cpus=4)
    facility.keep_ports()
    facility.up()
    work = shared / "work"
    work.mkdir()
    work.chmod(0o777)
    facility.bp("shims", shared / "bin")
    return Shims(facility, shared / "bin", work)


# The commands


def test_links_are_made_once_and_never_over_other_files(facility: Facility, tmp_path: Path) -> None:
    place = tmp_path / "shims"
    facility.bp("shims", place)
    facility.bp("shims", place)
    assert run(place / "squeue", "--version").out == "slurm 23.11.4\n"
    assert "It is not Slurm" in run(place / "sbatch", "--help").out
    facility.bp("shims", "--only", "posix", tmp_path / "posix")
    assert not (tmp_path / "posix" / "sbatch").exists()
    assert (tmp_path / "posix" / "qsub").is_symlink()
    (place / "sinfo").unlink()
    (place / "sinfo").write_text("mine")
    assert "is not a link to bp" in facility.bp_fails("shims", place).err
    assert (place / "sinfo").read_text() == "mine"


def test_a_script_runs_as_its_directives_say(shims: Shims) -> None:
    script = shims.work / "job.sh"
    script.write_text(
        textwrap.dedent("""\
            #!/bin/bash
            #SBATCH --job-name="two words" -o out-%j.txt
            #SBATCH --time=0:00:30   # half a minute
            echo "$SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_CPUS_PER_TASK $1|$2|$MINE"
            pwd
            echo oops >&2
            exit 3
            """)
    )
    env = {**shims.environment, "MINE": "kept"}
    command = (shims.place / "sbatch", "-c", "2", "--wait", script, "a b", "")
    ended = run(*command, env=env, cwd=shims.work, check=False)
    assert (ended.code, ended.out) == (3, "Submitted batch job 1\n"), ended
    assert (shims.work / "out-1.txt").read_text() == f"1 two words 2 a b||kept\n{shims.work}\noops\n"
    line = shims("sacct", "-nPX", "-j", "1", "-o", "jobid,jobname,state,exitcode,alloccpus,timelimit").out
    assert line == "1|two words|FAILED|3:0|2|00:00:30\n"
    shown = shims("scontrol", "show", "job", "-o", "1").out
    assert "JobState=FAILED Reason=NonZeroExitCode" in shown
    assert f"StdOut={shims.work}/out-1.txt" in shown


def test_an_array_has_elements(shims: Shims) -> None:
    words = ("-a", "0-4:2", "-o", "%x-%A_%a", "-J", "arr", "--wrap", "echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_JOB_ID")
    assert shims("sbatch", "--wait", *words).code == 0
    assert [(shims.work / f"arr-1_{index}").read_text() for index in (0, 2, 4)] == ["0 of 1\n", "2 of 1\n", "4 of 1\n"]
    rows = shims("sacct", "-nPX", "-j", "1", "-o", "jobid,jobidraw,state").out.split()
    assert rows == ["1_0|1|COMPLETED", "1_2|2|COMPLETED", "1_4|3|COMPLETED"]


def test_nodes_and_partitions(shims: Shims) -> None:
    shims.wait("its worker is there", lambda: bool(shims.facility.status()["workers"]))
    (worker,) = shims.facility.status()["workers"]
    assert shims("sinfo", "-h", "-o", "%P|%a|%D|%t|%C|%N").out == f"batch*|up|1|idle|0/4/0/4|{worker['name']}\n"
    assert "PartitionName=batch " in shims("scontrol", "show", "partition", "-o").out
    assert f"NodeName={worker['name']} " in shims("scontrol", "show", "node", "-o").out
    assert "MinJobAge" in shims("scontrol", "show", "config").out
    assert shims("scontrol", "show", "hostnames", "n[1-3,5]").out.split() == ["n1", "n2", "n3", "n5"]


def test_tasks_of_a_step_write_files_of_their_own(shims: Shims) -> None:
    words = ("-n", "2", "--wait", "--wrap", "srun -n2 -o t-%j-%t.out sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS'")
    assert shims("sbatch", *words).code == 0
    assert [(shims.work / f"t-1-{task}.out").read_text() for task in (0, 1)] == ["0 of 2\n", "1 of 2\n"]


def test_srun_outside_of_a_job_is_a_job(shims: Shims) -> None:
    outcome = shims("srun", "sh", "-c", "echo out; echo err >&2; exit 4", check=False)
    assert (outcome.code, outcome.out) == (4, "out\n"), outcome
    assert "err\n" in outcome.err


def test_a_submission_waits_for_a_facility_that_restarts(shims: Shims) -> None:
    shims.facility.kill()
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(shims("sbatch", "--parsable", "--wrap", "true")))
    thread.start()
    shims.facility.up()
    thread.join(DEADLINE)
    assert [outcome.out for outcome in outcomes] == ["1\n"]
    shims.wait_states("1", "COMPLETED")


# Other people's tools


def python(shims: Shims, program: str, *words: str, deadline: float = TOOL_DEADLINE) -> Outcome:
    """Run a program of Python in the directory of the jobs."""
    file = shims.work / "program.py"
    file.write_text(textwrap.dedent(program))
    return run(sys.executable, file, *words, env=shims.environment, cwd=shims.work, deadline=deadline)


def test_submitit_maps_an_array(shims: Shims) -> None:
    pytest.importorskip("submitit")
    program = """
        import submitit

        def square(x):
            return x * x

        executor = submitit.SlurmExecutor("log")
        executor.update_parameters(time=5, mem="100MB", array_parallelism=2, job_name="squares")
        executor.job_class.watcher._delay_s = 2
        jobs = executor.map_array(square, range(4))
        print([job.result() for job in jobs])
        print(executor.submit(square, 7).result())
        """
    assert python(shims, program).out.splitlines() == ["[0, 1, 4, 9]", "49"]


def test_dask_jobqueue_scales_and_closes(shims: Shims) -> None:
    pytest.importorskip("dask_jobqueue")
    program = """
        from dask.distributed import Client
        from dask_jobqueue import SLURMCluster

        def main():
            options = dict(cores=1, memory="500MB", processes=1, walltime="00:10:00", log_directory="logs")
            with SLURMCluster(interface="lo", local_directory=".", **options) as cluster:
                cluster.scale(2)
                with Client(cluster) as client:
                    client.wait_for_workers(2, timeout=120)
                    print(sum(client.gather(client.map(lambda x: x * x, range(10)))))

        if __name__ == "__main__":
            main()
        """
    assert python(shims, program).out.splitlines() == ["285"]
    shims.wait("its jobs are gone", lambda: shims("squeue", "-h").out == "")


def test_snakemake_runs_a_workflow_through_a_restart(shims: Shims) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm")
    (shims.work / "Snakefile").write_text(
        textwrap.dedent("""\
            PARTS = range(6)
            rule all:
                input: "sum"
            rule part:
                output: "part/{n}"
                shell: "echo {wildcards.n} >{output}"
            rule sum:
                input: expand("part/{n}", n=PARTS)
                output: "sum"
                shell: "cat {input} >{output}"
            """)
    )
    words = ["-m", "snakemake", "--executor", "slurm", "--jobs", "6", "--latency-wait", "5"]
    words += ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"]
    words += ["--default-resources", "mem_mb=1000", "runtime=5", "slurm_account=physics"]
    shims.facility.bp("shares", "set", "physics", "1")
    log = shims.work / "snakemake.log"
    environment = {**os.environ, **shims.environment}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=shims.work, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        shims.wait("the first part is there", lambda: any((shims.work / "part").glob("*")))
        shims.facility.kill()
        shims.facility.up()
        assert process.wait(TOOL_DEADLINE) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert (shims.work / "sum").read_text().split() == [str(n) for n in range(6)], log.read_text()


# Beside a real Slurm, where one runs: SLURM_CONF and PATH say where

Commands = Callable[..., Outcome]


@pytest.fixture
def real(shims: Shims) -> Commands:
    """Find the commands of a real Slurm that runs here."""
    found = {name: shutil.which(name) for name in ("squeue", "sacct", "sinfo", "sbatch", "scancel", "scontrol")}
    if not all(found.values()) or run(str(found["squeue"]), check=False).code != 0:
        pytest.skip("no Slurm runs here")

    def command(program: str, *words: str | Path, check: bool = True) -> Outcome:
        return run(str(found[program]), *words, cwd=shims.work, check=check)

    return command


def test_headings_are_those_of_a_real_slurm(shims: Shims, real: Commands) -> None:
    for words in [
        ("squeue",),
        ("squeue", "-o", "%all"),
        ("squeue", "-r", "-o", "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R %20V|%S"),
        ("squeue", "-O", "jobid,name,state,timeleft,reasonlist,arraytaskid,numcpus:5,minmemory:12"),
        ("squeue", "--start"),
        ("sinfo",),
        ("sinfo", "-N"),
        ("sinfo", "-s"),
        ("sinfo", "-o", "%P %.5a %.10l %.6D %.6t %N %C %A %F"),
        ("sacct",),
        ("sacct", "-X", "-o", "jobid%-20,jobname%5,state%20,elapsed,maxrss,reqmem,nodelist,start,end,submit,timelimit"),
        ("sacct", "-b"),
        ("sacct", "-P", "-o", "jobid,jobidraw,state,exitcode,elapsedraw,cputimeraw,totalcpu,user,account"),
    ]:
        heading = shims(*words).out.splitlines()[0]
        assert heading.rstrip() == real(*words).out.splitlines()[0].rstrip(), words
