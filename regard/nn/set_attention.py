"""Set layers, each b n d -> b n d' and permutation-equivariant; `real` (bool b n) is False for padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.attention import Attention
from regard.nn.memory import Composite, Fading, Gated, Softmax
from regard.nn.mlp import make_mlp
from regard.nn.norm import NORMS
from regard.nn.padding import zero_padding
from regard.nn.pool import MaxPool, MeanPool, SumPool
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING, Group

# Pools of many elements, b n d -> b d. The memories have weights of their own; all but fading are independent
# of order.
POOLS: dict[str, Callable[[int], nn.Module]] = {
    "sum": lambda dim: SumPool(),
    "mean": lambda dim: MeanPool(),
    "max": lambda dim: MaxPool(),
    "composite": lambda dim: Composite(dim, dim),
    "gated": lambda dim: Gated(dim, dim),
    "softmax": lambda dim: Softmax(dim, dim),
    "fading": lambda dim: Fading(dim, dim, learned=True),
}


class SetLinear(nn.Module):
    """y_i = Λx_i + Γ pool(x) + b: with a sum, every equivariant linear map of sets, λI + γ11ᵀ in every pair
    of channels.

    The pooled term has weights of its own, so it may be added or subtracted (Zaheer et al. subtract the
    maximum).
    """

    def __init__(self, dim: int, out: int, *, pool: str = "mean") -> None:
        super().__init__()
        if pool not in POOLS:
            raise RegardError(f"pool must be one of {', '.join(POOLS)}, got {pool!r}")
        self.dim = dim
        self.own = nn.Linear(dim, out)
        self.others = nn.Linear(dim, out, bias=False)
        self.pool = POOLS[pool](dim)

    @property
    def keeps(self) -> Group:
        """What its pool keeps."""
        found: Group = self.pool.keeps  # type: ignore[assignment]
        return found

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        expect(x, "b n d", name="x", d=self.dim)
        x = zero_padding(x, real)
        return self.own(x) + self.others(self.pool(x, real))[:, None]


class MAB(nn.Module):
    """h = norm(x + attend(x, y));  out = norm(h + mlp(h)): each x attends to all of y.   b n d, b m d -> b n
    d

    The multihead attention block of the Set Transformer: equivariant in x, invariant in y. With y = x, a set
    attends to itself (SAB).
    """

    keeps = EVERYTHING

    def __init__(
        self, dim: int, heads: int, *, mlp: str = "relu", hidden: int | None = None, norm: str = "layernorm"
    ) -> None:
        super().__init__()
        self.attention = Attention(dim, heads)
        self.mlp = make_mlp(mlp, dim, hidden)
        self.norm_attention, self.norm_mlp = NORMS[norm](dim), NORMS[norm](dim)

    def forward(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """real: bool b m, False for padding of y"""
        h = self.norm_attention(x + self.attention(x, y, real=real))
        return self.norm_mlp(h + self.mlp(h))


class ISAB(nn.Module):
    """MAB(x, MAB(points, x)): elements attend to a few learned inducing points that attended to all elements.
    b n d -> b n d

    The induced set attention block: its cost is linear in n, so sets may be large.
    """

    keeps = EVERYTHING

    def __init__(self, dim: int, heads: int, points: int, **how: Any) -> None:
        super().__init__()
        if points < 1:
            raise RegardError(f"points must be at least 1, got {points}")
        self.points = nn.Parameter(torch.randn(points, dim) * dim**-0.5)
        self.ask, self.tell = MAB(dim, heads, **how), MAB(dim, heads, **how)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        told = self.ask(self.points.to(x.dtype).expand(len(x), -1, -1), x, real)
        return self.tell(x, told)


class PMA(nn.Module):
    """MAB(seeds, mlp(x)): a few learned seed vectors attend to the whole set.   b n d -> b s d, invariant

    Pooling by multihead attention, of the Set Transformer. The output of an empty set depends on the seeds
    alone.
    """

    keeps = EVERYTHING

    def __init__(self, dim: int, heads: int, seeds: int = 1, **how: Any) -> None:
        super().__init__()
        if seeds < 1:
            raise RegardError(f"seeds must be at least 1, got {seeds}")
        self.seeds = nn.Parameter(torch.randn(seeds, dim) * dim**-0.5)
        self.before, self.ask = make_mlp(how.get("mlp", "relu"), dim), MAB(dim, heads, **how)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return self.ask(self.seeds.to(x.dtype).expand(len(x), -1, -1), self.before(zero_padding(x, real)), real)
