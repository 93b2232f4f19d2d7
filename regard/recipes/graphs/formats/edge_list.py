"""One graph as text: an edge list, and a table of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard import files
from regard.config import config
from regard.data.array import Array
from regard.data.dialect import TableConfig
from regard.data.tables import Table, place_of, read_table
from regard.errors import RegardError, nearest
from regard.recipes.graphs.formats.arrays import parts_of_arrays
from regard.recipes.graphs.parts import SPLITS, Parts, check_edges, one
from regard.recipes.target import number_of

Missing = Literal["refuse", "fill"]
WAYS = "fill them in, or use --data.missing fill (the median of the column)"
ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("node1", "node2"))
IDS = ("id", "node", "name")
TOLD = 5  # columns that a note names
SPLIT_WORDS = {"train": "train", "val": "validation", "validation": "validation", "test": "test", "": None}


@config
class GraphTables(TableConfig):
    """How the tables of a graph are read."""

    columns: tuple[str, ...] = ()  # tables: the feature columns of nodes and edges; none: all columns of numbers
    # missing features in a table of nodes (empty, NA, N/A, NaN, null, ?): an error, or the median of the column
    missing: Missing = "refuse"


def read_edge_list(path: str, nodes: str | None, label: str, config: GraphTables) -> Parts:
    """A graph of a table of edges, and one of nodes or arrays of them."""
    with files.open_regular(path) as file:
        blank = not file.read(1 << 16).strip()
    if blank:
        return one(path, np.zeros((2, 0), dtype=np.int64), 0)
    table = _read_with_header(path, config)
    if nodes is None:
        return join_tables(table, None, label, config)
    if Path(nodes).suffix == ".npz":
        none = {"edges": np.zeros((2, 0), dtype=np.int64)}
        return join_tables(table, parts_of_arrays(none | files.read_arrays(nodes), nodes), label, config)
    return join_tables(table, read_table(nodes, config, least=2), label, config)


def join_tables(table: Table, nodes: Table | Parts | None, label: str, config: GraphTables) -> Parts:
    """Two columns of ends, which are names from a table of nodes or numbers from 0; a label column gives
    labels of edges."""
    lowered = [name.lower() for name in table.names]
    if len(lowered) < 2:
        raise RegardError(f"{table.path} has one value in each line; an edge needs two: source and target")
    ends = next(([lowered.index(end) for end in pair] for pair in ENDS if set(pair) <= set(lowered)), [0, 1])
    source, target = (table.names[end] for end in ends)
    texts = [[str(text) for text in table.texts(name)] for name in (source, target)]
    labels = [text or "" for text in table.labels(label)] if label in table.names else None
    taken = {source, target, *([label] if labels is not None else [])}
    chosen, notes = choose_features(table, taken, config, "edges")
    known: dict[str, Any] = {"edge_labels": labels, "edge_x": None}
    x = table.numbers(chosen, "give --data.columns with columns of numbers", "fill them in", [source, target])
    if chosen and len(table):
        known["edge_x"] = x.astype(np.float32)
    notes = (*table.notes, *notes)
    if nodes is None:
        check_columns(config, [(table, taken)])
        edges, known["names"] = _numbered(texts, table)
        count = int(edges.max(initial=-1)) + 1 if known["names"] is None else len(known["names"])
    elif isinstance(nodes, Parts):
        known |= {"x": nodes.x, "node_labels": nodes.node_labels, "split": nodes.split}
        count = nodes.nodes
        edges = _named(texts, None, count, table, nodes.what)
    else:
        known |= _of_node_table(nodes, label, config, elsewhere=labels is not None)
        check_columns(config, [(table, taken), (nodes, set())])
        notes = (*notes, *nodes.notes, *known.pop("notes"))
        count = len(nodes)
        edges = _named(texts, known["names"], count, table, nodes.path)
    return one(table.path, edges, count, notes=notes, **known)


def _read_with_header(path: str, config: GraphTables) -> Table:
    """The table of edges. Its first line holds names if numbers are below them, or if they are those of ends; a graph of
    named nodes may have no header."""
    table = read_table(path, config, least=2)
    if config.header is not None or {name.lower() for name in table.names} & {name for pair in ENDS for name in pair}:
        return table
    numbers = all(name.isdecimal() for name in table.names)
    if numbers or not any(kind.word in ("number", "id") for kind in table.kinds.values()):
        return read_table(path, replace(config, header=False), least=2)
    return table


def choose_features(
    table: Table, taken: Iterable[str], config: GraphTables, what: str
) -> tuple[list[str], tuple[str, ...]]:
    """The columns that are features: those that are asked for, or all columns of numbers; the others are named in a note."""
    gone = set(taken)
    free = [name for name in table.names if name not in gone]
    if config.columns:
        return [name for name in config.columns if name in free], ()
    left = {name: problem for name in free if (problem := table.problem(name)) and not table.kinds[name].spoiled}
    chosen = [name for name in free if name not in left]
    if not left:
        return chosen, ()
    others = "; ".join(f"{name}, which {left[name]}" for name in list(left)[:TOLD])
    more = f"; and {len(left) - TOLD:,} more" if len(left) > TOLD else ""
    return chosen, (
        f"left out of the {what}: {others}{more}; features are numbers, such as a column of 0 and 1 for each kind",
    )


def check_columns(config: GraphTables, tables: Sequence[tuple[Table, set[str]]]) -> None:
    """Raise if --data.columns names a column that no table has."""
    known = [name for table, taken in tables for name in table.names if name not in taken]
    for name in config.columns:
        place_of(
            name, known, " and ".join(table.path for table, _ in tables), "--data.columns names columns of features"
        )


def _numbered(texts: Sequence[Sequence[str]], table: Table) -> tuple[Array, list[str] | None]:
    """Ends without a table of nodes: whole numbers from 0 are numbers of nodes, anything else is a name."""
    every = [*texts[0], *texts[1]]
    if all(text.isascii() and text.isdigit() for text in every):
        return np.array(texts, dtype=np.int64).reshape(2, -1), None
    for side in texts:
        if (number := next((i for i, text in enumerate(side) if _has_fraction(text)), None)) is not None:
            raise RegardError(
                f"{table.where(number)} has {side[number]}, which is neither the "
                "number nor the name of a node; if these are points of a set, use regard train sets"
            )
    names = sorted(set(every))
    place = {name: i for i, name in enumerate(names)}
    return np.array([[place[text] for text in side] for side in texts], dtype=np.int64).reshape(2, -1), names


def _has_fraction(text: str) -> bool:
    number = number_of(text)
    return number is not None and not number.is_integer()


def _named(texts: Sequence[Sequence[str]], names: Sequence[str] | None, count: int, table: Table, nodes: str) -> Array:
    """Ends as numbers of known nodes, which are those of the table `nodes`."""
    if names is None:
        try:
            edges = np.array(texts, dtype=np.int64).reshape(2, -1)
        except ValueError:
            number, side = next(
                (i, s) for s in texts for i, text in enumerate(s) if not text.removeprefix("-").isdigit()
            )
            raise RegardError(
                f"{table.where(number)} has the end '{side[number]}', but nodes "
                f"without a column id are numbers, 0 … {count - 1}"
            ) from None
        check_edges(edges, count, table)
        return edges
    place = {name: i for i, name in enumerate(names)}
    for number, (source, target) in enumerate(zip(*texts, strict=True)):
        for end in (source, target):
            if end not in place:
                raise RegardError(
                    f"{table.where(number)} has the end '{end}', but there is no "
                    f"node of this name in {nodes}; it has {len(names)}, such as '{names[0]}'"
                )
    return np.array([[place[text] for text in side] for side in texts], dtype=np.int64).reshape(2, -1)


def _of_node_table(table: Table, label: str, config: GraphTables, *, elsewhere: bool) -> dict[str, Any]:
    """Optional columns id, label and split; all others are features. elsewhere: are the labels in another
    table?"""
    lowered = {name.lower(): name for name in reversed(table.names)}
    if not len(table):
        raise RegardError(f"{table.path} has no nodes; give one row for each")
    at_id = next((lowered[each] for each in IDS if each in lowered), None)
    at_label = label if label in table.names else None
    at_split = lowered.get("split")
    ids = None
    if at_id is not None:
        ids = [text or "" for text in table.texts(at_id)]
        if len(set(ids)) < len(ids):
            seen: set[str] = set()
            twice = next(row for row, name in enumerate(ids) if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise RegardError(f"{table.where(twice)} is a second node called '{ids[twice]}'; give each node its own id")
    split: dict[str, Array] = {}
    if at_split is not None:
        words = [(word or "").lower() for word in table.texts(at_split)]
        for row, word in enumerate(words):
            if word not in SPLIT_WORDS:
                raise RegardError(
                    f"{table.where(row)} has the split '{word}'; expected train, validation, test or an empty cell"
                )
        split = {each: np.flatnonzero([SPLIT_WORDS[word] == each for word in words]) for each in SPLITS}
    taken = {name for name in (at_id, at_label, at_split) if name is not None}
    features, notes = choose_features(table, taken, config, "nodes")
    ways = None if config.missing == "fill" else WAYS
    if at_label is None and not elsewhere and not config.columns:
        _check_features(table, [name for name in table.names if name not in taken], label, ways)
    x = None
    if features:
        x = table.numbers(features, "give --data.columns with columns of numbers", ways).astype(np.float32)
    return {
        "x": x,
        "columns": tuple(features),
        "names": ids,
        "node_labels": None if at_label is None else [text or "" for text in table.labels(at_label)],
        "split": split,
        "notes": notes,
    }


def _check_features(table: Table, features: Sequence[str], label: str, ways: str | None) -> None:
    """Raise if a feature is text, and so may be the label under another name: one error about all columns."""
    text = [name for name in features if table.kinds[name].word in ("text", "flag") and not table.kinds[name].spoiled]
    if not text:
        return
    near = nearest(label, text) or text[0]
    advice = (
        f"there is no column '{label}' for the labels, only {', '.join(table.names)}; if one of these is the label, give "
        f"--data.label {near}, and if there are no labels, --data.columns with the columns of numbers"
    )
    table.numbers(features, advice, ways)
    raise RegardError(f"{table.path}: column '{text[0]}' holds yes and no; {advice}")
