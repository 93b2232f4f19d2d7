"""Images: albums in, classifiers of pictures out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from regard import registry
from regard.data.splits import TEST
from regard.recipes.images.dataset import ImagesConfig, prepare
from regard.recipes.images.defaults import KINDS
from regard.recipes.images.task import ClassifyPictures
from regard.recipes.job import Job, Reading
from regard.runs.run import Run

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
        model=registry.find("models", kind)(config),
        task=task_of(data, about, images.weights() if data.balanced else None),
        source=source,
        about=about,
        unit="pictures",
        notes=(*images.album.notes, *damaged(images.skipped, data.path), *filled_up(config)),
        test=(lambda: source.split(TEST)) if about["test"] else None,
    )


def task_of(
    data: ImagesConfig, about: dict[str, Any], weights: Sequence[float] | None = None
) -> ClassifyPictures:
    how: dict[str, Any] = {
        "augment": data.augment,
        "smoothing": data.smoothing,
        "weights": weights,
        "views": data.views,
    }
    return ClassifyPictures(len(about["labels"]), about["mean"], about["deviation"], **how)


def damaged(skipped: Sequence[str], path: str | None) -> tuple[str, ...]:
    """What was wrong with files that were left out."""
    more = len(skipped) - NAMED
    rest = (
        (f"{more:,} more pictures of {path} cannot be read; config.json names them all",) if more > 0 else ()
    )
    return (*(f"left out: {why}" for why in skipped[:NAMED]), *rest)


def filled_up(config: Any) -> tuple[str, ...]:
    """What a model of patches does with pictures that are no whole number of patches wide."""
    patch = getattr(config, "patch", None)
    if patch is None or config.size % patch == 0:
        return ()
    less, more = (config.size // patch * patch, -(-config.size // patch) * patch)
    sizes = f"{less} or {more}" if less else str(more)
    return (
        f"patches of {patch} pixels do not divide pictures of {config.size}: the last ones are filled up with "
        f"{-config.size % patch} pixels of zeros. With --data.size {sizes} --model.patch {patch} they fit",
    )


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def then(run: Run) -> str:
    """What to type after a training."""
    return f"regard predict {run.path} picture.png"
