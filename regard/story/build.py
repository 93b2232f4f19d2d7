"""What the page is given: the guests, and every number that the library computes while the page is built."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.attention.positions import Rotary
from regard.story import depth, latent
from regard.story.guests import EVERYBODY, GUESTS, QUERIES
from regard.story.portraits import FINE, SIDE, draw

CHANNELS = 64  # of the vectors whose decay with distance is shown
FARTHEST = 200  # places apart
VECTORS = 400

Tell = Callable[[str, float | None], None]


def build(tell: Tell = lambda what, share: None) -> dict[str, Any]:
    """All of it, in some seconds. `tell` hears what is being done, and which share of it is."""
    tell("drawing portraits", 0.0)
    portraits = [(255 * draw(guest.wears, side=FINE)).round().to(torch.uint8) for guest in EVERYBODY]
    faces, whose = latent.faces()
    model = latent.train(faces, tell)
    tell("sending a portrait through 32 layers", 0.0)
    down = [way | {"images": _bytes(way["images"])} for way in depth.to_page(draw(GUESTS[-1].wears))]
    tell("turning clocks", 0.0)
    found = {
        "side": SIDE,
        "fine": FINE,
        "guests": [
            {"name": guest.name, "token": guest.token, "portrait": _bytes(portrait)}
            for guest, portrait in zip(EVERYBODY, portraits, strict=True)
        ],
        "coming": len(GUESTS),  # the last one comes when asked
        "queries": [query._asdict() for query in QUERIES],
        "decay": decay(),
        "depth": down,
        "latent": latent.to_page(model, faces, whose),
    }
    tell("turning clocks", 1)
    return found


def decay(seed: int = 0) -> dict[str, Any]:
    """⟨R_0 x, R_n x⟩ / ⟨x, x⟩ of random vectors x, n = 0, 1, …: the mean, and where the middle 80 % are."""
    seeded = torch.Generator().manual_seed(seed)
    x = torch.randn(VECTORS, 1, 1, CHANNELS, generator=seeded, dtype=torch.float64)
    turned = Rotary(CHANNELS).turn(x.expand(-1, -1, FARTHEST + 1, -1))  # at the places 0, 1, …
    scores = (turned[:, 0, :1] * turned[:, 0]).sum(-1) / x[:, 0].square().sum(-1)  # vectors places
    low, high = (_round(scores.quantile(share, dim=0)) for share in (0.1, 0.9))
    return {"channels": CHANNELS, "mean": _round(scores.mean(0)), "low": low, "high": high}


def _round(values: Tensor) -> list[float]:
    return [round(value, 6) for value in values.tolist()]


def _bytes(values: Tensor) -> str:
    """Whole numbers from 0 to 255, in base64."""
    return base64.b64encode(values.contiguous().numpy().tobytes()).decode("ascii")
