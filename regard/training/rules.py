"""Rules by which an optimiser moves parameters: AdamW, Adam and SGD. Muon has its own file.

They are torch's own functions with state that is plain tensors by name. (The classes of torch.optim would do,
but the first one made imports the whole compiler, which takes longer than torch itself.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd


def local(x: Any) -> Tensor:
    """The rows that this process has of a tensor that is sharded over several; any other tensor as it is."""
    shard = getattr(x, "to_local", None)
    found: Tensor = x if shard is None else shard()
    return found


class Rule:
    """Some parameters by name, the learning rate at its highest, and what is remembered: state[key][name]."""

    def __init__(self, parameters: Mapping[str, Tensor], lr: float, weight_decay: float, keys: tuple[str, ...]) -> None:
        self.parameters, self.lr, self.weight_decay = dict(parameters), lr, weight_decay
        self.state = {key: {name: torch.zeros_like(p) for name, p in self.parameters.items()} for key in keys}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Move every parameter that has a gradient."""
        names = [name for name, p in self.parameters.items() if p.grad is not None]
        if names:
            gradients = [local(p.grad) for name in names if (p := self.parameters[name]).grad is not None]
            state = {key: [local(values[name]) for name in names] for key, values in self.state.items()}
            self.move([local(self.parameters[name]) for name in names], gradients, state, lr)

    def move(
        self, parameters: list[Tensor], gradients: list[Tensor], state: dict[str, list[Tensor]], lr: float
    ) -> None:
        raise TypeError(f"{type(self).__name__} must define move(parameters, gradients, state, lr)")


class AdamW(Rule):
    """m ← β₁m + (1 − β₁)g;  v ← β₂v + (1 − β₂)g²;  w ← (1 − lr·decay)·w − lr·m̂/(√v̂ + ε), with m̂, v̂ free
    of their start at 0."""

    formula: ClassVar[Callable[..., None]] = staticmethod(adamw)

    def __init__(
        self, parameters: Mapping[str, Tensor], lr: float, weight_decay: float, betas: tuple[float, float] = (0.9, 0.95)
    ) -> None:
        super().__init__(parameters, lr, weight_decay, ("mean", "square"))
        self.betas = betas
        self.state["count"] = {name: torch.zeros((), device=p.device) for name, p in self.parameters.items()}

    def move(
        self, parameters: list[Tensor], gradients: list[Tensor], state: dict[str, list[Tensor]], lr: float
    ) -> None:
        self.formula(
            parameters,
            gradients,
            state["mean"],
            state["square"],
            [],
            state["count"],
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=lr,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )


class Adam(AdamW):
    """AdamW, but the decay is part of the gradient, g + decay·w (L2): weights whose gradients are small, such as
    those of rare words, shrink faster."""

    formula = staticmethod(adam)

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        lr: float,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        super().__init__(parameters, lr, weight_decay, betas)


class SGD(Rule):
    """m ← βm + g + decay·w;  w ← w − lr·m."""

    def __init__(self, parameters: Mapping[str, Tensor], lr: float, weight_decay: float, momentum: float = 0.9) -> None:
        super().__init__(parameters, lr, weight_decay, ("momentum",))
        self.momentum = momentum

    def move(
        self, parameters: list[Tensor], gradients: list[Tensor], state: dict[str, list[Tensor]], lr: float
    ) -> None:
        sgd(
            parameters,
            gradients,
            list(state["momentum"]),
            foreach=True,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
