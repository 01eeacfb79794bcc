"""Pages of documentation as what a reader types: blocks of code, in order, run in a world of their own.

The first word behind the fence says what a block is:

=========  ==========================================================================================
`sh`       lines for a shell; further words name programs that must be installed
`console`  lines after `$ ` are typed, those below are what comes out: `…` stands for anything in a
           line, a line of nothing else for any lines
`python`   a piece of the page's Python program: it runs after all earlier ones of the page
`toml`     goes into the `facility.toml` that BP_FACILITY names, whose daemon is then started anew
`text`     is not typed: what a program prints, a drawing
=========  ==========================================================================================

Readers do not see comments: `<!-- not run: REASON -->` before a block says why it cannot run here, `<!-- before` begins
shell lines that make what the page takes for granted, with the functions of `world.sh`.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

KINDS = frozenset({"sh", "console", "python", "toml", "text", "before"})

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`]*)$")
_NOT_RUN = re.compile(r"^\s*<!-- not run: (?P<reason>.+) -->$")


class PageError(AssertionError):
    """A page is not written as pages are."""


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    kind: str
    needs: tuple[str, ...]
    text: str
    reason: str = ""
    """Why it is not run, if it is not."""

    @property
    def is_typed(self) -> bool:
        """Whether a reader is to type it."""
        return self.kind not in ("text", "before")

    @property
    def place(self) -> str:
        """Where it begins."""
        return f"{self.page}:{self.line}"


def read(file: Path, name: str) -> list[Block]:
    """Read the blocks of a page, in order."""
    lines = file.read_text().splitlines()
    blocks: list[Block] = []
    reason, number = "", 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line == "<!-- before":
            end = _find(lines, number, "-->", f"{name}:{number}")
            blocks.append(Block(name, number, "before", (), "\n".join(lines[number:end])))
            number = end + 1
        elif match := _NOT_RUN.match(line):
            reason = match["reason"]
        elif match := _FENCE.match(line):
            end = _find(lines, number, f"{match['indent']}```", f"{name}:{number}")
            kind, *needs = match["info"].split() or [""]
            if kind not in KINDS - {"before"}:
                raise PageError(f"{name}:{number}: a block is of no kind that is known: {kind!r}")
            text = textwrap.dedent("\n".join(lines[number:end]))
            blocks.append(Block(name, number, kind, tuple(needs), text, reason))
            reason, number = "", end + 1
        elif line.strip():
            if reason:
                raise PageError(f"{name}:{number}: no block follows 'not run'")
            if line.startswith("    ") and not lines[number - 2].strip():
                raise PageError(f"{name}:{number}: a block without a fence says not what it is")
    return blocks


def _find(lines: list[str], start: int, end: str, place: str) -> int:
    """Find where a block ends."""
    try:
        return lines.index(end, start)
    except ValueError:
        raise PageError(f"{place}: the block does not end with {end!r}") from None


@dataclass(frozen=True)
class Typed:
    """A command of a `console` block, and what it prints."""

    command: str
    output: tuple[str, ...]


def typed(text: str) -> list[Typed]:
    """Take a `console` block apart."""
    found: list[Typed] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Typed(line[2:], ()))
        elif not found:
            raise PageError(f"console block begins with output: {line!r}")
        else:
            last = found.pop()
            found.append(Typed(last.command, (*last.output, line)))
    return found


def comes_out(expected: tuple[str, ...], printed: str) -> bool:
    """Tell whether what was printed is what the page shows; how columns are spaced does not matter."""
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += "(.*\n)*"
        else:
            words = " ".join(line.split())
            pattern += " ?" + ".*".join(re.escape(piece) for piece in words.split("…")) + " ?\n"
    text = "".join(" ".join(line.split()) + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern, text) is not None
