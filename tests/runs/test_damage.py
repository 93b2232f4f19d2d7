"""Every file of a run that a command reads: whatever happens to it, it is refused by its name, or makes no difference."""

import json
import os
import shutil

import pytest
import torch

import regard
from regard import files
from regard.runs.run import Run
from regard.training.checkpoint import Checkpoints
from regard.verbs.verify import verify
from tests.damage import WAYS, each_way, flipped, some_bits

PUBLISHED = ["model.safetensors", "config.json", "tokenizer.json", "manifest.json", "environment.json"]
STATE = ["latest.json", "9/model.safetensors", "9/optimiser.safetensors", "9/state.json"]
FLIPS = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of a tiny language model, with checkpoints of steps 6 and 9."""
    folder, patch = tmp_path_factory.mktemp("damage"), pytest.MonkeyPatch()
    patch.setenv("REGARD_CACHE", str(folder / "cache"))
    patch.setattr(os, "fsync", lambda handle: None)
    (folder / "text.txt").write_text("the cat sat on the mat. " * 40)
    options = {"model.dim": 8, "model.depth": 1, "model.heads": 2, "model.ngrams": 1, "data.context": 8}
    options |= {"train.save_every": 3}
    regard.train(
        "text", data=folder / "text.txt", out=folder / "run", steps=9, options=options, observers=[], report=False
    )
    yield folder / "run"
    patch.undo()


@pytest.fixture
def run(made, tmp_path, monkeypatch):
    """A copy to be damaged."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return shutil.copytree(made, tmp_path / "run")


def use(path):
    """What a command gets out of a run: settings, tokenizer, and logits for a text."""
    run = Run.open(path)
    model = regard.load(path)
    with torch.no_grad():
        logits = model(torch.tensor(model.tokenizer.encode("the cat").tolist())[None])
    return run.config, run.environment(), logits.tolist()


def resumed(path):
    """What a training would go on from: its step, its facts, the bytes of its files, and what is told."""
    found, notes = Checkpoints(path / "state").load()
    weights = {name: (found.folder / name).read_bytes() for name in found.sums if name != "state.json"}
    return found.step, found.facts, weights, notes


def refused(path, *names):
    """Using the run is refused in one line that has one of these names."""
    with pytest.raises((ValueError, OSError), match="^[^\\n]+$") as caught:
        use(path)
    said = str(caught.value)
    assert any(name in said for name in names), said


# ── one bit


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_flipped_bit_of_a_published_file_is_refused_by_name(run, name):
    before, data = use(run), (run / name).read_bytes()
    count = 0
    for bit in some_bits(data, FLIPS):
        (run / name).write_bytes(flipped(data, bit))
        refused(run, name)
        count += 1
    assert count == FLIPS
    (run / name).write_bytes(data)
    assert use(run) == before


@pytest.mark.parametrize("name", STATE)
def test_a_flipped_bit_of_a_checkpoint_means_one_that_is_whole(run, name):
    """Never another step, another fact or another byte than what was saved, and never in silence."""
    before, data = resumed(run), (run / "state" / name).read_bytes()
    for bit in some_bits(data, FLIPS):
        (run / "state" / name).write_bytes(flipped(data, bit))
        step, facts, weights, notes = resumed(run)
        assert notes and step == facts["step"]
        if name == "latest.json":
            assert step == 9 and weights == before[2]  # by the state.json of its own folder
        else:
            assert step == 6 and name in notes[0]
    (run / "state" / name).write_bytes(data)
    assert resumed(run) == before


def test_a_digit_of_latest_that_reads_as_another_step_does_not_count(run):
    """The step, the facts and the checksums of the other checkpoint, each in its place: valid JSON, and not what was
    written."""
    latest = run / "state" / "latest.json"
    found = json.loads(latest.read_text())
    swapped = found["previous"] | {"previous": None, "sha256": found["sha256"]}
    for planted in (swapped, found | {"step": 6}, found | {"facts": found["facts"] | {"step": 7}}):
        latest.write_text(json.dumps(planted))
        step, facts, _, notes = resumed(run)
        assert step == facts["step"] == 9 and "latest.json is damaged" in notes[0]


def test_flips_of_metrics_change_nothing_that_is_computed(run):
    before, state = use(run), resumed(run)
    data = (run / "metrics.jsonl").read_bytes()
    for bit in some_bits(data, FLIPS):
        (run / "metrics.jsonl").write_bytes(flipped(data, bit))
        Run.open(run).cut(9)
        Run.open(run).metrics()
    assert use(run) == before and resumed(run) == state


# ── other damage


@pytest.mark.parametrize("name", PUBLISHED)
def test_other_damage_of_a_published_file_is_refused_by_name(run, name):
    before = use(run)
    for way in each_way(run / name):
        if (name, way) == ("environment.json", "missing"):
            assert use(run) == (before[0], {}, before[2])  # a run can be used without it
        else:
            refused(run, name)
    assert use(run) == before


@pytest.mark.parametrize("name", STATE)
def test_other_damage_of_a_checkpoint_means_one_that_is_whole(run, name):
    before = resumed(run)
    for _ in each_way(run / "state" / name):
        step, facts, weights, notes = resumed(run)
        assert notes and step == facts["step"] == (9 if name == "latest.json" else 6)
        assert step == 6 or weights == before[2]
    assert resumed(run) == before


def test_damage_of_both_checkpoints_is_an_error_with_both_names(run):
    (run / "state" / "6" / "model.safetensors").unlink()
    for _ in each_way(run / "state" / "9" / "optimiser.safetensors"):
        with pytest.raises(ValueError, match="step 9 is damaged.*step 6 is damaged.*delete"):
            Checkpoints(run / "state").load()
    use(run)  # the published weights are another file


@pytest.mark.parametrize("name", [*PUBLISHED, *(f"state/{each}" for each in STATE)])
def test_verify_names_what_is_damaged_and_repair_restores_it(made, run, name):
    before = use(run)
    for way in ("cut in half", "zeros at its end", "missing", "a folder"):
        shutil.rmtree(run)
        shutil.copytree(made, run)
        WAYS[way](run / name)
        found = verify(run)
        bad = [each for each in found.files if each.state in ("damaged", "missing")]
        assert not found.whole and bad and all(each.remedy for each in bad)
        assert any(name.startswith(each.file) for each in bad), found.format()
        again = verify(run, repair=True)
        assert again.done
        if name != "manifest.json":  # which copies prove only in part
            assert again.whole, again.format()
        assert resumed(run)[0] == (6 if name.startswith("state/9") else 9)
    config, _, logits = use(run)
    assert (config, logits) == (before[0], before[2])


# ── who writes last


def test_the_file_of_another_run_is_refused(run, made, tmp_path):
    """Whole, of the same shape, and not this run's: as after a copy into the wrong folder."""
    tensors = files.read_tensors(run / "model.safetensors")
    files.write_tensors(run / "model.safetensors", {name: 2 * tensor for name, tensor in tensors.items()})
    refused(run, "model.safetensors")
    assert not verify(run).whole and verify(run, repair=True).whole
    assert use(run)[2] == use(made)[2]


def test_a_file_that_a_training_replaces_meanwhile_is_no_damage(run, monkeypatch):
    """The manifest was read, then the training published new weights: the reader looks again."""
    opened, data = Run.open(run), (run / "model.safetensors").read_bytes()
    whole, published = files.checksum, []

    def checksum(path):
        if not published:
            published.append(path)
            other = files.read_tensors(run / "model.safetensors")
            files.write_tensors(run / "x.safetensors", {name: 2 * tensor for name, tensor in other.items()})
            Run.open(run).publish((run / "x.safetensors").read_bytes())
        return whole(path)

    monkeypatch.setattr(files, "checksum", checksum)
    assert opened.verify("model.safetensors") == run / "model.safetensors"
    assert published and (run / "model.safetensors").read_bytes() != data


def test_weights_that_are_no_numbers_are_refused_even_when_published(run):
    tensors = files.read_tensors(run / "model.safetensors")
    first = next(iter(tensors))
    for value in (float("nan"), float("inf")):
        tensors[first][0] = value
        files.write_tensors(run / "x", tensors)
        Run.open(run).publish((run / "x").read_bytes())
        with pytest.raises(ValueError, match=f"'{first}' holds NaN or infinity"):
            use(run)
