"""Graphs: edge lists, arrays and folders become a task, batches, and a model config that fits them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard import registry
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.graphs.dataset import (
    Graphs,
    GraphsConfig,
    prepare_graphs,
)
from regard.recipes.graphs.defaults import model_kind
from regard.recipes.graphs.fill import note_on_filled
from regard.recipes.graphs.info import GraphsInfo
from regard.recipes.graphs.neighbours import MOST, MappedGraph, looks_mapped
from regard.recipes.graphs.other_data import config_for, read_other_graphs
from regard.recipes.graphs.splits import no_folds, note_missing_classes, share_of_test
from regard.recipes.graphs.task import task_of
from regard.recipes.job import DataContext, Job, ShownExample, Split
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Task


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the graphs, then make the task, the source and a model config that fits them."""
    seed, batch, config = settings.train.seed, settings.train.batch, settings.data
    source: Any
    missing: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    called: Callable[[int], str]
    said: tuple[str, ...] = ()
    if context.given is None and looks_mapped(config.path):
        _check_large(settings.model)
        large = open_mapped(config, config.path, config.seed_of(seed))
        source, info, outputs = large.source(batch, seed, settings.model.depth), large.info(), large.outputs
        count, given = min(info.test, MOST["test"]), large.given
        rows, called = source.rows, str
    else:
        drawn = config.seed_of(seed)
        found = prepare_graphs(config, seed=drawn, given=context.given, note=context.note)
        graphs, said = _usable(found, settings.model)
        source, info, outputs = graphs.source(batch, seed), graphs.info(config.label), graphs.outputs
        count, given = info.test, bool(graphs.parts.split)
        if not given and graphs.labels is not None:
            missing = note_missing_classes(graphs.split, graphs.target.numpy(), graphs.labels, info.level)
        rows, called = source.rows, partial(graphs.parts.called, info.level)
        filled = note_on_filled(graphs.parts, info.scaling)
    known = {"features": info.features, "outputs": outputs, "level": info.level, "ordered": config.directed}
    known["edge_features"] = len(info.edge_scaling.mean or ()) if info.edge_scaling is not None else 0
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
        notes=(
            *filled,
            *said,
            *_notes_on(settings, info.scaling.of),
            *_note_on_splits(config, info.path, given),
            *missing,
        ),
        validation=info.validation,
        test=test,
        rows=rows,
        number=_number(info),
        show=lambda split, place: ShownExample(name=f"{info.level} {called(int(rows(split)[place]))}"),
        own_splits=given,
    )


def _usable(graphs: Graphs, model: Any) -> tuple[Graphs, tuple[str, ...]]:
    """The graphs with what the model can use of them, and notes on what was left out."""
    if graphs.edge_x is None or getattr(model, "layer", None) != "alone":
        return graphs, graphs.notes
    left = "the layer alone cannot use the features of edges; --model.layer conv, gcn, gat and gatv2 do"
    return replace(graphs, edge_x=None, edge_scaling=None), (*graphs.notes, left)


def other_split(run: Run, path: str) -> tuple[Task, Split, tuple[str, ...] | None]:
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
    split = Split(
        name=path,
        count=count,
        unit=unit,
        batches=lambda: source.of("test"),
        rows=lambda: source.rows("test"),
        notes=notes,
    )
    return task_of(info), split, info.labels


def _number(info: GraphsInfo) -> Numbers | None:
    """The number that the model predicts; None: it predicts classes."""
    if info.size is None or info.labels is not None:
        return None
    return Numbers(name=info.label or "target", centre=info.size[0], scale=info.size[1])


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


def _note_on_splits(config: GraphsConfig, path: str, given: bool) -> tuple[str, ...]:
    """A note if a share was asked for that has no effect."""
    if not given or config.test is None:
        return ()
    return (f"{path} has its own splits, so --data.test {config.test:g} has no effect",)


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
    if config.folds is not None and not held_out:
        raise no_folds(path, config)
    shares = {"validation": config.validation, "test": share_of_test(config)}
    graph = MappedGraph.open(path, neighbours=config.neighbours, seed=seed, **shares)
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
