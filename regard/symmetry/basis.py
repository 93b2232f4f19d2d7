"""What every basis of linear maps can do: count, show one map as a matrix, and apply a weighted sum of all of
them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import RegardError


class Basis(nn.Module):
    """Linear maps from n_in numbers to n_out, of which every one that commutes with a group is a weighted
    sum, in one way.

    It has no parameters. What it holds follows from the group, so it is in no state_dict, but it goes along
    to other devices.
    """

    how = ""  # how a weighted sum is computed, in words

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.n_in, self.n_out = n_in, n_out

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must say how many maps it has: define __len__()")

    def matrix(self, k: int) -> Tensor:
        """Map number k.   n_out n_in"""
        raise NotImplementedError(f"{type(self).__name__} must define matrix()")

    def spread(self) -> Tensor:
        """For each map, how many numbers of the input it adds up for a number of the output (where it gives
        any)."""
        raise NotImplementedError(f"{type(self).__name__} must define spread()")

    def mix(self, x: Tensor, weight: Tensor, n: int | None = None) -> Tensor:
        """Σ_k map_k x weight_kᵀ.   x: b n_in c, weight: k e c -> b n_out e

        n: how many things there are, if another number than the basis was made for; only `Diagrams` take
        another.
        """
        raise NotImplementedError(f"{type(self).__name__} must define mix()")

    def matrices(self) -> Tensor:
        """All maps.   k n_out n_in"""
        entries = len(self) * self.n_out * self.n_in
        if entries > MOST_ENTRIES:
            raise RegardError(
                f"{len(self)} maps of {self.n_out} × {self.n_in} are too many numbers to write down; ask "
                "for one with matrix(k)"
            )
        if len(self):
            return torch.stack([self.matrix(k) for k in range(len(self))])
        return torch.zeros(0, self.n_out, self.n_in)

    def extra_repr(self) -> str:
        return f"{len(self)} maps from {self.n_in} to {self.n_out} numbers, by {self.how}"


MOST_ENTRIES = 2**26
