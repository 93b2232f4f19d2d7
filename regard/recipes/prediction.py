"""The prediction of a model for one input, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from torch import Tensor

from regard.errors import RegardError
from regard.recipes.evidence import Evidence
from regard.runs.number_format import say_number, say_percent

SHOWN = 5  # labels that are printed
DIGITS = 6  # of a number that is predicted
LONGEST = 80  # characters of a text of a table that are printed


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The prediction for one input, or the reason why there is none."""

    shows: ClassVar[str] = "where it looked"  # what `picture` shows

    input: str  # a text, or the name of a file or of a part of it
    # classification: probabilities, the highest first
    labels: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)  # regression: numbers in the units of the data
    each: tuple[Prediction, ...] = ()  # predictions for its parts: points, nodes, edges
    kind: Literal["text", "file"] | None = None  # what `input` is, where it could be either
    notes: tuple[str, ...] = ()  # what the user should know about the input
    evidence: Evidence | None = None  # additive models: what each part adds to the prediction
    picture: str | None = None  # a file that was drawn, see `shows`
    # where it comes from a table: the table, and the cells of its row (of a set or a node: what identifies it)
    source: str | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    truth: str | float | None = None  # the label or the number that the data has for it
    error: str | None = None  # why there is no prediction for this input; other inputs still get theirs

    @classmethod
    def of_classes(cls, input: str, shares: Tensor, labels: Sequence[str]) -> Prediction:
        """Probabilities of classes as a prediction.   classes"""
        if len(shares) != len(labels):
            raise RegardError(
                f"the model knows {len(shares):,} classes, and {len(labels):,} have a name in config.json of the run"
            )
        order = shares.argsort(descending=True).tolist()
        found = {labels[i]: share for i, share in zip(order, shares[order].tolist(), strict=True)}
        return cls(input=input, labels=found)

    @property
    def answer(self) -> str | float | None:
        """The likeliest class, or the number if there is one."""
        if self.labels:
            return next(iter(self.labels))
        if len(self.values) == 1:
            return next(iter(self.values.values()))
        return None

    @property
    def right(self) -> bool | None:
        """Is the likeliest class the true one? None: unknown, or the answer is a number"""
        return None if self.truth is None or not self.labels else self.answer == self.truth

    def without_nan(self) -> Prediction:
        """The same, or an error in its place if a number of it is NaN or infinite."""
        parts = [part.without_nan() for part in self.each]
        wrong = [name for name, value in {**self.labels, **self.values}.items() if not math.isfinite(value)]
        wrong += [f"{part.input}: {part.error}" for part in parts if part.error is not None]
        if self.error is not None or not wrong:
            return self
        reason = (
            f"the prediction for {self.input[:80]} is not a number ({wrong[0]}): the numbers of the input "
            "are too large, or the weights are damaged"
        )
        return replace(self, labels={}, values={}, each=(), error=reason)

    def to_json(self) -> dict[str, Any]:
        """As JSON, without empty values."""
        found: dict[str, Any] = {"labels": self.labels, "values": self.values}
        found |= {"each": [part.to_json() for part in self.each], "kind": self.kind}
        found |= {"notes": list(self.notes), "picture": self.picture, "error": self.error}
        found |= {"source": self.source, "row": dict(self.row)}
        found["evidence"] = None if self.evidence is None else self.evidence.to_json()
        kept = {name: value for name, value in found.items() if value}
        return {"input": self.input} | kept | ({} if self.truth is None else {"truth": self.truth})

    def format(self) -> str:
        """One line, and one more for each part; why there is no prediction, if there is none."""
        if self.error is not None:
            return self.error
        shares = [f"{label} {say_percent(share)}" for label, share in list(self.labels.items())[:SHOWN]]
        numbers = [f"{name} {say_number(value, DIGITS)}" for name, value in self.values.items()]
        line = "   ".join(part for part in ("  ".join([*shares, *numbers]), self._judge(), self._name()) if part)
        reasons = [] if self.evidence is None else [f"  {self.evidence.format()}"]
        return "\n".join([line, *reasons, *(f"  {part.format()}" for part in self.each)])

    def _name(self) -> str:
        """The input; a text of a table, which may have many lines, in a part of one."""
        if self.source is None or self.kind is None:
            return self.input
        words = " ".join(self.input.split())
        if len(words) <= LONGEST:
            return words
        return words[: LONGEST - 1] + "…"

    def _judge(self) -> str:
        """right, wrong (it is good), target 35.2; nothing if the truth is unknown"""
        if self.truth is None:
            return ""
        if self.right is None:
            return (
                f"target {say_number(self.truth, DIGITS)}" if isinstance(self.truth, float) else f"target {self.truth}"
            )
        return "right" if self.right else f"wrong (it is {self.truth})"


def predict_each(inputs: Iterable[str], predict: Callable[[str], Iterable[Prediction]]) -> Iterator[Prediction]:
    """Predictions for each input. An input that cannot be read gets an error, and the others their
    predictions."""
    for each in inputs:
        try:
            found = list(predict(each))
        except (ValueError, OSError) as error:
            found = [Prediction(input=each, error=str(error))]
        for prediction in found:
            yield prediction.without_nan()
