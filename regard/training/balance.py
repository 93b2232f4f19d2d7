"""Balance of experts: a loss that gives all of them work, and how much work each had. Models know nothing of it: it
hears where their layers of experts send tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.nn.moe import Experts, Routing, find_experts, hear_routes
from regard.training.sums import Numbers

BUSIEST = "busiest expert"  # the measure: its share of the tokens, as a multiple of an equal share


class Balance:
    """What the layers of experts of a model were asked in a step, or in an evaluation."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.present = bool(find_experts(model))
        self.heard: list[tuple[float, Routing]] = []  # of a training step
        self.counts: dict[str, Tensor] = {}  # of an evaluation: how often each expert of a layer was chosen

    @contextmanager
    def listening(self, copy: nn.Module | None = None) -> Iterator[None]:
        """Inside, every call is heard. copy: listen to this copy of the model instead"""
        with hear_routes(self.model if copy is None else copy, self._hear):
            yield

    def _hear(self, name: str, layer: Experts, routing: Routing) -> None:
        if torch.is_grad_enabled():
            self.heard.append((layer.balance, routing))
        elif name in self.counts:
            self.counts[name] = self.counts[name] + routing.hits()
        else:
            self.counts[name] = routing.hits()

    def begin(self) -> None:
        """Forget what was heard before, such as blocks that were computed again for their gradients."""
        self.heard = []

    def take_loss(self, add_up: Callable[[Tensor], Tensor] | None = None) -> Tensor | None:
        """Σ over layers of balance · e Σ f_i P_i, of what was heard since the last time; None: nothing to add.
        add_up: sums choices over the processes that have the other slices of the batch"""
        heard, self.heard = self.heard, []
        losses = [weight * routing.balance(add_up) for weight, routing in heard if weight]
        if not losses:
            return None
        return torch.stack(losses).sum()

    def take_load(self, add_up: Callable[[Numbers], Numbers] = dict) -> dict[str, list[float]]:
        """The share of all choices that fell on each expert, by the name of the layer, since the last time.
        add_up: sums over processes"""
        counts, self.counts = self.counts, {}
        found = add_up({name: [float(hits) for hits in each] for name, each in counts.items()})
        return {name: [hits / max(1.0, sum(each)) for hits in each] for name, each in found.items()}


def busiest(load: dict[str, list[float]]) -> dict[str, float]:
    """A measure of an evaluation: 1 if all experts have the same share of tokens; of several layers, the worst."""
    if not load:
        return {}
    return {BUSIEST: max(len(shares) * max(shares) for shares in load.values())}
