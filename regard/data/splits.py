"""Train, validation and test splits: shares of each class, or folds, drawn by the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from regard.config import Count, Rare, Seed, Share, config
from regard.data.array import Array
from regard.data.batch import generator, held_out
from regard.errors import RegardError

TRAIN, VALIDATION, TEST = 0, 1, 2
NOWHERE = 255  # in no split: what nobody knows the target of
Folds = Annotated[int, Field(ge=2, le=1000)]
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

ENOUGH = 1000  # examples from which a test split is cut unless somebody says otherwise
USUAL = 0.1  # its share: a hundred examples at least, whose accuracy is known to five points
NAMED = 3  # classes that are named in a note
# random numbers of validation splits, test splits and folds do not depend on each other
OF_VALIDATION, OF_TEST, OF_FOLDS = 2, 12, 14


@config
class SplitConfig:
    """Which examples a model does not learn from: the part of the data settings that most kinds share."""

    # share of the examples (of each class) in the validation split, by which the weights are chosen
    validation: Share = 0.1
    # share of the examples (of each class) in the test split, evaluated once, at the end; None: a tenth if there
    # are 1,000 or more, and none if the data has its own test split or is smaller
    test: Share | None = None
    # cross-validation: train once for each of this many parts of the data, which is then the test split
    folds: Rare[Folds | None] = None
    fold: Rare[Count | None] = None  # with folds: train only for this one, counted from 1
    seed: Rare[Seed | None] = None  # draws the splits; None: the seed of --train.seed

    def seed_of(self, train: int) -> int:
        """The seed of the splits, from that of the training."""
        return train if self.seed is None else self.seed


def check_splits(config: SplitConfig, unit: str) -> None:
    """For `__post_init__`: the shares and the fold can be right. unit: what is counted"""
    if config.test is not None and config.folds is None and not config.validation + config.test < 1:
        raise RegardError(
            f"validation and test are shares, together below 1, got {config.validation} and {config.test}"
        )
    if config.folds is None:
        if config.fold is not None:
            raise RegardError(f"needs the number of folds, got fold={config.fold}; give folds, too", option="fold")
        return
    if config.fold is not None and config.fold > config.folds:
        raise RegardError(f"must be from 1 to {config.folds}, the number of folds, got {config.fold}", option="fold")
    if config.validation + 1 / config.folds >= 1:
        raise RegardError(
            f"validation {config.validation} and one of {config.folds} folds leave nothing to train on; "
            "use more folds, or a smaller --data.validation"
        )


def share_of_test(config: SplitConfig, count: int) -> float:
    """The share of the test split among so many examples."""
    if config.test is not None:
        return config.test
    if count >= ENOUGH:
        return USUAL
    return 0.0


def draw_splits(
    count: int, config: SplitConfig, seed: int, *, unit: str, classes: Array | None = None, names: Sequence[str] = ()
) -> Array:
    """TRAIN, VALIDATION or TEST for each of `count` examples.   uint8 count

    classes: the class of each example, of which every split has the same share; None: there are none. Every
    class keeps at least one example for training. names: those of the classes. unit: what is counted
    """
    splits = np.zeros(count, dtype=np.uint8)
    share = share_of_test(config, count)
    if config.folds is not None:
        splits[fold_mask(count, config, seed, unit=unit, classes=classes, names=names)] = TEST
    elif share:
        splits[_mask(count, share, seed, classes, OF_TEST)] = TEST
    rest = np.flatnonzero(splits == TRAIN)
    held_out_share = config.validation
    if len(rest) < count:
        held_out_share = min(config.validation * count / len(rest), 0.999)
    left = None if classes is None else classes[rest]
    splits[rest[_mask(len(rest), held_out_share, seed, left, OF_VALIDATION)]] = VALIDATION
    if share or config.folds is not None:
        _check_none_empty(splits, config, share, unit)
    return splits


def complete_splits(
    own: Array,
    config: SplitConfig,
    seed: int,
    *,
    what: str,
    unit: str,
    classes: Array | None = None,
    names: Sequence[str] = (),
) -> Array:
    """The split of each example; of the splits that the data does not have, a share is taken from training.

    own: as the data says it, TRAIN where it says nothing; what: the data, for messages; others: see `draw_splits`
    """
    given = [word for word, split in (("validation", VALIDATION), ("test", TEST)) if (own == split).any()]
    if given and config.folds is not None:
        raise RegardError(
            f"{what} has its own {' and '.join(given)} split, so it cannot be cut into {config.folds} folds; "
            f"use --train.seeds {config.folds}, or give data without splits"
        )
    if "test" in given and config.test:
        raise RegardError(
            f"{what} has its own test split of {(own == TEST).sum():,} {unit}, so there is no share to cut from the "
            f"rest, got --data.test {config.test}; leave it out"
        )
    validation = 0.0 if "validation" in given else config.validation
    shares = replace(config, validation=validation, test=0.0 if "test" in given else config.test)
    rows = np.flatnonzero(own == TRAIN)
    found, few = own.copy(), None if classes is None else classes[rows]
    found[rows] = draw_splits(len(rows), shares, seed, unit=unit, classes=few, names=names)
    return found


def _check_none_empty(splits: Array, config: SplitConfig, share: float, unit: str) -> None:
    counts = np.bincount(splits, minlength=3)
    wanted = {"validation": config.validation, "test": share}
    for name, part in wanted.items():
        if part and not counts[SPLITS[name]]:
            raise RegardError(
                f"{len(splits):,} {unit} are too few for a {name} split of {part:g}: training keeps one of each "
                f"class, and nothing is left; give more {unit}, or --data.{name} 0"
            )


def fold_mask(
    count: int, config: SplitConfig, seed: int, *, unit: str, classes: Array | None = None, names: Sequence[str] = ()
) -> Array:
    """The examples of one fold.   bool count"""
    folds, fold = config.folds or 0, config.fold or 1
    if count < folds:
        raise RegardError(f"{folds} folds need as many {unit}, got {count}; use --data.folds {max(2, count)} or less")
    if classes is not None:
        counts = np.bincount(classes)
        alone = np.flatnonzero(counts == 1)
        if len(alone):
            called = names[alone[0]] if len(names) else str(alone[0])
            raise RegardError(
                f"the class '{called}' has one of the {count:,} {unit}, so the fold that tests it leaves none to "
                "train on; add more, or remove the class"
            )
    return number_folds(count, folds, seed, classes) == fold - 1


def number_folds(count: int, folds: int, seed: int, classes: Array | None = None) -> Array:
    """The fold of each example, 0 … folds − 1: of each class as many in one as in another, or one more.
    count"""
    if classes is None:
        order = generator(seed, OF_FOLDS).permutation(count)
    else:
        of_each = [
            generator(seed, OF_FOLDS, int(each)).permutation(np.flatnonzero(classes == each))
            for each in np.unique(classes)
        ]
        order = np.concatenate(of_each)
    numbers = np.zeros(count, dtype=np.int64)
    numbers[order] = np.arange(count) % folds
    return numbers


def note_missing(splits: Array, classes: Array, names: Sequence[str], unit: str) -> tuple[str, ...]:
    """A note for each drawn split that has no example of some class."""
    if not names or not (splits == TEST).any():
        return ()
    notes = []
    for name, number in (("validation", VALIDATION), ("test", TEST)):
        there = classes[splits == number]
        gone = np.flatnonzero(np.bincount(there, minlength=len(names)) == 0)
        if not len(there) or not len(gone):
            continue
        said = ", ".join(f"'{names[each]}'" for each in gone[:NAMED])
        if len(gone) > NAMED:
            said += f" and {len(gone) - NAMED:,} more classes"
        notes.append(f"the {name} split has no {unit} of {said}: there are too few of them")
    return tuple(notes)


def _mask(count: int, share: float, seed: int, classes: Array | None, stream: int) -> Array:
    """A share of the examples, of each class if there are classes.   bool count"""
    if classes is not None:
        return stratified_mask(classes, share, seed, stream)
    held = np.zeros(count, dtype=bool)
    if stream == OF_VALIDATION:
        order = generator(seed, 0).permutation(count)
    else:
        order = generator(seed, stream).permutation(count)
    held[order[: held_out(count, share)]] = True
    return held


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
    return {name: np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts])) for name, parts in found.items()}


def stratified_mask(classes: Array, share: float, seed: int, stream: int = OF_VALIDATION) -> Array:
    """The rows of the validation split: a share of each class, rounded so that the total is right too.
    bool rows

    Every class keeps at least one row for training. stream: other numbers draw other rows by the same seed
    """
    counts = np.bincount(classes)
    most = np.maximum(counts - 1, 0)
    wanted = counts * share
    take = np.minimum(np.floor(wanted).astype(int), most)
    total = min(max(1, round(len(classes) * share)), int(most.sum())) if share else 0
    for each in np.argsort(take - wanted, kind="stable"):  # first those that lost most by rounding down
        take[each] += take.sum() < total and take[each] < most[each]
    held = np.zeros(len(classes), dtype=bool)
    for each, count in enumerate(take):
        held[generator(seed, stream, each).permutation(np.flatnonzero(classes == each))[:count]] = True
    return held
