"""Several short texts in one row, so that little of a batch is padding."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence


def pack_rows(lengths: Sequence[int], most: int, order: Iterable[int]) -> list[list[int]]:
    """The texts of each row, by their numbers; a row has at most `most` tokens. Each text goes, in this order, where
    the least room is left that it fits into (best fit)."""
    rows: list[list[int]] = []
    room: list[tuple[int, int]] = []  # (tokens left, row), sorted
    for text in order:
        length = lengths[text]
        place = bisect_left(room, (length, -1))
        if place == len(room):
            left, row = most, len(rows)
            rows.append([])
        else:
            left, row = room.pop(place)
        rows[row].append(text)
        if left > length:
            insort(room, (left - length, row))
    return rows
