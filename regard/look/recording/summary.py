"""What is kept of weights that are too many to keep: a few numbers for each row, computed a few rows at a
time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.look.measure import entropy, farness
from regard.look.recording.source import Source, quiet

MOST = 2**22  # weights in memory at once
TOP = 8


@dataclass(frozen=True, eq=False)
class Summary:
    """One attention in short."""

    entropy: Tensor  # b h n: −Σ_j w_ij log w_ij
    distance: Tensor | None  # b h n: Σ_j w_ij |i − j|, of self-attention
    received: Tensor  # b h m: the mean of a column
    top: Tensor  # b h n t: the largest weights of each row, from large to small
    top_at: Tensor  # b h n t: and which keys they belong to


def summarize(source: Source, top: int | None, *, itself: bool) -> Summary:
    """The wanted heads and rows in short."""
    with quiet(source.out):
        entropies, distances, tops, places = [], [], [], []
        received: Tensor | None = None
        count = min(TOP if top is None else top, source.m)
        for rows, weights in source.blocks(MOST):
            weights = source.picked(weights)
            entropies.append(entropy(weights))
            if itself:
                distances.append(farness(weights, rows + source.m - source.n))
            largest = weights.topk(count, dim=-1)
            tops.append(largest.values)
            places.append(largest.indices)
            total = weights.sum(2)
            received = total if received is None else received + total
        wanted = max(1, len(source.wanted_rows()))
        if received is None:
            received = source.picked(source.out.new_zeros(source.b, source.h, source.m))
        joined = [torch.cat(parts, 2) for parts in (entropies, tops, places)]
        distance = torch.cat(distances, 2) if itself else None
        return Summary(joined[0], distance, received / wanted, joined[1], joined[2])
