"""Reads vectors by the XRootD Python bindings: `PYTHON bindings_vector_read.py URL FILE`; FILE has the same bytes.

Runs under the interpreter that has the bindings, which need not be the one of the tests.
"""

import random
import sys
from pathlib import Path

from XRootD import client
from XRootD.client.flags import OpenFlags


def main() -> None:
    """Compare vectors of many shapes, and see that bad ones are refused and harmless."""
    url, expected = sys.argv[1], Path(sys.argv[2]).read_bytes()
    file = client.File()
    status, _ = file.open(url, OpenFlags.READ)
    assert status.ok, status.message
    size, rng = len(expected), random.Random(1)
    many = [(rng.randrange(size - 4096), 4096) for _ in range(1024)]
    mixed = [(0, 1), (5, 7), (4095, 2), (size - 1, 1), (100_000, 1_000_000), (200_000, 4097)]
    for chunks in (many, mixed, [(10, 100), (50, 100)], [(0, 1)]):
        status, answer = file.vector_read(chunks)
        assert status.ok, status.message
        assert len(answer.chunks) == len(chunks)
        for chunk, (offset, length) in zip(answer.chunks, chunks, strict=True):
            assert (chunk.offset, chunk.length) == (offset, length)
            assert bytes(chunk.buffer) == expected[offset : offset + length], offset
    for chunks in ([(size - 10, 4096)], [(0, 1 << 29)] * 64):
        status, _ = file.vector_read(chunks)
        assert not status.ok, f"vector {chunks[0]} must be refused"
    status, data = file.read(0, 10)
    assert status.ok, status.message
    assert data == expected[:10], "the handle is dead after a refused vector"
    status, data = file.read(size - 5, 100)
    assert status.ok, status.message
    assert data == expected[-5:]
    assert file.close()[0].ok


if __name__ == "__main__":
    main()
