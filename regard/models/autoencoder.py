"""Autoencoders: an input through a small code and back. Plain, denoising, and variational.

    encode(x)       the code: its mean, and its log variance (None if there is none)
    decode(z)       what the likelihood needs to know
    reconstruct(x)  the expected input, given the mean of its code
    model(x)        the mean of the code

A variational one minimises reconstruction **plus** β·KL; the reconstruction is −log p(x|z), summed over all
numbers of an input, so that with β = 1 the loss is −ELBO in nats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from regard.config import Amount, Count, Depth, Natural, Size, Weight, Width, config
from regard.errors import RegardError
from regard.models.autoencoder_backbones import BODIES, encoder_config
from regard.models.elbo import (
    LIKELIHOODS,
    Likelihood,
    Sigma,
    bound_log_variance,
    draw_codes,
    kl_to_prior,
    log_weights,
    rate,
    weighted_bound,
    widen,
)
from regard.models.registered_model import Options, RegisteredModel
from regard.models.sample_inputs import EXAMPLES, POINTS
from regard.symmetry.groups import Group
from regard.symmetry.roles import Roles, Stream

IMAGE, CLOUD, ROW = 3, 2, 1  # axes of an input
FITS = {"mlp": (IMAGE, ROW), "conv": (IMAGE,), "vit": (IMAGE,), "spatial": (IMAGE,), "set": (CLOUD,)}
CALLED = {IMAGE: "an image, c h w", CLOUD: "a point cloud, n d", ROW: "a row of numbers, d"}


@config
class AutoencoderConfig:
    """An autoencoder."""

    # of an input: c h w of an image, n d of a point cloud, d of a row of a table
    shape: Annotated[tuple[Size, ...], Field(min_length=1, max_length=3)]
    # mlp: all numbers in one row; conv and vit: images; spatial: images, coded by the places of things in them; set:
    # point clouds in any order
    body: Literal["mlp", "conv", "vit", "spatial", "set"] = "mlp"
    latent: Size = 16  # numbers of a code
    hidden: Width = 512  # mlp, conv and set: channels of the hidden layers
    depth: Depth = 2  # hidden layers; conv: how often sides are halved; vit: blocks
    # conv: channels of the first convolution, twice as many each time sides are halved; spatial: of each
    width: Width = 32
    # conv: what a filter sees beyond the border; circular: shifts leave the code as it is
    padding: Literal["zeros", "circular"] = "zeros"
    # conv: a code of the whole image, or a map: latent numbers in all, as many for each place of the coarsest layer
    code: Literal["vector", "map"] = "vector"
    patch: Count = 4  # vit, and patches of noise: the sides of a patch, in pixels
    dim: Width = 64  # vit: width of the stream
    heads: Count = 4  # vit: attention heads in each block
    # what a number of an input is: 0 or 1; a real number; one of 256 levels from 0 to 1 (a logistic)
    likelihood: Literal["bernoulli", "gaussian", "discretised"] = "gaussian"
    # gaussian and discretised: one learned width for all numbers, or one for each
    sigma: Sigma = "shared"
    # of each channel of the inputs: the encoder reads (x − mean) / deviation; empty: x itself
    mean: tuple[float, ...] = ()
    deviation: tuple[Amount, ...] = ()

    def __post_init__(self) -> None:
        self._check_body()
        if len(self.mean) != len(self.deviation):
            raise RegardError(f"must be as many numbers as deviation={self.deviation}, got {self.mean}", option="mean")

    def _check_body(self) -> None:
        axes = len(self.shape)
        if axes not in FITS[self.body]:
            fits = " or ".join(name for name, known in FITS.items() if axes in known)
            what = CALLED.get(axes, f"of shape {self.shape}")
            raise RegardError(f"body {self.body} does not fit: an input is {what}; use --model.body {fits or 'mlp'}")
        if self.body == "set" and self.likelihood != "gaussian":
            raise RegardError(
                f"a set body needs the likelihood gaussian, got {self.likelihood}: points are real numbers"
            )
        if self.body == "conv" and 2**self.depth > 2 * self.shape[1]:
            raise RegardError(
                f"depth {self.depth} halves the sides {self.depth} times, and images have {self.shape[1]} "
                f"pixels; give a smaller --model.depth"
            )
        if self.body == "spatial" and self.latent % 2:
            raise RegardError(
                f"a code of places has two numbers for each, got latent {self.latent}; use {self.latent + 1}"
            )
        if self.code == "map":
            self._check_map()
        if self.body == "vit":
            encoder_config(self, outputs=1)  # which checks its sizes

    def _check_map(self) -> None:
        if self.body != "conv":
            raise RegardError(f"a code that is a map needs the body conv, got {self.body}")
        places = (-(-self.shape[1] // 2**self.depth)) ** 2
        if self.latent % places:
            fits = -(-self.latent // places) * places
            raise RegardError(
                f"a code that is a map has as many numbers for each of its {places} places, got latent "
                f"{self.latent}; the next one that fits is {fits}"
            )


class Bound(NamedTuple):
    """The parts of the ELBO of each input."""

    log_likelihood: Tensor  # b: log p(x|z), the mean over samples
    kl: Tensor | None  # b latent: KL of each dimension; None: codes have no variance
    mean: Tensor  # b latent: the mean of the code

    @property
    def elbo(self) -> Tensor:
        """log p(x|z) − KL: at β = 1, whatever β the training has."""
        return self.log_likelihood if self.kl is None else self.log_likelihood - self.kl.sum(-1)


class Autoencoder(RegisteredModel):
    """−log p(x | decode(encode(x))).   b shape -> b latent -> b shape

    The code keeps what the body keeps: of a set body any order of the points.
    """

    Config: ClassVar[Any] = AutoencoderConfig
    TINY: ClassVar[Options] = dict(shape=(2, 12, 12), body="conv", latent=4, hidden=16, width=4, padding="circular")
    variational: ClassVar[bool] = False  # is there a prior, and a variance of codes?
    centre: Tensor | None
    spread: Tensor | None

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        outputs = config.latent * (2 if self.variational else 1)
        self.body = BODIES[config.body](config, outputs)
        name = "points" if config.body == "set" else config.likelihood
        self.likelihood: Likelihood = LIKELIHOODS[name](config.shape, config.sigma)
        self.register_buffer("centre", self._by_channel(config.mean), persistent=False)
        self.register_buffer("spread", self._by_channel(config.deviation), persistent=False)

    def _by_channel(self, numbers: tuple[float, ...]) -> Tensor | None:
        """A number for each channel of an image, or for each column.   c -> c 1 1"""
        if not numbers:
            return None
        ends = 2 if len(self.config.shape) == IMAGE else 0
        return torch.tensor(numbers).view(-1, *[1] * ends)

    # ── codes

    def encode(self, x: Tensor, *, real: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The mean of the code, and its log variance; None: it has none.   b shape -> b latent, b latent"""
        self._check(x)
        if self.centre is not None and self.spread is not None:
            x = (x - self.centre) / self.spread
        out = widen(self.body.encode(x, real))
        if not self.variational:
            return out, None
        mean, raw = out.chunk(2, -1)
        return mean, bound_log_variance(raw)

    def decode(self, z: Tensor) -> Tensor:
        """What the likelihood needs to know: logits of a Bernoulli, the middle of the others.
        ... latent -> ... shape"""
        if z.shape[-1] != self.config.latent:
            raise RegardError(f"a code has {self.config.latent} numbers, got {z.shape[-1]} in shape {tuple(z.shape)}")
        return self.body.decode(z)

    def decode_mean(self, z: Tensor) -> Tensor:
        """The expected input, given its code.   ... latent -> ... shape"""
        return self.likelihood.mean(self.decode(z))

    def reconstruct(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        """The expected input, given the mean of its code.   b shape -> b shape"""
        return self.decode_mean(self.encode(x, real=real)[0])

    def forward(self, x: Tensor, *, real: Tensor | None = None, warm: float | None = None) -> Tensor:
        """The mean of the code; with `warm`, the share of β that counts, the loss of a training batch instead."""
        return self.encode(x, real=real)[0] if warm is None else self.training_loss(x, real, warm)

    # ── objective

    def training_loss(self, x: Tensor, real: Tensor | None, warm: float) -> Tensor:
        """−log p(x|z) in nats, the mean over inputs."""
        mean, _ = self.encode(x, real=real)
        return -self.likelihood.log_prob(x, self.decode(mean), real).mean()

    def corrupt(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The input as the encoder gets it in training: unchanged."""
        return x

    def bound(self, x: Tensor, *, real: Tensor | None = None, generator: torch.Generator | None = None) -> Bound:
        """The parts of the ELBO, by one sample of the code; of a denoising one, of a corrupted input."""
        mean, log_variance = self.encode(self.corrupt(x, generator), real=real)
        z = self.sample_codes(mean, log_variance, 1, generator)[0]
        found = self.likelihood.log_prob(x, self.decode(z), real)
        kl = None if log_variance is None else kl_to_prior(mean, log_variance)
        return Bound(found, kl, mean)

    def importance_weights(
        self, x: Tensor, samples: int, *, real: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """log w of each sample, at β = 1; logsumexp − log samples bounds log p(x) from below.   samples b"""
        mean, log_variance = self.encode(x, real=real)
        if log_variance is None:
            raise RegardError(f"log p(x) needs codes with a variance, and {type(self).__name__} has none; use a vae")
        z = self.sample_codes(mean, log_variance, samples, generator)
        found = self.likelihood.log_prob(x, self.decode(z), real)
        return log_weights(found, z, mean, log_variance)

    def sample_codes(
        self, mean: Tensor, log_variance: Tensor | None, samples: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """z = μ + σ ε.   b latent -> samples b latent"""
        if log_variance is None:
            return mean.expand(samples, *mean.shape)
        noise = torch.randn(samples, *mean.shape, generator=generator, dtype=mean.dtype)
        return draw_codes(mean, log_variance, noise.to(mean.device))

    # ── declarations

    @property
    def symmetry(self) -> Group:
        """What may be done to an input so that its code stays."""
        return self.body.keeps

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        if len(self.config.shape) == CLOUD:
            return Roles(streams=(Stream("x", mask="real"),))
        if len(self.config.shape) == IMAGE:
            return Roles(grid="x", patch=self.config.patch if self.config.body == "vit" else None)
        return Roles()

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        draw = torch.Generator().manual_seed(seed)
        shape = self.config.shape
        if len(shape) == CLOUD:
            shape = (min(POINTS, shape[0]), shape[1])
        return {"x": torch.rand(rows or EXAMPLES, *shape, generator=draw)}

    def _check(self, x: Tensor) -> None:
        shape = self.config.shape
        if len(shape) == CLOUD:
            shape = (x.shape[1] if x.dim() > 1 else 0, shape[1])
        if tuple(x.shape[1:]) != shape:
            raise RegardError(f"x must be a batch of inputs of shape {shape}, got shape {tuple(x.shape)}")


# ---- denoising


# ── noise that a denoising one is given, and must take away

NoiseKind = Literal["gaussian", "masking", "salt_and_pepper", "patches"]
GREY = 0.5  # what stands in place of a hidden patch: neither black nor white


def add_gaussian(x: Tensor, amount: float, patch: int, generator: torch.Generator | None) -> Tensor:
    """x + amount · ε"""
    return x + amount * torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)


def mask_numbers(x: Tensor, amount: float, patch: int, generator: torch.Generator | None) -> Tensor:
    """A share of the numbers becomes 0."""
    return x * (_uniform(x, generator) >= amount)


def add_salt_and_pepper(x: Tensor, amount: float, patch: int, generator: torch.Generator | None) -> Tensor:
    """A share of the numbers becomes 0 or 1, half of it each."""
    draw = _uniform(x, generator)
    return torch.where(draw < amount / 2, 0.0, torch.where(draw < amount, 1.0, x)).to(x.dtype)


def hide_patches(x: Tensor, amount: float, patch: int, generator: torch.Generator | None) -> Tensor:
    """A share of the squares of an image becomes grey, in all channels.   b c h w -> b c h w"""
    b, _, height, width = x.shape
    rows, columns = -(-height // patch), -(-width // patch)
    hidden = torch.rand(b, 1, rows, columns, generator=generator).to(x.device) < amount
    whole = hidden.repeat_interleave(patch, 2).repeat_interleave(patch, 3)[..., :height, :width]
    return x.masked_fill(whole, GREY)


def _uniform(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(x.shape, generator=generator).to(x.device)


NOISES: dict[str, Callable[[Tensor, float, int, torch.Generator | None], Tensor]] = {
    "gaussian": add_gaussian,
    "masking": mask_numbers,
    "salt_and_pepper": add_salt_and_pepper,
    "patches": hide_patches,
}


@config
class DenoisingConfig(AutoencoderConfig):
    """A denoising autoencoder: it is given a corrupted input, and compared with the clean one."""

    # gaussian: the deviation of the noise; the others: the share of numbers, or of patches, that are lost
    noise: Weight = 0.3
    # masking: numbers become 0; salt_and_pepper: 0 or 1; patches: squares of an image become grey
    noise_kind: NoiseKind = "gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_kind != "gaussian" and not self.noise < 1:
            raise RegardError(
                f"is the share that is lost, from 0 to below 1 of {self.noise_kind}, got {self.noise}", option="noise"
            )
        if self.noise_kind == "patches" and len(self.shape) != IMAGE:
            raise RegardError("noise of patches is for images; use --model.noise-kind masking")


class Denoising(Autoencoder):
    """−log p(x | decode(encode(x + noise))): what comes in is corrupted, what is asked for is clean."""

    Config = DenoisingConfig
    TINY: ClassVar[Options] = dict(shape=(2, 6, 6), latent=4, hidden=16)

    def training_loss(self, x: Tensor, real: Tensor | None, warm: float) -> Tensor:
        mean, _ = self.encode(self.corrupt(x), real=real)
        return -self.likelihood.log_prob(x, self.decode(mean), real).mean()

    def corrupt(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        config = self.config
        return NOISES[config.noise_kind](x, config.noise, config.patch, generator)


# ---- variational


@config
class VAEConfig(AutoencoderConfig):
    """A variational autoencoder."""

    beta: Weight = 1.0  # weight of the KL; 1: the ELBO, less: sharper reconstructions, more: simpler codes
    # samples of the code in training; more than one: the importance-weighted bound (IWAE)
    samples: Annotated[int, Field(ge=1, le=2**12)] = 1
    free_bits: Weight = 0.0  # nats of each dimension's KL that cost nothing: against codes that say nothing
    warmup: Natural = 0  # steps in which beta rises from 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples > 1 and self.free_bits:
            raise RegardError(
                f"are of the KL, which the bound of samples={self.samples} does not have; leave one out",
                option="free_bits",
            )


class VAE(Autoencoder):
    """−log p(x|z) + β·KL(q(z|x) ‖ p(z)), z ~ q(z|x) = N(μ(x), σ²(x)), p(z) = N(0, 1).

    With several samples −log mean_k w_k, log w = log p(x|z) + β(log p(z) − log q(z|x)): a tighter bound of log p(x).
    """

    Config = VAEConfig
    TINY: ClassVar[Options] = dict(shape=(16, 3), body="set", latent=4, hidden=16)
    variational = True

    def training_loss(self, x: Tensor, real: Tensor | None, warm: float) -> Tensor:
        config, beta = self.config, self.config.beta * warm
        mean, log_variance = self.encode(x, real=real)
        assert log_variance is not None
        z = self.sample_codes(mean, log_variance, config.samples)
        if config.samples == 1:
            found = self.likelihood.log_prob(x, self.decode(z[0]), real)
            return beta * rate(kl_to_prior(mean, log_variance), config.free_bits) - found.mean()
        found = self.likelihood.log_prob(x, self.decode(z), real)
        return -weighted_bound(log_weights(found, z, mean, log_variance, beta)).mean()
