"""Graphs: how they are read, scaled and put side by side, for training, predictions and pages alike."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import Depth, config
from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, generator
from regard.data.slices import refuse_slice, slice_graphs
from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.models.graph_transformer import GraphTransformerConfig
from regard.recipes.describe import format_count
from regard.recipes.example import Example, Examples
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.features import (
    Scaling,
    check_edge_features,
    check_features,
    encode_edge_features,
    encode_features,
    fit_edge_features,
    fit_features,
    note_on_filled,
)
from regard.recipes.graphs.formats.arrays import digits
from regard.recipes.graphs.formats.files import read_graphs
from regard.recipes.graphs.formats.objects import of_object
from regard.recipes.graphs.model_input import make_input
from regard.recipes.graphs.neighbours import MOST, MappedGraph, looks_mapped
from regard.recipes.graphs.parts import Parts
from regard.recipes.graphs.read_graphs import examples_of, level_of, mapped_examples
from regard.recipes.graphs.splits import choose_splits
from regard.recipes.job import ShownExample
from regard.recipes.processor import Encoded, Processor, Want
from regard.recipes.target import Target, word_of
from regard.symmetry.roles import Roles

DENSE = 2**27  # the largest number of features that a page stores dense


@config
class GraphsFitted:
    """What the graphs said: with the weights, all that a prediction needs."""

    level: Literal["node", "edge", "graph"]  # what has targets
    nodes: Scaling  # of the features of nodes
    edges: Scaling | None = None  # of the features of edges; None: there are none, or they are not used
    hops: Depth | None = None  # from a node to the farthest that is drawn around it; None: graphs are taken whole
    in_memory: bool = False  # were the graphs in no file?


@dataclass(frozen=True, eq=False)
class GraphsProcessor(Processor[GraphsConfig, GraphsFitted]):
    """An example is a graph: x n features, edges 2 e. Graphs stand side by side in a batch; if nodes or edges have the
    targets, a batch is the whole graph or, if that stays in its files, what is drawn around some nodes."""

    Fitted: ClassVar[type] = GraphsFitted

    same_nodes: bool = False  # is the table of nodes meant for any graph that is read?

    # ── reading

    def read(self, data: Any, *, want: Want) -> Examples:
        is_path = isinstance(data, str | os.PathLike)
        path = os.path.expanduser(os.fspath(data)) if is_path else None
        if looks_mapped(path):
            found = mapped_examples(MappedGraph.open(str(path), self.config.neighbours), want)
            self._check_mapped(found)
            return found
        if path is not None:
            parts = read_graphs(path, nodes=self._nodes_of(path, want), label=self.config.label, config=self.config)
            parts = replace(parts, what=os.fspath(data) if parts.what == path else parts.what)
        else:
            parts = digits() if data is None else of_object(data, self.config.label, self.config)
        if self.config.edge_features == "none":
            parts = replace(parts, edge_x=None, notes=())
        if self.fitted is None:
            return examples_of(
                parts, self.config, want, level_of(parts, self.config), in_memory=path is None and data is not None
            )
        if self.fitted.hops is not None:
            raise RegardError(
                f"the model was trained on a large graph, a folder with starts.npy and others, and {parts.what} is none"
            )
        check_features(parts, self.fitted.nodes)
        check_edge_features(parts, self.fitted.edges)
        found = examples_of(parts, self.config, want, self.fitted.level, self.target)
        return replace(found, notes=(*found.notes, *note_on_filled(parts, self.fitted.nodes)))

    def _nodes_of(self, path: str, want: Want) -> str | None:
        """The table of nodes. That of the run is for its own edges: other edges may be between other nodes, so their
        table lies beside them, or is named."""
        own = self.config.path
        same = own is not None and os.path.realpath(path) == os.path.realpath(os.path.expanduser(own))
        return self.config.nodes if want == "learn" or same or self.same_nodes else None

    def _check_mapped(self, examples: Examples) -> None:
        if self.fitted is None:
            return
        width = int(examples.about["graphs"].x.shape[1])
        if self.fitted.hops is None:
            raise RegardError(
                f"{examples.what} is a large graph in files, but the model was trained on graphs that are read whole"
            )
        if width != self.fitted.nodes.width:
            raise RegardError(
                f"{examples.what} has {width} features per node, but the model was trained with "
                f"{self.fitted.nodes.width}"
            )

    def is_readable(self) -> bool:
        return not self.fitted.in_memory

    def batches_of(self, examples: Examples) -> Literal["examples", "whole", "drawn"]:
        if isinstance(examples.about["graphs"], MappedGraph):
            return "drawn"
        return "examples" if examples.starts is None else "whole"

    def most(self, examples: Examples) -> Mapping[str, int]:
        return MOST if self.batches_of(examples) == "drawn" else {}

    def draw_splits(self, examples: Examples, target: Target, codes: Array, seed: int) -> Array:
        return choose_splits(examples, target, codes, self.config, seed)

    # ── fitting

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        graphs = examples.about["graphs"]
        if isinstance(graphs, MappedGraph):
            scaling = Scaling(how="none", width=int(graphs.x.shape[1]))
            return replace(self, fitted=GraphsFitted(level="node", nodes=scaling, hops=model.depth))
        alone = getattr(model, "layer", None) == "alone"
        level: Any = examples.part
        fitted = GraphsFitted(
            level=level,
            nodes=fit_features(graphs, self.config, level),
            edges=None if alone else fit_edge_features(graphs, self.config.directed),
            in_memory=examples.about["in_memory"],
        )
        return replace(self, fitted=fitted)

    def notes(self, examples: Examples, train: Array) -> tuple[str, ...]:
        graphs, test = examples.about["graphs"], self.config.test
        found: list[str] = []
        if isinstance(graphs, Parts):
            found += note_on_filled(graphs, self.fitted.nodes)
            if graphs.edge_x is not None and self.fitted.edges is None:
                found.append(
                    "the layer alone cannot use the features of edges; --model.layer conv, gcn, gat and gatv2 do"
                )
        if self.config.features == "auto" and self.fitted.nodes.of != "given":
            own = "the degree of each node is added to its features"
            if self.fitted.nodes.of == "degree":
                own = "nodes have no features, so their degree is used as a feature"
            found.append(f"{own}; --data.features given leaves it out")
        if examples.splits is not None and test is not None:
            found.append(f"{examples.what} has its own splits, so --data.test {test:g} has no effect")
        return tuple(found)

    def counts(self, examples: Examples) -> Mapping[str, int]:
        graphs = examples.about["graphs"]
        if isinstance(graphs, MappedGraph):
            return {"graphs": 1, "nodes": len(graphs.starts) - 1, "edges": len(graphs.sources)}
        return {"graphs": graphs.graphs, "nodes": graphs.nodes, "edges": int(graphs.links.shape[1])}

    def describe(self) -> str | None:
        edges = self.fitted.edges
        return None if edges is None else f"{format_count(edges.width, 'features')} of each edge"

    def model_config(self, model: Any) -> Any:
        linear = ("edges", "none", "none")
        if (
            self.fitted.hops is not None
            and isinstance(model, GraphTransformerConfig)
            and (model.attention, model.bias, model.position) != linear
        ):
            raise RegardError(
                "a large graph needs --model.attention edges --model.bias none --model.position none: all other "
                "choices need memory for all pairs of nodes"
            )
        return replace(
            model,
            features=self.fitted.nodes.features,
            outputs=self.target.outputs,
            level=self.fitted.level,
            ordered=self.config.directed,
            edge_features=0 if self.fitted.edges is None else self.fitted.edges.width,
        )

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        graph = example.inputs["graph"]
        if isinstance(graph, MappedGraph):
            return dict(example.inputs)
        found = {
            "x": encode_features(graph, self.fitted.nodes),
            "edges": torch.from_numpy(np.ascontiguousarray(graph.links)),
            "edge_features": encode_edge_features(graph, self.config.directed, self.fitted.edges),
        }
        if self.fitted.level == "edge":
            found["pairs"] = torch.from_numpy(np.ascontiguousarray(graph.edges))
        return found

    def sample(self, encoded: Encoded, random: np.random.Generator | None, parts: Array | None = None) -> Encoded:
        """Of a graph in files some nodes with neighbours that are drawn; the same for the same first node, where nobody
        says how to draw."""
        if "graph" not in encoded:
            if parts is None or "pairs" not in encoded:
                return encoded
            return {**encoded, "pairs": encoded["pairs"][:, torch.from_numpy(parts)]}
        graph: MappedGraph = encoded["graph"]
        nodes = np.asarray(encoded["nodes"] if parts is None else parts, dtype=np.int64)
        assert self.fitted.hops is not None
        around, edges = graph.around(nodes, self.fitted.hops, random or generator(0, 7, int(nodes[0])))
        x = np.asarray(graph.x[around], dtype=np.float32)
        return {"x": torch.from_numpy(x), "edges": torch.from_numpy(edges), "nodes": around}

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        if self.fitted.level == "graph":
            return join_graphs(rows)
        (row,) = rows
        inputs = {name: row.get(name) for name in ("x", "edges", "pairs", "edge_features")}
        count = len(row["x"]) if inputs["pairs"] is None else inputs["pairs"].shape[1]
        return Batch(inputs, rows=count, size=len(row["x"]), cut=refuse_slice)

    def place_targets(self, codes: Sequence[Array], batch: Batch, parts: Array | None = None) -> Array:
        if self.fitted.level == "graph":
            return np.stack(codes)
        asked = np.arange(len(codes[0])) if parts is None else parts
        own = codes[0][asked]
        if self.fitted.level == "edge":
            return own
        unknown = IGNORE if own.dtype.kind == "i" else np.nan
        found = np.full((len(batch["x"]), *own.shape[1:]), unknown, dtype=own.dtype)
        found[asked if self.fitted.hops is None else np.arange(len(asked))] = own  # what was drawn comes behind
        return found

    def answers(self, out: Tensor, batch: Batch, rows: Sequence[Encoded]) -> Sequence[Tensor]:
        return list(out) if self.fitted.level == "graph" else [out]

    # ── showing

    def show(self, example: Example) -> ShownExample:
        return ShownExample(name=f"graph {example.inputs['called']}")

    def model_input(
        self, example: Example, encoded: Encoded, batch: Batch, model: nn.Module, file: str | None
    ) -> ModelInput:
        graph, roles = example.inputs["graph"], cast(Roles, model.roles)
        inputs = {name: batch[name] for name in ("x", "edges", "pairs", "edge_features") if name in batch}
        if inputs["x"].layout is not torch.strided and inputs["x"].numel() <= DENSE:
            inputs["x"] = inputs["x"].to_dense()
        if isinstance(graph, MappedGraph):
            nodes = encoded["nodes"]
            known = [graph.labels[label] if label >= 0 else None for label in graph.classes[nodes].tolist()]
            note = (
                f"The model predicts node {nodes[0]} from these nodes: neighbours drawn at random among "
                f"{len(graph.starts) - 1:,} nodes."
            )
            return make_input(roles, inputs, [str(node) for node in nodes], known, notes=(note,))
        names = [graph.called("node", i) for i in range(graph.nodes)]
        truth = None
        if self.fitted.level == "node" and self.target.labels is not None and example.target is not None:
            truth = [None if cell is None else word_of(cell) for cell in example.target]
        return make_input(
            roles, inputs, names, truth, graph.kinds, example.inputs.get("kinds", ()), self._note_on(example)
        )

    def _note_on(self, example: Example) -> tuple[str, ...]:
        """Which of many graphs it is."""
        count = example.inputs.get("of", 1)
        if count == 1:
            return ()
        truth = "" if example.target is None else f"; target {example.target}"
        return (f"Graph {example.inputs['called']}, the first of {count:,}, is shown{truth}.",)


def join_graphs(graphs: Sequence[Encoded]) -> Batch:
    """Graphs as one disconnected graph."""
    sizes = torch.tensor([len(each["x"]) for each in graphs])
    starts = sizes.cumsum(0) - sizes
    edge_features = [each["edge_features"] for each in graphs]
    inputs = {
        "x": torch.cat([each["x"].to_dense() for each in graphs]),
        "edges": torch.cat([each["edges"] + start for each, start in zip(graphs, starts, strict=True)], 1),
        "of": torch.repeat_interleave(torch.arange(len(graphs)), sizes),
        "graphs": len(graphs),
        "edge_features": None if edge_features[0] is None else torch.cat(edge_features),
    }
    return Batch(inputs, rows=len(graphs), size=int(sizes.sum()), cut=slice_graphs)
