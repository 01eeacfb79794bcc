"""A server with two doors to the same names: what came in by one is looked at through the other."""

from __future__ import annotations

import http.client
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from clients import DEADLINE, Outcome, fails, run
from facility import Facility

DAV = "{DAV:}"


@dataclass(frozen=True)
class Server:
    """What is under test.

    Parameters
    ----------
    root
        Its first door, `root://host:port`.
    http
        Its second door, `http://host:port`.
    home
        A directory in which names may be made.
    facility
        Set if it is ours; the few checks that need it are skipped on others.
    trust
        Directory with the authority of its certificate, if it speaks TLS.
    """

    root: str
    http: str
    home: str
    facility: Facility | None = None
    trust: Path | None = None

    # First door, by the field's programs

    def url(self, path: str) -> str:
        """Write the URL of a path."""
        return f"{self.root}/{path}"

    def fs(self, *words: str) -> str:
        """Run xrdfs, which must succeed; returns what it prints."""
        return run("xrdfs", self.root, *words).out

    def fs_fails(self, *words: str) -> str:
        """Run xrdfs, which must be refused; returns what it says."""
        return fails("xrdfs", self.root, *words).text

    def put(self, local: Path, path: str, *options: str, **env: str) -> Outcome:
        """Copy in."""
        return run("xrdcp", "-s", *options, local, self.url(path), env=env)

    def get(self, path: str, local: Path, *options: str, **env: str) -> Outcome:
        """Copy out."""
        return run("xrdcp", "-s", "-f", *options, self.url(path), local, env=env)

    # Second door

    @contextmanager
    def ask(
        self, method: str, path: str, body: Path | bytes = b"", **headers: str
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request to the second door."""
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.http).netloc, timeout=DEADLINE)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            if isinstance(body, Path):
                names["Content-Length"] = str(body.stat().st_size)
                with body.open("rb") as file:
                    connection.request(method, urllib.parse.quote(path), file, names)
            else:
                connection.request(method, urllib.parse.quote(path), body or None, names)
            yield connection.getresponse()
        finally:
            connection.close()

    def seed(self, body: Path | bytes, path: str) -> str:
        """Make a file through the second door; returns its path."""
        if isinstance(body, bytes):
            # A body of no bytes is sent as such.
            with self.ask("PUT", path, body, Content_Length=str(len(body))) as answer:
                assert answer.status in (200, 201, 204), f"PUT {path}: {answer.status}"
        else:
            with self.ask("PUT", path, body) as answer:
                assert answer.status in (200, 201, 204), f"PUT {path}: {answer.status}"
        return path

    def read(self, path: str) -> bytes:
        """Read a whole file through the second door."""
        with self.ask("GET", path) as answer:
            assert answer.status == 200, f"GET {path}: {answer.status}"
            return answer.read()

    def holds(self, path: str, local: Path) -> bool:
        """Tell whether a file, seen through the second door, has the bytes of a local one."""
        with self.ask("GET", path) as answer, local.open("rb") as file:
            if answer.status != 200:
                return False
            while expected := file.read(1 << 20):
                if answer.read(len(expected)) != expected:
                    return False
            return answer.read(1) == b""

    def size(self, path: str) -> int | None:
        """Tell the size of a file through the second door; None if there is no such name."""
        with self.ask("HEAD", path) as answer:
            if answer.status == 404:
                return None
            assert answer.status == 200, f"HEAD {path}: {answer.status}"
            return int(answer.getheader("Content-Length") or 0)

    def exists(self, path: str) -> bool:
        """Tell whether there is such a name, through the second door."""
        return bool(self.properties(path, 0))

    def properties(self, path: str, depth: int) -> dict[str, bool]:
        """List names through the second door, and whether each is a directory; empty if there is no such name."""
        with self.ask("PROPFIND", path, Depth=str(depth)) as answer:
            text = answer.read()
            if answer.status == 404:
                return {}
            assert answer.status == 207, f"PROPFIND {path}: {answer.status}"
        found = {}
        for response in ET.fromstring(text).iter(f"{DAV}response"):
            href = urllib.parse.unquote(urllib.parse.urlsplit(response.findtext(f"{DAV}href") or "").path)
            found[PurePosixPath(href).as_posix()] = response.find(f".//{DAV}collection") is not None
        return found

    def names(self, path: str) -> list[str]:
        """List what is in a directory through the second door."""
        return sorted(PurePosixPath(name).name for name in self.properties(path, 1) if name != path)

    def mode(self, path: str) -> int:
        """Tell the permissions of a path; the HTTP door of others does not show them, their xrdfs does."""
        if self.facility:
            return int(self.facility.stat(path)["mode"])
        (line,) = (line for line in self.fs("stat", path).splitlines() if line.startswith("Mode:"))
        return int(line.split()[1], 8)
