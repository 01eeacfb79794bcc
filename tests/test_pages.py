"""The README and all pages of documentation: what a reader types there works, block by block.

Each page has a facility and a network of its own, so that the ports it names are free.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from clients import need
from pages import Block, PageError, comes_out, read, typed
from world import TOP, World, world

PAGES = ["README.md", *sorted(str(page.relative_to(TOP)) for page in (TOP / "docs").rglob("*.md"))]

NOT_RUN = {"README.md": 3, "docs/analysis.md": 1, "docs/catalogue.md": 1, "docs/service.md": 2}
"""How many blocks of a page are marked as not run here: a new one has to be thought about."""


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
    if not any(block.is_typed and not block.reason for block in blocks):
        return
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
