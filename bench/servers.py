"""The servers that are compared, each on loopback, over files on the same file system."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .measure import DEADLINE_S, CommandFailedError, run

START_S = 30.0
"""Seconds that a server has to answer."""
REMOVAL_S = 30.0
"""Seconds within which it has to delete what was removed."""
BIG = "/big"
"""Path of the file that is read."""


class NotInstalledError(Exception):
    """A peer is missing; the text says which, and how it is installed or named."""

    word = "not installed"


class NotOfferedError(NotInstalledError):
    """What is installed cannot do it."""

    word = "not offered"


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server: where it is, and how files get in and out.

    Parameters
    ----------
    place
        A directory for its configuration and logs.
    """

    name = ""
    label = ""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.pid: int | None = None
        self.version = ""
        self.command: list[str] = []
        self.root_port = 0
        self.http_port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def put(self, local: Path, path: str) -> None:
        """Give it a file, outside any measurement."""
        raise NotImplementedError

    def remove(self, path: str) -> None:
        """Remove a file, outside any measurement."""
        raise NotImplementedError

    def adler32(self, path: str) -> str:
        """Read back what it stored and sum it: eight hexadecimal digits."""
        raise NotImplementedError

    def root_url(self, path: str) -> str:
        """Write the root:// URL of a path."""
        return f"root://localhost:{self.root_port}/{path}"

    def _spawn(self, port: int, env: Mapping[str, str] | None = None) -> None:
        environment = {**os.environ, **(env or {})}
        with (self.place / f"{self.name}.out").open("wb") as log:
            self._process = subprocess.Popen(
                self.command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=environment
            )
        self.pid = self._process.pid
        end = time.monotonic() + START_S
        while time.monotonic() < end and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.05)
        said = (self.place / f"{self.name}.out").read_text(errors="replace")[-500:]
        raise CommandFailedError(f"{' '.join(self.command)} does not answer: {said}")


class TreeServer(Server):
    """A server that exports a directory as it is."""

    def __init__(self, place: Path, tree: Path) -> None:
        super().__init__(place)
        self.tree = tree

    def put(self, local: Path, path: str) -> None:
        """Link the file into the directory; all servers of this kind share it."""
        target = self.tree / path.lstrip("/")
        if not target.exists():
            os.link(local, target)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        (self.tree / path.lstrip("/")).unlink(missing_ok=True)

    def adler32(self, path: str) -> str:
        """Sum the file in the directory."""
        return adler32_of(self.tree / path.lstrip("/"))


class Backplane(Server):
    """Our own server: a facility whose partition lies on the file system of the others."""

    name = "backplane"
    label = "Backplane"

    def __init__(self, place: Path, binaries: Path, data: Path, is_direct: bool = False) -> None:
        super().__init__(place)
        self.bin = binaries
        self.data = data
        self.is_direct = is_direct
        self.directory = place / ("facility-direct" if is_direct else "facility")

    def start(self) -> None:
        """Make a facility, move its partition to the data, start it."""
        for binary in ("bp", "bpd"):
            if not (self.bin / binary).exists():
                raise NotInstalledError(f"{binary} is not in {self.bin}: `make build`")
        self.version = run([str(self.bin / "bpd"), "--version"]).out.split()[-1]
        run([str(self.bin / "bp"), "create", str(self.directory), "--name", "bench"])
        partition = self.data / self.directory.name
        shutil.move(self.directory / "disk", partition)
        (self.directory / "disk").symlink_to(partition)
        # What is removed makes room at once.
        self._configure('retention = "1d"', 'retention = "0s"')
        if self.is_direct:
            self._configure("direct = false", "direct = true")
        self.resume()

    def resume(self) -> None:
        """Start the facility that was made."""
        self.command = [str(self.bin / "bp"), "up", str(self.directory), "--detach", "--root-port=0", "--http-port=0"]
        run(self.command)
        endpoints = json.loads((self.directory / "endpoints.json").read_text())
        self.pid = int(endpoints["pid"])
        self.root_port = int(endpoints["root"].rpartition(":")[2])
        self.http_port = int(endpoints["http"].rpartition(":")[2])

    def _configure(self, before: str, after: str) -> None:
        file = self.directory / "facility.toml"
        text = file.read_text()
        if before not in text:
            raise NotOfferedError(f"this build of bpd has no line `{before}` in facility.toml")
        file.write_text(text.replace(before, after, 1))

    def stop(self) -> None:
        """Stop it as a person does."""
        if self.pid is not None:
            with suppress(CommandFailedError):
                self.bp("down", str(self.directory))
            self.pid = None

    def bp(self, *words: str, deadline_s: float = DEADLINE_S) -> str:
        """Run `bp` on the facility."""
        return run([str(self.bin / "bp"), "-f", str(self.directory), *words], deadline_s=deadline_s).out

    def put(self, local: Path, path: str) -> None:
        """Copy a file in."""
        self.bp("put", str(local), path)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there; its room is not given back during the next measurement."""
        before = self._objects()
        try:
            self.bp("rm", path)
        except CommandFailedError:
            return
        deadline = time.monotonic() + REMOVAL_S
        while self._objects() >= before:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} has not deleted what {path} was: look into {self.directory}/log")
            time.sleep(0.01)

    def _objects(self) -> int:
        return sum(1 for file in (self.data / self.directory.name).glob("*/objects/*/*") if not file.suffix)

    def adler32(self, path: str) -> str:
        """Tell the checksum that the server took while the file came in."""
        stat = json.loads(self.bp("--json", "stat", path).splitlines()[0])
        return str(stat["checksums"]["adler32"])


class Xrootd(TreeServer):
    """An XRootD server: Debian's, or one under a prefix."""

    def __init__(self, place: Path, tree: Path, name: str, binary: Path | None) -> None:
        super().__init__(place, tree)
        self.name = name
        self.label = name
        self.binary = binary

    def start(self) -> None:
        """Start it as an anonymous data server with its defaults."""
        if self.binary is None or not self.binary.exists():
            hint = "the package xrootd-server" if self.name == "xrootd5" else "--xrootd6 DIR or XROOTD6=DIR"
            raise NotInstalledError(f"{self.name} is not installed ({hint})")
        environment = library_path(self.binary)
        probe = subprocess.run(
            [str(self.binary), "-v"], capture_output=True, text=True, env={**os.environ, **environment}, check=False
        )
        self.version = (probe.stdout + probe.stderr).strip().splitlines()[-1].lstrip("v")
        self.label = f"xrootd {self.version}"
        self.root_port = free_port()
        admin = self.place / self.name
        admin.mkdir()
        admin.chmod(0o777)
        configuration = self.place / f"{self.name}.cfg"
        configuration.write_text(
            f"all.export /\noss.localroot {self.tree}\nall.adminpath {admin}\nall.pidpath {admin}\n"
            f"xrd.port {self.root_port}\nxrootd.chksum max 4 adler32\n"
        )
        # The server refuses to work for root.
        user = ["-R", "nobody"] if os.geteuid() == 0 else []
        log = str(admin / "log")
        self.command = [str(self.binary), *user, "-c", str(configuration), "-l", log, "-n", "bench"]
        self._spawn(self.root_port, environment)


class Nginx(TreeServer):
    """nginx with sendfile, as Debian ships it."""

    name = "nginx"
    label = "nginx"

    def start(self) -> None:
        """Start it in the foreground, with as many workers as processors."""
        binary = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        if binary is None:
            raise NotInstalledError("nginx is not installed (the package nginx)")
        probe = subprocess.run([binary, "-v"], capture_output=True, text=True, check=False)
        self.version = probe.stderr.strip().rpartition("/")[2].split()[0]
        self.label = f"nginx {self.version}"
        self.http_port = free_port()
        configuration = self.place / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""
        temporary = "".join(
            f"{kind}_temp_path {self.place}/nginx-{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        configuration.write_text(
            f"{user} worker_processes auto; daemon off; pid {self.place}/nginx.pid; error_log {self.place}/nginx.log;\n"
            f"events {{ worker_connections 4096; }}\n"
            f"http {{ access_log off; sendfile on; tcp_nopush on; {temporary}\n"
            f"server {{ listen 127.0.0.1:{self.http_port}; root {self.tree}; }} }}\n"
        )
        self.command = [binary, "-c", str(configuration), "-p", str(self.place)]
        self._spawn(self.http_port)


class Iperf(Server):
    """iperf3: no files at all, what the network stack of the machine gives."""

    name = "iperf3"
    label = "iperf3"

    def start(self) -> None:
        """Start it."""
        binary = shutil.which("iperf3")
        if binary is None:
            raise NotInstalledError("iperf3 is not installed (the package iperf3)")
        self.version = run([binary, "--version"]).out.split()[1]
        self.label = f"iperf3 {self.version}"
        self.root_port = free_port()
        self.command = [binary, "-s", "-p", str(self.root_port)]
        self._spawn(self.root_port)

    def put(self, local: Path, path: str) -> None:
        """Do nothing: it has no files."""


def library_path(binary: Path) -> dict[str, str]:
    """Make the environment in which a program under a prefix finds its libraries."""
    prefix = binary.parent.parent
    if prefix == Path("/usr"):
        return {}
    known = os.environ.get("LD_LIBRARY_PATH", "")
    return {"LD_LIBRARY_PATH": ":".join(filter(None, [f"{prefix}/lib", f"{prefix}/lib64", known]))}


def adler32_of(path: Path) -> str:
    """Sum a file: eight hexadecimal digits."""
    total = 1
    with path.open("rb") as file:
        while chunk := file.read(4 << 20):
            total = zlib.adler32(chunk, total)
    return f"{total:08x}"
