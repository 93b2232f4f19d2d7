"""The order of classes of nodes, which decides their colours: by name, so that it is the same in every run."""

from __future__ import annotations

import re
from collections.abc import Iterable

CLASSES = 24  # that have a colour each
UNKNOWN = "not known"


def sort_names(names: Iterable[str]) -> list[str]:
    """Names in the order of a person: 2 before 10."""
    return sorted(set(names), key=_by_parts)


def _by_parts(name: str) -> list[tuple[int, int, str]]:
    parts = [part for part in re.split(r"(\d+)", name) if part]
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
