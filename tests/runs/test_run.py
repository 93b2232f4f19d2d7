"""The run directory: made once, found again, and refused where something else is."""

import errno
import json
import os
import re
import sys

import pytest
import torch
from safetensors.torch import save
from torch import nn

from regard import registry
from regard.config import config
from regard.runs.environment import environment
from regard.runs.load import build, load_model, load_weights
from regard.runs.new_run import create_run
from regard.runs.run import Run
from regard.training.config import TrainConfig


@config
class Size:
    width: int = 3


class Line(nn.Module):
    Config = Size

    def __init__(self, config):
        super().__init__()
        self.config, self.linear = config, nn.Linear(config.width, 1)


@pytest.fixture
def run(tmp_path):
    return create_run(
        tmp_path / "runs" / "mine",
        {"recipe": "text", "kind": "line", "model": Size(width=5), "train": TrainConfig(steps=7)},
    )


# ── making and finding ──────────────────────────────────────────────────────────────────────────────────────


def test_there_and_back(run):
    again = Run.open(str(run.path))
    written = json.loads((run.path / "config.json").read_text())
    assert again.config == run.config and run.config.to_json() == written
    assert list(written) == ["regard", "format", "recipe", "kind", "model", "train", "unit"]
    assert again.section(Size, "model") == Size(width=5)
    assert again.section(TrainConfig, "train") == TrainConfig(steps=7)
    assert Run.exists(run.path)


@pytest.mark.parametrize(
    "change, words",
    [
        (
            {"format": None},
            "was made by regard 0.1.0, format of before formats were counted, and this version reads format 3",
        ),
        ({"format": 2}, "format 2, and this version reads format 3; train it again"),
        ({"knid": "line"}, "config.json: knid is no option of RunConfig; did you mean kind?"),
        ({"regard": None}, "is not a run of regard: its config.json"),
    ],
)
def test_a_config_of_another_format_is_told_in_one_line(run, change, words):
    found = json.loads((run.path / "config.json").read_text()) | change
    run.write("config.json", {name: value for name, value in found.items() if value is not None})
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        Run.open(run.path)
    assert "\n" not in str(error.value)


def test_update_writes_config_anew(run):
    run.update(steps=12, model=Size(width=6))
    assert Run.open(run.path).config == run.config
    assert run.config.steps == 12 and run.section(Size, "model").width == 6


def test_the_environment_is_told_and_no_secrets(run, monkeypatch):
    monkeypatch.setenv("TOKEN", "hush")
    monkeypatch.setattr(sys, "argv", ["regard", "train", "text"])
    found = environment(provenance=True)
    assert set(found) - set(environment()) == {"command", "folder", "user", "machine"}
    assert set(environment()) == {"regard", "python", "torch", "platform", "processor", "threads"}
    assert found["command"] == ["regard", "train", "text"] and found["folder"] == os.getcwd()
    assert found["torch"] == torch.__version__
    assert "hush" not in json.dumps(found)
    assert set(run.environment()) == set(environment())


def test_an_existing_run_is_refused(run):
    words = f"{run.path} holds a run already; go on with it with --resume, or choose another folder with --out"
    with pytest.raises(FileExistsError, match=re.escape(words)):
        create_run(run.path, {})


def test_something_else_is_refused(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        (tmp_path / name).write_text("mine")
    words = f"{tmp_path} is not a run and is not empty (it holds a.txt, b.txt, c.txt, ...); choose another folder with --out"
    with pytest.raises(FileExistsError, match=re.escape(words)):
        create_run(tmp_path, {})
    with pytest.raises(FileExistsError, match="a.txt is a file; choose a folder that is not there yet with --out"):
        create_run(tmp_path / "a.txt", {})
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt", "c.txt", "d.txt"]


def test_an_empty_folder_will_do(tmp_path):
    (tmp_path / ".config.json.1234.part").write_text("{")  # left by a run that was killed as it was made
    assert create_run(tmp_path, {}).path == tmp_path


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        NotADirectoryError, match="cannot make the folder .*run: .*file is a file; choose another with --out"
    ):
        create_run(tmp_path / "file" / "run", {})


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write everywhere
    with pytest.raises(PermissionError, match="cannot make the folder .*run: .* may not be written to; choose another"):
        create_run(tmp_path / "new" / "run", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text, words",
    [
        (None, "is not a run of regard: it has no config.json"),
        ('{"model_type": "gpt2"}', "is not a run of regard: its config.json"),
        ("[]", "is not a run of regard: its config.json"),
        ("{", "config.json is not JSON"),
    ],
)
def test_what_is_no_run(tmp_path, text, words):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises((OSError, ValueError), match=words):
        Run.open(tmp_path)
    assert not Run.exists(tmp_path)


def test_a_run_that_is_not_there(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="nowhere does not exist; give the folder of a run, as made by regard train"
    ):
        Run.open(tmp_path / "nowhere")


def test_sections_say_where_they_are_wrong(run):
    with pytest.raises(ValueError, match="config.json has no section 'data'"):
        run.section(Size, "data")
    run.update(model={"widht": 3})
    with pytest.raises(ValueError, match="config.json: section 'model': widht .* did you mean width"):
        run.section(Size, "model")


def test_a_run_that_reads_differently_is_of_the_same_file(run):
    run.source = run.path / "model.gguf"
    other = run.reading({"text": "body"})
    assert (other.path, other.source, other.asked) == (run.path, run.source, {"text"})
    assert other.config.data == {"text": "body"}
    assert (run.config.data, run.asked) == (None, frozenset())


def test_other_options_are_named(run):
    run.agree("model", Size(width=5))
    run.agree("model", Size(width=6), but=["width"])
    words = "was started with other options: model.width was 5 and is now 6. Resume with the same, or start a new run"
    with pytest.raises(ValueError, match=re.escape(f"{run.path} {words}")):
        run.agree("model", Size(width=6))


# ── metrics ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_metrics_are_exact_and_cut(run):
    assert run.metrics() == [] and run.cut(3) == 0
    events = [{"step": step, "loss": 1 / (step + 3)} for step in range(1, 6)]
    run.append(events[:2])
    run.append(events[2:], sync=True)
    assert run.metrics() == events
    with open(run.metrics_file, "a") as file:
        file.write('{"step": 6, "lo')  # killed in the middle of a line
    assert run.metrics() == events
    assert run.cut(3) == 0
    assert run.metrics() == events[:3]
    assert run.metrics_file.read_text().endswith("}\n")
    # comes after the last step, and again after a resume
    run.append([{"step": 3, "event": "test", "loss": 1.0}])
    assert run.cut(3) == 0 and run.metrics() == events[:3]


@pytest.mark.parametrize("line", ["\0\0\0", "7", '{"loss": 1}', '{"step": "x"}'])
def test_a_line_that_is_no_event(run, line):
    run.append([{"step": 1}])
    with open(run.metrics_file, "a") as file:
        file.write(line + "\n")
    run.append([{"step": 2}])
    with pytest.raises(ValueError, match="metrics.jsonl: line 2 is not an event: "):
        run.metrics()
    assert run.cut(9) == 1
    assert [event["step"] for event in run.metrics()] == [1, 2]


def test_a_full_disk_is_said(run, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match="metrics.jsonl: the disk is full; free some space, then go on with --resume"
    ) as error:
        run.append([{"step": 1}], sync=True)
    assert error.value.errno == errno.ENOSPC


def test_samples(run):
    run.write_sample(30, "Once")
    assert (run.path / "samples" / "30.txt").read_text() == "Once"


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def line(monkeypatch):
    monkeypatch.setattr(registry, "find", lambda kind, name: {("models", "line"): Line}[kind, name])


@pytest.mark.usefixtures("line")
def test_a_model_is_built_and_loaded(run):
    model = build(run)
    assert model.config == Size(width=5)
    with pytest.raises(FileNotFoundError, match="has no model.safetensors yet"):
        load_model(run)
    run.publish(save(model.state_dict()))
    again = load_model(run)
    assert not again.training
    assert torch.equal(again.linear.weight, model.linear.weight)


@pytest.mark.usefixtures("line")
def test_weights_that_do_not_fit(run):
    run.publish(save({"linear.weight": torch.zeros(1, 4), "linear.bias": torch.zeros(1)}))
    with pytest.raises(
        ValueError, match=r"does not fit Line: 'linear.weight' is \(1, 4\) in the file and \(1, 5\) in the"
    ):
        load_model(run)
    run.publish(save({"linear.weight": torch.zeros(1, 5)}))
    with pytest.raises(ValueError, match=r"'linear.bias' is missing in the file and \(1,\) in the model"):
        load_model(run)


def test_a_module_of_ones_own(tmp_path):
    run = create_run(tmp_path, {"recipe": None, "kind": None})
    with pytest.raises(
        ValueError, match=r"of a module of your own \(unknown\).* build the module, then load_weights\("
    ):
        load_model(run)
    model = Line(Size())
    run.publish(save({name: torch.ones_like(tensor) for name, tensor in model.state_dict().items()}))
    load_weights(run, model)
    assert model.linear.weight.tolist() == [[1.0] * 3]


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options, words",
    [
        ({"minutes": None}, "give minutes or steps"),
        ({"decay": 0.95}, "decay must be at most 0.9 with a budget in minutes"),
        ({"optimiser": "adamw", "adam_lr": 0.1}, "adam_lr goes with muon, got optimiser='adamw'; give lr"),
        (
            {"optimiser": "adamw", "momentum": 0.9},
            "momentum goes with muon or sgd, got optimiser='adamw'; leave it out",
        ),
    ],
)
def test_options_that_cannot_be(options, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        TrainConfig(**options)


def test_decay_over_all_steps_needs_steps():
    assert TrainConfig(steps=5, decay=1.0).decay == 1.0


@pytest.mark.parametrize("optimiser, lr", [("muon", 0.02), ("adamw", 0.001), ("sgd", 0.1)])
def test_learning_rates_by_default(optimiser, lr):
    assert TrainConfig(optimiser=optimiser).peak_lr == lr
    assert TrainConfig(optimiser=optimiser, lr=0.5).peak_lr == 0.5
