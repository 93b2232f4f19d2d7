"""Images: albums in, classifiers of pictures out."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard import names
from regard.data.albums import is_picture, pictures_in
from regard.data.images import ImagesConfig, or_why, prepare
from regard.data.pictures import SUFFIXES
from regard.data.splits import TEST
from regard.data.work import cores
from regard.jobs.job import Answer, Job, Reading
from regard.nn.linear import fixed
from regard.recipes.images import KINDS
from regard.run import Run, load_model
from regard.training.pictures import ClassifyPictures

NAMED = 5  # damaged files that are named one by one
AT_ONCE = 64  # pictures that are answered together
LOOKED = "looked.png"  # how the name of a drawing ends; such a file in a folder is no input


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


def inputs(given: Sequence[str]) -> list[str]:
    """Files as they are given; of a folder all pictures in it and in its folders, of a pattern all that match it."""
    return [path for each in given for path in (pictures_of(each) or [each])]


def pictures_of(given: str) -> list[str]:
    """Of a folder, or of a pattern such as photos/*.jpg, in the order of their paths; of anything else none."""
    if os.path.isdir(given):
        found, what = (
            [each for each in pictures_in(Path(given)) if not each.endswith(f"-{LOOKED}")],
            "holds no pictures",
        )
    elif glob.has_magic(given) and not os.path.exists(given):
        match = sorted(glob.glob(given, recursive=True))
        found, what = [each for each in match if is_picture(os.path.basename(each))], "matches no pictures"
    else:
        return []
    if not found:
        raise ValueError(f"{given} {what}; those are files in {', '.join(SUFFIXES)}")
    return found


@torch.no_grad()
def predict(run: Run, given: Sequence[str]) -> Iterator[Answer]:
    """For each picture, the classes with their probabilities, the likeliest first; what cannot be read has an error instead."""
    about, data, model = run.config["corpus"], run.section(ImagesConfig, "data"), load_model(run)
    task = task_of(data, about)
    with ThreadPoolExecutor(cores()) as pool, fixed(model):
        for start in range(0, len(given), AT_ONCE):
            some = given[start : start + AT_ONCE]
            pixels = list(
                pool.map(lambda path: or_why(path, about["size"], about["channels"], data.fit), some)
            )
            good = [each for each in pixels if not isinstance(each, str)]
            shares = iter(task.answers(model, torch.from_numpy(np.stack(good))).exp() if good else ())
            for path, found in zip(some, pixels, strict=True):
                if isinstance(found, str):
                    yield Answer(given=path, error=found)
                else:
                    yield Answer.of_classes(path, next(shares), about["labels"])


def then(run: Run) -> str:
    """What to type after a training."""
    return f"regard predict {run.path} picture.png"
