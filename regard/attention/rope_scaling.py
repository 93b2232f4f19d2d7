"""Rotary positions of a model that was trained on shorter texts and reads longer ones: slower turns.

Each kind changes the frequencies once; what is left is a Rotary as any other, so shifts are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError

KINDS = ("none", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class RopeScaling:
    """How frequencies are made slower by `factor`. `original`: the context of the first training.

    linear  all alike: place p is read as p / factor
    llama3  those that turn less than `low` times in `original` places by `factor`, those that turn more than
            `high` times not at all, those between in part
    yarn    the same with a ramp over the channels, from the one that turns `high` times to the one that turns
            `low` times; q and k also grow by 0.1·ln factor + 1
    """

    kind: str = "none"
    factor: float = 1.0
    original: int = 1
    low: float = 1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RegardError(f"rope_scaling must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.factor < 1:
            raise RegardError(f"rope_factor must be 1 or more, got {self.factor}")
        ramp = self.kind in ("llama3", "yarn")
        if ramp and not 0 < self.low < self.high:
            raise RegardError(
                f"rope_low must be above 0 and below rope_high, got rope_low={self.low} and rope_high={self.high}"
            )

    @property
    def amplitude(self) -> float:
        """What cosines and sines are multiplied by."""
        return 1.0 if self.kind != "yarn" else 0.1 * math.log(self.factor) + 1.0

    def scale(self, frequencies: Tensor, base: float) -> Tensor:
        """The frequencies of this scaling.   c/2 -> c/2"""
        if self.kind == "none":
            return frequencies
        slow = frequencies / self.factor
        if self.kind == "linear":
            return slow
        if self.kind == "llama3":
            turns = self.original * frequencies / (2 * math.pi)
            kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        else:
            kept = 1 - self._ramp(frequencies, base)
        return slow * (1 - kept) + frequencies * kept

    def _ramp(self, frequencies: Tensor, base: float) -> Tensor:
        """Yarn: 0 up to the pair that turns `high` times in the original context, 1 from the one that turns
        `low` times on."""
        pairs = len(frequencies)

        def pair(turns: float) -> float:
            return pairs * math.log(self.original / (turns * 2 * math.pi)) / math.log(base)

        first = max(math.floor(pair(self.high)), 0)
        last = float(min(math.ceil(pair(self.low)), 2 * pairs - 1))
        if first == last:
            last += 0.001  # no step is infinitely steep
        places = torch.arange(pairs, device=frequencies.device, dtype=frequencies.dtype)
        return ((places - first) / (last - first)).clamp(0, 1)


NO_SCALING = RopeScaling()
