"""Matrices of whole numbers: each row in groups of 32 numbers with one scale, as GGUF's Q8_0, Q4_0 and Q4_1 have them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import RegardError

GROUP = 32
ZERO = {"int8": 128, "int4": 8, "int4_min": 0}  # the whole number that stands for 0
KINDS = ("int8", "int4")  # what `quantise` makes; int4_min comes from files
LARGEST = 65504.0  # of float16
PIECE = 2**18  # numbers that are worked on at once: they stay in the cache of the processor
# by what the largest number of a group is divided to find a scale: some clip it, so that the others are nearer
DIVISORS = torch.arange(6.5, 9.25, 0.25)


@dataclass(frozen=True, eq=False)
class Quantised:
    """scale·(q − zero) + minimum, zero = 128 (int8), 8 (int4) or 0 (int4_min, which alone has minima).

    q: uint8 rows columns, in columns up to a multiple of 32   scale, minimum: float16 rows groups
    """

    kind: str
    q: Tensor
    scale: Tensor
    columns: int
    minimum: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.q), self.columns)

    def take(self, rows: Tensor) -> Quantised:
        """The same with rows in another order."""
        minimum = None if self.minimum is None else self.minimum[rows]
        return Quantised(self.kind, self.q[rows], self.scale[rows], self.columns, minimum)

    def dequantise(self) -> Tensor:
        """In float32.   rows columns"""
        q = self.q.unflatten(1, (-1, GROUP)).float() - ZERO[self.kind]
        found = q * self.scale.float()[..., None]
        if self.minimum is not None:
            found += self.minimum.float()[..., None]
        return found.flatten(1)[:, : self.columns]


def quantise(weight: Tensor, kind: str) -> Quantised:
    """The nearest matrix of whole numbers.   rows columns

    int8: the largest number of a group becomes 127. int4: of several scales the one with the least squared error.
    """
    if kind not in KINDS:
        raise RegardError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    peak = float(weight.detach().abs().amax())
    if not peak <= LARGEST * (127 if kind == "int8" else DIVISORS[-1].item()):
        raise RegardError(f"a weight is {peak:.3g}, beyond what a scale in float16 can hold; use float32 or bfloat16")
    rows, columns = weight.shape
    padded = -(-columns // GROUP) * GROUP
    q = torch.empty(rows, padded, dtype=torch.uint8)
    scale = torch.empty(rows, padded // GROUP, dtype=torch.float16)
    quantise_groups = _int8 if kind == "int8" else _int4
    step = max(1, PIECE // padded)
    for first in range(0, rows, step):
        piece = F.pad(weight[first : first + step].detach().float(), (0, padded - columns))
        found, by = quantise_groups(piece.unflatten(1, (-1, GROUP)))
        q[first : first + step] = (found + ZERO[kind]).to(torch.uint8).flatten(1)
        scale[first : first + step] = by
    return Quantised(kind, q, scale, columns)


def _int8(groups: Tensor) -> tuple[Tensor, Tensor]:
    """rows groups 32 -> whole numbers from −127 to 127, scales"""
    scale = (groups.abs().amax(-1) / 127).half()
    return _divide(groups, scale).round_().clamp_(-127, 127), scale


def _int4(groups: Tensor) -> tuple[Tensor, Tensor]:
    """rows groups 32 -> whole numbers from −8 to 7, scales; the largest number, whatever its sign, is near −8"""
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))[..., 0]
    least = torch.full_like(largest, torch.inf)
    best = torch.zeros_like(largest).half()
    for divisor in DIVISORS.tolist():
        scale = (largest / -divisor).half()
        q = _divide(groups, scale).round_().clamp_(-8, 7)
        error = (q.mul_(scale.float()[..., None]) - groups).square_().sum(-1)
        better = error < least
        least, best = torch.where(better, error, least), torch.where(better, scale, best)
    return _divide(groups, best).round_().clamp_(-8, 7), best


def _divide(groups: Tensor, scale: Tensor) -> Tensor:
    """groups / scale, and 0 where the scale is 0."""
    wide = scale.float()
    return groups * torch.where(wide == 0, 0.0, 1 / wide)[..., None]
