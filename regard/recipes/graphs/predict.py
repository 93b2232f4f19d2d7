"""What a model says of nodes, edges or whole graphs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.data.batch import Batch, generator
from regard.recipes.graphs.dataset import (
    GraphsConfig,
    Scaling,
    both_ways,
    features,
    read_parts,
)
from regard.recipes.graphs.job import opened
from regard.recipes.graphs.neighbours import MappedGraph, SampledSource, looks_mapped
from regard.recipes.graphs.parts import Array, Parts
from regard.recipes.prediction import Answer, as_given, one_by_one
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.tasks import call

AT_ONCE = 1024  # nodes of a large graph that are answered at once


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
