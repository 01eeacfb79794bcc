"""Ranges of files through mounts: space, holes, copies, and long random sequences beside a plain file."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients import DEADLINE
from conftest import SMALL, one_facility
from facility import Facility
from mounting import mounted, need_mounts

KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
LIBC = ctypes.CDLL(None, use_errno=True)
FALLOCATE = LIBC.fallocate
FALLOCATE.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]

# Operations of a short run, and of one that `make fsx` makes long.
OPERATIONS = int(os.environ.get("BP_FSX_OPERATIONS", "20000"))
SEED = int(os.environ.get("BP_FSX_SEED", "24"))
# As much as fsx uses: many operations meet each other in it.
FILE_BYTES = 256 << 10
# Longest range of one operation.
RANGE_BYTES = 64 << 10
# Operations on one mount before the next one follows.
TURN = 8


def fallocate(fd: int, mode: int, offset: int, length: int) -> None:
    """Do what the system call does; Python has it without modes only."""
    if FALLOCATE(fd, mode, offset, length) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextmanager
def refused(code: int) -> Iterator[None]:
    """Expect a refusal of the system."""
    with pytest.raises(OSError) as failure:  # noqa: PT011  the number is what matters
        yield
    assert failure.value.errno == code, failure.value


@pytest.fixture(scope="module")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Facility, Path, Path]]:
    """Mount one facility twice, as two hosts would."""
    need_mounts()
    place = tmp_path_factory.mktemp("ranges")
    with one_facility(place / "facility", **SMALL) as facility:
        facility.up()
        with mounted(facility, place / "a") as first, mounted(facility, place / "b") as second:
            yield facility, first, second


def find(fd: int, offset: int, whence: int) -> int | None:
    """Find data or a hole; nothing behind the end."""
    try:
        return os.lseek(fd, offset, whence)
    except OSError as failure:
        if failure.errno != errno.ENXIO:
            raise
        return None


def data_of(path: Path) -> list[tuple[int, int]]:
    """List the data of a file, as the file system knows them."""
    found, at = [], 0
    with path.open("rb") as file:
        while (begin := find(file.fileno(), at, os.SEEK_DATA)) is not None:
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            found.append((begin, at))
    return found


def test_ranges_are_changed_on_one_host_and_seen_on_the_other(mounts: tuple[Facility, Path, Path]) -> None:
    facility, first, second = mounts
    here, there = first / "ranges", second / "ranges"
    block = 64 << 10
    with here.open("w+b") as file:
        file.write(b"x" * 4 * block)
        file.flush()
        fallocate(file.fileno(), PUNCH_HOLE | KEEP_SIZE, block, block)
        wanted = b"x" * block + bytes(block) + b"x" * 2 * block
        assert there.read_bytes() == wanted
        assert data_of(there) == [(0, block), (2 * block, 4 * block)]
        fallocate(file.fileno(), ZERO_RANGE | KEEP_SIZE, 3 * block, 2 * block)
        wanted = wanted[: 3 * block] + bytes(block)
        assert there.read_bytes() == here.read_bytes() == wanted
        os.posix_fallocate(file.fileno(), 0, 6 * block)
        wanted += bytes(2 * block)
        assert there.stat().st_size == 6 * block
        assert there.read_bytes() == wanted
        fallocate(file.fileno(), KEEP_SIZE, 0, 9 * block)
        assert there.stat().st_size == here.stat().st_size == 6 * block
        assert os.copy_file_range(file.fileno(), file.fileno(), 100, 0, 5 * block + 1) == 100
        wanted = wanted[: 5 * block + 1] + wanted[:100] + wanted[5 * block + 101 :]
        assert there.read_bytes() == wanted
        with (second / "copy").open("w+b") as copy, there.open("rb") as source:
            assert os.copy_file_range(source.fileno(), copy.fileno(), 1 << 20, 1, 5) == len(wanted) - 1
        assert (first / "copy").read_bytes() == bytes(5) + wanted[1:]
        with refused(errno.ENXIO):
            os.lseek(file.fileno(), 6 * block, os.SEEK_DATA)
        with refused(errno.ENXIO):
            os.lseek(file.fileno(), 6 * block, os.SEEK_HOLE)
        with refused(errno.EOPNOTSUPP):
            fallocate(file.fileno(), 0x20, 0, block)
        fallocate(file.fileno(), PUNCH_HOLE | KEEP_SIZE, block, block)
    # Sealed, its sums are those of all bytes, and its holes are holes.
    with urllib.request.urlopen(f"{facility.http}/ranges", timeout=DEADLINE) as answer:
        assert answer.read() == wanted
    assert there.read_bytes() == wanted
    assert data_of(there)[0] == (0, block)


def test_space_that_is_not_there_is_refused_when_it_is_asked_for(
    mounts: tuple[Facility, Path, Path],
) -> None:
    _, first, second = mounts
    with (first / "large").open("w+b") as file:
        file.write(b"small")
        file.flush()
        for mode in (0, KEEP_SIZE):
            with refused(errno.ENOSPC):
                fallocate(file.fileno(), mode, 0, 1 << 43)
        assert (second / "large").read_bytes() == b"small"


def test_what_is_mapped_and_changed_is_no_hole(mounts: tuple[Facility, Path, Path]) -> None:
    _, first, _ = mounts
    size = 1 << 20
    with (first / "mapped").open("w+b") as file:
        file.truncate(size)
        with mmap.mmap(file.fileno(), size) as memory:
            memory[size // 2 : size // 2 + 4] = b"data"
            found = os.lseek(file.fileno(), 0, os.SEEK_DATA)
            assert found <= size // 2 < os.lseek(file.fileno(), found, os.SEEK_HOLE)


class Twin:
    """A file on two mounts and beside them: each operation is done on one mount and on the plain file."""

    def __init__(self, shared: tuple[Path, Path], plain: Path, seed: int, is_direct: bool) -> None:
        """Make it."""
        self.rng = random.Random(seed)
        self.number = 0
        self.log: list[str] = []
        flags = os.O_RDWR | (os.O_DIRECT if is_direct else 0)
        self.grain = 4096 if is_direct else 1
        shared[0].touch()
        self.shared = [os.open(path, flags) for path in shared]
        self.plain = os.open(plain, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def close(self) -> None:
        """Close it."""
        for fd in (*self.shared, self.plain):
            os.close(fd)

    def size(self) -> int:
        """Tell where it should end."""
        return os.fstat(self.plain).st_size

    def range(self, most: int = FILE_BYTES) -> tuple[int, int]:
        """Choose an offset and a length."""
        offset = self.rng.randrange(max(1, most)) // self.grain * self.grain
        length = self.rng.randint(1, RANGE_BYTES)
        length = min(length, max(1, most - offset))
        return offset, -(-length // self.grain) * self.grain

    def step(self) -> None:
        """Do one operation, the same on both files."""
        fd = self.shared[self.number // TURN % 2]
        self.number += 1
        steps = [
            self.write, self.write, self.read, self.read, self.write_mapped, self.read_mapped, self.truncate,
            self.allocate, self.punch, self.zero, self.copy, self.seek, self.sync,
        ]  # fmt: skip
        step = self.rng.choice(steps)
        step(fd)

    def note(self, what: str, *numbers: int) -> None:
        """Remember what was done, for whoever reads a failure."""
        self.log.append(f"{self.number} on {self.number // TURN % 2}: {what} {numbers}")
        del self.log[:-40]

    def both(self, fd: int, does: Callable[[int], object]) -> None:
        """Do something with both files, which must end in the same way."""
        ends = []
        for each in (fd, self.plain):
            try:
                ends.append(does(each))
            except OSError as failure:
                ends.append(failure.errno)
        assert ends[0] == ends[1], "\n".join(self.log)

    def write(self, fd: int) -> None:
        """Write bytes that no other operation writes."""
        offset, length = self.range()
        self.note("write", offset, length)
        data = mmap.mmap(-1, length)
        data[:] = self.rng.randbytes(length)
        self.both(fd, lambda each: os.pwritev(each, [data], offset))

    def read(self, fd: int) -> None:
        """Read and compare."""
        offset, length = self.range()
        self.note("read", offset, length)
        data = [mmap.mmap(-1, length), mmap.mmap(-1, length)]
        self.both(fd, lambda each: os.preadv(each, [data[each == self.plain]], offset))
        self.compare(data[0][:], data[1][:], offset)

    def compare(self, found: bytes, wanted: bytes, offset: int) -> None:
        """Fail with the place where bytes differ."""
        if found != wanted:
            at = next(at for at, (one, two) in enumerate(zip(found, wanted, strict=True)) if one != two)
            raise AssertionError(f"byte {offset + at} differs\n" + "\n".join(self.log))

    def write_mapped(self, fd: int) -> None:
        """Change bytes in memory, and have them written before anybody else changes the file."""
        size = self.size()
        if size == 0:
            return
        offset = self.rng.randrange(size)
        data = self.rng.randbytes(min(self.rng.randint(1, RANGE_BYTES), size - offset))
        self.note("write mapped", offset, len(data))
        for each in (fd, self.plain):
            with mmap.mmap(each, size) as memory:
                memory[offset : offset + len(data)] = data
                memory.flush()

    def read_mapped(self, fd: int) -> None:
        """Read from memory."""
        size = self.size()
        if size == 0:
            return
        self.note("read mapped", size)
        with mmap.mmap(fd, size) as found, mmap.mmap(self.plain, size) as wanted:
            self.compare(found[:], wanted[:], 0)

    def truncate(self, fd: int) -> None:
        """Set the size."""
        size = self.rng.randrange(FILE_BYTES)
        self.note("truncate", size)
        self.both(fd, lambda each: os.ftruncate(each, size))

    def change(self, fd: int, name: str, mode: int) -> None:
        """Change a range."""
        offset, length = self.range()
        self.note(name, mode, offset, length)
        self.both(fd, lambda each: fallocate(each, mode, offset, length))
        assert os.fstat(fd).st_size == self.size(), "\n".join(self.log)

    def allocate(self, fd: int) -> None:
        """Take space."""
        self.change(fd, "allocate", self.rng.choice([0, KEEP_SIZE]))

    def punch(self, fd: int) -> None:
        """Make a hole."""
        self.change(fd, "punch", PUNCH_HOLE | KEEP_SIZE)

    def zero(self, fd: int) -> None:
        """Zero a range."""
        self.change(fd, "zero", ZERO_RANGE | self.rng.choice([0, KEEP_SIZE]))

    def copy(self, fd: int) -> None:
        """Copy a range to another place of the file."""
        (offset, length), (to, _) = self.range(), self.range()
        if abs(offset - to) < length:
            return
        self.note("copy", offset, length, to)
        # The kernel copies what it believes to be in the file: a stat tells it what other hosts have added.
        os.fstat(fd)
        self.both(fd, lambda each: copy_all(each, offset, length, to))

    def seek(self, fd: int) -> None:
        """Compare what is said to be no data with zeros."""
        offset, size = self.rng.randrange(FILE_BYTES), self.size()
        self.note("seek", offset)
        if offset >= size:
            self.both(fd, lambda each: os.lseek(each, offset, os.SEEK_DATA))
            return
        data = find(fd, offset, os.SEEK_DATA)
        data = size if data is None else data
        assert offset <= data <= size, "\n".join(self.log)
        skipped = os.pread(self.plain, data - offset, offset)
        self.compare(bytes(len(skipped)), skipped, offset)
        assert offset <= os.lseek(fd, offset, os.SEEK_HOLE) <= size

    def sync(self, fd: int) -> None:
        """Make it durable."""
        self.note("sync")
        os.fsync(fd)


def copy_all(fd: int, offset: int, length: int, to: int) -> int:
    """Copy until there is nothing left."""
    done = 0
    while done < length:
        count = os.copy_file_range(fd, fd, length - done, offset + done, to + done)
        if count == 0:
            break
        done += count
    return done


@pytest.mark.parametrize("is_direct", [False, True], ids=["buffered", "direct"])
@pytest.mark.parametrize("hosts", [1, 2], ids=["one-mount", "two-mounts"])
def test_a_random_sequence_leaves_the_file_that_a_plain_one_is(
    mounts: tuple[Facility, Path, Path], tmp_path: Path, hosts: int, is_direct: bool
) -> None:
    _, *both = mounts
    name = f"twin-{hosts}-{is_direct}"
    # Each half as long, so that all four take as long as one of them would.
    count = max(1, OPERATIONS // 4)
    twin = Twin((both[0] / name, both[hosts - 1] / name), tmp_path / "plain", SEED, is_direct)
    try:
        for _ in range(count):
            twin.step()
    finally:
        twin.close()
    for mount in both:
        assert (mount / name).read_bytes() == (tmp_path / "plain").read_bytes()


# What fsx does: calls only, mapped memory only, and everything that it knows.
CALLS = "mapread = 0\nmapwrite = 0\nfsync = 0.2\nposix_fallocate = 1\npunch_hole = 1\ncopy_file_range = 1\n"
MAPPED = "read = 0\nwrite = 0\nmapread = 2\nmapwrite = 2\n"
ALL = "close_open = 0.5\nfdatasync = 0.2\nsendfile = 1\nposix_fallocate = 1\npunch_hole = 1\ncopy_file_range = 1\n"


def fsx() -> str:
    """Find it: where `make need-test` puts it, or on the search path."""
    own = Path(__file__).parents[1] / "target" / "tools" / "bin" / "fsx"
    found = str(own) if own.exists() else shutil.which("fsx")
    if found is None:
        pytest.skip("fsx is missing: `make need-test` installs it")
    return found


@pytest.mark.parametrize("weights", [CALLS, MAPPED, ALL], ids=["calls", "mapped", "all"])
def test_fsx_finds_nothing(mounts: tuple[Facility, Path, Path], tmp_path: Path, weights: str) -> None:
    tool = fsx()
    (tmp_path / "fsx.toml").write_text(f"[weights]\n{weights}")
    count = str(max(1, OPERATIONS // 10))
    command = [tool, "-N", count, "-S", str(SEED), "-f", "fsx.toml", "-P", ".", str(mounts[1] / "fsx")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE + OPERATIONS // 10)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
