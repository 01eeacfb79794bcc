"""Files that a mount changes in place, in a pool of two copies: a disk server that is killed loses nothing."""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from pathlib import Path

from clients import DEADLINE, make_bytes
from history import Journal, load, wrongs
from live_copies import HEAL, Copies, copies
from share_load import BLOCKS, FORK, Load, block_files, look, prepare, start

__all__ = ["copies"]


def test_each_write_is_on_two_disk_servers_when_it_is_synced(copies: Copies) -> None:
    data = make_bytes(700_001, 3)
    with (copies.mounts[0] / "two").open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        live = copies.live(len(data))
        assert len(live) == 2, live
        assert all(path.read_bytes() == data for paths in live.values() for path in paths)
    assert (copies.mounts[1] / "two").read_bytes() == data
    copies.facility.wait_until("it is sealed", lambda: copies.facility.state("/two") == "online")
    assert len(copies.replicas("/two")) == 2, "both copies became replicas at once"
    assert copies.objects("/two", len(data)) == [data, data]
    assert copies.read("/two") == data
    # Changed again, each copy begins with the replica beside it.
    with (copies.mounts[1] / "two").open("r+b") as file:
        file.seek(600_000)
        file.write(b"changed")
        file.flush()
        os.fsync(file.fileno())
        live = copies.live(len(data))
        assert len(live) == 2, live
    assert copies.read("/two") == data[:600_000] + b"changed" + data[600_007:]


def test_ranges_are_changed_in_all_copies(copies: Copies) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    punch, keep_size = 2, 1
    data = bytearray(make_bytes(1 << 20, 4))
    fd = os.open(copies.mounts[0] / "ranges", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(fd, data, 0)
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        assert libc.fallocate(fd, punch | keep_size, 8192, 65536) == 0
        data[8192:73728] = bytes(65536)
        assert os.copy_file_range(fd, fd, 100_000, 300_000, 900_000) == 100_000
        data[900_000:1_000_000] = data[300_000:400_000]
        os.ftruncate(fd, 1_200_007)
        data += bytes(1_200_007 - len(data))
        os.posix_fallocate(fd, 0, 1_300_009)
        data += bytes(1_300_009 - len(data))
        os.ftruncate(fd, 1_250_011)
        del data[1_250_011:]
        os.fsync(fd)
        live = copies.live(len(data))
        assert len(live) == 2, live
        assert all(path.read_bytes() == data for paths in live.values() for path in paths)
        assert os.pread(fd, len(data), 0) == data
    finally:
        os.close(fd)
    assert copies.read("/ranges") == data


def test_a_disk_server_that_is_killed_costs_no_write(copies: Copies) -> None:
    """A program writes and syncs all the time; none of its calls fails, and nothing old is read afterwards."""
    path = copies.mounts[0] / "killed"
    stop = threading.Event()
    written: dict[int, int] = {}
    syncs = 0

    def work() -> None:
        nonlocal syncs
        rng = random.Random(7)
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            while not stop.is_set():
                block = rng.randrange(64)
                written[block] = value = rng.randrange(1, 256)
                assert os.pwrite(fd, bytes([value]) * 4096, block * 4096) == 4096
                os.fsync(fd)
                syncs += 1
                assert os.pread(fd, 4096, block * 4096) == bytes([value]) * 4096
        finally:
            os.close(fd)

    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:
            failed.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    victim = None
    try:
        copies.facility.wait_until("it is written", lambda: syncs > 20 or bool(failed))
        live = {server: paths for server, paths in copies.live().items() if any(is_large(path) for path in paths)}
        victim = next(server for server in copies.servers if server.name in live)
        victim.kill()
        after = syncs
        copies.facility.wait_until("the other goes on", lambda: syncs > after + 40 or bool(failed), HEAL)
    finally:
        stop.set()
        thread.join(HEAL)
        if victim is not None:
            victim.up()
    assert not failed, failed
    expected = b"".join(bytes([written.get(block, 0)]) * 4096 for block in range(max(written) + 1))
    assert (copies.mounts[1] / "killed").read_bytes() == expected
    assert copies.read("/killed") == expected
    copies.wait_whole("/killed")
    assert copies.objects("/killed", len(expected)) == [expected, expected]
    copies.facility.wait_until("the copy that was away is gone", lambda: not copies.live())


def is_large(path: Path) -> bool:
    """Tell whether a live object is more than a beginning."""
    return path.stat().st_size >= 4096


def test_one_order_explains_what_two_mounts_see_while_disk_servers_are_killed(copies: Copies, tmp_path: Path) -> None:
    rng = random.Random(os.environ.get("BP_SHARE_SEEDS", "1"))
    directory = f"h{time.monotonic_ns()}"
    (copies.mounts[0] / directory).mkdir()
    prepare(copies.mounts[0] / directory)
    stop, workers = FORK.Event(), []
    for mount in copies.mounts:
        label = tmp_path / f"{mount.name}.label"
        label.write_text(mount.name)
        for number in range(2):
            who = f"{mount.name}-{number}"
            journal = Journal(tmp_path / who, who)
            workers.append(start(Load(journal, mount / directory, label, f"1 {who}"), stop))
    try:
        for _ in range(3):
            time_left(rng.uniform(1, 2))
            server = rng.choice(copies.servers)
            server.kill()
            time_left(rng.uniform(0.5, 3))
            server.up()
    finally:
        stop.set()
        for worker in workers:
            worker.join(HEAL)
    assert {worker.exitcode for worker in workers} == {0}, "a process met what cannot be, or hangs"
    for mount in copies.mounts:
        look(mount / directory, tmp_path / f"look-{mount.name}", mount.name)
    door = tmp_path / "door"
    door.mkdir()
    for file in block_files():
        (door / file).write_bytes(copies.read(f"/{directory}/{file}"))
    (tmp_path / "door.label").write_text("door")
    reader = Load(Journal(tmp_path / "door-reads", "door"), door, tmp_path / "door.label", "door")
    for file in block_files():
        with reader.opened(file, os.O_RDONLY) as (fd, common):
            reader.read_blocks(fd, common, 0, BLOCKS)
    ops = load(path for path in tmp_path.iterdir() if path.is_file() and not path.suffix)
    found = wrongs(ops)
    assert not found, f"{len(found)} wrongs, as\n" + "\n".join(found[:5])
    lost = [op for op in ops if op.error and op.kind in {"write", "sync", "close", "append"}]
    assert not lost, f"calls failed, as {lost[0]}"


def time_left(seconds: float) -> None:
    """Let the load go on for a while."""
    threading.Event().wait(min(seconds, DEADLINE))
