"""Images as batches: decoded once, the same by number, damaged ones named, splits that do not touch."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.image_files import read
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.recipes.images import processor as module
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.processor import measure_light
from tests.recipes.images import prepared as of


@pytest.fixture
def images(tmp_path):
    """Forty images of two classes, each with a colour of its own; two of them damaged."""
    draw = np.random.default_rng(0)
    for i in range(40):
        place = tmp_path / "data" / ("cats" if i % 2 else "dogs")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (20 + i % 3, 24, 3)).astype(np.uint8)).save(place / f"{i:02}.png")
    (tmp_path / "data" / "cats" / "bad.png").write_text("no image")
    (tmp_path / "data" / "dogs" / "bad.png").write_bytes((tmp_path / "data" / "dogs" / "00.png").read_bytes()[:400])
    return tmp_path


def prepared(folder, path="data", seed=0, **how):
    data = None if path is None else str(folder / path)
    return of.prepared(data, seed=seed, cache=folder, **how)


def pixels(job, rows):
    return np.stack([each["x"] for each in job.source.encodings(rows)])


def test_batches_hold_the_files_and_their_classes(images):
    job = prepared(images, size=16)
    examples = job.source.examples
    assert job.source.encodings.array is not None and len(examples) == 42
    assert job.model.colours == 3 and job.model.classes == 2
    batch = job.source.batch(3)
    assert batch["x"].dtype == torch.uint8 and batch["x"].shape == (8, 3, 16, 16)
    good = [i for i in range(42) if "bad" not in examples.names(i)]
    where = {read(examples.names(i), 16, 3, "crop").tobytes(): job.labels.index(examples.target_of(i)) for i in good}
    assert [where[each.numpy().tobytes()] for each in batch["x"]] == batch.target.tolist()


def test_the_same_step_is_the_same_batch_and_decoding_each_time_changes_nothing(images):
    one, other = (prepared(images, size=16, decoded=how, seed=5) for how in ("auto", "never"))
    assert other.source.encodings.keep == "none" and one.processor.fitted == other.processor.fitted
    for step in (7, 0, 1, 7, 2):
        a, b = one.source.batch(step), other.source.batch(step)
        assert torch.equal(a["x"], b["x"]) and torch.equal(a.target, b.target)
    assert sum(len(each.target) for each in other.source.validation()) == one.validation


def test_images_are_decoded_once(images, monkeypatch):
    first = prepared(images, size=16)
    monkeypatch.setattr(module, "read", None)
    again = prepared(images, size=16)
    assert np.array_equal(first.source.encodings.array, again.source.encodings.array)
    assert first.notes == again.notes
    changed = images / "data" / "cats" / "01.png"
    Image.new("RGB", (20, 20), "red").save(changed)
    with pytest.raises(TypeError):  # it would have to be read anew
        prepared(images, size=16)


def test_what_does_not_fit_on_the_disk_is_decoded_each_time_and_damage_is_found_once(images, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(free=40 * 3 * 16 * 16))
    found, tried = prepared(images, size=16), []
    assert found.source.encodings.keep == "none" and len(found.source.encodings.errors) == 2
    assert sum(path.stat().st_size for path in images.glob("encoded/*")) < 4000
    monkeypatch.setattr(module, "read", lambda path, *how: tried.append(path) or read(path, *how))
    again = prepared(images, size=16)
    assert again.notes == found.notes and not [path for path in tried if "bad.png" in path]
    with pytest.raises(ValueError, match="data.damaged skip"):
        prepared(images, size=16, damaged="stop")


def test_images_are_found_again_from_another_folder(images, monkeypatch):
    prepared(images, size=16)
    monkeypatch.setattr(module, "read", None)
    monkeypatch.chdir(images)
    assert of.prepared("data", cache=images, size=16).model.colours == 3


def test_only_some_images_are_in_memory_at_once(images, monkeypatch):
    job, asked = prepared(images, size=16), []
    train = job.source.units("train")
    monkeypatch.setattr(module, "AT_ONCE", 8)
    mean, deviation = measure_light(lambda rows: asked.append(len(rows)) or job.source.encodings(rows), train)
    assert max(asked) <= 8 and sum(asked) == len(train)
    assert (mean, deviation) == (job.processor.fitted.mean, job.processor.fitted.deviation)
    x = pixels(job, train) / 255
    assert np.allclose(mean, x.mean((0, 2, 3))) and np.allclose(deviation, x.std((0, 2, 3)))


def test_a_class_of_which_nothing_can_be_read_is_named(images):
    (images / "data" / "owls").mkdir()
    (images / "data" / "owls" / "o.png").write_text("no image")
    with pytest.raises(ValueError, match=r"'owls'.*o\.png is not a readable image"):
        prepared(images, size=16)


def test_one_image_of_each_class_is_learned_from_and_said(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.new("L", (8, 8), 100).save(tmp_path / "data" / name / "x.png")
    job = prepared(tmp_path)
    assert job.counts["train"] == 2 and "there is one image of 'a', 'b', to learn from" in job.notes[0]
    assert job.processor.fitted.deviation == (0.05,)  # of images without any


def test_damaged_files_are_named_and_skipped_or_stop_the_run(images):
    assert sum("bad.png" in note for note in prepared(images, size=16).notes) == 2
    with pytest.raises(ValueError, match=r"bad\.png.*data\.damaged skip"):
        prepared(images, size=16, damaged="stop")


def test_a_damaged_file_does_not_change_the_split_of_the_others(images):
    whole = prepared(images, size=16).source
    (images / "data" / "cats" / "01.png").write_text("damaged, too")
    other = prepared(images, size=16).source
    changed = {whole.examples.names(i) for i in np.flatnonzero(whole.splits != other.splits)}
    assert changed == {str(images / "data" / "cats" / "01.png")}


def test_splits_do_not_touch_and_every_class_is_in_each(images):
    source = prepared(images, size=16, validation=0.25).source
    rows = [set(np.flatnonzero(source.splits == split).tolist()) for split in (TRAIN, VALIDATION, TEST)]
    assert not rows[0] & rows[1] and len(rows[1]) >= 9 and not rows[2]
    for each in rows[:2]:
        assert set(source.codes[sorted(each)].tolist()) == {0, 1}


def test_size_and_colour_follow_the_images(images):
    found = prepared(images).model
    assert (found.size, found.colours) == (16, 3)  # the shorter side is 20 to 22
    assert prepared(images, channels="grey").model.colours == 1
    digits = prepared(images, path=None).model
    assert (digits.size, digits.colours) == (8, 1)
    large = prepared(images, path=None, size=12, channels="colour")
    assert pixels(large, np.arange(3)).shape == (3, 3, 12, 12)


def test_nothing_readable_is_said(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "x.png").write_text("no")
    for decoded in ("auto", "never"):
        with pytest.raises(ValueError, match=r"data has nothing that can be read: .*x\.png"):
            prepared(tmp_path, size=8, decoded=decoded)


@pytest.mark.parametrize(
    "how, words",
    [
        ({"size": 0}, "size.*from 1 to 8,192.*0"),
        ({"validation": 1.0}, "below 1, got 1.0"),
        ({"image": "label"}, "must be two columns"),
        ({"names": ("a", "b"), "asks": "numbers"}, "names are for classes"),
    ],
)
def test_options_that_cannot_be(how, words):
    with pytest.raises(ValueError, match=words):
        ImagesConfig(**how)
