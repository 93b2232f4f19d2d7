"""The MLP that a config names, which may be a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.errors import RegardError
from regard.nn.mlp import make_mlp
from regard.nn.moe import Experts, check_counts

# The options of experts, with what None stands for. They are errors with another MLP.
OPTIONS: dict[str, Any] = {"experts": 8, "chosen": 2, "expert": "relu2", "gate": None, "balance": 0.01}


def option(config: Any, name: str) -> Any:
    """The value of an option, or what None stands for."""
    value = getattr(config, name)
    if value is None:
        return OPTIONS[name]
    return value


def check_experts(config: Any) -> None:
    """Options of experts belong to experts, and go with each other."""
    if config.mlp != "experts":
        for name in OPTIONS:
            value = getattr(config, name)
            if value is not None:
                raise RegardError(
                    f"{name}={value!r} is an option of mlp=experts, got mlp={config.mlp}; add --model.mlp experts, or "
                    "leave it out"
                )
        return
    check_counts(option(config, "experts"), option(config, "chosen"), config.gate)
    if getattr(config, "offsets", "usual") in ("mlp", "all"):
        raise RegardError(
            f"experts have no biases, got offsets={config.offsets}; use offsets usual, qkv or attention"
        )


def make_mlp_of(config: Any) -> Callable[[], nn.Module]:
    """What makes the MLP of a block."""
    if config.mlp != "experts":
        return lambda: make_mlp(config.mlp, config.dim, config.hidden, config.dropout)
    return lambda: Experts(
        config.dim,
        config.hidden,
        experts=option(config, "experts"),
        chosen=option(config, "chosen"),
        activation=option(config, "expert"),
        gate=config.gate,
        balance=option(config, "balance"),
        dropout=config.dropout,
    )


def promises_of_experts(config: Any) -> dict[str, str]:
    """What a model with experts cannot promise: a rounding may send a token to another expert."""
    if config.mlp == "experts":
        return {"precision": "not promised"}
    return {}
