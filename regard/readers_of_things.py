"""How what came with a model, or a file, becomes a set of things or a graph to look at."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.given import Cloud, Given, Network, Tokens
from regard.readers import Reader
from regard.symmetry.roles import Roles, guess

Array = np.ndarray[Any, Any]
ReadPoints = Callable[[Path], Array]  # a file -> its things, n d
ReadGraph = Callable[[Path], Mapping[str, Array]]  # a file -> x n d and edges 2 e; perhaps names n and labels n
Example = Callable[[], Mapping[str, Any]]  # inputs to look at when nothing is given

NAMED = 16_384  # things that have a name each; more are only numbered
ENDINGS = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz"}  # how a file begins, when only its bytes are known


def reader_of_things(
    model: nn.Module, inputs: Mapping[str, Any], roles: Roles | None, classes: Sequence[str] | None = None
) -> Reader | None:
    """What reads for a model of graphs or of sets; None for any other. `classes` are the names of what it tells apart.

    It is one of sets if it says that its tokens are vectors without places, or if nothing is said and they have two or three
    numbers each.
    """
    declared = roles or getattr(model, "roles", None)
    known = declared if isinstance(declared, Roles) else guess(model, dict(inputs))
    if known.nodes is not None and known.edges is not None and isinstance(inputs.get(known.nodes), Tensor):
        return Nodes(known, lambda: inputs, classes=classes)
    stream = known.stream
    x = None if stream is None else inputs.get(stream.tokens)
    if stream is None or not isinstance(x, Tensor) or x.dim() != 3 or not x.is_floating_point():
        return None
    if stream.axis != 1 or (known.points is None if known is not declared else stream.places is not None):
        return None
    return Points(known, lambda: inputs, classes=classes)


class Points(Reader):
    """A set of things, one row of numbers each.

    example  gives inputs of the model; the first row of them is shown
    read     gives the things of a file
    columns  what the numbers are called; without it, what the first line of a .csv says
    classes  names of what the model tells apart, if it does
    """

    kind = "points"

    def __init__(
        self,
        roles: Roles,
        example: Example,
        *,
        read: ReadPoints | None = None,
        columns: Sequence[str] = (),
        classes: Sequence[str] | None = None,
    ) -> None:
        assert roles.stream is not None
        self.stream, self.example, self.opened, self.columns = roles.stream, example, read or array_of, tuple(columns)
        self.classes = classes

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        example = {name: x[:1] if isinstance(x, Tensor) and x.dim() else x for name, x in self.example().items()}
        x: Tensor = example[self.stream.tokens]
        mask = example.get(self.stream.mask) if self.stream.mask is not None else None
        columns = self.columns
        if given is not None:
            width, dtype = x.shape[-1], x.dtype
            with at_path(given) as (path, name):
                found = self.opened(path)
                columns = columns or header_of(path)
            x = torch.from_numpy(np.ascontiguousarray(checked(found, width, name))).to(dtype)[None]
        elif mask is not None:
            x = x[:, mask[0].bool() != self.stream.hides]  # padding is no thing of the set
        if not x.shape[1]:
            raise ValueError("there is nothing to look at: the set is empty")
        inputs: dict[str, Any] = example | {self.stream.tokens: x}
        if mask is not None and self.stream.mask is not None:
            inputs[self.stream.mask] = torch.full(x.shape[:2], not self.stream.hides).to(mask.dtype)
        n, d = x.shape[1:]
        if len(columns) != d:
            columns = tuple("xyz"[:d]) if d <= 3 else tuple(f"number {i}" for i in range(d))
        return Given(
            inputs=inputs,
            streams=(Tokens("points", tuple(map(str, range(n))), "items"),) if n <= NAMED else (),
            kind="points",
            cloud=Cloud(input=self.stream.tokens, columns=columns, mask=None if mask is None else self.stream.mask),
            text=Path(given).name if isinstance(given, str) else None,
            answers=None if self.classes is None else "classes",
            called=None if self.classes is None else self.classes.__getitem__,
        )


class Nodes(Reader):
    """A graph: nodes with numbers, and edges. What is given is a file, or the name of the node to draw it around.

    labels  what each node is called, and `truth` its class, where it is known; a file may bring its own
    """

    kind = "graph"

    def __init__(
        self,
        roles: Roles,
        example: Example,
        *,
        read: ReadGraph | None = None,
        labels: Sequence[str] | None = None,
        truth: Sequence[str | None] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        assert roles.nodes is not None and roles.edges is not None
        self.nodes, self.edges, self.example, self.opened = roles.nodes, roles.edges, example, read or graph_of
        self.labels, self.truth = labels, truth
        self.classes = classes

    def read(self, given: str | bytes | None = None, target: str | None = None) -> Given:
        inputs, centre = dict(self.example()), None
        labels, truth = self.labels, self.truth
        if isinstance(given, str) and not Path(given).is_file():
            known = list(labels or map(str, range(len(inputs[self.nodes]))))
            if given not in known:
                raise ValueError(f"there is no file and no node {given!r}; nodes are called {', '.join(known[:3])}, …")
            centre = known.index(given)
        elif given is not None:
            with at_path(given) as (path, name):
                found = self.opened(path)
            x: Tensor = inputs[self.nodes]
            rows = checked(found["x"], x.shape[1], name)
            edges = torch.from_numpy(ends(found["edges"], len(rows), name))
            inputs = {self.nodes: torch.from_numpy(np.ascontiguousarray(rows)).to(x.dtype), self.edges: edges}
            labels, truth = (None if found.get(key) is None else [str(e) for e in found[key]] for key in ("names", "labels"))
        count = len(inputs[self.nodes])
        if not count:
            raise ValueError("there is nothing to look at: the graph has no nodes")
        called = tuple(labels or map(str, range(count)))
        among = getattr(inputs[self.edges], "edges", inputs[self.edges])  # a Graph has them
        return Given(
            inputs=inputs,
            streams=(Tokens("nodes", called, "items"),) if count <= NAMED else (),
            kind="graph",
            network=Network(
                nodes=self.nodes, edges=among, labels=called, truth=None if truth is None else tuple(truth), centre=centre
            ),
            answers=None if self.classes is None else "classes",
            called=None if self.classes is None else self.classes.__getitem__,
        )


# ---- files


class at_path:
    """A file by its path, or one made of bytes for a while; and what to call it."""

    def __init__(self, given: str | bytes) -> None:
        self.given = given
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> tuple[Path, str]:
        if isinstance(self.given, str):
            if not Path(self.given).is_file():
                raise ValueError(f"there is no file {self.given!r}; give one with points: .npy, .npz or .csv")
            return Path(self.given), self.given
        self.folder = tempfile.TemporaryDirectory()
        ending = next((ending for start, ending in ENDINGS.items() if self.given.startswith(start)), ".csv")
        path = Path(self.folder.name) / f"input{ending}"
        path.write_bytes(self.given)
        return path, path.name

    def __exit__(self, *error: object) -> None:
        if self.folder is not None:
            self.folder.cleanup()


def checked(found: Any, width: int, name: str) -> Array:
    """Rows of as many finite numbers as the model takes."""
    rows = np.asarray(found)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"{name}: the model takes rows of {width} numbers, got an array of shape {rows.shape}")
    if rows.dtype.kind not in "fiu":
        raise ValueError(f"{name}: numbers are expected, got {rows.dtype}")
    wrong = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(wrong):
        raise ValueError(f"{name}: row {wrong[0]} has a number that is not finite; take it out")
    return rows


def ends(found: Any, count: int, name: str) -> Array:
    """Edges among so many nodes.   2 e"""
    edges = np.asarray(found)
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise ValueError(f"{name}: edges should be whole numbers 2 e, from source to target, got {edges.dtype} {edges.shape}")
    wrong = edges[(edges < 0) | (edges >= count)]
    if len(wrong):
        raise ValueError(f"{name}: an edge names node {wrong[0]}, and there are nodes 0 … {count - 1}")
    return edges.astype(np.int64)


def array_of(path: Path) -> Array:
    """The only array of a .npy or .npz, or the numbers of a .csv.   n d"""
    if path.suffix.lower() == ".csv":
        return table_of(path)
    arrays = arrays_of(path)
    for name in ("points", "x"):
        if name in arrays:
            return arrays[name]
    if len(arrays) != 1:
        raise ValueError(f"{path.name} has {len(arrays)} arrays; call the one with the points 'points'")
    return next(iter(arrays.values()))


def graph_of(path: Path) -> Mapping[str, Array]:
    """x and edges of a .npz, with names and labels of the nodes if it has them."""
    arrays = arrays_of(path)
    missing = [name for name in ("x", "edges") if name not in arrays]
    if missing:
        raise ValueError(f"{path.name} has no array {missing[0]!r}; a graph is a .npz with x (n d) and edges (2 e)")
    return arrays


def arrays_of(path: Path) -> dict[str, Array]:
    """The arrays of a .npy or .npz; nothing is unpickled."""
    if path.suffix.lower() not in (".npy", ".npz"):
        raise ValueError(f"{path.name} is no .npy, .npz or .csv; write the numbers into one of these")
    try:
        with np.load(path, allow_pickle=False) if path.suffix.lower() == ".npz" else open(path, "rb") as opened:
            if isinstance(opened, np.lib.npyio.NpzFile):
                return {name: opened[name] for name in opened.files}
            return {"points": np.load(opened, allow_pickle=False)}
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path.name} cannot be read: {' '.join(str(error).split())}") from error


def table_of(path: Path) -> Array:
    """The numbers of a .csv; its first line may name the columns."""
    lines = rows_of(path)
    first = 1 if header_of(path) else 0
    rows = []
    for number, cells in enumerate(lines[first:], first + 1):
        if len(cells) != len(lines[0]):
            raise ValueError(f"{path.name}, line {number}: {len(cells)} columns, and the first line has {len(lines[0])}")
        wrong = next((cell for cell in cells if not is_number(cell)), None)
        if wrong is not None:
            raise ValueError(f"{path.name}, line {number}: {wrong[:40]!r} is no number")
        rows.append([float(cell) for cell in cells])
    return np.array(rows).reshape(len(rows), len(lines[0]) if lines else 0)


def header_of(path: Path) -> tuple[str, ...]:
    """What the first line of a .csv calls the columns; nothing if there is a number in it."""
    if path.suffix.lower() != ".csv":
        return ()
    first = next(iter(rows_of(path)), [])
    return () if any(map(is_number, first)) else tuple(cell.strip() for cell in first)


def rows_of(path: Path) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return [cells for cells in csv.reader(file) if cells]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path.name} is no table of numbers: {' '.join(str(error).split())}") from error


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
