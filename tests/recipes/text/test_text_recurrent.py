"""Text with models that have no self-attention: language models and classifiers, from the options to the answers."""

import json
import os
import signal

import pytest
import torch

from regard.errors import RegardError
from regard.models.token_model import TokenModel
from regard.recipes.base import get_recipe
from regard.recipes.text import language_model as jobs
from regard.recipes.text.defaults import KINDS
from regard.runs.run import Run
from regard.training.progress import Observer
from regard.verbs.generate import generate
from regard.verbs.load import load
from regard.verbs.main import main
from regard.verbs.predict import predict
from regard.verbs.train import train

TINY = {"model.dim": 16, "model.depth": 1, "data.context": 16, "train.batch": 4, "train.precision": "float32"}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(jobs, "SAMPLE", 4)
    (tmp_path / "text.txt").write_text("the cat sees the dog. the dog hears the cat. " * 20)
    rows = [{"text": f"a {word} film number {i}", "label": word} for i in range(12) for word in ("good", "bad")]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))


def learn(kind, out, data="text.txt", steps=3, observers=(), **more):
    how = {"data": data, "model": kind, "out": out, "steps": steps, "observers": observers}
    return train("text", **how, options=TINY | more, report=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_language_model_is_trained_loaded_and_writes(kind):
    run = Run.open(learn(kind, kind).path)
    assert run.config.kind == kind and run.config.model["classes"] is None
    model = load(kind)
    assert isinstance(model, TokenModel) and model.config.causal
    for how in ({"temperature": 0}, {"beams": 2, "length_penalty": 0.5}):
        text = "".join(generate(kind, "the cat", max_new=70, **how))  # beyond the context, which is no limit
        assert len(text) >= 70
    with pytest.raises(RegardError, match="not a classifier.*regard generate"):
        list(predict(kind, ["a"]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_classifier_is_trained_and_predicts(kind):
    fast = {"model.dropout": 0.0, "train.lr": 0.03, "train.adam_lr": 0.03, "train.batch": 16}
    run = Run.open(learn(kind, kind, "rows.jsonl", 30, **fast).path)
    assert run.config.kind == kind and run.config.model["classes"] == 2
    found = [
        max(each.labels, key=each.labels.get) for each in predict(kind, ["a good film number 3", "a bad film number 5"])
    ]
    assert found == ["good", "bad"]
    with pytest.raises(RegardError, match="classifier.*regard predict.*generate"):
        "".join(generate(kind, "a"))
    assert main(["look", kind, "--out", "page.html"]) == 0  # without attention there is something to see, too


class Losses(Observer):
    """Remembers the losses, and stops a run as Ctrl-C does."""

    def __init__(self, stop_at=None):
        self.seen, self.stop_at = [], stop_at

    def stepped(self, step, loss, tokens, seconds):
        self.seen.append(loss)
        if step == self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_stopped_run_goes_on_to_the_same_losses():
    whole, first, second = Losses(), Losses(stop_at=3), Losses()
    more = {"model.dropout": 0.2}
    learn("lstm", "whole", steps=6, observers=[whole], **more)
    learn("lstm", "cut", steps=6, observers=[first], **more)
    train("text", out="cut", resume=True, observers=[second], report=False)
    assert len(first.seen) == 3 and first.seen + second.seen == whole.seen


def test_each_kind_has_its_own_options():
    recipe = get_recipe("text")
    assert set(KINDS) < set(recipe.models)
    for kind, config in KINDS.items():
        assert type(recipe.defaults("text.txt", kind).model) is config
        assert type(recipe.defaults("rows.jsonl", kind).model) is config
    assert recipe.defaults("rows.jsonl", "gru").model.bidirectional
    with pytest.raises(RegardError, match="'lsmt'.*'lstm'"):
        recipe.defaults("text.txt", "lsmt")


def test_a_language_model_is_the_body_of_a_classifier():
    learn("gru", "body", **{"data.tokens": "words"})
    still = {"train.lr": 1e-12, "train.adam_lr": 1e-12}
    how = {"data": "rows.jsonl", "model": "gru", "out": "head", "start": "body", "steps": 1, "options": still}
    run = train("text", **how, observers=[], report=False)
    assert run.config.model["classes"] == 2
    body, head = load("body"), load("head")
    torch.testing.assert_close(head.layers.weight_hh_l0, body.layers.weight_hh_l0)
    torch.testing.assert_close(head.embed.weight, body.embed.weight)
