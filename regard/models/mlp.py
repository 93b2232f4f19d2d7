"""The MLP: all numbers of a set in one row. The baseline without permutation symmetry."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import Depth, Size, Width, config
from regard.errors import RegardError
from regard.models.registered_model import Options
from regard.models.set_model import SetModel
from regard.nn.mlp import ACTIVATIONS
from regard.symmetry.groups import Group, Trivial


@config
class MLPConfig:
    """An MLP from all numbers of a set to some outputs: the baseline without permutation symmetry."""

    features: Size  # numbers of each element
    size: Size  # elements of the largest set
    outputs: Size  # numbers in the output
    hidden: Width = 128  # width of the hidden layers
    depth: Depth = 2  # hidden layers
    activation: Literal["relu", "leaky", "gelu", "relu2"] = "gelu"  # after each hidden layer


class MLP(SetModel):
    """All numbers in one row, then linear maps with a nonlinearity between.   b n features -> b outputs

    It has no symmetry: every place has its own weights, so another order of the same elements is another
    input. Sets of fewer than `size` elements are padded with zeros.
    """

    Config = MLPConfig
    TINY: ClassVar[Options] = dict(features=3, size=24, outputs=5, hidden=32)

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.size * config.features, *[config.hidden] * config.depth]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.head = nn.Linear(config.hidden, config.outputs)

    @property
    def symmetry(self) -> Group:
        """The permutations of elements that keep the output: none."""
        return Trivial()

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        """real: bool b n, False for padding, which may hold anything."""
        x = self.checked_elements(x, real)
        n = x.shape[1]
        over = x[:, self.config.size :]
        if over.shape[1] and (real is None or real[:, self.config.size :].any()):
            raise RegardError(
                f"this MLP takes at most {self.config.size} elements, got {n}; make one with a larger size"
            )
        h = F.pad(x, (0, 0, 0, self.config.size - n))  # a negative pad cuts off padding beyond its size
        h = h.flatten(1)
        for layer in self.layers:
            h = ACTIVATIONS[self.config.activation](layer(h))
        return self.head(h)
