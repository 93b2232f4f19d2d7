"""What a run of sets is looked at with: a set of its own data, or a file, read as it was when the model learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config import from_dict
from regard.data.batch import Ids, generator
from regard.data.clouds import find_clouds
from regard.data.sets import SetsConfig, SetsForm, draw, sets_in
from regard.readers_of_things import Points
from regard.run import Run

UNSEEN = 8  # with the seed of the run: draws sets that were neither learned from nor judged by


def reader_of_sets(run: Run, model: nn.Module, inputs: dict[str, Any]) -> Points:
    """inputs: what is shown when the data of the run is no longer there."""
    form = from_dict(SetsForm, run.config["corpus"]["form"])
    config = run.section(SetsConfig, "data")

    def example() -> dict[str, Any]:
        try:
            things = example_of(config, form, run.config["train"]["seed"])
        except (OSError, ValueError):
            return inputs
        return inputs | {"x": torch.from_numpy(form.read(things))[None]}

    def read(path: Path) -> Ids:
        return form.read(next(sets_in(str(path), config, form))[1])

    classes = form.answers if form.asks == "classes" and not form.each else None
    known: Any = model.roles
    return Points(known, example, read=read, columns=form.features, classes=classes)


def example_of(config: SetsConfig, form: SetsForm, seed: int) -> Ids:
    """The things of a set like those of a config."""
    if config.path is None:
        return draw(config, 1, generator(seed, UNSEEN)).points
    path = Path(config.path).expanduser()
    first = find_clouds(str(path))[0].path if path.is_dir() else str(path)
    return next(sets_in(first, config, form))[1]
