"""Whether images may be mirrored is tried on the images: classes that depend on left and right are noticed."""

import re

import numpy as np
import pytest
import torch

from regard.recipes.base import get_recipe
from regard.recipes.images.augment import try_mirror
from regard.recipes.job import DataContext
from regard.recipes.settings import apply_settings


def draw_arrows(count, ways, seed=0):
    """Arrowheads at any place, dark or bright, in noise; the class is where they point: 0 up, 1 down, 2 left,
    3 right.   uint8 n 1 16 16, n"""
    draw = np.random.default_rng(seed)
    pixels, classes = draw.normal(128, 12, (count, 16, 16)), draw.choice(ways, count)
    for image, way in zip(pixels, classes, strict=True):
        row, column = draw.integers(4, 12, 2)
        light = draw.choice([-100, 100])
        for i in range(-3, 4):
            back = abs(i) if way in (0, 2) else -abs(i)
            image[(row + back, column + i) if way in (0, 1) else (row + i, column + back)] += light
    bytes_ = torch.from_numpy(pixels.clip(0, 255).astype(np.uint8))[:, None]
    return bytes_, torch.from_numpy(classes)


@pytest.mark.parametrize("ways, harmless", [((0, 1), True), ((2, 3), False), ((0, 1, 2, 3), False)])
def test_classes_that_a_mirror_exchanges_are_noticed(ways, harmless):
    trial = try_mirror(*draw_arrows(500, ways))
    assert trial.harmless == harmless and trial.plain > 1.2 / len(ways), trial
    assert abs(trial.plain - trial.mirrored) < 0.05 if harmless else trial.mirrored < 0.7 * trial.plain


def test_two_classes_of_many_that_a_mirror_exchanges_are_noticed():
    """In all images the share of mistakes hardly grows; in these two classes it does."""
    pixels, classes = draw_arrows(840, (0, 1))
    pixels[:, :, :, 0] = 8 * (torch.arange(840) % 28)[:, None, None]  # 28 classes by the brightness of a border
    pixels[:, :, :, -1] = pixels[:, :, :, 0]
    classes = torch.arange(840) % 28
    assert try_mirror(pixels, classes).harmless
    handed = classes >= 26
    pixels[handed & (classes == 26), :, 4:8, 2:4] = 255
    pixels[handed & (classes == 27), :, 4:8, -4:-2] = 255
    assert not try_mirror(pixels, classes).harmless


@pytest.mark.parametrize("side", [1, 9, 40])
def test_what_cannot_be_told_apart_is_not_mirrored(side):
    draw = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (150, 3, side, side), dtype=torch.uint8, generator=draw)
    classes = torch.randint(0, 3, (150,), generator=draw)
    assert not try_mirror(noise, classes).harmless
    assert not try_mirror(torch.zeros_like(noise), classes).harmless
    assert try_mirror(noise[:50], classes[:50]) is None


@pytest.mark.parametrize("ways, option, flips, tried, said", [
    ((0, 1), {}, True, True, "half of the images are mirrored.*no-auto-flip"),
    ((2, 3), {}, False, False, r"not mirrored.*--data\.augment\.flip"),
    ((2, 3), {"data.augment.flip": True}, True, None, None),
    ((0, 1), {"data.augment.auto_flip": False}, False, None, None),
])  # fmt: skip
def test_the_trial_decides_where_nobody_else_does(tmp_path, ways, option, flips, tried, said):
    pixels, classes = draw_arrows(500, ways)
    np.savez(tmp_path / "arrows.npz", images=pixels.numpy(), labels=classes.numpy())
    recipe = get_recipe("images")
    settings = apply_settings(recipe.defaults(tmp_path / "arrows.npz"), option)
    job = recipe.prepare(settings, DataContext(cache=tmp_path))
    assert job.processor.changes.flip is flips and job.processor.fitted.auto_flip is tried
    notes = [note for note in job.notes if "a quick model" in note]
    assert len(notes) == (said is not None)
    if said is not None:
        assert re.search(said, notes[0])
