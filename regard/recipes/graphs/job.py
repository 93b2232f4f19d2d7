"""Graphs: edge lists, arrays and folders become a task, batches, and a model config that fits them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard import registry
from regard.errors import RegardError
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.graphs.dataset import (
    GraphsConfig,
    prepare_graphs,
)
from regard.recipes.graphs.defaults import model_kind
from regard.recipes.graphs.fill import note_on_filled
from regard.recipes.graphs.info import GraphsInfo
from regard.recipes.graphs.neighbours import MOST, MappedGraph, looks_mapped
from regard.recipes.graphs.other_data import config_for, read_other_graphs
from regard.recipes.graphs.task import task_of
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Task


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the graphs, then make the task, the source and a model config that fits them."""
    seed, batch, config = settings.train.seed, settings.train.batch, settings.data
    source: Any
    filled: tuple[str, ...] = ()
    if context.given is None and looks_mapped(config.path):
        _check_large(settings.model)
        large = open_mapped(config, config.path, seed)
        source, info, outputs = large.source(batch, seed, settings.model.depth), large.info(), large.outputs
        count = min(info.test, MOST["test"])
    else:
        graphs = prepare_graphs(config, seed=seed, given=context.given, note=context.note)
        source, info, outputs = graphs.source(batch, seed), graphs.info(config.label), graphs.outputs
        count, filled = info.test, note_on_filled(graphs.parts, info.scaling)
    known = {"features": info.features, "outputs": outputs, "level": info.level, "ordered": config.directed}
    unit = f"{info.level}s"
    if count:
        test = Split(name="test", count=count, unit=unit, batches=lambda: source.of("test"))
    else:
        test = None
    return Job(
        kind=model_kind(settings),
        model=replace(settings.model, **known),
        task=task_of(info),
        source=source,
        info=info,
        unit="nodes",
        examples=unit,
        labels=info.labels,
        notes=(*filled, *_notes_on(settings, info.scaling.of)),
        validation=info.validation,
        test=test,
    )


def other_split(run: Run, path: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
    """Other graphs with labels, read as the run reads its own data: their test split, or all labelled
    examples if there is none."""
    config = config_for(run, path)
    info = run.section(GraphsInfo, "corpus")
    train, unit = run.section(TrainConfig, "train"), f"{info.level}s"
    source: Any
    notes: tuple[str, ...] = ()
    if looks_mapped(path):
        large = open_mapped(config, path, 0, held_out=True)
        source = large.source(train.batch, 0, run.section(_type_of_model(run), "model").depth)
        count = min(len(large.split["test"]), MOST["test"])
    else:
        graphs = read_other_graphs(config, info)
        notes = note_on_filled(graphs.parts, info.scaling)
        source, count = graphs.source(train.batch, 0), len(graphs.split["test"])
    split = Split(name=path, count=count, unit=unit, batches=lambda: source.of("test"), notes=notes)
    return task_of(info), split, info.labels


def _type_of_model(run: Run) -> type[Any]:
    """The class of the model's configuration."""
    found: type[Any] = registry.find("models", str(run.config.kind)).Config
    return found


def _notes_on(settings: Settings, of: str | None) -> tuple[str, ...]:
    """What follows from the data and may surprise."""
    notes = [*_note_on_degrees(settings.data, of), *_note_on_budget(settings.train)]
    if getattr(settings.model, "layer", None) == "alone" and not settings.model.spread:
        notes.append("the layer alone uses no edges; --model.layer conv and gcn do")
    return tuple(notes)


def _note_on_degrees(config: GraphsConfig, of: str | None) -> tuple[str, ...]:
    """A note if nodes got their degree as a feature."""
    if config.features != "auto" or of not in ("degree", "both"):
        return ()
    if of == "degree":
        own = "nodes have no features, so their degree is used as a feature"
    else:
        own = "the degree of each node is added to its features"
    return (f"{own}; --data.features given leaves it out",)


def _note_on_budget(train: TrainConfig) -> tuple[str, ...]:
    """A note if the budget is the default number of steps: it is the same on a slow or busy machine."""
    if train.steps is None or train.minutes is not None:
        return ()
    return (f"{train.steps:,} steps, however long they take; --train.minutes 1 plans by time",)


def open_mapped(config: GraphsConfig, path: str, seed: int, held_out: bool = False) -> MappedGraph:
    """A large graph. held_out: all labelled nodes are the test split, unless the folder has a test.npy"""
    graph = MappedGraph.open(
        path, neighbours=config.neighbours, validation=config.validation, test=config.test, seed=seed
    )
    if not held_out or (Path(path) / "test.npy").exists():
        return graph
    return replace(graph, split=graph.split | {"test": np.flatnonzero(np.asarray(graph.classes) >= 0)})


def _check_large(config: Any) -> None:
    """Raise if a graph transformer would need memory for all pairs of nodes of a large graph."""
    linear = ("edges", "none", "none")
    if (
        isinstance(config, GraphTransformerConfig)
        and (config.attention, config.bias, config.position) != linear
    ):
        raise RegardError(
            "a large graph needs --model.attention edges --model.bias none --model.position none: all other "
            "choices need memory for all pairs of nodes"
        )
