"""Graphs too large for one batch: mapped from files, and some neighbours of some nodes drawn for each
step.

A folder holds starts.npy (n + 1) and sources.npy (e): edges lead to node i from sources[starts[i]:starts[i +
1]]. Beside them lie features.npy (n d), labels.npy (n whole numbers, −1: unknown), and, where a split is
given, train.npy, validation.npy and test.npy with numbers of nodes. Only what a step touches is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.array import Array
from regard.data.batch import IGNORE, Batch, Epochs, Source, generator
from regard.data.slices import refuse_slice
from regard.data.splits import split_by_class
from regard.errors import RegardError
from regard.files import open_regular, readable_as
from regard.recipes.graphs.info import GraphsInfo, Scaling
from regard.recipes.graphs.parts import SPLITS

NEEDED = ("starts", "sources", "features", "labels")
MOST = {
    "validation": 5_000,
    "test": 20_000,
}  # nodes of a split that are evaluated, drawn by the seed


def looks_mapped(path: str | None) -> bool:
    """Is this a folder as described above?"""
    return path is not None and (Path(path) / "starts.npy").exists() and (Path(path) / "sources.npy").exists()


@dataclass(frozen=True, eq=False)
class MappedGraph:
    """A graph whose arrays stay in their files."""

    path: str
    starts: Array
    sources: Array
    x: Array
    classes: Array
    split: dict[str, Array]
    neighbours: int
    labels: tuple[str, ...]
    level: str = "node"
    given: bool = False  # does the folder have splits of its own?

    @classmethod
    def open(cls, path: str, *, neighbours: int, validation: float, test: float, seed: int) -> MappedGraph:
        arrays = {name: _mapped(path, name) for name in NEEDED}
        starts, sources, x, labels = (arrays[name] for name in NEEDED)
        count = len(starts) - 1
        for name, array in (("features", x), ("labels", labels)):
            if len(array) != count:
                raise RegardError(
                    f"{path}/{name}.npy has {len(array)} rows, but starts.npy has {count} nodes; they must "
                    "agree"
                )
        if starts[0] != 0 or starts[-1] != len(sources):
            raise RegardError(
                f"{path}/starts.npy must rise from 0 to the {len(sources)} edges of sources.npy, got "
                f"{starts[0]} … {starts[-1]}"
            )
        classes = int(labels.max(initial=-1)) + 1
        if classes < 2:
            raise RegardError(
                f"{path}/labels.npy must hold at least two classes, counted from 0, got {classes}"
            )
        given = {
            name: np.asarray(_mapped(path, name)) for name in SPLITS if (Path(path) / f"{name}.npy").exists()
        }
        split = given or split_by_class(np.asarray(labels), validation=validation, test=test, seed=seed)
        split = {name: split.get(name, np.zeros(0, dtype=np.int64)) for name in SPLITS}
        names = tuple(map(str, range(classes)))
        return cls(path, starts, sources, x, labels, split, neighbours, names, given=bool(given))

    @property
    def outputs(self) -> int:
        return len(self.labels)

    def info(self) -> GraphsInfo:
        """A summary in numbers, for people and for later commands."""
        return GraphsInfo(
            path=self.path,
            graphs=1,
            nodes=len(self.starts) - 1,
            edges=len(self.sources),
            features=int(self.x.shape[1]),
            level=self.level,
            train=len(self.split["train"]),
            validation=len(self.split["validation"]),
            test=len(self.split["test"]),
            labels=self.labels,
            scaling=Scaling(how="none"),
        )

    def around(self, nodes: Array, hops: int, random: np.random.Generator) -> tuple[Array, Array]:
        """These nodes, and up to `neighbours` drawn ones for each, and for those in turn, `hops` times.

        -> all nodes, these first, then 2 e edges among them by their places. A node is asked for its
        neighbours once, when it is first found. The nodes that are given must differ.
        """
        found, new = nodes, nodes
        edges = [np.zeros((2, 0), dtype=np.int64)]
        for _ in range(hops):
            target, source = self.draw(new, random)
            fresh = np.setdiff1d(source, found)  # sorted, so that files are read from front to back
            place = _finder(found)
            edges.append(np.stack([np.full(len(source), -1), place(target)]))
            found = np.concatenate([found, fresh])
            edges[-1][0] = _finder(found)(source)
            new = fresh
        return found, np.concatenate(edges, 1)

    def draw(self, nodes: Array, random: np.random.Generator) -> tuple[Array, Array]:
        """Edges that lead to these nodes: all where there are few, else `neighbours` different ones, each as
        likely."""
        starts = self.starts[nodes].astype(np.int64)
        degree = self.starts[nodes + 1].astype(np.int64) - starts
        few = np.flatnonzero(degree <= self.neighbours)
        many = np.flatnonzero(degree > self.neighbours)
        ends = np.cumsum(degree[few])
        of = np.repeat(few, degree[few])
        place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - degree[few], degree[few])
        picks = different(degree[many], self.neighbours, random)
        of = np.concatenate([of, np.repeat(many, self.neighbours)])
        place = np.concatenate([place, picks.ravel()])
        return nodes[of], np.asarray(self.sources[starts[of] + place]).astype(np.int64)

    def source(self, batch: int, seed: int, hops: int) -> SampledSource:
        return SampledSource(self, batch, seed, hops)


def _mapped(path: str, name: str) -> Array:
    file = Path(path) / f"{name}.npy"
    if not file.exists():
        raise RegardError(
            f"there is no {file}; a large graph needs {', '.join(f'{each}.npy' for each in NEEDED)}"
        )
    with open_regular(file), readable_as(file, "a .npy file"):
        found: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    return found


def _finder(nodes: Array) -> Any:
    """A function that returns the index in `nodes` of each given node."""
    order = np.argsort(nodes, kind="stable")
    ordered = nodes[order]
    return lambda some: order[np.searchsorted(ordered, some)]


def different(counts: Array, k: int, random: np.random.Generator) -> Array:
    """k different numbers below each count, every choice as likely.   r -> r k

    The j-th is drawn among the count − j that are left, and steps over those that were taken, smallest first.
    """
    taken = np.zeros((len(counts), 0), dtype=np.int64)
    for j in range(k):
        pick = (random.random(len(counts)) * (counts - j)).astype(np.int64)
        for i in range(j):
            pick += pick >= taken[:, i]
        taken = np.sort(np.concatenate([taken, pick[:, None]], 1), 1)
    return taken


class SampledSource(Source):
    """Some nodes of the split at a time, with neighbours drawn by (seed, step); only those nodes have
    targets.

    Looks at the validation and the test split draw neighbours, too, always the same ones.
    """

    whole = "the neighbours of all nodes of a batch are one graph"  # why several processes cannot share it

    def __init__(self, graph: MappedGraph, batch: int, seed: int, hops: int) -> None:
        self.graph, self.seed, self.hops = graph, seed, hops
        self._epochs = Epochs(graph.split["train"], batch, seed)

    def batch(self, step: int) -> Batch:
        return self.some(self._epochs.rows(step), generator(self.seed, 4, step))

    def validation(self) -> Iterator[Batch]:
        return self.of("validation")

    def of(self, split: str) -> Iterator[Batch]:
        rows = self.rows(split)
        for number, start in enumerate(range(0, len(rows), self._epochs.batch)):
            yield self.some(rows[start : start + self._epochs.batch], generator(self.seed, 6, number))

    def rows(self, split: str) -> Array:
        """The nodes of a split that are evaluated, in the order of its batches."""
        rows, most = self.graph.split[split], MOST.get(split, sys.maxsize)
        if len(rows) > most:
            rows = np.sort(generator(self.seed, 5).choice(rows, most, replace=False))
        return rows

    def some(self, rows: Array, random: np.random.Generator) -> Batch:
        """These nodes with sampled neighbours."""
        nodes, edges = self.graph.around(np.asarray(rows, dtype=np.int64), self.hops, random)
        target = np.full(len(nodes), IGNORE, dtype=np.int64)
        asked = np.asarray(self.graph.classes[rows], dtype=np.int64)
        target[: len(rows)] = np.where(asked < 0, IGNORE, asked)
        x = np.asarray(self.graph.x[nodes], dtype=np.float32)
        inputs = {"x": torch.from_numpy(x), "edges": torch.from_numpy(edges)}
        return Batch(inputs, torch.from_numpy(target), cut=refuse_slice)


def write_mapped(
    folder: str, edges: Array, x: Array, labels: Array, split: dict[str, Array] | None = None
) -> None:
    """A graph that fits into memory, as files of this kind. Give edges in both directions if they lead both
    ways."""
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    order = np.argsort(edges[1], kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(edges[1], minlength=len(x)))])
    arrays = {"starts": starts, "sources": edges[0][order], "features": x, "labels": labels, **(split or {})}
    for name, array in arrays.items():
        np.save(where / f"{name}.npy", array, allow_pickle=False)
