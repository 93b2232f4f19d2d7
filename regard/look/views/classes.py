"""The likeliest classes of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from regard.look.contribution import tensor_of
from regard.look.encode_arrays import round_digits
from regard.look.model_input import LabelFn, ModelInput
from regard.look.view import View

if TYPE_CHECKING:
    from regard.look.scene import Scene

LIKELY = 8
DIGITS = 9  # of a probability: all of float32, so that the page rounds what `predict` rounds


class ClassesView(View):
    """What a classifier predicts."""

    name, order = "classes", 30

    def applies(self, given: ModelInput) -> bool:
        return given.answers == "classes"

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return _classes(scene.answer, scene.given)


def _classes(out: Any, given: ModelInput) -> dict[str, Any] | None:
    """The view, or None where there is not one prediction for the whole: of nodes each has its own, and the
    graph shows them."""
    if given.called is None or not has_logits(out):
        return None
    logits = tensor_of(out).detach().float()
    if logits.dim() != 2 or len(logits) != 1:
        return None
    count = logits.shape[-1]
    few = f"Of {count} classes the {LIKELY} likeliest are shown." if count > LIKELY else None
    return {"view": "classes", "likely": likeliest(logits[0].softmax(-1), given.called), "note": few}


def has_logits(out: Any) -> bool:
    return isinstance(out, Tensor) or getattr(out, "logits", None) is not None


def likeliest(shares: Tensor, called: LabelFn) -> list[list[Any]]:
    """Labels with their probabilities, the likeliest first.   classes"""
    best = shares.topk(min(LIKELY, len(shares)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[called(i), round_digits(share, DIGITS)] for i, share in pairs]
