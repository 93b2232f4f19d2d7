"""Labels of classes, in one order everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from regard.errors import RegardError

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
