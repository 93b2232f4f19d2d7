"""Graphs too large for one batch: mapped from files, and some neighbours of some nodes drawn for each
step.

A folder holds starts.npy (n + 1) and sources.npy (e): edges lead to node i from sources[starts[i]:starts[i +
1]]. Beside them lie features.npy (n d), labels.npy (n whole numbers, −1: unknown), and, where a split is
given, train.npy, validation.npy and test.npy with numbers of nodes. Only what a step touches is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.errors import RegardError
from regard.files import open_regular, readable_as
from regard.recipes.graphs.parts import SPLITS

NEEDED = ("starts", "sources", "features", "labels")
MOST = {"validation": 5_000, "test": 20_000}  # nodes of a split that are evaluated, drawn by the seed


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
    split: dict[str, Array]  # that the folder has
    neighbours: int
    labels: tuple[str, ...]

    @classmethod
    def open(cls, path: str, neighbours: int) -> MappedGraph:
        arrays = {name: _mapped(path, name) for name in NEEDED}
        starts, sources, x, labels = (arrays[name] for name in NEEDED)
        count = len(starts) - 1
        for name, array in (("features", x), ("labels", labels)):
            if len(array) != count:
                raise RegardError(
                    f"{path}/{name}.npy has {len(array)} rows, but starts.npy has {count} nodes; they must agree"
                )
        if starts[0] != 0 or starts[-1] != len(sources):
            raise RegardError(
                f"{path}/starts.npy must rise from 0 to the {len(sources)} edges of sources.npy, got "
                f"{starts[0]} … {starts[-1]}"
            )
        classes = int(labels.max(initial=-1)) + 1
        if classes < 2:
            raise RegardError(f"{path}/labels.npy must hold at least two classes, counted from 0, got {classes}")
        split = {name: np.asarray(_mapped(path, name)) for name in SPLITS if (Path(path) / f"{name}.npy").exists()}
        return cls(path, starts, sources, x, labels, split, neighbours, tuple(map(str, range(classes))))

    def find(self, name: str) -> int:
        """The node of this name, which is its number."""
        count = len(self.starts) - 1
        if not (name.isdecimal() and len(name) < 20 and int(name) < count):
            raise RegardError(f"there is no file and no node {name!r}; nodes are called 0 … {count - 1}")
        return int(name)

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


def _mapped(path: str, name: str) -> Array:
    file = Path(path) / f"{name}.npy"
    if not file.exists():
        raise RegardError(f"there is no {file}; a large graph needs {', '.join(f'{each}.npy' for each in NEEDED)}")
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


def write_mapped(folder: str, edges: Array, x: Array, labels: Array, split: dict[str, Array] | None = None) -> None:
    """A graph that fits into memory, as files of this kind. Give edges in both directions if they lead both
    ways."""
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    order = np.argsort(edges[1], kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(edges[1], minlength=len(x)))])
    arrays = {"starts": starts, "sources": edges[0][order], "features": x, "labels": labels, **(split or {})}
    for name, array in arrays.items():
        np.save(where / f"{name}.npy", array, allow_pickle=False)
