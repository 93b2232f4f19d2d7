"""Images as batches: decoded once, the same by number, damaged ones named, splits that do not touch."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.image_files import read
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.recipes.images import dataset as module
from regard.recipes.images.dataset import Files, Held, ImagesConfig, prepare


@pytest.fixture
def images(tmp_path):
    """Forty images of two classes, each with a colour of its own; two of them damaged."""
    draw = np.random.default_rng(0)
    for i in range(40):
        place = tmp_path / "data" / ("cats" if i % 2 else "dogs")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (20 + i % 3, 24, 3)).astype(np.uint8)).save(
            place / f"{i:02}.png"
        )
    (tmp_path / "data" / "cats" / "bad.png").write_text("no image")
    (tmp_path / "data" / "dogs" / "bad.png").write_bytes(
        (tmp_path / "data" / "dogs" / "00.png").read_bytes()[:400]
    )
    return tmp_path


def prepared(folder, **how):
    how.setdefault("path", str(folder / "data"))
    return prepare(ImagesConfig(**how), seed=0, cache=folder)


def test_batches_hold_the_files_and_their_classes(images):
    found = prepared(images, size=16)
    assert isinstance(found.store, Held) and found.channels == 3 and len(found.labelled) == 40
    batch = found.source(8, 0).batch(3)
    assert batch["x"].dtype == torch.uint8 and batch["x"].shape == (8, 3, 16, 16)
    pairs = zip(found.labelled.files, found.labelled.classes, strict=True)
    where = {read(path, 16, 3, "crop").tobytes(): number for path, number in pairs}
    assert [where[each.numpy().tobytes()] for each in batch["x"]] == batch.target.tolist()


def test_the_same_step_is_the_same_batch_and_decoding_each_time_changes_nothing(images):
    one, other = (
        prepared(images, size=16).source(8, 5),
        prepared(images, size=16, decoded="never").source(8, 5),
    )
    assert isinstance(other._images.store, Files)
    for step in (7, 0, 1, 7, 2):
        a, b = one.batch(step), other.batch(step)
        assert torch.equal(a["x"], b["x"]) and torch.equal(a.target, b.target)
    assert sum(len(each.target) for each in other.validation()) == 4


def test_images_are_decoded_once(images, monkeypatch):
    first = prepared(images, size=16)
    monkeypatch.setattr(module, "read", None)
    again = prepared(images, size=16)
    assert np.array_equal(first.store.pixels, again.store.pixels) and first.skipped == again.skipped
    changed = images / "data" / "cats" / "01.png"
    Image.new("RGB", (20, 20), "red").save(changed)
    with pytest.raises(TypeError):  # it would have to be read anew
        prepared(images, size=16)


def test_what_does_not_fit_on_the_disk_is_decoded_each_time_and_damage_is_found_once(images, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(free=40 * 3 * 16 * 16))
    found = prepared(images, size=16)
    assert isinstance(found.store, Files) and len(found.skipped) == 2
    assert (
        sum(path.stat().st_size for path in images.glob("pictures/*")) < 4000
        and not (images / "pixels").exists()
    )
    # neither to find what is damaged, nor to see how bright they are
    monkeypatch.setattr(module, "read", None)
    again = prepared(images, size=16)
    assert again.skipped == found.skipped and again.mean == found.mean
    with pytest.raises(ValueError, match="--data.damaged skip"):
        prepared(images, size=16, damaged="stop")


def test_images_are_found_again_from_another_folder(images, monkeypatch):
    prepared(images, size=16)
    monkeypatch.setattr(module, "read", None)
    monkeypatch.chdir(images)
    assert prepared(images, size=16, path="data").channels == 3


def test_only_some_images_are_in_memory_at_once(images, monkeypatch):
    found = prepared(images, size=16)
    asked, take = [], found.store.take
    monkeypatch.setattr(module, "WRITTEN", 8)
    monkeypatch.setattr(found.store, "take", lambda rows: asked.append(len(rows)) or take(rows))
    mean, deviation = module.moments(found.store, found.rows(TRAIN))
    assert max(asked) <= 8 and sum(asked) == len(found.rows(TRAIN))
    assert np.allclose(mean, found.mean) and np.allclose(deviation, found.deviation)


def test_a_class_of_which_nothing_can_be_read_is_named(images):
    (images / "data" / "owls").mkdir()
    (images / "data" / "owls" / "o.png").write_text("no image")
    with pytest.raises(ValueError, match="image.*'owls'.*o.png.*image"):
        prepared(images, size=16)


def test_one_image_of_each_class_is_learned_from_and_said(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.new("L", (8, 8), 100).save(tmp_path / "data" / name / "x.png")
    found = prepared(tmp_path)
    assert len(found.rows(TRAIN)) == 2 and found.labelled.notes == (module.ONE_OF_EACH,)
    assert found.deviation == (0.05,)  # of images without any


def test_damaged_files_are_named_and_skipped_or_stop_the_run(images):
    skipped = prepared(images, size=16).skipped
    assert len(skipped) == 2 and all("bad.png" in each for each in skipped)
    with pytest.raises(
        ValueError,
        match=r"bad\.png.*--data\.damaged skip",
    ):
        prepared(images, size=16, damaged="stop")


def test_splits_do_not_touch_and_every_class_is_in_each(images):
    found = prepared(images, size=16, validation=0.25)
    rows = [set(found.rows(split).tolist()) for split in (TRAIN, VALIDATION, TEST)]
    assert not rows[0] & rows[1] and len(rows[1]) == 10 and not rows[2]
    for each in rows[:2]:
        assert set(found.labelled.classes[sorted(each)].tolist()) == {0, 1}


def test_size_and_colour_follow_the_images(images):
    found = prepared(images)
    assert (found.size, found.channels) == (16, 3)  # the shorter side is 20 to 22
    assert prepared(images, channels="grey").channels == 1
    digits = prepared(images, path=None)
    assert (digits.size, digits.channels) == (8, 1)
    large = prepared(images, path=None, size=12, channels="colour")
    assert large.store.take(np.arange(3)).shape == (3, 3, 12, 12)


def test_mean_and_deviation_are_those_of_the_training_images(images):
    found = prepared(images, size=16)
    x = found.store.take(found.rows(TRAIN)) / 255
    assert np.allclose(found.mean, x.mean((0, 2, 3))) and np.allclose(found.deviation, x.std((0, 2, 3)))


def test_nothing_readable_is_said(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "x.png").write_text("no")
    with pytest.raises(ValueError, match="2 images.*image"):
        prepared(tmp_path, size=8)


@pytest.mark.parametrize(
    "how, words",
    [
        ({"size": 0}, "size.*from 1 to 8,192.*0"),
        ({"validation": 1.0}, "below 1, got 1.0"),
        ({"image": "label"}, "must be two columns"),
    ],
)
def test_options_that_cannot_be(how, words):
    with pytest.raises(ValueError, match=words):
        ImagesConfig(**how)
