"""Additive models of texts and of sets: predictions come with evidence that sums to them, on the page too."""

import csv
import json
import math
import re
import unicodedata

import pytest
import torch
from sklearn.datasets import load_diabetes

import regard
from regard.runs.load import load_model
from regard.verbs.main import main


def page_view(run, name):
    """The data of one tab of the report."""
    html = (run.path / "report.html").read_text()
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', html, re.DOTALL)[1])
    return next((view for view in data["views"] if view["view"] == name), None)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Names of letters: capital or small."""
    folder = tmp_path_factory.mktemp("additive")
    named = [unicodedata.name(chr(code), "").lower() for code in range(0x41, 0x500)]
    rows = [(name, word) for name in named for word in ("capital", "small") if f" {word} " in name]
    with (folder / "letters.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    options = {"model.hidden": 16, "train.lr": 0.01, "train.batch": 64}
    return regard.train(
        "text", data=str(folder / "letters.csv"), model="additive", out=folder / "run", steps=25,
        options=options, observers=[],
    )  # fmt: skip


def test_a_text_says_its_evidence(texts, capsys):
    assert regard.evaluate(texts.path).measures["accuracy"] > 0.9
    given = "latin capital letter e"
    (found,) = regard.predict(texts.path, [given])
    evidence = found.evidence
    assert evidence.of == "capital" and [name for name, _ in evidence.parts] == given.split()
    assert evidence.bias + math.fsum(value for _, value in evidence.parts) == pytest.approx(evidence.total)
    assert max(evidence.parts, key=lambda part: part[1])[0] == "capital"
    model = load_model(texts)
    # the total is the logit: with that of the other class it gives the probability
    ids = torch.as_tensor(regard.load(texts.path).tokenizer.encode(given).astype("int64"))[None]
    logits = model(ids)[0]
    assert logits.max().item() == pytest.approx(evidence.total, abs=1e-5)
    assert found.labels["capital"] == pytest.approx(logits.softmax(-1).max().item(), abs=1e-6)
    assert main(["predict", str(texts.path), given]) == 0
    assert re.search(r"evidence for capital: capital \+[\d.]+, .*bias .*; sum ", capsys.readouterr().out)
    assert main(["predict", str(texts.path), given, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["evidence"]
    assert told["total"] == pytest.approx(evidence.total) and len(told["parts"]) == 4


def test_the_page_of_a_text_shows_evidence(texts):
    shown = page_view(texts, "evidence")
    (column,) = shown["columns"]
    assert column["name"] == "evidence: sums to the logit" and column["signed"]
    bias, total = map(float, re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", column["sentence"].split("bias")[1])[:2])
    assert bias + sum(column["values"]) == pytest.approx(total, abs=0.01)
    assert page_view(texts, "contribution") is None and page_view(texts, "attention") is None


def test_elements_of_a_set_sum_to_a_number(tmp_path):
    data = load_diabetes()
    rows = [("set", "which", "value", "target")]
    for number, (row, target) in enumerate(zip(data.data[:150], data.target, strict=False)):
        rows += [(number, i, 20 * value, target + 0.5) for i, value in enumerate(row)]
    with (tmp_path / "patients.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    run = regard.train(
        "sets", data=str(tmp_path / "patients.csv"), model="additive", out=tmp_path / "run", steps=10,
        options={"model.hidden": 16}, observers=[],
    )  # fmt: skip
    found = regard.predict(run.path, [str(tmp_path / "patients.csv")])[3]
    evidence = found.evidence
    assert evidence.of == "target" and len(evidence.parts) == 10 and evidence.parts[0][0] == "element 1"
    assert evidence.bias + sum(value for _, value in evidence.parts) == pytest.approx(found.values["target"], rel=1e-5)
    assert 50 < found.values["target"] < 300  # in the units of the data
    assert page_view(run, "evidence")["columns"][0]["name"] == "evidence: sums to the number"
    assert page_view(run, "points")["measures"][0]["name"] == "evidence: sums to the number"
    with pytest.raises(ValueError, match="additive.*label.*data.*reviews.csv"):
        regard.train("text", model="additive", out=tmp_path / "t", steps=1, report=False)
    with pytest.raises(ValueError, match="additive.*clusters.*model"):
        regard.train("sets", data="clusters", model="additive", out=tmp_path / "c", steps=1, report=False)
