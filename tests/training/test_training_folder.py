"""The folder of a run is deleted during the training, by hand or by another run: that is said, and nothing is made anew."""

import os
import shutil

import pytest

from regard.runs.new_run import create_run, new_run
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.loop import fit
from tests.training.cases import Pairs, tiny, train

OPTIONS = {"steps": 12, "warmup": 3, "evaluate_every": 4, "average": 0.9}


class Deletes:
    """Deletes the folder of the run after a step."""

    def __init__(self, path, at=6):
        self.path, self.at, self.after = path, at, 0

    def stepped(self, step, *facts):
        if step == self.at:
            shutil.rmtree(self.path)
        self.after += step > self.at


def test_a_folder_that_is_deleted_ends_the_training_at_once(tmp_path):
    deletes = Deletes(tmp_path / "run")
    with pytest.raises(ValueError, match=f"^{tmp_path / 'run'} was deleted during the training"):
        train(tmp_path / "run", observers=[deletes], **OPTIONS)
    assert deletes.after == 0 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_folder_that_goes_while_a_checkpoint_is_written(tmp_path, monkeypatch, number):
    """At the n-th file of the checkpoint of step 8."""
    whole, left = os.replace, [number]

    def replace(part, target):
        if "run/state/8" in str(target) or "run/state/latest" in str(target):
            left[0] -= not left[0] or "state/8" in str(target)
            if not left[0] and (tmp_path / "run").exists():
                shutil.rmtree(tmp_path / "run")
        whole(part, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="^cannot write .*/run/state/[^\\n]*$"):
        train(tmp_path / "run", sample=lambda model: "text", **OPTIONS)
    assert not (tmp_path / "run").exists()  # nothing makes it anew


def test_a_folder_that_another_run_took_is_not_touched(tmp_path):
    """Deleted and made anew by another process: what is there now is not ours."""

    class Taken(Deletes):
        def stepped(self, step, *facts):
            super().stepped(step, *facts)
            if step == self.at:
                create_run(self.path, {"module": "theirs"})

    path = tmp_path / "run"
    config = TrainConfig(**OPTIONS)
    with pytest.raises(ValueError, match="run was deleted during"), new_run(path) as create:
        fit(create({"train": config}), tiny(), "next token", Pairs(), config, observers=[Taken(path)])
    assert Run.open(path).config.module == "theirs"
    assert {each.name for each in path.iterdir()} == {"manifest.json", "config.json", "environment.json", "state"}


def test_half_written_files_of_killed_processes_are_swept(tmp_path):
    """At a resume, under the lock: those of the run at once, others when they are old."""
    run, _ = train(tmp_path / "run", **OPTIONS | {"patience": 1})
    names = [".model.safetensors.01234567.part", ".mine.html.01234567.part", "state/.latest.json.01234567.part"]
    for name in names:
        (run.path / name).write_bytes(b"half")
    train(run.path, resume=True, **OPTIONS | {"patience": 1})
    assert [name for name in names if (run.path / name).exists()] == [names[1]]
    os.utime(run.path / names[1], (1, 1))
    train(run.path, resume=True, **OPTIONS | {"patience": 1})
    assert not (run.path / names[1]).exists()
