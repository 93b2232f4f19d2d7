"""The recipe for graphs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from regard.look.reader import Reader
from regard.recipes.base import Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.graphs.dataset import GraphsConfig
from regard.recipes.graphs.defaults import KINDS, defaults, refine_defaults
from regard.recipes.graphs.foreign_reader import foreign_reader
from regard.recipes.graphs.info import GraphsInfo
from regard.recipes.graphs.job import other_split, prepare_job
from regard.recipes.graphs.predict import predict
from regard.recipes.graphs.run_reader import run_reader
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task


class GraphsRecipe(Recipe):
    """Graphs: classification or regression of nodes, edges or whole graphs."""

    name = "graphs"
    title = "Graphs: classification or regression of nodes, edges or whole graphs."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "an edge list (with --data.nodes), a .npz, a folder of graphs; default: digits, linked by similarity",
        "--model KIND": "graphnet (graph convolution, GCN, GAT, GATv2: --model.layer) or graphtransformer",
    }
    examples = (
        "regard train graphs",
        "regard train graphs --data cites.csv --data.nodes papers.csv --data.label field",
        "regard train graphs --data molecules --model graphtransformer",
        "regard train graphs --data molecules --data.folds 10",
    )
    models = tuple(KINDS)
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.features": "",
        "model.outputs": "",
        "model.level": "give --data.level",
        "model.ordered": "give --data.directed",
        "model.edge_features": "give --data.edge_features",
    }
    not_inherited = frozenset({"features", "outputs", "level", "ordered", "edge_features"})
    reading_options = ("nodes", "label", "missing")

    def defaults(
        self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None
    ) -> Settings:
        return defaults(data, model)

    def refine_defaults(self, settings: Settings, options: Mapping[str, Any], data: Any = None) -> Settings:
        return refine_defaults(settings, options, data)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return KINDS[str(config.kind)]

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        return prepare_job(settings, context)

    def describe(self, job: Job) -> str:
        info: GraphsInfo = job.info
        counts = [format_count(getattr(info, name), name) for name in ("graphs", "nodes", "edges")]
        splits = format_splits(info.train, info.validation, info.test)
        if info.labels is None:
            classes: str | None = f"to predict: {info.label}"
        else:
            classes = format_count(len(info.labels), "classes")
        bonds = None
        if info.edge_scaling is not None:
            bonds = f"{format_count(len(info.edge_scaling.mean or ()), 'features')} of each edge"
        return describe_data(info.path, *counts, bonds, splits, classes)

    def next_command(self, run: Run) -> str:
        path = run.section(GraphsConfig, "data").path
        if path is None:  # the built-in graph, or an object in memory, is in no file
            return f"regard look {run.quoted}"
        return f"regard predict {run.quoted} {shlex.quote(path)}"

    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        return predict(run, inputs)

    def other_split(
        self, run: Run, data: str, context: DataContext
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        return other_split(run, data)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return run_reader(run, model)

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        return foreign_reader(foreign)


RECIPE = GraphsRecipe()
