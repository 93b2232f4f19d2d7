"""Models of sets: DeepSets, PointNet and the Set Transformer, and the MLP that does not know that they are sets.

All take things b n features and `real`, bool b n, False for padding, which may hold anything; a set may be empty. They give
b outputs for the whole set, or with `each=True` b n outputs, one row for each thing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.checks import check_names, check_whole, seeded
from regard.nn.mlp import ACTIVATIONS
from regard.nn.padding import cleared
from regard.nn.sets import POOLS, Induced, Seeds, SetLinear, Towards
from regard.shapes import expect
from regard.symmetry.groups import Group, Permutations, Trivial
from regard.symmetry.roles import Roles, Stream


@dataclass(frozen=True, kw_only=True)
class MLPConfig:
    """A plain network from all numbers of a set to some outputs."""

    features: int  # numbers of each thing
    size: int  # the most things a set may have
    outputs: int  # numbers that come out
    hidden: int = 128  # channels of each layer inside
    depth: int = 2  # layers inside
    activation: Literal["relu", "leaky", "gelu", "relu2"] = "gelu"  # after each of them

    def __post_init__(self) -> None:
        check_names(self)
        check_whole(self, "features", "size", "outputs", "hidden", "depth")


class MLP(nn.Module):
    """All numbers in one row, then linear maps with a nonlinearity between.   b n features -> b outputs

    It keeps nothing: every place has weights of its own, so another order of the same things is another input. Sets of fewer
    than `size` things are filled up with zeros.
    """

    Config = MLPConfig

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.size * config.features, *[config.hidden] * config.depth]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.head = nn.Linear(config.hidden, config.outputs)

    @property
    def symmetry(self) -> Group:
        """What may be done to the things so that the output stays."""
        return Trivial()

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        return Roles(streams=(Stream("x", mask="real"),))

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        """real: bool b n, False for padding, which may hold anything."""
        b, n, _ = expect(x, "b n d", name="x", d=self.config.features)
        if real is not None:
            expect(real, "b n", name="real", b=b, n=n)
            x = torch.where(real[..., None], x, 0.0)
        over = x[:, self.config.size :]
        if over.shape[1] and (real is None or real[:, self.config.size :].any()):
            raise ValueError(
                f"this MLP takes at most {self.config.size} things, got {n}; make one with a larger size"
            )
        h = F.pad(x, (0, 0, 0, self.config.size - n)).flatten(1)  # cuts what is padding beyond its size
        for layer in self.layers:
            h = ACTIVATIONS[self.config.activation](layer(h))
        return self.head(h)

    @classmethod
    def tiny(cls) -> tuple[Self, dict[str, Tensor]]:
        """A small one, and inputs for it: model(**inputs)."""
        config = MLPConfig(features=3, size=24, outputs=5, hidden=32)
        return seeded(cls, config), tiny_set()


# ---- models that know


@dataclass(frozen=True, kw_only=True)
class SetConfig:
    """What all models of sets have in common."""

    features: int  # numbers of each thing
    outputs: int  # numbers that come out
    hidden: int = 128  # channels inside
    depth: int = 2  # layers before the pool
    each: bool = False  # one row of outputs for each thing, not one for the set

    def __post_init__(self) -> None:
        check_names(self)
        check_whole(self, "features", "outputs", "hidden", "depth")


Pool = Literal["sum", "mean", "max", "composite", "gated", "softmax", "fading"]


@dataclass(frozen=True, kw_only=True)
class DeepSetsConfig(SetConfig):
    """DeepSets: invariant ρ(pool φ(x_i)), or a stack of equivariant layers σ(xΛ + 11ᵀxΓ) before the pool."""

    # each thing by itself (φ), or each with what it hears of all; None: alone, but together where every thing is asked
    layers: Literal["alone", "together"] | None = None
    pool: Pool = "sum"  # over the things, at the end; fading is for things in order, and knows it
    hears: Pool | None = (
        None  # of all, in layers that work together; None: as the pool, but the mean for a sum
    )
    activation: Literal["relu", "leaky", "gelu", "relu2"] = "gelu"  # after each layer
    usual: int = 1  # things of a usual set: a sum at the end is divided by it, so that what follows gets numbers of one size

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "usual")

    @property
    def together(self) -> bool:
        """Do things hear of each other before the pool? Without a pool they must, or none would know of any other."""
        return self.each if self.layers is None else self.layers == "together"

    @property
    def heard(self) -> Pool:
        """What layers that work together pool by. A sum grows with the set, and once more in every layer."""
        return self.hears or ("mean" if self.pool == "sum" else self.pool)


@dataclass(frozen=True, kw_only=True)
class PointNetConfig(SetConfig):
    """PointNet: points are turned by a matrix that the whole cloud decides, seen by one network, and the largest counts."""

    turned: int = 64  # channels of the features that are turned a second time


@dataclass(frozen=True, kw_only=True)
class SetTransformerConfig(SetConfig):
    """The Set Transformer: things attend to each other, or through a few points; then seeds ask them all."""

    heads: int = 4  # of attention
    points: int | None = (
        None  # inducing points (ISAB): cost linear in the set; None: every thing asks every thing (SAB)
    )
    seeds: int = 1  # vectors of the pool
    after: int = 0  # layers among the seeds, after the pool
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    mlp: Literal["relu", "leaky", "gelu", "relu2", "swiglu"] = "relu"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "heads", "seeds", *(["points"] if self.points is not None else []))
        if type(self.after) is not int or self.after < 0:
            raise ValueError(f"after must be a whole number, 0 or more, got {self.after!r}")
        if self.hidden % self.heads:
            raise ValueError(
                f"hidden must be a multiple of heads, got hidden={self.hidden} and heads={self.heads}"
            )


class SetModel(nn.Module):
    """What models of sets have in common."""

    config: SetConfig

    @property
    def symmetry(self) -> Group:
        """Any order of the things: the output stays, or with `each` moves along."""
        return Permutations()

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        return Roles(streams=(Stream("x", mask="real"),))

    def things(self, x: Tensor, real: Tensor | None) -> Tensor:
        b, n, _ = expect(x, "b n d", name="x", d=self.config.features)
        if real is not None:
            expect(real, "b n", name="real", b=b, n=n)
        return cleared(x, real)


def perceptron(dim: int, hidden: int, out: int) -> nn.Sequential:
    """Two layers that see one thing at a time."""
    return nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, out))


class DeepSets(SetModel):
    """ρ(pool_i φ(x_i)).   b n features -> b outputs, invariant; with each=True ρ(φ(x)_i), b n outputs, equivariant"""

    Config = DeepSetsConfig

    def __init__(self, config: DeepSetsConfig) -> None:
        super().__init__()
        self.config: DeepSetsConfig = config
        widths = list(pairwise([config.features, *[config.hidden] * config.depth]))
        self.layers = nn.ModuleList(
            SetLinear(a, b, pool=config.heard) if config.together else nn.Linear(a, b) for a, b in widths
        )
        self.pool = None if config.each else POOLS[config.pool](config.hidden)
        self.head = perceptron(config.hidden, config.hidden, config.outputs)

    @property
    def symmetry(self) -> Group:
        """Any order of the things, unless a pool knows it: what all parts keep."""
        parts = [*self.layers, *([] if self.pool is None else [self.pool])]
        return reduce(and_, (part.keeps for part in parts if hasattr(part, "keeps")), Permutations())

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        h = self.things(x, real)
        activation = ACTIVATIONS[self.config.activation]
        for layer in self.layers:
            h = activation(layer(h, real) if isinstance(layer, SetLinear) else layer(h))
        if self.pool is None:
            return self.head(h)
        pooled = self.pool(h, real)
        return self.head(pooled / self.config.usual if self.config.pool == "sum" else pooled)

    @classmethod
    def tiny(cls) -> tuple[Self, dict[str, Tensor]]:
        """A small one, and inputs for it: model(**inputs)."""
        return seeded(
            cls, DeepSetsConfig(features=3, outputs=5, hidden=32, layers="together", pool="mean")
        ), tiny_set()


class Turn(nn.Module):
    """A matrix for each cloud, near the identity, decided by all of its points: x A.   b n d -> b n d

    Where the first PointNet has batch norms this has layer norms: a cloud must not depend on its neighbours in a batch.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.see = nn.Sequential(
            nn.Linear(dim, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, hidden)
        )
        self.pool = POOLS["max"](hidden)
        self.decide = nn.Linear(hidden, dim * dim)
        nn.init.zeros_(self.decide.weight)
        nn.init.zeros_(self.decide.bias)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        d = x.shape[-1]
        matrix = self.decide(self.pool(self.see(x), real)).unflatten(-1, (d, d))
        return x + x @ matrix


class PointNet(SetModel):
    """max_i of a network that sees one point at a time, after the cloud was turned twice.   b n features -> b outputs

    With each=True a point is judged by its own features beside those of the whole cloud.
    """

    Config = PointNetConfig

    def __init__(self, config: PointNetConfig) -> None:
        super().__init__()
        self.config: PointNetConfig = config
        hidden, turned = config.hidden, config.turned
        self.turn_points, self.turn_features = Turn(config.features, hidden), Turn(turned, hidden)
        self.first = perceptron(config.features, turned, turned)
        self.second = nn.Sequential(
            *[layer for a, b in pairwise([turned, *[hidden] * config.depth]) for layer in seeing(a, b)]
        )
        self.pool = POOLS["max"](hidden)
        self.head = perceptron(hidden + turned if config.each else hidden, hidden, config.outputs)

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        x = self.turn_points(self.things(x, real), real)
        near = self.turn_features(self.first(x), real)
        whole = self.pool(self.second(near), real)
        if self.config.each:
            whole = torch.cat((near, whole[:, None].expand(-1, near.shape[1], -1)), -1)
        return self.head(whole)

    @classmethod
    def tiny(cls) -> tuple[Self, dict[str, Tensor]]:
        """A small one, and inputs for it: model(**inputs)."""
        return seeded(cls, PointNetConfig(features=3, outputs=5, hidden=32, turned=16)), tiny_set()


def seeing(dim: int, out: int) -> list[nn.Module]:
    return [nn.Linear(dim, out), nn.LayerNorm(out), nn.ReLU()]


class SetTransformer(SetModel):
    """Things attend to things, then seeds ask them all (Lee et al.).   b n features -> b outputs, or b (seeds·outputs)

    With each=True there are no seeds: b n outputs, equivariant. A set of nothing has a defined answer: that of the seeds alone.
    """

    Config = SetTransformerConfig

    def __init__(self, config: SetTransformerConfig) -> None:
        super().__init__()
        self.config: SetTransformerConfig = config
        how: dict[str, Any] = {"mlp": config.mlp, "norm": config.norm}
        self.embed = nn.Linear(config.features, config.hidden)
        self.layers = nn.ModuleList(
            Towards(config.hidden, config.heads, **how)
            if config.points is None
            else Induced(config.hidden, config.heads, config.points, **how)
            for _ in range(config.depth)
        )
        self.pool = None if config.each else Seeds(config.hidden, config.heads, config.seeds, **how)
        after = 0 if config.each else config.after
        self.after = nn.ModuleList(Towards(config.hidden, config.heads, **how) for _ in range(after))
        self.head = nn.Linear(config.hidden, config.outputs)

    def forward(self, x: Tensor, *, real: Tensor | None = None) -> Tensor:
        h = self.embed(self.things(x, real))
        for layer in self.layers:
            h = layer(h, h, real) if isinstance(layer, Towards) else layer(h, real)
        if self.pool is None:
            return self.head(h)
        h = self.pool(h, real)  # b s d
        for layer in self.after:
            h = layer(h, h)
        return self.head(h).flatten(1)

    @classmethod
    def tiny(cls) -> tuple[Self, dict[str, Tensor]]:
        """A small one, and inputs for it: model(**inputs)."""
        return seeded(
            cls, SetTransformerConfig(features=3, outputs=5, hidden=32, points=4, seeds=2, after=1)
        ), tiny_set()


def tiny_set() -> dict[str, Tensor]:
    return {"x": torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(0))}
