"""What reaches the bottom of a deep network: a portrait sent through many layers with random weights, in four ways.

    plain                z_k = f_k(z_(k−1))
    norm                 z_k = norm(f_k(z_(k−1)))
    residual             z_k = f_k(z_(k−1)) + z_(k−1)
    residual and norm    z_k = f_k(norm(z_(k−1))) + z_(k−1)

f_k is a linear map with PyTorch's usual random weights, a relu, and another linear map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.nn.norm import LayerNorm
from regard.story.portraits import SIDE

DEPTH = 32  # layers
HIDDEN = 256

Layer = Callable[[Tensor], Tensor]


class Way(NamedTuple):
    """One way to put a layer and a norm together."""

    words: str
    step: Callable[[Layer, LayerNorm, Tensor], Tensor]


WAYS = (
    Way("plain", lambda f, norm, z: f(z)),
    Way("norm", lambda f, norm, z: norm(f(z))),
    Way("residual", lambda f, norm, z: f(z) + z),
    Way("residual and norm", lambda f, norm, z: f(norm(z)) + z),
)


class Trace(NamedTuple):
    """What was seen on the way down, for 0 to `depth` layers."""

    images: Tensor  # depth+1 pixels
    sizes: Tensor  # depth+1: the root of the mean square of z_k
    likeness: Tensor  # depth+1: the cosine of z_k and z_0
    gradients: Tensor  # depth+1: |∂(r·z_k)/∂z_0| for a random direction r of length 1


def build_layers(depth: int = DEPTH, seed: int = 0) -> list[nn.Sequential]:
    pixels = SIDE * SIDE
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [nn.Sequential(nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, pixels)) for _ in range(depth)]


def follow(way: Way, layers: list[nn.Sequential], start: Tensor, seed: int = 0) -> Trace:
    """start: pixels, with mean 0"""
    direction = torch.randn(start.shape, generator=torch.Generator().manual_seed(seed))
    direction = direction / direction.norm()
    norm = LayerNorm(len(start))
    first = start.clone().requires_grad_()
    z: Tensor = first
    states = [z]
    for layer in layers:
        z = way.step(layer, norm, z)
        states.append(z)
    gradients = [torch.autograd.grad(each @ direction, first, retain_graph=True)[0].norm() for each in states]
    images = torch.stack([each.detach() for each in states])
    return Trace(
        images=images,
        sizes=images.square().mean(1).sqrt(),
        likeness=torch.nn.functional.cosine_similarity(images, start[None], dim=1),
        gradients=torch.stack(gradients),
    )


def to_page(portrait: Tensor) -> list[dict[str, Any]]:
    """The four ways, as the page is given them. Images are scaled by their own size: 128 is 0, 255 is 2.5 sizes."""
    start = (portrait - portrait.mean()).float().flatten()
    layers = build_layers()
    found = []
    for way in WAYS:
        trace = follow(way, layers, start)
        scaled = (trace.images / (2.5 * trace.sizes[:, None])).clamp(-1, 1)
        found.append(
            {
                "words": way.words,
                "images": (128 + 127 * scaled).round().to(torch.uint8),
                "sizes": trace.sizes.tolist(),
                "likeness": trace.likeness.tolist(),
                "gradients": trace.gradients.tolist(),
            }
        )
    return found
