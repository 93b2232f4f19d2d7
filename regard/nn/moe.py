"""A mixture of experts: many MLPs, of which each token passes a few.

Three objects decide which: a router gives each expert a score, a choice picks the experts of a token, and a gate says
how much each of them counts. Every token gets the experts that it chose, however many others chose them, too: with a
limit, what became of a token would depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention.dropout import Dropout
from regard.errors import RegardError
from regard.nn.linear import ExpertLinear
from regard.nn.mlp import ACTIVATIONS
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING


class Routing(NamedTuple):
    """Where tokens go: k of e experts each."""

    scores: Tensor  # ... e
    chosen: Tensor  # ... k, numbers of experts, the best first
    gates: Tensor  # ... k, how much each counts
    real: Tensor | None  # bool ..., False for padding; None: all are real

    def hits(self) -> Tensor:
        """How often each expert was chosen by real tokens.   e"""
        experts = self.scores.shape[-1]
        hits = F.one_hot(self.chosen, experts).sum(-2)  # ... e
        if self.real is not None:
            hits = hits * self.real[..., None]
        return hits.flatten(0, -2).sum(0)

    def balance(self, add_up: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """e·Σ_i f_i P_i: 1 if all experts have the same share, up to e/k if the same k have all.

        f_i is the share of choices that fell on expert i, P_i the mean of its softmax over all experts; both over
        real tokens alone. f has no gradient: the loss moves P away from what is chosen often. add_up: sums choices
        over the slices of a batch
        """
        shares = self.scores.float().softmax(-1)
        if self.real is None:
            mean = shares.flatten(0, -2).mean(0)
        else:
            real = self.real[..., None]
            kept = shares.masked_fill(~real, 0).flatten(0, -2).sum(0)
            mean = kept / real.sum().clamp(min=1)
        hits = self.hits() if add_up is None else add_up(self.hits())
        hits = hits.to(mean.dtype)
        return len(hits) * (hits / hits.sum().clamp(min=1) * mean).sum()


class Router(nn.Linear):
    """A score for each expert: how well it suits a token.   ... d -> ... e, in float32 at least"""

    def __init__(self, dim: int, experts: int) -> None:
        super().__init__(dim, experts, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # a rounded score may choose another expert, so it is computed as exactly as it can be
        exact = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.to(exact), self.weight.to(exact))


class TopK(nn.Module):
    """The k experts with the highest scores, the best first.   ... e -> ... k. It has no gradient."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, scores: Tensor) -> Tensor:
        return scores.detach().topk(self.k, -1).indices


class ChosenGate(nn.Module):
    """softmax over the scores of the chosen experts, as in Mixtral: gates sum to 1.   ... e, ... k -> ... k"""

    def forward(self, scores: Tensor, chosen: Tensor) -> Tensor:
        return scores.gather(-1, chosen).softmax(-1)


class FullGate(nn.Module):
    """softmax over the scores of all experts, then those of the chosen, as in Switch: gates sum to less than 1.
    ... e, ... k -> ... k"""

    def forward(self, scores: Tensor, chosen: Tensor) -> Tensor:
        return scores.softmax(-1).gather(-1, chosen)


GATES: dict[str, Callable[[], nn.Module]] = {"chosen": ChosenGate, "all": FullGate}


class Route(nn.Module):
    """Router, choice and gate, one after another.   ... d -> Routing"""

    def __init__(self, router: nn.Module, choice: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.router, self.choice, self.gate = router, choice, gate

    def forward(self, x: Tensor, real: Tensor | None = None) -> Routing:
        scores = self.router(x)
        chosen = self.choice(scores)
        return Routing(scores, chosen, self.gate(scores, chosen), real)


class Experts(nn.Module):
    """Σ over the k chosen experts i of gate_i · down_i(activation(up_i x)); with swiglu, silu(gate x) ⊙ up x inside.
    ... d -> ... d

    `hidden` channels inside each expert, None: 4 d / k (8/3 d / k for swiglu), so that a token costs what it costs in
    an MLP. Each token by itself: experts(P x) = P experts(x) for every order P, and no token depends on another.
    `balance` is the weight of the balance loss, which a training adds for each layer (see `hear_routes`).
    """

    keeps = EVERYTHING

    def __init__(
        self,
        dim: int,
        hidden: int | None = None,
        *,
        experts: int = 8,
        chosen: int = 2,
        activation: str = "relu2",
        gate: str | None = None,
        balance: float = 0.01,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_counts(experts, chosen, gate)
        if activation != "swiglu" and activation not in ACTIVATIONS:
            raise RegardError(f"activation must be one of {', '.join(ACTIVATIONS)} or swiglu, got {activation!r}")
        self.dim, self.chosen, self.activation, self.balance = dim, chosen, activation, balance
        self.hidden = default_hidden(dim, chosen, activation) if hidden is None else hidden
        name = default_gate(chosen) if gate is None else gate
        self.route = Route(Router(dim, experts), TopK(chosen), GATES[name]())
        self.gate: ExpertLinear | None = None
        if activation == "swiglu":
            self.gate = ExpertLinear(experts, dim, self.hidden)
        self.up = ExpertLinear(experts, dim, self.hidden)
        self.down = ExpertLinear(experts, self.hidden, dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """real: bool, the shape of x without its last axis, False for padding, which does not count in the balance"""
        expect(x, "... d", name="x", d=self.dim)
        routing = self.route(x, real)
        tokens = x.reshape(-1, self.dim)
        chosen = routing.chosen.reshape(-1, self.chosen)
        order, inverse, ends = sort_by_expert(chosen, self.up.experts)
        rows: Tensor = Spread.apply(tokens, order, inverse, self.chosen)  # (t k) d
        made = self._each(rows, ends)
        gates = routing.gates.reshape(-1, self.chosen).to(made.dtype)
        out: Tensor = Combine.apply(made, gates, order, inverse)
        return out.view(x.shape)

    def _each(self, rows: Tensor, ends: Tensor) -> Tensor:
        """What each expert makes of its rows.   r d, ends e -> r d"""
        if self.gate is None:
            hidden = ACTIVATIONS[self.activation](self.up(rows, ends))
        else:
            hidden = F.silu(self.gate(rows, ends)) * self.up(rows, ends)
        out: Tensor = self.down(self.dropout(hidden), ends)
        return out

    @property
    def idle_parameters(self) -> int:
        """Weights of the experts that a token does not choose."""
        maps = [each for each in (self.gate, self.up, self.down) if each is not None]
        each_expert = sum(part.weight[0].numel() for part in maps)
        return (self.up.experts - self.chosen) * each_expert

    def extra_repr(self) -> str:
        return f"{self.chosen} of {self.up.experts}, activation={self.activation}"


def check_counts(experts: int, chosen: int, gate: str | None) -> None:
    """Raise unless so many can be chosen, and the gate can be learned."""
    if not 1 <= chosen <= experts:
        raise RegardError(f"must be from 1 to the number of experts, {experts}, got {chosen}", option="chosen")
    if gate is not None and gate not in GATES:
        raise RegardError(f"must be one of {', '.join(GATES)}, got {gate!r}", option="gate")
    if gate == "chosen" and chosen == 1:
        raise RegardError(
            "must be all where one expert is chosen: a softmax over one is always 1, so the router would learn nothing "
            "from it, got chosen; or take 2 of them",
            option="gate",
        )


def default_gate(chosen: int) -> str:
    return "chosen" if chosen > 1 else "all"


def default_hidden(dim: int, chosen: int, activation: str) -> int:
    """The multiple of 8 for which the chosen experts together are as wide as an MLP."""
    if activation == "swiglu":
        return max(8, 8 * round(dim / (3 * chosen)))
    return max(8, 8 * round(dim / (2 * chosen)))


def sort_by_expert(chosen: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """The order in which choices lie expert by expert, its inverse, and where those of each expert end (int32).
    t k -> (t k), (t k), e"""
    flat = chosen.flatten()
    order = flat.sort(stable=True).indices
    inverse = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    numbers = torch.arange(experts, device=flat.device)
    ends = (flat[:, None] == numbers).sum(0).cumsum(0)
    return order, inverse, ends.to(torch.int32)


class Spread(torch.autograd.Function):
    """Row i of the result is x[order[i] // k]: each row of x comes k times, sorted by expert.   t d -> (t k) d

    Its gradient is gathered by the inverse order, and not added row by row.
    """

    @staticmethod
    def forward(x: Tensor, order: Tensor, inverse: Tensor, k: int) -> Tensor:
        return x.index_select(0, order // k)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, _, inverse, ctx.k = inputs
        ctx.save_for_backward(inverse)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (inverse,) = ctx.saved_tensors
        return _sum_rows(grad, inverse.view(-1, ctx.k)), None, None, None


class Combine(torch.autograd.Function):
    """Row i of the result is Σ_j gates[i, j] · y[inverse[i, j]]: what the chosen experts made of a token, added up.
    y (t k) d, gates t k -> t d"""

    @staticmethod
    def forward(y: Tensor, gates: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        return _sum_rows(y, inverse.view_as(gates), gates)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        y, gates, order, inverse = ctx.saved_tensors
        spread = grad.index_select(0, order // gates.shape[1])  # (t k) d
        for_gates = (spread * y).sum(-1).index_select(0, inverse).view_as(gates)
        for_y = spread.mul_(gates.flatten().index_select(0, order)[:, None])
        return for_y, for_gates, None, None


def _sum_rows(x: Tensor, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ_j weights[i, j] · x[rows[i, j]], without the rows in between.   r d, t k -> t d"""
    if not len(rows):
        return x.new_zeros(0, x.shape[-1])
    return F.embedding_bag(rows, x, mode="sum", per_sample_weights=weights)


@contextmanager
def hear_routes(model: nn.Module, tell: Callable[[str, Experts, Routing], None]) -> Iterator[None]:
    """Inside, each layer of experts tells its dotted name, itself and where it sends its tokens, when it is called."""
    handles = []
    for name, layer in find_experts(model):

        def hook(route: nn.Module, given: Any, routing: Routing, name: str = name, layer: Any = layer) -> None:
            tell(name, layer, routing)

        handles.append(layer.route.register_forward_hook(hook))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def find_experts(model: nn.Module) -> list[tuple[str, Experts]]:
    """All layers of experts, by dotted name."""
    return [(name, each) for name, each in model.named_modules() if isinstance(each, Experts)]


def count_active(model: nn.Module) -> int:
    """Parameters without those of the experts that a token does not choose."""
    idle = sum(layer.idle_parameters for _, layer in find_experts(model))
    return sum(p.numel() for p in model.parameters()) - idle


def say_parameters(model: nn.Module) -> str:
    """12,345 parameters; of a model with experts, also how many of them a token passes."""
    size, active = sum(p.numel() for p in model.parameters()), count_active(model)
    if active == size:
        return f"{size:,} parameters"
    return f"{size:,} parameters, of which a token passes {active:,}"
