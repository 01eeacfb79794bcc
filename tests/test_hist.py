"""`bp hist`: the bins of NumPy, in the terminal and as pictures."""

from __future__ import annotations

import json
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from facility import Facility, binaries

DEADLINE_S = 120


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hist")
    rng = np.random.default_rng(7)
    for number in range(2):
        columns = {"x": rng.normal(50, 20, 5000), "n": rng.poisson(3, 5000), "w": rng.random(5000)}
        pq.write_table(pa.table(columns), folder / f"run{number}.parquet")
    return folder


def hist(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    bp = str(binaries() / "bp")
    return subprocess.run([bp, *words], cwd=cwd, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def column(data: Path, name: str) -> np.ndarray:
    return np.concatenate([pq.read_table(data / f"run{number}.parquet")[name].to_numpy() for number in range(2)])


def test_bins_are_those_of_numpy(data: Path) -> None:
    words = ["--json", "hist", "run0.parquet", "./run1.parquet", "x", "--where", "n > 2", "--range=0:100", "--bins=40"]
    done = hist(*words, cwd=data)
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    x, n, w = (column(data, name) for name in "xnw")
    counts, edges = np.histogram(x[n > 2], 40, (0, 100))
    assert reply["values"] == counts.tolist()
    np.testing.assert_allclose(reply["edges"], edges)
    assert reply["entries"] == 10000
    assert reply["underflow"] == np.sum(x[n > 2] < 0)
    weighted = json.loads(hist(*words, "--weight", "w", cwd=data).stdout)
    np.testing.assert_allclose(weighted["values"], np.histogram(x[n > 2], 40, (0, 100), weights=w[n > 2])[0])


def test_a_range_is_found(data: Path) -> None:
    for expr in ("n", "x", "n > 2"):
        done = hist("--json", "hist", "run0.parquet", expr, cwd=data)
        assert done.returncode == 0, done.stderr
        reply = json.loads(done.stdout)
        assert sum(reply["values"]) == reply["entries"] == 5000
        assert reply["underflow"] == reply["overflow"] == 0


def test_the_terminal_shows_bars(data: Path) -> None:
    done = hist("hist", "run0.parquet", "n", "--range=0:3", "--bins=3", cwd=data)
    n = pq.read_table(data / "run0.parquet")["n"].to_numpy()
    lines = done.stdout.splitlines()
    assert lines[0] == "n"
    counts = [int(np.sum(n == value)) for value in range(3)]
    assert [line.split()[:2] for line in lines[1:4]] == [[str(value), str(counts[value])] for value in range(3)]
    assert lines[3].endswith("█") or lines[3][-1] in "▏▎▍▌▋▊▉█"
    assert lines[4] == f"5000 entries; {sum(counts)} in the range, 0 below, {5000 - sum(counts)} above or no number"


def test_pictures(data: Path, tmp_path: Path) -> None:
    png, svg = tmp_path / "x.png", tmp_path / "x.svg"
    done = hist(
        "hist", "run0.parquet", "x", "--where", "x < 60 and n > 1", "--png", str(png), "--svg", str(svg), cwd=data
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    texts = [text.text for text in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert "x  where x < 60 and n > 1" in texts
    content = png.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", content[16:26])
    assert (width, height, depth, kind) == (800, 500, 2, 3)
    at = content.index(b"IDAT")
    (length,) = struct.unpack(">I", content[at - 4 : at])
    assert len(zlib.decompress(content[at + 4 : at + 4 + length])) == height * (1 + width // 4)


def test_an_rntuple_of_several_is_chosen(data: Path) -> None:
    file = next((Path(__file__).parents[1] / "crates/ntuple/testdata/rntuple").glob("*multiple-rntuples*.root"))
    done = hist("--json", "hist", str(file), "g", "--tree", "B", "--range=0:100", cwd=data.parent)
    assert done.returncode != 0, "a path that begins with a slash is one of the facility"
    words = ["--json", "hist", f"file://{file}", "g", "--range=0:100"]
    done = hist(*words, "--tree", "B", cwd=data)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["entries"] > 0
    done = hist(*words, cwd=data)
    assert done.returncode != 0
    assert 'has 2 n-tuples: "A", "B"' in done.stderr
    assert "--tree" in done.stderr


def test_errors_say_what_is_wrong(data: Path) -> None:
    for words, text in [
        (["run0.parquet", "y"], 'unknown column "y" at 1'),
        (["none.parquet", "x"], "open none.parquet"),
        (["run0.parquet", "x", "--range=1"], '"1" is no range'),
        (["run0.parquet", "x", "--range=1:1"], "has no width"),
        (["run0.parquet", "x", "--bins=0"], "axis of 0 bins"),
        (["run0.parquet", "x", "--where", "x > 1e9"], "no entry at the beginning of the files"),
        (["run0.parquet", "x", "--png", "/nonexistent/x.png"], "write /nonexistent/x.png"),
        (["run0.parquet"], "EXPR"),
    ]:
        done = hist("hist", *words, cwd=data)
        assert done.returncode != 0
        assert text in done.stderr, (words, done.stderr)


def test_files_of_a_facility(facility: Facility, data: Path) -> None:
    facility.bp("put", "--parents", data / "run0.parquet", data / "run1.parquet", "/hist/")
    reply = facility.bp_json("hist", "/hist/run*.parquet", "x", "--range=0:100")
    assert reply["values"] == np.histogram(column(data, "x"), 25, (0, 100))[0].tolist()
    facility.bp_fails("hist", "/hist/none.parquet", "x")
