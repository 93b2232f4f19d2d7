"""A problem: what is learned from a kind of data, with the verbs of training and of using a run."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from torch import nn

from regard.data.array import Array
from regard.data.dialect import TableConfig
from regard.errors import RegardError
from regard.generation.writer import Writer
from regard.look.reader import Reader
from regard.recipes.answers import AMONG
from regard.recipes.evaluation import Evaluation, evaluate_finished, evaluate_split
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.same_data import check_same_data
from regard.recipes.settings import Settings, read_settings, settings_of_kind
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Task

Output = str | os.PathLike[str]


def generates_nothing(run: Run) -> RegardError:
    what = (
        f"is a classifier, trained on {run.config.recipe}:"
        if run.config.labels
        else f"was trained on {run.config.recipe}:"
    )
    return RegardError(f"{run.path} {what} its model generates nothing; use regard predict")


class Problem(ABC):
    """One thing to learn from a kind of data. Its `name` stands in config.json, so a run says what it has learned.

    `options` of `predict`, `evaluate` and `read_other` is an object of the class `options`, or None if there is none.
    """

    name: str
    config: Any  # the class of the data section of the settings
    train: ClassVar[Any] = TrainConfig  # the class of the section of the training
    options: ClassVar[type[Any] | None] = None  # of regard predict and evaluate, besides those of the data
    generate_options: ClassVar[type[Any] | None] = None  # of regard generate; None: it generates nothing
    reads_first: ClassVar[bool] = True  # is the data read before the defaults, which may depend on it?

    def settings_class(self, kind: str) -> type[Settings]:
        """The class of the settings for a kind of model."""
        return settings_of_kind(kind, self.config, self.train)

    # ── training

    def read(self, config: Any, given: Any = None) -> Examples | None:
        """The data, read once and before the defaults, which may depend on it. None: `prepare` reads it. given: data that
        is not a path"""
        return None

    @abstractmethod
    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        """The data, ready for training: a task, a source and a model config that fits. kind: of model"""

    @abstractmethod
    def describe(self, job: Job) -> str:
        """The data in one line: its name and its numbers."""

    def next_command(self, run: Run) -> str:
        """The command to type after training: predictions for the same file, or a look at data that is in none."""
        path = run.section(self.config, "data").path
        return f"regard look {run.quoted}" if path is None else f"regard predict {run.quoted} {shlex.quote(path)}"

    def finish(self, run: Run, job: Job, model: nn.Module) -> None:
        """Write files of this kind of data at the end of a training, before the report. A run is not lost over them."""
        return

    # ── using a run

    def load(self, run: Run) -> nn.Module:
        """The model of a run, ready for use."""
        return load_model(run)

    @abstractmethod
    def predict(self, run: Run, inputs: Sequence[Any], options: Any = None) -> Iterator[Prediction]:
        """The prediction for each input, or the reason why there is none, as soon as it is ready."""

    def evaluate(self, run: Run, data: Any, context: DataContext, options: Any = None) -> Evaluation:
        """Measures on the test split (the validation split without one), or on other data."""
        model = self.load(run)
        if data is not None:
            task, split, labels = self.read_other(run, data, context, options)
            return evaluate_split(model, task, split, labels)
        job = self.prepare_again(run, context, options)
        return evaluate_finished(model, job, job.best_split)

    def settings_of(self, run: Run, options: Any = None) -> Settings:
        """The settings of a run, changed as the options of a command say."""
        return read_settings(self.settings_class(str(run.config.kind)), run)

    def prepare_again(self, run: Run, context: DataContext, options: Any = None) -> Job:
        """The data of a run, if it is still the same."""
        job = self.prepare(self.settings_of(run, options), str(run.config.kind), context)
        check_same_data(run, job, "Give the data to evaluate on with --data")
        return job

    @abstractmethod
    def read_other(
        self, run: Run, data: Any, context: DataContext, options: Any = None
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        """Other data, read as the run reads its own: the task, the split, and the classes."""

    def check_output(self, run: Run, inputs: Sequence[Any], out: Output) -> None:
        """Raise a ValueError if `draw` cannot draw these inputs, or not to `out`; before any work."""
        raise RegardError(
            f"--out must be a table ({AMONG}), got {os.fspath(out)!r}; {run.path} was trained on {run.config.recipe}, "
            "for which no pictures are drawn"
        )

    def draw(
        self, run: Run, inputs: Sequence[Any], predictions: Iterator[Prediction], out: Output
    ) -> Iterator[Prediction]:
        """Draw each input with its prediction."""
        return predictions

    def embed(
        self, run: Run, inputs: Sequence[str], column: str | None, tables: TableConfig, note: Callable[[str], None]
    ) -> tuple[list[str], Array]:
        """The name of each input, and a vector for each.   n d      column: of a table, where the inputs are; tables:
        how tables are read; note: is told how each was"""
        raise RegardError(f"{run.path} was trained on {run.config.recipe}, for which there are no embeddings")

    @abstractmethod
    def reader(self, run: Run, model: nn.Module) -> Reader:
        """What reads inputs for look, and names the views that show them."""

    # ── writing

    def generate(self, run: Run, options: Any, note: Callable[[str], None]) -> Iterator[str]:
        """What the model generates, piece by piece. `note` gets what the user should know."""
        raise generates_nothing(run)

    def load_to_write(self, run: Run, weights: str, note: Callable[[str], None]) -> Any:
        """The model of a run with weights of a kind (see docs/generation.md), for writing text only."""
        if weights not in ("auto", "float32"):
            raise RegardError(f"weights={weights} is for models that write text, got a run of {run.config.recipe}")
        return self.load(run)

    def open_writer(self, run: Run, weights: str, note: Callable[[str], None]) -> Writer:
        """What writes texts as a run does: for many of them at once, and for a server. weights: as in `load_to_write`"""
        raise RegardError(f"{run.path} was trained on {run.config.recipe}, which writes no text")
