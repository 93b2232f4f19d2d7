"""Inputs to the measure of a model: random, and the same for the same seed. `check` tries laws on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROWS, TOKENS = 3, 12  # of sequences, unless more are asked for
EXAMPLES, POINTS = 2, 12  # images or sets of a batch, and points of a set
NODES, EDGES = 11, 26


def sample_sequences(
    config: Any, seed: int = 0, tokens: int | None = None, rows: int | None = None
) -> dict[str, Tensor]:
    """Token ids.   b n"""
    n = min(tokens or TOKENS, config.context or TOKENS)
    return {"tokens": torch.randint(config.vocab, (rows or ROWS, n), generator=_generator(seed))}


def sample_images(config: Any, seed: int = 0) -> dict[str, Tensor]:
    """Pixels.   b c s s"""
    return {"x": torch.randn(EXAMPLES, config.colours, config.size, config.size, generator=_generator(seed))}


def sample_sets(config: Any, seed: int = 0) -> dict[str, Tensor]:
    """Points, no more of them than the model takes.   b n d"""
    n = min(POINTS, getattr(config, "size", POINTS))
    return {"x": torch.randn(EXAMPLES, n, config.features, generator=_generator(seed))}


def sample_graph(config: Any, seed: int = 0) -> dict[str, Any]:
    """Nodes and edges, with features if the model reads them.   n d, 2 e, e k"""
    draw = _generator(seed)
    x, edges = (
        torch.randn(NODES, config.features, generator=draw),
        torch.randint(NODES, (2, EDGES), generator=draw),
    )
    width = getattr(config, "edge_features", 0)
    if not width:
        return {"x": x, "edges": edges}
    return {"x": x, "edges": edges, "edge_features": torch.randn(EDGES, width, generator=draw)}


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
