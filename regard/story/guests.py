"""The party: guests as tokens, and what one may ask them.

A token is two numbers, how much music and how much science. It is a guest's key, too. The portrait is the value.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Guest(NamedTuple):
    """One who comes to the party."""

    name: str
    token: tuple[float, float]  # music, science
    wears: tuple[str, ...]  # what the portrait shows


class Query(NamedTuple):
    """What one may ask, as a direction; its length says how loudly."""

    words: str
    direction: tuple[float, float]


GUESTS = (
    Guest("musician", (0.95, -0.15), ("headphones",)),
    Guest("lawyer", (-0.55, 0.45), ("tie", "parting")),
    Guest("shopkeeper", (0.15, -0.60), ("cap", "apron")),
    Guest("chef", (0.50, 0.30), ("toque",)),
    Guest("scientist", (-0.10, 1.00), ("glasses", "hair")),
)
SIXTH = Guest("physicist with a violin", (0.71, 0.71), ("glasses", "headphones"))
EVERYBODY = (*GUESTS, SIXTH)
QUERIES = (Query("Who helps with my exam?", (0.0, 1.0)), Query("I want to have fun", (1.0, 0.0)))


def tokens(guests: tuple[Guest, ...] = GUESTS) -> Tensor:
    """n 2, in float64"""
    return torch.tensor([guest.token for guest in guests], dtype=torch.float64)
