"""Texts read in order with a memory, and permutation LMs: sources, resumed runs, evaluations, commands."""

from __future__ import annotations

import os
import re
import shutil

import numpy as np
import pytest
import torch

from regard.data.batch import IGNORE
from regard.generation.generate import generate
from regard.models.decoder import Decoder, DecoderConfig
from regard.recipes.base import problem_of_run
from regard.recipes.text import language_model as jobs
from regard.recipes.text.dataset import StreamSource, TextSource
from regard.runs.run import Run
from regard.targets.open import open_target
from regard.training.progress import Observer
from regard.training.stream_task import StreamedToken
from regard.training.tasks import NextToken
from regard.verbs import main, train
from regard.verbs.evaluate import evaluate

IDS = np.arange(1000, dtype=np.int64)  # each token is its place
SENTENCES = "the cat sat on the mat. the dog ran to the cat. a bird sang to the dog. "
TINY = {
    "model.dim": 16,
    "model.depth": 2,
    "model.heads": 2,
    "data.context": 8,
    "data.test": 0.1,
    "train.batch": 4,
    "train.threads": 1,
    "train.evaluate_every": 1000,
}


@pytest.fixture
def folder(tmp_path, monkeypatch, no_report):
    monkeypatch.setattr(jobs, "SAMPLE", 4)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(SENTENCES * 20)
    return tmp_path


def command(capsys, *words):
    code = main.main(list(words))
    said = capsys.readouterr()
    return code, said.out, said.err


# ── the source


def streams(split=801, rows=3, context=16, memory=32, end=900):
    return StreamSource(IDS, split, rows, context, 5, end, memory=memory)


def test_each_row_goes_on_where_it_ended():
    source = streams()
    segments = 800 // (3 * 16)
    for epoch in range(3):
        batches = [source.batch(epoch * segments + i) for i in range(segments)]
        assert [batch["follows"] for batch in batches] == [False] + [True] * (segments - 1)
        rows = torch.cat([batch["tokens"] for batch in batches], 1)
        assert torch.equal(rows, rows[:, :1] + torch.arange(rows.shape[1]))  # without gap or overlap
        assert torch.equal(rows[1:, 0] - rows[:-1, 0], torch.full((2,), rows.shape[1]))
        assert torch.equal(torch.cat([batch.target for batch in batches], 1), rows + 1)
        assert rows.max() < 800
    begins = {int(source.batch(epoch * segments)["tokens"][0, 0]) for epoch in range(8)}
    assert len(begins) > 1 and max(begins) < 16
    assert torch.equal(source.batch(7)["tokens"], streams().batch(7)["tokens"])


@pytest.mark.parametrize("memory", [1, 32, 500])
def test_every_token_of_a_split_is_asked_once_in_order(memory):
    source, windows = streams(memory=memory), TextSource(IDS, 801, 3, 16, 5, 900)
    for split in ("validation", "test"):
        found = list(getattr(source, split)())
        wanted = torch.cat([batch.target.flatten() for batch in getattr(windows, split)()])
        targets = torch.cat([batch.target.flatten() for batch in found])
        assert torch.equal(targets[targets != IGNORE], wanted[wanted != IGNORE])
        for batch in found:
            asked = batch.target != IGNORE
            assert torch.equal(batch["tokens"][asked] + 1, batch.target[asked])
    assert [*streams(end=1000).test()] == []


def test_too_little_text_says_how_many_rows_fit():
    with pytest.raises(ValueError, match="41 tokens.*3 streams.*16.*train.batch 2"):
        streams(split=41).batch(0)


# ── the task


def test_every_batch_of_an_evaluation_stands_alone_and_training_remembers_on():
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=1001, context=16, dim=8, depth=1, heads=1, memory=32)).eval()
    source, task = streams(), StreamedToken(32, 16)
    with torch.no_grad():
        first, follows = task.loss(model, source.batch(0))[0], task.loss(model, source.batch(1))[0]
        held = task.memories
        batches = [*source.validation()]
        whole = task.measure(model, batches)
        assert task.memories is held
        parts = [task.measure(model, [batch])["loss"] for batch in batches]
        counts = [int((batch.target != IGNORE).sum()) for batch in batches]
        assert whole["loss"] == pytest.approx(np.average(parts, weights=counts), rel=1e-9)
        scores = task.score(model, batches)
        assert scores.means()["loss"] == pytest.approx(whole["loss"], rel=1e-6)
        assert scores.means()["accuracy"] == pytest.approx(whole["accuracy"], rel=1e-6)
        windows = NextToken().score(model, TextSource(IDS, 801, 3, 16, 5, 900).validation())
        # the same examples as without a memory, so that runs can be compared
        assert torch.equal(scores.target, windows.target) and torch.equal(scores.counts, windows.counts)
        assert scores.means()["loss"] != windows.means()["loss"]
        again = StreamedToken(32, 16)
        assert torch.equal(again.loss(model, source.batch(0))[0], first)
        assert torch.equal(again.loss(model, source.batch(1))[0], follows)
    with pytest.raises(ValueError, match="Linear has no memory"):
        task.loss(torch.nn.Linear(2, 2), source.batch(0))


# ── runs with a memory


class Losses(Observer):
    def __init__(self, fall=None):
        self.seen, self.fall = [], fall

    def stepped(self, step, loss, tokens, seconds):
        self.seen.append((step, loss))
        if step == self.fall:
            raise KeyboardInterrupt


def trained(out, fall=None, steps=6, **options):
    losses = Losses(fall)
    how = {**TINY, "model.memory": 20, "model.ngrams": 3, "train.save_every": 2, **options}
    run = None
    try:
        run = train.train("text", data="text.txt", out=out, steps=steps, options=how, observers=[losses])
    except KeyboardInterrupt:
        assert fall is not None
    return run, losses.seen


@pytest.mark.parametrize("options", [
    {},
    # an epoch ends in between
    {"train.accumulate": 2, "train.precision": "bfloat16", "train.batch": 20},
])  # fmt: skip
def test_a_killed_run_resumes_with_its_memory_bit_for_bit(folder, options):
    _, whole = trained("whole", **options)
    trained("cut", fall=3, **options)
    shutil.copytree("cut", "forgetful")
    second, other = Losses(), Losses()
    train.train("text", out="cut", resume=True, observers=[second])
    assert [step for step, _ in second.seen] == [3, 4, 5, 6]
    assert second.seen == whole[2:]
    weights = [(folder / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]
    with pytest.MonkeyPatch.context() as patch:  # a planted fault: nothing is remembered
        patch.setattr(StreamedToken, "load", lambda task, model, tensors: None)
        train.train("text", out="forgetful", resume=True, observers=[other])
    assert other.seen != whole[2:]


def test_evaluation_with_another_memory(folder, capsys):
    run, _ = trained("mine", steps=3)
    losses = {memory: evaluate("mine", options={"memory": memory}).measures["loss"] for memory in (0, 20, 60)}
    assert len(set(losses.values())) == 3
    assert evaluate("mine").measures["loss"] == losses[20] == pytest.approx(run.config.test["loss"], rel=1e-4)
    code, out, _ = command(capsys, "evaluate", "mine", "--memory", "60")
    assert code == 0 and f"{losses[60]:.4f}" in out
    code, out, _ = command(capsys, "evaluate", "mine", "--data", "text.txt", "--memory", "60")
    assert code == 0 and f"of {len(SENTENCES) * 20 - 1:,} tokens" in out
    for words, pattern in (
        (["--memory", "-1"], "memory.*-1"),
        (["--memory", "many"], "memory.*'many'"),
        (["--memory", "99999999999"], "memory.*99,?999"),
    ):
        code, _, error = command(capsys, "evaluate", "mine", *words)
        assert code == 2 and error.count("\n") == 1
        assert re.search(pattern, error)
    code, _, error = command(
        capsys, "train", "text", "--data", "text.txt", "--model.memory", "8", "--model.position", "learned"
    )
    assert code == 2 and "memory=8" in error and "position=learned" in error and error.count("\n") == 1


# ── permutation LMs


def test_a_permutation_lm_writes_fills_and_starts_a_classifier(folder, capsys):
    words = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    how = ["train", "text", "--data", "text.txt", "--out", "mine", "--train.steps", "3"]
    code, out, error = command(capsys, *how, "--task", "permutation", "--model.predicted", "0.25", *words)
    assert code == 0, error
    run = Run.open("mine")
    assert run.config.kind == "permutation" and run.config.model["predicted"] == 0.25
    assert "regard generate mine" in out.replace("-m ", "")
    found = evaluate("mine")
    assert set(found.measures) == {"loss", "accuracy", "loss in order", "perplexity in order"}
    assert evaluate("mine", "text.txt").count == len(SENTENCES) * 20 - 1
    model = problem_of_run(run).load(run)
    assert len("".join(generate(model, "the ", max_new=6, seed=0))) == 6
    given = open_target("mine").reader.read("the cat")
    assert given.answers == "next" and given.stream(14).labels[:8] == (*given.streams[0].labels, "t→?")
    assert given.stream(7) is None and given.stream(13) is None
    # an encoder takes all of it, a classifier all but the head
    body = model.state_dict()
    (folder / "rows.csv").write_text("text,label\n" + "the cat sat,a\nthe dog ran,b\n" * 12)
    for name, options in (("filler", {"data": "text.txt", "model": "encoder"}), ("judge", {"data": "rows.csv"})):
        still = {"train.lr": 1e-9, "train.adam_lr": 1e-9, "train.weight_decay": 0.0, "train.threads": 1}
        train.train("text", **options, out=name, start="mine", steps=1, observers=[], options=still)
        mine = problem_of_run(Run.open(name)).load(Run.open(name)).state_dict()
        for key, tensor in body.items():
            if not (name == "judge" and key.startswith("head.")):
                torch.testing.assert_close(mine[key], tensor, rtol=0, atol=1e-4)


@pytest.mark.parametrize("words, pattern", [
    (["--task", "nxt"], "task.*'nxt'.*'next'.*permutation"),
    (["--task", "masked", "--model", "decoder"], "--task masked.*encoder.*--model decoder"),
    (["--task", "permutation", "--model", "encoder"], "--task permutation.*--model encoder"),
    (["--task", "next", "--model", "permutation"], "--task next.*decoder.*lstm.*--model permutation"),
    (["--task", "masked", "--data", "rows.csv"], "--task masked.*rows.csv.*labels"),
    (["--task"], "--task needs a value"),
    (["--task", "permutation", "--model.ngrams", "3"], "ngrams"),
    (["--task", "permutation", "--model.predicted", "2"], "predicted.*2"),
    (["--task", "permutation", "--model.memory", "8"], "no option --model.memory.*--task permutation --help"),
    (["--model.memory", "8", "--train.compile"], "--train.compile.*--model.memory 8"),
    (["--model.memory", "8", "--model", "encoder"], "--model.memory"),
])  # fmt: skip
def test_a_contradiction_is_one_line(folder, capsys, words, pattern):
    (folder / "rows.csv").write_text("text,label\na cat,a\n")
    data = [] if "--data" in words else ["--data", "text.txt"]
    code, _, error = command(capsys, "train", "text", *data, *words)
    assert code == 2 and error.count("\n") == 1 and re.search(pattern, error), error


def test_other_recipes_have_no_task(folder, capsys):
    code, _, error = command(capsys, "train", "sets", "--task", "next")
    assert code == 2 and "--task" in error and "sets" in error and error.count("\n") == 1


def test_a_run_is_resumed_with_its_own_task(folder, capsys):
    trained("mine", steps=2)
    code, _, error = command(capsys, "train", "text", "--resume", "--out", "mine", "--task", "masked")
    assert code == 2 and "--task masked" in error and "decoder" in error
    assert train.train("text", out="mine", resume=True, task="next", observers=[]).config.kind == "decoder"
    with pytest.raises(ValueError, match="task.*masked.*decoder"):
        train.train("text", data="text.txt", out="other", model="decoder", task="masked")
