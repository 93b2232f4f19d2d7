"""What a recipe becomes once its data is read, and what a trained one answers. `Work` says what each module here offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from torch import Tensor, nn

from regard.data.batch import Batch, Source
from regard.recipes.find import Recipe
from regard.run import Run
from regard.training.task import Task

Note = Callable[[str, float | None], None]
SHOWN = 5  # labels of an answer that are printed


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the data is read with."""

    cache: Path  # where what was made of large data is kept
    note: Note | None = None  # told what is being prepared, and the share that is done
    old: Run | None = (
        None  # whose tokenizer and labels are taken: the run that goes on, or the one started from
    )
    given: Any = None  # data that is no path, as it came


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """A recipe with its data read: all that the trainer needs."""

    kind: str  # the model's name in the registry
    model: Any
    task: Task
    source: Source
    unit: str = "tokens"  # what is counted when speed is told
    about: dict[str, Any]  # what the data is, for people and for later commands; `corpus` in config.json
    keep: Callable[[Run], None] = field(
        default=lambda run: None
    )  # writes what later commands need beside the weights
    sample: Callable[[nn.Module], str] | None = None  # what the model does by now, in words
    notes: tuple[str, ...] = ()  # what the user should know about the data
    test: Callable[[], Iterable[Batch]] | None = (
        None  # a split that is looked at once, by the best weights, at the end
    )
    tested: int | None = (
        None  # of how many that is, where a part of the split is enough; None: of all that `about` counts
    )


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


class Work(Protocol):
    """What a module of jobs offers."""

    def prepared(self, recipe: Recipe, reading: Reading) -> Job:
        """Read the data, then make model, task and source to its measure."""
        ...

    def inputs(self, given: Sequence[str]) -> list[str]:
        """What is to be answered, one by one: a folder or a pattern may stand for many."""
        ...

    def predict(self, run: Run, given: Sequence[str]) -> Iterator[Answer]:
        """What the model of a run says of each input, as soon as it is known."""
        ...

    def then(self, run: Run) -> str:
        """What to type after a training."""
        ...


def work(name: str) -> Work:
    """The module that does the work of a recipe."""
    return cast(Work, import_module(f"{__package__}.{name}"))
