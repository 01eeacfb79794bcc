"""Every name that a table of `bp` prints is an argument of the verbs that take such a thing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clients import write_file
from conftest import SMALL, one_facility
from facility import Facility
from host import hosts


@dataclass(frozen=True)
class Case:
    """Words that print a table, the column of the names, and verbs that take them at `{}`."""

    table: tuple[str, ...]
    column: str
    verbs: tuple[str, ...]


CASES = [
    # First: as long as no drive is in use the request waits.
    Case(("queue",), "id", ("why {}", "admin request retry {}", "cancel {}")),
    Case(
        ("status",),
        "partition",
        (
            "pool freeze {}", "pool resize {} host", "pool use {}", "scan start {}", "scan stop {}", "scan resume {}",
            "scan report {}", "adopt report {}",
        ),
    ),
    Case(("pool", "list"), "partition", ("pool freeze {}", "pool use {}")),
    Case(("pool", "list"), "pool", ("pool set {} --copies 1", "pool collect {} --free 1GB --dry-run")),
    Case(("scan", "status"), "partition", ("scan report {}",)),
    Case(("drives",), "drive", ("drive down {}", "drive up {}")),
    Case(("status",), "drive", ("drive up {}",)),
    Case(("volumes",), "volume", ("admin volume set {} suspect", "admin volume survey {}")),
    Case(("host", "list"), "host", ("host label {} rack=1", "host files {}")),
    Case(("jobs", "--all"), "id", ("jobs {}", "log {}", "why {}")),
    Case(("trash", "list"), "path", ("trash list {}",)),
    # Last: what these do cannot be undone.
    Case(("pool", "list"), "partition", ("pool drain {}", "pool move {} other", "pool retire {}", "pool use {}")),
    Case(("host", "list"), "host", ("host drain {}", "host remove {}")),
]  # fmt: skip


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Run a facility that has something to show in each table."""
    directory = tmp_path_factory.mktemp("names")
    with one_facility(directory / "facility", **SMALL) as facility:
        facility.expect_log("tape (request failed|session ended early)|scan found a difference")
        facility.keep_ports(https=True)
        facility.keep_trash("1d")
        facility.up()
        with hosts(facility, directory, "d1"):
            fill(facility, directory)
            yield facility


def fill(facility: Facility, directory: Path) -> None:
    """Make jobs, files on tape, a request that waits, and something in the trash."""
    facility.wait_job(facility.submit("--", "/bin/echo", "done"))
    facility.put(write_file(directory / "a", 1000), "/a")
    facility.put(directory / "a", "/removed")
    facility.bp("rm", "/removed")
    facility.bp("scan", "start")
    for drive in facility.status()["drives"]:
        facility.bp("admin", "drive", "disable", drive["name"])
    facility.bp("archive", "/a")


def column(shown: str, name: str) -> list[str]:
    """Read the words below a heading."""
    found: list[str] = []
    heading = None
    for line in shown.splitlines():
        if match := re.search(rf"(?:^|  ){name}(?=  |$)", line):
            heading = range(match.end() - len(name), match.end())
        elif not line.strip():
            heading = None
        elif heading:
            # Names begin where their heading does, numbers end there.
            words = re.finditer(r"\S+", line)
            found += [word[0] for word in words if word.start() < heading.stop and word.end() > heading.start][:1]
    return found


def test_a_partition_of_another_pool_is_refused_with_its_own(busy: Facility) -> None:
    pool, name = column(busy.bp("pool", "list").out, "partition")[0].split("/")
    for verb in ("pool freeze", "pool drain", "pool use", "scan start", "scan report", "adopt report"):
        refused = busy.bp_fails(*verb.split(), f"wrong/{name}")
        assert f"partition {name} is in pool {pool}, not in wrong" in refused.err, refused
        assert f"name it {pool}/{name}" in refused.err, refused


def test_a_table_that_says_what_is_wrong_says_what_to_do(busy: Facility) -> None:
    for drive in busy.status()["drives"]:
        busy.bp("admin", "drive", "disable", drive["name"])
    assert "`bp doctor` says what to do" in busy.bp("drives").err
    assert "`bp why ID` says more" in busy.bp("queue").err


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{'-'.join(case.table)}-{case.column}")
def test_what_is_printed_is_an_argument(busy: Facility, case: Case) -> None:
    for verb in case.verbs:
        # Looked at before each verb: the one before may have changed the name. `pool move` does if nothing lies on the
        # partition, and that depends on where the head has placed the files.
        shown = busy.bp(*case.table).out
        names = column(shown, case.column)
        assert names, f"no column {case.column}:\n{shown}"
        outcome = busy.bp(*[word.format(names[-1]) for word in verb.split()], check=False)
        # Whether it can be done now is not asked here: the name must be understood. A scan may end before `scan stop`.
        assert outcome.code in (0, 1, 6) or "no scan of " in outcome.err, outcome
        assert not re.search("is not known|no host named|is neither|is not in|makes no sense", outcome.err), outcome
