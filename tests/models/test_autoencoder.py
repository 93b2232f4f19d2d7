"""Autoencoders: gradients of the ELBO, bounds that rise with samples, and what each kind and option does."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.models.autoencoder import (
    GREY,
    NOISES,
    VAE,
    Autoencoder,
    AutoencoderConfig,
    Denoising,
    DenoisingConfig,
    VAEConfig,
)
from regard.models.elbo import weighted_bound
from regard.models.sample_inputs import build_seeded
from regard.symmetry.check import check
from regard.symmetry.groups import Permutations, Shifts, Trivial

SHAPES = {"mlp": (1, 6, 6), "conv": (2, 9, 9), "vit": (1, 8, 8), "spatial": (1, 8, 6), "set": (10, 3)}
SMALL = {"latent": 4, "hidden": 12, "width": 3, "dim": 8, "heads": 2, "patch": 3, "depth": 2}


def build(body="mlp", **more):
    return build_seeded(VAE, VAEConfig(shape=SHAPES[body], body=body, **{**SMALL, **more}))


def random_inputs(model, rows=4):
    return model.sample_inputs(rows=rows)["x"]


@pytest.mark.parametrize("body", SHAPES)
def test_every_body_gives_codes_and_inputs_back(body):
    model = build(body)
    x = random_inputs(model)
    mean, log_variance = model.encode(x)
    assert mean.shape == log_variance.shape == (4, 4)
    assert model(x).shape == (4, 4) and torch.equal(model(x), mean)
    assert model.reconstruct(x).shape == (4, *model.config.shape)
    several = model.decode(torch.zeros(2, 5, 4))
    assert several.shape == (2, 5, *model.config.shape)
    torch.testing.assert_close(several[1, 2], model.decode(torch.zeros(1, 4))[0])
    assert model.importance_weights(x, 6).shape == (6, 4)
    loss = model(x, warm=1.0)
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian", "discretised"])
@pytest.mark.parametrize("samples", [1, 3])
def test_gradients_of_the_reparameterised_bound_agree_with_finite_differences(likelihood, samples):
    model = build(likelihood=likelihood, samples=samples, beta=0.7).double()
    x = (random_inputs(model, 3).double() > 0.5).double()

    def loss():
        torch.manual_seed(1)
        return model(x, warm=1.0)

    loss().backward()
    for name, p in model.named_parameters():
        place = tuple(n // 2 for n in p.shape)
        analytic, step = float(p.grad[place]), 1e-5
        with torch.no_grad():
            p[place] += step
            above = float(loss())
            p[place] -= 2 * step
            below = float(loss())
            p[place] += step
        assert (above - below) / (2 * step) == pytest.approx(analytic, rel=1e-4, abs=1e-6), name


def test_the_elbo_never_exceeds_the_importance_sampled_bound_which_rises_with_samples():
    model = build(likelihood="bernoulli")
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    x = (random_inputs(model, 8) > 0.5).float()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        weights = model.importance_weights(x, 4096, generator=draw)
        elbo = torch.stack([model.bound(x, generator=draw).elbo for _ in range(400)]).mean()
    means = [weighted_bound(weights.unflatten(0, (-1, k)).transpose(0, 1).flatten(1)).mean() for k in (1, 4, 64, 4096)]
    assert elbo < means[-1]
    assert all(a < b for a, b in pairwise(means))
    assert float(elbo) == pytest.approx(float(means[0]), abs=0.3)


def test_a_vae_without_beta_and_variance_is_the_autoencoder():
    vae = build(beta=0.0)
    plain = build_seeded(Autoencoder, AutoencoderConfig(shape=SHAPES["mlp"], **SMALL))
    state = vae.state_dict()
    last = max(name for name in state if name.startswith("body.encoder") and name.endswith("weight"))
    with torch.no_grad():
        state[last][4:], state[last.replace("weight", "bias")][4:] = 0.0, -1e9  # log σ² at its lower bound
    vae.load_state_dict(state)
    for part in ("weight", "bias"):
        name = last.replace("weight", part)
        state[name] = state[name][:4]
    plain.load_state_dict(state)
    x = random_inputs(vae)
    vae.sample_codes = lambda mean, log_variance, samples, generator=None: mean.expand(samples, *mean.shape)
    torch.testing.assert_close(vae(x, warm=1.0), plain(x, warm=1.0))
    torch.testing.assert_close(vae.reconstruct(x), plain.reconstruct(x))
    assert plain.encode(x)[1] is None and plain.bound(x).kl is None


@torch.no_grad()
def test_the_loss_with_beta_one_is_minus_the_elbo_and_warm_up_scales_the_kl():
    model = build()
    x = random_inputs(model)

    def loss(beta, warm):
        model.config = replace(model.config, beta=beta)
        torch.manual_seed(3)
        return float(model(x, warm=warm))

    torch.manual_seed(3)
    bound = model.bound(x)
    kl = float(bound.kl.sum(-1).mean())
    assert loss(1.0, 1.0) == pytest.approx(-float(bound.elbo.mean()), rel=1e-5)
    assert loss(3.0, 1.0) - loss(1.0, 1.0) == pytest.approx(2 * kl, rel=1e-4)
    assert loss(1.0, 0.25) - loss(1.0, 1.0) == pytest.approx(-0.75 * kl, rel=1e-4)


OTHER = {
    "shape": (1, 7, 7), "body": "conv", "latent": 5, "hidden": 13, "depth": 3, "likelihood": "bernoulli",
    "sigma": "each", "mean": (0.5,), "deviation": (2.0,), "beta": 2.0, "samples": 2, "free_bits": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("option", OTHER)
def test_every_option_of_an_mlp_does_something(option):
    plain = VAEConfig(shape=SHAPES["mlp"], mean=(0.1,), deviation=(1.0,), **SMALL)
    torch.manual_seed(0)
    assert _fingerprint(plain) != _fingerprint(replace(plain, **{option: OTHER[option]}))


@pytest.mark.parametrize(
    "body, option, value",
    [
        ("conv", "width", 4),
        ("conv", "padding", "circular"),
        ("spatial", "width", 4),
        ("vit", "patch", 4),
        ("vit", "dim", 16),
        ("vit", "heads", 1),
    ],
)
def test_every_option_of_other_bodies_does_something(body, option, value):
    plain = VAEConfig(shape=SHAPES[body], body=body, **SMALL)
    assert _fingerprint(plain) != _fingerprint(replace(plain, **{option: value}))


@torch.no_grad()
def _fingerprint(config):
    model = build_seeded(VAE, config)
    x = (model.sample_inputs()["x"] > 0.5).float()
    torch.manual_seed(0)
    return {name: tuple(p.shape) for name, p in model.named_parameters()}, float(model(x, warm=1.0))


def test_a_set_body_does_not_know_order_and_a_conv_body_says_what_padding_leaves():
    assert build("set").symmetry == Permutations()
    assert build("conv").symmetry == Trivial()
    around = VAEConfig(shape=(1, 8, 8), body="conv", padding="circular", **SMALL)
    assert build_seeded(VAE, around).symmetry == Shifts(4)
    odd = replace(around, shape=(1, 10, 10))
    assert build_seeded(VAE, odd).symmetry == Trivial()
    for config in (around, replace(around, padding="zeros")):
        model = build_seeded(VAE, config)
        report = check(model, model.sample_inputs(), dtype=torch.float64)
        assert report.ok, str(report)


def test_a_code_that_is_a_map_knows_places_and_what_is_far_away_does_not_change_it():
    config = VAEConfig(shape=(1, 16, 16), body="conv", code="map", latent=32, depth=2, hidden=8, width=4)
    model = build_seeded(VAE, config)
    x = random_inputs(model)
    assert model.reconstruct(x).shape == x.shape
    assert model.importance_weights(x, 3).shape == (3, 4)
    other = x.clone()
    other[..., -1, -1] += 1.0
    moved = (model(other) - model(x)).abs().unflatten(-1, (2, 4, 4)).amax((0, 1))
    assert moved[-1, -1] > 0 and moved[:2, :2].max() == 0


# ---- denoising


@pytest.mark.parametrize("kind", NOISES)
def test_noise_changes_the_share_that_is_asked_for_and_zero_changes_nothing(kind):
    x = torch.full((8, 2, 20, 20), 0.3)
    assert torch.equal(NOISES[kind](x, 0.0, 4, None), x)
    torch.manual_seed(0)
    changed = (NOISES[kind](x, 0.25, 4, None) != x).float().mean()
    assert float(changed) == pytest.approx(1.0 if kind == "gaussian" else 0.25, abs=0.06)
    draw = [NOISES[kind](x, 0.25, 4, torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*draw)


def test_patches_are_hidden_whole_in_all_channels():
    x = torch.zeros(3, 2, 10, 10)
    hidden = NOISES["patches"](x, 0.5, 4, torch.Generator().manual_seed(0)) == GREY
    assert torch.equal(hidden[:, 0], hidden[:, 1]) and 0 < hidden.float().mean() < 1
    for top, left in ((0, 0), (4, 4), (8, 8)):
        block = hidden[:, 0, top : top + 4, left : left + 4].flatten(1).float()
        assert (block.mean(1) % 1 == 0).all()


def test_a_denoising_autoencoder_is_compared_with_the_clean_input():
    config = DenoisingConfig(shape=(1, 6, 6), noise=0.5, noise_kind="masking", **SMALL)
    model = build_seeded(Denoising, config)
    x = model.sample_inputs()["x"]
    torch.manual_seed(0)
    found = model(x, warm=1.0)
    torch.manual_seed(0)
    given = model.corrupt(x)
    assert not torch.equal(given, x)
    wanted = -model.likelihood.log_prob(x, model.decode(model.encode(given)[0])).mean()
    torch.testing.assert_close(found, wanted)


# ---- errors


@pytest.mark.parametrize(
    "given, words",
    [
        ({"body": "conv", "shape": (4,)}, ["conv", "mlp"]),
        ({"body": "mlp", "shape": (10, 3)}, ["mlp", "set"]),
        ({"body": "set", "shape": (10, 3), "likelihood": "bernoulli"}, ["gaussian", "bernoulli"]),
        ({"body": "vit", "shape": (1, 8, 8), "heads": 3}, ["heads", "3"]),
        ({"body": "vit", "shape": (1, 8, 8), "patch": 9}, ["9", "8"]),
        ({"body": "conv", "shape": (1, 4, 4), "depth": 9}, ["depth", "9", "4"]),
        ({"latent": 0}, ["latent", "0"]),
        ({"code": "map"}, ["map", "conv", "mlp"]),
        ({"code": "map", "body": "conv", "shape": (1, 8, 8), "latent": 9}, ["4 places", "9", "12"]),
        ({"body": "nets"}, ["body", "nets"]),
        ({"beta": -1.0}, ["beta", "-1"]),
        ({"samples": 3, "free_bits": 0.5}, ["free_bits", "3"]),
        ({"mean": (0.1,)}, ["mean", "deviation"]),
        ({"mean": (0.1,), "deviation": (0.0,)}, ["deviation"]),
        ({"shape": ()}, ["shape"]),
    ],
)
def test_a_config_that_cannot_be_says_why(given, words):
    with pytest.raises(RegardError) as error:
        VAEConfig(**{"shape": (1, 6, 6), **given})
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize("kind, noise", [("masking", 1.0), ("patches", 1.5), ("gaussian", -0.1)])
def test_a_share_of_noise_is_a_share(kind, noise):
    with pytest.raises(RegardError, match="noise"):
        DenoisingConfig(shape=(1, 6, 6), noise=noise, noise_kind=kind)


def test_wrong_shapes_and_models_without_a_prior_are_told():
    model = build()
    with pytest.raises(RegardError, match=r"1, 6, 6.*4, 1, 5, 6"):
        model(torch.zeros(4, 1, 5, 6))
    with pytest.raises(RegardError, match=r"4 numbers.*7"):
        model.decode(torch.zeros(2, 7))
    plain = build_seeded(Autoencoder, AutoencoderConfig(shape=SHAPES["mlp"], **SMALL))
    with pytest.raises(RegardError, match="variance"):
        plain.importance_weights(plain.sample_inputs()["x"], 3)
