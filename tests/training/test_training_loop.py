"""The loop: reproducible, exact after a stop, and clear about what goes wrong. Kills are in test_training_kills.py."""

import errno
import io
import json
import math
import os
import re
import signal
import threading

import pytest
import torch
from torch import nn

from regard import files
from regard.data.batch import IGNORE, Batch
from regard.errors import RegardError
from regard.look.views.history import curves
from regard.look.views.outcome import outcome
from regard.runs.evaluations import advise
from regard.runs.load import load_weights
from regard.runs.new_run import create_run
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.loop import fit
from regard.training.memory import blocks, recompute_activations
from regard.training.progress import Lines
from regard.training.step import pick_device, pick_half, seed_all
from regard.training.tasks import Classify, MaskedToken, NextToken, Regress
from tests.training.cases import VOCAB, WIDTH, At, Pairs, Tiny, interrupt, losses, says, tiny, train


def facts(run):
    return files.read_json(run.state / "latest.json")["facts"]


# ── the same again ──────────────────────────────────────────────────────────────────────────────────────────


def test_it_learns_and_says_so(tmp_path):
    run, result = train(tmp_path / "run", steps=60, decay=0.5)
    assert result.reason == "done" and result.step == result.steps == 60
    assert result.best["loss"] < 1.6 < math.log(VOCAB) and result.best["accuracy"] > 0.5
    assert [step for step, _ in losses(run)] == list(range(1, 61))
    assert set(os.listdir(run.path)) == {
        "manifest.json",
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "model.safetensors",
        "state",
    }
    model = Tiny().eval()
    load_weights(run, model)
    assert run.config.steps == 60
    with torch.no_grad():
        batch = Pairs().batch(0)
        assert nn.functional.cross_entropy(model(batch["tokens"]).flatten(0, 1), batch.target.flatten()) < 1.7


def test_the_same_seed_gives_the_same_losses_whatever_is_watched(tmp_path):
    class Noisy:
        def stepped(self, *facts):
            torch.randn(3)

    first, _ = train(tmp_path / "a")
    second, _ = train(
        tmp_path / "b", observers=[Noisy()], evaluate_every=3, save_every=2, sample=lambda model: str(torch.randn(1))
    )
    other, _ = train(tmp_path / "c", seed=1)
    assert losses(first) == losses(second)
    assert losses(first) != losses(other)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"average": 0.9},
        {"optimiser": "adamw"},
        {"optimiser": "sgd"},
        {"accumulate": 2},
        {"recompute": True},
        {"save_beside": True, "save_every": 2},
        {"precision": "bfloat16"},
    ],
)
def test_stopped_and_resumed_is_the_same(tmp_path, options):
    whole, _ = train(tmp_path / "whole", **options)
    _, result = train(tmp_path / "run", observers=[At(5, interrupt)], **options)
    assert (result.reason, result.step) == ("stopped", 5)
    assert result.say().startswith("stopped at step 5 of 12 and saved; best validation ")
    assert result.say().endswith(f"at step 4; go on with the same call and out={str(tmp_path / 'run')!r}, resume=True")
    again, result = train(tmp_path / "run", resume=True, **options)
    assert (result.reason, result.step) == ("done", 12)
    assert losses(again) == losses(whole)
    assert losses(again, "validation") == losses(whole, "validation")
    assert whole.model_file.read_bytes() == again.model_file.read_bytes()


def test_a_stop_during_an_evaluation_repeats_it(tmp_path):
    """The evaluation is cut short, the step is saved, and the resumed run evaluates first."""

    class Interrupted(Pairs):
        def validation(self):
            for i, batch in enumerate(super().validation()):
                if i == 1 and self.armed:
                    interrupt()
                    self.armed = False
                yield batch

    source = Interrupted(evaluations=3)
    source.armed = True
    whole, _ = train(tmp_path / "whole", source=Pairs(evaluations=3))
    run, result = train(tmp_path / "run", source=source)
    assert result.step == 4 and losses(run, "validation") == []
    again, _ = train(tmp_path / "run", resume=True, source=source)
    assert losses(again, "validation") == losses(whole, "validation")
    assert whole.model_file.read_bytes() == again.model_file.read_bytes()


def test_a_finished_run_resumes_to_its_end(tmp_path):
    train(tmp_path / "run")
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    run, result = train(tmp_path / "run", resume=True)
    assert (result.reason, result.step) == ("done", 12)
    assert run.metrics_file.read_bytes() == before


def test_resume_cuts_the_metrics_back(tmp_path):
    run, _ = train(tmp_path / "run", observers=[At(5, interrupt)])
    run.append([{"step": 6, "event": "step", "loss": 9.0}])
    with open(run.metrics_file, "a") as file:
        file.write('rubbish\n{"step": 5, "ev')
    again, result = train(tmp_path / "run", resume=True)
    assert [step for step, _ in losses(again)] == list(range(1, 13))
    assert 9.0 not in dict(losses(again)).values()
    assert result.notes == (f"1 lines of {run.metrics_file} could not be read and were dropped",)


def test_without_a_checkpoint_it_starts_from_zero(tmp_path):
    whole, _ = train(tmp_path / "whole")
    run = create_run(tmp_path / "run", {"train": whole.section(TrainConfig, "train")})
    run.append([{"step": 1, "event": "step", "loss": 9.0}])
    again, _ = train(tmp_path / "run", resume=True)
    assert losses(again) == losses(whole)


def test_signals_are_given_back(tmp_path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    train(tmp_path / "run", steps=2)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_it_trains_in_a_thread_too(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(train(tmp_path / "run", steps=2)[1]))
    thread.start()
    thread.join()
    assert found[0].reason == "done"


# ── what a step does ────────────────────────────────────────────────────────────────────────────────────────


class Uneven(Pairs):
    """Rows of one large batch, or the same rows in two batches with unlike numbers of targets."""

    def __init__(self, parts):
        super().__init__(rows=6)
        self.parts = parts

    def batch(self, step):
        whole = super().batch(step // self.parts)
        target = whole.target.clone()
        target[:2, 3:] = IGNORE
        rows = torch.arange(6).chunk(self.parts)[step % self.parts]
        return Batch({"tokens": whole["tokens"][rows]}, target[rows])


@pytest.mark.parametrize("optimiser", ["sgd", "muon"])
def test_accumulation_is_a_larger_batch(tmp_path, optimiser):
    found = []
    for parts in (1, 2, 3):
        model = tiny(dropout=0.0).double()  # some processors round Muon's products of float32 to bfloat16
        how = {
            "accumulate": parts,
            "optimiser": optimiser,
            "steps": 4,
            "precision": "float32",
        }  # equal but for rounding
        run, _ = train(tmp_path / str(parts), model=model, source=Uneven(parts), **how)
        found.append((dict(losses(run)), model.state_dict()))
    for values, state in found[1:]:
        torch.testing.assert_close(list(values.values()), list(found[0][0].values()), rtol=1e-5, atol=0)
        torch.testing.assert_close(state, found[0][1], rtol=1e-4, atol=1e-5)


def test_recompute_changes_memory_and_no_number(tmp_path):
    plain, _ = train(tmp_path / "plain")
    model = tiny()
    run, _ = train(tmp_path / "recompute", model=model, recompute=True)
    assert losses(run) == losses(plain)  # dropout, too
    assert all("forward" not in vars(block) for block in model.blocks)


def test_recompute_forgets_activations():
    model, kept = tiny(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        model(Pairs().batch(0)["tokens"])
        plain, _ = sum(kept), kept.clear()
        with recompute_activations(model):
            model(Pairs().batch(0)["tokens"])
    assert sum(kept) < plain / 2
    assert len(blocks(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))) == 2
    with (
        pytest.raises(ValueError, match="recompute.*blocks.*Linear.*nn.ModuleList.*nn.Sequential"),
        recompute_activations(nn.Linear(2, 2)),
    ):
        pass


def test_clipping_limits_the_step(tmp_path):
    moved = []
    for clip in (None, 1e-3):
        model = tiny()
        train(tmp_path / str(clip), model=model, clip=clip, steps=1, optimiser="sgd", weight_decay=0.0, warmup=0)
        moved.append(
            sum((a - b).square().sum() for a, b in zip(model.parameters(), tiny().parameters(), strict=True)).sqrt()
        )
    assert moved[0] > 1e-2
    torch.testing.assert_close(moved[1], torch.tensor(0.1 * 1e-3), rtol=1e-2, atol=0)


def test_the_average_is_what_its_equation_says(tmp_path):
    """And it is judged and published, while the model goes on with its own weights."""
    history = []

    class Keeps:
        def stepped(self, *facts):
            history.append(model.embed.weight.detach().clone())

    model = tiny()
    run, _ = train(tmp_path / "run", model=model, average=0.6, steps=5, precision="float32", observers=[Keeps()])
    expected = tiny().embed.weight.detach()
    for step, weight in enumerate(history):
        expected = expected + (1 - min(0.6, (1 + step) / (10 + step))) * (weight - expected)
    found = files.read_tensors(run.model_file)["embed.weight"]
    torch.testing.assert_close(found, expected)
    assert torch.equal(model.embed.weight, history[-1])
    judged = Tiny().eval()
    load_weights(run, judged)
    with torch.no_grad():
        batches = list(Pairs().validation())
        loss = nn.functional.cross_entropy(
            judged(torch.cat([b["tokens"] for b in batches])).flatten(0, 1),
            torch.cat([b.target for b in batches]).flatten(),
        )
    assert math.isclose(losses(run, "validation")[-1][1], loss.item(), rel_tol=1e-6)


def test_any_module_and_any_function(tmp_path):
    """A module with no embedding and a task that is a function; without a validation split the last weights are published."""

    class Points:
        def batch(self, step):
            torch.manual_seed(step)
            x = torch.randn(8, 3)
            return Batch({"tokens": x}, x.sum(1))

        def validation(self):
            return iter(())

    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
    run, result = train(
        tmp_path / "run",
        model=model,
        source=Points(),
        steps=40,
        optimiser="adamw",
        lr=0.02,
        task=lambda model, batch: (model(batch["tokens"])[:, 0] - batch.target).square().mean(),
    )
    found = [loss for _, loss in losses(run)]
    assert sum(found[-5:]) < 0.3 * sum(found[:5])
    assert result.best_step is None and result.measures == {}
    assert torch.equal(files.read_tensors(run.model_file)["0.weight"], model[0].weight)


def test_random_datasets_are_seeded_by_step():
    import random

    import numpy as np

    def draw(seed, step):
        seed_all(seed, step, torch.device("cpu"))
        return torch.rand(1).item(), random.random(), np.random.rand()

    assert draw(3, 4) == draw(3, 4)
    assert not set(draw(3, 4)) & set(draw(3, 5)) and not set(draw(3, 4)) & set(draw(4, 4))


def test_devices_and_precision():
    assert pick_device("cpu").type == "cpu"
    with pytest.raises(ValueError, match="device 'abacus'"):
        pick_device("abacus")
    for other, meant in (("gpu", "cuda"), ("GPU", "cuda"), ("metal", "mps")):
        with pytest.raises(ValueError, match=f"device '{other}'.*'{meant}'"):
            pick_device(other)
    assert pick_half("bfloat16", torch.device("cpu")) and not pick_half("float32", torch.device("cpu"))


# ── evaluations ───────────────────────────────────────────────────────────────────────────────────────────────────


class Worse:
    """A task whose validation loss is as given, one after another."""

    def __init__(self, *values):
        self.values = list(values)

    def loss(self, model, batch):
        return model(batch["tokens"]).square().mean(), batch.size

    def measure(self, model, batches):
        list(batches)
        return {"loss": self.values.pop(0)}


@pytest.mark.parametrize(
    "losses, said",
    [
        ((1.0, 0.5, 0.6, 0.7, 0.8, 0.9), "overfitted after step 4.*0.5000.*0.9000"),
        ((1.0, 0.5, 0.6, 0.7, 0.9, 0.8), None),  # so few and so uneven ones tell nothing
        ((3.0, 2.5, 2.0, 1.5, 1.0, 0.9), "falling.*1.0000.*0.9000.*--train.steps 36"),
    ],
)
def test_which_weights_are_kept_is_told_and_advice_if_the_history_gives_any(tmp_path, losses, said):
    stream = io.StringIO()
    task, told = Worse(*losses), [Lines(stream)]
    run, result = train(tmp_path / "run", task=task, evaluate_every=2, average=0.5, observers=told)
    last = stream.getvalue().splitlines()[-1 if said is None else -2]
    best = 2 * (losses.index(min(losses)) + 1)
    step = f"step {best}{', the last one' * (best == 12)}"
    assert last == f"kept: the averaged weights of {step}, which had the lowest validation loss"
    assert result.advice == advise(run) == outcome(run)["advice"]  # the terminal and the page say the same
    if said is None:
        assert result.advice is None
    else:
        assert re.search(said, result.advice) and stream.getvalue().endswith(f"note: {result.advice}\n")


def test_without_a_validation_split_the_last_weights_are_kept_and_that_is_said(tmp_path):
    class Unjudged(Worse):
        def measure(self, model, batches):
            return {}

    _, result = train(tmp_path / "run", task=Unjudged())
    assert (
        result.lines()[-1]
        == "kept: the weights of step 12, the last one; there was no evaluation on a validation split"
    )


def test_patience_stops_and_the_best_is_published(tmp_path):
    kept = {}

    class Keeps:
        def evaluated(self, step, measures):
            kept[step] = model.head.weight.detach().clone()

    model = tiny()
    run, result = train(
        tmp_path / "run",
        model=model,
        task=Worse(3.0, 1.0, 2.0, 1.5, 0.5),
        evaluate_every=2,
        patience=2,
        observers=[Keeps()],
    )
    assert (result.reason, result.step, result.best_step, result.best) == ("patience", 8, 4, {"loss": 1.0})
    assert "because the validation loss no longer falls; best validation 1.0000 at step 4" in result.say()
    assert result.lines()[1:] == ["kept: the weights of step 4, which had the lowest validation loss"]
    assert torch.equal(files.read_tensors(run.model_file)["head.weight"], kept[4])
    assert files.read_json(run.state / "latest.json")["step"] == 8  # best and last are both there
    _, result = train(tmp_path / "run", resume=True, task=Worse(0.1), evaluate_every=2, patience=2)
    assert (result.reason, result.step) == ("patience", 8)


class Surer(Worse):
    """A task whose validation loss and accuracy are as given: the loss rises while more is right."""

    best_by = "accuracy"

    def measure(self, model, batches):
        list(batches)
        loss, accuracy = self.values.pop(0)
        return {"loss": loss, "accuracy": accuracy}


RISES_WHILE_RIGHT = ((0.5, 0.6), (0.9, 0.8), (0.8, 0.8), (0.85, 0.8), (1.2, 0.7), (1.3, 0.5))


@pytest.mark.parametrize("keep, step", [("auto", 6), ("accuracy", 6), ("loss", 2)])
def test_weights_are_kept_by_the_measure_that_is_asked_for_and_of_equal_ones_by_the_loss(tmp_path, keep, step):
    kept = {}

    class Keeps:
        def evaluated(self, step, measures):
            kept[step] = model.head.weight.detach().clone()

    model = tiny()
    run, result = train(
        tmp_path / "run", model=model, task=Surer(*RISES_WHILE_RIGHT), evaluate_every=2, keep=keep, observers=[Keeps()]
    )
    assert (result.best_step, result.step) == (step, 12)
    assert torch.equal(files.read_tensors(run.model_file)["head.weight"], kept[step])
    measure = "loss" if keep == "loss" else "accuracy"
    assert run.config.keep == measure and f"validation {measure}" in result.kept()
    assert curves(run)["best"]["point"][0] == step  # what the page shows is what was kept


def test_patience_counts_evaluations_without_better_weights(tmp_path):
    _, result = train(tmp_path / "run", task=Surer(*RISES_WHILE_RIGHT), evaluate_every=2, patience=2, keep="accuracy")
    assert (result.reason, result.step, result.best_step) == ("patience", 10, 6)
    assert "the validation accuracy no longer rises" in result.say()


class Judged(Worse):
    """A task that judges whole answers: they get better while the loss rises."""

    measures = ("loss", "BLEU")

    def __init__(self, *pairs):
        super().__init__(*(loss for loss, _ in pairs))
        self.scores = [score for _, score in pairs]

    def judge(self, model):
        assert not model.training and not torch.is_grad_enabled()
        return {"BLEU": self.scores.pop(0)}


@pytest.mark.parametrize(
    "keep, step, reason", [("bleu", 6, "BLEU no longer rises"), ("auto", 2, "loss no longer falls")]
)
def test_whole_answers_are_judged_and_may_decide(tmp_path, keep, step, reason):
    task = Judged((0.5, 10.0), (0.6, 12.5), (0.7, 30.25), (0.8, 20.0), (0.9, 30.25), (1.0, 1.0))
    run, result = train(tmp_path / "run", task=task, evaluate_every=2, patience=2, keep=keep)
    assert result.best_step == step and reason in result.say() and "BLEU" in result.say()
    evaluations = [event for event in run.metrics() if event["event"] == "validation"]
    assert [each["BLEU"] for each in evaluations] == [10.0, 12.5, 30.25, 20.0, 30.25][: len(evaluations)]
    drawn = curves(run)
    assert [point[1] for point in drawn["measures"]["BLEU"]] == [each["BLEU"] for each in evaluations]
    assert drawn["best"]["point"][0] == step and ("30.25" in drawn["best"]["said"]) == (keep == "bleu")


@pytest.mark.parametrize("keep, said", [("blue", "'bleu'"), ("acuracy", "auto, loss, bleu"), ("", "loss, bleu")])
def test_a_measure_that_is_not_known_is_refused_before_the_first_step(tmp_path, keep, said):
    task = Judged((0.5, 10.0))
    with pytest.raises(RegardError, match=said):
        train(tmp_path / "run", task=task, evaluate_every=2, keep=keep)
    assert task.scores == [10.0]


def test_weights_cannot_be_kept_by_a_measure_that_the_task_lacks(tmp_path):
    with pytest.raises(RegardError, match=r"accuracy.*loss"):
        train(tmp_path / "run", task=Worse(1.0), evaluate_every=2, keep="accuracy")


@pytest.mark.parametrize(
    "task, measure", [(Classify, "accuracy"), (NextToken, "loss"), (MaskedToken, "loss"), (Regress, "loss")]
)
def test_classes_are_kept_by_accuracy_and_tokens_and_numbers_by_loss(task, measure):
    assert getattr(task, "best_by", "loss") == measure


def test_samples_are_kept_and_told(tmp_path):
    told = []

    class Hears:
        def sampled(self, step, text):
            told.append((step, text))

    run, _ = train(
        tmp_path / "run", sample=lambda model: f"{model.training} {torch.is_grad_enabled()}", observers=[Hears()]
    )
    assert told == [(step, "False False") for step in (4, 8, 12)]
    assert (run.path / "samples" / "8.txt").read_text() == "False False"


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_a_number(tmp_path, bad):
    calls = []

    def task(model, batch):
        if model.training:
            calls.append(1)
        return model(batch["tokens"]).square().mean() * (bad if len(calls) == 7 else 1.0)

    with pytest.raises(
        ValueError,
        match=says(
            f"({bad})",
            "step 7",
            "step 6",
            f"{tmp_path / 'run' / 'state' / '6'}",
            "--train.lr",
            "0.02",
            "--train.warmup",
            "3",
        ),
    ):
        train(tmp_path / "run", task=task, save_every=2)
    run = Run.open(tmp_path / "run")
    assert [step for step, _ in losses(run)] == list(range(1, 7))
    assert facts(run)["best_step"] == 4
    assert all(tensor.isfinite().all() for tensor in files.read_tensors(run.model_file).values())


def test_a_weight_that_is_not_a_number_is_not_saved(tmp_path):
    model = tiny()

    def spoil():
        with torch.no_grad():
            model.head.bias[0] = math.nan

    with pytest.raises(ValueError, match="weight.*step 6.*state.*step 4.*kept"):
        train(tmp_path / "run", model=model, save_every=2, observers=[At(6, spoil)])
    assert facts(Run.open(tmp_path / "run"))["step"] == 4


def test_a_validation_loss_that_is_not_a_number(tmp_path):
    with pytest.raises(ValueError, match=r"validation loss.*\(nan\).*step 4"):
        train(tmp_path / "run", task=Worse(math.nan))
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_full_disk(tmp_path, monkeypatch):
    replace = os.replace

    def full(source, target):
        if "state/8" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    whole, _ = train(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="disk.*full") as error:
            train(tmp_path / "run")
    assert str(error.value).endswith("the checkpoint of step 4 is still there; then go on with --resume")
    again, _ = train(tmp_path / "run", resume=True)
    assert losses(again) == losses(whole)


def test_a_damaged_checkpoint(tmp_path):
    told = []

    class Hears:
        def noted(self, text):
            told.append(text)

    whole, _ = train(tmp_path / "whole")
    train(tmp_path / "run", observers=[At(9, interrupt)])
    with open(tmp_path / "run" / "state" / "9" / "optimiser.safetensors", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    again, result = train(tmp_path / "run", resume=True, observers=[Hears()])
    assert told == list(result.notes)
    assert told[0].startswith("the checkpoint of step 9 is damaged (")
    assert told[0].endswith("; going on from step 8, the last good one")
    assert losses(again) == losses(whole)


def test_another_machine_is_noted(tmp_path):
    run, _ = train(tmp_path / "run", observers=[At(5, interrupt)])
    there = run.environment()
    run.write("environment.json", there | {"threads": 99})
    _, result = train(tmp_path / "run", resume=True)
    assert result.notes == (
        f"the run was started with threads 99, now {there['threads']}: losses may differ in their last digits",
    )


def test_a_resume_with_other_options_says_which(tmp_path):
    train(tmp_path / "run", observers=[At(5, interrupt)])
    with pytest.raises(
        ValueError, match=says(f"{tmp_path / 'run'}", "train.lr", "None", "0.5", "train.clip", "1.0", "None")
    ):
        train(tmp_path / "run", resume=True, lr=0.5, clip=None)
    train(tmp_path / "run", resume=True, save_every=3)


def test_a_trained_run_is_not_trained_again(tmp_path):
    run, _ = train(tmp_path / "run")
    with pytest.raises(FileExistsError, match="--resume.*--out"):
        fit(run, tiny(), "next token", Pairs(), run.section(TrainConfig, "train"))


def test_a_checkpoint_of_another_model(tmp_path):
    train(tmp_path / "run", observers=[At(5, interrupt)])
    other = tiny()
    other.head = nn.Linear(WIDTH, VOCAB + 1)
    with pytest.raises(ValueError, match="model: .*head.weight"):
        train(tmp_path / "run", resume=True, model=other)


# ── budgets ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_more_steps_before_the_fall_are_exact(tmp_path):
    whole, _ = train(tmp_path / "whole", steps=20, decay=0.5)
    train(tmp_path / "run", steps=12, decay=0.5, observers=[At(6, interrupt)])
    again, result = train(tmp_path / "run", resume=True, steps=20, decay=0.5)
    assert result.steps == 20 and again.config.steps == 20
    assert losses(again) == losses(whole)


def test_more_steps_after_the_fall_are_refused(tmp_path):
    train(tmp_path / "run", steps=12, decay=0.5)
    with pytest.raises(
        ValueError,
        match=says(
            f"{tmp_path / 'run'}",
            "12 steps",
            "20",
            "step 12",
            "step 7",
            "20 steps",
            f"load_weights('{tmp_path / 'run'}'",
        ),
    ):
        train(tmp_path / "run", resume=True, steps=20, decay=0.5)
    assert Run.open(tmp_path / "run").config.steps == 12


def test_metrics_are_on_the_disk_before_a_checkpoint_counts(tmp_path, monkeypatch):
    seen = []
    write = files.write_sealed

    def look(path, value):
        if str(path).endswith("latest.json"):
            lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
            seen.append((value["step"], json.loads(lines[-1])["step"]))
        write(path, value)

    monkeypatch.setattr(files, "write_sealed", look)
    train(tmp_path / "run", save_every=3)
    assert seen == [(step, step) for step in (3, 4, 6, 8, 9, 12)]
