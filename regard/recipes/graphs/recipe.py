"""The recipe for graphs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import nn

from regard.look.reader import Reader
from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.defaults import DECIDING, KINDS, choose_defaults, data_section
from regard.recipes.graphs.processor import GraphsProcessor
from regard.recipes.graphs.reader import FILE, NODE, RunReader, foreign_reader
from regard.recipes.graphs.view import GraphView
from regard.recipes.job import DataContext, Job
from regard.recipes.problem import Problem
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings, kind_of
from regard.recipes.supervised import Supervised
from regard.runs.run import Run
from regard.training.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class LearnGraphs(Supervised):
    """Classes or numbers of nodes, edges or graphs."""

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        job = super().prepare(settings, kind, context)
        notes = [*job.notes, *_note_on_budget(settings.train)]
        if getattr(settings.model, "layer", None) == "alone" and not settings.model.spread:
            notes.append("the layer alone uses no edges; --model.layer conv and gcn do")
        return replace(job, notes=tuple(notes))

    def open(self, run: Run) -> GraphsProcessor:
        found = super().open(run)
        assert isinstance(found, GraphsProcessor)
        return replace(found, same_nodes="nodes" in run.asked)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return RunReader(self, run, model)


def _note_on_budget(train: TrainConfig) -> tuple[str, ...]:
    """A note if the budget is the default number of steps: it is the same on a slow or busy machine."""
    if train.steps is None or train.minutes is not None:
        return ()
    return (f"{train.steps:,} steps, however long they take; --train.minutes 1 plans by time",)


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
    models = KINDS
    data_config = GraphsConfig
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.features": "",
        "model.outputs": "",
        "model.level": "give --data.level",
        "model.ordered": "give --data.directed",
        "model.edge_features": "give --data.edge_features",
    }
    not_inherited = frozenset({"features", "outputs", "level", "ordered", "edge_features"})
    reading_options = ("nodes", "label", "missing")

    supervised = LearnGraphs(
        processor=GraphsProcessor,
        config=GraphsConfig,
        unit="graphs",
        speed="nodes",
        views=(GraphView(),),
        controls=(FILE, NODE),
    )
    problems: ClassVar[Mapping[str, Problem]] = {supervised.name: supervised}

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> GraphsConfig:
        return data_section(data)

    def defaults(self, data: Any = None, model: str | None = None, given: Collection[str] = ()) -> Settings:
        """Those for this data, which is read for them if that is possible."""
        section, objects = data_section(data), None if isinstance(data, str | os.PathLike) else data
        try:
            examples = self.supervised.read(section, objects)
        except (ValueError, OSError):
            examples = None
        return choose_defaults(section, examples, model)

    def choose_defaults(self, data: GraphsConfig, examples: Examples | None, kind: str | None) -> Settings:
        return choose_defaults(data, examples, kind)

    def adjust_defaults(self, settings: Settings, examples: Examples | None, options: Mapping[str, Any]) -> Settings:
        if not options.keys() & set(DECIDING):
            return settings
        return choose_defaults(settings.data, examples, kind_of(self.models, settings), options)

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        return foreign_reader(foreign)


RECIPE = GraphsRecipe()
