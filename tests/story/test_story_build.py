"""What is computed when the page is built: checked against other ways to the same numbers."""

import base64

import pytest
import torch
from torch.testing import assert_close

from regard.story import build, depth, latent
from regard.story.guests import EVERYBODY, GUESTS
from regard.story.portraits import FINE, SIDE, draw


def test_it_says_what_it_does(built):
    _, heard = built
    assert heard[-1][1] == 1
    assert len({what for what, _ in heard}) > 2


def test_the_decay_of_random_vectors_is_near_what_is_expected(built):
    """E ⟨x, R_n x⟩ / E ⟨x, x⟩ = 2/c Σ cos(n · base^(−2i/c)) for independent numbers of mean 0."""
    found = built[0]["decay"]
    speeds = 10_000 ** (-torch.arange(0, build.CHANNELS, 2, dtype=torch.float64) / build.CHANNELS)
    expected = (torch.arange(build.FARTHEST + 1)[:, None] * speeds).cos().mean(1)
    assert_close(torch.tensor(found["mean"], dtype=torch.float64), expected, atol=0.03, rtol=0)
    assert found["mean"][0] == found["low"][0] == found["high"][0] == 1
    assert all(
        low < mean < high for low, mean, high in zip(*(found[k][1:] for k in ("low", "mean", "high")), strict=True)
    )


def test_portraits_are_those_of_the_guests(built):
    for guest, shown in zip(EVERYBODY, built[0]["guests"], strict=True):
        assert shown["name"] == guest.name
        pixels = torch.frombuffer(bytearray(base64.b64decode(shown["portrait"])), dtype=torch.uint8)
        assert_close(pixels.view(FINE, FINE) / 255.0, draw(guest.wears, side=FINE).float(), atol=1 / 255, rtol=0)
    images = torch.stack([draw(guest.wears) for guest in EVERYBODY]).flatten(1)
    assert torch.cdist(images, images).fill_diagonal_(9).min() > 1  # no two alike


@pytest.mark.parametrize("way", depth.WAYS, ids=lambda way: way.words)
def test_what_reaches_the_bottom(way):
    """Sizes and gradients by PyTorch's own layer norm and its Jacobian."""
    layers = depth.build_layers(3)
    start = (draw(GUESTS[-1].wears).flatten() - 0.2).float()
    norm = torch.nn.LayerNorm(SIDE * SIDE)
    plain = {
        "plain": lambda f, z: f(z),
        "norm": lambda f, z: norm(f(z)),
        "residual": lambda f, z: f(z) + z,
        "residual and norm": lambda f, z: f(norm(z)) + z,
    }[way.words]

    def whole(z):
        for layer in layers:
            z = plain(layer, z)
        return z

    trace = depth.follow(way, layers, start)
    with torch.no_grad():
        last = whole(start)
    assert_close(trace.images[-1], last)
    assert_close(trace.sizes[-1], last.square().mean().sqrt())
    direction = torch.randn(len(start), generator=torch.Generator().manual_seed(0))
    _, gradient = torch.autograd.functional.vjp(whole, start, direction / direction.norm())
    assert_close(trace.gradients[-1], gradient.norm())
    assert trace.likeness[0] == pytest.approx(1)


def test_residuals_keep_the_picture_and_the_gradient(built):
    plain, norm, residual, both = built[0]["depth"]
    assert abs(plain["likeness"][16]) < 0.15 and abs(norm["likeness"][16]) < 0.15
    assert residual["likeness"][16] > 0.4
    assert plain["gradients"][-1] < 1e-12 < 0.1 < min(residual["gradients"] + both["gradients"])


def test_the_latent_space_is_the_same_each_time_and_learns():
    x, whose = latent.faces()
    one, other = (latent.train(x, lambda what, share: None, steps=8) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    given = latent.to_page(one, x, whose)
    weight = torch.frombuffer(bytearray(base64.b64decode(given["layers"][0]["weight"]["data"])), dtype=torch.float32)
    assert torch.equal(weight.view(48, 2), one.body.decoder[0].weight)


def test_its_loss_is_reconstruction_plus_kl():
    """KL by torch.distributions."""
    x, whose = latent.faces()
    model = latent.train(x, lambda what, share: None, steps=2)
    with torch.no_grad():
        mean, log_variance = model.encode(x)
        q = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
        wanted = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum(-1).mean()
    assert latent.to_page(model, x, whose)["kl"] == pytest.approx(wanted.item(), rel=1e-5)


def test_it_has_learned_faces(built):
    found = built[0]["latent"]
    x, _ = latent.faces()
    assert found["error"] < 0.15 * x.var(0).mean()
    codes, whose = torch.tensor(found["codes"]), torch.tensor(found["whose"])
    nearest = torch.cdist(codes, codes).fill_diagonal_(99).argmin(1)
    assert (whose[nearest] == whose).float().mean() > 0.95  # those of one guest are together
