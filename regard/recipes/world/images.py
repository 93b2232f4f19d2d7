"""Observations that are images: squares of bytes, and the codes on which a world lives that is seen as images.

The codes are those of an autoencoder. It learns from the images of the first round, and goes on when another round brings
new ones. Then codes that the world model and the policy know are held where they were, and all episodes are encoded again,
so that one encoder has seen all that is learned from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from regard.data.array import Array
from regard.data.batch import generator
from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.world.episodes import Episodes
from regard.training.optimisers import schedule
from regard.training.rules import AdamW

WHITE = 255
AT_ONCE = 256  # images that are encoded together
BATCH = 64  # images of a gradient step
RATE = 3e-3
HOLD = 1e4  # weight of the distance of a code from what it was, squared, beside the nats of an image

SeeFn = Callable[[Array], Array]


# ── squares of bytes


def to_bytes(images: Array, low: float, high: float) -> Array:
    """Numbers from low to high as bytes; those that are bytes already are left as they are."""
    if images.dtype == np.uint8 and (low, high) == (0, WHITE):
        return images
    scaled = (images.astype(np.float64) - low) / (high - low)
    found: Array = np.round(np.clip(scaled, 0, 1) * WHITE).astype(np.uint8)
    return found


def recorded_to_bytes(images: Array, name: str) -> Array:
    """Recorded images, which are bytes or numbers from 0 to 1, as bytes."""
    high = WHITE if images.dtype.kind in "iub" else 1
    if images.min() < 0 or images.max() > high:
        raise RegardError(
            f"{name}: images must hold whole numbers from 0 to {WHITE}, or others from 0 to 1, got "
            f"{float(images.min()):g} to {float(images.max()):g}; scale them"
        )
    return to_bytes(images, 0, high)


def to_squares(images: Array, side: int) -> Array:
    """Images of this side, each pixel the mean of what it covers.   b h w [c] -> b side side c, in bytes"""
    if images.ndim == 3:
        images = images[..., None]
    if images.shape[1:3] == (side, side):
        return images
    down, across = (_cover(length, side) for length in images.shape[1:3])
    means = np.einsum("ih, bhwc, jw -> bijc", down, images.astype(np.float32), across, optimize=True)
    squares: Array = np.round(means).astype(np.uint8)
    return squares


def _cover(length: int, side: int) -> Array:
    """How much of each of `side` equal parts of a line each of its `length` pixels is.   side length"""
    ends = np.arange(side + 1) * length / side
    pixels = np.arange(length)
    low = np.maximum(ends[:-1, None], pixels)
    high = np.minimum(ends[1:, None], pixels + 1)
    found: Array = (np.maximum(high - low, 0) * side / length).astype(np.float32)
    return found


# ── codes


def see_fn(model: WorldModel) -> SeeFn:
    """What the model sees of observations as an environment gives them: vectors as they are, the codes of images."""
    if model.autoencoder is None:
        return lambda vectors: vectors
    return lambda images: encode_images(model, images)


@torch.no_grad()
def encode_images(model: WorldModel, images: Array) -> Array:
    """n h w c, in bytes -> n o"""
    parts = [model.encode_images(part) for part in torch.from_numpy(images).split(AT_ONCE)]
    found: Array = torch.cat(parts).float().cpu().numpy()
    return found


def encode_episodes(model: WorldModel, episodes: Episodes) -> Episodes:
    """The same with the codes that this model gives the images; those of vectors as they are."""
    if episodes.images is None or episodes.next_images is None:
        return episodes
    observations = encode_images(model, episodes.images)
    following = np.empty_like(observations)
    inside = np.flatnonzero(~episodes.last)  # what follows is the next observation, which is encoded already
    following[inside] = observations[inside + 1]
    following[episodes.last] = encode_images(model, episodes.next_images[episodes.last])
    return replace(episodes, observations=observations, following=following)


@torch.no_grad()
def decode_codes(model: WorldModel, codes: Array) -> Array:
    """n o -> n h w c, in bytes"""
    parts = [model.decode_images(part) for part in torch.from_numpy(codes).to(model.mean).split(AT_ONCE)]
    found: Array = torch.cat(parts).cpu().numpy()
    return found


def learn_codes(model: WorldModel, episodes: Episodes, known: Array, steps: int, seed: int, round: int) -> None:
    """Gradient steps of the autoencoder on the images of some episodes. known: bool n, steps of earlier rounds, whose
    codes are held near what they were. Depends on the weights, the episodes, the seed and the round alone."""
    assert model.autoencoder is not None and episodes.images is not None and episodes.next_images is not None
    images = torch.from_numpy(np.concatenate((episodes.images, episodes.next_images[episodes.last])))
    held = torch.from_numpy(np.concatenate((known, known[episodes.last]))).to(model.mean)[:, None]
    before = torch.from_numpy(encode_images(model, images.numpy())).to(model.mean)
    rule = AdamW(dict(model.autoencoder.named_parameters()), RATE, 0.0)
    random = generator(seed, 24, round)
    for step in range(steps):
        rows = torch.from_numpy(random.integers(len(images), size=BATCH))
        x = images[rows].to(model.mean.device).permute(0, 3, 1, 2).to(model.mean.dtype) / 255
        code, _ = model.autoencoder.encode(x)
        loss = -model.autoencoder.likelihood.log_prob(x, model.autoencoder.decode(code)).mean()
        moved = (code - before[rows]).square() * held[rows]
        loss = loss + HOLD * moved.mean()
        loss.backward()
        nn.utils.clip_grad_norm_(list(model.autoencoder.parameters()), 1.0)
        rule.step(RATE * schedule(step, step / steps, warmup=20, decay=0.5))
        for p in model.autoencoder.parameters():
            p.grad = None
