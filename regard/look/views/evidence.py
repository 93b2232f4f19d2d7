"""The evidence of an additive model: what each token or element adds to the prediction, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.look.contribution import tensor_of
from regard.look.model_input import ModelInput
from regard.look.streams import Streams
from regard.look.view import View
from regard.look.views.contribution import make_column, name_answer
from regard.models.additive import Additive

if TYPE_CHECKING:
    from regard.look.scene import Scene

SUMS = "with the bias {bias:.4g} it makes {total:.4g}, and nothing else counts"


class EvidenceView(View):
    """What each part of the input adds: drawn as contributions are, but with the exact numbers of the model."""

    name, order, stands_alone = "evidence", 35, True

    def build(self, scene: Scene) -> dict[str, Any] | None:
        if not isinstance(scene.model, Additive) or scene.given.answers not in ("classes", "numbers"):
            return None
        return _evidence(scene.model, scene.answer, scene.given, scene.streams)


class Terms(NamedTuple):
    """What a prediction is the sum of: its logit, or its number in the units of the data."""

    values: Tensor  # 1 n
    bias: float
    what: str  # logit or number

    @property
    def title(self) -> str:
        return f"evidence: sums to the {self.what}"

    @property
    def sentence(self) -> str:
        return SUMS.format(bias=self.bias, total=self.bias + float(self.values.sum()))


@torch.no_grad()
def evidence_terms(model: Additive, out: Any, given: ModelInput) -> Terms:
    """The evidence for the likeliest class, or for the (first) number."""
    if given.number is not None:
        values, bias = model.evidence(**given.inputs)[..., 0].double(), float(model.bias[0])
        return Terms(values * given.number.scale, given.number.restore(bias), "number")
    best = int(tensor_of(out)[0].argmax())
    return Terms(model.evidence(**given.inputs)[..., best].double(), float(model.bias[best]), "logit")


def _evidence(model: Additive, out: Any, given: ModelInput, streams: Streams) -> dict[str, Any] | None:
    terms = evidence_terms(model, out, given)
    column = make_column(terms.title, terms.sentence, lambda: terms.values)
    if column is None:
        return None
    return {
        "view": "evidence",
        "stream": streams.find(terms.values.shape[1]),
        "thing": given.part,
        "answer": name_answer(tensor_of(out), given),
        "columns": [column | {"signed": True}],
        "note": None,
    }
