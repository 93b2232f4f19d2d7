"""Measures of attention. Each is a plain function of weights (b h n m) or of a whole recording; none says
what matters to the output: for that see `contribution.py`.

Where a function takes weights, an entry of a recording will do as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.positions import Code, Position, Rotary
from regard.errors import RegardError
from regard.shapes import expect


def _weights_of(given: Any) -> Tensor:
    """The weights of an entry, or a tensor that already is some.   b h n m"""
    if isinstance(given, Sequence):
        raise RegardError(f"this measure is of one entry, got {len(given)}; take them one by one, such as seen[0]")
    weights = given if isinstance(given, Tensor) else given.weights
    if weights.dim() == 2 and not isinstance(given, Tensor):
        raise RegardError(f"{given.where} attends along edges (h e); this measure is for weights b h n m")
    expect(weights, "b h n m", name="weights")
    return weights


def entropy(weights: Any) -> Tensor:
    """H_i = −Σ_j w_ij log w_ij: 0 when a query looks at one key, log m when at all alike.
    b h n m -> b h n"""
    return torch.special.entr(_weights_of(weights)).sum(-1)


def farness(weights: Tensor, here: Tensor) -> Tensor:
    """Σ_j w_ij |here_i − j|.   b h n m, n -> b h n"""
    there = torch.arange(weights.shape[-1], device=weights.device)
    return (weights * (here[:, None] - there).abs().to(weights.dtype)).sum(-1)


def distance(weights: Any) -> Tensor:
    """d_i = Σ_j w_ij |i − j|: how far a query looks on average. The n queries are the last of the m.
    b h n m -> b h n"""
    weights = _weights_of(weights)
    n, m = weights.shape[2:]
    return farness(weights, torch.arange(m - n, m, device=weights.device))


def attention_received(weights: Any) -> Tensor:
    """a_j = 1/n Σ_i w_ij: how much of all attention a key gets.   b h n m -> b h m"""
    return _weights_of(weights).mean(2)


def rollout(seen: Sequence[Any], *, residual: float = 0.5, query: int | None = None) -> Tensor:
    """R = A_L ⋯ A_1 with A = ½ (mean over heads of w) + ½ I: attention followed through the layers.
    -> b n n

    After Abnar and Zuidema 2020: the half of I is the residual stream, and rows stay sums of 1.
    Self-attention only; entries of other kinds are left out, and what is left must be of one size.

    query  the number of the token that asks in a last layer where only one does: 0 for a class token, as in a
           ViT.   -> b 1 n
    """
    layers = [entry for entry in seen if isinstance(entry, Tensor) or entry.kind == "self"]
    if not layers:
        raise RegardError(f"rollout needs self-attention, got {len(seen)} entries and none of that kind")
    total: Tensor | None = None
    for layer in layers:
        mean = _weights_of(layer).mean(1)  # b n n
        b, n, m = mean.shape
        alone = n == 1 < m and layer is layers[-1]
        if alone and query is None:
            raise RegardError(
                f"in the last layer one of {m} tokens asks alone; say which, such as query=0 for a class token"
            )
        if alone and query is not None and not 0 <= query < m:
            raise RegardError(f"query is the number of one of {m} tokens, from 0 on, got {query}")
        if (n != m and not alone) or (total is not None and total.shape != (b, m, m)):
            before = "" if total is None else f" after {tuple(total.shape)}"
            raise RegardError(
                f"rollout multiplies square matrices of one size, got {(b, n, m)}{before}; give it the "
                "entries of one stack "
                f"and one call (of windows that shift and merge, as in a Swin, regard look draws it)"
            )
        # sinks and empty rows
        mean = mean / mean.sum(-1, keepdim=True).clamp_min(torch.finfo(mean.dtype).tiny)
        same = torch.eye(m, dtype=mean.dtype, device=mean.device)
        step = (1 - residual) * mean + residual * (same[query : query + 1] if alone and query is not None else same)
        total = step if total is None else step @ total
    assert total is not None
    return total


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """JS = H((p + q)/2) − (H(p) + H(q))/2, between 0 (equal) and log 2 (nothing in common).
    ... m, ... m -> ..."""
    entropies = (torch.special.entr(x).sum(-1) for x in ((p + q) / 2, p, q))
    middle, first, second = entropies
    return (middle - (first + second) / 2).clamp_min(0)


def head_similarity(seen: Any) -> Tensor:
    """s_kl = 1 − mean over rows of JS(w_k, w_l) / log 2: 1 for heads that attend alike, 0 for heads that
    never agree.

    Of one entry: h h. Of several of one shape: (layers·h) (layers·h), layer by layer.
    """
    given = [seen] if isinstance(seen, Tensor) or not isinstance(seen, Sequence) else list(seen)
    if not given:
        raise RegardError("head_similarity needs at least one entry, got none")
    each = [_weights_of(entry) for entry in given]
    if len({x.shape for x in each}) > 1:
        raise RegardError(f"heads of different shapes cannot be compared, got {sorted({tuple(x.shape) for x in each})}")
    heads = torch.cat(each, 1).transpose(0, 1)  # h b n m
    rows = [1 - _divergence(head, heads).flatten(1).mean(1) / math.log(2) for head in heads]
    return torch.stack(rows)


def previous_token(weights: Any) -> Tensor:
    """mean over i ≥ 1 of w_i,i−1: 1 for a head that copies the token before.   b h n n -> b h"""
    weights = _square(_weights_of(weights), "previous_token")
    return weights.diagonal(-1, 2, 3).mean(-1)


def induction(weights: Any, period: int) -> Tensor:
    """mean over i ≥ period of w_i,i−period+1: 1 for a head that looks at what came after the same token last
    time.

    For a sequence that repeats itself after `period` tokens (see `probe.py`).   b h n n -> b h
    """
    weights = _square(_weights_of(weights), "induction")
    n = weights.shape[-1]
    if not 1 < period < n:
        raise RegardError(f"period must be more than 1 and less than the {n} tokens, got {period}")
    return weights.diagonal(1 - period, 2, 3)[..., 1:].mean(-1)  # the first of them is i = period − 1


def _square(weights: Tensor, name: str) -> Tensor:
    if weights.shape[-1] != weights.shape[-2] or weights.shape[-1] < 2:
        raise RegardError(f"{name} needs self-attention of two tokens or more, got weights {tuple(weights.shape)}")
    return weights


def effective_rank(x: Tensor) -> Tensor:
    """exp(−Σ p_k log p_k), p_k = σ_k / Σ σ: how many directions a matrix really uses, from 1 to min(n, d).
    ... n d -> ..."""
    values = torch.linalg.svdvals(x)
    share = values / values.sum(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
    return torch.special.entr(share).sum(-1).exp()


def position_codes(position: Position | Tensor, length: int) -> Tensor:
    """One vector a place: a table's rows, a code, or (Rotary) what it makes of a query of ones.   n d"""
    if isinstance(position, Tensor):
        return position.detach()[:length]
    with torch.no_grad():
        if isinstance(position, Rotary):
            return position.turn(torch.ones(1, 1, length, position.channels))[0, 0]
        if isinstance(position, Code):
            return position.code(torch.arange(length)[None])[0].float()
    raise RegardError(
        f"positions of kind {type(position).__name__} have no vector a place; Rotary, Sinusoidal and Learned have"
    )


def position_similarity(position: Position | Tensor, length: int) -> Tensor:
    """s_ij = cosine of the vectors of places i and j; for Rotary the mean of cos((i − j)·θ).   -> n n"""
    codes = torch.nn.functional.normalize(position_codes(position, length), dim=-1)
    return codes @ codes.mT


def by_distance(similarity: Tensor) -> Tensor:
    """The mean of s_ij over all pairs that are |i − j| apart.   n n -> n"""
    n = similarity.shape[-1]
    return torch.stack([torch.cat((similarity.diagonal(k), similarity.diagonal(-k))).mean() for k in range(n)])
