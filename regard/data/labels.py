"""Labels of classes, in one order everywhere."""

from __future__ import annotations

from collections.abc import Iterable


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels, sorted: as numbers if all are whole numbers, else as text."""
    different = set(labels)
    numbers = all(each.isascii() and each.removeprefix("-").isdigit() for each in different)
    return tuple(sorted(different, key=lambda each: (int(each) if numbers else 0, each)))
