"""Attention of the class token, head by head, laid over the picture; and attention followed through all layers."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.given import Given
from regard.look import measure
from regard.look.entry import Entry
from regard.look.pack import levels
from regard.look.streams import MOST_BEFORE


def image(seen: Sequence[Entry], given: Given) -> dict[str, Any] | None:
    """The view, or None where there is no picture, or no attention among its patches."""
    if given.picture is None:
        return None
    if given.grid is None:
        return alone(given.picture)
    count = given.grid[0] * given.grid[1]
    layers = [entry for entry in seen if entry.proved and (whole(entry, count) or of_class(entry, count))]
    if not layers:
        return alone(given.picture)
    before = layers[0].shape[3] - count
    shown = [
        {"layer": entry.layer, "name": entry.name, "heads": list(entry.heads), "maps": levels(maps(entry.weights, given.grid))}
        for entry in layers
    ]
    followed = through(layers)
    return {
        "view": "image",
        "picture": as_png(given.picture),
        "grid": {"rows": given.grid[0], "columns": given.grid[1]},
        "query": "the class token" if before else "the mean of all patches",
        "layers": shown,
        "rollout": None if followed is None else levels(maps(followed[:, None], given.grid)[0]),
    }


def whole(entry: Entry, count: int) -> bool:
    """Does every patch attend to every patch?"""
    if entry.kind == "edges":
        return False
    b, _, n, m = entry.shape
    return b == 1 and entry.kind == "self" and n == m and 0 <= n - count <= MOST_BEFORE


def of_class(entry: Entry, count: int) -> bool:
    """Does the class token alone attend to all? In a last layer nothing else is needed."""
    return entry.kind != "edges" and entry.shape[0] == entry.shape[2] == 1 and 1 <= entry.shape[3] - count <= MOST_BEFORE


def through(layers: Sequence[Entry]) -> Tensor | None:
    """Attention followed through all layers, of which the last may be that of the class token alone.   -> 1 n m"""
    if len({entry.shape[3] for entry in layers}) > 1 or any(entry.shape[2] == 1 for entry in layers[:-1]):
        return None
    *before, last = layers
    if last.shape[2] == last.shape[3]:
        return measure.rollout(layers)
    if not before:
        return None
    step = 0.5 * last.weights.mean(1)
    step[..., 0] += 0.5  # what the class token was
    return step @ measure.rollout(before)


def maps(weights: Tensor, grid: tuple[int, int]) -> Tensor:
    """What the class token looks at; without one, what all patches look at on average.   1 h n m -> h rows columns"""
    rows, columns = grid
    before = weights.shape[-1] - rows * columns
    looked = weights[0, :, 0] if before else weights[0].mean(1)
    return looked[:, before:].unflatten(-1, grid)


def alone(picture: Tensor) -> dict[str, Any]:
    """The picture itself, without maps."""
    nothing: dict[str, Any] = {"grid": {"rows": 0, "columns": 0}, "query": None, "layers": [], "rollout": None}
    return {"view": "image", "picture": as_png(picture)} | nothing


def as_png(picture: Tensor) -> str:
    """3 h w in 0 … 1 -> a data URL"""
    from PIL import Image

    bytes_ = (picture.detach().expand(3, -1, -1).permute(1, 2, 0) * 255).round().to(torch.uint8).cpu().numpy()
    file = io.BytesIO()
    Image.fromarray(bytes_).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
