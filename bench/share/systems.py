"""The file systems that are compared. Each is started and shown at two directories, as two hosts would have it."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from ..measure import CommandFailedError, run
from ..servers import Backplane, NotInstalledError


class System:
    """A file system with two mounts.

    Parameters
    ----------
    place
        A directory of its own on the disk that all systems share.
    """

    name = ""
    label = ""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.version = ""

    def start(self) -> tuple[Path, Path]:
        """Start it; the two directories where it is mounted."""
        raise NotImplementedError

    def stop(self) -> None:
        """Unmount and stop it."""

    def forget(self) -> None:
        """Drop what the host has cached, so that the next reader is a cold one."""
        os.sync()
        with suppress(OSError):
            Path("/proc/sys/vm/drop_caches").write_text("3")

    def _directories(self) -> tuple[Path, Path]:
        first, second = self.place / "a", self.place / "b"
        first.mkdir()
        second.mkdir()
        return first, second


class Local(System):
    """The file system below all others: what there would be without sharing. Both mounts are one directory."""

    name = "local"
    label = "local"

    def start(self) -> tuple[Path, Path]:
        """Make the directory."""
        directory = self.place / "a"
        directory.mkdir()
        return directory, directory


class Mounts(System):
    """A facility of ours on this host, mounted twice."""

    name = "backplane"
    label = "Backplane"

    def __init__(self, place: Path, binaries: Path) -> None:
        super().__init__(place)
        data = place / "data"
        data.mkdir()
        self.server = Backplane(place, binaries, data)

    def start(self) -> tuple[Path, Path]:
        """Start the facility and mount it."""
        if os.getuid() != 0:
            raise NotInstalledError("only root can mount")
        self.server.start()
        self.version = self.server.version
        self.mounts = self._directories()
        for directory in self.mounts:
            self.server.bp("mount", "--log", str(directory.with_suffix(".log")), str(directory))
        return self.mounts

    def stop(self) -> None:
        """Unmount both, stop the facility."""
        for directory in getattr(self, "mounts", ()):
            with suppress(CommandFailedError):
                self.server.bp("umount", "--lazy", str(directory))
        self.server.stop()


class Gluster(System):
    """A volume of GlusterFS with one brick on this host, mounted twice."""

    name = "glusterfs"
    label = "GlusterFS"
    volume = "bench-share"

    def start(self) -> tuple[Path, Path]:
        """Start its daemon, make the volume, mount it."""
        if shutil.which("gluster") is None:
            raise NotInstalledError("GlusterFS is not installed (Debian: glusterfs-server)")
        self.version = run(["gluster", "--version"]).out.split()[1]
        self._daemon = subprocess.Popen(["glusterd", "-N"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        brick = self.place / "brick"
        brick.mkdir()
        self._gluster("volume", "create", self.volume, f"localhost:{brick}", "force")
        self._gluster("volume", "start", self.volume)
        self.mounts = self._directories()
        for directory in self.mounts:
            run(["mount", "-t", "glusterfs", f"localhost:/{self.volume}", str(directory)])
        return self.mounts

    def stop(self) -> None:
        """Unmount both, remove the volume, stop the daemon."""
        for directory in getattr(self, "mounts", ()):
            subprocess.run(["umount", "-l", directory], check=False, stderr=subprocess.DEVNULL)
        with suppress(CommandFailedError):
            self._gluster("volume", "stop", self.volume, "force")
            self._gluster("volume", "delete", self.volume)
        if hasattr(self, "_daemon"):
            self._daemon.terminate()
            self._daemon.wait(30)

    def _gluster(self, *words: str) -> None:
        """Run its command; the daemon may not answer yet."""
        run(["timeout", "60", "sh", "-c", 'until gluster --mode=script "$@"; do sleep 0.5; done', "sh", *words])
