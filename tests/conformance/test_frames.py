"""Frames that no client of the field can be made to send, or whose answers it does not show."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import frames

from .server import Server


def test_the_handshake_and_the_protocol_in_one_segment(server: Server) -> None:
    with frames.Raw(server.root) as peer:
        protocol = struct.pack(">HHiBB10si", 1, frames.PROTOCOL, 0x520, 0, 3, b"", 0)
        peer.send(frames.HANDSHAKE + protocol)
        first, second = peer.answer(), peer.answer()
    assert (first.status, len(first.body)) == (frames.OK, 8)
    version, flags = struct.unpack(">II", second.body[:8])
    assert (second.stream, second.status) == (1, frames.OK)
    assert version >= 0x310
    assert flags & 3, "server or manager"


def test_fifty_reads_in_one_segment(server: Server, seeded: str, local: dict[str, Path]) -> None:
    expected = local["big"].read_bytes()
    with frames.Raw(server.root).login() as peer:
        handle = peer.open(f"{seeded}/big")
        head = ">HH4sqii"
        peer.send(b"".join(struct.pack(head, 100 + n, frames.READ, handle, n * 50_000, 1000, 0) for n in range(50)))
        got: dict[int, bytes] = {}
        while len(got) < 50:
            answer = peer.answer()
            assert answer.status in (frames.OK, frames.OKSOFAR)
            got[answer.stream - 100] = got.get(answer.stream - 100, b"") + answer.body
    assert got == {n: expected[n * 50_000 : n * 50_000 + 1000] for n in range(50)}


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 4096), (3 * 4096 + 100, 10_000), (4095, 2), (1, 700_000), ((64 << 20) + 10, 4096)],
    ids=["page", "unaligned", "edge", "long", "end"],
)
def test_pages_have_right_sums(server: Server, seeded: str, local: dict[str, Path], offset: int, length: int) -> None:
    with frames.Raw(server.root).login() as peer:
        handle = peer.open(f"{seeded}/big")
        peer.request(frames.PGREAD, struct.pack(">4sqi", handle, offset, length))
        assert peer.pages() == local["big"].read_bytes()[offset : offset + length]


def test_a_page_with_a_wrong_sum_must_be_corrected(server: Server, here: str) -> None:
    with frames.Raw(server.root).login() as peer:
        handle = peer.open(f"{here}/file", frames.NEW | frames.UPDATE)
        good = struct.pack(">I", frames.crc32c(b"A" * 4096)) + b"A" * 4096
        bad = good[4:8] + good[4:]
        peer.request(frames.PGWRITE, struct.pack(">4sq4x", handle, 0), good + bad)
        assert peer.bad_pages() == [4096]
        peer.request(frames.CLOSE, handle)
        assert peer.answer().status == frames.ERROR, "close with a page that was never corrected"


def test_a_corrected_page_makes_the_file_good(server: Server, here: str) -> None:
    with frames.Raw(server.root).login() as peer:
        handle = peer.open(f"{here}/file", frames.NEW | frames.UPDATE)
        good = struct.pack(">I", frames.crc32c(b"A" * 4096)) + b"A" * 4096
        peer.request(frames.PGWRITE, struct.pack(">4sq4x", handle, 0), b"\0" * 4 + b"A" * 4096)
        assert peer.bad_pages() == [0]
        retry = 1
        peer.request(frames.PGWRITE, struct.pack(">4sqBB2x", handle, 0, 0, retry), good)
        assert peer.bad_pages() == []
        peer.request(frames.CLOSE, handle)
        assert peer.answer().status == frames.OK
    assert server.read(f"{here}/file") == b"A" * 4096


def test_several_vectors_of_writes(server: Server, here: str) -> None:
    with frames.Raw(server.root).login() as peer:
        handle = peer.open(f"{here}/file", frames.NEW | frames.UPDATE)
        elements = [(0, b"a" * 100), (5000, b"b" * 10), (100, b"c" * 50)]
        list_ = b"".join(struct.pack(">4siq", handle, len(data), offset) for offset, data in elements)
        data = b"".join(data for _, data in elements)
        # The length counts the elements; their bytes follow.
        peer.request(frames.WRITEV, b"", list_)
        peer.send(data)
        assert peer.answer().status == frames.OK
        peer.request(frames.CLOSE, handle)
        assert peer.answer().status == frames.OK
    assert server.read(f"{here}/file") == (b"a" * 100 + b"c" * 50).ljust(5000, b"\0") + b"b" * 10


def test_statx_of_several_paths(server: Server, seeded: str) -> None:
    with frames.Raw(server.root).login() as peer:
        peer.request(frames.STATX, b"", f"{seeded}/odd\n{seeded}/a".encode())
        answer = peer.answer()
    assert answer.status == frames.OK
    file, directory = answer.body
    assert not file & 2
    assert directory & 2, "kXR_isDir"
