"""`evaluate`: on its own split a run has the measures that training saw, on another file those of its predictions."""

import csv
import json
import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import regard
from regard.data.tokenizer import load as load_tokenizer
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.verbs import main, train

QUICK = {"observers": [], "report": False}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def last(run, event):
    """The last event of this name among the metrics of a run."""
    return [each for each in run.metrics() if each["event"] == event][-1]


def share_right(path, truth):
    """Accuracy by hand: of predictions for these inputs."""
    found = regard.predict(path, list(truth))
    assert not any(each.error for each in found)
    return sum(next(iter(each.labels)) == label for each, label in zip(found, truth.values(), strict=True)) / len(truth)


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────

TINY = {"model.dim": 32, "model.depth": 1, "model.heads": 2, "train.batch": 4, "train.evaluate_every": 1000}


@pytest.fixture
def language_model(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat. the dog ran to the cat. " * 30)
    options = TINY | {"data.context": 16, "train.precision": "float32"}
    return train.train("text", data="text.txt", out="lm", steps=20, options=options, **QUICK)


def test_a_language_model_on_its_own_text_and_on_another(language_model, tmp_path):
    found = regard.evaluate("lm")
    assert (
        found.split == "validation"
        and found.unit == "tokens"
        and found.count == language_model.config.counts["validation"]
    )
    assert found.measures["loss"] == pytest.approx(last(language_model, "validation")["loss"], rel=1e-6)
    assert found.measures["perplexity"] == pytest.approx(math.exp(found.measures["loss"]))
    other = tmp_path / "other.txt"
    other.write_text("the mat sat on the dog. the cat ran.")
    found = regard.evaluate("lm", other)
    model, ids = (load_model(language_model), load_tokenizer(language_model.tokenizer_file).encode(other.read_text()))
    ids = torch.from_numpy(ids.astype(np.int64))
    total = 0.0
    # windows that follow each other, every token but the first a target once
    for start in range(0, len(ids) - 1, 16):
        window = ids[start : start + 17]
        with torch.no_grad():
            total += float(F.cross_entropy(model(window[None, :-1])[0], window[1:], reduction="sum"))
    assert found.count == len(ids) - 1 and found.split == str(other)
    assert found.measures["loss"] == pytest.approx(total / (len(ids) - 1), rel=1e-5)


def test_a_classifier_of_texts(tmp_path):
    rows = [
        {"text": f"a {word} film {i}", "label": label}
        for i in range(30)
        for word, label in (("great", "good"), ("dull", "bad"))
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run = train.train("text", data="rows.jsonl", out="run", steps=8, options=TINY, **QUICK)
    found = regard.evaluate("run")
    assert (found.split, found.count, found.unit) == ("validation", 6, "rows")
    assert found.measures["accuracy"] == pytest.approx(last(run, "validation")["accuracy"], abs=1e-6)
    truth = {"great": "good", "a dull day": "bad", "great and dull": "good", "so dull": "good"}
    (tmp_path / "other.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in truth.items()))
    found = regard.evaluate("run", "other.csv")
    assert found.count == 4 and found.measures["accuracy"] == share_right("run", truth)
    assert found.labels == ("bad", "good") and found.confusion.sum(1).tolist() == [1, 3]
    (tmp_path / "other.csv").write_text("text,label\nfine,odd\n")
    with pytest.raises(ValueError, match="2.*other.csv.*class 'odd'.*bad, good"):
        regard.evaluate("run", "other.csv")


# ── images ──────────────────────────────────────────────────────────────────────────────────────────────────


def write_images(place, names, seed):
    draw = np.random.default_rng(seed)
    for label, light in names.items():
        (place / label).mkdir(parents=True, exist_ok=True)
        for i in range(8):
            pixels = draw.integers(0, 150, (12, 12)) + light
            Image.fromarray(pixels.astype(np.uint8)).save(place / label / f"{i}.png")
    return {str(path): path.parent.name for path in sorted(place.glob("*/*.png"))}


def test_images(tmp_path):
    write_images(tmp_path / "data" / "train", {"bright": 100, "dark": 0}, 0)
    write_images(tmp_path / "data" / "test", {"bright": 60, "dark": 40}, 1)
    options = {"model.widths": (4, 4), "model.hidden": 8, "train.batch": 8, "train.evaluate_every": 1000}
    run = train.train("images", data="data", model="lenet", out="run", steps=6, options=options, **QUICK)
    found = regard.evaluate("run")
    assert (found.split, found.count, found.unit) == ("test", 16, "images")
    assert found.measures == pytest.approx({name: last(run, "test")[name] for name in found.measures}, rel=1e-6)
    truth = write_images(tmp_path / "one", {"dark": 90}, 2)  # one class is enough to measure by
    found = regard.evaluate("run", "one")
    assert found.count == 8 and found.measures["accuracy"] == share_right("run", truth)
    assert regard.evaluate("run", "data").count == 16  # where the data names a test split, that is measured
    assert not found.notes
    (tmp_path / "one" / "dark" / "0.png").write_bytes(b"not an image")
    found = regard.evaluate(run, "one")
    assert found.count == 7 and len(found.notes) == 1 and "0.png" in found.notes[0]
    write_images(tmp_path / "two", {"grey": 90}, 3)
    with pytest.raises(ValueError, match="'grey'.*model.*bright, dark"):
        regard.evaluate("run", "two")


# ── sets ────────────────────────────────────────────────────────────────────────────────────────────────────


def write_table(path, sets, seed):
    draw = np.random.default_rng(seed)
    rows, totals = ["basket,price,total"], {}
    for name in range(sets):
        prices = draw.integers(1, 9, draw.integers(1, 5))
        totals[f"{path}: b{name}"] = prices.sum() + 0.5
        rows += [f"b{name},{price},{prices.sum() + 0.5}" for price in prices]
    path.write_text("\n".join(rows))
    return totals


def test_sets_of_a_table(tmp_path):
    write_table(tmp_path / "a.csv", 40, 0)
    options = {
        "data.id": "basket",
        "data.target": "total",
        "model.hidden": 16,
        "train.batch": 8,
        "train.evaluate_every": 1000,
    }
    run = train.train("sets", data="a.csv", out="run", steps=5, options=options, **QUICK)
    found = regard.evaluate("run")
    assert (found.split, found.count, found.unit, found.labels) == ("validation", 4, "sets", None)
    assert found.measures["MAE"] == pytest.approx(last(run, "validation")["MAE"], rel=1e-3)
    totals = write_table(tmp_path / "b.csv", 7, 1)
    answers = {each.input: each.values["total"] for each in regard.predict("run", tmp_path / "b.csv")}
    assert answers.keys() == totals.keys()
    off = np.mean([abs(answers[name] - totals[name]) for name in totals])
    found = regard.evaluate("run", tmp_path / "b.csv")
    assert found.count == 7 and found.measures["MAE"] == pytest.approx(off, rel=1e-4)
    assert found.confusion is None and "confusion" not in found.to_json()
    rows = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
    for number, data in enumerate((rows, {name: [row[name] for row in rows] for name in rows[0]})):
        assert regard.evaluate("run", data, out=f"{number}.csv").measures == found.measures
        assert len((tmp_path / f"{number}.csv").read_text().splitlines()) == 1 + 7


def write_clouds(place, seed):
    draw = np.random.default_rng(seed)
    for label, shape in (("ball", (1, 1, 1)), ("rod", (5, 0.2, 0.2))):
        (place / label).mkdir(parents=True)
        for i in range(6):
            np.save(place / label / f"{i}.npy", draw.normal(size=(20, 3)) * shape)
    return {str(path): path.parent.name for path in sorted(place.glob("*/*.npy"))}


def test_clouds_and_made_sets(tmp_path):
    write_clouds(tmp_path / "a", 0)
    options = {"model.hidden": 16, "train.batch": 4, "train.evaluate_every": 1000}
    train.train("sets", data="a", out="run", steps=5, options=options, **QUICK)
    truth = write_clouds(tmp_path / "b", 1)
    found = regard.evaluate("run", tmp_path / "b")
    assert found.count == 12 and found.measures["accuracy"] == pytest.approx(share_right("run", truth))
    train.train("sets", data="max", out="made", steps=2, options=options, **QUICK)
    assert regard.evaluate("made").count == 512
    with pytest.raises(ValueError, match="the task max is synthetic"):
        regard.evaluate("made", tmp_path / "b")


# ── graphs ──────────────────────────────────────────────────────────────────────────────────────────────────


def write_graph(place, nodes, seed, column):
    draw = np.random.default_rng(seed)
    place.mkdir()
    x = draw.normal(size=(nodes, 2))
    labels = {f"n{i}": column(x[i]) for i in range(nodes)}
    (place / "edges.csv").write_text(
        "source,target\n" + "".join(f"n{i},n{(i * 7 + 1) % nodes}\n" for i in range(nodes))
    )
    rows = [f"n{i},{x[i, 0]},{x[i, 1]},{labels[f'n{i}']}" for i in range(nodes)]
    (place / "nodes.csv").write_text("id,a,b,label\n" + "\n".join(rows))
    return labels


@pytest.mark.parametrize("what", ["classes", "numbers"])
def test_graphs(tmp_path, what):
    column = {"classes": lambda x: "high" if x[0] > 0 else "low", "numbers": lambda x: round(float(x[0]) + 0.25, 3)}[
        what
    ]
    write_graph(tmp_path / "a", 60, 0, column)
    options = {"model.hidden": 16, "train.evaluate_every": 1000}
    run = train.train("graphs", data="a", out="run", steps=20, options=options, **QUICK)
    found = regard.evaluate("run")
    assert (found.split, found.count, found.unit) == ("test", 6, "nodes")
    assert found.measures == pytest.approx({name: last(run, "test")[name] for name in found.measures}, rel=1e-5)
    labels = write_graph(tmp_path / "b", 30, 1, column)
    (answer,) = regard.predict("run", tmp_path / "b")
    found = regard.evaluate("run", tmp_path / "b")
    assert found.count == 30
    if what == "classes":
        right = sum(next(iter(node.labels)) == labels[node.input] for node in answer.each)
        assert found.measures["accuracy"] == pytest.approx(right / 30) and int(found.confusion.trace()) == right
    else:
        off = np.mean([abs(node.values["label"] - labels[node.input]) for node in answer.each])
        assert found.measures["MAE"] == pytest.approx(off, rel=1e-4)


# ── the command, and what is wrong ──────────────────────────────────────────────────────────────────────────


def test_the_command(language_model, capsys):
    assert main.main(["evaluate", "lm"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("validation: ") and "perplexity" in line and line.count("\n") == 1 and "tokens)" in line
    assert main.main(["evaluate", "lm", "--data", "text.txt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["split", "count", "unit", "measures"] and found["split"] == "text.txt"


@pytest.mark.parametrize(
    "words, told",
    [
        ([], "regard.*run.*none"),
        (["lm", "other"], "regard.*run.*lm other"),
        (["nowhere"], "nowhere does not exist"),
        (["lm", "--date", "x"], "option --date.*mean --data"),
        (["lm", "--data", "gone.txt"], r"gone\.txt"),
    ],
)
def test_what_is_wrong_is_one_line(language_model, capsys, words, told):
    assert main.main(["evaluate", *words]) == 2
    said = capsys.readouterr()
    assert re.search(told, said.err) and said.err.count("\n") == 1 and said.out == ""


def test_data_that_is_no_longer_the_same_is_told(language_model, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 40)
    with pytest.raises(ValueError, match="data: bytes"):
        regard.evaluate("lm")


def test_a_module_of_ones_own_has_no_recipe(tmp_path):
    x = torch.randn(20, 3)
    options = {"observers": [], "report": False, "steps": 1}
    train.train(model=torch.nn.Linear(3, 2), task="classify", data=(x, (x[:, 0] > 0).long()), out="mine", **options)
    for ask in (regard.evaluate, lambda run: regard.predict(run, ["x"])):
        with pytest.raises(ValueError, match="mine is of a module of your own.*(data=|array)"):
            ask("mine")
    assert Run.open("mine").config.recipe is None
