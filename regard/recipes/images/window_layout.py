"""How the tokens of an image lie: on a grid, perhaps after some that lie nowhere, and in windows of that
grid."""

from __future__ import annotations

from dataclasses import dataclass

MOST_BEFORE = 16  # tokens that may come before the patches of an image: a class token, registers


@dataclass(frozen=True)
class WindowLayout:
    """How one layer of attention cuts a grid of tokens into windows."""

    layer: str  # dotted name; that of its attention begins with it
    grid: tuple[int, int]  # rows and columns of tokens
    window: int  # the sides of a window, in tokens
    shift: int  # by which windows are moved down and to the right, around the edge


def grid_of(tokens: int, grid: tuple[int, int]) -> tuple[int, int] | None:
    """On which grid so many tokens lie: that of the patches, with a few tokens before them, or with merged
    patches."""
    rows, columns = grid
    if 0 <= tokens - rows * columns <= MOST_BEFORE:
        return grid
    while min(rows, columns) > 1:
        rows, columns = -(-rows // 2), -(-columns // 2)
        if tokens == rows * columns:
            if tokens > 1:
                return (rows, columns)
            return None
    return None
