"""Figures say what they are worth: by what weights were chosen, and what of the data was trained on."""

import numpy as np
import pytest

import regard
from regard.runs.run import Run
from tests.recipes import tiny_data


@pytest.fixture
def run_of(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))

    def make(tiny, **options):
        how = {"out": tmp_path / "run", "steps": 2, "report": False, "observers": []}
        return regard.train(tiny.recipe, data=tiny.data, options={**tiny.options, **options}, **how)

    return make


@pytest.mark.parametrize("kind", ["set_table", "nodes", "images", "meshes"])
def test_predictions_say_what_was_trained_on(kind, tmp_path, run_of):
    tiny = getattr(tiny_data, kind)(tmp_path)
    run = run_of(tiny, **{"data.test": 0.25})
    trained = run.config.counts["train"]
    said = f"{trained} of these 40 "
    if kind != "images":  # arrays are no input
        predictions = regard.predict(run.path, tiny.data)
        assert [note for note in predictions[-1].notes if said in note and "trained on" in note]
    found = regard.evaluate(run.path, tiny.data)
    assert any(said in note for note in found.notes) and found.intervals["accuracy"][0] < found.measures["accuracy"]
    assert not any("trained on" in note for note in regard.evaluate(run.path).notes)
    per_class = found.to_json()["classes"]
    assert [each["count"] for each in per_class] == [20, 20] and {*per_class[0]} >= {"precision", "recall"}


def test_other_data_was_not_trained_on(tmp_path, run_of):
    tiny = tiny_data.set_table(tmp_path)
    run = run_of(tiny)
    other = tmp_path / "other.csv"
    other.write_bytes((tmp_path / "classes.csv").read_bytes())
    assert not regard.predict(run.path, other)[-1].notes


@pytest.mark.parametrize("count, keep", [(100, "loss"), (600, "accuracy")])
def test_few_examples_do_not_choose_weights_by_their_accuracy(count, keep, run_of, tmp_path):
    random = np.random.default_rng(0)
    rows = [f"{i},{random.normal(i % 2):.3f},{'ab'[i % 2]}" for i in range(count)]
    (tmp_path / "rows.csv").write_text("\n".join(["set,x,target", *rows]))
    tiny = tiny_data.Tiny("sets", str(tmp_path / "rows.csv"), {"model.hidden": 4}, count, True)
    assert run_of(tiny).config.keep == keep
    assert Run.open(tmp_path / "run").config.keep == keep
