"""Pages for tests, made of numbers that the tests know."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.look import pack

SENTENCE = ["The", " cat", " sat", " on", " the", " mat", " because", " it", " was", " tired", ".", "\n", "The", " dog", " did", " not", "."]


def attended(scores: Tensor, *, causal: bool = True) -> Tensor:
    """Weights of scores.   … n n"""
    n, m = scores.shape[-2:]
    hidden = torch.ones(n, m).triu(1).bool() & causal
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def kinds_of_heads(n: int, layer: int, heads: int, *, causal: bool = True) -> Tensor:
    """Heads that look like those of trained models: the token before, the first, the same, a window, all.   h n n"""
    random = torch.Generator().manual_seed(layer)
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    noise = torch.randn(heads, n, n, generator=random)
    shapes = [
        -(i - j - 1).abs() * 2.5,
        torch.where(j == 0, 4.0, 0.0) - 0.02 * (i - j).abs(),
        -(i - j).abs() * 0.35,
        torch.zeros(n, n) + 0.0 * i,
        -((i - j) % 6).float() * 0.8 - 0.05 * (i - j).abs(),
        torch.where(i == j, 3.0, 0.0),
    ]
    mixed = [shapes[(k + 2 * layer) % 6] * (0.5 + 0.1 * ((k * 5 + layer) % 7)) for k in range(heads)]
    return attended(torch.stack([each.float().expand(n, n) for each in mixed]) + 0.6 * noise, causal=causal)


def layer_of(weights: Tensor, layer: int, *, count: int | None = None, **changes: Any) -> dict[str, Any]:
    """One layer as the page wants it.   weights: h n m"""
    h, n, m = weights.shape
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1).mean(-1)
    away = (torch.arange(n)[:, None] - torch.arange(m)[None, :]).abs()
    return {
        "layer": layer, "name": f"blocks.{layer}.attention", "call": 0, "kind": "self", "operator": "scaled_dot_product_attention",
        "rows": 0, "columns": 0, "n": n, "m": m, "heads": list(range(h)), "proved": True, "reason": None, "error": 1.2e-7, "note": None,
        "entropy": pack.rounded(entropy), "distance": pack.rounded((weights * away).sum(-1).mean(-1)),
        "small": pack.thumbnails(weights), "largest": pack.largest(weights, m if count is None else count), **changes,
    }  # fmt: skip


def unproved(layer: int, reason: str, like: dict[str, Any]) -> dict[str, Any]:
    return {**like, "layer": layer, "name": f"blocks.{layer}.attention", "proved": False, "reason": reason, "small": None, "largest": None,
            "entropy": [], "distance": None}  # fmt: skip


def text_stream(labels: list[str], name: str = "tokens") -> dict[str, Any]:
    return {"name": name, "kind": "text", "labels": labels, "grid": None}


def page_of(views: list[dict[str, Any]], labels: list[str] = SENTENCE, **changes: Any) -> dict[str, Any]:
    return {
        "format": 1, "title": "a small decoder", "subtitle": "Decoder · 4 layers · 1.2 M parameters", "record": 0,
        "input": {"kind": "text", "text": "".join(labels), "target": None}, "streams": [text_stream(labels)],
        "notes": [], "live": None, "silenced": [], "views": views, **changes,
    }  # fmt: skip


def attention_view(labels: list[str] = SENTENCE, layers: int = 4, heads: int = 8) -> dict[str, Any]:
    return {"view": "attention", "layers": [layer_of(kinds_of_heads(len(labels), k, heads), k) for k in range(layers)]}
