"""C and FORTRAN programs with remote files: compiled as a user compiles them, run on a facility and on this host."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import backplane
from clients import DEADLINE, Outcome, adler32, adler32_of, fails, make_bytes, need, run, write_file
from conftest import SMALL, MakeFacility, one_facility
from facility import OWNER, Facility, binaries, free_ports
from kit import SOURCES, Kit, lay_out


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """Lay the library out as an installer does."""
    return lay_out(tmp_path_factory.mktemp("kit"))


@pytest.fixture(scope="module")
def checks(kit: Kit) -> Path:
    """Compile the checks."""
    return kit.c(SOURCES / "tests" / "checks.c", "-pthread")


@pytest.fixture(scope="module")
def copy(kit: Kit) -> Path:
    """Compile the example that copies."""
    return kit.c(SOURCES / "examples" / "copy.c")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Start a facility for all tests that do not stop it."""
    with one_facility(tmp_path_factory.mktemp("capi") / "facility", **SMALL) as facility:
        facility.up()
        yield facility


def environment(facility: Facility) -> dict[str, str]:
    """Tell programs where the library and the facility are."""
    return {"LD_LIBRARY_PATH": str(binaries()), "BP_FACILITY": str(facility.directory), "USER": OWNER}


def on(facility: Facility, *words: str | Path) -> Outcome:
    """Run a program."""
    return run(*words, env=environment(facility))


@contextmanager
def paused(facility: Facility, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program up to where it waits for a line."""
    env = {**os.environ, **environment(facility)}
    pipe = subprocess.PIPE
    argv = [str(word) for word in words]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n", program.communicate(timeout=DEADLINE)
            yield program
        finally:
            program.kill()


def go_on(program: subprocess.Popen[str]) -> list[str]:
    """Send the line, and wait for the end."""
    out, err = program.communicate("go on\n", timeout=DEADLINE)
    assert program.returncode == 0, err
    return out.splitlines()


def test_one_program_copies_everywhere(served: Facility, copy: Path, sample: Path, tmp_path: Path) -> None:
    places = [served.url("/copied"), "bp:/again", str(tmp_path / "back")]
    source = str(sample)
    for place in places:
        assert on(served, copy, source, place).out == f"1234567 bytes, adler32 {adler32_of(sample)}\n"
        source = place
    assert (tmp_path / "back").read_bytes() == sample.read_bytes()
    assert served.read("/copied") == served.read("/again") == sample.read_bytes()


def test_other_clients_see_the_same_bytes(served: Facility, copy: Path, tmp_path: Path) -> None:
    need("xrdcp", "xrdfs")
    big = write_file(tmp_path / "big", (33 << 20) + 5, seed=3)
    on(served, copy, big, served.url("/big"))
    run("xrdcp", "-s", served.url("/big"), tmp_path / "back")
    digests = [hashlib.md5(path.read_bytes()).hexdigest() for path in (big, tmp_path / "back")]
    assert digests[0] == digests[1]
    assert adler32_of(big) in run("xrdfs", served.root, "query", "checksum", "/big").out
    run("xrdcp", "-s", big, served.url("/theirs"))
    on(served, copy, served.url("/theirs"), tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == big.read_bytes()


def test_the_static_library_is_enough(served: Facility, kit: Kit, sample: Path, tmp_path: Path) -> None:
    program = kit.c(SOURCES / "examples" / "copy.c", is_static=True)
    assert "libbackplane" not in run("ldd", program).out
    served.put(sample, "/static")
    on(served, program, served.url("/static"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == sample.read_bytes()


def test_the_header_is_good_c_and_cplusplus(kit: Kit, tmp_path: Path) -> None:
    need("gcc", "g++")
    source = tmp_path / "only.c"
    source.write_text("#include <backplane/rfio.h>\n")
    for language in ("c", "c++"):
        run("gcc", "-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "-o", tmp_path / "only.o",
            *kit.flags("--cflags"), source)  # fmt: skip


@pytest.mark.parametrize("place", ["bp:/", "root", "local"])
def test_every_call_does_what_posix_says(served: Facility, checks: Path, tmp_path: Path, place: str) -> None:
    directory = {"bp:/": "bp:/", "root": served.url("/"), "local": str(tmp_path)}[place]
    on(served, checks, "posix", directory)


def test_files_that_are_changed_in_place(served: Facility, checks: Path) -> None:
    on(served, checks, "shared", "bp:/")


def test_counts_of_three_languages_add_up(served: Facility, kit: Kit, checks: Path) -> None:
    fortran = kit.fortran(SOURCES / "examples" / "count.f90")
    served.put_bytes(b"0", "/text-counter")
    served.put_bytes(struct.pack("=i", 0), "/counter")
    env = {**os.environ, **environment(served)}
    programs = [(checks, "count", "bp:/text-counter", "40")] * 2 + [(fortran, "bp:/counter", "40")] * 2
    started = [subprocess.Popen([str(word) for word in words], env=env) for words in programs]
    client = backplane.connect(served.directory)
    for _ in range(20):
        with client.open_shared("/text-counter") as file, file.locked():
            file.write_at(0, b"%d" % (int(file.read_at(0)) + 1))
    assert [one.wait(DEADLINE) for one in started] == [0] * len(started)
    assert served.read("/text-counter") == b"100"
    assert struct.unpack("=i", served.read("/counter")) == (80,)


def test_records_are_summed(served: Facility, kit: Kit, sample: Path) -> None:
    events = kit.c(SOURCES / "examples" / "events.c")
    served.put(sample, "/events")
    data = sample.read_bytes()
    for size, step in ((1000, 7), (4096, 1), (100_000, 3)):
        records = [data[at : at + size] for at in range(0, len(data) - size + 1, size * step)]
        total = sum(map(sum, records))
        for place in (served.url("/events"), str(sample)):
            out = on(served, events, place, str(size), str(step)).out
            assert out == f"{len(records)} records, sums {total} and {total}\n"


def test_fortran_writes_numbers_and_reads_them_back(served: Facility, kit: Kit, tmp_path: Path) -> None:
    program = kit.fortran(SOURCES / "examples" / "copy.f90")
    local = tmp_path / "numbers"
    for place in (served.url("/numbers"), str(local)):
        out = on(served, program, place, "100000").out
        assert out == f"100000 numbers, adler32 {adler32(served.read('/numbers'))}\n"
    numbers = struct.unpack("=100000d", served.read("/numbers"))
    assert numbers[3] == 2.0
    assert local.read_bytes() == served.read("/numbers")
    refused = fails(program, served.url("/numbers/such/numbers"), "10", env=environment(served))
    assert "copy: open root://" in refused.err
    assert "/numbers/such" in refused.err


def test_threads_share_a_descriptor(served: Facility, checks: Path, sample: Path) -> None:
    served.put(sample, "/shared")
    on(served, checks, "threads", served.url("/shared"))
    on(served, checks, "threads", sample)


def test_a_child_reads_on_and_writes_nothing(served: Facility, checks: Path, tmp_path: Path) -> None:
    served.put(write_file(tmp_path / "file", 8 << 20, seed=5), "/forked")
    on(served, checks, "fork", served.url("/forked"), served.url("/by-parent"))
    assert served.read("/by-parent") == b"parent only"


def test_appending_goes_to_the_end(served: Facility, checks: Path) -> None:
    for text in ("one ", "two ", "three"):
        on(served, checks, "append", "bp:/appended", text)
    assert served.read("/appended") == b"one two three"


def test_what_is_not_closed_is_not_there(served: Facility, checks: Path) -> None:
    on(served, checks, "unclosed", served.url("/unclosed"))

    def is_given_up() -> bool:
        number, text = on(served, checks, "refused", served.url("/unclosed")).out.splitlines()[:2]
        assert "/unclosed" in text
        # Until the server has noticed, somebody writes the file.
        assert int(number) in (errno.ENOENT, errno.EBUSY)
        return int(number) == errno.ENOENT

    served.wait_until("the file is given up", is_given_up)


def test_failures_say_what_and_where(served: Facility, checks: Path) -> None:
    missing = on(served, checks, "refused", served.url("/missing"))
    number, text = missing.out.splitlines()[:2]
    server = served.root.removeprefix("root://")
    assert int(number) == errno.ENOENT
    assert text.startswith(f"open root://{server}//missing: ")
    assert missing.err.splitlines()[0] == f"checks: {text}"
    (port,) = free_ports(1)
    number, text, hint = on(served, checks, "refused", f"root://127.0.0.1:{port}//x").out.splitlines()
    assert int(number) == errno.ECONNREFUSED
    assert f"127.0.0.1:{port}" in text
    assert hint.startswith("hint: check host and port")
    number, text = on(served, checks, "refused", "/no/such/file").out.splitlines()
    assert int(number) == errno.ENOENT
    assert text.startswith("open /no/such/file: ")
    env = {**environment(served), "BP_FACILITY": ""}
    number, text, hint = run(checks, "refused", "bp:/x", env=env).out.splitlines()
    assert int(number) == errno.EINVAL
    assert "BP_FACILITY" in hint


def test_a_writer_whose_server_dies_is_told(make_facility: MakeFacility, checks: Path) -> None:
    facility = make_facility()
    facility.up()
    with paused(facility, checks, "gone", facility.url("/gone")) as program:
        facility.kill()
        number, text, hint = go_on(program)
    lost = (errno.ECONNRESET, errno.ECONNREFUSED, errno.EHOSTUNREACH)
    assert int(number) in lost, text
    assert "//gone" in text
    assert "write the file again" in hint
    facility.up()
    assert facility.bp("stat", "/gone", check=False).code != 0


def test_a_reader_goes_on_when_its_server_is_back(make_facility: MakeFacility, checks: Path) -> None:
    facility = make_facility()
    facility.keep_ports()
    facility.up()
    data = make_bytes(3_000_000, 9)
    facility.put_bytes(data, "/patient")
    with paused(facility, checks, "patient", facility.url("/patient")) as program:
        facility.kill()
        facility.up()
        assert go_on(program) == [str(sum(data))]
