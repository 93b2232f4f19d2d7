"""Which attention a config names: a mask over exact attention, an approximation, and how scores become weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from regard.attention.approximate.approximation import Approximation
from regard.attention.approximate.linformer import Linformer
from regard.attention.approximate.lsh import LSH
from regard.attention.approximate.performer import Performer
from regard.attention.mask import Mask
from regard.attention.masks import BigBird, Causal, Window
from regard.attention.weights import Entmax, Sparsemax, Weights
from regard.errors import RegardError
from regard.models.memory_estimate import OnlyShapes

# The options of each attention, with what None stands for. An option of another attention is an error.
OPTIONS: dict[str, dict[str, int | None]] = {
    "full": {"window": None},
    "window": {"window": 128},
    "bigbird": {"block": 64, "random_blocks": 3, "attention_seed": 0},
    "performer": {"features": 256, "redraw": None, "attention_seed": 0},
    "linformer": {"projected": 64},
    "lsh": {"buckets": None, "rounds": 4, "block": 64, "attention_seed": 0},
}
MOST_BUCKETS = 64  # unless more are asked for: to hash into more costs more than the attention
WEIGHTS: dict[str, Weights | None] = {"softmax": None, "sparsemax": Sparsemax(), "entmax": Entmax()}


def option(config: Any, name: str) -> Any:
    """The value of an option, or what None stands for."""
    value = getattr(config, name)
    if value is None:
        return OPTIONS[config.attention][name]
    return value


def check_attention(config: Any) -> None:
    """Options belong to the attention, and the attention goes with the rest of the config."""
    names = dict.fromkeys(name for options in OPTIONS.values() for name in options)
    for name in names:
        value = getattr(config, name)
        if value is None:
            continue
        if name not in OPTIONS[config.attention]:
            fits = " or ".join(each for each, options in OPTIONS.items() if name in options)
            raise RegardError(
                f"{name}={value!r} is an option of attention={fits}, got attention={config.attention}; leave one out"
            )
    if config.buckets is not None and config.buckets > 1 and config.buckets % 2:
        raise RegardError(f"must be 1 or an even number, got {config.buckets}", option="buckets")
    if config.attention == "linformer" and config.causal:
        raise RegardError(
            "attention=linformer mixes all places before the softmax, so it has no causal form, and a decoder must "
            "not see the future; use performer, lsh, bigbird or window, or --model encoder"
        )
    if config.attention == "lsh" and config.kv_heads not in (None, config.heads):
        raise RegardError(
            f"attention=lsh makes keys of the queries, so kv_heads must be heads={config.heads} or None, got "
            f"kv_heads={config.kv_heads}"
        )
    if config.attention in APPROXIMATIONS and config.weights != "softmax":
        raise RegardError(
            f"weights={config.weights} needs exact attention, got attention={config.attention}; use full, window or "
            "bigbird"
        )
    if config.attention in APPROXIMATIONS and config.bias != "none":
        raise RegardError(
            f"attention={config.attention} computes no scores that a bias could be added to, got "
            f"bias={config.bias}; use a position, or attention=full, window or bigbird"
        )


def check_heads(config: Any) -> None:
    """Its width can be divided among its heads."""
    if config.dim % config.heads:
        fits = config.dim + config.heads - config.dim % config.heads
        raise RegardError(
            f"must be a multiple of heads={config.heads}, got {config.dim}; the next one that fits is {fits}",
            option="dim",
        )


def check_position(config: Any, positions: Mapping[str, Callable[[Any], Any]]) -> None:
    """Its position, made by a table of them, goes with its sizes."""
    try:
        with torch.device("meta"), OnlyShapes():
            positions[config.position](config)
    except ValueError as error:
        sizes = f"dim={config.dim} and heads={config.heads}"
        raise RegardError(f"position {config.position!r} does not go with {sizes}: {error}") from error


def make_mask(config: Any) -> Mask | None:
    """What a token may see, as far as a config decides it."""
    mask: Mask | None = Causal() if config.causal else None
    if config.attention == "bigbird":
        block, random, seed = (option(config, name) for name in OPTIONS["bigbird"])
        return _and(mask, BigBird(block=block, random=random, seed=seed))
    window = window_of(config)
    if window is None:
        return mask
    return _and(mask, Window(window - 1))


def window_of(config: Any) -> int | None:
    """How many tokens a token attends to at most, itself included; None: no window."""
    if "window" not in OPTIONS[config.attention]:
        return None
    window: int | None = option(config, "window")
    return window


def hides_far_tokens(config: Any) -> bool:
    """Does a token see every other in a short sequence, and not in a long one?"""
    return config.attention in ("bigbird", "lsh") or window_of(config) is not None


def _and(mask: Mask | None, other: Mask) -> Mask:
    if mask is None:
        return other
    return mask & other


CLASSES: dict[str, type[Approximation]] = {each.name: each for each in (Performer, Linformer, LSH)}


def _performer(config: Any, layer: int) -> Approximation:
    return Performer(
        config.channels,
        option(config, "features"),
        redraw=config.redraw,
        seed=option(config, "attention_seed"),
        layer=layer,
    )


def _linformer(config: Any, layer: int) -> Approximation:
    return Linformer(config.context, option(config, "projected"))


def _lsh(config: Any, layer: int) -> Approximation:
    return LSH(
        config.channels,
        buckets_of(config),
        near=option(config, "block"),
        rounds=option(config, "rounds"),
        seed=option(config, "attention_seed"),
        layer=layer,
    )


def buckets_of(config: Any) -> int:
    """One for each block of the context, an even number."""
    if config.buckets is not None:
        found: int = config.buckets
        return found
    return max(2, min(MOST_BUCKETS, 2 * round(config.context / option(config, "block") / 2)))


APPROXIMATIONS: dict[str, Callable[[Any, int], Approximation]] = {
    "performer": _performer,
    "linformer": _linformer,
    "lsh": _lsh,
}


def note_attention(config: Any, context: int) -> tuple[str, ...]:
    """What somebody should know who trains on sequences of this length."""
    named = CLASSES.get(getattr(config, "attention", "full"))
    found = None if named is None else named.explain(context, causal=config.causal)
    return () if found is None else (found,)


def make_approximation(config: Any) -> Callable[[int], Approximation] | None:
    """What makes the approximation of each block; None: attention is exact."""
    make = APPROXIMATIONS.get(config.attention)
    if make is None:
        return None
    return lambda layer: make(config, layer)
