"""How a run reads sets: as it read its training data. It shows an example of that data."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.data.batch import generator
from regard.data.point_clouds import find_clouds
from regard.errors import RegardError
from regard.look.reader import GONE, Reader, readable
from regard.recipes.sets.dataset import SetsConfig, SetsForm, SetsInfo, draw
from regard.recipes.sets.long_tables import LongTable, read_long
from regard.recipes.sets.read_sets import files_of, sets_in
from regard.recipes.sets.reader import SetExample, SetReader
from regard.recipes.sets.task import numbers_of
from regard.runs.number_format import say_percent
from regard.runs.report_examples import first_example
from regard.runs.run import Run
from regard.training.config import TrainConfig

READABLE = 50  # elements of a set that a person can look at one by one


def run_reader(run: Run, model: Any) -> Reader:
    """The reader of a run on sets. If the data of the run is gone, it shows random sets."""
    config, form, roles = run.section(SetsConfig, "data"), run.section(SetsInfo, "corpus").form, model.roles
    seed, inputs = config.seed_of(run.section(TrainConfig, "train").seed), model.sample_inputs()

    def read(path: Path) -> Array:
        """The point cloud of a file, the first point cloud of a folder, or the first set of a table."""
        return next(sets_in(files_of(str(path), config, form)[0], config, form))[1]

    @cache
    def example() -> SetExample:
        kept = _kept(run, form)
        if kept is not None:
            return kept
        if config.path is None:
            return made(1)
        path = Path(config.path).expanduser()
        if path.is_dir():
            first = find_clouds(str(path))[0]
            return SetExample(
                read(Path(first.path)), Path(first.path).name, None if form.each else first.label
            )
        return _of_table(table(), path.name, form)

    def made(number: int) -> SetExample:
        drawn = draw(config, 1, generator(seed, 9, number))
        asked = np.ravel(drawn.target[0]).tolist()
        truth = {
            "classes": lambda: form.answers[int(asked[0])],
            "numbers": lambda: _numbers_in_words(asked, form),
        }
        return SetExample(
            drawn.points,
            f"Set {number:,} of the synthetic task {config.task}",
            truth.get(form.asks, lambda: None)(),
        )

    @cache
    def table() -> LongTable:
        path = str(Path(str(config.path)).expanduser())
        found = read_long(path, config.id, config.target, form.features, config.missing)
        return found._replace(points=form.filled(found.points))

    def named(name: str) -> SetExample:
        """A set of the data by its name; a set of a synthetic task by its number."""
        if config.path is None:
            if not (name.isdecimal() and len(name) < 10 and int(name)):
                raise RegardError(
                    f"there is no file {name!r}; sets of the synthetic task {config.task} are called 1, 2, "
                    "3 …"
                )
            return told(made(int(name)))
        return told(_of_table(table(), Path(config.path).name, form, name))

    def told(found: SetExample) -> SetExample:
        return found._replace(said=_introduced(found, model, form))

    # the sets of a folder are files, named by their paths
    folder = config.path is not None and Path(config.path).expanduser().is_dir()
    how: dict[str, Any] = {"read": read, "taken": form.read, "columns": form.features}
    if form.asks == "classes":
        how["classes"] = form.answers
    elif form.asks == "numbers":
        how["numbers"] = lambda out: list(zip(form.answers, _in_units(out, form), strict=True))
    if not form.each and (numbers := numbers_of(form)):
        how["number"] = numbers[0]
    if not readable(example):
        return SetReader(roles, inputs, notes=(GONE,), **how)
    return SetReader(roles, inputs, example=lambda: told(example()), named=None if folder else named, **how)


def _kept(run: Run, form: SetsForm) -> SetExample | None:
    """A set of the validation split that the run kept; None: there is none."""
    found = first_example(run, "elements")
    if found is None:
        return None
    rows = np.array(found["elements"], dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(form.features):
        return None
    return SetExample(rows, str(found["name"]), str(found["truth"]))


def _of_table(table: LongTable, file: str, form: SetsForm, name: str | None = None) -> SetExample:
    """The set of this name; without a name, a set of median size (at most READABLE): a set of one element is
    a poor example."""
    sizes = np.diff(table.starts)
    number = int(np.abs(sizes - min(float(np.median(sizes)), READABLE)).argmin())
    if name is not None:
        if name not in table.sets:
            first = ", ".join(table.sets[:3]) + " …" * (len(table.sets) > 3)
            raise RegardError(f"there is no file and no set {name!r} in {file}; sets are called {first}")
        number = table.sets.index(name)
    start, stop = table.starts[number], table.starts[number + 1]
    truth = None
    if table.target is not None and not form.each:
        word = table.target[start]
        if form.asks == "classes":
            truth = word
        else:
            truth = _numbers_in_words([float(word)], form)
    return SetExample(table.points[start:stop], f"Set {table.sets[number]} of {file}", truth)


def _introduced(example: SetExample, model: Any, form: SetsForm) -> str:
    """Set 17 of baskets.csv: prediction total 35.2; target total 34.9."""
    if form.each or form.asks == "clusters":
        return f"{example.name}."
    with torch.no_grad():
        out = model(torch.from_numpy(form.read(example.rows))[None])[0]
    if form.asks == "classes":
        share, best = out.softmax(-1).max(-1)
        says = f"{form.answers[best]} ({say_percent(float(share))})"
    else:
        says = _numbers_in_words(_in_units(out, form), form)
    return f"{example.name}: prediction {says}{'' if example.truth is None else f'; target {example.truth}'}."


def _in_units(out: Tensor, form: SetsForm) -> list[float]:
    """Predicted numbers in the units of the data."""
    numbers = out.double().numpy(force=True) * np.array(form.target_scale) + np.array(form.target_centre)
    return [float(number) for number in numbers]


def _numbers_in_words(numbers: Iterable[float], form: SetsForm) -> str:
    return ", ".join(f"{name} {number:.6g}" for name, number in zip(form.answers, numbers, strict=True))
