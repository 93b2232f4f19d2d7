"""A checkpoint is complete or does not count; damage is found, and the one before is used."""

import errno
import os

import pytest
import torch

from regard import files
from regard.runs.lock import exclusive_lock
from regard.training.checkpoint import Checkpoints, write_files


def tensors(step):
    return {"model": {"w": torch.full((3,), float(step))}, "optimiser": {"m/w": torch.full((3,), step + 0.5)}}


def writes(step):
    return lambda folder: write_files(folder, tensors(step))


def saved(folder, *steps):
    made = Checkpoints(folder)
    for step in steps:
        made.save(step, writes(step), {"step": step})
    return made


def loaded(folder):
    """Step and notes, after a look at the tensors."""
    found, notes = Checkpoints(folder).load()
    if found is None:
        return None, notes
    assert found.facts == {"step": found.step}
    for name, values in tensors(found.step).items():
        assert {key: tensor.tolist() for key, tensor in found.tensors(name).items()} == {
            key: tensor.tolist() for key, tensor in values.items()
        }
    return found.step, notes


def test_two_are_kept_and_the_last_counts(tmp_path):
    assert loaded(tmp_path / "state") == (None, [])
    saved(tmp_path / "state", 3, 5, 8)
    assert sorted(os.listdir(tmp_path / "state")) == ["5", "8", "latest.json"]
    assert loaded(tmp_path / "state") == (8, [])
    latest = files.read_json(tmp_path / "state" / "latest.json")
    assert latest["step"] == 8 and latest["previous"]["step"] == 5
    assert set(latest["files"]) == {"model.safetensors", "optimiser.safetensors", "state.json"}


def test_a_folder_that_latest_does_not_name_does_not_count(tmp_path, monkeypatch):
    """As after a kill between the folder and latest.json; the next checkpoint of that step replaces it."""
    made = saved(tmp_path, 3)
    with monkeypatch.context() as patch:
        patch.setattr(
            files,
            "write_sealed",
            lambda path, value, write=files.write_sealed: dead() if path == made.latest else write(path, value),
        )
        with pytest.raises(KeyboardInterrupt):
            made.save(5, writes(5), {"step": 5})
    assert (tmp_path / "5" / "state.json").exists()
    assert loaded(tmp_path) == (3, [])
    (tmp_path / "5" / "rubbish").write_text("x")
    again = Checkpoints(tmp_path)
    again.load()
    again.save(5, writes(5), {"step": 5})
    assert loaded(tmp_path) == (5, [])
    assert not (tmp_path / "5" / "rubbish").exists()


def dead():
    raise KeyboardInterrupt


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [flip, os.unlink, lambda path: os.truncate(path, 20)])
@pytest.mark.parametrize("file", ["model.safetensors", "optimiser.safetensors", "state.json"])
def test_damage_is_found_and_the_one_before_is_used(tmp_path, file, damage):
    saved(tmp_path, 3, 5)
    damage(tmp_path / "5" / file)
    step, (note,) = loaded(tmp_path)
    assert step == 3
    assert note.startswith("the checkpoint of step 5 is damaged (") and str(tmp_path / "5" / file) in note
    assert note.endswith("; going on from step 3, the last good one")


def test_after_damage_the_good_one_is_kept(tmp_path):
    saved(tmp_path, 3, 5)
    flip(tmp_path / "5" / "model.safetensors")
    made = Checkpoints(tmp_path)
    made.load()
    made.save(4, writes(4), {"step": 4})
    assert sorted(os.listdir(tmp_path)) == ["3", "4", "latest.json"]
    made.save(5, writes(5), {"step": 5})
    assert loaded(tmp_path) == (5, [])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"step": 5}'])
def test_a_damaged_latest_is_found_too(tmp_path, text):
    saved(tmp_path, 3, 5)
    (tmp_path / "latest.json").write_text(text)
    step, (note,) = loaded(tmp_path)
    assert step == 5
    assert note == f"{tmp_path / 'latest.json'} is damaged; going on from step 5, the last good one"


def test_nothing_good_is_an_error_that_loses_nothing(tmp_path):
    saved(tmp_path, 3, 5)
    for step in (3, 5):
        flip(tmp_path / str(step) / "model.safetensors")
    with pytest.raises(ValueError, match=f"{tmp_path}.*step 5.*damaged") as error:
        loaded(tmp_path)
    assert str(error.value).endswith(f"To start this run again from zero, delete {tmp_path}")


@pytest.mark.parametrize("when", [1, 2, 3, 4])
def test_a_full_disk_leaves_the_last_one(tmp_path, monkeypatch, when):
    made, count, replace = saved(tmp_path, 3), [0], os.replace

    def full(*args):
        count[0] += 1
        if count[0] == when:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(*args)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="disk.*full") as error:
        made.save(5, writes(5), {"step": 5})
    assert error.value.errno == errno.ENOSPC
    assert str(error.value).endswith("the checkpoint of step 3 is still there; then go on with --resume")
    assert sorted(os.listdir(tmp_path)) == ["3", "latest.json"]  # what was written in vain is gone
    assert loaded(tmp_path) == (3, [])
    made.save(5, writes(5), {"step": 5})
    assert loaded(tmp_path) == (5, [])


def test_the_same_step_again_changes_the_facts_only(tmp_path, monkeypatch):
    made = saved(tmp_path, 3, 5)
    monkeypatch.setattr(files, "write_tensors", dead)
    made.save(5, writes(5), {"step": 5, "best": True})
    found, notes = Checkpoints(tmp_path).load()
    assert (found.facts, notes) == ({"step": 5, "best": True}, [])


def test_what_is_published_is_what_was_written(tmp_path):
    made, file = saved(tmp_path, 3), tmp_path / "3" / "model.safetensors"
    assert made.kept[0].weights() == file.read_bytes()
    flip(file)
    with pytest.raises(ValueError, match=f"{file} was damaged"):
        made.kept[0].weights()


def test_only_one_process_trains_in_a_folder(tmp_path):
    """The lock is one between processes, so another one has to try."""
    (tmp_path / "state").mkdir()
    with exclusive_lock(tmp_path / "state"):
        process = os.fork()
        if process == 0:
            code = 1
            try:
                with exclusive_lock(tmp_path / "state"):
                    code = 2
            except ValueError as error:
                code = 0 if "is training in" in str(error) else 3
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    with exclusive_lock(tmp_path / "state"):
        pass
