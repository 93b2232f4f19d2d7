"""Graphs: edge lists, arrays and folders in; answers for nodes, edges or whole graphs out."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard import names
from regard.data.batch import Batch, generator
from regard.data.graph_parts import Array, Parts
from regard.data.graphs import Graphs, GraphsConfig, Scaling, both_ways, features, prepare_graphs, read_parts
from regard.data.neighbours import MOST, MappedGraph, SampledSource, looks_mapped
from regard.jobs.job import Answer, Job, Reading, as_given, one_by_one
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.graphs import KINDS
from regard.run import Run, load_model
from regard.training.task import Classify, Regress, Task, call

AT_ONCE = 1024  # nodes of a large graph that are answered at once


class RegressKnown(Regress):
    """(output − target)² where the target is known, that is, no NaN: of the nodes of a graph only some are asked."""

    def _apart(self, model: nn.Module, batch: Batch) -> Tensor:
        apart = super()._apart(model, batch)
        return apart[~apart.isnan()]


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
    model = names.find("models", kind)(replace(recipe.model, ordered=config.directed, **found))
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


inputs = as_given


@torch.no_grad()
def predict(run: Run, given: Sequence[str]) -> Iterator[Answer]:
    """For each file what the model says of its nodes, its edges or its graphs."""
    model, config, about = load_model(run), run.section(GraphsConfig, "data"), run.config["corpus"]

    def answers(path: str) -> list[Answer]:
        if looks_mapped(path):
            return [of_large(model, opened(config, path, 0), about)]
        same = config.path is not None and os.path.realpath(path) == os.path.realpath(config.path)
        parts = read_parts(replace(config, path=path, nodes=config.nodes if same else None))
        return of_parts(model, parts, config, about)

    yield from one_by_one(given, answers)


def of_parts(model: Any, parts: Parts, config: GraphsConfig, about: dict[str, Any]) -> list[Answer]:
    edges, _ = both_ways(parts, config)
    x, _ = features(parts, edges, config, known=Scaling(**about["scaling"]))
    if x.shape[1] != model.config.features:
        raise ValueError(
            f"{parts.what} has {x.shape[1]} numbers a node, but the model learned from {model.config.features}"
        )
    of = torch.repeat_interleave(torch.arange(parts.graphs), torch.from_numpy(parts.starts).diff())
    level = about["level"]
    pairs = torch.from_numpy(parts.edges) if level == "edge" else None
    batch = Batch(x, torch.zeros(0), edges=torch.from_numpy(edges), of=of, graphs=parts.graphs, pairs=pairs)
    each = say(call(model, batch), about, [parts.called(level, i) for i in range(count(parts, level))])
    if level != "graph":
        return [Answer(given=parts.what, each=tuple(each))]
    several = parts.graphs > 1
    return [
        replace(answer, given=f"{parts.what}: {answer.given}" if several else parts.what) for answer in each
    ]


def count(parts: Parts, level: str) -> int:
    return {"node": parts.nodes, "edge": int(parts.edges.shape[1]), "graph": parts.graphs}[level]


def of_large(model: Any, graph: MappedGraph, about: dict[str, Any]) -> Answer:
    """All nodes of a large graph, each with neighbours that are drawn."""
    source = SampledSource(graph, AT_ONCE, 0, model.config.depth)
    found: list[Answer] = []
    for rows in torch.arange(len(graph.starts) - 1).split(AT_ONCE):
        asked: Array = rows.numpy()
        out = call(model, source.some(asked, generator(0, 7, int(asked[0]))))[: len(asked)]
        found += say(out, about, map(str, asked.tolist()))
    return Answer(given=graph.path, each=tuple(found))


def say(out: Tensor, about: dict[str, Any], called: Iterable[str]) -> list[Answer]:
    """Probabilities of classes, the likeliest first, or numbers in their own units, by the name of their column."""
    labels = about["labels"]
    if labels is None:
        mean, deviation = about["size"]
        numbers = (out[:, 0].double() * deviation + mean).tolist()
        column = about.get("label", "value")
        return [
            Answer(given=name, values={column: number}) for name, number in zip(called, numbers, strict=True)
        ]
    return [
        Answer.of_classes(name, shares, labels) for name, shares in zip(called, out.softmax(-1), strict=True)
    ]


def then(run: Run) -> str:
    """What to type after a training."""
    path = run.section(GraphsConfig, "data").path
    if path is None:  # what comes with the program, or was an object, is in no file
        return f"regard look {run.path}"
    return f"regard predict {run.path} {shlex.quote(path)}"
