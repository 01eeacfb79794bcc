"""The benchmark of passes over n-tuples runs, and all contenders count the same entries. No speed is asserted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clients import DEADLINE, need

ROOT = Path(__file__).resolve().parent.parent


def test_all_contenders_count_the_same(tmp_path: Path) -> None:
    need("cc")
    pytest.importorskip("backplane")
    command = [sys.executable, "-m", "bench.analysis", "--quick", f"--out={tmp_path}"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=2 * DEADLINE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "analysis.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| F")]
    assert len(rows) == 6
    assert "| backplane" in page
