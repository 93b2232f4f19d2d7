"""The evidence of an additive model: what each token or element adds to the prediction, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from regard.look.contribution import tensor_of
from regard.look.model_input import ModelInput
from regard.look.streams import Streams
from regard.look.view import View
from regard.look.views.contribution import make_column, name_answer
from regard.models.additive import Additive

if TYPE_CHECKING:
    from regard.look.scene import Scene

SUMS = "evidence: sums to the {what}. With the bias {bias:.4g} it makes {total:.4g}, and nothing else counts"


class EvidenceView(View):
    """What each part of the input adds: drawn as contributions are, but with the exact numbers of the model."""

    name, order, stands_alone = "evidence", 35, True

    def build(self, scene: Scene) -> dict[str, Any] | None:
        if not isinstance(scene.model, Additive) or scene.given.answers not in ("classes", "numbers"):
            return None
        return _evidence(scene.model, scene.answer, scene.given, scene.streams)


@torch.no_grad()
def _evidence(model: Additive, out: Any, given: ModelInput, streams: Streams) -> dict[str, Any] | None:
    logits = tensor_of(out)
    best = 0 if given.number is not None else int(logits[0].argmax())
    values = model.evidence(**given.inputs)[..., best].double()  # 1 n
    bias, what = float(model.bias[best]), "logit"
    if given.number is not None:
        values, bias, what = values * given.number.scale, given.number.restore(bias), "number"
    sentence = SUMS.format(what=what, bias=bias, total=bias + float(values.sum()))
    column = make_column("evidence", sentence, lambda: values)
    if column is None:
        return None
    return {
        "view": "evidence",
        "stream": streams.find(values.shape[1]),
        "thing": given.part,
        "answer": name_answer(logits, given),
        "columns": [column],
        "note": None,
    }
