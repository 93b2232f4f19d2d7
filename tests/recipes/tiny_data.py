"""A small file of each kind of data that a recipe reads, with forty examples, and options for a model that takes no
time."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COUNT = 40


class Tiny(NamedTuple):
    recipe: str
    data: str | None
    options: dict[str, Any]
    examples: int | None  # those that have a label, or a number; None: a synthetic task, or a text
    classes: bool


def texts(folder: Path) -> Tiny:
    words = ("good fine", "bad poor")
    rows = [f"{words[i % 2]} {i},{i % 2}" for i in range(COUNT)]
    path = folder / "rows.csv"
    path.write_text("\n".join(["text,label", *rows]))
    small = {"model.dim": 8, "model.heads": 1, "model.bag": False, "train.batch": 8}
    return Tiny("text", str(path), small, COUNT, True)


def language(folder: Path) -> Tiny:
    path = folder / "plain.txt"
    path.write_text("".join(chr(97 + i * i % 23) for i in range(2000)))
    small = {"model.dim": 8, "model.heads": 1, "model.depth": 1, "model.ngrams": 1, "data.context": 8}
    return Tiny("text", str(path), small, None, False)


def set_table(folder: Path, numbers: bool = False) -> Tiny:
    random = np.random.default_rng(0)
    rows = []
    for i in range(COUNT):
        target = f"{i + 0.5}" if numbers else "ab"[i % 2]
        rows += [f"{i},{x:.3f},{target}" for x in random.normal(i % 2, 1, 3)]
    path = folder / f"{'numbers' if numbers else 'classes'}.csv"
    path.write_text("\n".join(["set,x,target", *rows]))
    return Tiny("sets", str(path), {"model.hidden": 4, "train.batch": 8}, COUNT, not numbers)


def set_numbers(folder: Path) -> Tiny:
    return set_table(folder, numbers=True)


def made_sets(folder: Path) -> Tiny:
    return Tiny("sets", "max", {"model.hidden": 4, "train.batch": 8}, None, False)


def nodes(folder: Path) -> Tiny:
    random = np.random.default_rng(0)
    label = np.arange(COUNT) % 2
    x = random.normal(label[:, None], 1, (COUNT, 3))
    np.savez(folder / "nodes.npz", edges=random.integers(0, COUNT, (2, 80)), x=x, labels=label)
    return Tiny("graphs", str(folder / "nodes.npz"), {"model.hidden": 4}, COUNT, True)


def edges(folder: Path) -> Tiny:
    place = folder / "linked"
    place.mkdir(exist_ok=True)
    ends = [(i, j) for i in range(20) for j in range(i)][:COUNT]
    rows = [f"{a},{b},{'ab'[i % 2]}" for i, (a, b) in enumerate(ends)]
    (place / "edges.csv").write_text("\n".join(["source,target,label", *rows]))
    features = [f"{i},{i / 20}" for i in range(20)]
    (place / "nodes.csv").write_text("\n".join(["id,x", *features]))
    return Tiny("graphs", str(place), {"model.hidden": 4}, COUNT, True)


def graphs(folder: Path) -> Tiny:
    of = np.repeat(np.arange(COUNT), 3)
    at = 3 * np.arange(COUNT)
    ends = np.stack([np.concatenate([at, at + 1]), np.concatenate([at + 1, at + 2])])
    x = np.random.default_rng(0).normal(size=(len(of), 2))
    np.savez(folder / "graphs.npz", edges=ends, x=x, of=of, labels=np.arange(COUNT) % 2)
    return Tiny("graphs", str(folder / "graphs.npz"), {"model.hidden": 4, "train.batch": 8}, COUNT, True)


def images(folder: Path) -> Tiny:
    label = np.arange(COUNT) % 2
    pixels = np.random.default_rng(0).integers(0, 100, (COUNT, 8, 8)) + 80 * label[:, None, None]
    np.savez(folder / "images.npz", images=pixels.astype(np.uint8), labels=label)
    small = {"model.stem": 4, "model.widths": [4, 8], "model.residual": [0, 0], "train.batch": 8}
    return Tiny("images", str(folder / "images.npz"), small, COUNT, True)


def meshes(folder: Path) -> Tiny:
    """Tetrahedra, tall and flat."""
    for i in range(COUNT):
        place = folder / "solids" / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        tall = 3 if i % 2 else 0.3
        points = [(0, 0, 0), (1, 0, 0), (0, 1 + i / COUNT, 0), (0, 0, tall)]
        lines = [f"v {x} {y} {z}" for x, y, z in points] + ["f 1 3 2", "f 1 2 4", "f 2 3 4", "f 3 1 4"]
        (place / f"{i}.obj").write_text("\n".join(lines))
    return Tiny("meshes", str(folder / "solids"), {"model.hidden": 4, "train.batch": 8}, COUNT, True)


def text_numbers(folder: Path) -> Tiny:
    path = folder / "stars.csv"
    path.write_text("\n".join(["text,label", *(f"{'good ' * (i % 7)}film {i},{i % 7 + 0.5}" for i in range(COUNT))]))
    small = {"model.dim": 8, "model.heads": 1, "model.bag": False, "train.batch": 8}
    return Tiny("text", str(path), small, COUNT, False)


def set_points(folder: Path) -> Tiny:
    """Sets with a class for each of their points."""
    random = np.random.default_rng(0)
    path = folder / "points.csv"
    rows = [f"{i},{random.normal(k, 1):.3f},{'ab'[k]}" for i in range(COUNT) for k in (0, 1, 1)]
    path.write_text("\n".join(["set,x,target", *rows]))
    return Tiny("sets", str(path), {"model.hidden": 4, "train.batch": 8}, COUNT, True)


def vertices(folder: Path, odd: str = "1") -> Tiny:
    """Tetrahedra with a class for each vertex. odd: that of the last one of all"""
    place = folder / f"vertices-{odd}"
    place.mkdir(exist_ok=True)
    head = ["ply", "format ascii 1.0", "element vertex 4", *(f"property float {axis}" for axis in "xyz")]
    head += ["property float label", "element face 4", "property list uchar int vertex_indices", "end_header"]
    faces = ["3 0 2 1", "3 0 1 3", "3 1 2 3", "3 2 0 3"]
    for i in range(COUNT):
        last = odd if i == COUNT - 1 else "1"
        points = ["0 0 0 0", "1 0 0 0", f"0 {1 + i / COUNT} 0 1", f"0 0 1 {last}"]
        (place / f"{i}.ply").write_text("\n".join([*head, *points, *faces]))
    return Tiny("meshes", str(place), {"model.hidden": 4, "train.batch": 8}, COUNT, True)


def series(folder: Path) -> Tiny:
    """Lines that rise and lines that fall."""
    label = np.arange(COUNT) % 2
    slope = np.where(label == 0, 1.0, -1.0)[:, None] * np.linspace(-1, 1, 12)
    values = slope + np.random.default_rng(0).normal(0, 0.2, slope.shape)
    np.savez(folder / "series.npz", values=values[..., None], labels=np.array(["up", "down"])[label])
    small = {"model.dim": 8, "model.heads": 1, "model.depth": 1, "train.batch": 8}
    return Tiny("series", str(folder / "series.npz"), small, COUNT, True)


KINDS = {
    make.__name__: make
    for make in (texts, language, set_table, set_numbers, made_sets, nodes, edges, graphs, meshes, images)
}
