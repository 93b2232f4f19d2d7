"""A job: settings with their data read. All that the trainer needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from regard import registry
from regard.data.batch import Batch, Source
from regard.data.progress import Note
from regard.runs.run import Run
from regard.training.tasks import Task


@dataclass(frozen=True, kw_only=True)
class DataContext:
    """What the data is read with."""

    cache: Path  # where what was made of large data is kept
    note: Note | None = None  # told what is being prepared, and the share that is done
    old: Run | None = None  # whose tokenizer is taken: the run that goes on, is evaluated, or is started from
    given: Any = None  # data that is no path, as it came


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Examples to measure a model by."""

    name: str  # test, validation, or the path of other data
    count: int | None  # of how many it is; None: it is not known before they are counted
    unit: str  # of what: rows, images, nodes
    batches: Callable[[], Iterable[Batch]]


def _keep_nothing(run: Run) -> None:
    """Most kinds need nothing beside the weights."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """Settings with their data read."""

    kind: str  # the model's name in the registry
    model: Any  # its configuration, to the measure of the data
    task: Task
    source: Source
    # what the data is, for people and for later commands: a dataclass of the kind; `corpus` in config.json
    info: Any
    unit: str = "tokens"  # what is counted when speed is told
    examples: str = "examples"  # what is counted when it is evaluated
    labels: tuple[str, ...] | None = None  # of a classifier: what its classes are called
    # writes what later commands need beside the weights
    keep: Callable[[Run], None] = field(default=_keep_nothing)
    sample: Callable[[nn.Module], str] | None = None  # what the model does by now, in words
    notes: tuple[str, ...] = ()  # what the user should know about the data
    validation: int | None = None  # of how many the validation split is
    test: Split | None = None  # a split that is looked at once, by the best weights, at the end

    def build(self) -> nn.Module:
        """A new model."""
        model: nn.Module = registry.find("models", self.kind)(self.model)
        return model

    @property
    def best_split(self) -> Split:
        """What a finished model is measured by: the test split, or the validation split without one."""
        return self.test or Split(
            name="validation", count=self.validation, unit=self.examples, batches=self.source.validation
        )
