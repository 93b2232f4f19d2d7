"""Graphs from files: an edge list with a table of nodes, one .npz with everything, a folder of edge lists,
the TU format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard import files
from regard.data.tables import read_table
from regard.errors import RegardError
from regard.recipes.graphs.formats.arrays import parts_of_arrays
from regard.recipes.graphs.formats.edge_list import GraphTables, read_edge_list
from regard.recipes.graphs.formats.tu import read_tu
from regard.recipes.graphs.parts import Parts, side_by_side

KNOWN = "an edge list (.csv, .tsv, .txt), a .npz, or a folder (edges.csv and nodes.csv, edge lists, or TU files)"


def read_graphs(
    path: str, *, nodes: str | None = None, label: str = "label", config: GraphTables | None = None
) -> Parts:
    """Read the graphs at a path, in any format of this module. config: how tables are read; missing features that are to
    be filled are NaN"""
    with files.readable_as(path, "a graph"):
        return _read(path, nodes, label, config or GraphTables())


def _read(path: str, nodes: str | None, label: str, config: GraphTables) -> Parts:
    where = Path(path)
    if where.is_dir():
        return _of_folder(where, nodes, label, config)
    if not where.exists():
        raise RegardError(f"there is no file or folder {path}; give {KNOWN}")
    if where.suffix == ".npz":
        return parts_of_arrays(files.read_arrays(path), path)
    if where.suffix.lower() not in (".csv", ".tsv", ".txt", ".edges"):
        raise RegardError(f"{path} is not a graph; give {KNOWN}")
    return read_edge_list(path, nodes or find_node_table(where), label, config)


def stamp(path: str, nodes: str | None) -> tuple[tuple[str, int, int], ...]:
    """The files at a path with their sizes and times: while this stays the same, so does what is read."""
    where = Path(path)
    if where.is_dir():
        found = sorted(where.rglob("*"))
    else:
        found = [where, *map(Path, filter(None, [find_node_table(where)]))]
    stats = [(str(file), file.stat()) for file in (*found, *([Path(nodes)] if nodes else [])) if file.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def find_node_table(file: Path) -> str | None:
    """NAME.nodes.csv, where the features of the edge list NAME.csv may lie."""
    table = file.with_name(f"{file.stem}.nodes.csv")
    if table.exists():
        return str(table)
    return None


# ── folders


def _of_folder(folder: Path, nodes: str | None, label: str, config: GraphTables) -> Parts:
    edges = next((folder / name for name in ("edges.csv", "edges.tsv", "edges.txt") if (folder / name).exists()), None)
    if edges is not None:
        table = next(
            (folder / name for name in ("nodes.csv", "nodes.tsv", "nodes.npz") if (folder / name).exists()), None
        )
        parts = read_edge_list(str(edges), nodes or (None if table is None else str(table)), label, config)
        return replace(parts, what=str(folder))
    indicators = sorted(folder.glob("*_graph_indicator.txt"))
    if indicators:
        return read_tu(folder, indicators[0].name.removesuffix("_graph_indicator.txt"), config)
    return _of_edge_lists(folder, label, config)


def _of_edge_lists(folder: Path, label: str, config: GraphTables) -> Parts:
    """One graph per file, with NAME.nodes.csv beside NAME.csv for its features; labels in labels.csv, or one
    folder per class."""
    found = [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in (".csv", ".tsv", ".txt", ".edges")]
    found = [f for f in found if f.name not in ("labels.csv", "README.txt") and not f.stem.endswith(".nodes")]
    if not found:
        raise RegardError(f"{folder} holds no edge lists; give {KNOWN}")
    graphs = [read_edge_list(str(file), find_node_table(file), label, config) for file in found]
    names = [str(file.relative_to(folder).with_suffix("")) for file in found]
    labels = _labels_of(folder, names, label, config)
    return side_by_side(str(folder), graphs, graph_names=names, graph_labels=labels)


def _labels_of(folder: Path, names: Sequence[str], label: str, config: GraphTables) -> list[str] | None:
    """From labels.csv (graph, label), or from the folder that each file lies in."""
    path = folder / "labels.csv"
    if not path.exists():
        if all("/" in name for name in names):
            return [name.split("/")[0] for name in names]
        return None
    table = read_table(path, config, least=2)
    table.place(label, "choose the column with --data.label")
    others = [name for name in table.names if name != label]
    graphs = [
        Path(each or "").with_suffix("").as_posix() if Path(each or "").suffix else each or ""
        for each in table.texts(others[0])
    ]
    known = {graph: word or "" for graph, word in zip(graphs, table.labels(label), strict=True)}
    for row, graph in enumerate(graphs):
        if graph not in set(names):
            raise RegardError(f"{table.where(row)} has the graph '{graph}', but {folder} has no such file")
    return [known.get(name, "") for name in names]
