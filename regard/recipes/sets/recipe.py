"""The recipe for sets."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from regard.data.point_clouds import find_clouds
from regard.look.reader import Reader
from regard.recipes.base import Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.processors import ForeignModel
from regard.recipes.sets.dataset import SetsConfig, SetsInfo
from regard.recipes.sets.defaults import KINDS, defaults
from regard.recipes.sets.foreign_reader import foreign_reader
from regard.recipes.sets.job import other_split, prepare_job
from regard.recipes.sets.predict import predict
from regard.recipes.sets.run_reader import run_reader
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task


class SetsRecipe(Recipe):
    """Sets: classes or numbers of sets or of their elements, and clusters of points."""

    name = "sets"
    title = "Sets: point clouds, tables in long form (one line per element), or synthetic tasks."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "point clouds, a folder per class; a long table; or synthetic: max, sum, statistics, clusters, solids",
        "--model KIND": "deepsets, pointnet, settransformer, additive (evidence of each element, which sums to\n"
        "                the logit), or mlp (baseline without permutation symmetry)",
    }
    examples = (
        "regard train sets",
        "regard train sets --data clouds --model pointnet",
        "regard train sets --data baskets.csv --data.id basket --data.target total",
    )
    models = tuple(KINDS)
    data_derived: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "model.features",
            "model.outputs",
            "model.size",
            "model.each",
            "model.usual",
            "model.contrast",
            "model.vocab",
            "model.context",
            "model.window",
            "model.bag",
        ),
        "",
    )
    not_inherited = frozenset({"features", "outputs", "size", "each", "seeds", "usual", "contrast"})
    reading_options = ("id", "target", "missing")

    def defaults(
        self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None
    ) -> Settings:
        return defaults(data, model)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return KINDS[str(config.kind)]

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        return prepare_job(settings, context)

    def describe(self, job: Job) -> str:
        info: SetsInfo = job.info
        classes = None
        if job.labels is not None:
            classes = format_count(len(job.labels), "classes")
        elif info.form.asks == "numbers":
            classes = f"to predict: {', '.join(info.form.answers)}"
        return describe_data(
            info.path or info.task, format_splits(info.train, info.validation, info.test), classes
        )

    def next_command(self, run: Run) -> str:
        path = run.section(SetsConfig, "data").path
        if path is None:  # synthetic sets are in no file
            return f"regard look {run.quoted}"
        if Path(path).expanduser().is_dir():
            path = find_clouds(path)[0].path
        return f"regard predict {run.quoted} {shlex.quote(path)}"

    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        return predict(run, inputs)

    def other_split(
        self, run: Run, data: str, context: DataContext
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        return other_split(run, data, context)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return run_reader(run, model)

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        return foreign_reader(foreign)


RECIPE = SetsRecipe()
