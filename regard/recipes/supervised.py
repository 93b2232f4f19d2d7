"""Supervised learning, the same for every kind of data: classes or numbers of examples, or of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from regard.config import Amount, Rare, Share, config
from regard.data.array import Array
from regard.data.splits import SplitConfig, check_splits
from regard.errors import RegardError
from regard.look.reader import Control, Reader
from regard.look.view import View
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.evaluate import read_other
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.predict import predict
from regard.recipes.prediction import Prediction
from regard.recipes.prepare import prepare
from regard.recipes.problem import Problem
from regard.recipes.processor import Processor
from regard.recipes.same_data import note_on_trained, read_trained
from regard.recipes.settings import Settings
from regard.recipes.supervised_reader import SupervisedReader
from regard.recipes.target import Asks, Target
from regard.recipes.task import SupervisedTask
from regard.runs.run import Run
from regard.training.tasks import Task


@config
class SupervisedConfig(SplitConfig):
    """Which data to learn from, and what is predicted: the part of the data settings that all kinds share."""

    unit: ClassVar[str] = "examples"  # what is counted
    paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str | None = None
    # what targets are; auto: numbers if some have a fraction, or if they are over ten whole numbers with gaps;
    # several: any number of classes in one cell, with ; between them
    asks: Asks = "auto"
    # of the classes in the loss: auto: each class counts as much as another, however many examples it has; or one number
    # for each class, in their order, as 1,5
    class_weights: Literal["auto"] | tuple[Amount, ...] | None = None
    smoothing: Rare[Share] = 0.0  # the share of each label that is given to all classes alike

    def __post_init__(self) -> None:
        check_splits(self, self.unit)


@config
class FilesConfig(SupervisedConfig):
    """The same where each example is a file."""

    damaged: Literal["skip", "stop"] = "skip"  # what to do with files that cannot be read; they are named


@dataclass(frozen=True, kw_only=True)
class Supervised(Problem):
    """What a kind of data needs for it: a processor, and its config. `open` gives the processor of a run."""

    name: str = "supervised"  # in config.json
    processor: type[Processor[Any, Any]]
    config: type[SupervisedConfig]  # the data section of the settings
    unit: str  # what is counted: sets, images
    speed: str | None = None  # what the speed is told in; None: in parts of an example, such as points
    views: tuple[View, ...] = ()  # of look
    controls: tuple[Control, ...] = ()

    # ── training

    def read(self, config: SupervisedConfig, given: Any = None) -> Examples:
        """The data to learn from. given: data that is not a path"""
        data = config.path if given is None else given
        return self.processor(config).read(data, want="learn")

    def unit_of(self, processor: Processor[Any, Any], examples: Examples) -> str:
        """What is counted of these examples: sets, or nodes if a graph is learned from some of them."""
        return self.unit if processor.batches_of(examples) == "examples" else f"{examples.part}s"

    def find_target(self, examples: Examples, config: SupervisedConfig) -> Target | None:
        """What is predicted. None: nothing that the data says."""
        if examples.target is not None:
            return examples.target
        if examples.cells is None:
            raise RegardError(f"{examples.what} has no targets to train on; name their column")
        return Target.infer(
            examples.cells,
            what=examples.what,
            names=examples.target_names,
            asks=config.asks,
            each=None if examples.starts is None else examples.part,
            place=examples.places,
        )

    def make_task(self, processor: Processor[Any, Any], codes: Array) -> Task:
        """The task. codes: the targets of the train split"""
        config = processor.config
        weights = None if config.class_weights is None else processor.target.weigh(config.class_weights, codes)
        return SupervisedTask(processor, config.smoothing, weights)

    def inherit(self, start: Run | None, config: Any) -> Processor[Any, Any] | None:
        """The processor of the run to start from, if that run has one of this kind. config: of the data, which may
        contradict it"""
        if start is None or start.config.processor is None:
            return None
        try:
            return self.open(start)
        except (ValueError, OSError):  # of another kind of data
            return None

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        """Read the data, then make the task, the source and a model config that fits it. kind: of model"""
        return prepare(self, settings, kind, context)

    def describe(self, job: Job) -> str:
        """The data in one line: its name and its numbers."""
        target: Target | None = job.processor.target
        names = {"train", "validation", "test"}
        counts = [format_count(count, name) for name, count in job.counts.items() if name not in names]
        splits = format_splits(**{name: job.counts.get(name) for name in names})
        asked = None
        if target is not None and target.classes:
            asked = format_count(len(target.classes), "classes")
        elif target is not None:
            asked = f"to predict: {', '.join(each.name for each in target.numbers)}"
        return describe_data(job.source_name, *counts, splits, job.processor.describe(), asked)

    # ── a run

    def open(self, run: Run) -> Processor[Any, Any]:
        """The processor of a run. It reads as in training, but for options of the data that were given anew."""
        return self.processor(run.section(self.config, "data")).restore(run)

    def predict(self, run: Run, inputs: Sequence[Any], options: Any = None) -> Iterator[Prediction]:
        """A prediction for each example in the inputs, or the reason why there is none."""
        processor = self.open(run)
        read = cache(lambda given: read_trained(self, run, processor, given))

        def explain(given: Any, examples: Examples) -> tuple[str, ...]:
            trained = read(given)(examples) if isinstance(given, str) else None
            return note_on_trained(trained, self.unit_of(processor, examples))

        return predict(self, run, inputs, explain)

    def decode(self, processor: Processor[Any, Any], name: str, out: Tensor, cell: Any) -> Prediction:
        """The output for one example as a prediction."""
        return processor.target.decode(name, out, cell)

    def read_other(
        self, run: Run, data: Any, context: DataContext, options: Any = None
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        """Other data with targets: the task, its examples as one split, and the classes."""
        return read_other(self, run, data, context)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        """What reads inputs for look."""
        return SupervisedReader(self, run, model)
