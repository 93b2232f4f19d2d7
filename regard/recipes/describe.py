"""The data in one line before the first step, the same for every recipe: name, numbers, splits."""

from __future__ import annotations

import os

IRREGULAR = {"vertices": "vertex", "series": "series"}


def describe_data(name: str | None, *parts: str | None) -> str:
    """photos: 1,200 images, 1,080 train / 120 validation. Parts that are None are left out."""
    where = name or "data"
    return f"{os.path.basename(where.rstrip('/')) or where}: {', '.join(part for part in parts if part)}"


def format_count(count: int | None, name: str) -> str | None:
    """1,234 rows; None for none of them."""
    if not count:
        return None
    return f"{count:,} {singular(name) if count == 1 else name}"


def singular(name: str) -> str:
    """One of the things that are counted: meshes -> mesh."""
    if name in IRREGULAR:
        return IRREGULAR[name]
    return name.removesuffix("es") if name.endswith(("shes", "sses")) else name.removesuffix("s")


def format_splits(train: int | None = None, validation: int | None = None, test: int | None = None) -> str | None:
    """1,080 train / 120 validation; None without any."""
    splits = {"train": train, "validation": validation, "test": test}
    return " / ".join(f"{count:,} {name}" for name, count in splits.items() if count) or None
