"""What a path holds becomes inputs: images with labels or without, rows of tables, point clouds."""

import csv

import numpy as np
import pytest
from PIL import Image

from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.errors import RegardError
from regard.recipes.autoencoder.autoencode import Autoencode
from regard.recipes.autoencoder.config import InputsConfig
from regard.recipes.autoencoder.processor import find_form, number_labels
from regard.recipes.autoencoder.recipe import RECIPE
from regard.recipes.job import DataContext
from regard.recipes.request import TrainRequest
from regard.verbs.evaluate import evaluate
from regard.verbs.train import train


class Inputs:
    """What a training would read: its inputs, their splits, and their labels."""

    def __init__(self, job):
        self.dataset, self.processor = job.source, job.processor
        self.form, self.shape, self.columns = job.processor.form, job.processor.shape, job.processor.columns
        self.labels, self.count = number_labels(job.source.examples)[0], sum(job.counts.values())

    def take(self, rows):
        return self.processor.numbers(self.dataset.take(rows)["x"])

    def rows(self, split):
        return np.flatnonzero(self.dataset.splits == split)


@pytest.fixture
def read(tmp_path):
    (tmp_path / "cache").mkdir()

    def prepare(given=None, **config):
        data = config.pop("path", given)
        options = {f"data.{name}": value for name, value in config.items()}
        request = TrainRequest(recipe=RECIPE, data=data, options=options)
        settings = request.settings()
        context = DataContext(cache=tmp_path / "cache", examples=request.examples)
        return Inputs(RECIPE.prepare(settings, context))

    return prepare


def defaults(data, kind=None, **options):
    return TrainRequest(recipe=RECIPE, data=data, model=kind, options=options).settings()


def write_images(folder, count=6, shade=100):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        Image.fromarray(np.full((8, 8), shade + i, dtype=np.uint8)).save(folder / f"{i}.png")


def write_table(path, rows, names=("a", "b", "label")):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return str(path)


def test_images_need_no_labels_and_no_folders_of_classes(tmp_path, read):
    write_images(tmp_path / "loose")
    found = read(path=str(tmp_path / "loose"))
    assert (found.form, found.shape, found.labels, found.count) == ("images", (1, 8, 8), (), 6)
    write_images(tmp_path / "named" / "cats")
    write_images(tmp_path / "named" / "dogs")
    assert read(path=str(tmp_path / "named")).labels == ("cats", "dogs")
    write_images(tmp_path / "cut" / "train")
    write_images(tmp_path / "cut" / "test", 2)
    found = read(path=str(tmp_path / "cut"), validation=0.0)
    assert (len(found.rows(TRAIN)), len(found.rows(TEST)), found.labels) == (6, 2, ())


@pytest.mark.parametrize("names", [("images",), ("x_train", "x_val", "x_test"), ("train_images",)])
def test_arrays_without_labels_have_the_splits_of_their_names(tmp_path, read, names):
    held = {name: np.full((4, 8, 8), i, dtype=np.uint8) for i, name in enumerate(names)}
    np.savez(tmp_path / "a.npz", **held)
    found = read(path=str(tmp_path / "a.npz"), validation=0.0)
    assert found.labels == () and found.count == 4 * len(names)
    if len(names) == 3:
        assert [len(found.rows(split)) for split in (TRAIN, VALIDATION, TEST)] == [4, 4, 4]
        assert (found.dataset.take(found.rows(TEST))["x"] == 2).all()


def test_an_npz_with_labels_keeps_them_and_two_axes_are_rows(tmp_path, read):
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 8, 8), dtype=np.uint8), y=np.array([3, 3, 7, 7]))
    assert read(path=str(tmp_path / "a.npz"), validation=0.0).labels == ("3", "7")
    np.savez(tmp_path / "b.npz", x=np.random.default_rng(0).normal(size=(9, 5)))
    found = read(path=str(tmp_path / "b.npz"))
    assert (found.form, found.shape) == ("rows", (5,))


def test_a_table_of_paths_lists_images_and_one_of_numbers_holds_rows(tmp_path, read):
    write_images(tmp_path / "some")
    paths = write_table(tmp_path / "p.csv", [(f"some/{i}.png",) for i in range(4)], ["file"])
    assert find_form(paths, InputsConfig()) == "images" and read(path=paths).count == 4
    rows = write_table(tmp_path / "n.csv", [(i, 2 * i + 1, "ab"[i % 2]) for i in range(10)])
    found = read(path=rows, validation=0.0)
    assert (found.form, found.columns, found.labels) == ("rows", ("a", "b"), ("a", "b"))
    x = found.take(found.rows(TRAIN))
    assert abs(float(x.mean())) < 1e-6 and float(x.std(0, correction=0).mean()) == pytest.approx(1)
    assert read(path=rows, columns=("b",)).columns == ("b",)


def test_zeros_and_ones_are_left_as_they_are_and_have_a_bernoulli(tmp_path, read):
    rows = write_table(tmp_path / "n.csv", [(i % 2, i % 3 == 0) for i in range(10)], ["a", "b"])
    text = (tmp_path / "n.csv").read_text().replace("True", "1").replace("False", "0")
    (tmp_path / "n.csv").write_text(text)
    found = read(path=rows)
    assert set(found.take(np.arange(10)).flatten().tolist()) == {0.0, 1.0}
    assert defaults(rows).model.likelihood == "bernoulli"


def test_a_column_that_never_changes_does_not_divide_by_nothing(tmp_path, read):
    rows = write_table(tmp_path / "n.csv", [(i, 5) for i in range(10)], ["a", "b"])
    assert np.isfinite(read(path=rows).take(np.arange(10)).numpy()).all()


@pytest.mark.parametrize(
    "rows, words",
    [
        ([(1, "x"), (2, 3)], ["line 2", "'x'", "'b'", "--data.columns"]),
        ([(1, 2), (1, "")], ["line 3", "'b'"]),
        ([(1, 2), (1, "inf")], ["line 3", "inf", "'b'"]),
        ([], ["no rows"]),
        ([(1, 2)], ["1 rows", "two"]),
    ],
)
def test_a_table_that_is_not_numbers_says_where(tmp_path, read, rows, words):
    path = write_table(tmp_path / "n.csv", rows, ["a", "b"])
    with pytest.raises(RegardError) as error:
        read(path=path, validation=0.0)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_point_clouds_have_one_size_and_lie_around_the_origin(tmp_path, read):
    for name, count in (("a", 40), ("b", 5)):
        (tmp_path / "clouds" / name).mkdir(parents=True)
        for i in range(3):
            cloud = np.random.default_rng(i).normal(5, 2, size=(count, 3))
            np.save(tmp_path / "clouds" / name / f"{i}.npy", cloud)
    found = read(path=str(tmp_path / "clouds"), points=16)
    assert (found.form, found.shape, found.labels) == ("points", (16, 3), ("a", "b"))
    x = found.take(np.arange(6))
    assert float(x.mean(1).abs().max()) < 1e-5 and float(x.norm(dim=-1).max()) == pytest.approx(1)
    assert defaults(str(tmp_path / "clouds")).model.body == "set"


def test_other_data_is_read_as_the_first_was(tmp_path):
    path = write_table(tmp_path / "n.csv", [(i, i * i) for i in range(10)], ["a", "b"])
    how = {"train.threads": 1, "model.hidden": 8}
    run = train("autoencoder", data=path, out=tmp_path / "run", steps=1, options=how, observers=[], report=False)
    other = write_table(tmp_path / "o.csv", [(7, 49, 0), (8, 64, 0)], ["b", "a", "c"])
    task, split, _ = Autoencode().read_other(run, other, DataContext(cache=tmp_path))
    (batch,) = split.batches()
    np.testing.assert_allclose(task.processor.in_units(batch["x"]), [(49, 7), (64, 8)], rtol=1e-5)
    write_images(tmp_path / "loose")
    with pytest.raises(RegardError, match="images.*rows"):
        evaluate(run.path, tmp_path / "loose")


def test_data_in_memory_are_read_as_files_are(tmp_path, read):
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (20, 8, 8)).astype(np.uint8)
    numbers = draw.normal(size=(20, 3))
    np.savez(tmp_path / "images.npz", x=pixels)
    np.savez(tmp_path / "rows.npz", x=numbers)
    (tmp_path / "clouds").mkdir()
    for i, cloud in enumerate(draw.normal(size=(9, 30, 3))):
        np.save(tmp_path / "clouds" / f"{i}.npy", cloud)
    clouds = [np.load(tmp_path / "clouds" / f"{i}.npy") for i in range(9)]
    frame = [{"a": a, "b": b, "c": c} for a, b, c in numbers.tolist()]
    for given, path in ((pixels, "images.npz"), (numbers, "rows.npz"), (clouds, "clouds"), (frame, "rows.npz")):
        ours, theirs = read(given), read(path=str(tmp_path / path))
        assert (ours.form, ours.shape) == (theirs.form, theirs.shape)
        for split in (TRAIN, VALIDATION):
            np.testing.assert_array_equal(ours.take(ours.rows(split)), theirs.take(theirs.rows(split)))


def test_the_likelihood_suits_the_data(tmp_path):
    draw = np.random.default_rng(0)
    grey = draw.integers(0, 256, size=(9, 8, 8)).astype(np.uint8)
    white = (grey > 128).astype(np.uint8) * 255
    faint = np.where(draw.random(grey.shape) < 0.1, grey, white)
    for name, pixels in (("grey", grey), ("white", white), ("faint", faint)):
        np.savez(tmp_path / f"{name}.npz", x=pixels)
    asked = lambda name, kind=None, **options: defaults(str(tmp_path / f"{name}.npz"), kind, **options)  # noqa: E731
    assert (asked("grey").model.likelihood, asked("grey").data.binarise) == ("discretised", "none")
    assert (asked("white").model.likelihood, asked("white").data.binarise) == ("bernoulli", "none")
    assert (asked("faint").model.likelihood, asked("faint").data.binarise) == ("bernoulli", "dynamic")
    assert asked("grey", "denoising").model.likelihood == "gaussian"
    forced = asked("grey", **{"data.binarise": "threshold"})
    assert (forced.model.likelihood, forced.data.binarise) == ("bernoulli", "threshold")
    assert asked("faint", **{"data.binarise": "none"}).model.likelihood == "discretised"
    assert asked("grey", **{"data.size": 100}).model.body == "conv"
    assert asked("grey", **{"model.body": "vit"}).model.body == "vit"


@pytest.mark.parametrize("name", ["empty", "text.txt", "gone"])
def test_what_is_none_of_these_is_told(tmp_path, read, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello")
    with pytest.raises((RegardError, FileNotFoundError), match=name):
        read(path=str(tmp_path / name))
