"""The road to attention: five ways to sum up a sequence in one vector. Each adds one idea to the one before.

    Composite    Σ θᵀx̄_i
                 every token has the same weight
    Fading       Σ γ^(T−i) θᵀx̄_i
                 older tokens have less weight; γ = 1 is Composite
    Forgetting   h_t = σ(θ_λᵀx̄_t) ⊙ h_(t−1) + θᵀx̄_t
                 each token decides how much of the past stays; with a constant gate it is Fading
    Gated        Σ σ(θ_λᵀx̄_i) θᵀx̄_i
                 each token decides its own weight, whatever its place
    Softmax      Σ softmax_i(θ_λᵀx_i) θᵀx̄_i
                 the weights sum to 1: attention with one query

x̄ = [1; x], so θ includes a bias. All five are linear in θ and differ only in the **weight** of each token;
`weights` returns it. Padding is skipped, because its bias would be added otherwise. T is the last *real*
place, and T − i is the number of real tokens after i. So padding in front, behind or in between changes
nothing. Without any real token the memory is zero.

Each memory reads a whole sequence at once, or step by step (`start`, `step`, `read`), with the same result.
Composite, Gated and Softmax are invariant under permutations. Fading and Forgetting depend on the order. All
keep shifts, because none reads positions.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.masks import Causal, Full, Padding
from regard.errors import RegardError
from regard.nn.padding import check_real, zero_padding
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING, Group, Shifts


class MemoryState(NamedTuple):
    """The state of a memory after some tokens: the memory itself."""

    memory: Tensor  # b d


class Weighed(NamedTuple):
    """The state of a softmax before its division: `read` divides the memory by the total."""

    memory: Tensor  # b d, Σ e^(score − peak) θᵀx̄
    total: Tensor  # b 1, Σ e^(score − peak)
    peak: Tensor  # b 1, the largest score until now


S = TypeVar("S", bound=tuple[Tensor, ...])


class Memory(nn.Module, Generic[S]):
    """Base of all memories: Σ_i w_i θᵀx̄_i.   x: b n inputs, real: bool b n, True = real (None: all) -> b
    d"""

    keeps: Group = EVERYTHING

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.inputs, self.dim = inputs, dim
        self.value = nn.Linear(inputs, dim)  # θᵀx̄: its bias is what θ gives to the 1 in x̄

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The memory after the last real token.   b n inputs -> b d"""
        x = self.tokens(x, real)
        w = self.weigh(x, real)
        ones, tokens = (w.sum(1, keepdim=True), (w[:, None] @ x)[:, 0])  # Σ w_i x̄_i first: θ is the same for all
        return F.linear(tokens, self.value.weight) + ones * self.value.bias

    def weights(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """How much each token counts in the memory; 0 for padding.   b n inputs -> b n (Forgetting: b n d)"""
        return self.weigh(self.tokens(x, real), real)

    def sequence(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The memory after each token; padding does not change it.   b n inputs -> b n d"""
        x = self.tokens(x, real)
        return (self.weigh(x, real)[..., None] * self.values(x, real)).cumsum(1)

    def start(self, b: int) -> S:
        """The state of b memories before the first token."""
        raise TypeError(f"{type(self).__name__} must define start(b)")

    def step(self, state: S, x: Tensor, real: Tensor | None = None) -> S:
        """The state after one more token in each row. Rows whose token is not real keep their state.
        x: b inputs, real: b"""
        b, _ = expect(x, "b inputs", name="x", inputs=self.inputs)
        if real is None:
            return self.follow(state, x)
        check_real(real, "b", b=b)
        seen = self.follow(state, x.masked_fill(~real[:, None], 0))
        kept = (torch.where(real[:, None], new, old) for new, old in zip(seen, state, strict=True))
        return type(state)(*kept)  # a NamedTuple takes its fields one by one

    def read(self, state: S) -> Tensor:
        """b d"""
        raise TypeError(f"{type(self).__name__} must define read(state)")

    def weigh(self, x: Tensor, real: Tensor | None) -> Tensor:
        """The weights of tokens; the shape is checked, and padding is zero already.   b n inputs -> b n"""
        raise TypeError(f"{type(self).__name__} must define weigh(x, real)")

    def follow(self, state: S, x: Tensor) -> S:
        """The state after one more real token.   x: b inputs"""
        raise TypeError(f"{type(self).__name__} must define follow(state, x)")

    def tokens(self, x: Tensor, real: Tensor | None) -> Tensor:
        expect(x, "b n inputs", name="x", inputs=self.inputs)
        return zero_padding(x, real)

    def values(self, x: Tensor, real: Tensor | None) -> Tensor:
        """θᵀx̄ of real tokens, 0 of others.   b n inputs -> b n d"""
        return zero_padding(self.value(x), real)


class Holding(Memory[MemoryState]):
    """A memory whose state is the memory itself."""

    def start(self, b: int) -> MemoryState:
        return MemoryState(self.value.weight.new_zeros(b, self.dim))

    def read(self, state: MemoryState) -> Tensor:
        return state.memory


class Composite(Holding):
    """Σ θᵀx̄_i: the sum of all.   b n inputs -> b d, invariant under permutations"""

    def weigh(self, x: Tensor, real: Tensor | None) -> Tensor:
        return x.new_ones(x.shape[:2]) if real is None else real.to(x.dtype)

    def follow(self, state: MemoryState, x: Tensor) -> MemoryState:
        return MemoryState(state.memory + self.value(x))


class Fading(Holding):
    """Σ γ^(T−i) θᵀx̄_i, 0 < γ ≤ 1, T the last real place: older tokens have less weight.   b n inputs -> b d

    `learned=True` learns γ, as the sigmoid of a parameter. The order matters: keeps shifts, not permutations.
    """

    keeps: Group = Shifts()

    def __init__(self, inputs: int, dim: int, gamma: float = 0.9, learned: bool = False) -> None:
        super().__init__(inputs, dim)
        if not 0.0 < gamma <= 1.0:
            raise RegardError(f"gamma must be above 0 and at most 1, got {gamma}; 1 forgets nothing")
        if learned and gamma == 1.0:
            raise RegardError("a learned gamma must begin below 1, got 1.0: a sigmoid never gets there; try gamma=0.99")
        self.fixed = gamma
        self.logit: nn.Parameter | None = None
        if learned:
            self.logit = nn.Parameter(torch.tensor(math.log(gamma) - math.log1p(-gamma)))

    @property
    def gamma(self) -> float | Tensor:
        return self.fixed if self.logit is None else torch.sigmoid(self.logit)

    def weigh(self, x: Tensor, real: Tensor | None) -> Tensor:
        some = x.new_ones(x.shape[:2], dtype=_wide(x)) if real is None else real.to(_wide(x))
        after = _later(some)  # T − i, the number of real tokens after i
        if self.logit is None:
            rate: Tensor | float = math.log(self.fixed)
        else:
            rate = F.logsigmoid(self.logit.to(_wide(x)))
        return (torch.exp(rate * after) * some).to(x.dtype)

    def sequence(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.tokens(x, real)
        gate = x.new_ones(*x.shape[:2], 1) * self.gamma
        return scan(zero_padding(gate, real, fill=1.0), self.values(x, real))

    def follow(self, state: MemoryState, x: Tensor) -> MemoryState:
        return MemoryState(self.gamma * state.memory + self.value(x))


class Forgetting(Holding):
    """h_t = σ(θ_λᵀx̄_t) ⊙ h_(t−1) + θᵀx̄_t, with a gate for each channel.   b n inputs -> b d

    Each token decides how much of the past stays. Token i has the weight Π_(j>i) σ(θ_λᵀx̄_j).
    It is computed as the exponential of a sum of logarithms, which is exact for gates near 0 and near 1.
    Gates start near σ(2) ≈ 0.88. The order matters: keeps shifts, not permutations.
    """

    keeps: Group = Shifts()

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__(inputs, dim)
        self.gate = nn.Linear(inputs, dim)
        nn.init.constant_(self.gate.bias, 2.0)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.tokens(x, real)
        return (self.weigh(x, real) * self.value(x)).sum(1)

    def weigh(self, x: Tensor, real: Tensor | None) -> Tensor:
        """b n inputs -> b n d"""
        stays = zero_padding(F.logsigmoid(self.gate(x).to(_wide(x))), real)  # a padded token's gate is 1
        return zero_padding(torch.exp(_later(stays)), real).to(x.dtype)

    def sequence(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.tokens(x, real)
        return scan(zero_padding(torch.sigmoid(self.gate(x)), real, fill=1.0), self.values(x, real))

    def follow(self, state: MemoryState, x: Tensor) -> MemoryState:
        return MemoryState(torch.sigmoid(self.gate(x)) * state.memory + self.value(x))


class Gated(Holding):
    """Σ σ(θ_λᵀx̄_i) θᵀx̄_i, with one gate for each token: each token decides its own weight.
    b n inputs -> b d

    Invariant under permutations.
    """

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__(inputs, dim)
        self.gate = nn.Linear(inputs, 1)

    def weigh(self, x: Tensor, real: Tensor | None) -> Tensor:
        return zero_padding(torch.sigmoid(self.gate(x)), real)[..., 0]

    def follow(self, state: MemoryState, x: Tensor) -> MemoryState:
        return MemoryState(state.memory + torch.sigmoid(self.gate(x)) * self.value(x))


class Softmax(Memory[Weighed]):
    """Σ w_i θᵀx̄_i, w = softmax(θ_λᵀx_i): `attend` with one learned query, keys x and values θᵀx̄.
    b n inputs -> b d

    The scores have no bias, because softmax would cancel it. θ_λ = 0 gives Composite / T. Invariant under
    permutations.
    """

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__(inputs, dim)
        self.query = nn.Parameter(torch.randn(inputs) * inputs**-0.5)  # θ_λ

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.tokens(x, real)
        mask = None if real is None else Padding(real)
        return attend(self.queries(x, 1), x[:, None], self.value(x)[:, None], mask=mask, scale=1.0)[:, 0, 0]

    def weigh(self, x: Tensor, real: Tensor | None) -> Tensor:
        scores = x @ self.query
        if real is None:
            return scores.softmax(-1)
        return scores.masked_fill(~real, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~real, 0)

    def sequence(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The query attends after each token: causal attention."""
        x = self.tokens(x, real)
        mask = Causal() & (Full() if real is None else Padding(real))
        return attend(self.queries(x, x.shape[1]), x[:, None], self.value(x)[:, None], mask=mask, scale=1.0)[:, 0]

    def queries(self, x: Tensor, n: int) -> Tensor:
        """b 1 n inputs"""
        return self.query.expand(x.shape[0], 1, n, -1)

    def start(self, b: int) -> Weighed:
        zeros = self.value.weight.new_zeros(b, self.dim + 1)
        return Weighed(zeros[:, 1:], zeros[:, :1], torch.full_like(zeros[:, :1], -torch.inf))

    def follow(self, state: Weighed, x: Tensor) -> Weighed:
        score = (x @ self.query)[:, None]
        # all is measured against the largest score, so that nothing overflows
        peak = torch.maximum(state.peak, score)
        old, new = torch.exp(state.peak - peak), torch.exp(score - peak)
        return Weighed(old * state.memory + new * self.value(x), old * state.total + new, peak)

    def read(self, state: Weighed) -> Tensor:
        return state.memory / state.total.masked_fill(state.total == 0, 1)


def _later(x: Tensor) -> Tensor:
    """For each i, the sum of all elements after i.   b n ... -> b n ...

    The sum runs from the end. The total minus a running sum would lose the digits of small elements.
    """
    upto = x[:, 1:].flip(1).cumsum(1).flip(1)
    return torch.cat([upto, torch.zeros_like(x[:, :1])], 1)


def scan(gate: Tensor, value: Tensor) -> Tensor:
    """h_t = gate_t ⊙ h_(t−1) + value_t for every t, from zero.   gate: b n d|1, value: b n d -> b n d

    A parallel scan (Hillis and Steele): after k rounds h_t covers the last 2^k tokens, so log2 n rounds are
    enough. Each round only adds and multiplies by gates, so gates near 0 are as exact as others.
    """
    reach = 1
    while reach < value.shape[1]:
        value = value + gate * F.pad(value[:, :-reach], (0, 0, reach, 0))
        gate = gate * F.pad(gate[:, :-reach], (0, 0, reach, 0))
        reach *= 2
    return value


def _wide(x: Tensor) -> torch.dtype:
    """A dtype in which counts and sums of logarithms are exact enough."""
    return torch.promote_types(x.dtype, torch.float32)


MEMORIES: dict[str, type[Composite] | type[Fading] | type[Forgetting] | type[Gated] | type[Softmax]] = {
    "composite": Composite,
    "fading": Fading,
    "forgetting": Forgetting,
    "gated": Gated,
    "softmax": Softmax,
}
