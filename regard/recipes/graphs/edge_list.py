"""One graph as text: an edge list, and a table of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard import files
from regard.data.array import Array
from regard.data.columns import Columns, is_number, read_columns
from regard.data.missing import is_missing
from regard.errors import RegardError, nearest
from regard.recipes.graphs.arrays import parts_of_arrays
from regard.recipes.graphs.labels import has_fraction
from regard.recipes.graphs.parts import SPLITS, Parts, check_edges, one

ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("node1", "node2"))
IDS = ("id", "node", "name")
SPLIT_WORDS = {"train": "train", "val": "validation", "validation": "validation", "test": "test", "": None}


def read_edge_list(path: str, nodes: str | None, label: str, ways: str | None) -> Parts:
    """Two columns of ends, which are names from a table of nodes or numbers from 0; a label column gives
    labels of edges."""
    table = read_columns(path, header=None)
    lowered = tuple(name.lower() for name in table.names or ())
    if table.names is None and table.rows:  # a header above ends that are names too
        words = [cell.strip().lower() for cell in table.rows[0]]
        if any(set(pair) <= set(words) for pair in ENDS):
            table = Columns(
                path, tuple(cell.strip() for cell in table.rows[0]), table.rows[1:], table.lines[1:]
            )
            lowered = tuple(words)
    ends = next(([lowered.index(end) for end in pair] for pair in ENDS if set(pair) <= set(lowered)), [0, 1])
    if table.rows and len(table.rows[0]) < 2:
        raise RegardError(
            f"line {table.lines[0]} of {path} has one value; an edge needs two: source and target"
        )
    if table.rows:
        texts = [table.texts(end) for end in ends]
    else:
        texts = [[], []]
    labels, taken = None, set(ends)
    if table.names and label in table.names:
        labels = table.texts(table.names.index(label))
        taken.add(table.names.index(label))
    more = _edge_columns(table, taken)
    if nodes is None:
        edges, names = _numbered(texts, table)
        if names is not None:
            count = len(names)
        else:
            count = int(edges.max(initial=-1)) + 1
        return one(path, edges, count, names=names, edge_labels=labels, **more)
    if Path(nodes).suffix == ".npz":
        held = parts_of_arrays({"edges": np.zeros((2, 0), dtype=np.int64)} | files.read_arrays(nodes), nodes)
        known: dict[str, Any] = {"x": held.x, "node_labels": held.node_labels, "split": held.split}
        edges, count = _named(texts, None, held.nodes, table, nodes), held.nodes
    else:
        rows = read_columns(nodes, header=True)
        known = _of_node_table(rows, label, ways, elsewhere=labels is not None)
        edges, count = _named(texts, known["names"], len(rows), table, nodes), len(rows)
    return one(path, edges, count, edge_labels=labels, **known, **more)


def _edge_columns(table: Columns, taken: set[int]) -> dict[str, Any]:
    """Columns of numbers beside the ends are features of edges; columns of text are left out, and named."""
    others = [i for i in range(len(table.names or ())) if i not in taken]
    numbers = [i for i in others if all(map(is_number, table.texts(i)))]
    words = [str(table.names[i]) for i in others if i not in numbers and table.names is not None]
    notes: tuple[str, ...] = ()
    if words and table.rows:
        notes = (
            f"left out of the edges: {', '.join(words)}, which holds text; features of edges are numbers, such as "
            "a column of 0 and 1 for each kind",
        )
    return {"edge_x": table.numbers(numbers) if numbers and table.rows else None, "notes": notes}


def _numbered(texts: Sequence[Sequence[str]], table: Columns) -> tuple[Array, list[str] | None]:
    """Ends without a table of nodes: whole numbers from 0 are numbers of nodes, anything else is a name."""
    every = [*texts[0], *texts[1]]
    if all(text.isascii() and text.isdigit() for text in every):
        return np.array(texts, dtype=np.int64).reshape(2, -1), None
    for side in texts:
        if "" in side:
            raise RegardError(
                f"line {table.lines[side.index('')]} of {table.path} has an empty end; an edge needs two "
                "nodes"
            )
    for side in texts:
        if (number := next((i for i, text in enumerate(side) if has_fraction(text)), None)) is not None:
            raise RegardError(
                f"line {table.lines[number]} of {table.path} has {side[number]}, which is neither the "
                "number nor the name of a node; if these are points of a set, use regard train sets"
            )
    names = sorted(set(every))
    place = {name: i for i, name in enumerate(names)}
    return np.array([[place[text] for text in side] for side in texts], dtype=np.int64).reshape(2, -1), names


def _named(
    texts: Sequence[Sequence[str]], names: Sequence[str] | None, count: int, table: Columns, nodes: str
) -> Array:
    """Ends as numbers of known nodes, which are those of the table `nodes`."""
    if names is None:
        try:
            edges = np.array(texts, dtype=np.int64).reshape(2, -1)
        except ValueError:
            number, side = next(
                (i, s) for s in texts for i, text in enumerate(s) if not text.removeprefix("-").isdigit()
            )
            raise RegardError(
                f"line {table.lines[number]} of {table.path} has the end '{side[number]}', but nodes "
                f"without a column id are numbers, 0 … {count - 1}"
            ) from None
        check_edges(edges, count, table.path, table.lines)
        return edges
    place = {name: i for i, name in enumerate(names)}
    for number, (source, target) in enumerate(zip(*texts, strict=True)):
        for end in (source, target):
            if end not in place:
                raise RegardError(
                    f"line {table.lines[number]} of {table.path} has the end '{end}', but there is no "
                    f"node of this name in {nodes}; it has {len(names)}, such as '{names[0]}'"
                )
    return np.array([[place[text] for text in side] for side in texts], dtype=np.int64).reshape(2, -1)


def _of_node_table(table: Columns, label: str, ways: str | None, *, elsewhere: bool) -> dict[str, Any]:
    """Optional columns id, label and split; all others are features. elsewhere: are the labels in another
    table?"""
    names = [name.lower() for name in table.names or ()]
    if not table.rows:
        raise RegardError(f"{table.path} has no nodes; give one row for each")
    at_id = next((names.index(each) for each in IDS if each in names), None)
    if table.names and label in table.names:
        at_label = table.names.index(label)
    else:
        at_label = None
    at_split = names.index("split") if "split" in names else None
    features = [i for i in range(len(names)) if i not in (at_id, at_label, at_split)]
    ids = None if at_id is None else table.texts(at_id)
    if ids is not None and len(set(ids)) < len(ids):
        twice = next(i for i, name in enumerate(ids) if name in ids[:i])
        raise RegardError(
            f"line {table.lines[twice]} of {table.path} is a second node called '{ids[twice]}'; give each "
            "node its own id"
        )
    split: dict[str, Array] = {}
    if at_split is not None:
        words = [word.lower() for word in table.texts(at_split)]
        for row, word in enumerate(words):
            if word not in SPLIT_WORDS:
                raise RegardError(
                    f"line {table.lines[row]} of {table.path} has the split '{word}'; "
                    "expected train, validation, test or an empty cell"
                )
        split = {each: np.flatnonzero([SPLIT_WORDS[word] == each for word in words]) for each in SPLITS}
    if at_label is None and not elsewhere:
        _check_features(table, features, label)
    return {
        "x": table.numbers(features, ways=ways) if features else None,
        "columns": tuple((table.names or ())[i] for i in features),
        "names": ids,
        "node_labels": None if at_label is None else table.texts(at_label),
        "split": split,
    }


def _check_features(table: Columns, features: Sequence[int], label: str) -> None:
    """Raise if a feature is text, and so may be the label under another name."""
    names = table.names or ()
    words = {i: next((cell for cell in table.texts(i) if _is_word(cell)), None) for i in features}
    text = [names[i] for i in features if words[i] is not None]
    if not text:
        return
    near = nearest(label, text) or text[0]
    cell = next(word for i, word in words.items() if names[i] == text[0])
    raise RegardError(
        f"{table.path} has no column '{label}' for the labels, it has: {', '.join(names)}; and '{text[0]}' is no "
        f"feature, because it holds text such as '{cell}'; if it is the label, give --data.label {near}"
    )


def _is_word(cell: str) -> bool:
    return not is_missing(cell) and not is_number(cell)
