"""What heads of a language model do with a text made for the purpose: random tokens, said twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.look.measure import induction, previous_token
from regard.look.record import record


@dataclass(frozen=True)
class HeadScore:
    """How much one head looks at the token before, and at what came after the same token last time (both 0 to
    1)."""

    name: str
    layer: int
    head: int
    previous_token: float
    induction: float


def repeated_tokens(vocab: int, period: int, *, rows: int = 4, seed: int = 0) -> Tensor:
    """x_i random for i < period, and x_i = x_(i−period) after that. No token occurs twice in a period if
    there are enough.

    -> rows (2·period)
    """
    if vocab < 2 or period < 2:
        raise RegardError(f"vocab and period must be at least 2, got vocab={vocab} and period={period}")
    draw = torch.Generator().manual_seed(seed)
    if vocab >= period:
        once = torch.stack([torch.randperm(vocab, generator=draw)[:period] for _ in range(rows)])
    else:
        once = torch.randint(vocab, (rows, period), generator=draw)
    return torch.cat((once, once), 1)


def head_scores(
    model: nn.Module,
    vocab: int,
    period: int = 24,
    *,
    rows: int = 4,
    seed: int = 0,
    run: Callable[[Tensor], Any] | None = None,
) -> list[HeadScore]:
    """Both scores of every head of self-attention, from the strongest induction on. `run` calls the model
    with token ids."""
    tokens = repeated_tokens(vocab, period, rows=rows, seed=seed)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with torch.no_grad(), record(model) as seen:
        (model if run is None else run)(tokens.to(device))
    scores = []
    for entry in seen:
        if entry.kind == "self" and entry.shape[2:] == (2 * period, 2 * period):
            weights = entry.weights
            pairs = zip(
                previous_token(weights).mean(0).tolist(), induction(weights, period).mean(0).tolist(), strict=True
            )
            scores += [
                HeadScore(entry.name, entry.layer, head, *pair) for head, pair in zip(entry.heads, pairs, strict=True)
            ]
    if not scores:
        raise RegardError(f"no self-attention over the {2 * period} tokens was heard, of {len(seen)} attentions")
    return sorted(scores, key=lambda score: -score.induction)
