"""The splits of graphs that have none of their own: drawn by the seed, with the same shares of each class."""

from __future__ import annotations

import numpy as np

from regard.data.array import Array
from regard.data.splits import NOWHERE, TRAIN, USUAL, fold_mask, split_by_class
from regard.data.splits import SPLITS as NUMBERS
from regard.errors import RegardError
from regard.recipes.example import Examples
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.parts import Parts
from regard.recipes.target import Target


def choose_splits(examples: Examples, target: Target, codes: Array, config: GraphsConfig, seed: int) -> Array:
    """The split of each node, edge or graph: what the data says, or drawn."""
    if examples.splits is None:
        found = _draw_splits(examples, target, codes, config, seed)
    else:
        if config.folds is not None:
            raise RegardError(
                f"{examples.what} has its own splits, so it cannot be cut into {config.folds} folds; use --train.seeds "
                f"{config.folds}, or give data without splits"
            )
        found = examples.splits
    if not (found == TRAIN).any():
        raise RegardError(
            f"the train split of {examples.what} has no labelled example; label some, or change the split"
        )
    return found


def share_of_test(config: GraphsConfig) -> float:
    """The share of the test split, if it is drawn."""
    return USUAL if config.test is None else config.test


def _draw_splits(examples: Examples, target: Target, codes: Array, config: GraphsConfig, seed: int) -> Array:
    graphs, level, what = examples.about["graphs"], examples.part, examples.what
    strata = target.strata(codes)
    known = target.known(codes)
    classes = np.where(known, 0 if strata is None else strata, -1).astype(np.int64)
    names = target.classes if strata is not None else ()
    if isinstance(graphs, Parts):
        _check_few(examples, classes, names, config)
    if isinstance(graphs, Parts) and level == "edge" and not config.directed:
        pairs, of = _join_directions(graphs.edges, classes, graphs.nodes)
        found = _draw(pairs, level, names, config, seed)[of]
        found[classes < 0] = NOWHERE
    else:
        found = _draw(classes, level, names, config, seed)
    if config.test and not (found == NUMBERS["test"]).any():
        raise RegardError(
            f"the {level}s of {what} are too few for a test split of {config.test:g}: training keeps one "
            f"of each class, and nothing is left; label more {level}s, or use --data.test 0"
        )
    return found


def _check_few(examples: Examples, classes: Array, names: tuple[str, ...], config: GraphsConfig) -> None:
    """Raise if a class has one example, or if one number is known."""
    level, what = examples.part, examples.what
    if not names:
        if (classes == 0).sum() < 2:
            raise RegardError(f"{what} has {(classes == 0).sum()} known target; give at least two")
        return
    counts = np.bincount(classes[classes >= 0], minlength=len(names))
    if (config.validation or share_of_test(config)) and counts.min() < 2:
        few, place = names[int(counts.argmin())], int(np.flatnonzero(classes == counts.argmin())[0])
        raise RegardError(
            f"the class '{few}' of {what} has one example, {level} {examples.about['graphs'].called(level, place)}, "
            "so it cannot be in two splits; add more examples, remove the class, or use "
            "--data.validation 0 --data.test 0"
        )


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


def _draw(classes: Array, level: str, names: tuple[str, ...], config: GraphsConfig, seed: int) -> Array:
    """Splits of rows with these classes; −1: in no split."""
    found = np.full(len(classes), NOWHERE, dtype=np.uint8)
    share, test = config.validation, share_of_test(config)
    if config.folds is not None:
        known = np.flatnonzero(classes >= 0)
        strata, called = classes[known], names or ("number",)
        fold = known[fold_mask(len(known), config, seed, unit=f"{level}s", classes=strata, names=called)]
        found[fold] = NUMBERS["test"]
        classes = classes.copy()
        classes[fold] = -1
        share, test = share * len(known) / (len(known) - len(fold)), 0.0
    drawn = split_by_class(classes, validation=share, test=test, seed=seed, train=config.train)
    for name, rows in drawn.items():
        found[rows] = NUMBERS[name]
    return found
