"""Images: what was read becomes a task, batches, and a model to their measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.recipes.images.dataset import Images, ImagesConfig, ImagesInfo, prepare, read_other_images
from regard.recipes.images.defaults import model_kind
from regard.recipes.images.mirror import IMAGES, MirrorTrial, try_mirror
from regard.recipes.images.show import show_image
from regard.recipes.images.task import task_of
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Task

SPLITS = {"validation": VALIDATION, "test": TEST}
NAMED = 5  # damaged files that are named one by one


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Read the images, then make task, source and the model's configuration to their measure."""
    data: ImagesConfig = settings.data
    seed, batch = settings.train.seed, settings.train.batch
    images = prepare(data, seed=data.seed_of(seed), cache=context.cache, note=context.note)
    data, info, tried = _choose_flip(data, images)
    config = replace(settings.model, classes=len(info.labels) or 1, colours=images.channels, size=images.size)
    source = images.source(batch, seed)
    test = None
    if info.test:
        test = Split(name="test", count=info.test, unit="images", batches=lambda: source.split(TEST))
    return Job(
        kind=model_kind(settings),
        model=config,
        task=task_of(data, info, images.weights() if data.balanced else None),
        source=source,
        info=info,
        unit="images",
        examples="images",
        labels=info.labels or None,
        notes=(
            *images.labelled.notes,
            *_damaged(images.skipped, data.path, "; config.json names them all"),
            *_filled_up(config),
            *tried,
        ),
        validation=info.validation,
        test=test,
        rows=lambda split: images.rows(SPLITS[split]),
        number=images.numbers,
        show=lambda split, place: show_image(images, int(images.rows(SPLITS[split])[place])),
    )


def _choose_flip(data: ImagesConfig, images: Images) -> tuple[ImagesConfig, ImagesInfo, tuple[str, ...]]:
    """The settings with `flip` as a trial finds it, where that is asked for, and what the trial found."""
    info, changes = images.info, data.augment
    if changes.flip or not changes.auto_flip or info.numbers is not None:
        return data, info, ()
    rows = images.rows(TRAIN)
    some = np.sort(np.random.default_rng(0).permutation(rows)[:IMAGES])
    batch = images.take(some)
    found = try_mirror(batch["x"], batch.target)
    flip = found is not None and found.harmless
    data = replace(data, augment=replace(changes, flip=flip))
    return data, replace(info, auto_flip=flip), _tell_trial(found)


def _tell_trial(found: MirrorTrial | None) -> tuple[str, ...]:
    if found is None:
        return ()
    shares = f"a quick model recognises {found.plain:.0%} of images and {found.mirrored:.0%} of mirrored ones"
    if found.harmless:
        return (
            f"{shares}: half of the images are mirrored in training (not with --data.augment.no-auto-flip)",
        )
    return (f"{shares}: images are not mirrored in training (they are with --data.augment.flip)",)


def other_split(run: Run, path: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
    """Other images with labels, as the run reads its own."""
    config, info = replace(run.section(ImagesConfig, "data"), path=path), run.section(ImagesInfo, "corpus")
    images, rows = read_other_images(config, info, cache=context.cache, note=context.note)
    batch = run.section(TrainConfig, "train").batch
    split = Split(
        name=path,
        count=len(rows),
        unit="images",
        batches=lambda: images.batches(rows, batch),
        rows=lambda: rows,
        notes=_damaged(images.skipped, path),
    )
    return task_of(config, info), split, info.labels or None


def _damaged(skipped: Sequence[str], path: str | None, listed: str = "") -> tuple[str, ...]:
    """What was wrong with files that were left out."""
    more = len(skipped) - NAMED
    rest: tuple[str, ...] = ()
    if more > 0:
        rest = (f"{more:,} more images of {path} cannot be read{listed}",)
    return (*(f"left out: {why}" for why in skipped[:NAMED]), *rest)


def _filled_up(config: Any) -> tuple[str, ...]:
    """What a model of patches does with images that are no whole number of patches wide."""
    patch = getattr(config, "patch", None)
    if patch is None or config.size % patch == 0:
        return ()
    less, more = (config.size // patch * patch, -(-config.size // patch) * patch)
    sizes = f"{less} or {more}" if less else str(more)
    return (
        f"patches of {patch} pixels do not divide images of {config.size}: the last ones are filled up with "
        f"{-config.size % patch} pixels of zeros. With --data.size {sizes} --model.patch {patch} they fit",
    )
