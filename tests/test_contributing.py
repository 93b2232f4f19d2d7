"""CONTRIBUTING.md is true: each worked example runs on its own, every link leads somewhere, the table of layers is complete,
and the kind of data that it shows works from the command line once it is installed.
"""

import re
import sys
from pathlib import Path

import pytest

from regard import registry
from regard.verbs import main
from tests.test_docs import blocks, broken_links, run
from tests.test_layers import may_import

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
TEXT = PAGE.read_text("utf-8")
ADD = ["Add a mask", "Add a law", "Add a model", "Add a kind of data"]


def sections(text):
    """What stands under each heading of the second level."""
    _, *parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("block", blocks(PAGE.name, TEXT), ids=lambda block: f"{block.page}-{block.number}")
def test_a_block_runs_on_its_own(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(block, capsys)


@pytest.mark.parametrize("heading", ADD)
def test_everything_that_can_be_added_has_a_worked_example(heading):
    assert len(blocks(PAGE.name, sections(TEXT)[heading])) == 1


def test_links_lead_somewhere():
    assert broken_links(PAGE, TEXT) == []


def test_the_make_targets_exist():
    shown = set(re.findall(r"^make ([a-z]+)", TEXT, re.MULTILINE))
    there = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {"test", "lint"} <= shown <= there


def test_the_table_of_layers_names_every_folder_in_an_order_that_imports_follow():
    named = re.findall(r"^\| `(\w+)` \|", sections(TEXT)["Layers"], re.MULTILINE)
    folders = {path.parent.name for path in (ROOT / "regard").glob("*/__init__.py")}
    assert set(named) == folders
    for place, folder in enumerate(named):
        assert not may_import(folder) & set(named[place + 1 :]), folder


# ── the kind of data, installed ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example as its page says: the block up to RECIPE in a module, and the entry point in the package's metadata."""
    section = sections(TEXT)["Add a kind of data"]
    (block,) = blocks(PAGE.name, section)
    module, _, _ = block.code.partition("\nRECIPE =")
    (tmp_path / "dice_kind.py").write_text(f"{module}\nRECIPE = DiceRecipe()\n", "utf-8")
    (point,) = re.findall(r'^dice = "(.*)"$', section, re.MULTILINE)
    about = tmp_path / "dice_kind-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dice-kind\nVersion: 1.0\n", "utf-8")
    (about / "entry_points.txt").write_text(f"[regard.recipes]\ndice = {point}\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._offered_by_others.cache_clear()
    yield
    registry._offered_by_others.cache_clear()
    sys.modules.pop("dice_kind", None)


def test_the_kind_of_data_works_from_the_command_line(installed, capsys):
    commands = re.findall(r"`regard (\w+) (?:dice|runs/dice)", sections(TEXT)["Add a kind of data"])
    assert commands == ["train", "predict", "evaluate", "check", "look"]
    assert main.main(["train", "dice", "--no-report"]) == 0
    assert main.main(["predict", "runs/dice", "6 6 5", "1 2 1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said[-2:]] == ["loaded", "fair"]
    Path("other.txt").write_text("fair 1 2 3 4\nloaded 6 6 5 3\n", "utf-8")
    assert main.main(["evaluate", "runs/dice"]) == 0
    assert main.main(["evaluate", "runs/dice", "--data", "other.txt"]) == 0
    assert "(of 2 lines)" in capsys.readouterr().out
    assert main.main(["check", "runs/dice"]) == 0
    assert main.main(["look", "runs/dice", "--out", "page.html"]) == 0
    assert main.main(["predict", "runs/dice", "7"]) == 2
    assert "throws must be from 1 to 6, got [7]" in capsys.readouterr().err
