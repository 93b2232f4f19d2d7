"""Every kind of data with labels has what the others have, found out by doing it."""

import csv
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

import regard
from regard.errors import RegardError
from regard.recipes.base import get_recipe
from regard.recipes.job import DataContext
from regard.recipes.request import TrainRequest
from regard.runs.run import Run
from regard.verbs.compare import compare
from regard.verbs.look import look
from regard.verbs.train_run import prepare_job
from tests.recipes import tiny_data
from tests.recipes.tiny_data import COUNT, Tiny

# kind -> what it is not asked for -> why
NUMBERS = dict.fromkeys(("smoothing", "class weights"), "it is for classes")
NO_SUM = {"evidence": "no model of it is a sum over parts"}
EACH = {"evidence": "each part has a prediction of its own"}
NOT_ASKED = {
    "image": NO_SUM,
    "point": EACH,
    "node": EACH,
    "edge": EACH,
    "graph": NO_SUM,
    "vertex": EACH,
    "text number": NUMBERS,
    "series": NO_SUM,
}
# ── forty examples of each kind: in files, with one cell missing, and in memory


class Kind(NamedTuple):
    tiny: Tiny
    holed: dict[str, Any]  # options for the same data with a missing cell
    memory: tuple[Any, ...]  # the same data as objects, in the ways that somebody may have it
    example: str | None = None  # one input; None: the data


def image(folder):
    label, options = np.arange(COUNT) % 2, {"model.stem": 4, "model.widths": [4, 8], "model.residual": [0, 0]}
    pixels = np.random.default_rng(0).integers(0, 100, (COUNT, 8, 8)) + 80 * label[:, None, None]
    pixels, rows = pixels.astype(np.uint8), []
    for i in range(COUNT):
        file = folder / "images" / "ab"[label[i]] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[i]).save(file)
        rows.append({"file": str(file), "label": "ab"[label[i]]})
    tiny = Tiny("images", str(folder / "images"), options | {"train.batch": 8}, COUNT, True)
    held = [{"file": Image.fromarray(each), "label": row["label"]} for each, row in zip(pixels, rows, strict=True)]
    memory = ((pixels, label), ([each["file"] for each in held], label), held, rows)
    return Kind(tiny, {"data.path": holed_table(folder, rows, "label")}, memory)


def of_table(make, column, example=None):
    def kind(folder):
        tiny = make(folder)
        with open(tiny.data) as file:
            rows = list(csv.DictReader(file))
        return Kind(tiny, {"data.path": holed_table(folder, rows, column)}, in_memory(rows), example)

    return kind


def node(folder):
    tiny = tiny_data.nodes(folder)
    found = dict(np.load(tiny.data))
    rows = [
        {"id": i, "x": x, "label": y} for i, (x, y) in enumerate(zip(found["x"][:, 0], found["labels"], strict=True))
    ]
    ends = [{"source": a, "target": b} for a, b in found["edges"].T]
    holed = {"data.path": write(folder / "edges.csv", ends), "data.nodes": holed_table(folder, rows, "x")}
    return Kind(tiny, holed, (data_of(found["edges"], x=found["x"], y=found["labels"]),))


def edge(folder):
    tiny = tiny_data.edges(folder)
    with open(f"{tiny.data}/nodes.csv") as file:
        nodes = list(csv.DictReader(file))
    with open(f"{tiny.data}/edges.csv") as file:
        ends = [(int(row["source"]), int(row["target"])) for row in csv.DictReader(file)]
    x = np.array([[float(row["x"])] for row in nodes])
    holed = {"data.path": f"{tiny.data}/edges.csv", "data.nodes": holed_table(folder, nodes, "x")}
    return Kind(tiny, holed, (data_of(np.array(ends).T, x=x, y=np.arange(len(ends)) % 2),))


def graph(folder):
    tiny, objects = tiny_data.graphs(folder), []
    found, place = dict(np.load(tiny.data)), folder / "holed"
    place.mkdir()
    for i in range(COUNT):
        x = found["x"][3 * i : 3 * i + 3]
        write(place / f"{i}.csv", [{"source": 0, "target": 1}, {"source": 1, "target": 2}])
        rows = [{"id": k, "x": "" if i == k == 0 else value} for k, value in enumerate(x[:, 0])]
        write(place / f"{i}.nodes.csv", rows)
        objects.append(data_of(np.array([[0, 1], [1, 2]]), x=x, y=np.array([i % 2])))
    write(place / "labels.csv", [{"graph": i, "label": i % 2} for i in range(COUNT)])
    return Kind(tiny, {"data.path": str(place)}, (objects,))


def mesh(folder):
    tiny = tiny_data.meshes(folder)
    names = [str(file.relative_to(tiny.data)) for file in sorted(Path(tiny.data).rglob("*.obj"))]
    rows = [{"file": name, "target": name[0]} for name in names]
    holed = {"data.targets": holed_table(folder, rows, "target")}
    return Kind(tiny, holed, (triangles([i % 2 for i in range(COUNT)]),))


def vertex(folder):
    holed = {"data.path": tiny_data.vertices(folder, odd="nan").data}
    return Kind(tiny_data.vertices(folder), holed, (triangles([[0, 0, 1, 1]] * COUNT),))


def series(folder):
    tiny = tiny_data.series(folder)
    found = dict(np.load(tiny.data))
    whole = found["values"].copy()
    found["values"][3, 5] = np.nan
    np.savez(folder / "holed.npz", **found)
    return Kind(tiny, {"data.path": str(folder / "holed.npz")}, ((whole, found["labels"]),))


KINDS: dict[str, Callable[[Path], Kind]] = {
    "image": image,
    "set": of_table(tiny_data.set_table, "x"),
    "point": of_table(tiny_data.set_points, "x"),
    "node": node,
    "edge": edge,
    "graph": graph,
    "mesh": mesh,
    "vertex": vertex,
    "text": of_table(tiny_data.texts, "text", "good fine"),
    "text number": of_table(tiny_data.text_numbers, "text", "good film"),
    "series": series,
}


def write(path, rows):
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return str(path)


def holed_table(folder, rows, column):
    """The table with its sixth cell of a column empty."""
    return write(folder / "holed.csv", [*rows[:5], {**rows[5], column: ""}, *rows[6:]])


def in_memory(rows):
    """Rows as dicts, and as a table of Arrow."""
    return rows, pa.Table.from_pylist(rows)


def data_of(edges, **values):
    """A graph that looks like that of PyTorch Geometric."""
    tensors = {name: torch.as_tensor(value) for name, value in values.items()}
    return SimpleNamespace(edge_index=torch.as_tensor(edges), **tensors)


def triangles(labels):
    """Tetrahedra as pairs of points and faces, with what each is to be predicted as."""
    points, faces = np.eye(4)[:, :3], np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    return [(points * (1 + i / COUNT), faces) for i in range(COUNT)], labels


# ── what a kind has, found out by doing it


class Tried:
    """A kind of data, and one small run of it."""

    def __init__(self, kind, folder):
        self.kind, self.folder, self.runs = kind, folder, 0
        self.recipe = get_recipe(kind.tiny.recipe)

    def train(self, options=None, **how):
        self.runs += 1
        known = {"train.examples": False, **self.kind.tiny.options, **(options or {})}
        if how.get("model") is not None:  # another one has other options
            known = {name: value for name, value in known.items() if not name.startswith("model.")}
        how = {"data": self.kind.tiny.data, "steps": 1, "report": False, "observers": [], **how}
        self.last = self.folder / f"run{self.runs}"
        return regard.train(self.recipe.name, out=self.last, options=known, **how)

    @cached_property
    def run(self):
        return self.train()

    def settings(self, options):
        known = self.kind.tiny.options | options
        return TrainRequest(recipe=self.recipe, data=self.kind.tiny.data, options=known).settings()

    def job(self, options):
        return prepare_job(self.recipe, self.settings(options), DataContext(cache=self.folder))


def works(do):
    """Is it done, and not refused in words?"""
    try:
        do()
    except RegardError:
        return False
    return True


def has_smoothing(tried):
    """It is an option, and it changes the first loss."""
    how = {"data.smoothing": 0.3}
    return works(lambda: tried.job(how)) and first_loss(tried.train(how)) != first_loss(tried.run)


def first_loss(run):
    return next(event["loss"] for event in run.metrics() if event["event"] == "step")


def has_missing_cells(tried):
    hints = get_type_hints(type(tried.settings({}).data))
    ways = [{}, *({"data.missing": way} for way in get_args(hints.get("missing")) if way != "refuse")]
    path = {"data": tried.kind.holed.get("data.path", tried.kind.tiny.data)}
    return any(works(lambda way=way: tried.train(tried.kind.holed | way, **path)) for way in ways)


def has_folds(tried):
    wanted = {"data.folds": 4, "data.fold": 1}
    return works(lambda: tried.job(wanted)) and tried.job(wanted).test.count > 0


def has_seeds(tried):
    """They are trained one after the other, and are not the same."""
    several = tried.train({"train.seeds": 2})
    return len({first_loss(Run.open(several.path / name)) for name in several.names}) == 2


def has_evidence(tried):
    """Of a model that is made for it, or of the usual one."""
    models = [None, *(name for name in tried.recipe.models if "additive" in name)]
    return any(works(lambda model=model: tried.train(model=model)) and _explains(tried) for model in models)


def _explains(tried):
    """Does the last run give evidence for its predictions?"""
    found = regard.predict(tried.last, tried.kind.example or tried.kind.tiny.data)
    return all(each.evidence is not None for each in found)


def has_predictions_in_a_table(tried):
    out = tried.folder / "answers.csv"
    if not works(lambda: regard.predict(tried.run, tried.kind.tiny.data, out=out)):
        return False
    with open(out) as file:
        return len(list(csv.DictReader(file))) >= COUNT


def use(tried, data):
    """Data in memory, with every verb."""
    run, other = tried.train(data=data), tried.train({"train.seed": 1}, data=data)
    assert regard.evaluate(run.path, data=data).count >= COUNT
    assert all(each.error is None for each in regard.predict(run.path, data))
    (pair,) = compare([run.path, other.path], data=data).pairs
    assert pair.differences, pair.reason
    assert look(run.path, data, out=tried.folder / "page.html").exists()


FEATURES: dict[str, Callable[[Tried], bool]] = {
    "smoothing": has_smoothing,
    "class weights": lambda tried: works(lambda: tried.job({"data.class_weights": "auto"})),
    "missing cells": has_missing_cells,
    "folds": has_folds,
    "seeds": has_seeds,
    "evidence": has_evidence,
    "other data": lambda tried: regard.evaluate(tried.run, data=tried.kind.tiny.data).count >= COUNT,
    "predictions in a table": has_predictions_in_a_table,
    "data in memory": lambda tried: all(works(lambda data=data: use(tried, data)) for data in tried.kind.memory),
}


@pytest.fixture(scope="module")
def try_kind(tmp_path_factory):
    made = {}

    def tried(name, make):
        if name not in made:
            folder = tmp_path_factory.mktemp(name.replace(" ", "_"))
            made[name] = Tried(make(folder), folder)
        return made[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield tried


ASKED = [(kind, each) for kind in KINDS for each in FEATURES if each not in NOT_ASKED.get(kind, ())]


@pytest.mark.parametrize("kind, feature", ASKED)
def test_every_kind_has_every_feature(kind, feature, try_kind):
    assert FEATURES[feature](try_kind(kind, KINDS[kind]))


@pytest.mark.parametrize("feature", ["folds", "predictions in a table"])
def test_what_every_kind_has_is_not_found_where_it_is_not(feature, try_kind):
    """A language model has neither."""
    tried = try_kind("plain text", lambda folder: Kind(tiny_data.language(folder), {}, ()))
    assert not FEATURES[feature](tried)


# ── the table of docs/memory.md


def table():
    """A row for each kind, a column for each feature, and why some are not asked for."""
    reasons = list(dict.fromkeys(why for each in NOT_ASKED.values() for why in each.values()))
    rows = [["", *FEATURES], ["---"] * (len(FEATURES) + 1)]
    for kind in KINDS:
        missing = NOT_ASKED.get(kind, {})
        marks = [f"– ({reasons.index(missing[each]) + 1})" if each in missing else "✓" for each in FEATURES]
        rows.append([kind, *marks])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *(f"({i}) {why}." for i, why in enumerate(reasons, 1)), ""])


def test_the_page_has_the_table():
    page = (Path(__file__).parents[1] / "docs" / "memory.md").read_text("utf-8")
    assert page.partition("<!-- made by tests/test_parity.py -->\n")[2].lstrip("\n") == table()


if __name__ == "__main__":
    print(table(), end="")
