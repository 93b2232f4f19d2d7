"""Images a little changed: each operation does what it says, to each image in its own way, by torch's generator."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from regard.recipes.images.augment import AugmentConfig, augment, mixup, rectangles

X = torch.rand(64, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def after(seed=0, **how):
    torch.manual_seed(seed)
    return augment(X, AugmentConfig(**how))


def test_nothing_asked_is_nothing_done():
    assert after() is X
    shares = torch.eye(64)
    x, y = mixup(X, shares, AugmentConfig())
    assert x is X and y is shares


def test_half_of_them_are_mirrored():
    x = after(flip=True)
    mirrored = [torch.equal(a, b.flip(-1)) for a, b in zip(x, X, strict=True)]
    same = [torch.equal(a, b) for a, b in zip(x, X, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True)) and 16 < sum(mirrored) < 48


def test_a_turn_of_ninety_degrees_is_rot90(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *size: torch.ones(*size))  # all by the whole angle
    assert torch.allclose(augment(X, AugmentConfig(turn=90)), torch.rot90(X, 1, (-2, -1)), atol=1e-5)


def test_a_move_by_a_share_of_the_side(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *size: torch.ones(*size))
    x = augment(X, AugmentConfig(crop=0.25))  # by three pixels
    assert torch.allclose(x[:, :, :9, :9], X[:, :, 3:, 3:], atol=1e-5)


@pytest.mark.parametrize("how, whole", [({"crop": 0.2}, True), ({"crop": 0.2, "zoom": 0.1}, False)])
def test_moves_alone_are_by_whole_pixels(how, whole):
    x, before = after(**how)[:, 0].flatten(1), X[:, 0].flatten(1)
    nearest = (x[:, :, None] - before[:, None]).abs().amin(-1)  # each pixel is one of the image, or between them
    assert (nearest < 1e-5).all(1).float().mean() == whole
    assert not torch.equal(x, before)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 0.99), st.integers(4, 20), st.integers(4, 20))
def test_rectangles_have_about_their_share(share, h, w):
    inside = rectangles(torch.zeros(1, 1, h, w), torch.full((200,), share)).float().mean()
    assert abs(float(inside) - share) < 0.1


def test_erasing_leaves_the_rest():
    x = after(erase=1.0)
    same = (x == X).all(1).float().mean((1, 2))
    assert (same > 0.4).all() and (same < 0.99).all()
    none = after(erase=0.3)
    assert 5 < sum(torch.equal(a, b) for a, b in zip(none, X, strict=True)) < 60


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_labels_are_mixed_by_the_share_of_the_image(kind):
    torch.manual_seed(1)
    flat = torch.arange(64.0).view(64, 1, 1, 1).expand(64, 1, 12, 12)  # an image is its own number
    x, shares = mixup(flat, torch.eye(64), AugmentConfig(**{kind: 1.0}))
    expected = shares @ torch.arange(64.0)
    assert torch.allclose(x.mean((1, 2, 3)), expected, atol=1e-4)
    assert torch.allclose(shares.sum(1), torch.ones(64)) and not torch.allclose(shares, torch.eye(64))


def test_colour_is_brightness_contrast_and_saturation_as_pillow_has_them():
    pixels = (255 * (0.3 + 0.4 * X[:8])).round().to(torch.uint8)  # so that nothing becomes whiter than white
    torch.manual_seed(5)
    x = augment(pixels / 255, AugmentConfig(colour=0.3))
    torch.manual_seed(5)
    factors = 1 + (2 * torch.stack([torch.rand(8, 1, 1, 1).flatten() for _ in range(3)], 1) - 1) * 0.3
    assert factors.min() < 0.9 and factors.max() > 1.1
    for one, made, each in zip(pixels, x, factors.tolist(), strict=True):
        image = Image.fromarray(one.permute(1, 2, 0).numpy())
        for enhance, factor in zip(
            (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color), each, strict=True
        ):
            image = enhance(image).enhance(factor)
        expected = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        # pillow cuts to whole numbers: 1.3² + 1.3 + 1
        torch.testing.assert_close(255 * made, expected.float(), atol=4, rtol=0)


def test_colour_stays_between_black_and_white_and_grey_stays_grey():
    x = after(colour=1.0)
    assert x.min() >= 0 and x.max() <= 1 and not torch.equal(x, X)
    level = X[:, :1].expand(-1, 3, -1, -1)
    torch.manual_seed(0)
    coloured = augment(level, AugmentConfig(colour=0.5))
    torch.manual_seed(0)
    torch.testing.assert_close(augment(X[:, :1], AugmentConfig(colour=0.5)).expand(-1, 3, -1, -1), coloured)


@pytest.mark.parametrize("rand, scale", [(1.0, 1.5), (0.0, 1 / 1.5)])
def test_zoom_shows_a_ramp_flatter_or_steeper_about_its_middle(monkeypatch, rand, scale):
    places = torch.arange(12.0) - 5.5
    ramp = (0.5 + 0.02 * places).expand(2, 3, 12, 12)
    monkeypatch.setattr(torch, "rand", lambda *size: torch.full(size, rand))
    x = augment(ramp, AugmentConfig(zoom=0.5))
    inside = slice(2, 10)
    torch.testing.assert_close(x[..., inside], (0.5 + 0.02 * places * scale).expand(2, 3, 12, 12)[..., inside])


def test_the_same_seed_is_the_same_change():
    how = {"crop": 0.1, "turn": 10, "zoom": 0.1, "flip": True, "colour": 0.2, "erase": 0.5}
    assert torch.equal(after(3, **how), after(3, **how)) and not torch.equal(after(3, **how), after(4, **how))


@pytest.mark.parametrize("how", [{"crop": 2.0}, {"erase": -0.1}, {"turn": 400}, {"mixup": -1}])
def test_shares_and_angles_that_cannot_be(how):
    with pytest.raises(ValueError, match=f"{next(iter(how))} must be"):
        AugmentConfig(**how)
