"""Files of a real facility as file objects."""

from __future__ import annotations

import io
import itertools
import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import backplane
from backplane import Facility, FacilityFile

CONTENT = random.Random(1).randbytes(5_000_001)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def path(live: Facility) -> str:
    live.write_bytes("/files/content", CONTENT)
    return "/files/content"


@pytest.fixture
def new() -> str:
    return f"/files/new{next(_numbers)}"


def test_reads_like_any_file(live: Facility, path: str) -> None:
    with live.open(path) as file:
        assert file.size == len(CONTENT)
        assert file.read(3) == CONTENT[:3]
        assert file.seek(-5, io.SEEK_END) == len(CONTENT) - 5
        assert file.read(100) == CONTENT[-5:]
        assert file.read(1) == b""
        assert file.seek(1 << 40) == 1 << 40
        assert (file.read(), file.readinto(bytearray(5))) == (b"", 0)
        file.seek(17)
        assert file.readall() == CONTENT[17:]
    assert live.read_bytes(path) == CONTENT


@pytest.mark.parametrize("kind", ["bytearray", "memoryview", "doubles", "matrix", "view"])
def test_readinto_fills_any_plain_memory(live: Facility, path: str, kind: str) -> None:
    whole = bytearray(4096)
    buffers: dict[str, Any] = {
        "bytearray": whole,
        "memoryview": memoryview(whole)[8:1000],
        "doubles": np.zeros(500),
        "matrix": np.zeros((30, 7), "i4"),
        "view": np.zeros((30, 7), "i4")[4:9],
    }
    buffer = buffers[kind]
    with live.open(path) as file:
        file.seek(100)
        count = file.readinto(buffer)
    assert count == memoryview(buffer).nbytes
    assert memoryview(buffer).tobytes() == CONTENT[100 : 100 + count]
    if kind == "memoryview":
        assert whole[:8] == bytes(8)
        assert whole[1000:] == bytes(3096)


def test_memory_that_is_not_plain_is_refused(live: Facility, path: str) -> None:
    with live.open(path) as file:
        bad: Any
        for bad in (b"constant", np.zeros((9, 9))[:, 2], np.zeros(3, object), memoryview(bytearray(9))[::2]):
            with pytest.raises((BufferError, ValueError)):
                file.readinto(bad)
        with pytest.raises(TypeError):
            file.readinto("text")  # type: ignore[arg-type]
        buffer = bytearray(100)
        with pytest.raises(ValueError, match="overlap"):
            file.read_ranges_into([0, 50], [memoryview(buffer)[:60], memoryview(buffer)[50:]])
        assert buffer == bytes(100)
        # The export ends with the call.
        file.readinto(buffer)
        buffer.append(0)


def test_the_end_of_the_file_ends_a_read(live: Facility, path: str) -> None:
    buffer = bytearray(b"x" * 20)
    with live.open(path) as file:
        file.seek(-7, io.SEEK_END)
        assert file.readinto(buffer) == 7
    assert buffer == CONTENT[-7:] + b"x" * 13


def test_vector_reads_give_every_range(live: Facility, path: str) -> None:
    rng = random.Random(2)
    ranges = [(rng.randrange(len(CONTENT)), rng.choice([0, 1, 4096, 70_000])) for _ in range(3000)]
    ranges += [(0, len(CONTENT)), (len(CONTENT), 5), (len(CONTENT) + 9, 5), (1, 2_500_000)]
    with live.open(path) as file:
        expected = [CONTENT[offset : offset + length] for offset, length in ranges]
        assert file.read_ranges(ranges) == expected
        buffers = [bytearray(length) for _, length in ranges]
        counts = file.read_ranges_into([offset for offset, _ in ranges], buffers)
        assert counts == [len(piece) for piece in expected]
        assert [bytes(buffer[:count]) for buffer, count in zip(buffers, counts, strict=True)] == expected
        assert file.read_ranges([]) == []
        assert file.tell() == 0
        with pytest.raises(backplane.InvalidError, match="2 offsets for 1 buffers"):
            file.read_ranges_into([1, 2], [bytearray(1)])
    # Objects that CPython shares are not written.
    assert (bytes(0), bytes(1), bytes([65])) == (b"", b"\0", b"A")


def test_hints_change_no_result(live: Facility, path: str) -> None:
    rng = random.Random(3)
    ranges = [(rng.randrange(len(CONTENT)), 3000) for _ in range(500)]
    wrong = [(offset + 1, length) for offset, length in ranges[::-1]]
    for announced in (ranges, wrong, [(1 << 50, 7)], []):
        with live.open(path) as file:
            file.preseek(announced)
            file.advise("random")
            for offset, length in ranges:
                file.seek(offset)
                assert file.read(length) == CONTENT[offset : offset + length]
            file.advise("sequential")
            file.seek(0)
            assert file.read() == CONTENT
            with pytest.raises(backplane.InvalidError, match=r"sideways. is not one of"):
                file.advise("sideways")  # type: ignore[arg-type]


def test_threads_read_one_file(live: Facility, path: str) -> None:
    with live.open(path) as file, ThreadPoolExecutor(8) as pool:

        def read(seed: int) -> bool:
            rng = random.Random(seed)
            ranges = [(rng.randrange(len(CONTENT)), 5000) for _ in range(50)]
            return file.read_ranges(ranges) == [CONTENT[offset : offset + length] for offset, length in ranges]

        assert all(pool.map(read, range(40)))


def test_buffered_reads_and_writes(live: Facility, new: str) -> None:
    with live.open(new, "wb").buffered() as writer:
        assert isinstance(writer, backplane.BufferedWriter)
        for start in range(0, len(CONTENT), 999):
            writer.write(CONTENT[start : start + 999])
    with live.open(new).buffered(4096) as reader:
        assert isinstance(reader, backplane.BufferedReader)
        assert reader.size == len(CONTENT)
        assert b"".join(iter(lambda: reader.read(777), b"")) == CONTENT
        assert reader.read_ranges([(5, 5)]) == [CONTENT[5:10]]


def test_writes_of_any_memory(live: Facility, new: str) -> None:
    numbers: Any = np.arange(1000.0).reshape(10, 100)
    with live.open(new, "xb") as file:
        assert file.write(numbers) == 8000
        assert file.write(memoryview(b"abcdef")[2:4]) == 2
        file.seek(8)
        assert file.write(bytearray(b"12345678")) == 8
        with pytest.raises(BufferError):
            file.write(numbers[:, 3])
        with pytest.raises(io.UnsupportedOperation):
            file.read(1)
    expected = bytearray(numbers.tobytes() + b"cd")
    expected[8:16] = b"12345678"
    assert live.read_bytes(new) == expected
    with pytest.raises(FileExistsError):
        live.open(new, "xb")
    with live.open(new) as file, pytest.raises(io.UnsupportedOperation):
        file.write(b"x")


def test_what_fails_is_given_up(live: Facility, new: str) -> None:
    live.write_bytes(new, b"before")

    def fail(file: Any) -> None:
        with file:
            file.write(b"half")
            raise KeyError

    for is_buffered in (False, True):
        raw = live.open(new, "wb")
        with pytest.raises(KeyError):
            fail(raw.buffered() if is_buffered else raw)
        assert live.read_bytes(new) == b"before"
    for is_buffered in (False, True):
        raw = live.open(new, "wb")
        forgotten: Any = raw.buffered() if is_buffered else raw
        forgotten.write(b"forgotten")
        with pytest.warns(ResourceWarning, match="not closed"):
            del raw, forgotten
    assert live.read_bytes(new) == b"before"


def test_names_that_the_protocol_cannot_write_are_refused(live: Facility) -> None:
    name = "/files/what a=b&c %41 #"
    live.write_bytes(name, b"x")
    assert live.read_bytes(name) == b"x"
    assert [entry["name"] for entry in live.ls("/files") if "what" in entry["name"]] == ["what a=b&c %41 #"]
    with pytest.raises(backplane.InvalidError, match="question mark"):
        live.write_bytes("/files/what?", b"x")


def test_failures_have_the_numbers_of_the_system(live: Facility) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        live.open("/files/none")
    assert raised.value.errno == 2
    assert "/files/none" in str(raised.value)
    with pytest.raises(ValueError, match="closed file"):
        closed(live.open("/files/content")).read(1)


def closed(file: FacilityFile) -> FacilityFile:
    file.close()
    file.close()
    return file


def test_a_signal_ends_a_long_read(live: Facility, path: str) -> None:
    class Stop(Exception):  # noqa: N818 - it is no error
        pass

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with live.open(path) as file:

            def loop() -> None:
                # Whatever the moment, some call hears it.
                threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1)).start()
                while True:
                    file.read_ranges([(0, len(CONTENT))])

            with pytest.raises(Stop):
                loop()
            assert file.read_ranges([(3, 3)]) == [CONTENT[3:6]]
    finally:
        signal.signal(signal.SIGUSR1, before)
