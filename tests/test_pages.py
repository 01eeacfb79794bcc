"""The README and all pages of documentation: what a reader types there works, block by block.

Each page has a facility and a network of its own, so that the ports it names are free.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from clients import need
from facility import binaries
from pages import Block, PageError, comes_out, read, typed

TOP = Path(__file__).resolve().parent.parent
PAGES = ["README.md"]

DEADLINE_S = 300.0

NOT_RUN = {"README.md": 3}
"""How many blocks of a page are marked as not run here: a new one has to be thought about."""


class World:
    """A host with nothing on it, in the middle of the source tree, on a network of its own.

    Parameters
    ----------
    directory
        Where the source tree seems to be.
    network
        A process on that network.
    """

    def __init__(self, directory: Path, network: int) -> None:
        self.directory = directory
        self._network = network
        self._state = directory / ".state"
        self._python: list[str] = []
        home = directory / "home"
        (directory / "target").mkdir(parents=True)
        home.mkdir()
        for place in ("README.md", "demo", "docs", "packaging", "python", "scripts", "Makefile"):
            (directory / place).symlink_to(TOP / place)
        (directory / "target" / "release").symlink_to(binaries())
        paths = [str(Path(sys.executable).parent), str(binaries()), os.environ["PATH"]]
        self._environment = {
            "HOME": str(home), "PATH": ":".join(paths), "LANG": "C.UTF-8", "MPLCONFIGDIR": str(home),
            "STATE": str(self._state), "XRD_LOGLEVEL": "Error",
        }  # fmt: skip
        self._state.write_text(f"cd {directory}\n")

    def shell(self, lines: str) -> str:
        """Run lines of shell after all earlier ones; returns what they print."""
        begin = "set -euo pipefail; . $STATE; set -a"
        # What was set stays set, as in the terminal of the reader.
        end = '{ export -p; printf "cd %q\\n" "$PWD"; } >$STATE'
        return self._run("bash", "-c", f"{begin}\n{lines}\n{end}\n")

    def python(self, text: str) -> str:
        """Run a piece of Python after all earlier ones."""
        self._python.append(text)
        program = "\n".join(self._python)
        return self._run("bash", "-c", f'. $STATE; exec {sys.executable} -c "$1"', "bash", program)

    def configure(self, text: str) -> None:
        """Put keys into the configuration of the facility and start it anew."""
        place = Path(self.shell('printf %s "$BP_FACILITY"')) / "facility.toml"
        merged = _merge(tomllib.loads(place.read_text()), tomllib.loads(text))
        self.shell('bp down "$BP_FACILITY" || true')
        place.write_text(_toml(merged))
        self.shell('bp up "$BP_FACILITY" --detach')

    def _run(self, *words: str) -> str:
        try:
            done = subprocess.run(
                ["nsenter", f"--net=/proc/{self._network}/ns/net", "--", *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=self._environment, cwd=self.directory, timeout=DEADLINE_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise PageError(f"not done after {DEADLINE_S:g} s\n{(late.stdout or b'').decode()}") from late
        printed = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise PageError(f"ended with {done.returncode}\n{printed}")
        return printed

    def clean_up(self) -> None:
        """Stop every daemon that the page has left."""
        for endpoints in self.directory.rglob("endpoints.json"):
            with suppress(PageError):
                self.shell(f"bp down {endpoints.parent}")


def _merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = [key for key in new if isinstance(new[key], dict) and isinstance(old.get(key), dict)]
    return {**old, **new, **{key: _merge(old[key], new[key]) for key in both}}


def _toml(tables: dict[str, Any], prefix: str = "") -> str:
    """Write what `facility.toml` can hold."""
    lines = [f"{key} = {_value(value)}" for key, value in tables.items() if not _is_table(value)]
    for key, value in tables.items():
        if isinstance(value, dict):
            lines.append(f"[{prefix}{key}]\n{_toml(value, f'{prefix}{key}.')}")
        elif _is_table(value):
            lines += [f"[[{prefix}{key}]]\n{_toml(one, f'{prefix}{key}.')}" for one in value]
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value)


@contextmanager
def world(directory: Path) -> Iterator[World]:
    """Make a world; what runs in it ends with it."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a network of its own, in which the ports of the pages are free")
    need("unshare", "nsenter", "ip")
    script = "ip link set lo up && echo up && exec sleep infinity"
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout
    try:
        assert holder.stdout.readline() == b"up\n"
        made = World(directory, holder.pid)
        try:
            yield made
        finally:
            made.clean_up()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()


def run(world: World, block: Block) -> None:
    """Do what a block says."""
    match block.kind:
        case "sh" | "before":
            world.shell(block.text)
        case "python":
            world.python(block.text)
        case "toml":
            world.configure(block.text)
        case "console":
            for one in typed(block.text):
                printed = world.shell(one.command)
                if not comes_out(one.output, printed):
                    raise PageError(f"$ {one.command}\nprinted\n{printed}")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs(page: str, tmp_path: Path) -> None:
    blocks = read(TOP / page, page)
    need(*sorted({program for block in blocks for program in block.needs}))
    with world(tmp_path / "backplane") as here:
        for block in blocks:
            if block.kind == "text" or block.reason:
                continue
            try:
                run(here, block)
            except PageError as failed:
                pytest.fail(f"{block.place}: {failed}\n\n{block.text}", pytrace=False)


@pytest.mark.parametrize("page", PAGES)
def test_no_page_hides_its_blocks(page: str) -> None:
    blocks = [block for block in read(TOP / page, page) if block.is_typed]
    skipped = [block for block in blocks if block.reason]
    assert len(skipped) == NOT_RUN.get(page, 0), [block.place for block in skipped]
    assert not blocks or len(skipped) * 2 < len(blocks), "most of the page is not tried"


def test_what_is_shown_is_compared() -> None:
    assert comes_out(("a  b", "…", "c … e"), "a b\nx\ny\nc d e\n")
    assert comes_out(("…",), "")
    assert not comes_out(("a",), "a\nb\n")
    assert not comes_out((), "a\n")
    assert typed("$ a\nx\n$ b")[0].output == ("x",)


def test_a_page_says_what_its_blocks_are(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text, why in [
        ("```\nbp\n```\n", "no kind"),
        ("```bash\nbp\n```\n", "no kind"),
        ("text\n\n    bp status\n", "without a fence"),
        ("```sh\nbp\n", "does not end"),
        ("<!-- not run: because -->\ntext\n", "no block follows"),
    ]:
        page.write_text(text)
        with pytest.raises(PageError, match=why):
            read(page, "page.md")
    page.write_text("<!-- before\nmkdir x\n-->\n1. one\n\n   <!-- not run: why -->\n   ```sh xrdcp\n   bp\n   ```\n")
    first, second = read(page, "page.md")
    assert (first.kind, first.text, first.is_typed) == ("before", "mkdir x", False)
    assert (second.text, second.needs, second.reason, second.place) == ("bp", ("xrdcp",), "why", "page.md:7")
