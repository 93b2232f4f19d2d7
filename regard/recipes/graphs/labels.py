"""Labels of nodes, edges or graphs: classes, or numbers to predict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.batch import IGNORE
from regard.data.labels import sort_labels
from regard.data.tables import is_missing
from regard.data.targets import Asks, infer_asks
from regard.errors import RegardError


def targets(labels: list[Any], asks: Asks, what: str) -> tuple[tuple[str, ...] | None, Array | None, Array]:
    """The class names or None, the numbers or None, and the target of each example: a class (IGNORE if
    unknown), or a number (NaN if unknown)."""
    known = list(map(is_known, labels))
    if not any(known):
        raise RegardError(f"{what} has no known labels; give some to train on")
    some = [label for label, there in zip(labels, known, strict=True) if there]
    if infer_asks(some, asks) == "numbers":
        if not all(map(is_number, some)):
            odd = next(label for label in some if not is_number(label))
            raise RegardError(f"{what} has the label '{odd}', which is not a number; use --data.asks classes")
        found = np.array(
            [float(label) if there else math.nan for label, there in zip(labels, known, strict=True)]
        )
        return None, found, found
    names = sort_labels(text_of(label) for label in some)
    if len(names) < 2:
        raise RegardError(f"{what} has only the label '{names[0]}'; a classifier needs at least two classes")
    place = {name: i for i, name in enumerate(names)}
    classes = np.array(
        [place[text_of(label)] if there else IGNORE for label, there in zip(labels, known, strict=True)]
    )
    return names, None, classes.astype(np.int64)


def is_known(label: Any) -> bool:
    if isinstance(label, float | np.floating):
        return not math.isnan(label)
    return not (is_missing(label) or (isinstance(label, int | np.integer) and label == -1))


def text_of(label: Any) -> str:
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label).strip()


def is_number(label: Any) -> bool:
    try:
        return math.isfinite(float(label))
    except (TypeError, ValueError):
        return False


def has_fraction(label: Any) -> bool:
    return is_number(label) and not float(label).is_integer()
