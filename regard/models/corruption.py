"""Noise that a denoising autoencoder is given, and must take away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

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
