"""What a model says of one input, for people and for machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

SHOWN = 5  # labels of an answer that are printed


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a model says of one input."""

    given: str  # a text, or the name of a file or of a part of it
    labels: dict[str, float] = field(
        default_factory=dict
    )  # of a classifier: probabilities, the likeliest first
    values: dict[str, float] = field(default_factory=dict)  # of a regression, in the units of the data
    each: tuple[Answer, ...] = ()  # of its parts: points, nodes, edges
    kind: Literal["text", "file"] | None = None  # what `given` is, where it could be either
    notes: tuple[str, ...] = ()  # what the user should know about the input
    picture: str | None = None  # a file that shows where the model looked
    error: str | None = None  # why there is no answer: what is wrong with this input; others are answered

    @classmethod
    def of_classes(cls, given: str, shares: Tensor, labels: Sequence[str]) -> Answer:
        """Probabilities of classes as an answer.   classes"""
        order = shares.argsort(descending=True).tolist()
        return cls(
            given=given,
            labels={labels[i]: share for i, share in zip(order, shares[order].tolist(), strict=True)},
        )

    def to_json(self) -> dict[str, Any]:
        """For machines; what is empty is left out."""
        found: dict[str, Any] = {
            "labels": self.labels,
            "values": self.values,
            "each": [part.to_json() for part in self.each],
        }
        found |= {"kind": self.kind, "notes": list(self.notes), "picture": self.picture, "error": self.error}
        return {"input": self.given} | {name: value for name, value in found.items() if value}

    def say(self) -> str:
        """One line, and one more for each part; why there is no answer, if there is none."""
        if self.error is not None:
            return self.error
        shares = [f"{label} {share:.1%}" for label, share in list(self.labels.items())[:SHOWN]]
        numbers = [f"{name} {value:.6g}" for name, value in self.values.items()]
        line = "   ".join(part for part in ("  ".join([*shares, *numbers]), self.given) if part)
        return "\n".join([line, *(f"  {part.say()}" for part in self.each)])


def as_given(given: Sequence[str]) -> list[str]:
    """Inputs that stand for themselves."""
    return list(given)


def one_by_one(given: Iterable[str], answers: Callable[[str], Iterable[Answer]]) -> Iterator[Answer]:
    """What is said of each input. One that cannot be read has an error in place of an answer, and the others are answered."""
    for each in given:
        try:
            found = list(answers(each))
        except (ValueError, OSError) as error:
            found = [Answer(given=each, error=str(error))]
        yield from found
