"""The MLP that a config names, which may be a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import nn

from regard.config import Count, Weight, Width, config
from regard.nn.mlp import make_mlp
from regard.nn.moe import Experts, check_counts

Activation = Literal["relu", "leaky", "gelu", "gelu_tanh", "relu2", "swiglu"]


@config
class PlainMLP:
    """One MLP, which every token passes."""

    kind: Literal["plain"] = "plain"
    activation: Activation = "relu2"  # activation inside the MLP
    # width inside the MLP; None: 4 dim, or 8/3 dim for swiglu, which has as many parameters
    hidden: Width | None = None


@config
class ExpertsMLP:
    """Many MLPs, of which each token passes a few."""

    kind: Literal["experts"] = "experts"
    count: Count = 8  # experts: how many there are
    chosen: Count = 2  # experts: how many of them each token passes
    activation: Activation = "relu2"  # activation inside each of them
    hidden: Width | None = None  # width inside each of them; None: that of one MLP, divided by chosen
    # experts: softmax over the scores of the chosen ones or of all; None: chosen, and all where one is chosen
    gate: Literal["chosen", "all"] | None = None
    balance: Weight = 0.01  # experts: weight of the loss that gives all of them work; 0: no such loss

    def __post_init__(self) -> None:
        check_counts(self.count, self.chosen, self.gate)


MLPConfig = Annotated[PlainMLP | ExpertsMLP, Field(discriminator="kind")]


def make_mlp_of(config: Any) -> Callable[[], nn.Module]:
    """What makes the MLP of a block."""
    mlp = config.mlp
    if isinstance(mlp, PlainMLP):
        return lambda: make_mlp(mlp.activation, config.dim, mlp.hidden, config.dropout)
    return lambda: Experts(
        config.dim,
        mlp.hidden,
        experts=mlp.count,
        chosen=mlp.chosen,
        activation=mlp.activation,
        gate=mlp.gate,
        balance=mlp.balance,
        dropout=config.dropout,
    )


def promises_of_experts(config: Any) -> dict[str, str]:
    """What a model with experts cannot promise: a rounding may send a token to another expert."""
    return {"precision": "not promised"} if config.mlp.kind == "experts" else {}
