"""`regard verify`: which files of a run are whole, what can be saved, and that a change by hand is found."""

import json
import os
import shutil

import pytest

from regard import files
from regard.runs.load import load_weights
from regard.runs.run import Run
from regard.verbs import main
from regard.verbs.verify import verify
from tests.training.cases import Tiny, train


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with checkpoints of steps 8 and 12, of which the better one was published."""
    path = tmp_path_factory.mktemp("verify") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        train(path, sample=lambda model: "text")
    return path


@pytest.fixture
def run(made, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(made, tmp_path / "run")


def command(capsys, *words):
    code = main.main(["verify", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def states(found):
    return {each.file: each.state for each in found.files}


def test_a_whole_run_is_whole(run, capsys):
    code, out, err = command(capsys, "run")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "run: whole" and "damaged" not in out
    lines = {line.split()[0]: line.split()[1] for line in out.splitlines()[1:]}
    whole = ["manifest.json", "config.json", "state/config.json", "model.safetensors", "environment.json"]
    assert [name for name, state in lines.items() if state == "whole"] == [
        *whole,
        "state/latest.json",
        "state/12",
        "state/8",
    ]
    assert [name for name, state in lines.items() if state == "not"] == ["metrics.jsonl", "samples/"]


def test_the_answer_as_json_and_as_exit_code(run, capsys):
    (run / "model.safetensors").write_bytes(b"short")
    os.unlink(run / "config.json")
    code, out, err = command(capsys, "run", "--json")
    found = json.loads(out)
    assert (code, err, found["whole"], found["path"]) == (1, "", False, "run")
    by_name = {each["file"]: each for each in found["files"]}
    assert by_name["model.safetensors"]["state"] == "damaged" and "step" in by_name["model.safetensors"]["remedy"]
    assert by_name["config.json"] == {
        "file": "config.json",
        "state": "missing",
        "remedy": "config.json: --repair restores it from state/config.json",
    }
    code, out, _ = command(capsys, "run", "--json", "--repair")
    found = json.loads(out)
    assert (code, found["whole"]) == (0, True) and len(found["done"]) == 2
    load_weights(Run.open(run), Tiny())


@pytest.mark.parametrize(
    "words, said",
    [
        (["nowhere"], "nowhere does not exist; give the folder of a run"),
        (["run/config.json"], "config.json is a file; give the folder of a run"),
        (["empty"], "empty is not a run of regard"),
        ([], "regard verify takes one run, got none"),
        (["run", "run"], "regard verify takes one run, got run run"),
        (["run", "--fix"], "--fix"),
    ],
)
def test_what_cannot_be_verified(run, capsys, words, said):
    (run.parent / "empty").mkdir()
    code, out, err = command(capsys, *words)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_another_program_s_config_is_no_run(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    code, _, err = command(capsys, tmp_path)
    assert code == 2 and "is not a run of regard" in err


def test_a_run_that_is_being_trained_is_read_but_not_repaired(run, capsys):
    process = os.fork()
    if process == 0:
        from regard.runs.lock import exclusive_lock

        code = 1
        try:
            with exclusive_lock(run / "state"):
                process = os.fork()
                if process == 0:
                    read, repaired = main.main(["verify", "run"]), main.main(["verify", "run", "--repair"])
                    os._exit(10 * read + repaired)
                code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 2


# ── a change by hand


def test_a_config_that_was_edited_is_refused_and_repaired(run, capsys):
    file = run / "config.json"
    before = file.read_text()
    file.write_text(before.replace('"lr": null', '"lr": 0.5'))
    with pytest.raises(ValueError, match=r"config\.json was damaged or changed.*regard verify.*--repair"):
        Run.open(run)
    code, out, _ = command(capsys, "run", "--repair")
    assert code == 0 and "restored config.json from state/config.json" in out
    assert file.read_text() == before and '"lr": 0.5' in (run / "config.json.damaged").read_text()


# ── what can be saved


def test_the_best_weights_come_back_exactly_where_a_checkpoint_has_them(run):
    before = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").unlink()
    best = (
        Run.open(run).read("config.json")
        and json.loads((run / "state" / "latest.json").read_text())["facts"]["best_step"]
    )
    found = verify(run)
    assert f"--repair restores it from the checkpoint of step {best}" in found.format()
    assert verify(run, repair=True).whole and (run / "model.safetensors").read_bytes() == before


def test_other_weights_are_published_where_the_best_are_gone(run):
    other = files.read_tensors(run / "model.safetensors")
    files.write_tensors(run / "x", {name: 2 * tensor for name, tensor in other.items()})
    Run.open(run).publish((run / "x").read_bytes())
    (run / "model.safetensors").write_bytes(b"short")
    assert "--repair publishes the weights of step 12 in its place" in verify(run).format()
    found = verify(run, repair=True)
    assert found.whole and any("published the weights of step 12" in each for each in found.done)
    assert (run / "model.safetensors.damaged").read_bytes() == b"short"
    load_weights(Run.open(run), Tiny())


def test_what_nothing_can_save_is_said(run):
    for name in ("model.safetensors", "state/12/model.safetensors", "state/8/optimiser.safetensors"):
        (run / name).write_bytes(b"short")
    for name in ("config.json", "state/config.json"):
        (run / name).write_bytes(b"{")
    found = verify(run)
    said = found.format()
    assert "model.safetensors: no checkpoint is whole; put back a copy" in said
    assert "config.json: its copy in state/ is damaged, too; put back a copy" in said
    assert "checkpoints: none is whole" in said
    again = verify(run, repair=True)
    assert not again.whole and states(again)["config.json"] == "damaged"
    assert (run / "model.safetensors").read_bytes() == b"short"  # nothing is taken away that nothing replaces


def test_half_written_files_are_named_and_removed(run):
    (run / ".model.safetensors.01234567.part").write_bytes(b"half")
    found = verify(run)
    assert found.whole and ".model.safetensors.01234567.part" in found.format()
    assert verify(run, repair=True).done == ("removed .model.safetensors.01234567.part, which was half-written",)


def test_lines_of_metrics_that_cannot_be_read_are_counted(run):
    with open(run / "metrics.jsonl", "a") as file:
        file.write("\0\0\n{\n")
    found = verify(run)
    assert found.whole and "2 lines cannot be read" in found.format()


def test_a_copy_without_checkpoints_is_whole(run, tmp_path):
    """What is needed to use the weights, taken elsewhere."""
    (tmp_path / "copy").mkdir()
    for name in ("config.json", "model.safetensors", "manifest.json", "environment.json"):
        shutil.copy(run / name, tmp_path / "copy")
    assert verify(tmp_path / "copy").whole
    load_weights(Run.open(tmp_path / "copy"), Tiny())
    assert sorted(os.listdir(tmp_path / "copy")) == [
        "config.json",
        "environment.json",
        "manifest.json",
        "model.safetensors",
    ]
