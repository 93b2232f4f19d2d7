"""Pictures a little changed: each operation does what it says, to each picture in its own way, by torch's generator."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.augment import AugmentConfig, changed, mixed, rectangles

X = torch.rand(64, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def after(seed=0, **how):
    torch.manual_seed(seed)
    return changed(X, AugmentConfig(**how))


def test_nothing_asked_is_nothing_done():
    assert after() is X
    shares = torch.eye(64)
    x, y = mixed(X, shares, AugmentConfig())
    assert x is X and y is shares


def test_half_of_them_are_mirrored():
    x = after(flip=True)
    mirrored = [torch.equal(a, b.flip(-1)) for a, b in zip(x, X, strict=True)]
    same = [torch.equal(a, b) for a, b in zip(x, X, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True)) and 16 < sum(mirrored) < 48


def test_a_turn_of_ninety_degrees_is_rot90(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *size: torch.ones(*size))  # all by the whole angle
    assert torch.allclose(changed(X, AugmentConfig(turn=90)), torch.rot90(X, 1, (-2, -1)), atol=1e-5)


def test_a_move_by_a_share_of_the_side(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *size: torch.ones(*size))
    x = changed(X, AugmentConfig(crop=0.25))  # by three pixels
    assert torch.allclose(x[:, :, :9, :9], X[:, :, 3:, 3:], atol=1e-5)


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
def test_labels_are_mixed_by_the_share_of_the_picture(kind):
    torch.manual_seed(1)
    flat = torch.arange(64.0).view(64, 1, 1, 1).expand(64, 1, 12, 12)  # a picture is its own number
    x, shares = mixed(flat, torch.eye(64), AugmentConfig(**{kind: 1.0}))
    expected = shares @ torch.arange(64.0)
    assert torch.allclose(x.mean((1, 2, 3)), expected, atol=1e-4)
    assert torch.allclose(shares.sum(1), torch.ones(64)) and not torch.allclose(shares, torch.eye(64))


def test_colour_leaves_what_is_where():
    x = after(colour=0.4)
    grey, before = x.mean(1), X.mean(1)
    for a, b in zip(grey[:8], before[:8], strict=True):  # light and contrast are an increasing line through the grey values
        assert torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1] > 0.999


def test_the_same_seed_is_the_same_change():
    how = {"crop": 0.1, "turn": 10, "zoom": 0.1, "flip": True, "colour": 0.2, "erase": 0.5}
    assert torch.equal(after(3, **how), after(3, **how)) and not torch.equal(after(3, **how), after(4, **how))


@pytest.mark.parametrize("how", [{"crop": 2.0}, {"erase": -0.1}, {"turn": 400}, {"mixup": -1}])
def test_shares_and_angles_that_cannot_be(how):
    with pytest.raises(ValueError, match=f"{next(iter(how))} must be"):
        AugmentConfig(**how)
