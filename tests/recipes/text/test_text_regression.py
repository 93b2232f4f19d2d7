"""Numbers from texts: the names of Unicode characters, and the numbers they stand for."""

import csv
import json
import unicodedata

import numpy as np
import pytest
import torch

import regard
from regard.models.encoder import EncoderConfig
from regard.recipes.job import DataContext
from regard.recipes.settings import settings_of_kind
from regard.recipes.text.config import LabelledTextConfig
from regard.recipes.text.recipe import RECIPE
from regard.training.config import TrainConfig
from regard.training.progress import Observer
from regard.verbs.look import write_report
from regard.verbs.main import main

OPTIONS = {
    "data.label": "value",
    "model.dim": 16,
    "model.heads": 2,
    "train.batch": 64,
    "train.lr": 0.01,
    "train.save_every": 20,
}


class Killed(Exception):
    """What ends a run in its midst."""


class Killer(Observer):
    def stepped(self, step, loss, size, seconds):
        if step == 30:
            raise Killed


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """VULGAR FRACTION ONE HALF is 0.5; of all characters that stand for a number up to ten."""
    characters = [chr(code) for code in range(0x12000)]
    values = {unicodedata.name(each, ""): unicodedata.numeric(each, 11.0) for each in characters}
    rows = [(name.lower(), value) for name, value in values.items() if name and value <= 10]
    path = tmp_path_factory.mktemp("names") / "names.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "value"), *rows])
    return path


def test_values_of_names_train_resume_predict_and_evaluate(names, tmp_path, capsys):
    out = tmp_path / "run"
    with pytest.raises(Killed):
        regard.train("text", data=str(names), out=out, steps=50, options=OPTIONS, observers=[Killer()])
    run = regard.train("text", out=out, resume=True, observers=[], report=False)
    write_report(run, str(run.path))
    target, counts = run.config.processor["target"], run.config.counts
    assert target["classes"] == [] and target["numbers"][0]["name"] == "value"
    found = regard.evaluate(run.path)
    assert found.measures["MAE"] < 1.2 and found.measures["R²"] > 0.7 and found.count == counts["validation"]
    eight, one = regard.predict(run.path, ["thai digit eight", "tamil digit one"])
    assert eight.labels == {} and eight.values["value"] > 6 and one.values["value"] < 3
    with names.open() as file:
        rows = list(csv.DictReader(file))[::40]
    told = regard.predict(run.path, [row["text"] for row in rows])
    off = np.mean([abs(a.values["value"] - float(row["value"])) for a, row in zip(told, rows, strict=True)])
    (tmp_path / "some.csv").write_text("text,value\n" + "".join(f"{r['text']},{r['value']}\n" for r in rows))
    other = regard.evaluate(run.path, data=str(tmp_path / "some.csv"))
    assert other.measures["MAE"] == pytest.approx(off, rel=1e-4)
    assert main(["predict", str(run.path), "digit one", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["values"]) == {"value"}
    page = (run.path / "report.html").read_text()
    assert "the prediction of the whole" in page and "the most likely prediction" not in page
    (tmp_path / "words.csv").write_text("text,value\ndigit one,uno\n")
    with pytest.raises(ValueError, match=r"line 2 of .*words.csv has 'uno' in column 'value'.*number"):
        regard.evaluate(run.path, data=str(tmp_path / "words.csv"))


def test_labels_are_asked_as_said(tmp_path):
    path = tmp_path / "stars.jsonl"
    path.write_text("".join(json.dumps({"text": f"a film {i}", "label": i % 5 + 1}) + "\n" for i in range(40)))

    def prepared(**options):
        data, model = LabelledTextConfig(path=str(path), **options), EncoderConfig(vocab=1, context=1, classes=1)
        settings = settings_of_kind("encoder", LabelledTextConfig)(data=data, model=model, train=TrainConfig(batch=50))
        return RECIPE.problems["supervised"].prepare(settings, "encoder", DataContext(cache=tmp_path))

    classes, numbers = prepared(), prepared(asks="numbers")
    assert classes.labels == tuple("12345") and classes.number is None and "asks numbers" in classes.notes[0]
    learned = numbers.source.batch(0).target
    assert numbers.labels is None and numbers.notes == () and learned.dtype == torch.float32
    assert learned.mean() == pytest.approx(0, abs=1e-6) and learned.numpy().std() == pytest.approx(1)
    path.write_text(path.read_text().replace('"label": 3', '"label": 3.5'))
    assert prepared().number is not None and len(prepared(asks="classes").labels) == 5
    path.write_text(path.read_text().replace("3.5", '"many"', 1))
    with pytest.raises(ValueError, match=r"line 3 .*'many' in column 'label'.*data.asks classes"):
        prepared(asks="numbers")
    with pytest.raises(ValueError, match="asks.*auto, classes.*numbers.*'number'"):
        LabelledTextConfig(path="a.csv", asks="number")
