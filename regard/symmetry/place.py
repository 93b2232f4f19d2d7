"""Where a law breaks, and what may be said of a tensor on the way there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.symmetry.compare import difference

EQUAL, DIFFERENT, UNKNOWN = "equal", "different", "unknown"  # to what it should be


class Place(NamedTuple):
    """A dotted name ("" is the model itself), whether it is exact, and why it is the place."""

    layer: str | None
    exact: bool | None
    reason: str | None
    after: bool = False  # in this module, or in one that comes after it


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
    if not first.is_floating_point() and not first.is_complex():
        return torch.equal(first, second)
    found = difference(first, second).error
    return math.isnan(found) or found <= tolerance
