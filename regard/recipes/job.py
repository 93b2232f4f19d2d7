"""What a recipe becomes once its data is read, and what a trained one answers. `Work` says what each module here offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

from torch import nn

from regard.data.batch import Batch, Source
from regard.recipes.base import Recipe
from regard.recipes.prediction import Answer
from regard.runs.run import Run
from regard.training.tasks import Task

Note = Callable[[str, float | None], None]


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
    job, predicting = (import_module(f"{__package__}.{name}.{part}") for part in ("job", "predict"))
    found = SimpleNamespace(
        prepared=job.prepared, then=job.then, inputs=predicting.inputs, predict=predicting.predict
    )
    return cast(Work, found)
