"""Nothing that a terminal obeys reaches one, whatever verb prints it; nor the log."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import termios
import unicodedata
from collections.abc import Iterator

import pytest

import frames
from clients import DEADLINE
from conftest import SMALL, one_facility
from facility import Facility

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b2J\x7f\u202e"
"""A title, an empty screen twice, and text from right to left."""
PATH = "/evil\u202egpj\u2066.exe"
"""Paths have no control characters, but directions."""
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[[0-9]*[ABCDGK]|\x1b\[\?25[hl]|[\r\n\t]")
"""Colours, and what moves a bar."""
LONG = "/" + "/".join(["a-directory-with-a-long-name"] * 4)
WIDTH = 80
"""Columns of the terminal."""
TABLES = [
    ("ls", "-l", "/"),
    ("ls", "-l", LONG),
    ("jobs", "--all"),
    ("volumes",),
    ("drives",),
    ("bill",),
    ("account",),
    ("audit",),
    ("pool", "list"),
    ("host", "list"),
    ("key", "list"),
]
"""What prints a table and no other lines."""
OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def facility(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facility]:
    """Run a facility with odd names in all places where users may put them."""
    with one_facility(tmp_path_factory.mktemp("terminal") / "facility", **SMALL) as one:
        one.expect_log("")
        one.up()
        one.put_bytes(b"bytes", PATH)
        one.bp("archive", "--wait", PATH)
        program = f"printf %s '{EVIL}'; printf %s '{EVIL}' >&2"
        spec = {
            "name": "job\u202egpj\u2066.exe",
            "command": ["/bin/sh", "-c", program],
            "environment": {"A": EVIL},
            "inputs": [],
            "outputs": [],
            "archive": False,
            "resources": {"cpus": 1, "memory_bytes": 0, "wall": 60_000},
        }
        one.evil_job = one.call("submit", spec=spec)["job"]  # type: ignore[attr-defined]
        one.wait_job(one.evil_job)  # type: ignore[attr-defined]
        one.bp("mkdir", "-p", LONG)
        one.put_bytes(b"bytes", f"{LONG}/{'x' * 100}.root")
        one.call("set_volume_state", vid="BP0004", state="suspect")
        yield one


def on_terminal(facility: Facility, *words: str) -> str:
    """Run `bp` on a terminal; what comes out there."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, WIDTH))
    env = {**os.environ, "BP_FACILITY": str(facility.directory), "TERM": "xterm"}
    with subprocess.Popen(
        [facility.bin / "bp", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env
    ) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        running.wait(DEADLINE)
    os.close(ours)
    return shown.decode()


VERBS = [
    ("ls", "/"),
    ("ls", "-l", "/"),
    ("stat", PATH),
    ("stat", f"{PATH}-missing"),
    ("queue",),
    ("jobs",),
    ("jobs", "--all"),
    ("status",),
    ("bill",),
    ("account",),
    ("quota",),
    ("grant", "--list"),
    ("audit",),
    ("cat", f"{PATH}-missing"),
    ("get", PATH, "/tmp/x"),
    ("rm", f"{PATH}-missing"),
    ("mkdir", f"{PATH}/x"),
    ("mv", f"{PATH}-missing", "/y"),
    ("stage", PATH),
    ("evict", PATH),
    ("wait", PATH),
    ("volumes",),
    ("drives",),
    ("host", "list"),
    ("pool", "list"),
    ("scan",),
    ("adopt",),
    ("cp", f"bp:{PATH}", "bp:/evil/\u202ecopy"),
    ("--user", f"x{EVIL}", "ls", "/"),
    ("token", "create", f"--user=x{EVIL}"),
    ("grant", "/", f"user:x{EVIL}", "r"),
]


@pytest.mark.parametrize(
    "words", VERBS, ids=lambda words: " ".join(words).encode("ascii", "backslashreplace").decode()[:40]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_verb_lets_anything_through(facility: Facility, words: tuple[str, ...], form: str) -> None:
    shown = on_terminal(facility, *(["--json"] if form == "json" else []), *words)
    assert shown
    left = OBEYED.search(OURS.sub("", shown))
    assert left is None, ascii(shown)


def test_what_a_job_prints_is_readable_on_a_terminal_and_whole_elsewhere(facility: Facility) -> None:
    job = str(facility.evil_job)  # type: ignore[attr-defined]
    shown = on_terminal(facility, "log", job)
    assert OBEYED.search(OURS.sub("", shown)) is None, ascii(shown)
    assert "\\x1b[2J" in shown
    words = [facility.bin / "bp", "log", job]
    env = {**os.environ, "BP_FACILITY": str(facility.directory)}
    kept = subprocess.run(words, env=env, capture_output=True, timeout=DEADLINE, check=True)
    assert kept.stdout.decode() == EVIL
    assert kept.stderr.decode() == EVIL


def test_names_are_spelled_out(facility: Facility) -> None:
    assert "/evil\\u{202e}gpj\\u{2066}.exe" in on_terminal(facility, "stat", PATH) + on_terminal(facility, "audit")
    assert "evil\\u{202e}" in on_terminal(facility, "ls", "/")


def test_the_log_is_safe_to_read(facility: Facility) -> None:
    connection = facility.connect()
    connection.request(
        "COPY", "/new", headers={"source": "http://127.0.0.1:9/\u009b2J%1b[2J", "destination": "\u009bx"}
    )
    connection.getresponse().read()
    connection.close()
    with frames.Raw(facility.root).login("a\x1b[2J") as raw:
        raw.request(frames.STAT, b"\0" * 16, "/x\x1b[2J\u202e".encode())
        raw.answer()
    facility.bp("ls", "/")
    for line in facility.log.read_text(errors="replace").split("\n"):
        assert OBEYED.search(line) is None, ascii(line)


def columns(line: str) -> int:
    """Columns that a line takes."""
    shown = OURS.sub("", line)
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in shown if not unicodedata.combining(c))


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_tables_fit_the_terminal(facility: Facility, words: tuple[str, ...]) -> None:
    """No row is broken by the terminal itself, however long the names are."""
    shown = on_terminal(facility, *words)
    assert shown.strip()
    for line in shown.splitlines():
        assert columns(line) <= WIDTH, line
