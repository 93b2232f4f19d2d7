"""The prediction of a model for one input, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from regard.errors import RegardError
from regard.recipes.evidence import Evidence

SHOWN = 5  # labels that are printed


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The prediction for one input, or the reason why there is none."""

    input: str  # a text, or the name of a file or of a part of it
    # classification: probabilities, the highest first
    labels: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)  # regression: numbers in the units of the data
    each: tuple[Prediction, ...] = ()  # predictions for its parts: points, nodes, edges
    kind: Literal["text", "file"] | None = None  # what `input` is, where it could be either
    notes: tuple[str, ...] = ()  # what the user should know about the input
    evidence: Evidence | None = None  # additive models: what each part adds to the prediction
    picture: str | None = None  # a file that shows where the model looked
    error: str | None = None  # why there is no prediction for this input; other inputs still get theirs

    @classmethod
    def of_classes(cls, input: str, shares: Tensor, labels: Sequence[str]) -> Prediction:
        """Probabilities of classes as a prediction.   classes"""
        if len(shares) != len(labels):
            raise RegardError(
                f"the model knows {len(shares):,} classes, and {len(labels):,} have a name in config.json "
                "of the run"
            )
        order = shares.argsort(descending=True).tolist()
        found = {labels[i]: share for i, share in zip(order, shares[order].tolist(), strict=True)}
        return cls(input=input, labels=found)

    def without_nan(self) -> Prediction:
        """The same, or an error in its place if a number of it is NaN or infinite."""
        parts = [part.without_nan() for part in self.each]
        wrong = [name for name, value in {**self.labels, **self.values}.items() if not math.isfinite(value)]
        wrong += [f"{part.input}: {part.error}" for part in parts if part.error is not None]
        if self.error is not None or not wrong:
            return self
        reason = (
            f"the prediction for {self.input[:80]} is not a number ({wrong[0]}): the numbers of the input "
            "are too "
            "large, or the weights are damaged"
        )
        return Prediction(
            input=self.input, kind=self.kind, notes=self.notes, picture=self.picture, error=reason
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON, without empty values."""
        found: dict[str, Any] = {"labels": self.labels, "values": self.values}
        found |= {"each": [part.to_json() for part in self.each], "kind": self.kind}
        found |= {"notes": list(self.notes), "picture": self.picture, "error": self.error}
        found["evidence"] = None if self.evidence is None else self.evidence.to_json()
        return {"input": self.input} | {name: value for name, value in found.items() if value}

    def format(self) -> str:
        """One line, and one more for each part; why there is no prediction, if there is none."""
        if self.error is not None:
            return self.error
        shares = [f"{label} {share:.1%}" for label, share in list(self.labels.items())[:SHOWN]]
        numbers = [f"{name} {value:.6g}" for name, value in self.values.items()]
        line = "   ".join(part for part in ("  ".join([*shares, *numbers]), self.input) if part)
        reasons = [] if self.evidence is None else [f"  {self.evidence.format()}"]
        return "\n".join([line, *reasons, *(f"  {part.format()}" for part in self.each)])


def predict_each(
    inputs: Iterable[str], predict: Callable[[str], Iterable[Prediction]]
) -> Iterator[Prediction]:
    """Predictions for each input. An input that cannot be read gets an error, and the others their
    predictions."""
    for each in inputs:
        try:
            found = list(predict(each))
        except (ValueError, OSError) as error:
            found = [Prediction(input=each, error=str(error))]
        for prediction in found:
            yield prediction.without_nan()
