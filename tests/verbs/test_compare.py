"""`compare`: what differs, and the difference on the same examples, which is that of predictions one by one."""

import json
import shutil

import numpy as np
import pytest
import torch

import regard
from regard.runs.run import Run
from regard.verbs import train
from regard.verbs.compare import compare
from regard.verbs.compare_shown import page_data
from regard.verbs.main import main

QUICK = {"observers": [], "report": False}
TINY = {"model.dim": 8, "model.depth": 1, "model.heads": 2, "train.batch": 16, "train.evaluate_every": 4}
WORDS = {"pos": ["good", "fine", "great"], "neg": ["bad", "poor", "sad"]}


def write_table(path, rows, seed):
    """Texts of several lengths, whose label is not certain."""
    chance = np.random.default_rng(seed)
    lines = ["text,label"]
    for _ in range(rows):
        label = str(chance.choice(["pos", "neg"]))
        words = [*WORDS[label], "so", "it", "was"]
        lines.append(f"{' '.join(chance.choice(words, chance.integers(1, 7)))},{label}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Runs on one table: more steps, other tokens, another seed; one of a module and one without weights."""
    folder = tmp_path_factory.mktemp("home")
    write_table(folder / "rows.csv", 160, 0)
    write_table(folder / "other.csv", 50, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        known = {"data.validation": 0.4}
        more = {
            "runs/a": {},
            "runs/longer": {"train.steps": 12, "train.lr": 0.02},
            "runs/bytes": {"data.tokens": "bytes", "train.steps": 8},
            "runs/seed": {"train.seed": 1},
        }
        for out, options in more.items():
            chosen = TINY | known | {"train.steps": 4} | options
            train.train("text", data="rows.csv", out=out, options=chosen, **QUICK)
        module, x = torch.nn.Linear(3, 2), torch.randn(20, 3)
        train.train(model=module, task="classify", data=(x, x[:, 0].gt(0).long()), out="own", steps=2, **QUICK)
        shutil.copytree("runs/a", "damaged")
        (folder / "damaged" / "config.json").write_bytes(b'{"regard"')
        shutil.copytree("runs/a", "weightless")
        (folder / "weightless" / "model.safetensors").unlink()
        yield folder


@pytest.fixture(autouse=True)
def at_home(home, monkeypatch):
    monkeypatch.chdir(home)
    monkeypatch.setenv("REGARD_CACHE", str(home / "cache"))


def right(run, path, only=None):
    """Which rows of a table are predicted correctly, one by one."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    rows = rows if only is None else [rows[number] for number in only]
    found = regard.predict(run, [text for text, _ in rows])
    return np.array([next(iter(each.labels)) == label for each, (_, label) in zip(found, rows, strict=True)])


def test_only_what_differs_is_told():
    found = compare(["runs/a", "runs/longer"])
    assert {*found.settings} >= {"train.steps", "train.lr", "seconds"} and not found.partly
    assert found.settings["train.steps"] == [4, 12] and found.settings["train.lr"][1] == 0.02
    assert not {"model.dim", "data.path", "train.seed", "parameters"} & {*found.settings}
    (outcome,) = {(each.outcome.split, each.outcome.count) for each in found.runs}
    assert outcome == ("validation", 64)


@pytest.mark.parametrize("run", ["longer", "bytes"])
def test_the_difference_is_that_of_predictions_one_by_one(home, run):
    """Other tokens bring the rows in another order: each must meet itself."""
    (pair,) = compare(["runs/a", f"runs/{run}"], data="other.csv").pairs
    mine, first = (right(f"runs/{name}", home / "other.csv") for name in (run, "a"))
    accuracy = pair.differences[0]
    assert accuracy.only == (int((mine & ~first).sum()), int((~mine & first).sum())) and accuracy.count == 50
    assert accuracy.value == pytest.approx(mine.mean() - first.mean())
    assert accuracy.low <= accuracy.value <= accuracy.high


@pytest.mark.parametrize("run", ["longer", "bytes"])
def test_without_a_file_both_are_judged_on_their_own_split(run):
    (pair,) = compare(["runs/a", f"runs/{run}"]).pairs
    measures = [regard.evaluate(f"runs/{name}").measures for name in (run, "a")]
    assert pair.split == "validation" and pair.differences[0].count == 64
    assert pair.differences[0].value == pytest.approx(measures[0]["accuracy"] - measures[1]["accuracy"])


def test_runs_that_hold_out_other_rows_are_not_judged_on_them():
    """The seed draws the split: each was trained on rows that the other holds out."""
    (pair,) = compare(["runs/a", "runs/seed"]).pairs
    assert not pair.differences and "--train.seed" in pair.reason and "--data" in pair.reason
    (pair,) = compare(["runs/a", "runs/seed"], data="other.csv").pairs
    assert pair.reason is None and pair.differences[0].count == 50


def test_a_file_that_a_run_was_trained_on_is_told():
    assert any("runs/a" in note and "rows.csv" in note for note in compare(["runs/*"], data="rows.csv").notes)


def test_runs_that_cannot_be_judged_have_a_line_each():
    found = compare(["runs/a", "damaged", "own", "weightless"])
    assert found.names == ("a", "own", "weightless") and "config.json" in found.notes[0]
    module, weightless = found.pairs
    assert "module of your own" in module.reason and "no weights" in weightless.reason
    assert found.runs[2].state.endswith("no weights yet") and found.partly
    own, longer = compare(["own", "runs/a", "runs/longer"]).pairs  # the first one cannot be asked
    assert own.reason.startswith("own:") and longer.against == "a" and longer.differences


def test_other_recipes_are_compared_in_their_curves_only():
    options = {"model.hidden": 8, "train.batch": 4, "train.evaluate_every": 1, "data.task": "max"}
    if not Run.exists("sets"):
        train.train("sets", out="sets", steps=1, options=options, **QUICK)
    (pair,) = compare(["runs/a", "sets"]).pairs
    assert "only curves" in pair.reason and "sets" in pair.reason and "text" in pair.reason
    assert page_data(compare(["runs/a", "sets"]))["views"][0]["runs"][1]["validation"]


@pytest.mark.parametrize(
    "words, told",
    [
        ([], "two runs"),
        (["runs/a"], "runs/a"),
        (["runs/a", "runs/../runs/a"], "two runs"),
        (["nothing/*"], "nothing/*"),
        (["runs/a", "nowhere"], "nowhere"),
        (["runs/a", "damaged"], "config.json"),
        (["runs/a", "runs/longer", "--out", "page.pdf"], "page.pdf"),
        (["runs/a", "runs/longer", "--by", "miles"], "miles"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(words, told, capsys):
    assert main(["compare", *words]) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1 and "bug" not in said


def test_the_command_in_words_as_json_and_as_a_page(capsys, home):
    assert main(["compare", "runs/[al]*", "--out", "page.html", "--by", "seconds"]) == 0
    said = capsys.readouterr().out
    assert "longer − a" in said and "train.lr" in said and "points" in said and "Tango" in said
    page = (home / "page.html").read_text()
    assert "longer" in page and str(home) not in page
    assert main(["compare", "runs/a", "runs/longer", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"][0]["differences"][0]["measure"] == "accuracy"
    assert [each["path"] for each in found["runs"]] == ["runs/a", "runs/longer"]


def test_the_page_in_a_browser(browser, home):
    from tests.look.browser import PHONE, eventually, opened

    main(["compare", "runs/a", "runs/longer", "runs/seed", "--out", "three.html"])
    with opened(browser, home / "three.html") as shown:
        assert shown.locator(".compared h2").all_inner_texts() == [
            "Outcomes", "On the same examples", "Curves", "Settings that differ",
        ]  # fmt: skip
        eventually(shown, shown.locator(".plot path").count, 3)
        shown.locator("label", has_text="seconds").click()
        shown.locator(".axis-name", has_text="second").wait_for()
        shown.locator("button", has_text="training loss").click()
        eventually(shown, shown.locator(".plot path").count, 6)
        assert "--train.seed" in shown.locator(".reason").inner_text()
    with opened(browser, home / "three.html", viewport=PHONE, color_scheme="dark") as shown:
        assert shown.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
