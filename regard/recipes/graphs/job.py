"""Graphs: edge lists, arrays and folders in; answers for nodes, edges or whole graphs out."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from regard import registry
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.graphs.dataset import (
    Graphs,
    GraphsConfig,
    prepare_graphs,
)
from regard.recipes.graphs.defaults import KINDS
from regard.recipes.graphs.neighbours import MOST, MappedGraph, looks_mapped
from regard.recipes.graphs.task import RegressKnown
from regard.recipes.job import Job, Reading
from regard.runs.run import Run
from regard.training.tasks import Classify, Task


def prepared(recipe: Any, reading: Reading) -> Job:
    """Read the graphs, then make model, task and source to their measure."""
    seed, batch, config = recipe.train.seed, recipe.train.batch, recipe.data
    graphs: Graphs | MappedGraph
    if reading.given is None and looks_mapped(config.path):
        graphs = opened(config, config.path, seed)
        source: Any = graphs.source(batch, seed, recipe.model.depth)
        check_large(recipe.model)
    else:
        graphs = prepare_graphs(config, seed=seed, given=reading.given, note=reading.note)
        source = graphs.source(batch, seed)
    about = graphs.describe() | ({"label": config.label} if graphs.labels is None else {})
    count = len(graphs.split["test"])
    found = {"features": about["features"], "outputs": graphs.outputs, "level": graphs.level}
    kind = next(name for name, cls in KINDS.items() if cls is type(recipe))
    model = registry.find("models", kind)(replace(recipe.model, ordered=config.directed, **found))
    task: Task = Classify() if graphs.labels is not None else RegressKnown((graphs.size[1],))
    test = (lambda: source.of("test")) if count else None
    tested = min(count, MOST["test"]) if isinstance(graphs, MappedGraph) else count
    notes = notes_on(config, about["scaling"].get("of"))
    made: dict[str, Any] = {"kind": kind, "model": model, "task": task, "source": source}
    return Job(**made, about=about, test=test, tested=tested, unit="nodes", notes=notes)


def notes_on(config: GraphsConfig, of: str | None) -> tuple[str, ...]:
    """What nodes were given that they did not have."""
    if config.features != "auto" or of not in ("degree", "both"):
        return ()
    own = (
        "nodes have no numbers of their own, so they get"
        if of == "degree"
        else "beside the numbers of a node stands"
    )
    return (
        f"{own} the number of its neighbours, which tells graphs apart; --data.features given leaves it out",
    )


def opened(config: GraphsConfig, path: str, seed: int) -> MappedGraph:
    return MappedGraph.open(
        path, neighbours=config.neighbours, validation=config.validation, test=config.test, seed=seed
    )


def check_large(config: Any) -> None:
    """A transformer of a large graph must not lay out all pairs of nodes."""
    linear = ("edges", "none", "none")
    if (
        isinstance(config, GraphTransformerConfig)
        and (config.attention, config.bias, config.position) != linear
    ):
        raise ValueError(
            "a large graph needs --model.attention edges --model.bias none --model.position none: all else is "
            "laid out over all pairs of nodes"
        )


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def then(run: Run) -> str:
    """What to type after a training."""
    path = run.section(GraphsConfig, "data").path
    if path is None:  # what comes with the program, or was an object, is in no file
        return f"regard look {run.path}"
    return f"regard predict {run.path} {shlex.quote(path)}"
