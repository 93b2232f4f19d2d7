"""Cells of any length: the csv module refuses long ones, unless it is told otherwise for the whole process."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def any_length() -> Iterator[None]:
    """Lift the global size limit of the csv module while reading."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
