"""Checks that need the XRootD Python bindings: `PYTHON bindings.py CHECK URL DIRECTORY FILE`.

DIRECTORY of the server at URL has a file `big` with the bytes of the local FILE. Runs under the interpreter that has
the bindings, which need not be the one of the tests.
"""

import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from XRootD import client
from XRootD.client.flags import DirListFlags, MkDirFlags, OpenFlags, QueryCode

ATTRIBUTE_NOT_FOUND = 3027

CHECKS: dict[str, Callable[["Place"], None]] = {}


class Place:
    """Where the check may do what it wants."""

    def __init__(self, url: str, directory: str, file: str) -> None:
        self.url = url
        self.directory = directory
        self.bytes = Path(file).read_bytes()

    def path(self, name: str) -> str:
        """Write a path."""
        return f"{self.directory}/{name}"

    def open(self, name: str = "big", flags: int = OpenFlags.READ) -> "client.File":
        """Open a file, which must succeed."""
        file = client.File()
        ok(file.open(f"{self.url}/{self.path(name)}", flags))
        return file

    def system(self) -> "client.FileSystem":
        """Make what changes names."""
        return client.FileSystem(self.url)


def ok(result: tuple) -> object:
    """Take the answer of a call that must succeed."""
    status, answer = result
    assert status.ok, status.message
    return answer


def refused(result: tuple) -> str:
    """Take the message of a call that must not succeed."""
    status, _ = result
    assert not status.ok, "must be refused"
    return f"[{status.errno}] {status.message}"


def check(function: Callable[[Place], None]) -> Callable[[Place], None]:
    """Make a function callable by its name."""
    CHECKS[function.__name__] = function
    return function


def vector(place: Place, chunks: list[tuple[int, int]]) -> None:
    """Read a vector and compare it."""
    file = place.open()
    answer = ok(file.vector_read(chunks))
    assert [(chunk.offset, chunk.length) for chunk in answer.chunks] == chunks
    for chunk, (offset, length) in zip(answer.chunks, chunks, strict=True):
        assert bytes(chunk.buffer) == place.bytes[offset : offset + length], offset
    ok(file.close())


@check
def vector_of_1024(place: Place) -> None:
    rng = random.Random(1)
    vector(place, [(rng.randrange(0, len(place.bytes) - 4096), 4096) for _ in range(1024)])


@check
def vector_of_many_sizes(place: Place) -> None:
    size = len(place.bytes)
    vector(place, [(0, 1), (5, 7), (4095, 2), (size - 1, 1), (100_000, 1 << 20), (2_000_000, 4097)])


@check
def vector_with_overlap(place: Place) -> None:
    vector(place, [(10, 100), (50, 100)])


@check
def vector_of_one_byte(place: Place) -> None:
    vector(place, [(0, 1)])


@check
def vector_of_the_longest_elements(place: Place) -> None:
    longest = (2 << 20) - 16
    vector(place, [(0, longest), (longest, longest), (7, longest)])


@check
def vector_past_the_end_is_refused(place: Place) -> None:
    file = place.open()
    refused(file.vector_read([(len(place.bytes) - 10, 4096)]))
    assert ok(file.read(0, 10)) == place.bytes[:10], "the handle is dead after a refused vector"


@check
def vector_too_large_is_refused(place: Place) -> None:
    refused(place.open().vector_read([(0, 1 << 29)] * 64))
    assert ok(place.open().read(0, 10)) == place.bytes[:10]


@check
def read_at_the_end(place: Place) -> None:
    file = place.open()
    assert ok(file.read(len(place.bytes) - 5, 100)) == place.bytes[-5:]
    assert ok(file.read(len(place.bytes), 100)) == b""
    assert ok(file.read(len(place.bytes) + 1000, 100)) == b""


@check
def read_all_at_once(place: Place) -> None:
    assert ok(place.open().read(0, len(place.bytes))) == place.bytes


@check
def read_without_a_size(place: Place) -> None:
    assert ok(place.open().read()) == place.bytes


@check
def read_64_in_flight(place: Place) -> None:
    file, rng, wrong = place.open(), random.Random(2), []
    slots = threading.Semaphore(64)

    def compare(offset: int) -> Callable:
        def arrived(status: object, data: bytes, _: object) -> None:
            if not status.ok or data != place.bytes[offset : offset + 4096]:
                wrong.append(offset)
            slots.release()

        return arrived

    for _ in range(2000):
        assert slots.acquire(timeout=30)
        offset = rng.randrange(0, len(place.bytes) - 4096)
        file.read(offset, 4096, callback=compare(offset))
    for _ in range(64):
        assert slots.acquire(timeout=30)
    assert not wrong, wrong[:3]


@check
def read_300_files_at_once(place: Place) -> None:
    files = [place.open() for _ in range(300)]
    for number, file in enumerate(files):
        assert ok(file.read(number * 1000, 100)) == place.bytes[number * 1000 : number * 1000 + 100]
    for file in files:
        ok(file.close())


@check
def lines_of_a_file(place: Place) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(1000))
    file = place.open("lines", OpenFlags.DELETE | OpenFlags.UPDATE)
    ok(file.write(lines))
    ok(file.close())
    read = place.open("lines")
    assert "".join(read) == lines.decode()


@check
def write_and_read_one_handle(place: Place) -> None:
    file = place.open("rw", OpenFlags.DELETE | OpenFlags.UPDATE)
    ok(file.write(b"hello world", 0))
    ok(file.write(b"XYZ", 1 << 20))
    ok(file.sync())
    assert ok(file.stat(force=True)).size == (1 << 20) + 3
    assert ok(file.read(0, 11)) == b"hello world"
    assert ok(file.read(11, 5)) == bytes(5), "a hole"
    ok(file.truncate(5))
    ok(file.close())


@check
def update_in_place(place: Place) -> None:
    file = place.open("up", OpenFlags.DELETE | OpenFlags.UPDATE)
    ok(file.write(b"0123456789" * 1000, 0))
    ok(file.close())
    file = place.open("up", OpenFlags.UPDATE)
    assert ok(file.read(0, 10)) == b"0123456789"
    ok(file.write(b"abc", 5000))
    ok(file.close())


@check
def write_to_a_reader_is_refused(place: Place) -> None:
    refused(place.open().write(b"x", 0))


@check
def new_on_an_existing_file_is_refused(place: Place) -> None:
    message = refused(client.File().open(f"{place.url}/{place.path('big')}", OpenFlags.NEW | OpenFlags.WRITE))
    assert "3018" in message or "xist" in message, message


@check
def open_of_a_missing_file_is_refused(place: Place) -> None:
    assert "3011" in refused(client.File().open(f"{place.url}/{place.path('nosuch')}", OpenFlags.READ))


@check
def list_with_stat(place: Place) -> None:
    listed = ok(place.system().dirlist(place.directory, DirListFlags.STAT))
    assert {entry.name: entry.statinfo.size for entry in listed}["big"] == len(place.bytes)


@check
def five_thousand_directories(place: Place) -> None:
    """Make and list them, with 500 requests under way at a time."""
    system, slots, wrong = place.system(), threading.Semaphore(500), []
    ok(system.mkdir(place.path("many"), MkDirFlags.MAKEPATH))

    def made(status: object, *_: object) -> None:
        if not status.ok:
            wrong.append(status.message)
        slots.release()

    names = [f"a-rather-long-directory-name-{number:06}" for number in range(5000)]
    for name in names:
        assert slots.acquire(timeout=30)
        system.mkdir(place.path(f"many/{name}"), callback=made)
    for _ in range(500):
        assert slots.acquire(timeout=30)
    assert not wrong, wrong[:3]
    for flags in (0, DirListFlags.STAT):
        assert sorted(entry.name for entry in ok(system.dirlist(place.path("many"), flags))) == names


@check
def attributes(place: Place) -> None:
    system, path = place.system(), place.path("big")
    for name, status in ok(system.set_xattr(path, [("colour", "green"), ("shape", "round")])):
        assert status["ok"], (name, status)
    answer = ok(system.get_xattr(path, ["colour", "shape", "nosuch"]))
    found = {name: value for name, value, status in answer if status["ok"]}
    assert found == {"colour": "green", "shape": "round"}
    listed = {name for name, *_ in ok(system.list_xattr(path))}
    assert listed >= {"colour", "shape"}
    for name, status in ok(system.del_xattr(path, ["colour"])):
        assert status["ok"], (name, status)
    assert {name for name, *_ in ok(system.list_xattr(path))} & {"colour", "shape"} == {"shape"}
    for _, status in ok(system.del_xattr(path, ["colour"])):
        # Some servers are content when it is gone already.
        assert status["ok"] or status["errno"] == ATTRIBUTE_NOT_FOUND, status


@check
def attributes_of_an_open_file(place: Place) -> None:
    file = place.open("big", OpenFlags.UPDATE)
    for name, status in ok(file.set_xattr([("run", "42")])):
        assert status["ok"], (name, status)
    assert [value for _, value, status in ok(file.get_xattr(["run"])) if status["ok"]] == ["42"]
    ok(file.close())


@check
def queries(place: Place) -> None:
    system = place.system()
    for code, argument in (
        (QueryCode.CONFIG, "version"),
        (QueryCode.SPACE, "/"),
        (QueryCode.STATS, "a"),
        (QueryCode.CHECKSUM, place.path("big")),
    ):
        assert ok(system.query(code, argument))
    ok(system.ping())
    ok(system.protocol())
    ok(system.statvfs("/"))


@check
def one_copy_process(place: Place) -> None:
    process = client.CopyProcess()
    for number in range(5):
        source = f"{place.url}/{place.path('big')}"
        process.add_job(source, f"{place.url}/{place.path(f'copy{number}')}", force=True)
    status = process.prepare()
    assert status.ok, status.message
    status, results = process.run()
    assert status.ok, status.message
    assert all(result["status"].ok for result in results)


if __name__ == "__main__":
    CHECKS[sys.argv[1]](Place(*sys.argv[2:5]))
