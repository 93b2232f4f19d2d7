"""Images of a run's validation split, read again from its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.cores import cores
from regard.data.image_files import Damaged, Pixels, read
from regard.data.splits import VALIDATION
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo, complete_splits, resize_all
from regard.recipes.images.labelled_images import LabelledImages, find_images
from regard.recipes.images.model_input import ReferenceImages
from regard.runs.run import Run
from regard.training.config import TrainConfig

MOST = 240  # images


def validation_images(run: Run, scaled: Callable[[Pixels], Tensor]) -> ReferenceImages | None:
    """Up to 240 of them, evenly taken; None if the data is gone, or if it is not the data that the run was
    trained on."""
    data, info = run.section(ImagesConfig, "data"), run.section(ImagesInfo, "corpus")
    seed = data.seed_of(run.section(TrainConfig, "train").seed)
    try:
        labelled = find_images(data.path, data.image, data.label, data.names, data.asks)
        found = _readable(labelled, info.skipped)
    except (ValueError, OSError):
        return None
    rows = np.flatnonzero(complete_splits(found, data, seed) == VALIDATION)
    if found.labels != info.labels or len(found) != info.pictures or len(rows) != info.validation:
        return None
    rows = rows[np.linspace(0, len(rows) - 1, min(MOST, len(rows))).round().astype(int)]
    kept, pixels = _taken(found, rows, (info.size, info.channels, data.fit))
    if len(kept) < 3:
        return None
    names = [found.files[row] if found.files else f"number {row + 1}" for row in kept]
    return ReferenceImages(
        what="validation images",
        x=scaled(pixels),
        images=(torch.from_numpy(pixels).float() / 255).expand(-1, 3, -1, -1),
        labels=_groups(found, kept),
        names=tuple(name.replace("\\", "/").rpartition("/")[2] for name in names),
    )


def _groups(found: LabelledImages, rows: Sequence[int]) -> tuple[str, ...]:
    """The class of each image, or in which quarter of the numbers its own is."""
    if found.numbers is None:
        return tuple(found.labels[found.classes[row]] for row in rows)
    values = found.numbers[list(rows)]
    ends = np.quantile(values, (0, 0.25, 0.5, 0.75, 1))
    quarter = np.searchsorted(ends[1:-1], values, side="right")
    return tuple(f"{ends[i]:.4g} to {ends[i + 1]:.4g}" for i in quarter)


def _readable(found: LabelledImages, skipped: Sequence[str]) -> LabelledImages:
    """The images without the files that the run left out: what was wrong with each begins or ends with its
    name."""
    if not skipped or not found.files:
        return found
    bad = {
        file
        for file in found.files
        for why in skipped
        if why.startswith(f"{file} ") or why.endswith(f" {file}")
    }
    good = [row for row, file in enumerate(found.files) if file not in bad]
    return found.keep(np.array(good, dtype=np.int64))


def _taken(found: LabelledImages, rows: Any, how: tuple[Any, ...]) -> tuple[list[int], Pixels]:
    """The pixels of some rows, and which could be read.   n c s s"""
    if found.pixels is not None:
        return rows.tolist(), resize_all(found.pixels[rows], *how)

    def pixels_of(row: int) -> Pixels | None:
        with suppress(Damaged):
            return read(found.files[row], *how)
        return None

    with ThreadPoolExecutor(cores()) as pool:
        made = [
            (row, each)
            for row, each in zip(rows.tolist(), pool.map(pixels_of, rows), strict=True)
            if each is not None
        ]
    if not made:
        return [], np.empty((0, 0, 0, 0), np.uint8)
    return [row for row, _ in made], np.stack([each for _, each in made])
