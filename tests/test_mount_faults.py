"""Hosts that share files are frozen, cut off and killed under load, and one order explains all that programs have seen.

`BP_SHARE_SEEDS=1..200 pytest tests/test_mount_faults.py` runs 200 seeds, `BP_SHARE_SEEDS=17` one again. What a seed
that failed has left (logs, journals of all processes) is kept and its place told.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from clients import need
from facility import binaries
from history import Journal, Op, load, wrongs
from mounting import need_mounts
from share_hosts import CLIENTS, Hosts, deadline_left, shared_hosts
from share_load import BLOCKS, FORK, Load, block_files, look, prepare, start

HEAL = 100.0
"""Seconds in which every call ends once nothing is wrong any more."""
WORKERS = 2
"""Processes for each mount."""


def seeds() -> list[int]:
    """Choose which seeds to run."""
    first, _, last = os.environ.get("BP_SHARE_SEEDS", "1..6").partition("..")
    return list(range(int(first), int(last or first) + 1))


class Fleet:
    """The hosts of all seeds; after a seed that failed they are laid anew."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._stack = ExitStack()
        self._hosts: Hosts | None = None

    def get(self) -> Hosts:
        """Take the hosts."""
        if self._hosts is None:
            self._hosts = self._stack.enter_context(shared_hosts(self._factory.mktemp("hosts")))
        return self._hosts

    def drop(self) -> None:
        """End them."""
        self._hosts = None
        self._stack.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Lay hosts when they are needed first."""
    need_mounts()
    need("ip", "nsenter", "xrdcp")
    made = Fleet(tmp_path_factory)
    yield made
    made.drop()


@pytest.mark.parametrize("seed", seeds())
def test_one_order_explains_what_all_have_seen(fleet: Fleet, seed: int) -> None:
    hosts = fleet.get()
    journals = hosts.place / f"seed{seed}"
    journals.mkdir()
    hosts.done.clear()
    try:
        ops = run_seed(hosts, seed, journals)
        found = wrongs(ops)
        assert not found, f"{len(found)} wrongs, as\n" + "\n".join(found[:5])
        assert hosts.panics() == []
    except BaseException:
        print(f"\nBP_SHARE_SEEDS={seed}: {'; '.join(hosts.done)}\nlogs and journals: {hosts.place}")
        fleet.drop()
        raise
    outcomes = Counter(f"{op.kind} {op.error or 'done'}" for op in ops)
    print(f"\nseed {seed}: {'; '.join(hosts.done)}\n{len(ops)} operations: {dict(sorted(outcomes.items()))}")


def run_seed(hosts: Hosts, seed: int, journals: Path) -> list[Op]:
    """Work on all hosts while things go wrong; then wait until all is well, and read everything."""
    directory = f"s{seed}-{time.monotonic_ns()}"
    first = hosts.mounts[CLIENTS[0]].directory / directory
    first.mkdir()
    prepare(first)
    stop = FORK.Event()
    workers = []
    for name, mount in hosts.mounts.items():
        for number in range(WORKERS):
            who = f"{name}-{number}"
            journal = Journal(journals / who, who)
            workers.append(start(Load(journal, mount.directory / directory, mount.label, f"{seed} {who}"), stop))
    try:
        hosts.harass(seed)
    finally:
        stop.set()
        end_all(workers)
    for name, mount in hosts.mounts.items():
        read_all(mount.directory / directory, journals / f"look-{name}", mount.label.read_text())
    read_through_door(hosts, directory, journals)
    return load(path for path in journals.iterdir() if path.is_file() and not path.suffix)


def end_all(workers: list[BaseProcess]) -> None:
    """Wait for all processes; one that hangs must at least end by a signal."""
    end = time.monotonic() + HEAL
    for worker in workers:
        worker.join(deadline_left(end))
    hanging = [worker for worker in workers if worker.is_alive()]
    for worker in hanging:
        worker.kill()
        worker.join(HEAL)
    names = [worker.name for worker in hanging]
    assert not any(worker.is_alive() for worker in hanging), f"no signal ends {names}"
    assert not names, f"calls of {names} do not end"
    assert {worker.exitcode for worker in workers} == {0}, "a process met what cannot be"


def read_all(directory: Path, journal: Path, mount: str) -> None:
    """Read everything through one mount, in a process that can be given up."""
    reader = FORK.Process(target=look, args=(directory, journal, mount), daemon=True)
    reader.start()
    reader.join(HEAL)
    is_ended = not reader.is_alive()
    reader.kill()
    assert is_ended, f"{directory} cannot be read"
    assert reader.exitcode == 0, f"{directory} is not read well"


def read_through_door(hosts: Hosts, directory: str, journals: Path) -> None:
    """Read the files of blocks as a user without a mount does."""
    place = journals / "door"
    place.mkdir()
    (place / "log").touch()
    for file in block_files():
        words = (binaries() / "bp", "get", f"/{directory}/{file}", place / file)
        hosts.net.run("head", *words, env=hosts.mounts[CLIENTS[0]].env)
    label = place / "label"
    label.write_text("door")
    reader = Load(Journal(journals / "door-reads", "door"), place, label, "door")
    for file in block_files():
        with reader.opened(file, os.O_RDONLY) as (fd, common):
            reader.read_blocks(fd, common, 0, BLOCKS)
