"""Images: albums in, classifiers of pictures out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regard import names
from regard.data.images import ImagesConfig, prepare
from regard.data.pictures import read
from regard.data.splits import TEST
from regard.jobs.job import Answer, Job, Reading
from regard.recipes.images import KINDS
from regard.run import Run, load_model
from regard.training.pictures import ClassifyPictures

NAMED = 5  # damaged files that are named one by one


def prepared(recipe: Any, reading: Reading) -> Job:
    """Read the pictures, then make model, task and source to their measure."""
    data: ImagesConfig = recipe.data
    seed, batch = recipe.train.seed, recipe.train.batch
    images = prepare(data, seed=seed, cache=reading.cache, note=reading.note)
    about = images.describe()
    kind = next(name for name, cls in KINDS.items() if cls is type(recipe))
    config = replace(recipe.model, classes=len(about["labels"]), colours=images.channels, size=images.size)
    torch.manual_seed(seed)  # weights do not depend on how the data was read
    source = images.source(batch, seed)
    return Job(
        kind=kind,
        model=names.find("models", kind)(config),
        task=task_of(data, about, images.weights() if data.balanced else None),
        source=source,
        about=about,
        unit="pictures",
        notes=(*images.album.notes, *damaged(images.skipped, data.path)),
        test=(lambda: source.split(TEST)) if about["test"] else None,
    )


def task_of(data: ImagesConfig, about: dict[str, Any], weights: Sequence[float] | None = None) -> ClassifyPictures:
    how: dict[str, Any] = {"augment": data.augment, "smoothing": data.smoothing, "weights": weights, "views": data.views}
    return ClassifyPictures(len(about["labels"]), about["mean"], about["deviation"], **how)


def damaged(skipped: Sequence[str], path: str | None) -> tuple[str, ...]:
    """What was wrong with files that were left out."""
    more = len(skipped) - NAMED
    rest = (f"{more:,} more pictures of {path} cannot be read; config.json names them all",) if more > 0 else ()
    return (*(f"left out: {why}" for why in skipped[:NAMED]), *rest)


@torch.no_grad()
def predict(run: Run, given: Sequence[str]) -> list[Answer]:
    """For each picture, the classes with their probabilities, the likeliest first."""
    about, data, model = run.config["corpus"], run.section(ImagesConfig, "data"), load_model(run)
    pixels = np.stack([read(path, about["size"], about["channels"], data.fit) for path in given])
    shares = task_of(data, about).answers(model, torch.from_numpy(pixels)).exp()
    return [Answer.of_classes(path, row, about["labels"]) for path, row in zip(given, shares, strict=True)]


def then(run: Run) -> str:
    """What to type after a training."""
    return f"regard predict {run.path} picture.png"
