"""Commands of Slurm and POSIX: `bp` under other names, and other people's tools that submit by them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import DEADLINE, Outcome, need_module, run
from conftest import MakeFacility
from facility import Facility
from slurm import Slurm, slurm

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


def test_waiting_jobs_are_held_released_and_cancelled(shims: Shims) -> None:
    held = shims.sbatch("-H", "-J", "held", "--wrap", "true")
    array = shims.sbatch("-H", "-a", "1-3", "-J", "arr", "--wrap", "true")
    after = shims.sbatch("-d", f"afterok:{held}", "-J", "after", "--wrap", "true")
    table = shims("squeue", "-h", "-o", "%i|%T|%r|%E", "-S", "i").out.splitlines()
    assert table == [
        f"{held}|PENDING|JobHeldUser|(null)",
        f"{array}_[1-3]|PENDING|JobHeldUser|(null)",
        f"{after}|PENDING|Dependency|afterok:{held}(unfulfilled)",
    ]
    assert len(shims("squeue", "-h", "-r", "-n", "arr").out.splitlines()) == 3
    shims("scancel", f"{array}_2")
    assert shims("squeue", "-h", "-j", array, "-o", "%i").out.split() == [f"{array}_[1,3]"]
    shims("scancel", "-n", "arr")
    # Of a user whom nobody knows there are no jobs: those of the caller stay.
    assert shims("scancel", "-u", "4000000000", check=False).code == 1
    shims("scontrol", "release", held)
    shims.wait_states(after, "COMPLETED")
    assert shims("squeue", "-h").out == ""
    states = shims("sacct", "-nPX", "-j", array, "-o", "state").out.split("\n")
    assert states == ["CANCELLED by 0"] * 3 + [""]


def test_refusals_are_those_of_slurm(shims: Shims) -> None:
    shims.wait("its worker is there", lambda: bool(shims.facility.status()["workers"]))
    for program, words, code, text in [
        ("sbatch", ["-p", "nope", "--wrap", "true"], 1, "sbatch: error: invalid partition specified: nope"),
        ("sbatch", ["--nope"], 255, "sbatch: unrecognized option '--nope'\nTry \"sbatch --help\" for more information"),
        ("sbatch", ["-t", "x", "--wrap", "true"], 1, "sbatch: error: Invalid --time specification"),
        ("sbatch", ["/nonexistent"], 1, "sbatch: error: Unable to open file /nonexistent"),
        ("sbatch", ["-c", "99", "--wrap", "true"], 1, "sbatch: error: Batch job submission failed: "),
        ("squeue", ["-j", "99"], 1, "slurm_load_jobs error: Invalid job id specified"),
        ("squeue", ["-t", "bogus"], 1, "squeue: error: Invalid job state specified: bogus"),
        ("sacct", ["-o", "nope"], 1, 'sacct: error: Invalid field requested: "nope"'),
        ("sacct", ["-j", "abc"], 1, "sacct: fatal: Bad job/step specified: abc"),
        ("scancel", [], 1, "scancel: error: No job identification provided"),
        ("scancel", ["-s", "NOPE", "1"], 1, "Unknown job signal: NOPE"),
        ("scancel", ["-u", "4000000000"], 1, "scancel: error: Invalid user name: 4000000000"),
        ("scancel", ["--name="], 1, "Invalid --name specification: it is empty; nothing is cancelled"),
        ("scancel", ["-w", "n[1"], 1, "Invalid host list: n[1"),
        ("sacct", ["-u", "nobody-knows"], 1, "sacct: error: Invalid user id: nobody-knows"),
        ("srun", ["-M", "other", "true"], 1, "srun: error: 'other' can't be reached now"),
        ("sinfo", ["-n", "n[1"], 1, "sinfo: error: Invalid host list: n[1"),
        ("qselect", ["-u", ""], 2, "qselect: illegal -u value"),
        ("scontrol", ["show", "partition", "nope"], 1, "Partition nope not found"),
        ("scontrol", ["hold", "99"], 1, "Invalid job id specified for job 99"),
    ]:
        outcome = shims(program, *words, check=False)
        assert (outcome.code, outcome.out) == (code, ""), outcome
        assert outcome.err.startswith(text), outcome
    assert shims("scancel", "99").text == ""
    assert shims("sacct", "-nX", "-j", "99").text == ""


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


def test_an_input_that_no_job_reads_is_named(shims: Shims) -> None:
    submitted = shims("sbatch", "--input", "numbers", "--wrap", "true")
    assert submitted.err.startswith("sbatch: warning: --input=numbers"), submitted
    assert shims("sbatch", "-i", "/dev/null", "--wrap", "true").err == ""


def test_srun_outside_of_a_job_is_a_job(shims: Shims) -> None:
    outcome = shims("srun", "sh", "-c", "echo out; echo err >&2; exit 4", check=False)
    assert (outcome.code, outcome.out) == (4, "out\n"), outcome
    assert "err\n" in outcome.err


def test_posix_commands_submit_show_and_change(shims: Shims) -> None:
    (shims.work / "job.sh").write_text(
        "#PBS -N named -l walltime=60\necho $PBS_JOBID in $PBS_O_WORKDIR\necho err >&2\n"
    )
    job = shims("qsub", "-h", "job.sh").out.strip()
    assert job == "1.backplane"
    assert shims("qstat", job).out.splitlines()[2].split() == [job, "named", "root", "0", "H", "batch"]
    assert "    Hold_Types = u" in shims("qstat", "-f", job).out.splitlines()
    assert shims("qselect", "-s", "H").out.split() == [job]
    shims("qalter", "-N", "other", "-h", "o", job)
    assert "    Hold_Types = uo" in shims("qstat", "-f", job).out.splitlines()
    shims("qrls", "-h", "uo", job)
    shims.wait_states("1", "COMPLETED")
    assert (shims.work / "other.o1").read_text() == f"1 in {shims.work}\n"
    assert (shims.work / "other.e1").read_text() == "err\n"
    gone = shims("qstat", job, check=False)
    assert (gone.code, "Job has finished" in gone.err) == (35, True), gone
    assert "    Exit_status = 0" in shims("qstat", "-x", "-f", job).out.splitlines()
    unknown = shims("qdel", "99.backplane", check=False)
    assert (unknown.code, unknown.err) == (153, "qdel: Unknown Job Id 99.backplane\n")
    assert shims("qsub", "-", stdin="true\n").out == "2.backplane\n"
    assert "batch" in shims("qstat", "-Q").out
    assert "Not enforced anywhere" in shims("qlimit").out


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
    need_module("submitit")
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
    need_module("dask_jobqueue")
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
    need_module("snakemake_executor_plugin_slurm")
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


def test_simple_slurm_submits_and_lists(shims: Shims) -> None:
    need_module("simple_slurm")
    program = """
        from simple_slurm import Slurm

        slurm = Slurm(array=range(3), cpus_per_task=1, job_name="simple", output="simple-%A_%a", hold=True)
        slurm.add_cmd("echo $SLURM_ARRAY_TASK_ID")
        job = slurm.sbatch(verbose=False)
        slurm.squeue.output_format = '"%A","%j","%t"'
        slurm.squeue.update_squeue()
        print(job, sorted({row["NAME"] for row in slurm.squeue.jobs.values()}))
        slurm.scancel.cancel_job(job)
        """
    assert python(shims, program).out.splitlines() == ["1 ['simple']"]
    assert json.loads(shims("squeue", "--json").out)["jobs"] == []


# Beside a real Slurm

Commands = Callable[..., Outcome]

SACCT_HEADINGS = {
    "": "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode",
    "-b": "JobID             State ExitCode",
    "-X -o jobid%-20,jobname%5,state%20,elapsed,maxrss,reqmem,nodelist,start,end": "JobID                JobNa"
    "                State    Elapsed     MaxRSS     ReqMem        NodeList               Start                 End",
    "-o submit,timelimit": "             Submit  Timelimit",
    "-P -o jobid,jobidraw,state,exitcode,elapsedraw,cputimeraw,totalcpu,user,account": "JobID|JobIDRaw|State|"
    "ExitCode|ElapsedRaw|CPUTimeRAW|TotalCPU|User|Account",
}
"""What `sacct` of Slurm 22.05 prints above its lines. It asks a database that the private Slurm does not have."""

SACCT_ENDED = ["array|FAILED|1:0", "array|FAILED|2:0", "code|FAILED|7:0", "ok|COMPLETED|0:0", "signal|FAILED|0:9"]
"""What it tells of the jobs below that end: name, state and exit code, before `|1|1|1|0:0|root`."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Start a Slurm for all tests beside one."""
    with slurm() as started:
        yield started


@pytest.fixture
def real(shims: Shims, cluster: Slurm) -> Commands:
    """Run commands of a real Slurm where the shims run."""
    return functools.partial(cluster, cwd=shims.work)


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
    ]:
        heading = shims(*words).out.splitlines()[0]
        assert heading.rstrip() == real(*words).out.splitlines()[0].rstrip(), words


@pytest.mark.parametrize(("words", "heading"), SACCT_HEADINGS.items())
def test_headings_of_sacct_are_those_of_slurm(shims: Shims, words: str, heading: str) -> None:
    assert shims("sacct", *words.split()).out.splitlines()[0].rstrip() == heading


def test_the_same_jobs_look_the_same_in_a_real_slurm(shims: Shims, real: Commands) -> None:
    shims.work.joinpath("seven.sh").write_text("#!/bin/sh\n#SBATCH -t 7 --mem=50\nexit $1\n")
    jobs: dict[str, tuple[str, ...]] = {
        "long": ("-t", "10", "--wrap", "sleep 1000"),
        "code": ("seven.sh", "7"),
        "signal": ("-t", "5", "--wrap", "kill -9 $$"),
        "ok": ("-t", "1-2:3:4", "--comment", "some words", "--wrap", "true"),
        "held": ("-H", "-a", "0-3,7", "--mem", "2G", "-t", "90", "--wrap", "true"),
        "later": ("-t", "5", "--begin", "now+1hour", "--wrap", "true"),
        "array": ("-t", "5", "-a", "1-2", "--wrap", "exit $SLURM_ARRAY_TASK_ID"),
    }
    for name, words in jobs.items():
        is_short = name in ("code", "signal", "ok", "array")
        wait = ("--wait",) if is_short else ()
        codes = [ask("sbatch", *wait, "-o", "/dev/null", "-J", name, *words, check=False).code for ask in (real, shims)]
        # Of a signal that ended a job the real one tells nothing but that.
        assert codes[0] == codes[1] or name == "signal", (name, codes)
    waiting = "%j|%T|%t|%r|%K|%l|%m|%E|%D|%k|%u"
    questions = [
        ("squeue", "-h", "-t", "PD", "-S", "j", "-o", waiting),
        ("squeue", "-h", "-r", "-t", "PD", "-o", "%j|%K|%T|%r"),
        ("squeue", "-h", "-t", "R", "-o", "%j|%T|%K|%l|%C"),
    ]

    def lines(ask: Commands, words: tuple[str, ...]) -> list[str]:
        return sorted(ask(*words).out.splitlines())

    def are_alike() -> bool:
        return all(lines(shims, words) == lines(real, words) for words in questions)

    try:
        shims.facility.wait_until("both show the same", are_alike, deadline=20)
    except pytest.fail.Exception:
        for words in questions:
            assert lines(shims, words) == lines(real, words), words
        raise
    ended = "jobname%99,state,exitcode,alloccpus,ncpus,nnodes,derivedexitcode,user"
    told = lines(shims, ("sacct", "-nPX", "-s", "CD,F", "-S", "now-1hour", "-E", "now", "-o", ended))
    assert told == [f"{line}|1|1|1|0:0|root" for line in SACCT_ENDED]
