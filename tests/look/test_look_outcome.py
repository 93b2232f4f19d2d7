"""A report opens with the outcome: the figure, examples of the run's own data, advice, and what to type next."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import RegardError
from regard.look.views.outcome import outcome
from regard.runs.number_format import say_percent
from regard.runs.report_examples import FILE, first_example
from regard.runs.run import Run
from regard.verbs import finish, look, train
from regard.verbs.look import open_session

TINY = {"model.dim": 16, "model.depth": 1, "model.heads": 2, "train.batch": 8, "train.evaluate_every": 5}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A classifier of texts with a report, and what it was asked to keep no examples of."""
    folder = tmp_path_factory.mktemp("outcome")
    chance = np.random.default_rng(0)
    words = {"pos": ["zippy", "lovely"], "neg": ["dreary", "dull"]}
    rows = [f"film {i} was {chance.choice(words[label])},{label}" for i in range(30) for label in words]
    (folder / "films.csv").write_text("\n".join(["text,label", *rows, '"they say: dull",pos']))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        for slow in ("write_laws", "_write_confusion"):
            patch.setattr(finish, slow, lambda *what: None)
        patch.setattr(finish.plot, "curves", lambda run: None)
        known = TINY | {"data.validation": 0.4}
        train.train("text", data="films.csv", out="films", steps=20, options=known, observers=[])
        private = known | {"train.examples": False}
        train.train("text", data="films.csv", out="private", steps=1, options=private, observers=[])
        yield folder


@pytest.fixture(autouse=True)
def at_home(home, monkeypatch):
    monkeypatch.chdir(home)
    monkeypatch.setenv("REGARD_CACHE", str(home / "cache"))


def test_it_says_what_was_trained_on_what_and_how_good_it_is():
    run = Run.open("films")
    found = outcome(run)
    best = max(
        (each for each in run.metrics() if each["event"] == "validation"), key=lambda e: (e["accuracy"], -e["loss"])
    )
    assert "20 steps" in found["sentence"] and "films.csv: 61 rows" in found["sentence"]
    held = run.config.counts["validation"]
    first = found["figures"][0]
    assert first == {
        "measure": "accuracy", "said": say_percent(best["accuracy"]), "split": "validation", "of": f"of {held} rows",
    }  # fmt: skip
    assert found["next"][0][0] == 'regard predict films "..."'
    assert {command.split()[1] for command, _ in found["next"]} == {"predict", "look", "evaluate", "compare"}


def test_examples_are_of_the_split_and_predicted_as_predict_does():
    lines = (line.rsplit(",", 1) for line in Path("films.csv").read_text().splitlines()[1:])
    table = {text.strip('"'): label for text, label in lines}
    kept = json.loads(Path("films", FILE).read_text())["examples"]["items"]
    assert any(each["right"] for each in kept) and len(kept) <= 8
    said = regard.predict("films", [each["text"] for each in kept])
    for each, prediction in zip(kept, said, strict=True):
        label, share = next(iter(prediction.labels.items()))
        assert (each["predicted"], each["truth"]) == (label, table[each["text"]])
        assert each["right"] == (each["predicted"] == each["truth"])
        assert each["share"] == pytest.approx(share, abs=1e-5)


def test_look_shows_a_text_of_the_data_and_the_figure_of_predict():
    data = open_session("films").show({})
    kept = first_example(Run.open("films"), "text")
    assert data["input"]["text"] == kept["text"] and data["input"]["truth"] == kept["truth"]
    assert data["views"][0]["view"] == "outcome" and data["opens"] is None
    given = open_session("films", "it was dull").show({})
    assert given["views"][0]["view"] == "outcome" and given["opens"] == given["views"][1]["view"]
    (classes,) = [view for view in data["views"] if view["view"] == "classes"]
    label, share = classes["likely"][0]
    (prediction,) = regard.predict("films", kept["text"])
    assert prediction.format().startswith(f"{label} {say_percent(share)}")


def test_the_data_is_not_needed(home):
    (home / "films.csv").rename(home / "elsewhere.csv")
    try:
        assert "film" in open_session("films").show({})["input"]["text"]
    finally:
        (home / "elsewhere.csv").rename(home / "films.csv")


def test_without_examples_a_row_of_the_data_is_shown(home, tmp_path):
    """Not a sentence with words that the model does not know."""
    shutil.copytree("films", tmp_path / "films")
    run = Run.open(tmp_path / "films")
    run.write(FILE, {})
    data = open_session(run.path).show({})
    assert data["input"]["text"] == Path("films.csv").read_text().splitlines()[1].rsplit(",", 1)[0]
    assert "may have learned" in " ".join(data["notes"])


@pytest.mark.parametrize(
    "odd",
    [
        [], {"examples": []}, {"examples": {"items": 3}}, {"examples": {"items": [3, {"text": "x"}]}}, {"next": 3},
        {"examples": {"items": [{"name": "a", "truth": 3, "predicted": "b"}]}, "data": {}, "validation": "x"},
        {"examples": {"items": [{"name": "a", "truth": "c", "predicted": "b", "elements": [[1], "2"]}]}},
    ],
)  # fmt: skip
def test_an_outcome_of_somebody_else_is_read_with_care(odd, home, tmp_path):
    shutil.copytree("films", tmp_path / "films")
    run = Run.open(tmp_path / "films")
    run.write(FILE, odd)
    assert outcome(run)["examples"] is None and outcome(run)["figures"]
    assert first_example(run, "text") is None


def test_examples_can_be_left_out():
    run = Run.open("private")
    assert run.read(FILE)["examples"] is None and outcome(run)["examples"] is None
    page = Path("private/report.html").read_text()
    rows = [line.rsplit(",", 1)[0] for line in Path("films.csv").read_text().splitlines()[1:]]
    assert not [text for text in rows if text in page]


def test_a_damaged_outcome_is_refused(home, tmp_path):
    shutil.copytree("films", tmp_path / "films")
    (tmp_path / "films" / FILE).write_text("{}")
    with pytest.raises(RegardError, match=FILE):
        look.look(tmp_path / "films", out=tmp_path / "page.html")


def test_a_module_of_your_own_has_an_outcome(tmp_path):
    x = torch.randn(40, 3)
    model, y = torch.nn.Linear(3, 2), x[:, 0].gt(0).long()
    run = regard.train(model=model, task="classify", data=(x, y), out=tmp_path / "own", steps=3, observers=[])
    found = outcome(run, model)
    assert "Linear with 8 parameters" in found["sentence"] and not found["next"] and found["figures"]


def test_the_report_in_a_browser(browser, home):
    from tests.look.browser import PHONE, opened, plain

    run = Run.open("films")
    with opened(browser, home / "films" / "report.html") as shown:
        assert shown.locator("[role=tab]").first.inner_text() == "Outcome"
        assert shown.locator("[role=tab][aria-selected=true]").inner_text() == "Outcome"
        first = outcome(run)["figures"][0]
        assert plain(shown.locator(".outcome-figure.first").inner_text()) == f"{first['said']} accuracy"
        items = json.loads((home / "films" / FILE).read_text())["examples"]["items"]
        assert shown.locator(".outcome-text").all_inner_texts() == [each["text"] for each in items]
        assert shown.locator(".plot path").count() == 2 and not shown.locator(".asked").is_visible()
        shown.locator("#tab-attention").click()
        assert shown.locator(".asked").is_visible()
    with opened(browser, home / "films" / "report.html", viewport=PHONE, color_scheme="dark") as shown:
        assert shown.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
