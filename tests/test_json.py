"""JSON is always JSON: no NaN and no infinity, in what is written and in what is printed; and no answer is no number."""

import ast
import io
import json
import math
from pathlib import Path

import pytest
import torch

import regard
from regard import files
from regard.data.batch import Batch
from regard.recipes.evaluation import evaluate_split
from regard.recipes.job import Split
from regard.recipes.prediction import Prediction
from regard.runs.new_run import create_run
from regard.training.progress import Lines
from regard.training.tasks import Classify, keep_finite
from regard.verbs import main

ROOT = Path(files.__file__).parent
# between processes of our own, or as a key: names, texts and whole numbers only
PIPES = {"data/tokenizer.py", "data/cache.py", "recipes/same_data.py", "training/agree.py", "training/ranks.py"}
BAD = [math.nan, math.inf, -math.inf]


def strict(text):
    """JSON as the standard has it."""

    def refuse(constant):
        raise AssertionError(f"{constant} in {text[:200]}")

    return json.loads(text, parse_constant=refuse)


def careless(tree):
    """Lines that write JSON without refusing what JSON does not have."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.dumps", "json.dump", "dumps", "dump"):
            refuses = any(each.arg == "allow_nan" and ast.unparse(each.value) == "False" for each in node.keywords)
            found += [] if refuses else [node.lineno]
    return found


def test_nothing_is_written_or_printed_that_could_hold_nan():
    wrong = {}
    for path in sorted(ROOT.rglob("*.py")):
        lines = careless(ast.parse(path.read_text("utf-8")))
        if lines and str(path.relative_to(ROOT)) not in PIPES:
            wrong[str(path.relative_to(ROOT))] = lines
    assert not wrong


@pytest.mark.parametrize("code", ["json.dumps(x)", "json.dump(x, file, indent=2)", "json.dumps(x, allow_nan=True)"])
def test_a_planted_one_is_seen(code):
    assert careless(ast.parse(code)) == [1]


@pytest.mark.parametrize("bad", BAD)
def test_a_prediction_that_is_no_number_is_an_error(bad):
    part = Prediction(input="point 1", values={"y": bad})
    for made in (
        Prediction(input="x", labels={"a": 0.5, "b": bad}),
        Prediction(input="x", values={"y": bad}),
        Prediction(input="x", values={"y": 1.0}, each=(part,)),
    ):
        found = made.without_nan()
        assert "is not a number" in found.error and not found.labels and not found.values and not found.each
        assert strict(files.json_text(found.to_json()))["error"] == found.error
    good = Prediction(input="x", values={"y": 1.0}, each=(Prediction(input="p", values={"y": 2.0}),))
    assert good.without_nan() == good


@pytest.mark.parametrize("bad", BAD)
def test_a_loss_that_is_no_number_cannot_be_evaluated_and_other_measures_are_left_out(bad):
    class Model(torch.nn.Module):
        def forward(self, tokens):
            return torch.full((len(tokens), 2), bad)

    batches = [Batch({"tokens": torch.zeros(3, 2)}, torch.zeros(3, dtype=torch.long))]
    split = Split(name="test", count=3, unit="rows", batches=lambda: batches)
    with pytest.raises(ValueError, match="the loss on the test split is not a number"):
        evaluate_split(Model(), Classify(), split, ("a", "b"))
    assert keep_finite({"loss": bad, "R²": bad, "MAE": 1.0}) == {"loss": bad, "MAE": 1.0} or math.isnan(bad)
    assert "R²" not in keep_finite({"loss": 1.0, "R²": bad})


@pytest.mark.parametrize("bad", BAD)
def test_nan_is_neither_written_nor_read(tmp_path, bad):
    for write in (files.write_json, files.write_sealed):
        with pytest.raises(ValueError, match="JSON|JSON compliant"):
            write(tmp_path / "x.json", {"a": bad})
    assert not (tmp_path / "x.json").exists()
    (tmp_path / "x.json").write_text(json.dumps({"a": bad}))
    with pytest.raises(ValueError, match="is no JSON number"):
        files.read_json(tmp_path / "x.json")


def test_the_commands_print_json_as_the_standard_has_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "t.csv").write_text(
        "text,label\n" + "".join(f"word {'ab'[i % 2]} {i},{'xy'[i % 2]}\n" for i in range(60))
    )
    options = {"model.dim": 8, "model.depth": 1, "model.heads": 1, "train.batch": 8}
    regard.train("text", data="t.csv", out="run", steps=3, options=options, observers=[], report=False)
    for words in (["evaluate", "run"], ["predict", "run", "word a"], ["check", "run"], ["verify", "run"]):
        main.main([*words, "--json"])
        out = capsys.readouterr().out
        for text in [out] if words[0] != "predict" else out.splitlines():
            assert strict(text)
    for path in (tmp_path / "run").rglob("*.json"):
        strict(path.read_text("utf-8"))
    for line in (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines():
        strict(line)


def test_an_evaluation_before_the_first_step_of_a_resumed_run_shows_no_loss(tmp_path):
    """A run that was stopped in its evaluation begins with that."""
    said = io.StringIO()
    lines = Lines(said)
    lines.started(create_run(tmp_path / "run", {}), 9, 4)
    lines.evaluated(4, {"loss": 1.5})
    assert said.getvalue().splitlines()[-1] == "step 4/9  validation 1.5000"
    lines.stepped(5, 2.0, 10, 0.1)
    lines.evaluated(5, {"loss": 1.25})
    assert said.getvalue().splitlines()[-1] == "step 5/9  loss 2.0000  validation 1.2500"
