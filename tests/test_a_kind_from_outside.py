"""A kind of data from another package, found by its entry points, works like our own. It is in tests/outside."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard import registry
from regard.verbs import main

ROOT = Path(__file__).parents[1]
OUTSIDE = ROOT / "tests" / "outside"
RISING, FALLING = "-1,-.7,-.4,-.1,.1,.4,.7,1", "1,.7,.4,.1,-.1,-.4,-.7,-1"


@pytest.fixture(scope="module")
def installed():
    """The package as if it were installed: its metadata is on the path."""
    registry._offered_by_others.cache_clear()
    sys.path.insert(0, str(OUTSIDE))
    yield
    sys.path.remove(str(OUTSIDE))
    registry._offered_by_others.cache_clear()
    for name in [name for name in sys.modules if name.startswith("waves_kind")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def folder(installed, tmp_path_factory):
    """A run of it, trained by the command."""
    place, before = tmp_path_factory.mktemp("waves"), os.getcwd()
    os.chdir(place)
    os.environ["REGARD_CACHE"] = str(place / "cache")
    try:
        assert main.main(["train", "waves", "--data.loudness", "2", "--model.hidden", "16", "--out", "run"]) == 0
    finally:
        os.chdir(before)
        del os.environ["REGARD_CACHE"]
    return place


def run(capsys, *words):
    capsys.readouterr()
    code = main.main(list(words))
    said = capsys.readouterr()
    assert said.err == "", said.err
    return code, said.out


def test_it_is_listed_without_anything_else(capsys):
    words = [sys.executable, "-c", "from regard.verbs.main import main; import sys; main(['list', 'recipes']); "
             "print('torch' in sys.modules)"]  # fmt: skip
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(OUTSIDE)])}
    done = subprocess.run(words, env=told, capture_output=True, text=True, check=True)
    assert re.search(r"waves +waves_kind.recipe.RECIPE +a classifier of waves, from a package of its own", done.stdout)
    assert done.stdout.endswith("False\n")


def test_its_options_are_explained(installed, capsys):
    code, text = run(capsys, "train", "waves", "--help")
    assert code == 0 and "regard train waves --data waves.txt" in text
    assert re.search(r"--data.loudness", text) and re.search(r"--model.hidden", text)
    assert "--model.length" not in text  # follows from the data


def test_it_trains(folder):
    config = json.loads((folder / "run" / "config.json").read_text())
    assert (config["recipe"], config["kind"]) == ("waves", "wavenet") and config["data"]["loudness"] == 2.0
    assert config["processor"]["fitted"] == {"length": 8}
    assert config["processor"]["target"]["classes"] == ["falling", "rising"]
    assert config["counts"] == {"train": 72, "validation": 8, "test": 0}
    names = {path.name for path in (folder / "run").iterdir()}
    assert {"model.safetensors", "report.html", "laws.json", "curves.png", "confusion.png"} <= names


def test_it_predicts(folder, capsys):
    code, out = run(capsys, "predict", str(folder / "run"), RISING, FALLING)
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == ["rising", "falling"]


def test_it_is_evaluated(folder, capsys, tmp_path):
    code, out = run(capsys, "evaluate", str(folder / "run"), "--json")
    found = json.loads(out)
    assert code == 0 and found["split"] == "validation" and found["count"] == 8 and found["measures"]["accuracy"] == 1.0
    assert found["labels"] == ["falling", "rising"] and sum(map(sum, found["confusion"])) == 8
    other = tmp_path / "other.txt"
    other.write_text(f"rising,{RISING}\nrising,{FALLING}\n")
    code, out = run(capsys, "evaluate", str(folder / "run"), "--data", str(other), "--json")
    found = json.loads(out)
    assert found["count"] == 2 and found["measures"]["accuracy"] == 0.5 and found["confusion"] == [[0, 0], [1, 1]]


def test_it_is_checked(folder, capsys):
    code, out = run(capsys, "check", str(folder / "run"))
    assert code == 0 and "run: as declared" in out


def test_its_own_tab_is_on_the_page(folder, capsys, browser):
    page = folder / "page.html"
    code, _ = run(capsys, "look", str(folder / "run"), "--input", RISING, "--out", str(page))
    assert code == 0
    for file, first in ((page, "-2.00 -1.40"), (folder / "run" / "report.html", "-1.97 -1.45")):
        shown = browser.new_page()
        try:
            shown.goto(file.as_uri())
            opened = "Wave" if file == page else "Outcome"  # an input that was given is shown at once
            assert shown.get_by_role("tab", name=opened).get_attribute("aria-selected") == "true"
            shown.get_by_role("tab", name="Wave").click()
            assert shown.locator(".wave-numbers").inner_text().startswith(first)
        finally:
            shown.close()


def test_what_it_cannot_do_is_one_line(folder, capsys):
    for words, told in (
        (["generate", str(folder / "run")], "trained on waves: its model generates nothing; use regard predict"),
        (["train", "waves", "--model.length", "9"], "--model.length follows from the data, so it cannot be set; give"),
        (["train", "waves", "--data.loudnes", "9"], "there is no option --data.loudnes; did you mean --data.loudness?"),
        (["predict", str(folder / "run"), "1,2", "--out", "x.png"], "for which no pictures are drawn"),
    ):
        code = main.main(words)
        said = capsys.readouterr()
        assert code == 2 and told in said.err and said.err.count("\n") == 1


def test_a_run_whose_kind_is_not_installed_says_so(folder, capsys, monkeypatch):
    registry._offered_by_others.cache_clear()
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(OUTSIDE)])
    try:
        assert main.main(["predict", str(folder / "run"), RISING]) == 2
        assert re.search("recipe 'waves'.*not installed", capsys.readouterr().err)
    finally:
        registry._offered_by_others.cache_clear()
