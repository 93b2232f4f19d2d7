"""The recipe for meshes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from regard.data.meshes import find_meshes
from regard.look.reader import Reader
from regard.recipes.base import Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.meshes.dataset import MeshesConfig, MeshesInfo
from regard.recipes.meshes.defaults import KINDS, defaults
from regard.recipes.meshes.job import other_split, prepare_job
from regard.recipes.meshes.predict import expand_inputs, predict
from regard.recipes.meshes.reader import foreign_input, is_mesh
from regard.recipes.meshes.run_reader import run_reader
from regard.recipes.prediction import Prediction
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.symmetry.roles import Roles
from regard.training.tasks import Task


class MeshesRecipe(Recipe):
    """Meshes: a class or a number for each surface, or a class for each of its vertices."""

    name = "meshes"
    title = "Meshes: surfaces made of triangles, from files or synthetic."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "meshes (.ply .off .obj .stl .glb), a folder per class; or synthetic: shapes, screws, roundness",
        "--model KIND": "meshnet: convolution with parallel transport (--model.orders 0: without directions)",
    }
    examples = (
        "regard train meshes",
        "regard train meshes --data scans",
        "regard train meshes --data parts --data.targets weights.csv --data.target grams --model.sized",
    )
    models = tuple(KINDS)
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.outputs": "",
        "model.level": "label the vertices of .ply files",
    }
    not_inherited = frozenset({"outputs", "level"})
    reading_options = ("targets", "target")

    def defaults(
        self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None
    ) -> Settings:
        return defaults(data, model)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return KINDS[str(config.kind)]

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        return prepare_job(settings, context)

    def describe(self, job: Job) -> str:
        info: MeshesInfo = job.info
        if job.labels is not None:
            classes = format_count(len(job.labels), "classes")
        else:
            classes = f"to predict: {info.form.answers[0]}"
        splits = format_splits(info.train, info.validation, info.test)
        sizes = f"{info.smallest:,} to {info.largest:,} vertices"
        return describe_data(info.path or info.task, splits, sizes, classes)

    def next_command(self, run: Run) -> str:
        path = run.section(MeshesConfig, "data").path
        if path is None:  # synthetic meshes are in no file
            return f"regard look {run.quoted}"
        return f"regard predict {run.quoted} {shlex.quote(find_meshes(path)[0].path)}"

    def expand_inputs(self, given: Sequence[str]) -> list[str]:
        return expand_inputs(given)

    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        return predict(run, inputs)

    def other_split(
        self, run: Run, data: str, context: DataContext
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        return other_split(run, data, context)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return run_reader(run, model)

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        declared = foreign.roles or getattr(foreign.model, "roles", None)
        if not isinstance(declared, Roles) or not is_mesh(declared, foreign.inputs):
            return None
        return foreign_input(declared, foreign.inputs)


RECIPE = MeshesRecipe()
