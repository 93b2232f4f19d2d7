"""Portraits of the guests, drawn from circles, boxes and lines: small images from 0, paper, to 1, ink."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

SIDE = 32  # pixels of what is learned
FINE = 64  # pixels of what is shown
SOFT = 0.7  # the width of an edge, in pixels
LINE = 0.05  # half the width of a drawn line

Shape = Callable[[Tensor, Tensor], Tensor]  # how far outside a point is, negative inside


def _circle(x: Tensor, y: Tensor, cx: float, cy: float, r: float, tall: float = 1.0) -> Tensor:
    return ((x - cx) ** 2 + ((y - cy) / tall) ** 2).sqrt() - r


def _box(x: Tensor, y: Tensor, left: float, right: float, top: float, bottom: float) -> Tensor:
    return torch.stack((left - x, x - right, top - y, y - bottom)).amax(0)


def _ring(distance: Tensor, width: float = LINE) -> Tensor:
    return distance.abs() - width


def _headphones(x: Tensor, y: Tensor) -> Tensor:
    band = torch.maximum(_ring(_circle(x, y, 0, 0.0, 0.66, 1.12), 0.06), y + 0.05)
    left = _circle(x, y, -0.64, 0.08, 0.16, 1.5)
    right = _circle(x, y, 0.64, 0.08, 0.16, 1.5)
    return torch.minimum(band, torch.minimum(left, right))


def _tie(x: Tensor, y: Tensor) -> Tensor:
    knot = _box(x, y, -0.11, 0.11, 0.70, 0.80)
    cloth = torch.maximum(x.abs() - (0.05 + 0.55 * (y - 0.78)), _box(x, y, -1, 1, 0.78, 1.3))
    return torch.minimum(knot, cloth)


def _parting(x: Tensor, y: Tensor) -> Tensor:
    inside = _circle(x, y, 0, 0.05, 0.60, 1.12)
    hair = torch.maximum(inside, y + 0.30 - 0.35 * (x + 0.2).abs())
    return torch.maximum(hair, 0.05 - (x + 0.2).abs())


def _cap(x: Tensor, y: Tensor) -> Tensor:
    crown = torch.maximum(_circle(x, y, 0, -0.22, 0.56, 0.85), y + 0.28)
    return torch.minimum(crown, _box(x, y, -0.1, 0.82, -0.34, -0.24))


def _apron(x: Tensor, y: Tensor) -> Tensor:
    return torch.minimum(_box(x, y, -0.36, -0.26, 0.7, 1.3), _box(x, y, 0.26, 0.36, 0.7, 1.3))


def _toque(x: Tensor, y: Tensor) -> Tensor:
    puffs = [_circle(x, y, cx, cy, 0.27) for cx, cy in ((-0.33, -0.78), (0.0, -0.88), (0.33, -0.78))]
    cloth = _box(x, y, -0.42, 0.42, -0.78, -0.40)
    outline = _ring(torch.stack([*puffs, cloth]).amin(0))
    return torch.minimum(outline, _box(x, y, -0.42, 0.42, -0.54, -0.46))


def _glasses(x: Tensor, y: Tensor) -> Tensor:
    left = _ring(_circle(x, y, -0.24, -0.05, 0.19), 0.045)
    right = _ring(_circle(x, y, 0.24, -0.05, 0.19), 0.045)
    bridge = _box(x, y, -0.06, 0.06, -0.09, -0.02)
    return torch.stack((left, right, bridge)).amin(0)


def _hair(x: Tensor, y: Tensor) -> Tensor:
    tufts = [_circle(x, y, cx, cy, 0.2) for cx, cy in ((-0.58, -0.3), (-0.36, -0.6), (0.36, -0.6), (0.58, -0.3))]
    tufts.append(_circle(x, y, 0.0, -0.70, 0.18))
    return torch.maximum(torch.stack(tufts).amin(0), 0.50 - _circle(x, y, 0, 0.05, 0.0, 1.12))


WORN: dict[str, Shape] = {
    "headphones": _headphones,
    "tie": _tie,
    "parting": _parting,
    "cap": _cap,
    "apron": _apron,
    "toque": _toque,
    "glasses": _glasses,
    "hair": _hair,
}


def draw(
    wears: Iterable[str], smile: float = 0.5, turn: float = 0.0, *, side: int = SIDE, dtype: torch.dtype = torch.float64
) -> Tensor:
    """A face with what it wears. smile: −1 to 1; turn: −1, to the left, to 1.   side side"""
    along = (torch.arange(side, dtype=torch.float64) + 0.5) / side * 2.5 - 1.25
    y, x = torch.meshgrid(along, along, indexing="ij")
    y = y - 0.1
    face = _ring(_circle(x, y, 0, 0.05, 0.60, 1.12))
    shoulders = torch.maximum(_ring(_circle(x, y, 0, 1.50, 0.80, 1.0)), -_circle(x, y, 0, 0.05, 0.60, 1.12))
    inner = x - 0.14 * turn
    eyes = torch.minimum(_circle(inner, y, -0.24, -0.05, 0.075), _circle(inner, y, 0.24, -0.05, 0.075))
    curve = (y - 0.36 - 0.16 * smile * (1 - (inner / 0.26) ** 2)).abs() - LINE
    mouth = torch.maximum(curve, inner.abs() - 0.26)
    parts = [face, shoulders, eyes, mouth, *(WORN[name](x, y) for name in wears)]
    edge = SOFT * 2.5 / side
    image = torch.sigmoid(-torch.stack(parts).amin(0) / edge * 2)
    return image.to(dtype)
