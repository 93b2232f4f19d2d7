"""Predicted tokens at each place of a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.look.contribution import tensor_of
from regard.look.encode_arrays import round_digits
from regard.look.model_input import LabelFn, ModelInput
from regard.look.view import View, web_files
from regard.look.views.classes import has_logits, likeliest
from regard.recipes.text.model_input import TextInput

if TYPE_CHECKING:
    from regard.look.scene import Scene


class NextTokenView(View):
    """The most probable tokens at each place: the next token, or the masked one."""

    name, order = "next", 30
    files = web_files(Path(__file__).parent, "21-next.js")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, TextInput) and given.answers in ("next", "filled")

    def build(self, scene: Scene) -> dict[str, Any] | None:
        assert isinstance(scene.given, TextInput)
        return _next_tokens(scene.answer, scene.given)


def _next_tokens(out: Any, given: TextInput) -> dict[str, Any] | None:
    """The view, or None for a model whose output is not logits of tokens."""
    if given.called is None or not has_logits(out):
        return None
    logits, ids = tensor_of(out).detach().float(), given.inputs[given.ids]
    if logits.dim() != 3 or logits.shape[1] != ids.shape[1]:
        return None
    shares, actual = logits[0].softmax(-1), ids[0].tolist()
    comes = [*actual[1:], None] if given.answers == "next" else actual
    at = [_place(row, token, given.called) for row, token in zip(shares, comes, strict=True)]
    return {"view": "next", "stream": 0, "what": given.answers, "at": at}


def _place(shares: Tensor, actual: int | None, called: LabelFn) -> dict[str, Any]:
    """The most probable tokens at one place, and the actual one with its probability and rank.   vocab"""
    found: dict[str, Any] = {"likely": likeliest(shares, called), "actual": None, "p": None, "rank": None}
    if actual is not None and actual < len(shares):
        share = shares[actual]
        found |= {"actual": called(actual), "p": round_digits(share.item()), "rank": int((shares > share).sum()) + 1}
    return found
