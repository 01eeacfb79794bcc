"""What a person sees in a notebook: versions, names, tables."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import backplane
from backplane.fsspec import FacilityFileSystem, RootFileSystem

TOP = Path(__file__).resolve().parents[2]


def test_the_version_is_that_of_the_workspace() -> None:
    cargo = tomllib.loads((TOP / "Cargo.toml").read_text())
    assert backplane.__version__ == cargo["workspace"]["package"]["version"]


def test_tables_escape_what_others_named() -> None:
    table = backplane.Table([{"name": "<script>", "size": 5_000_000}, {"name": "b", "size": None}])
    shown = table._repr_html_()
    assert "<th>name</th><th>size</th>" in shown
    assert "<td>&lt;script&gt;</td><td>5.0 MB</td>" in shown
    assert "<td>b</td><td></td>" in shown
    assert table == [{"name": "<script>", "size": 5_000_000}, {"name": "b", "size": None}]
    assert "and 50 more" in backplane.Table({"n": number} for number in range(150))._repr_html_()
    assert backplane.Table()._repr_html_() == "<table></table>"


def test_replies_are_tables(live: backplane.Facility) -> None:
    live.write_bytes("/nb/a&b", b"x" * 1500)
    assert "<td>a&amp;b</td><td>file</td><td>1.5 kB</td><td>online</td>" in live.ls("/nb")._repr_html_()  # type: ignore[attr-defined]
    live.submit(["/bin/true"]).wait(60)
    for shown in (live.jobs(), live.stat("/nb/a&b"), live.status(), live, live.stage("/nb/a&b")):
        text = shown._repr_html_()  # type: ignore[union-attr]
        assert text.startswith("<table><tr>")
        assert not re.search("<(?!/?(table|tr|td|th)>)", text), text


def test_an_ntuple_shows_its_columns(events: backplane.NTuple) -> None:
    shown = events.define("pt", "sqrt(px*px + py*py)").filter("eta < 2 and n > 1")._repr_html_()
    assert "where (eta &lt; 2 and n &gt; 1)" in shown
    assert "<tr><td>pt</td><td>float</td><td>sqrt(px*px + py*py)</td></tr>" in shown
    assert "<tr><td>good</td><td>bool</td><td></td></tr>" in shown


def test_a_file_system_names_itself(live: backplane.Facility) -> None:
    authority = live.root.partition("://")[2]
    assert repr(live.filesystem()) == f"<FacilityFileSystem bp://{authority}/>"
    assert live.filesystem()._repr_html_() == f"&lt;FacilityFileSystem bp://{authority}/&gt;"
    assert repr(RootFileSystem("ann@h:1")) == "<RootFileSystem root://h:1//>"
    secret = FacilityFileSystem("root://h:1", password="of-somebody")
    assert "of-somebody" not in repr(secret) + str(secret)
