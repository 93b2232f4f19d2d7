"""Train, validation and test splits: shares of each class, drawn by the seed."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.data.batch import generator

TRAIN, VALIDATION, TEST = 0, 1, 2
SPLITS = {
    "train": TRAIN,
    "training": TRAIN,
    "val": VALIDATION,
    "valid": VALIDATION,
    "validation": VALIDATION,
    "test": TEST,
    "testing": TEST,
    "t10k": TEST,
}  # names of the splits in folders, files and columns


def split_by_class(
    classes: Array, *, validation: float, test: float, seed: int, train: int | None = None
) -> dict[str, Array]:
    """The row numbers of each split. `classes` holds the class of each row; −1: in no split.

    Every class keeps at least one row in the train split. `train` is the number of rows of each class in it
    (None: all that are in no other split). Rows beyond that number are in no split.
    """
    found: dict[str, list[Array]] = {"train": [], "validation": [], "test": []}
    for each in np.unique(classes[classes >= 0]):
        rows = generator(seed, 3, int(each)).permutation(np.flatnonzero(classes == each))
        held = [round(len(rows) * share) for share in (validation, test)]
        while sum(held) >= len(rows):
            held[int(np.argmax(held))] -= 1
        stops = np.cumsum([*held, len(rows) if train is None else train])
        for name, start, stop in zip(("validation", "test", "train"), [0, *stops], stops, strict=False):
            found[name].append(rows[start:stop])
    return {
        name: np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts])) for name, parts in found.items()
    }


def stratified_mask(classes: Array, share: float, seed: int) -> Array:
    """The rows of the validation split: a share of each class, rounded so that the total is right too.
    bool rows

    Every class keeps at least one row for training.
    """
    counts = np.bincount(classes)
    wanted = counts * share
    take = np.minimum(np.floor(wanted).astype(int), counts - 1)
    if share:
        total = min(max(1, round(len(classes) * share)), int((counts - 1).sum()))
    else:
        total = 0
    for each in np.argsort(take - wanted, kind="stable"):  # first those that lost most by rounding down
        take[each] += take.sum() < total and take[each] < counts[each] - 1
    held = np.zeros(len(classes), dtype=bool)
    for each, count in enumerate(take):
        held[generator(seed, 2, each).permutation(np.flatnonzero(classes == each))[:count]] = True
    return held
