"""Numbers from images: by how many degrees a digit of scikit-learn was turned; from arrays and from a table."""

import csv

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import regard
from regard.training.progress import Observer
from regard.verbs.look import write_report
from tests.recipes.images.prepared import prepared
from tests.recipes.images.test_images_labelled_images import find

OPTIONS = {
    "model.dim": 32,
    "model.depth": 2,
    "model.patch": 4,
    "train.batch": 64,
    "train.save_every": 10,
    "train.average": 0,
}


class Killed(Exception):
    """What ends a run in its midst."""


class Killer(Observer):
    def stepped(self, step, loss, size, seconds):
        if step == 15:
            raise Killed


@pytest.fixture(scope="module")
def turned():
    """Ones, each turned by up to 60 degrees: images and angles."""
    data = load_digits()
    ones = (data.images[data.target == 1] * 15.9).astype(np.uint8)
    random = np.random.default_rng(0)
    angles = random.uniform(-60, 60, 2 * len(ones))
    large = [Image.fromarray(ones[i % len(ones)]).resize((16, 16)) for i in range(len(angles))]
    images = [one.rotate(angle, Image.Resampling.BILINEAR) for one, angle in zip(large, angles, strict=True)]
    return np.stack(images), angles


def test_angles_train_resume_predict_and_evaluate(turned, tmp_path):
    images, angles = turned
    np.savez(tmp_path / "turned.npz", images=images, labels=angles)
    out = tmp_path / "run"
    how = {"data": str(tmp_path / "turned.npz"), "model": "vit", "options": OPTIONS}
    with pytest.raises(Killed):
        regard.train("images", out=out, steps=40, observers=[Killer()], **how)
    run = regard.train("images", out=out, resume=True, observers=[], report=False)
    write_report(run, str(run.path))
    target = run.config.processor["target"]
    assert target["classes"] == [] and [each["name"] for each in target["numbers"]] == ["label"]
    found = regard.evaluate(run.path)
    assert found.measures["MAE"] < 20 and found.measures["R²"] > 0.6 and found.confusion is None
    told = [each.values["label"] for each in regard.predict(run.path, list(images[:60]))]
    assert np.corrcoef(told, angles[:60])[0, 1] > 0.85
    np.savez(tmp_path / "some.npz", images=images[:60], labels=angles[:60])
    other = regard.evaluate(run.path, data=str(tmp_path / "some.npz"))
    assert other.measures["MAE"] == pytest.approx(np.abs(np.array(told) - angles[:60]).mean(), rel=1e-3)
    page = (run.path / "report.html").read_text()
    assert "the prediction of the whole" in page and "most likely prediction" not in page
    Image.fromarray(images[0]).save(tmp_path / "one.png")
    (drawn,) = regard.predict(run.path, [str(tmp_path / "one.png")], out=str(tmp_path / "looked.png"))
    assert drawn.values["label"] == pytest.approx(told[0]) and (tmp_path / "looked.png").exists()


def test_a_table_of_paths_with_numbers(turned, tmp_path):
    images, _ = turned
    rows = [("file", "age", "split")]
    for i in range(24):
        Image.fromarray(images[i]).save(tmp_path / f"{i}.png")
        rows.append((f"{i}.png", 20 + 3 * i, "test" if i % 4 == 0 else "train"))
    (tmp_path / "0.png").write_bytes(b"damaged")
    with (tmp_path / "ages.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)

    def read(**options):
        return prepared(str(tmp_path / "ages.csv"), cache=tmp_path, label="age", views="flip", **options)

    job = read()
    assert {name: job.counts[name] for name in ("train", "validation", "test")} == {
        "train": 16,
        "validation": 2,
        "test": 5,
    }
    assert "'age' holds 24" in job.notes[0] and "--data.asks classes" in job.notes[0]
    batch = job.source.take(np.arange(1, 24))  # the damaged one is left out
    ages = [job.number.restore(each) for each in batch.target.tolist()]
    assert ages == pytest.approx([20 + 3 * i for i in range(1, 24)], rel=1e-5)
    with pytest.raises(ValueError, match="no image of '20' to train on"):
        read(asks="classes")
    with pytest.raises(ValueError, match="class_weights.*numbers"):
        read(class_weights="auto")
    (tmp_path / "ages.csv").write_text("file,age\n1.png,young\n2.png,4\n")
    with pytest.raises(ValueError, match="line 2 of .*ages.csv.*'young'.*number.*data.asks classes"):
        read(asks="numbers")


def test_bytes_and_folders_are_classes_unless_said(tmp_path):
    for age in range(20, 50, 2):
        (tmp_path / str(age)).mkdir()
        Image.new("L", (8, 8), age).save(tmp_path / str(age) / "a.png")
    assert len(find(tmp_path).labels) == 15 and find(tmp_path).notes == ()
    assert not prepared(str(tmp_path), cache=tmp_path, asks="numbers").labels
    assert find(None).labels == tuple("0123456789")
