"""Layouts of files that a mount changes in place: how many copies, and over how many disk servers they are striped."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

from clients import make_bytes
from live_copies import HEAL, Copies, copies

__all__ = ["copies"]

UNIT = 64 << 10


def striped(copies: Copies, name: str, *options: str) -> Path:
    """Make a directory with a layout, as the first mount shows it."""
    directory = copies.mounts[0] / name
    directory.mkdir()
    copies.facility.bp("layout", "set", f"/{name}", *options)
    return directory


def column(data: bytes, index: int, width: int) -> bytes:
    """Compute what one column of a file has."""
    return b"".join(data[at : at + UNIT] for at in range(index * UNIT, len(data), width * UNIT))


def test_rules_count_below_their_directory_until_they_are_taken_away(copies: Copies) -> None:
    facility = copies.facility
    striped(copies, "rules", "--width=3")
    (copies.mounts[0] / "rules" / "below").mkdir()
    assert facility.bp("layout", "show", "/rules").out.strip() == "width 3"
    assert facility.bp("layout", "show", "/rules/below").out.strip() == "width 3 (from /rules)"
    facility.bp("layout", "set", "/rules/below", "--copies=1", "--unit=1MiB")
    assert facility.bp_json("layout", "show", "/rules/below")["rule"] == {"copies": 1, "unit": 1 << 20}
    facility.bp("layout", "unset", "/rules/below")
    assert facility.bp("layout", "show", "/rules/below").out.strip() == "width 3 (from /rules)"
    assert "no layout was set on /rules/below" in facility.bp_fails("layout", "unset", "/rules/below").err
    assert "17" in facility.bp_fails("layout", "set", "/rules", "--width=17").err
    assert "whole pages" in facility.bp_fails("layout", "set", "/rules", "--unit=70000").err
    assert "layout" in facility.bp("stat", "/rules").out
    assert "layout" not in facility.bp("stat", "/rules/below").out


def test_a_striped_file_lies_on_three_disk_servers_and_is_one_object_when_it_is_sealed(copies: Copies) -> None:
    place = striped(copies, "striped", "--width=3", f"--unit={UNIT}", "--copies=1")
    data = make_bytes(10 * UNIT + 12_345, 5)
    with (place / "file").open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        found = {path.read_bytes() for paths in copies.live().values() for path in paths if path.stat().st_size}
        assert {column(data, index, 3) for index in range(3)} <= found
        told = copies.facility.bp("stat", "/striped/file").out
        assert "3 columns" in told
        assert sum(server.partition in told for server in copies.servers) == 3, told
    there = copies.mounts[1] / "striped" / "file"
    assert there.read_bytes() == data
    with there.open("r+b") as file:
        file.seek(UNIT - 5)
        file.write(b"across columns")
        file.truncate(7 * UNIT + 1)
    changed = bytearray(data[: 7 * UNIT + 1])
    changed[UNIT - 5 : UNIT + 9] = b"across columns"
    assert (place / "file").read_bytes() == changed
    copies.facility.wait_until("it is sealed", lambda: copies.facility.state("/striped/file") == "online", HEAL)
    assert copies.read("/striped/file") == changed
    copies.wait_whole("/striped/file")
    assert copies.objects("/striped/file", len(changed)) == [changed, changed], "the pool keeps two copies"
    copies.facility.wait_until("its columns are gone", lambda: not copies.live(), HEAL)


def test_holes_and_ends_of_a_striped_file_are_those_of_a_plain_one(copies: Copies, tmp_path: Path) -> None:
    place = striped(copies, "random", "--width=2", f"--unit={UNIT}", "--copies=2")
    rng = random.Random(11)
    plain = tmp_path / "plain"
    files = [os.open(path, os.O_RDWR | os.O_CREAT) for path in (place / "file", plain)]
    try:
        for number in range(60):
            at, length = rng.randrange(20 * UNIT), rng.randrange(1, 3 * UNIT)
            data = make_bytes(length, number)
            for fd in files:
                if number % 7 == 6:
                    os.ftruncate(fd, at)
                else:
                    os.pwrite(fd, data, at)
            if number % 10 == 9:
                os.fsync(files[0])
            at = rng.randrange(20 * UNIT)
            assert os.pread(files[0], 100_000, at) == os.pread(files[1], 100_000, at), number
        assert os.fstat(files[0]).st_size == plain.stat().st_size
    finally:
        for fd in files:
            os.close(fd)
    assert (copies.mounts[1] / "random" / "file").read_bytes() == plain.read_bytes()
    assert copies.read("/random/file") == plain.read_bytes()


def test_a_disk_server_that_is_killed_costs_no_write_to_a_striped_file(copies: Copies) -> None:
    path = striped(copies, "killed", "--width=3", f"--unit={UNIT}", "--copies=2") / "file"
    written: dict[int, int] = {}
    syncs, failed, stop = 0, [], threading.Event()

    def work() -> None:
        nonlocal syncs
        rng = random.Random(7)
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            while not stop.is_set():
                block = rng.randrange(256)
                written[block] = value = rng.randrange(1, 256)
                assert os.pwrite(fd, bytes([value]) * 4096, block * 4096) == 4096
                os.fsync(fd)
                syncs += 1
        except BaseException as failure:
            failed.append(failure)
        finally:
            os.close(fd)

    thread = threading.Thread(target=work)
    thread.start()
    victim = copies.servers[0]
    try:
        copies.facility.wait_until("it is written", lambda: syncs > 20 or bool(failed))
        victim.kill()
        after = syncs
        copies.facility.wait_until("the others go on", lambda: syncs > after + 40 or bool(failed), HEAL)
    finally:
        stop.set()
        thread.join(HEAL)
        victim.up()
    assert not failed, failed
    expected = b"".join(bytes([written.get(block, 0)]) * 4096 for block in range(max(written) + 1))
    assert (copies.mounts[1] / "killed" / "file").read_bytes() == expected
    assert copies.read("/killed/file") == expected
    copies.wait_whole("/killed/file")
    assert copies.objects("/killed/file", len(expected)) == [expected, expected]
