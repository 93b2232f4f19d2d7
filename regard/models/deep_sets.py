"""DeepSets: invariant ρ(pool φ(x_i)), or layers that see each element and the pool of all."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import and_
from typing import ClassVar, Literal

from torch import Tensor, nn

from regard.config import Size, config
from regard.models.registered_model import Options
from regard.models.set_model import SetConfig, SetModel, perceptron
from regard.nn.mlp import ACTIVATIONS
from regard.nn.set_attention import POOLS, SetLinear
from regard.symmetry.groups import Group, Permutations

Pool = Literal["sum", "mean", "max", "composite", "gated", "softmax", "fading"]


@config
class DeepSetsConfig(SetConfig):
    """DeepSets: invariant ρ(pool φ(x_i)), or a stack of equivariant layers σ(xΛ + 11ᵀxΓ) before the pool."""

    # alone: each element by itself (φ); together: each with the pool of all; None: together if every element
    # has a target, else alone
    layers: Literal["alone", "together"] | None = None
    # over the elements, at the end; fading is for ordered elements: it breaks permutation symmetry
    pool: Pool = "sum"
    # the pool inside together layers; None: same as pool, but mean instead of sum
    hears: Pool | None = None
    activation: Literal["relu", "leaky", "gelu", "relu2"] = "gelu"  # after each layer
    # mean number of elements per set: divides a sum at the end, so that its scale does not depend on the data
    usual: Size = 1

    @property
    def together(self) -> bool:
        """Do layers mix elements before the pool? Without a pool they must, or no element would depend on
        another."""
        return self.each if self.layers is None else self.layers == "together"

    @property
    def heard(self) -> Pool:
        """The pool inside together layers. A sum would grow with the set, and again in every layer."""
        return self.hears or ("mean" if self.pool == "sum" else self.pool)


class DeepSets(SetModel):
    """ρ(pool_i φ(x_i)).   b n features -> b outputs, invariant; with each=True ρ(φ(x)_i), b n outputs,
    equivariant"""

    Config = DeepSetsConfig
    TINY: ClassVar[Options] = dict(features=3, outputs=5, hidden=32, layers="together", pool="mean")

    def __init__(self, config: DeepSetsConfig) -> None:
        super().__init__()
        self.config: DeepSetsConfig = config
        widths = list(pairwise([config.features, *[config.hidden] * config.depth]))
        self.layers = nn.ModuleList(
            SetLinear(a, b, pool=config.heard) if config.together else nn.Linear(a, b) for a, b in widths
        )
        if config.each:
            self.pool = None
        else:
            self.pool = POOLS[config.pool](config.hidden)
        self.head = perceptron(config.hidden, config.hidden, config.outputs)

    @property
    def symmetry(self) -> Group:
        """Any order of the elements, unless a pool depends on order: what all parts keep."""
        parts = [*self.layers, *([] if self.pool is None else [self.pool])]
        return reduce(and_, (part.keeps for part in parts if hasattr(part, "keeps")), Permutations())

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        h = self.checked_elements(x, real)
        activation = ACTIVATIONS[self.config.activation]
        for layer in self.layers:
            h = activation(layer(h, real) if isinstance(layer, SetLinear) else layer(h))
        if self.pool is None:
            return self.head(h)
        pooled = self.pool(h, real)
        return self.head(pooled / self.config.usual if self.config.pool == "sum" else pooled)
