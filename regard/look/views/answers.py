"""What the model answers: the likeliest tokens at each place, or the likeliest classes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.look.contribution import tensor_of
from regard.look.model_input import Called, Given
from regard.look.pack import rounded

LIKELY = 8


def answers(out: Any, given: Given) -> dict[str, Any] | None:
    """The view, or None for a model whose output is no logits of what is named."""
    if given.answers is None or given.called is None or not has_logits(out):
        return None
    logits = tensor_of(out).detach().float()
    if given.answers == "classes":
        one = (
            logits.dim() == 2 and len(logits) == 1
        )  # of the whole; of nodes, each has its own, and the graph shows them
        few = (
            f"Of {logits.shape[-1]} classes the {LIKELY} likeliest are shown."
            if logits.shape[-1] > LIKELY
            else None
        )
        return (
            {"view": "classes", "likely": likely(logits[0].softmax(-1), given.called), "note": few}
            if one
            else None
        )
    ids = given.inputs[given.ids] if given.ids is not None else None
    if logits.dim() != 3 or ids is None or logits.shape[1] != ids.shape[1]:
        return None
    shares, actual = logits[0].softmax(-1), ids[0].tolist()
    comes = [*actual[1:], None] if given.answers == "next" else actual
    at = [place(row, token, given.called) for row, token in zip(shares, comes, strict=True)]
    return {"view": "next", "stream": 0, "what": given.answers, "at": at}


def has_logits(out: Any) -> bool:
    return isinstance(out, Tensor) or getattr(out, "logits", None) is not None


def likely(shares: Tensor, called: Called) -> list[list[Any]]:
    best = shares.topk(min(LIKELY, len(shares)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[called(i), rounded(share)] for i, share in pairs]


def place(shares: Tensor, actual: int | None, called: Called) -> dict[str, Any]:
    found: dict[str, Any] = {"likely": likely(shares, called), "actual": None, "p": None, "rank": None}
    if actual is not None and actual < len(shares):
        share = shares[actual]
        found |= {
            "actual": called(actual),
            "p": rounded(share.item()),
            "rank": int((shares > share).sum()) + 1,
        }
    return found
