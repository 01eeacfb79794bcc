"""How jobs end that go wrong: told as it was, and nothing of them stays in the namespace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from facility import Facility, Json

SHELL = ("/bin/sh", "-c")
EAT = "x = bytearray(400 << 20); print(len(x))"
FOREIGN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + bytes(100)
"""The head of a program for AArch64, of which nothing else is there."""


def ended(facility: Facility, *words: str | Path) -> Json:
    """Submit a job and wait for its end."""
    return facility.wait_job(facility.submit(*words))


@pytest.mark.parametrize("program", [f"exec {sys.executable} -c '{EAT}'", f"{sys.executable} -c '{EAT}' && echo well"])
def test_who_needs_more_memory_than_was_asked_for_is_told(facility: Facility, program: str) -> None:
    info = ended(facility, "--memory", "150MiB", "--", *SHELL, program)
    assert info["state"] == "failed"
    assert "memory" in info["reason"], info
    assert "memory" in facility.bp("jobs", str(info["id"])).text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (FOREIGN, ""),
        (b"\x00\x01\x02\x03" * 100, ""),
        (b"#!/no/such/interpreter\n", ""),
        (b"#!/bin/sh\r\nexit 0\r\n", ""),
    ],
)
def test_what_cannot_be_executed_is_not_started(facility: Facility, tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "program").write_bytes(content)
    facility.bp("put", "--replace", "--parents", tmp_path / "program", "/ends/program")
    info = ended(facility, "--input", "/ends/program", "--", "./program")
    assert info["state"] == "failed"
    assert "not_started" in info["exit"], info
    assert "program" in info["reason"]
    assert why in info["reason"]


def test_a_script_without_a_first_line_is_for_the_shell(facility: Facility, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("echo done >out\n")
    facility.bp("put", "--parents", tmp_path / "script", "/ends/script")
    info = ended(facility, "--input", "/ends/script", "--output", "out:/ends/out", "--", "./script")
    assert info["state"] == "done", info


@pytest.mark.parametrize(
    ("outputs", "script"),
    [
        (("b:/left/b",), "echo > a"),
        (("b:/left/b",), "echo > a; ln -s /etc/passwd b"),
        (("b:/left/b",), "echo > a; mkdir b"),
        (("b/:/left/b",), "echo > a"),
        (("b/:/left/b",), "echo > a; mkdir b; echo > b/c; ln -s /etc b/d"),
        (("*.x:/left",), "echo > a"),
        (("b:/left/b", "c:/left/c"), "echo > a; echo > c"),
    ],
)
def test_nothing_stays_of_outputs_that_are_not_all_there(
    facility: Facility, outputs: tuple[str, ...], script: str
) -> None:
    words = [word for output in ("a:/left/a", *outputs) for word in ("--output", output)]
    info = ended(facility, *words, "--", *SHELL, script)
    assert info["state"] == "failed", info
    assert facility.bp("stat", "/left", check=False).code == 3, facility.bp("find", "/left", check=False).text
