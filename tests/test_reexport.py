"""A mount that other servers offer on: SMB by Samba, NFS by Ganesha, read and written by their own clients."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from clients import DEADLINE, make_bytes, need, run
from facility import Facility, free_ports
from mounting import mounted, need_mounts

DOCS = Path(__file__).parent.parent / "docs" / "reexport.md"


@pytest.fixture
def mount(facility: Facility, tmp_path: Path) -> Iterator[Path]:
    """Mount a facility for all users of the host: the servers act for others."""
    need_mounts()
    with mounted(facility, tmp_path / "mnt", "--allow-other") as place:
        yield place


def recipe(heading: str, place: Path, port: int, state: Path) -> str:
    """Read the configuration below a heading of the page, with what this test has in place of what the page has."""
    section = DOCS.read_text().split(f"## {heading}\n", 1)[1]
    text = section.split("```text\n", 1)[1].split("```", 1)[0]
    text, count = re.subn(r"(smb ports|NFS_Port) = \d+", rf"\1 = {port}", text)
    assert (count, "/mnt/data" in text, "/var/lib/reexport" in text) == (1, True, True)
    return text.replace("/mnt/data", str(place)).replace("/var/lib/reexport", str(state))


@contextmanager
def server(facility: Facility, port: int, log: Path, *command: object) -> Iterator[None]:
    """Run a server until it is not needed any more."""
    with log.open("wb") as out:
        words = [str(word) for word in command]
        process = subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True)
    try:
        facility.wait_until(f"{words[0]} answers", lambda: is_listening(port))
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(DEADLINE)
        process.kill()
        process.wait()


def is_listening(port: int) -> bool:
    """Tell whether somebody listens on a port."""
    lines = Path("/proc/net/tcp").read_text().splitlines() + Path("/proc/net/tcp6").read_text().splitlines()
    sockets = [line.split() for line in lines if line.split()[3] == "0A"]
    return any(socket[1].endswith(f":{port:04X}") for socket in sockets)


def test_samba_offers_a_mount(facility: Facility, mount: Path, tmp_path: Path) -> None:
    need("smbd", "smbclient")
    [port] = free_ports(1)
    state = tmp_path / "samba"
    state.mkdir()
    (tmp_path / "smb.conf").write_text(recipe("SMB with Samba", place=mount, port=port, state=state))
    sent, data = tmp_path / "sent", make_bytes(3_000_000, 1)
    sent.write_bytes(data)
    (mount / "greeting").write_text("hello")
    smbd = shutil.which("smbd")
    command = [smbd, "--foreground", "--no-process-group", "-s", tmp_path / "smb.conf"]
    with server(facility, port, tmp_path / "smbd.log", *command):

        def client(orders: str) -> str:
            words = ["smbclient", "-N", "-p", str(port), "//127.0.0.1/data", "-c", orders]
            return run(*words, deadline=DEADLINE).text

        client(f"get greeting {tmp_path}/got; mkdir new; put {sent} new/sent; rename greeting moved")
        assert (tmp_path / "got").read_text() == "hello"
        assert (mount / "new" / "sent").read_bytes() == facility.read("/new/sent") == data
        # What is changed elsewhere is seen at once.
        facility.put_bytes(b"through a door", "/door")
        assert "door" in client("ls")
        client(f"get door {tmp_path}/got; del moved")
        assert (tmp_path / "got").read_bytes() == b"through a door"
        assert not (mount / "moved").exists()


class Handle(ctypes.Structure):
    """A file without its name (name_to_handle_at(2)), as servers of NFS keep it."""

    _fields_ = (("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128))


def test_a_handle_holds_after_the_kernel_has_forgotten_the_file(mount: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    (mount / "dir").mkdir()
    file = mount / "dir" / "file"
    file.write_text("text")
    handle, number = Handle(bytes=128), ctypes.c_int()
    path = os.fsencode(file)
    assert libc.name_to_handle_at(-100, path, ctypes.byref(handle), ctypes.byref(number), 0) == 0
    Path("/proc/sys/vm/drop_caches").write_text("2")
    root = os.open(mount, os.O_RDONLY)
    fd = libc.open_by_handle_at(root, ctypes.byref(handle), os.O_RDONLY)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    assert os.read(fd, 10) == b"text"
    os.close(fd)
    os.close(root)


def test_ganesha_offers_a_mount(facility: Facility, mount: Path, tmp_path: Path) -> None:
    need("ganesha.nfsd", "nfs-cp", "nfs-cat", "nfs-ls")
    if not list(Path("/usr/lib").glob("*/ganesha/libfsalvfs.so")):
        pytest.skip("nfs-ganesha-vfs is missing")
    [port] = free_ports(1)
    state = tmp_path / "ganesha"
    state.mkdir()
    (tmp_path / "ganesha.conf").write_text(recipe("NFS with Ganesha", place=mount, port=port, state=state))
    # nfs-cp of Debian 12 writes no more at once by version 4 of the protocol.
    sent, data = tmp_path / "sent", make_bytes(1500, 2)
    sent.write_bytes(data)
    (mount / "greeting").write_text("hello")
    (mount / "dir").mkdir()
    log, pid = tmp_path / "ganesha.log", tmp_path / "ganesha.pid"
    command = ["ganesha.nfsd", "-F", "-f", tmp_path / "ganesha.conf", "-p", pid, "-L", log]

    def url(path: str) -> str:
        return f"nfs://127.0.0.1/data{path}?version=4&nfsport={port}"

    with server(facility, port, tmp_path / "ganesha.out", *command):
        assert run("nfs-cat", url("/greeting"), deadline=DEADLINE).text.startswith("hello")
        run("nfs-cp", sent, url("/dir/sent"), deadline=DEADLINE)
        assert (mount / "dir" / "sent").read_bytes() == facility.read("/dir/sent") == data
        facility.put_bytes(b"through a door", "/door")
        assert "door" in run("nfs-ls", url("/"), deadline=DEADLINE).text
        # The server names files by handles, which hold after the kernel has forgotten them.
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("2")
        run("nfs-cp", url("/dir/sent"), tmp_path / "back", deadline=DEADLINE)
        assert (tmp_path / "back").read_bytes() == data
