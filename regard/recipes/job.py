"""A job: settings and data, all that training needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from regard import registry
from regard.data.batch import Batch, Source
from regard.data.progress import Note
from regard.models.memory import TO_TRAIN, build_within_memory
from regard.runs.run import Run
from regard.training.tasks import Task


@dataclass(frozen=True, kw_only=True)
class DataContext:
    """What a recipe needs to read data, besides its settings."""

    cache: Path  # folder of prepared data
    note: Note | None = None  # called with the current work, and the share that is done
    old: Run | None = None  # the run whose tokenizer is used: it is resumed, evaluated, or started from
    given: Any = None  # data that is not a path


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Examples to evaluate a model on."""

    name: str  # test, validation, or the path of other data
    count: int | None  # number of examples; None: unknown until they are counted
    unit: str  # what is counted: rows, images, nodes
    batches: Callable[[], Iterable[Batch]]
    notes: tuple[str, ...] = ()  # what a reader of the measures should know: files that were left out


def _keep_nothing(run: Run) -> None:
    """Most kinds need nothing beside the weights."""


def _fill_nothing(model: nn.Module) -> None:
    """Most models need nothing beside their config."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """Settings and data, ready for training."""

    kind: str  # the model's name in the registry
    model: Any  # its config, which fits the data
    task: Task
    source: Source
    # a summary of the data, a dataclass of the recipe; `corpus` in config.json
    info: Any
    unit: str = "tokens"  # the unit of the speed that training prints
    examples: str = "examples"  # the unit of the examples in an evaluation
    labels: tuple[str, ...] | None = None  # class names of a classifier
    # writes the files that later commands need beside the weights
    keep: Callable[[Run], None] = field(default=_keep_nothing)
    # puts what a new model must know of the data, beside its config, into its buffers
    fill: Callable[[nn.Module], None] = field(default=_fill_nothing)
    sample: Callable[[nn.Module], str] | None = None  # a text sample of the model
    notes: tuple[str, ...] = ()  # what the user should know about the data
    validation: int | None = None  # number of examples in the validation split
    test: Split | None = None  # evaluated once, with the best weights, at the end
    own_splits: bool = False  # does the data say what is in which split, so that no share can be cut?

    def build(self) -> nn.Module:
        """A new model, to be trained."""
        make = registry.find("models", self.kind)
        model: nn.Module = build_within_memory(make, self.model, copies=TO_TRAIN)
        self.fill(model)
        return model

    @property
    def validation_split(self) -> Split:
        """The split by which the weights are chosen."""
        return Split(
            name="validation", count=self.validation, unit=self.examples, batches=self.source.validation
        )

    @property
    def best_split(self) -> Split:
        """The split for the evaluation of a finished model: the test split, or the validation split without
        one."""
        return self.test or self.validation_split
