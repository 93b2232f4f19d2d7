"""Evidence of an additive model: what each part of an input adds to its prediction, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.data.targets import Numbers
from regard.models.additive import Additive

STRONGEST = 6  # parts that are printed


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """bias + the sum over all parts = total: the logit of a class, or the predicted number."""

    of: str  # the class or the number
    bias: float
    total: float
    parts: tuple[tuple[str, float], ...]  # a token or element and its evidence, in the order of the input

    def to_json(self) -> dict[str, Any]:
        return {"of": self.of, "bias": self.bias, "parts": [list(each) for each in self.parts], "total": self.total}

    def format(self) -> str:
        """evidence for good: great +1.20, dull -0.80, 3 others +0.10, bias +0.02: logit 0.52"""
        order = sorted(range(len(self.parts)), key=lambda i: -abs(self.parts[i][1]))
        shown = [self.parts[i] for i in order[:STRONGEST]]
        rest = [self.parts[i][1] for i in order[STRONGEST:]]
        said = [f"{name.strip() or repr(name)} {value:+.3g}" for name, value in shown]
        if rest:
            said.append(f"{len(rest):,} others {sum(rest):+.3g}")
        return f"evidence for {self.of}: {', '.join(said)}, bias {self.bias:+.3g}; sum {self.total:.4g}"


def evidence_of(
    model: nn.Module,
    x: Tensor,
    names: Sequence[str],
    labels: Sequence[str],
    numbers: Sequence[Numbers] = (),
    **more: Tensor,
) -> Evidence | None:
    """The evidence for the likeliest class, or for the first number in its own units; None: the model is not
    additive.   x: 1 n ...; more: other inputs of the model"""
    if not isinstance(model, Additive):
        return None
    return sum_evidence(model.evidence(x, **more)[0], model.bias, names, labels, numbers)


def sum_evidence(
    each: Tensor, bias: Tensor, names: Sequence[str], labels: Sequence[str], numbers: Sequence[Numbers] = ()
) -> Evidence:
    """What parts add to the outputs, as evidence for the likeliest class, or for the first number in its own units.
    n outputs, outputs"""
    found, offset = each.double(), bias.double()
    if numbers:
        one = numbers[0]
        parts, start, of = found[:, 0] * one.scale, one.restore(float(offset[0])), one.name
    else:
        best = int((found.sum(0) + offset).argmax())
        parts, start, of = found[:, best], float(offset[best]), labels[best]
    pairs = tuple(zip(names, parts.tolist(), strict=True))
    return Evidence(of=of, bias=start, total=start + float(parts.sum()), parts=pairs)
