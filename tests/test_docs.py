"""The pages in docs/ are true: every Python block runs on its own and prints what it says, every link leads somewhere,
the tour is complete, the pictures can be drawn again, and the example does what it says.
"""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


class Block(NamedTuple):
    page: str
    number: int
    line: int
    code: str


def blocks(page, text):
    """Every ```python block of a page, with the line it begins at."""
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [Block(page, i, text[: match.start()].count("\n") + 2, match[1]) for i, match in enumerate(found, 1)]


def run(block, capsys):
    """Run a block in a namespace of its own. A line that is only a comment shows what is printed, in that order."""
    capsys.readouterr()
    exec(compile("\n" * (block.line - 1) + block.code, block.page, "exec"), {"__name__": f"{block.page}:{block.line}"})
    printed = capsys.readouterr().out.splitlines()
    shown = [line[2:].strip() for line in block.code.splitlines() if line.startswith("# ")]
    rest = iter(line.strip() for line in printed)
    for line in shown:
        assert any(line == other for other in rest), f"{block.page}: '{line}' is shown, but printed was {printed}"


def anchor(heading):
    """The name of a heading inside its page."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(path, text):
    """Local links and pictures of a page that lead nowhere; what is in a code block is no link."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target, _, name = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        place = path.parent / target if target else path
        if not place.exists():
            wrong.append(link)
        elif name and place.suffix == ".md":
            there = text if place == path else place.read_text("utf-8")
            if name not in {anchor(heading) for heading in re.findall(r"^#+ +(.*?) *$", there, re.MULTILINE)}:
                wrong.append(link)
    return wrong


ALL = [block for page in PAGES for block in blocks(page.name, page.read_text("utf-8"))]


@pytest.mark.parametrize("block", ALL, ids=lambda block: f"{block.page}-{block.number}")
def test_a_block_runs_on_its_own(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(block, capsys)


def test_the_pages_are_there():
    assert {"attention.md", "symmetry.md", "tour.md"} <= {page.name for page in PAGES}
    for page in ("attention.md", "symmetry.md"):
        assert len([block for block in ALL if block.page == page]) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    assert broken_links(page, page.read_text("utf-8")) == []


def test_the_tour_is_short_and_what_it_names_can_be_read():
    text = (DOCS / "tour.md").read_text("utf-8")
    before, _, road = text.partition("## Attention")
    road = road.partition("## Where would I")[0]
    files = [(DOCS / link).resolve() for link in re.findall(r"\]\((\.\./regard/[^)]+\.py)\)", road)]
    assert re.findall(r"(?:^|and )(\d+)\. ", road, re.MULTILINE) == [str(number) for number in range(1, 21)]
    assert len(files) == len(set(files)) <= 24
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) < 6000
    assert len(text.splitlines()) <= 200
    folders = {path.name for path in (ROOT / "regard").iterdir() if (path / "__init__.py").exists()}
    assert folders <= set(re.findall(r"`(\w+)/`", before))


# ── pictures and example ────────────────────────────────────────────────────────────────────────────────────


def test_the_pictures_are_those_the_script_draws_and_small():
    drawn = {path.stem: path.stat().st_size for path in (DOCS / "pictures").glob("*.png")}
    script = runpy.run_path(str(DOCS / "pictures" / "draw.py"))
    assert set(script["PICTURES"]) == set(drawn)
    assert max(drawn.values()) < 120_000
    for name, draw in script["PICTURES"].items():
        assert draw().axes, f"{name} is empty"


def test_the_example_prints_a_table_and_writes_its_picture(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "attention_at_work.py"), "--seconds", "2", "--out", "here/drawn.png"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("none", "sinusoidal", "learned", "rotary", "alibi", "relative", "buckets"):
        assert re.search(rf"^ {name} .*\d%.*\d%", done.stdout, re.MULTILINE), name
    assert done.stdout.splitlines()[-1].endswith("here/drawn.png")
    assert (tmp_path / "here" / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_the_example_of_a_world_prints_its_errors(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "dream_of_a_pendulum.py"), "--out", "here", "--steps", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("model", "linear", "persistence"):
        assert re.search(rf"^ +{name}( +\d\.\d+){{5}}$", done.stdout, re.MULTILINE), name
    assert (tmp_path / "here" / "run" / "model.safetensors").exists()


# ── does the reader above see what is wrong? ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "code, words",
    [
        ("assert 1 + 1 == 3, 'planted'", "planted"),
        ("regard", "name 'regard' is not defined"),
        ("print(1)\n# 2", "page.md: '2' is shown"),
        ("print(1)\nprint(2)\n# 2\n# 1", "'1' is shown"),
    ],
)
def test_a_planted_block_is_caught(code, words, capsys):
    (block,) = blocks("page.md", f"# A page\n\n```python\n{code}\n```\n")
    assert (block.number, block.line) == (1, 4)
    with pytest.raises((AssertionError, NameError), match=re.escape(words)):
        run(block, capsys)


def test_an_error_points_at_the_line_of_the_page(capsys):
    (block,) = blocks("page.md", "# A page\n\n```python\nfine = 1\nraise KeyError\n```\n")
    with pytest.raises(KeyError) as caught:
        run(block, capsys)
    assert caught.traceback[-1].lineno + 1 == 5


def test_planted_links_are_caught(tmp_path):
    page = tmp_path / "page.md"
    text = "## Two words: here\n[a](page.md) [b](#two-words-here) [c](#gone) ![d](gone.png) [e](https://example.org)\n"
    page.write_text(text)
    assert broken_links(page, text) == ["#gone", "gone.png"]
