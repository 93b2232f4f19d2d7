"""What a model says of one input, for people and for machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

SHOWN = 5  # labels that are printed


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model says of one input, or why it says nothing."""

    input: str  # a text, or the name of a file or of a part of it
    # of a classifier: probabilities, the likeliest first
    labels: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)  # of a regression, in the units of the data
    each: tuple[Prediction, ...] = ()  # of its parts: points, nodes, edges
    kind: Literal["text", "file"] | None = None  # what `input` is, where it could be either
    notes: tuple[str, ...] = ()  # what the user should know about the input
    picture: str | None = None  # a file that shows where the model looked
    error: str | None = None  # why there is no prediction: what is wrong with this input; others are answered

    @classmethod
    def of_classes(cls, input: str, shares: Tensor, labels: Sequence[str]) -> Prediction:
        """Probabilities of classes as a prediction.   classes"""
        order = shares.argsort(descending=True).tolist()
        found = {labels[i]: share for i, share in zip(order, shares[order].tolist(), strict=True)}
        return cls(input=input, labels=found)

    def to_json(self) -> dict[str, Any]:
        """For machines; what is empty is left out."""
        found: dict[str, Any] = {"labels": self.labels, "values": self.values}
        found |= {"each": [part.to_json() for part in self.each], "kind": self.kind}
        found |= {"notes": list(self.notes), "picture": self.picture, "error": self.error}
        return {"input": self.input} | {name: value for name, value in found.items() if value}

    def format(self) -> str:
        """One line, and one more for each part; why there is no prediction, if there is none."""
        if self.error is not None:
            return self.error
        shares = [f"{label} {share:.1%}" for label, share in list(self.labels.items())[:SHOWN]]
        numbers = [f"{name} {value:.6g}" for name, value in self.values.items()]
        line = "   ".join(part for part in ("  ".join([*shares, *numbers]), self.input) if part)
        return "\n".join([line, *(f"  {part.format()}" for part in self.each)])


def predict_each(
    inputs: Iterable[str], predict: Callable[[str], Iterable[Prediction]]
) -> Iterator[Prediction]:
    """What is said of each input. One that cannot be read has an error instead, and the others are
    answered."""
    for each in inputs:
        try:
            found = list(predict(each))
        except (ValueError, OSError) as error:
            found = [Prediction(input=each, error=str(error))]
        yield from found
