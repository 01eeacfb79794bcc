"""What `make install` puts where, for people and for packages."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from facility import binaries

TOP = Path(__file__).parent.parent


def install(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Install what is tested below a directory."""
    env = {**os.environ, "BIN": str(binaries()), "BP_FACILITY": "/nowhere"}
    command = ["make", "--no-print-directory", "install", f"DESTDIR={root}", *words]
    return subprocess.run(command, cwd=TOP, env=env, capture_output=True, text=True, check=False)


def test_programs_pages_completions_and_the_unit_are_installed(tmp_path: Path) -> None:
    """A packager finds all of it below DESTDIR, readable for all, and nothing elsewhere."""
    done = install(tmp_path, "PREFIX=/opt/bp")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["opt"]
    place = tmp_path / "opt/bp"
    for program in ("bp", "bpd"):
        assert (place / "bin" / program).stat().st_mode & 0o777 == 0o755
    pages = {page.name for page in (place / "share/man/man1").iterdir()}
    assert {"bp.1", "bp-get.1", "bp-pool-list.1"} <= pages
    completions = [
        "bash-completion/completions/bp",
        "zsh/site-functions/_bp",
        "fish/vendor_completions.d/bp.fish",
    ]
    for completion in completions:
        file = place / "share" / completion
        assert file.stat().st_mode & 0o777 == 0o644
        assert "submit" in file.read_text()
    unit = (place / "lib/systemd/system/bpd@.service").read_text()
    assert "ExecStart=/opt/bp/bin/bpd run" in unit
    assert "/usr/bin" not in unit
    unit = (place / "lib/systemd/system/backplane-mount@.service").read_text()
    assert "ExecStart=/opt/bp/bin/bp --facility" in unit
    assert "/usr/bin" not in unit
    assert (place / "sbin/mount.backplane").resolve() == place / "bin/bp"


def test_the_default_is_usr_local(tmp_path: Path) -> None:
    """As everywhere."""
    assert install(tmp_path).returncode == 0
    assert (tmp_path / "usr/local/bin/bp").is_file()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """Nothing is installed by halves."""
    done = subprocess.run(
        [TOP / "scripts/install"],
        cwd=TOP,
        env={**os.environ, "BIN": str(tmp_path), "DESTDIR": str(tmp_path / "root")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "make build" in done.stderr
    assert not (tmp_path / "root").exists()
