"""Labels of texts as targets: classes, or standardised numbers; and the splits, which follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.data.splits import TRAIN, VALIDATION, draw_splits
from regard.data.targets import Numbers, first_without_number, infer_asks, read_numbers, sort_labels
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.recipes.text.labelled import LabelledConfig, LabelledInfo
    from regard.recipes.text.labelled_rows import Row


class Targets(NamedTuple):
    """The target of each row: an index into `labels`, or a standardised number."""

    labels: tuple[str, ...]
    target: Array
    splits: Array  # TRAIN, VALIDATION or TEST, of each row
    numbers: Numbers | None  # None: targets are classes


def choose_targets(rows: Sequence[Row], config: LabelledConfig, seed: int) -> Targets:
    """The targets of a file to train on, and its splits: shares of each class, or of all rows."""
    words = [row.label for row in rows]
    if infer_asks(words, config.asks) == "numbers":
        values = _read_numbers(rows, config, "use --data.asks classes for labels that are text")
        splits = draw_splits(len(rows), config, seed, unit="rows")
        numbers = Numbers.measure(config.label, values[splits == TRAIN])
        _check_split(splits, config, "one row")
        return Targets((), numbers.standardise(values), splits, numbers)
    labels = sort_labels(words)
    if len(labels) < 2:
        raise RegardError(
            f"{config.path} has only the label '{labels[0]}' in column '{config.label}'; "
            "a classifier needs at least two"
        )
    number = {label: i for i, label in enumerate(labels)}
    classes = np.array([number[word] for word in words])
    splits = draw_splits(len(rows), config, seed, unit="rows", classes=classes, names=labels)
    _check_split(splits, config, "one row for each label")
    return Targets(labels, classes, splits, None)


def find_targets(rows: Sequence[Row], config: LabelledConfig, known: LabelledInfo) -> Array:
    """The targets of another file, for the model of a run."""
    if known.numbers is not None:
        return known.numbers.standardise(_read_numbers(rows, config, "the model predicts numbers"))
    labels = known.labels
    number = {label: i for i, label in enumerate(labels)}
    for row in rows:
        if row.label not in number:
            raise RegardError(
                f"line {row.line} of {config.path} has the label '{row.label}', but the model knows "
                f"{', '.join(labels[:5])}{', ...' * (len(labels) > 5)}; remove the row, or correct its label"
            )
    return np.array([number[row.label] for row in rows])


def _read_numbers(rows: Sequence[Row], config: LabelledConfig, advice: str) -> Array:
    words = [row.label for row in rows]
    wrong = first_without_number(words)
    if wrong is not None:
        raise RegardError(
            f"line {rows[wrong].line} of {config.path} has {words[wrong]!r} in column '{config.label}', "
            f"expected a number; {advice}"
        )
    found = read_numbers(words)
    assert found is not None
    return found


def _check_split(splits: Array, config: LabelledConfig, rows: str) -> None:
    if config.validation and not (splits == VALIDATION).any():
        raise RegardError(
            f"{config.path} has {rows}, too few for a validation split; give more rows, or use --data.validation 0"
        )
