"""What targets are, classes or numbers: one rule for every kind of data, the order and names of classes, and the scale of
numbers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from regard.config import Amount, config
from regard.data.array import Array
from regard.data.text_files import read_lines
from regard.errors import RegardError

Asks = Literal["auto", "classes", "numbers"]
FEW = 10  # whole numbers with no more different values than this are classes


def infer_asks(values: Sequence[Any], asks: Asks = "auto") -> Literal["classes", "numbers"]:
    """What is predicted from these targets. auto: text is classes, and numbers of which some have a fraction are
    numbers. Whole numbers are classes if there are at most ten different ones, or if they are the numbers of
    classes: 0 … k−1 or 1 … k, each of them there."""
    if asks != "auto":
        return asks
    numbers = read_numbers(values)
    if numbers is None:
        return "classes"
    if (numbers != np.round(numbers)).any():
        return "numbers"
    different = np.unique(numbers)
    if len(different) <= FEW or _count_classes(different):
        return "classes"
    return "numbers"


def _count_classes(different: Array) -> bool:
    """Are these sorted whole numbers 0 … k−1 or 1 … k?"""
    return bool(different[0] in (0, 1) and different[-1] - different[0] == len(different) - 1)


def explain_asks(values: Sequence[Any], asks: Asks, column: str) -> tuple[str, ...]:
    """A line on whole numbers, which may be either: how they are read, and the option that changes it."""
    numbers = read_numbers(values)
    if asks != "auto" or numbers is None or (numbers != np.round(numbers)).any():
        return ()
    different = np.unique(numbers)
    count = len(different)
    if count <= 2 or (_count_classes(different) and different[0] == 0):  # who counts from 0 numbers classes
        return ()
    whole = f"'{column}' holds {count:,} different whole numbers"
    if infer_asks(values) == "classes":
        return (f"{whole}, read as classes; --data.asks numbers predicts a number instead",)
    return (f"{whole}, read as numbers; --data.asks classes makes each of them a class",)


def read_numbers(values: Sequence[Any]) -> Array | None:
    """The targets as numbers; None: some are text, or not finite."""
    try:
        found = np.array(values).astype(np.float64)
    except (ValueError, TypeError):
        return None
    if np.isfinite(found).all():
        return found
    return None


def first_without_number(values: Sequence[Any]) -> int | None:
    """The index of the first target that is no finite number; None: all are."""
    if read_numbers(values) is not None:
        return None
    return next((i for i, value in enumerate(values) if read_numbers([value]) is None), None)


def find_scale(values: Array) -> Array:
    """The standard deviation of each column; 1 for one that never changes but for rounding.   n ... -> ..."""
    if not len(values):
        return np.ones(values.shape[1:])
    low, high, deviation = values.min(0), values.max(0), values.std(0)
    changes = high - low > 1e-12 * np.maximum(np.abs(low), np.abs(high))
    return np.where(changes & (deviation > 0), deviation, 1.0)


@config
class Numbers:
    """A number to predict. The model predicts (number − centre) / scale."""

    name: str  # of the column
    centre: float  # the mean in the train split
    scale: Amount  # the standard deviation there

    @classmethod
    def measure(cls, name: str, values: Array) -> Numbers:
        """The scale of the numbers of a train split; 1 if they are all the same."""
        return cls(name=name, centre=float(values.mean()), scale=float(find_scale(values)))

    def standardise(self, values: Array) -> Array:
        """Numbers as targets of the model, float32."""
        found: Array = ((values - self.centre) / self.scale).astype(np.float32)
        return found

    def restore(self, output: float) -> float:
        """An output of the model in the units of the data."""
        return output * self.scale + self.centre

    def format(self, output: float) -> str:
        """stars 4.21"""
        return f"{self.name} {self.restore(output):.6g}"


# ── labels of classes, in one order everywhere

MOST = 2**16  # classes


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels, sorted: as numbers if all are whole numbers, else as text."""
    different = set(labels)
    if len(different) > MOST:
        some = ", ".join(each[:20] for each in sorted(different)[:3])
        raise RegardError(
            f"there are {len(different):,} different labels, such as {some}; a classifier knows {MOST:,} at "
            "most; choose the column or the folders of the classes"
        )
    numbers = all(each.isascii() and each.removeprefix("-").isdigit() and len(each) < 20 for each in different)
    return tuple(sorted(different, key=lambda each: (int(each) if numbers else 0, each)))


# ── names for classes that are numbers in the data


def read_names(given: Sequence[str]) -> tuple[str, ...]:
    """The names in `cat,dog`, in a file, or as they are. Raise if one is empty or there twice."""
    names = [given] if isinstance(given, str) else list(given)
    if len(names) == 1 and os.path.isfile(os.path.expanduser(names[0])):
        lines = [line.strip() for line in read_lines(os.path.expanduser(names[0]))]
        while lines and not lines[-1]:
            lines.pop()
        names, where = lines, f"line {{}} of {names[0]}"
    else:
        if len(names) == 1 and "," not in names[0]:
            raise RegardError(
                f"names must be the names of at least two classes, as cat,dog, or a file with one name a line, "
                f"got {names[0]!r}, and there is no file of this name"
            )
        if len(names) == 1:
            names = names[0].split(",")
        names, where = [name.strip() for name in names], "name {}"
    for number, name in enumerate(names, start=1):
        if not name:
            raise RegardError(f"names must not be empty, got an empty one: {where.format(number)}")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        number = [i for i, name in enumerate(names, start=1) if name == twice][1]
        raise RegardError(f"names must be different, got '{twice}' a second time: {where.format(number)}")
    return tuple(names)


def check_names(names: Sequence[str], labels: Sequence[str], what: str) -> None:
    """Raise unless there is one name for each class. labels: as the data has them, in order"""
    if len(names) != len(labels):
        classes = f"{len(labels):,} classes ({labels[0]} … {labels[-1]})" if labels else "no classes"
        raise RegardError(
            f"{what} has {classes}, and {len(names):,} names are given ({names[0]} … {names[-1]}); give one for "
            "each class, in the order of the numbers"
        )
