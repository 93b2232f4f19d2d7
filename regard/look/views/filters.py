"""Filters of the first convolution: what a model of pictures looks for first."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.look.filters import CONVOLUTIONS
from regard.look.filters import filters as filters_of
from regard.look.pack import levels

MOST = 96


def filters(model: nn.Module) -> dict[str, Any] | None:
    """The view, or None for a model whose first convolution is not one of pictures."""
    if not any(isinstance(module, CONVOLUTIONS) for module in model.modules()):
        return None
    name, weight = filters_of(model)  # o i k k
    if weight.dim() != 4 or min(weight.shape[2:]) < 2:
        return None
    shown = weight[:MOST, :3] if weight.shape[1] == 3 else weight[:MOST, :1]
    return {"view": "filters", "layers": [{"name": name, "filters": levels(shown.permute(0, 2, 3, 1))}]}
