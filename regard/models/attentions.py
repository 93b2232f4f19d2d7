"""Which attention a config names: a mask over exact attention, an approximation, and how scores become weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from regard.attention.approximate.approximation import Approximation
from regard.attention.approximate.linformer import Linformer
from regard.attention.approximate.lsh import LSH
from regard.attention.approximate.performer import Performer
from regard.attention.mask import Mask
from regard.attention.masks import BigBird, Causal, Window
from regard.attention.weights import Entmax, Sparsemax, Weights
from regard.config import Classes, Length, Positive, Seed, Size, config
from regard.errors import RegardError
from regard.models.memory_estimate import OnlyShapes


@config
class FullAttention:
    """Every token attends to every other."""

    kind: Literal["full"] = "full"


@config
class WindowAttention:
    """A token attends to those near it."""

    kind: Literal["window"] = "window"
    # window: a token attends to this many tokens, itself included (encoder: on each side)
    width: Length = 128


@config
class BigBirdAttention:
    """Blocks near a token, the first and the last one, and some at random."""

    kind: Literal["bigbird"] = "bigbird"
    block: Classes = 64  # bigbird: tokens in a block
    random_blocks: Annotated[int, Field(ge=0, le=2**16)] = 3  # bigbird: random blocks that each block draws
    seed: Seed = 0  # seed of what it draws at random


@config
class PerformerAttention:
    """Softmax by random features: a cost linear in the tokens."""

    kind: Literal["performer"] = "performer"
    features: Size = 256  # performer: random features of a head
    redraw: Positive | None = None  # performer: new features after so many training passes; None: never
    seed: Seed = 0  # seed of what it draws at random


@config
class LinformerAttention:
    """Keys and values are projected to fewer places."""

    kind: Literal["linformer"] = "linformer"
    projected: Classes = 64  # linformer: keys and values after the projection


@config
class LSHAttention:
    """A token attends to those that are hashed to its bucket."""

    kind: Literal["lsh"] = "lsh"
    # lsh: an even number; None: one for each block of the context, 64 at most
    buckets: Classes | None = None
    rounds: Annotated[int, Field(ge=1, le=2**12)] = 4  # lsh: rounds of hashing
    block: Classes = 64  # lsh: tokens of its bucket that a token meets
    seed: Seed = 0  # seed of what it draws at random

    def __post_init__(self) -> None:
        if self.buckets is not None and self.buckets > 1 and self.buckets % 2:
            raise RegardError(f"must be 1 or an even number, got {self.buckets}", option="buckets")


AttentionConfig = Annotated[
    FullAttention | WindowAttention | BigBirdAttention | PerformerAttention | LinformerAttention | LSHAttention,
    Field(discriminator="kind"),
]
APPROXIMATE: dict[str, type[Approximation]] = {"performer": Performer, "linformer": Linformer, "lsh": LSH}
MOST_BUCKETS = 64  # unless more are asked for: to hash into more costs more than the attention
WEIGHTS: dict[str, Weights | None] = {"softmax": None, "sparsemax": Sparsemax(), "entmax": Entmax()}


def check_attention(config: Any) -> None:
    """The attention goes with the rest of the config."""
    kind = config.attention.kind
    if kind == "linformer" and config.causal:
        raise RegardError(
            "linformer mixes all places before the softmax, so it has no causal form, and a decoder must not see the "
            "future; use performer, lsh, bigbird or window, or --model encoder",
            option="attention",
        )
    if kind == "lsh" and config.kv_heads not in (None, config.heads):
        raise RegardError(
            f"must be heads={config.heads} or None, because attention=lsh makes keys of the queries, got {config.kv_heads}",
            option="kv_heads",
        )
    if kind in APPROXIMATE and config.weights != "softmax":
        raise RegardError(
            f"{config.weights} needs exact attention, got attention={kind}; use full, window or bigbird",
            option="weights",
        )
    if kind in APPROXIMATE and config.bias != "none":
        raise RegardError(
            f"{config.bias} is added to scores, and attention={kind} computes none; use a position, or attention=full, "
            "window or bigbird",
            option="bias",
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
    chosen = config.attention
    if isinstance(chosen, BigBirdAttention):
        return _and(mask, BigBird(block=chosen.block, random=chosen.random_blocks, seed=chosen.seed))
    if isinstance(chosen, WindowAttention):
        return _and(mask, Window(chosen.width - 1))
    return mask


def window_of(config: Any) -> int | None:
    """How many tokens a token attends to at most, itself included; None: no window."""
    return config.attention.width if isinstance(config.attention, WindowAttention) else None


def hides_far_tokens(config: Any) -> bool:
    """Does a token see every other in a short sequence, and not in a long one?"""
    return config.attention.kind in ("window", "bigbird", "lsh")


def _and(mask: Mask | None, other: Mask) -> Mask:
    return other if mask is None else mask & other


def buckets_of(config: Any) -> int:
    """One for each block of the context, an even number."""
    chosen: LSHAttention = config.attention
    if chosen.buckets is not None:
        return chosen.buckets
    return max(2, min(MOST_BUCKETS, 2 * round(config.context / chosen.block / 2)))


def note_attention(config: Any, context: int) -> tuple[str, ...]:
    """What somebody should know who trains on sequences of this length."""
    named = APPROXIMATE.get(getattr(getattr(config, "attention", None), "kind", "full"))
    found = None if named is None else named.explain(context, causal=config.causal)
    return () if found is None else (found,)


def make_approximation(config: Any) -> Callable[[int], Approximation] | None:
    """What makes the approximation of each block; None: attention is exact."""
    chosen = config.attention
    if isinstance(chosen, PerformerAttention):
        return lambda layer: Performer(
            config.channels, chosen.features, redraw=chosen.redraw, seed=chosen.seed, layer=layer
        )
    if isinstance(chosen, LinformerAttention):
        return lambda layer: Linformer(config.context, chosen.projected)
    if isinstance(chosen, LSHAttention):
        return lambda layer: LSH(
            config.channels, buckets_of(config), near=chosen.block, rounds=chosen.rounds, seed=chosen.seed, layer=layer
        )
    return None
