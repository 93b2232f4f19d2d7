"""The folder of a run, or its config.json, is deleted during the training: that is said at once, and the run is kept."""

import os
import re
import shutil

import pytest

from regard.api.start import new_run
from regard.runs.load import load_weights
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.loop import fit
from regard.training.progress import Metrics
from tests.training.cases import Pairs, Tiny, losses, tiny, train

OPTIONS = {"steps": 12, "warmup": 3, "evaluate_every": 4, "average": 0.9}


class Deletes:
    """Deletes something after a step."""

    def __init__(self, path, at=6):
        self.path, self.at, self.after = path, at, 0

    def stepped(self, step, *facts):
        if step == self.at:
            shutil.rmtree(self.path) if self.path.is_dir() else os.unlink(self.path)
        self.after += step > self.at


def deleted(path, what, at=6, **options):
    """Train until something is deleted; returns the words of the error."""
    deletes = Deletes(path / what, at)
    with pytest.raises(ValueError, match="^[^\\n]+$") as caught:
        train(path, observers=[deletes], **OPTIONS | options)
    assert deletes.after == 0  # at once
    return str(caught.value)


@pytest.mark.parametrize("what", [".", "config.json", "checksums.json"])
def test_the_run_is_kept_beside_and_goes_on_to_the_same_losses(tmp_path, what):
    whole, _ = train(tmp_path / "whole", **OPTIONS)
    said = deleted(tmp_path / "run", what)
    kept = tmp_path / "run-kept"
    assert f"{tmp_path / 'run' / what} was deleted during the training" in said
    assert f"the state of step 6 is kept in {kept}; go on with: " in said
    assert Run.open(kept).verify("model.safetensors")  # of step 4, the best then
    load_weights(Run.open(kept), Tiny())
    assert [step for step, _ in losses(Run.open(kept))] == [1, 2, 3, 4, 5, 6]
    run, _ = train(kept, resume=True, **OPTIONS)
    assert losses(run) == losses(whole) and losses(run, "validation") == losses(whole, "validation")
    assert run.model_file.read_bytes() == whole.model_file.read_bytes()


def test_a_folder_that_goes_while_metrics_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(Metrics, "stepped", write_each_step)
    said = deleted(tmp_path / "run", ".")
    assert "the state of step 6 is kept in" in said
    assert [step for step, _ in losses(Run.open(tmp_path / "run-kept"))] == [1, 2, 3, 4, 5, 6]


def write_each_step(self, step, loss, tokens, seconds):
    self.step = step
    self._add("step", loss=loss, tokens=tokens)
    self.flush()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_folder_that_goes_while_a_checkpoint_is_written(tmp_path, monkeypatch, number):
    """At the n-th file of the checkpoint of step 8, which is lost: the weights of step 8 are still in memory."""
    whole, left = os.replace, [number]

    def replace(part, target):
        if "run/state/8" in str(target) or "run/state/latest" in str(target):
            left[0] -= not left[0] or "state/8" in str(target)
            if not left[0] and (tmp_path / "run").exists():
                shutil.rmtree(tmp_path / "run")
        whole(part, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(ValueError, match="run was deleted during the training; the state of step 8 is kept"):
        train(tmp_path / "run", sample=lambda model: "text", **OPTIONS)
    assert not (tmp_path / "run").exists()  # nothing makes it anew
    load_weights(Run.open(tmp_path / "run-kept"), Tiny())
    _, result = train(tmp_path / "run-kept", resume=True, **OPTIONS)
    assert result.step == 12


def test_a_second_one_gets_another_name(tmp_path):
    for name in ("run-kept", "run-kept-2"):
        said = deleted(tmp_path / "run", ".")
        assert re.search(f"{tmp_path / name};", said)


def test_a_folder_that_another_run_took_is_not_touched(tmp_path):
    """Deleted and made anew by another process: what is there now is not ours."""

    class Taken(Deletes):
        def stepped(self, step, *facts):
            super().stepped(step, *facts)
            if step == self.at:
                Run.create(self.path, {"module": "theirs"})

    path = tmp_path / "run"
    config = TrainConfig(**OPTIONS)
    with pytest.raises(ValueError, match="run was deleted during"), new_run(path, {"train": config}) as run:
        fit(run, tiny(), "next token", Pairs(), config, observers=[Taken(path)])
    assert Run.open(path).config.module == "theirs"
    assert {each.name for each in path.iterdir()} == {
        "checksums.json",
        "config.json",
        "environment.json",
        "state",
    }


def test_before_any_weights_were_published_those_of_the_moment_are(tmp_path):
    deleted(tmp_path / "run", ".", at=2)
    run = Run.open(tmp_path / "run-kept")
    load_weights(run, Tiny())
    _, result = train(run.path, resume=True, **OPTIONS)
    assert result.step == 12


def test_where_nothing_can_be_kept_that_is_said(tmp_path, monkeypatch):
    def refuse(*what, **how):
        raise PermissionError(13, "Permission denied")

    class Closed(Deletes):
        def stepped(self, step, *facts):
            super().stepped(step, *facts)
            if step == self.at:
                monkeypatch.setattr("regard.files.os.mkdir", refuse)

    with pytest.raises(ValueError, match="run was deleted during the training, and nothing could be kept"):
        train(tmp_path / "run", observers=[Closed(tmp_path / "run")], **OPTIONS)


def test_half_written_files_of_killed_processes_are_swept(tmp_path):
    """At a resume, under the lock: those of the run at once, others when they are old."""
    run, _ = train(tmp_path / "run", **OPTIONS | {"patience": 1})
    names = [
        ".model.safetensors.01234567.part",
        ".mine.html.01234567.part",
        "state/.latest.json.01234567.part",
    ]
    for name in names:
        (run.path / name).write_bytes(b"half")
    train(run.path, resume=True, **OPTIONS | {"patience": 1})
    assert [name for name in names if (run.path / name).exists()] == [names[1]]
    os.utime(run.path / names[1], (1, 1))
    train(run.path, resume=True, **OPTIONS | {"patience": 1})
    assert not (run.path / names[1]).exists()
