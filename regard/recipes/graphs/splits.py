"""The splits of graphs: drawn by the seed, or checked if the data has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.data.array import Array
from regard.data.batch import IGNORE
from regard.data.splits import SPLITS as NUMBERS
from regard.data.splits import USUAL, fold_mask, note_missing, split_by_class
from regard.errors import RegardError
from regard.recipes.graphs.parts import SPLITS, Parts

if TYPE_CHECKING:
    from regard.recipes.graphs.dataset import GraphsConfig


def draw_split(
    parts: Parts, level: str, names: tuple[str, ...] | None, target: Array, config: GraphsConfig, seed: int
) -> dict[str, Array]:
    """Splits drawn by the seed, with the same shares of each class."""
    test = share_of_test(config)
    if names is None:
        classes = np.where(np.isnan(target), -1, 0)
        if (classes == 0).sum() < 2:
            raise RegardError(f"{parts.what} has {(classes == 0).sum()} known target; give at least two")
    else:
        classes = np.where(target == IGNORE, -1, target)
        counts = np.bincount(classes[classes >= 0], minlength=len(names))
        if (config.validation or test) and counts.min() < 2:
            few, place = names[int(counts.argmin())], int(np.flatnonzero(classes == counts.argmin())[0])
            raise RegardError(
                f"the class '{few}' of {parts.what} has one example, {level} {parts.called(level, place)}, "
                "so it cannot be in two splits; add more examples, remove the class, or use "
                "--data.validation 0 --data.test 0"
            )
    if level == "edge" and not config.directed:
        pairs, of = _join_directions(parts.edges, classes, parts.nodes)
        split = _draw(pairs, level, names, config, seed)
        split = {name: np.flatnonzero(np.isin(of, rows)) for name, rows in split.items()}
    else:
        split = _draw(classes, level, names, config, seed)
    if config.test and not len(split["test"]):
        raise RegardError(
            f"the {level}s of {parts.what} are too few for a test split of {config.test:g}: training keeps one "
            f"of each class, and nothing is left; label more {level}s, or use --data.test 0"
        )
    return split


def _join_directions(edges: Array, classes: Array, nodes: int) -> tuple[Array, Array]:
    """The class of each pair of nodes, and the pair of each edge: an edge that is listed in both directions is
    one example, so that no split holds what another one asks for.   2 e, e -> pairs, e"""
    pairs = edges.min(0) * np.int64(max(nodes, 1)) + edges.max(0)
    _, first, place = np.unique(pairs, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))  # pairs are numbered as they come in the file
    place = order[place.reshape(-1)]
    found = np.full(len(first), -1, dtype=classes.dtype)
    np.maximum.at(found, place, classes)
    return found, place


def _draw(
    classes: Array, level: str, names: tuple[str, ...] | None, config: GraphsConfig, seed: int
) -> dict[str, Array]:
    """Splits of rows with these classes; −1: in no split."""
    if config.folds is None:
        return split_by_class(
            classes,
            validation=config.validation,
            test=share_of_test(config),
            seed=seed,
            train=config.train,
        )
    known = np.flatnonzero(classes >= 0)
    fold = known[
        fold_mask(
            len(known), config, seed, unit=f"{level}s", classes=classes[known], names=names or ("number",)
        )
    ]
    rest = classes.copy()
    rest[fold] = -1
    share = config.validation * len(known) / (len(known) - len(fold))
    split = split_by_class(rest, validation=share, test=0.0, seed=seed, train=config.train)
    return split | {"test": fold}


def share_of_test(config: GraphsConfig) -> float:
    """The share of the test split, if it is drawn."""
    if config.test is None:
        return USUAL
    return config.test


def note_missing_classes(
    split: Mapping[str, Array], target: Array, names: Sequence[str], level: str
) -> tuple[str, ...]:
    """A note for each drawn split that has no example of some class."""
    rows = np.concatenate([split[name] for name in SPLITS])
    numbers = np.repeat([NUMBERS[name] for name in SPLITS], [len(split[name]) for name in SPLITS])
    return note_missing(numbers, target[rows], names, level)


def no_folds(what: str, config: GraphsConfig) -> RegardError:
    """The error for data that has its own splits."""
    return RegardError(
        f"{what} has its own splits, so it cannot be cut into {config.folds} folds; use --train.seeds "
        f"{config.folds}, or give data without splits"
    )


def check_split(split: dict[str, Array], target: Array, what: str) -> dict[str, Array]:
    """The given or drawn splits without unknown targets. Raise if a number is out of range, or in two
    splits."""
    if target.dtype.kind == "f":
        known = ~np.isnan(target)
    else:
        known = target != IGNORE
    found = {}
    for name in SPLITS:
        rows = np.asarray(split.get(name, ()), dtype=np.int64)
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(target):
            raise RegardError(
                f"the {name} split of {what} has the number {rows.max()}, but there are {len(target)}, 0 … "
                f"{len(target) - 1}"
            )
        found[name] = rows[known[rows]]
    if not len(found["train"]):
        raise RegardError(
            f"the train split of {what} has no labelled example; label some, or change the split"
        )
    seen = np.concatenate(list(found.values()))
    if len(np.unique(seen)) < len(seen):
        raise RegardError(f"the splits of {what} overlap; put each node, edge or graph in one split only")
    return found
