"""Nested tensors: sequences of different lengths in one tensor. Their softmax and its sum with values are
heard as they are, and shown with the shorter sequences padded by zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.look.recording.calls import Calls
from regard.look.recording.kept import Kept

NOTE = "a nested tensor: shorter sequences are padded with zeros here"
UNHEARD = "no sum of these weights with values was heard; they are those of a softmax over a nested tensor"
PRODUCTS = ("matmul", "bmm")


@dataclass(eq=False)
class NestedWeights:
    """A softmax over a nested tensor, until it meets values."""

    tensor: Tensor
    call: Any
    owner: Any
    changed: str | None = None  # what wrote on it since

    @property
    def doubt(self) -> str | None:
        if self.changed is None:
            return None
        return f"after the softmax the weights went through {self.changed}: these are the weights after that"


def pad(x: Tensor) -> Tensor:
    """b n m -> b 1 n m, b h n m as it is; shorter sequences have zeros at their ends."""
    pieces = [piece if piece.dim() == 3 else piece[None] for piece in x.detach().unbind()]
    sizes = [max(piece.shape[axis] for piece in pieces) for axis in range(3)]
    out = pieces[0].new_zeros(len(pieces), *sizes)
    for row, piece in zip(out, pieces, strict=True):
        row[: piece.shape[0], : piece.shape[1], : piece.shape[2]] = piece
    return out


def is_nested(tensors: list[Tensor]) -> bool:
    return any(x.is_nested for x in tensors)


class NestedEar:
    """Hears what happens to nested tensors. Only those that hold their sequences themselves are understood;
    all others are made of such."""

    def __init__(
        self, calls: Calls, resting: Callable[[], AbstractContextManager[None]], hear: Callable[..., Any]
    ) -> None:
        self.calls, self.resting, self.hear = calls, resting, hear
        self.pending: list[NestedWeights] = []
        calls.when_ended.append(self.forget)

    def note(self, name: str, args: Any, out: Any) -> None:
        if not isinstance(out, Tensor) or not out.is_nested or out.layout != torch.strided:
            return
        if name.endswith("softmax"):
            self.pending.append(NestedWeights(out, self.calls.current, self.calls.outer))
        elif name in PRODUCTS:
            for found in [each for each in self.pending if each.tensor is args[0]]:
                self.pending.remove(found)
                source = Kept(pad(found.tensor), pad(args[1]), pad(out), None, None)
                self.told(source, f"softmax, {name}", unsure=found.doubt)
        for found in [each for each in self.pending if each.tensor is out and not name.endswith("softmax")]:
            found.changed = name

    def told(self, source: Kept, operator: str, **how: Any) -> None:
        self.hear(source, operator, source.n == source.m and source.n > 1, note=NOTE, **how)

    def forget(self, ended: Any) -> None:
        """A call has ended: no values will come."""
        for found in [each for each in self.pending if each.owner is ended]:
            self.pending.remove(found)
            with self.resting():
                source = Kept.alone(pad(found.tensor))
            self.told(source, "softmax", unsure=UNHEARD, call=found.call)
