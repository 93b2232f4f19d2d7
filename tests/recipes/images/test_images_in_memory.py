"""What `predict` says of images in memory: as of the same in files."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.runs.run import Run
from regard.targets.open import open_target
from regard.verbs import train
from regard.verbs.predict import predict


@pytest.fixture
def run(tmp_path, monkeypatch, no_report):
    """Of bright and dark images of 12 × 12, which are in a folder, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    light = np.random.default_rng(0).integers(0, 120, (24, 12, 12)) + 130 * (np.arange(24) % 2)[:, None, None]
    for i, each in enumerate(light.astype(np.uint8)):
        place = tmp_path / "pictures" / ("bright" if i % 2 else "dark")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(each).save(place / f"{i:02}.png")
    small = {"model.widths": (4, 4), "model.hidden": 8}
    train.train("images", data="pictures", model="lenet", out="run", steps=2, options=small, observers=[])
    return "run"


def test_images_in_memory_are_answered_as_files_are(run):
    paths = ["pictures/bright/01.png", "pictures/dark/02.png"]
    opened = [Image.open(path) for path in paths]
    true = predict(run, paths)
    for given in (opened, [np.asarray(each) for each in opened], [np.asarray(each)[:, :, None] for each in opened]):
        found = predict(run, given)
        assert [each.labels for each in found] == [pytest.approx(each.labels) for each in true]
        assert [each.input for each in found] == ["image 1", "image 2"]
    (alone,) = predict(run, opened[1])
    assert alone.labels == pytest.approx(true[1].labels)
    coloured = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(coloured).save("wide.png")
    modes = [Image.fromarray(coloured).convert(mode) for mode in ("RGB", "CMYK")]
    clear = Image.fromarray(np.dstack([coloured, np.full((20, 30), 255, np.uint8)]))
    for each in predict(run, [coloured, *modes, clear, clear.convert("RGBa")]):
        assert each.labels == pytest.approx(predict(run, "wide.png")[0].labels)


def test_an_image_in_memory_is_turned_as_its_camera_says_and_drawn(run):
    side = Image.fromarray(np.linspace(0, 255, 20 * 30).reshape(20, 30).astype(np.uint8))
    turned = Image.Exif()
    turned[0x0112] = 6
    side.save("side.jpg", exif=turned.tobytes(), quality=100)
    assert predict(run, Image.open("side.jpg"))[0].labels == predict(run, "side.jpg")[0].labels
    assert predict(run, "side.jpg")[0].labels != predict(run, side)[0].labels
    (answer,) = predict(run, side, out="looked.png")
    assert (answer.input, answer.picture) == ("image 1", "looked.png") and os.path.getsize("looked.png") > 1000


@pytest.mark.parametrize("given, words", [
    (np.zeros((12, 12)), r"image 1.*bytes 'h w'.*'h w c'.*1, 3.*4 channels.*float64.*shape \(12, 12\)"),
    (np.zeros((5, 12, 12), np.uint8), r"uint8.*shape \(5, 12, 12\); several images.*list\(x\)"),
    (np.zeros((0, 12), np.uint8), r"got uint8 of shape \(0, 12\)"),
    ([Image.new("L", (9, 9)), Image.new("F", (9, 9))], "image 2.*real"),
])  # fmt: skip
def test_what_is_no_image_in_memory_is_refused(run, given, words):
    assert re.search(words, predict(run, given)[-1].error)


def test_inputs_for_the_model_itself_are_refused(run):
    with pytest.raises(ValueError, match="images.*arrays.*bytes.*Tensor.*inputs.*call"):
        predict(run, torch.zeros(3, 12, 12))
    assert predict(run, b"bytes")[0].error


def test_arrays_and_rows_in_memory_train_as_files_do(run, no_report):
    files = sorted(Path("pictures").rglob("*.png"))
    pixels, labels = (np.stack([np.asarray(Image.open(file)) for file in files]), [f.parent.name for f in files])
    rows = [{"file": str(file), "label": label} for file, label in zip(files, labels, strict=True)]
    small = {"model.widths": (4, 4), "model.hidden": 8}
    how = {"model": "lenet", "steps": 2, "options": small, "observers": []}
    for name, data in (("arrays", (pixels, np.array(labels))), ("rows", rows)):
        made = train.train("images", data=data, out=name, **how)
        assert losses(made) == losses(Run.open(run)), name
    with pytest.raises(ValueError, match="in memory"):
        regard.evaluate("arrays")
    found = regard.evaluate("arrays", data="pictures")
    assert found.count == 24
    assert "was drawn for the purpose" in open_target("arrays").reader.read().notes[0]


def losses(run):
    return [event["loss"] for event in run.metrics() if event["event"] == "step"]
