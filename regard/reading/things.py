"""How what came with a model, or a file, becomes a set of things or a graph to look at."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batch import generator
from regard.data.clouds import read_cloud
from regard.data.graph_files import read_graphs
from regard.data.graph_parts import Rows
from regard.given import Cloud, Given, Network, Tokens
from regard.reading.reader import Reader
from regard.symmetry.roles import Roles, guess

Array = np.ndarray[Any, Any]
ReadRows = Callable[[Path], Array]  # a file -> the things of a set, n d

NAMED = 16_384  # things that have a name each; more are only numbered
ENDINGS = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"ply": ".ply",
    b"OFF": ".off",
}  # by how a file begins


def reader_of_things(model: nn.Module, inputs: Mapping[str, Any], roles: Roles | None) -> Reader | None:
    """What reads for a model of graphs or of sets; None for any other.

    It is one of sets if it says that its tokens are vectors without places, or if nothing is said and they have two or three
    numbers each.
    """
    declared = roles or getattr(model, "roles", None)
    known = declared if isinstance(declared, Roles) else guess(model, dict(inputs))
    if known.nodes is not None and known.edges is not None and isinstance(inputs.get(known.nodes), Tensor):
        return Nodes(known, lambda name: Linked(inputs))
    stream = known.stream
    x = None if stream is None else inputs.get(stream.tokens)
    if stream is None or not isinstance(x, Tensor) or x.dim() != 3 or not x.is_floating_point():
        return None
    if stream.axis != 1 or (known.points is None if known is not declared else stream.places is not None):
        return None
    return Points(known, inputs)


# ---- sets


class Example(NamedTuple):
    """A set of the data, what it is called, what is true of it, if that is known of the whole, and a sentence on it."""

    rows: Array
    name: str
    truth: str | None = None
    said: str = ""


class Points(Reader):
    """A set of things, one row of numbers each.

    inputs   of the model; their first row is shown when nothing is given
    example  gives a set to show instead
    named    gives a set of the data by what it is called there
    read     gives the rows of a file
    taken    makes of rows what the model takes, n d -> n d; rows are drawn as they came
    columns  what the numbers are called; without it, what the first line of a .csv says
    classes  names of what the model tells apart, if it does
    notes    what to say of the inputs that are shown when nothing is given
    """

    kind = "points"

    def __init__(
        self,
        roles: Roles,
        inputs: Mapping[str, Any],
        *,
        example: Callable[[], Example] | None = None,
        named: Callable[[str], Example] | None = None,
        read: ReadRows | None = None,
        taken: Callable[[Array], Array] | None = None,
        columns: Sequence[str] = (),
        classes: Sequence[str] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        assert roles.stream is not None
        self.stream = roles.stream
        self.inputs = {name: x[:1] if isinstance(x, Tensor) and x.dim() else x for name, x in inputs.items()}
        self.example, self.named, self.opened, self.taken = example, named, read or rows_in, taken
        self.columns, self.classes, self.notes = tuple(columns), classes, notes

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        columns, shown = self.columns, None
        if isinstance(given, str) and self.named is not None and not Path(given).exists():
            shown = self.named(given)
        elif given is None and self.example is not None:
            shown = self.example()
        if shown is not None:
            rows = shown.rows
            x = self.of_rows(rows, shown.name)
        elif given is not None:
            with at_path(given) as path:
                rows = self.opened(path)
                columns = columns or header_of(path)
                x = self.of_rows(rows, path.name)
        else:
            x = self.first_row()
            rows = x[0].numpy(force=True)
        if not x.shape[1]:
            raise ValueError("there is nothing to look at: the set is empty")
        n, d = x.shape[1:]
        mask = self.stream.mask if self.stream.mask in self.inputs else None
        beside = (
            {}
            if mask is None
            else {mask: torch.full((1, n), not self.stream.hides).to(self.inputs[mask].dtype)}
        )
        if len(columns) != d:
            columns = tuple("xyz"[:d]) if d <= 3 else tuple(f"number {i}" for i in range(d))
        return Given(
            inputs=self.inputs | beside | {self.stream.tokens: x},
            streams=(Tokens("points", tuple(str(i + 1) for i in range(n)), "items"),) if n <= NAMED else (),
            kind="points",
            cloud=Cloud(
                input=self.stream.tokens, rows=torch.from_numpy(rows).float(), columns=columns, mask=mask
            ),
            text=Path(given).name if isinstance(given, str) and shown is None else None,
            name=None if shown is None else shown.name,
            truth=None if shown is None or self.classes is None else shown.truth,
            answers=None if self.classes is None else "classes",
            called=None if self.classes is None else self.classes.__getitem__,
            notes=(shown.said,) if shown is not None else self.notes if given is None else (),
        )

    def of_rows(self, rows: Array, name: str) -> Tensor:
        """As the model takes them.   n d -> 1 n d"""
        like: Tensor = self.inputs[self.stream.tokens]
        if rows.shape[1] != like.shape[-1]:
            raise ValueError(
                f"{name}: the model takes things of {like.shape[-1]} numbers, got {rows.shape[1]}"
            )
        return torch.from_numpy(np.ascontiguousarray(rows if self.taken is None else self.taken(rows))).to(
            like.dtype
        )[None]

    def first_row(self) -> Tensor:
        """The things that came with the model, without padding, which is no thing of a set.   1 n d"""
        x: Tensor = self.inputs[self.stream.tokens]
        mask = None if self.stream.mask is None else self.inputs.get(self.stream.mask)
        return x if mask is None else x[:, mask[0].bool() != self.stream.hides]


def rows_in(path: Path) -> Array:
    """All points of a file; of a mesh, some on its surface."""
    return read_cloud(str(path), None, generator(0)).points


# ---- graphs


@dataclass(frozen=True, eq=False)
class Linked:
    """A graph as a model takes it: inputs by name. `labels`: what nodes are called, `truth`: their classes, where known."""

    inputs: Mapping[str, Any]
    labels: Sequence[str] | None = None
    truth: Sequence[str | None] | None = None
    notes: tuple[str, ...] = field(default=())


class Nodes(Reader):
    """A graph. What is given is a file, or the name of the node to draw a large graph around.

    example  gives the graph to show, and is told the name of that node, if one was given
    read     gives the graph of a file
    classes  names of what the model tells apart, if it does
    """

    kind = "graph"

    def __init__(
        self,
        roles: Roles,
        example: Callable[[str | None], Linked],
        *,
        read: Callable[[Path], Linked] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        assert roles.nodes is not None and roles.edges is not None
        self.nodes, self.edges, self.example, self.opened, self.classes = (
            roles.nodes,
            roles.edges,
            example,
            read,
            classes,
        )

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        name = given if isinstance(given, str) and not Path(given).exists() else None
        if given is None or name is not None:
            found = self.example(name)
        else:
            with at_path(given) as path:
                found = self.of_file(path) if self.opened is None else self.opened(path)
        count = len(found.inputs[self.nodes])
        if not count:
            raise ValueError("there is nothing to look at: the graph has no nodes")
        labels = tuple(found.labels or map(str, range(count)))
        if name is not None and name not in labels:
            raise ValueError(
                f"there is no file and no node {name!r}; nodes are called {', '.join(labels[:3])}, …"
            )
        edges = found.inputs[self.edges]
        return Given(
            inputs=dict(found.inputs),
            streams=(Tokens("nodes", labels, "items"),) if count <= NAMED else (),
            kind="graph",
            network=Network(
                nodes=self.nodes,
                edges=getattr(edges, "edges", edges),  # a Graph has them
                labels=labels,
                truth=None if found.truth is None else tuple(found.truth),
                centre=None if name is None else labels.index(name),
            ),
            answers=None if self.classes is None else "classes",
            called=None if self.classes is None else self.classes.__getitem__,
            notes=found.notes,
        )

    def of_file(self, path: Path) -> Linked:
        """A graph of a file, with the numbers of its nodes as they are."""
        like: Tensor = self.example(None).inputs[self.nodes]
        parts = read_graphs(str(path))
        if parts.x is None or isinstance(parts.x, Rows) or parts.x.shape[1] != like.shape[1]:
            got = (
                "none"
                if parts.x is None
                else f"{parts.x.width if isinstance(parts.x, Rows) else parts.x.shape[1]}"
            )
            raise ValueError(f"{path.name}: the model takes nodes of {like.shape[1]} numbers, got {got}")
        inputs = {
            self.nodes: torch.from_numpy(parts.x).to(like.dtype),
            self.edges: torch.from_numpy(parts.edges),
        }
        truth = None if parts.node_labels is None else [str(label) for label in parts.node_labels]
        return Linked(inputs, parts.names, truth)


# ---- files


@contextmanager
def at_path(given: str | bytes) -> Iterator[Path]:
    """A file by its path, or one made of bytes for a while."""
    if isinstance(given, str):
        if not Path(given).exists():
            raise ValueError(
                f"there is no file {given!r}; give one with the numbers of a set: .npy, .npz, .csv, .ply or .off"
            )
        yield Path(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        ending = next((ending for start, ending in ENDINGS.items() if given.startswith(start)), ".csv")
        path = Path(folder) / f"input{ending}"
        path.write_bytes(given)
        try:
            yield path
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "the file")) from error


def header_of(path: Path) -> tuple[str, ...]:
    """What the first line of a .csv calls the columns; nothing if there is a number in it."""
    if path.suffix.lower() != ".csv":
        return ()
    with open(path, encoding="utf-8-sig", newline="") as file:
        words = [word.strip() for word in next(csv.reader(file), [])]
    return () if any(word.lstrip("+-").replace(".", "", 1).isdecimal() for word in words) else tuple(words)
