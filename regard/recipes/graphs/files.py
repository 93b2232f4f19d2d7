"""Graphs from files: an edge list with a table of nodes, one .npz with everything, a folder of edge lists,
the TU format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard import files
from regard.data.array import Array
from regard.data.columns import Columns, is_number, read_columns
from regard.data.missing import is_missing
from regard.errors import RegardError, nearest
from regard.recipes.graphs.labels import has_fraction
from regard.recipes.graphs.parts import (
    SPLITS,
    Parts,
    Rows,
    check_count,
    check_edge_x,
    check_edges,
    check_finite,
    one,
    side_by_side,
)

ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("node1", "node2"))
IDS = ("id", "node", "name")
SPLIT_WORDS = {"train": "train", "val": "validation", "validation": "validation", "test": "test", "": None}
ARRAYS = {
    "edges": ("edges", "edge_index"),
    "x": ("x", "features", "feat"),
    "labels": ("labels", "y", "label"),
    "edge_x": ("edge_attr", "edge_features", "edge_x"),
    "of": ("of", "batch", "graph"),
    "train": ("train_idx", "train_mask", "train"),
    "validation": ("val_idx", "validation_idx", "val_mask", "validation_mask", "validation"),
    "test": ("test_idx", "test_mask", "test"),
}
Missing = Literal["refuse", "fill"]
WAYS: dict[Missing, str | None] = {
    "refuse": "fill it in, or use --data.missing fill (the median of the column)",
    "fill": None,
}
KNOWN = (
    "an edge list (.csv, .tsv, .txt), a .npz, or a folder (edges.csv and nodes.csv, edge lists, or TU files)"
)


def read_graphs(
    path: str, *, nodes: str | None = None, label: str = "label", missing: Missing = "refuse"
) -> Parts:
    """Read the graphs at a path, in any format of this module. missing: what to do about features of nodes that
    are missing in a table; to fill: they are NaN"""
    with files.readable_as(path, "a graph"):
        return _read(path, nodes, label, WAYS[missing])


def _read(path: str, nodes: str | None, label: str, ways: str | None) -> Parts:
    where = Path(path)
    if where.is_dir():
        return _of_folder(where, nodes, label, ways)
    if not where.exists():
        raise RegardError(f"there is no file or folder {path}; give {KNOWN}")
    if where.suffix == ".npz":
        return _of_arrays(files.read_arrays(path), path)
    if where.suffix.lower() not in (".csv", ".tsv", ".txt", ".edges"):
        raise RegardError(f"{path} is not a graph; give {KNOWN}")
    return _of_edge_list(path, nodes or _beside(where), label, ways)


def stamp(path: str, nodes: str | None) -> tuple[tuple[str, int, int], ...]:
    """The files at a path with their sizes and times: while this stays the same, so does what is read."""
    where = Path(path)
    if where.is_dir():
        found = sorted(where.rglob("*"))
    else:
        found = [where, *map(Path, filter(None, [_beside(where)]))]
    stats = [
        (str(file), file.stat()) for file in (*found, *([Path(nodes)] if nodes else [])) if file.is_file()
    ]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def _beside(file: Path) -> str | None:
    """NAME.nodes.csv, where the features of the edge list NAME.csv may lie."""
    table = file.with_name(f"{file.stem}.nodes.csv")
    if table.exists():
        return str(table)
    return None


# ── one graph as text


def _of_edge_list(path: str, nodes: str | None, label: str, ways: str | None) -> Parts:
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
        held = _of_arrays({"edges": np.zeros((2, 0), dtype=np.int64)} | files.read_arrays(nodes), nodes)
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


# ── arrays


def _of_arrays(arrays: Mapping[str, Array], what: str) -> Parts:
    """edges (2 e or e 2), x (n d) or sparse rows (feat_indptr, feat_indices, feat_shape[, feat_values]),
    labels, of, splits.

    With `of` (the graph of each node) labels are those of graphs if there are as many as graphs.
    """
    found = {
        name: next((arrays[each] for each in called if each in arrays), None)
        for name, called in ARRAYS.items()
    }
    if found["edges"] is None:
        raise RegardError(
            f"{what} holds the arrays {', '.join(arrays)}, but no edges; add edges (2 e, sources and targets)"
        )
    edges = _whole(found["edges"], "edges", what)
    if edges.ndim != 2 or 2 not in edges.shape:
        raise RegardError(f"edges of {what} must have the shape 2 e or e 2, got {edges.shape}")
    if edges.shape[0] != 2:
        edges = edges.T
    if "feat_indptr" in arrays:
        x: Rows | Array | None = _rows_of(arrays, what)
    else:
        x = found["x"]
    labels, of = found["labels"], found["of"]
    if isinstance(x, np.ndarray):
        if x.ndim != 2 or x.dtype.kind not in "fiub":
            raise RegardError(f"x of {what} must be numbers n d, got {x.dtype} {x.shape}")
        check_finite(x, what)
        x = x.astype(np.float32)
    count = next((len(each) for each in (x, of, labels) if each is not None), 0)
    if not count and edges.size:
        count = int(edges.max()) + 1
    check_edges(edges, count, what)
    split = {name: places(mask, name, what) for name in SPLITS if (mask := found[name]) is not None}
    edge_x = None if found["edge_x"] is None else check_edge_x(found["edge_x"], edges, what)
    if of is None:
        labels_for = _label_level(labels, {"node": count, "graph": 1}, what)
        return one(
            what,
            edges,
            count,
            x=x,
            edge_x=edge_x,
            split=split,
            **{f"{labels_for}_labels": labels} if labels is not None else {},
        )
    return _apart(what, edges, _whole(of, "of", what), x, labels, split, edge_x=edge_x)


def _apart(
    what: str,
    edges: Array,
    of: Array,
    x: Any,
    labels: Any,
    split: dict[str, Array],
    graphs: int = 0,
    edge_x: Array | None = None,
) -> Parts:
    """Many graphs from one disconnected graph: `of` holds the graph of each node, in order."""
    graphs = max(graphs, int(of.max(initial=-1)) + 1)
    check_count(graphs, "graphs", what)
    if len(of) and ((np.diff(of) < 0).any() or of[0] < 0):
        raise RegardError(f"the array 'of' of {what} must not decrease; keep the nodes of a graph together")
    across = np.flatnonzero(of[edges[0]] != of[edges[1]])
    if len(across):
        number = across[0]
        raise RegardError(
            f"edge {number} of {what} leads from graph {of[edges[0, number]]} to graph {of[edges[1, number]]}"
        )
    owner = of[edges[0]]
    order = np.argsort(owner, kind="stable")
    level = _label_level(labels, {"graph": graphs, "node": len(of)}, what)
    counted = [np.concatenate([[0], np.cumsum(np.bincount(each, minlength=graphs))]) for each in (of, owner)]
    more: dict[str, Any] = {} if labels is None else {f"{level}_labels": labels}
    if edge_x is not None:
        more["edge_x"] = edge_x[order]
    return Parts(
        what=what, edges=edges[:, order], starts=counted[0], edge_starts=counted[1], x=x, split=split, **more
    )


def _label_level(labels: Any, counts: Mapping[str, int], what: str) -> str:
    """The level of the labels, by their number."""
    if labels is None:
        return "node"
    for level, count in counts.items():
        if len(labels) == count:
            return level
    said = " or ".join(f"{count} {level}s" for level, count in counts.items())
    raise RegardError(f"{what} has {len(labels)} labels for {said}; give one for each")


def _rows_of(arrays: Mapping[str, Array], what: str) -> Rows:
    starts, columns = (_whole(arrays[f"feat_{name}"], f"feat_{name}", what) for name in ("indptr", "indices"))
    count, width = map(int, arrays["feat_shape"])
    values = arrays.get("feat_values", np.ones(len(columns)))
    inside = not len(columns) or 0 <= columns.min() <= columns.max() < width
    in_order = len(starts) == count + 1 and starts[0] == 0 and (np.diff(starts) >= 0).all()
    if not inside or not in_order or not starts[-1] == len(columns) == len(values):
        raise RegardError(f"the sparse features of {what} do not fit their shape {count} × {width}")
    return Rows(starts, columns, values.astype(np.float32), width)


def _whole(array: Array, name: str, what: str) -> Array:
    if array.dtype.kind not in "iu":
        raise RegardError(f"{name} of {what} must be whole numbers, got {array.dtype}")
    return array.astype(np.int64)


def places(mask: Array, name: str, what: str) -> Array:
    """Indices, from indices or from a bool mask."""
    if mask.dtype == bool:
        return np.flatnonzero(mask)
    return _whole(mask, name, what)


# ── folders


def _of_folder(folder: Path, nodes: str | None, label: str, ways: str | None) -> Parts:
    edges = next(
        (folder / name for name in ("edges.csv", "edges.tsv", "edges.txt") if (folder / name).exists()), None
    )
    if edges is not None:
        table = next(
            (folder / name for name in ("nodes.csv", "nodes.tsv", "nodes.npz") if (folder / name).exists()),
            None,
        )
        parts = _of_edge_list(str(edges), nodes or (None if table is None else str(table)), label, ways)
        return replace(parts, what=str(folder))
    indicators = sorted(folder.glob("*_graph_indicator.txt"))
    if indicators:
        return _of_tu(folder, indicators[0].name.removesuffix("_graph_indicator.txt"), ways)
    return _of_edge_lists(folder, label, ways)


def _of_edge_lists(folder: Path, label: str, ways: str | None) -> Parts:
    """One graph per file, with NAME.nodes.csv beside NAME.csv for its features; labels in labels.csv, or one
    folder per class."""
    found = [
        file
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in (".csv", ".tsv", ".txt", ".edges")
    ]
    found = [f for f in found if f.name not in ("labels.csv", "README.txt") and not f.stem.endswith(".nodes")]
    if not found:
        raise RegardError(f"{folder} holds no edge lists; give {KNOWN}")
    graphs = [_of_edge_list(str(file), _beside(file), label, ways) for file in found]
    names = [str(file.relative_to(folder).with_suffix("")) for file in found]
    labels = _labels_of(folder, names, label)
    return side_by_side(str(folder), graphs, graph_names=names, graph_labels=labels)


def _labels_of(folder: Path, names: Sequence[str], label: str) -> list[str] | None:
    """From labels.csv (graph, label), or from the folder that each file lies in."""
    path = folder / "labels.csv"
    if not path.exists():
        if all("/" in name for name in names):
            return [name.split("/")[0] for name in names]
        return None
    table = read_columns(str(path), header=True)
    at = table.place(label, "choose the column with --data.label")
    graphs = [
        Path(each).with_suffix("").as_posix() if Path(each).suffix else each
        for each in table.texts(0 if at else 1)
    ]
    known = dict(zip(graphs, table.texts(at), strict=True))
    for line, graph in zip(table.lines, graphs, strict=True):
        if graph not in set(names):
            raise RegardError(f"line {line} of {path} has the graph '{graph}', but {folder} has no such file")
    return [known.get(name, "") for name in names]


def _of_tu(folder: Path, name: str, ways: str | None) -> Parts:
    """NAME_A.txt and NAME_graph_indicator.txt, counted from 1, with labels and attributes of nodes and graphs
    beside them."""

    def table(what: str) -> Columns | None:
        path = folder / f"{name}_{what}.txt"
        if path.exists():
            return read_columns(str(path), header=False)
        return None

    ends, of = table("A"), table("graph_indicator")
    if ends is None or of is None:
        raise RegardError(
            f"{folder} has {name}_graph_indicator.txt but no {name}_A.txt; the TU format needs both"
        )
    graph_of = _whole_column(of, 0) - 1
    edges = np.zeros((2, 0), dtype=np.int64)
    if ends.rows:
        edges = np.stack([_whole_column(ends, i) - 1 for i in (0, 1)])
    wrong = np.flatnonzero(((edges < 0) | (edges >= len(graph_of))).any(0))
    if len(wrong):
        given = ", ".join(ends.rows[wrong[0]])
        line = ends.lines[wrong[0]]
        raise RegardError(
            f"line {line} of {ends.path} is the edge {given}, but the nodes are 1 … {len(graph_of)}"
        )
    features: list[Array] = []
    if (numbers := table("node_attributes")) is not None:
        features.append(numbers.numbers(range(len(numbers.rows[0])), ways=ways))
    kinds = None
    if (node_labels := table("node_labels")) is not None:
        kinds = node_labels.texts(0)
        known, place = np.unique(_whole_column(node_labels, 0), return_inverse=True)
        features.append(np.eye(len(known), dtype=np.float32)[place])
    for each in features:
        if len(each) != len(graph_of):
            raise RegardError(
                f"{folder} has {len(graph_of)} nodes but features of {len(each)}; give one row for each node"
            )
    labels = table("graph_labels") or table("graph_attributes")
    graphs = max(int(graph_of.max(initial=-1)) + 1, 0 if labels is None else len(labels))
    x = np.concatenate(features, 1) if features else None
    known_labels = None if labels is None else labels.texts(0)
    edge_x = _tu_edge_features(table, edges, str(folder))
    parts = _apart(str(folder), edges, graph_of, x, known_labels, {}, graphs, edge_x)
    return replace(parts, names=_counted(parts.nodes), graph_names=_counted(parts.graphs), kinds=kinds)


def _tu_edge_features(table: Callable[[str], Columns | None], edges: Array, what: str) -> Array | None:
    """NAME_edge_attributes.txt, and NAME_edge_labels.txt with one column for each label."""
    found: list[Array] = []
    if (numbers := table("edge_attributes")) is not None and numbers.rows:
        found.append(numbers.numbers(range(len(numbers.rows[0]))))
    if (labels := table("edge_labels")) is not None:
        known, place = np.unique(_whole_column(labels, 0), return_inverse=True)
        found.append(np.eye(len(known), dtype=np.float32)[place])
    for each in found:
        if len(each) != edges.shape[1]:
            raise RegardError(
                f"{what} has {edges.shape[1]} edges but features of {len(each)}; give one row for each edge"
            )
    return np.concatenate(found, 1) if found else None


def _counted(count: int) -> list[str]:
    """Names 1, 2, 3 …: this format counts from 1."""
    return [str(number) for number in range(1, count + 1)]


def _whole_column(table: Columns, column: int) -> Array:
    for line, row in zip(table.lines, table.rows, strict=True):
        if len(row) <= column or not re.fullmatch(r"\s*-?\d+\s*", row[column]):
            raise RegardError(f"line {line} of {table.path} has '{' '.join(row)}' , expected a whole number")
    return np.array([int(row[column]) for row in table.rows], dtype=np.int64)
