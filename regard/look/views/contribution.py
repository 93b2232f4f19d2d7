"""What each input contributes to the prediction, beside what is attended to. The two are not the same, and
the view says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.look import contribution as ways
from regard.look import measure
from regard.look.colours import FAINT
from regard.look.contribution import tensor_of
from regard.look.encode_arrays import round_digits
from regard.look.model_input import ModelInput
from regard.look.recording.entry import Entry
from regard.look.token_streams import Streams
from regard.look.view import View
from regard.models.additive import Additive

if TYPE_CHECKING:
    from regard.look.scene import Scene


PATIENCE = 8.0  # seconds that leaving out one token after the other may take
FAILURES = (ValueError, RuntimeError, TypeError, IndexError)  # of models that cannot be asked so

LEFT_OUT = "how much the predicted {} drops when this {} is {}"
STEEP = (
    "how steeply the predicted {} rises along this {}, times the {} itself; drawn at its own scale: the "
    "largest has full colour, however small it is"
)
STANDARDISED = "number, in standard deviations,"  # what a regression predicts
TOO_LONG = "Leaving out one {} after the other would take about {:.0f} seconds here, so it was not done."
CANNOT = "Leaving out one {} after the other cannot be done here."
SUMS = "with the bias {bias:.4g} it makes {total:.4g}, and nothing else counts"


class ContributionView(View):
    """What matters to the prediction, of inputs that can be taken apart."""

    name, order = "contribution", 40

    def build(self, scene: Scene) -> dict[str, Any] | None:
        if isinstance(scene.model, Additive):  # nothing is to be asked by leaving out: the prediction is a sum
            return None
        return contribution(scene.model, scene.answer, scene.given, scene.seen, scene.streams)


def contribution(
    model: nn.Module, out: Any, given: ModelInput, seen: Sequence[Entry], streams: Streams
) -> dict[str, Any] | None:
    """The view, or None for a model without a prediction to explain.

    out  the prediction: what the model returns, or what it says after several looks
    """
    logits = getattr(out, "logits", out)
    known = given.answers in ("next", "classes", "numbers")
    explained = known and isinstance(logits, Tensor) and logits.dim() in (2, 3)
    parts = given.parts(model) if explained else None
    if parts is None:
        return None
    closed, x, fill = parts.model, parts.x, parts.fill
    asked = ways.Largest()
    if logits.dim() == 2:
        asked.chosen = logits.argmax(-1)  # of several looks together, perhaps not what each of them says
    what = STANDARDISED if given.answers == "numbers" else "logit"
    wait = seconds(closed, x, fill)
    columns = [
        make_column(
            "gradient × input",
            STEEP.format(what, parts.name, parts.name),
            lambda: ways.gradient_times_input(closed, x, read=asked),
        ),
        make_column(
            "leave one out",
            LEFT_OUT.format(what, parts.name, parts.gone),
            lambda: left_out(closed, x, fill, asked, wait),
            FAINT,
        ),
        make_column(
            "attention received",
            "the mean weight it gets from all queries, in all layers and heads",
            lambda: _attention_received_by(seen, x),
        ),
    ]
    shown = [each for each in columns if each is not None]
    if not shown:
        return None
    note = why_not(parts.name, wait) if columns[1] is None else None
    told = {
        "stream": streams.find(x.shape[1]),
        "thing": parts.name,
        "answer": name_answer(logits, given),
        "columns": shown,
        "note": note,
    }
    return {"view": "contribution", **told}


def name_answer(logits: Tensor, given: ModelInput) -> str:
    """What is explained, in words."""
    last = logits[0, -1] if logits.dim() == 3 else logits[0]
    if given.number is not None:
        return f"{given.number.format(float(last[0]))}, the prediction of the whole"
    best = int(last.argmax())
    called = repr(given.called(best)) if given.called is not None else str(best)
    share = float(last.detach().float().softmax(-1)[best])
    after = "after the last token" if logits.dim() == 3 else "of the whole"
    return f"{called}, the most likely prediction {after} (probability {share:.3g})"


def make_column(
    name: str, sentence: str, values: Callable[[], Tensor | None], faint: float = 0.0
) -> dict[str, Any] | None:
    """One way of asking, or None where it does not apply to this model.
    faint: numbers that stay below it look so"""
    try:
        found = values()
    except FAILURES:
        return None
    if found is None or not found.isfinite().all():
        return None
    shown = {"values": round_digits(found[0].detach().float()), "signed": bool((found < 0).any()), "faint": faint}
    return {"name": name, "sentence": sentence, **shown}


def left_out(
    model: nn.Module, x: Tensor, fill: float | None, read: ways.Read | None = None, wait: float | None = None
) -> Tensor | None:
    """Leave one out, if it can be done in the time that a reader waits."""
    if wait is None:
        wait = seconds(model, x, fill)
    if wait is None or wait > PATIENCE:
        return None
    return ways.leave_one_out(model, x, read=read, fill=fill)


def why_not(thing: str, wait: float | None) -> str:
    """Why one thing after the other was not left out, if it would take so many seconds."""
    if wait is None or wait <= PATIENCE:
        return CANNOT.format(thing)
    return TOO_LONG.format(thing, wait)


def seconds(model: nn.Module, x: Tensor, fill: float | None) -> float | None:
    """About how long leaving one out takes; None: it cannot be done."""
    n = x.shape[1]
    if n < 2 and fill is None:
        return None
    rows = min(n, ways.TOGETHER)
    calls = -(-n // rows)
    try:
        # the first one may find the machine asleep
        one = min(seconds_of_call(model, x), seconds_of_call(model, x))
        # short however rows are asked, or too long even if more cost nothing
        if n * one <= PATIENCE or calls * one > PATIENCE:
            return n * one
        return calls * seconds_of_call(model, x.repeat_interleave(rows, 0))
    except FAILURES:
        return None


@torch.no_grad()
def seconds_of_call(model: nn.Module, x: Tensor) -> float:
    began = time.perf_counter()
    model(x)
    return time.perf_counter() - began


def _attention_received_by(seen: Sequence[Entry], x: Tensor) -> Tensor | None:
    """Mean attention that each token receives, over layers and heads in which it is a key.   -> 1 n"""
    n = x.shape[1]
    found = []
    for entry in seen:
        if entry.kind == "self" and entry.proved and entry.shape[0] == 1 and n <= entry.shape[3] <= n + 16:
            found.append(measure.attention_received(entry)[:, :, -n:].mean(1))
    if found:
        return torch.stack(found).mean(0)
    return None


# ── the evidence of an additive model: what each token or element adds to the prediction, exactly


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
