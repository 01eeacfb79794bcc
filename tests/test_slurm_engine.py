"""Slurm as the engine of a worker: our queues and data logic over a real Slurm cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import until
from conftest import MakeFacility
from facility import Facility, configure
from people import Person, people, programs_for
from slurm import CPUS, Slurm, slurm
from test_batch import Gate, ended, wait_begun, wait_state
from test_care import damage, data_of

SHELL = ("/bin/sh", "-c")
UNFINISHED = "pending,running,completing"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Start a Slurm for all tests."""
    with slurm() as started:
        yield started


@pytest.fixture
def gate(shared: Path) -> Iterator[Gate]:
    """Make a gate that keeps jobs running until it is opened."""
    made = Gate(shared / "gate")
    yield made
    made.close()


def use_slurm(facility: Path) -> None:
    """Have the worker of a facility submit to Slurm."""
    configure(facility, "engine", '"slurm"')
    configure(facility, "slurm_poll", '"1s"')
    configure(facility, "slurm_options", '["--partition=batch"]')


@pytest.fixture
def ada() -> Iterator[Person]:
    """Make an ordinary user."""
    with people("slurmada") as (one,):
        yield one


@pytest.fixture
def site(make_facility: MakeFacility, cluster: Slurm) -> Facility:
    """Make a facility whose worker submits to the cluster."""
    made = make_facility(cpus=CPUS)
    made.keep_ports()
    use_slurm(made.directory)
    made.environment["SLURM_CONF"] = str(cluster.configuration)
    made.up()
    return made


def in_slurm(cluster: Slurm, states: str = "all") -> list[tuple[str, str]]:
    """Say which of our jobs Slurm has: name without the prefix of the worker, and state."""
    lines = cluster.ask("squeue", "-h", "-t", states, "-o", "%j|%T").splitlines()
    found = [re.fullmatch(r"bp-[0-9a-f]+-([0-9.]+)\|(\w+)", line.strip()) for line in lines]
    return [(match[1], match[2]) for match in found if match]


def test_codes_signals_output_and_usage_come_back(site: Facility) -> None:
    site.put_bytes(b"1\n2\n3\n", "/numbers")
    words = ("--input", "/numbers:in", "--output", "sum:/sum")
    done = ended(site, *words, "--", *SHELL, "awk '{n += $1} END {print n}' in >sum; echo printed; echo $SLURM_JOB_ID")
    assert (done["state"], done["exit"]) == ("done", {"code": 0})
    assert site.read("/sum") == b"6\n"
    assert site.bp("log", str(done["id"])).out == "printed\n\n", "it prints, and sees nothing of Slurm's environment"
    failed = ended(site, "--", *SHELL, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 42")
    assert (failed["state"], failed["exit"]) == ("failed", {"code": 42})
    assert failed["usage"]["cpu"] > 0
    assert ended(site, "--", *SHELL, "kill -9 $$")["exit"] == {"signal": 9}
    assert ended(site, "--wall", "1s", "--", "/bin/sleep", "1000")["exit"] == "wall_limit"


def test_it_comes_to_slurm_once_its_inputs_are_pinned(site: Facility, cluster: Slurm, gate: Gate) -> None:
    site.put_bytes(b"from tape\n", "/old")
    site.archive_and_evict("/old")
    drives = [drive["name"] for drive in site.status()["drives"]]
    site.bp("drives", "down", *drives)
    job = site.submit("--input", "/old:in", "--", *SHELL, f"read line <{gate.path}; cat in")
    site.wait_until("it waits for tape", lambda: "drive" in (site.job(job).get("reason") or ""))
    assert in_slurm(cluster, UNFINISHED) == []
    site.bp("drives", "up", *drives)
    site.wait_until("Slurm runs it", lambda: len(in_slurm(cluster, "running")) == 1)
    assert site.stat("/old")["pins"], "its input may be evicted"
    gate.open()
    assert site.wait_job(job)["state"] == "done"
    assert site.bp("log", str(job)).out == "from tape\n"


def test_a_job_whose_input_is_damaged_leaves_nothing_in_slurm(site: Facility, cluster: Slurm) -> None:
    site.put_bytes(bytes(1 << 20), "/in")
    (data,) = data_of(site.directory / "disk" / "disk1", "/in")
    damage(data)
    site.expect_log("checksum")
    info = site.wait_job(site.submit("--input", "/in:in", "--", "/bin/true"))
    assert info["state"] == "failed"
    site.wait_until("Slurm has none of it", lambda: in_slurm(cluster, UNFINISHED) == [])


def test_an_array_is_bounded_by_the_slots_of_the_worker(site: Facility, cluster: Slurm, gate: Gate) -> None:
    array = int(site.bp("submit", "--array", "1-6", "--", *SHELL, f"read line <{gate.path}; exit $BP_ARRAY_INDEX").out)
    site.wait_until("the cluster is full", lambda: len(in_slurm(cluster, "running")) == CPUS)
    assert in_slurm(cluster, "pending") == [], "what does not fit waits here, and can be moved and reordered"
    gate.open(6)
    codes = [site.wait_job(array + index)["exit"] for index in range(6)]
    assert codes == [{"code": index} for index in range(1, 7)]


def test_cancel(site: Facility, cluster: Slurm, gate: Gate, shared: Path) -> None:
    note = shared / "pid"
    running = site.submit("--", *SHELL, f"setsid /bin/cat {gate.path} & echo $! >{note}; wait")
    wait_begun(site, running)
    site.wait_until("it has a child", lambda: note.exists() and note.read_text().strip() != "")
    site.bp("cancel", str(running))
    assert site.wait_job(running)["state"] == "cancelled"
    gate.open()
    assert gate.is_unread(), "a child in a session of its own outlives its job"
    until("Slurm runs nothing", lambda: in_slurm(cluster, UNFINISHED) == [])


def test_it_goes_on_while_the_daemon_is_dead(site: Facility, cluster: Slurm, gate: Gate) -> None:
    job = site.submit("--", *SHELL, f"read line <{gate.path}; exit 7")
    site.wait_until("it runs", lambda: len(in_slurm(cluster, "running")) == 1)
    site.kill()
    gate.open()
    until("it has ended", lambda: in_slurm(cluster, "running,completing") == [])
    site.up()
    assert site.wait_job(job)["exit"] == {"code": 7}


def test_who_cancels_it_in_slurm_ends_it_here(site: Facility, cluster: Slurm, gate: Gate) -> None:
    job = site.submit("--", "/bin/cat", gate.path)
    site.wait_until("it runs", lambda: len(in_slurm(cluster, "running")) == 1)
    cluster.ask("scancel", "--user=root")
    site.expect_log("without an exit record")
    site.expect_log("shepherd")
    info = site.wait_job(job)
    assert info["state"] == "failed"
    assert info["exit"] != {"code": 0}


def test_a_job_that_slurm_has_forgotten_is_submitted_again(site: Facility, cluster: Slurm) -> None:
    cluster.ask("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    job = site.submit("--", *SHELL, "exit 3")
    site.wait_until("it waits in Slurm", lambda: [state for _, state in in_slurm(cluster, "pending")] == ["PENDING"])
    wait_state(site, job, "running")
    site.expect_log("squeue")
    site.expect_log("submitting it again")
    cluster.lose()
    assert site.wait_job(job)["exit"] == {"code": 3}


def test_what_slurm_never_takes_fails_with_its_words(make_facility: MakeFacility, cluster: Slurm) -> None:
    made = make_facility(cpus=CPUS)
    use_slurm(made.directory)
    made.configure("slurm_options", '["--partition=nowhere"]')
    made.environment["SLURM_CONF"] = str(cluster.configuration)
    made.up()
    info = ended(made, "--", "/bin/true")
    assert info["state"] == "failed"
    assert "sbatch failed" in info["reason"]
    assert "Invalid partition" in info["reason"]


def test_a_job_that_waits_in_slurm_is_cancelled_there(site: Facility, cluster: Slurm) -> None:
    cluster.ask("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    try:
        job = site.submit("--", "/bin/true")
        site.wait_until("it waits in Slurm", lambda: len(in_slurm(cluster, "pending")) == 1)
        wait_state(site, job, "running")
        site.bp("cancel", str(job))
        assert site.wait_job(job)["state"] == "cancelled"
        assert in_slurm(cluster, "pending,running") == []
    finally:
        cluster.ask("scontrol", "update", "nodename=n1", "state=resume")


def test_an_ordinary_user_runs_a_worker(cluster: Slurm, ada: Person) -> None:
    # Its socket and its configuration are for everybody, once they are reached.
    cluster.directory.chmod(0o711)
    bp, facility = programs_for(ada.home.parent) / "bp", ada.home / "facility"
    ada.does(bp, "create", facility, "--volume-size=64MiB", "--volumes=2", "--cpus=2")
    use_slurm(facility)
    ports = ("--root-port=0", "--http-port=0")
    ada.does(bp, "up", facility, "--detach", *ports, env={"SLURM_CONF": str(cluster.configuration)})
    try:
        here = {"BP_FACILITY": str(facility)}
        done = ada.run(bp, "run", "--", *SHELL, "id -u; exit 3", env=here)
        assert (done.code, done.out) == (3, f"{ada.uid}\n"), str(done)
        owners = cluster.ask("squeue", "-h", "-t", "all", "-o", "%j|%U").splitlines()
        assert str(ada.uid) in {name.split("|")[1] for name in owners if name.startswith("bp-")}
    finally:
        ada.does(bp, "down", facility)
