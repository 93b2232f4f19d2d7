"""A job: settings and data, all that training needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from regard import registry
from regard.data.array import Array
from regard.data.batch import Batch, Source
from regard.data.progress import Note
from regard.data.targets import Numbers
from regard.models.memory_estimate import TO_TRAIN, build_within_memory
from regard.recipes.prediction import Prediction
from regard.runs.run import Run
from regard.training.step import Stepper
from regard.training.tasks import Task


@dataclass(frozen=True, kw_only=True)
class DataContext:
    """What a recipe needs to read data, besides its settings."""

    cache: Path  # folder of prepared data
    note: Note | None = None  # called with the current work, and the share that is done
    old: Run | None = None  # the run whose tokenizer is used: it is resumed, evaluated, or started from
    given: Any = None  # data that is not a path
    examples: Any = None  # what was read of the data already, an Examples; None: it is to be read


@dataclass(frozen=True, kw_only=True)
class ShownExample:
    """An example of the data as a person reads it."""

    name: str  # row 17, photo.png, node 1358
    text: str | None = None
    picture: str | None = None  # a data URL
    elements: tuple[tuple[float, ...], ...] | None = None  # of a set


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Examples to evaluate a model on."""

    name: str  # test, validation, or the path of other data
    count: int | None  # number of examples; None: unknown until they are counted
    unit: str  # what is counted: rows, images, nodes
    batches: Callable[[], Iterable[Batch]]
    notes: tuple[str, ...] = ()  # what a reader of the measures should know: files that were left out
    # which example of the data each one is, in the order of the batches; None: they have no numbers
    rows: Callable[[], Array] | None = None
    # an example by its place in that order; None: they cannot be shown one by one
    show: Callable[[int], ShownExample] | None = None
    # the prediction for each example, in the order of the data; None: there are none of single examples
    predict: Callable[[nn.Module], Iterator[Prediction]] | None = None


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
    problem: str | None = None  # what is learned, by its name in the recipe
    processor: Any = None  # what reads the data, a Processor: the section of this name in config.json
    counts: Mapping[str, int] = field(default_factory=dict)  # examples of each split, and what else was counted
    source_name: str | None = None  # where the data is from, as a person calls it
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
    rows: Callable[[str], Array] | None = None  # of the split of this name, as `Split.rows`
    show: Callable[[str, int], ShownExample] | None = None  # of the split of this name, as `Split.show`
    predict: Callable[[str, nn.Module], Iterator[Prediction]] | None = None  # of the split, as `Split.predict`
    number: Numbers | None = None  # what is predicted, if it is one number
    own_splits: bool = False  # does the data say what is in which split, so that no share can be cut?
    # evaluates finished weights on a split by more than the measures of the task; None: these are all. It
    # returns an Evaluation
    evaluate: Callable[[nn.Module, Split], Any] | None = None
    # makes what does a step of the training, from model, task, source and settings
    stepper: Callable[[nn.Module, Task, Any, Any], Stepper] = Stepper
    # draws pictures of its own into the run, at its end
    draw: Callable[[Run, nn.Module], None] | None = None

    @property
    def summary(self) -> dict[str, Any]:
        """What config.json says of the data: later commands read as the training did, and see whether it changed."""
        return {"processor": self.processor.store(), "counts": dict(self.counts)}

    def build(self) -> nn.Module:
        """A new model, to be trained."""
        make = registry.find("models", self.kind)
        model: nn.Module = build_within_memory(make, self.model, copies=TO_TRAIN)
        self.fill(model)
        return model

    @property
    def validation_split(self) -> Split:
        """The split by which the weights are chosen."""
        return self._numbered(
            Split(name="validation", count=self.validation, unit=self.examples, batches=self.source.validation)
        )

    @property
    def best_split(self) -> Split:
        """The split for the evaluation of a finished model: the test split, or the validation split without
        one."""
        return self.validation_split if self.test is None else self._numbered(self.test)

    def _numbered(self, found: Split) -> Split:
        """A split whose examples can be told apart, and shown."""
        return replace(
            found,
            rows=None if self.rows is None else partial(self.rows, found.name),
            show=None if self.show is None else partial(self.show, found.name),
            predict=None if self.predict is None else partial(self.predict, found.name),
        )
