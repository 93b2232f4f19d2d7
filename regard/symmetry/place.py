"""Where a law breaks, and what may be said of a tensor on the way there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

EQUAL, DIFFERENT, UNKNOWN = "equal", "different", "unknown"  # to what it should be


class Place(NamedTuple):
    """A dotted name ("" is the model itself), whether it is exact, and why it is the place."""

    layer: str | None
    exact: bool | None
    reason: str | None


def also_breaks(names: Sequence[str]) -> str:
    """Who else breaks it, at the end of a reason."""
    if not names:
        return ""
    if len(names) == 1:
        return f"; {names[0]} breaks it, too"
    return f"; {names[0]} and {len(names) - 1} more break it, too"


def close(first: Tensor, second: Tensor, tolerance: float) -> bool:
    """Equal up to rounding, with what is not finite in the same places."""
    if first.shape != second.shape:
        return False
    if first.numel() == 0:
        return True
    if not first.is_floating_point():
        return torch.equal(first, second)
    largest = float((first - second).abs().max())
    if math.isfinite(largest):
        return largest <= tolerance * max(float(first.abs().max()), 1e-30)
    if not torch.equal(torch.isfinite(first), torch.isfinite(second)):
        return False
    one, two = torch.nan_to_num(first.double()), torch.nan_to_num(second.double())
    return bool((one - two).abs().max() <= tolerance * one.abs().max().clamp(min=1e-30))
