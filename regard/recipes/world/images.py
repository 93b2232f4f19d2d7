"""Observations that are images: of an environment, of a file, or drawn from states. All become squares of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError

LEAST_SIDE, MOST_SIDE = 8, 256
WHITE = 255
COLOURS = (1, 3, 4)  # channels of an image: grey, colours, colours and how opaque they are


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What is asked to be seen of observations."""

    observed: tuple[int, ...] | None = None  # these numbers of a vector; None: all
    drawn: str | None = None  # the environment whose states are drawn; None: what it gives is seen
    side: int = 32  # pixels of the side of an image
    code: int = 16  # numbers of the code of an image


def is_image(shape: Sequence[int]) -> bool:
    """Is this the shape of an image: h w or h w c?"""
    if len(shape) == 3 and shape[2] not in COLOURS:
        return False
    return len(shape) in (2, 3) and min(shape[:2]) >= LEAST_SIDE


def explain_image() -> str:
    """What an image must be, for errors."""
    return (
        f"an image is h w or h w c, with sides of at least {LEAST_SIDE} pixels and {', '.join(map(str, COLOURS))} "
        "channels, which come last"
    )


def to_bytes(images: Array, low: float, high: float) -> Array:
    """Numbers from low to high as bytes; those that are bytes already are left as they are."""
    if images.dtype == np.uint8 and (low, high) == (0, WHITE):
        return images
    scaled = (images.astype(np.float64) - low) / (high - low)
    found: Array = np.round(np.clip(scaled, 0, 1) * WHITE).astype(np.uint8)
    return found


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


def limits_of(images: Array, name: str) -> tuple[float, float]:
    """The range of recorded images: bytes, or numbers from 0 to 1."""
    if images.dtype.kind in "iub":
        low, high = 0, WHITE
    else:
        low, high = 0, 1
    if images.min() < low or images.max() > high:
        raise RegardError(
            f"{name}: images must hold whole numbers from 0 to {WHITE}, or others from 0 to 1, got "
            f"{float(images.min()):g} to {float(images.max()):g}; scale them"
        )
    return low, high
