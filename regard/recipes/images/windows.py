"""Attention within windows, put back over the image: which window a token was in is known from how the
model cuts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.look.model_input import Window
from regard.look.recording.entry import Entry
from regard.models.swin import Swin, WindowBlock, Windows, windows

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


EMPTY = "beyond the edge"  # what windows at the border are filled up with


@dataclass(frozen=True, eq=False)
class Block:
    """What was heard in one block, on which grid, and how that was cut."""

    entry: Entry
    grid: tuple[int, int]
    cut: Windows

    @property
    def real(self) -> Tensor:
        """Which slots hold a token, and not what windows at the border are filled up with.   windows n"""
        rows, columns = self.grid
        return (self.cut.into < rows * columns).view(-1, self.cut.side**2)


def cuts(model: Swin, height: int, width: int) -> tuple[WindowLayout, ...]:
    """How ours cuts an image, layer by layer."""
    grid, found = model.embed.grid(height, width), []
    for stage, parts in enumerate(model.stages):
        if stage:
            grid = (-(-grid[0] // 2), -(-grid[1] // 2))
        assert isinstance(parts, nn.ModuleList)
        for i, block in enumerate(parts):
            assert isinstance(block, WindowBlock)
            found.append(WindowLayout(f"stages.{stage}.{i}", grid, block.window, block.shift))
    return tuple(found)


def blocks(found: Sequence[WindowLayout], seen: Sequence[Entry]) -> list[Block]:
    """What was heard in each layer that cuts windows, in their order. Nothing at all if it is not what such a
    cut leads to."""
    heard = []
    for each in found:
        cut = windows(*each.grid, each.window, each.shift, torch.device("cpu"))
        inside = [entry for entry in seen if entry.name.startswith(f"{each.layer}.")]
        n = cut.side**2
        if len(inside) != 1 or inside[0].kind == "edges" or not _fits(inside[0].shape, len(cut.into) // n, n):
            return []
        heard.append(Block(inside[0], each.grid, cut))
    return heard


def _fits(shape: Sequence[int], count: int, n: int) -> bool:
    """Are these weights of so many windows of n tokens each?   windows h n n"""
    return shape[0] == count and shape[2] == shape[3] == n


def name_windows(block: Block) -> list[Window]:
    """The windows of a layer, in their order. Rows and columns are those of its own grid, counted from 1."""
    rows, columns = block.grid
    found = []
    for slots in block.cut.into.view(-1, block.cut.side**2).tolist():
        here = [divmod(slot, columns) for slot in slots if slot < rows * columns]
        sides = [_stretches(sorted({place[axis] + 1 for place in here})) for axis in (0, 1)]
        places = [f"row {slot // columns + 1}, column {slot % columns + 1}" for slot in slots]
        labels = [place if slot < rows * columns else EMPTY for slot, place in zip(slots, places, strict=True)]
        found.append(Window(f"window of rows {sides[0]}, columns {sides[1]}", tuple(labels)))
    return found


def _stretches(numbers: Sequence[int]) -> str:
    """1, 2, 7, 8 -> "1–2 and 7–8": a shifted window reaches around the edge."""
    joined: list[list[int]] = []
    for number in numbers:
        if joined and joined[-1][1] + 1 == number:
            joined[-1][1] = number
        else:
            joined.append([number, number])
    return " and ".join(str(first) if first == last else f"{first}–{last}" for first, last in joined)


def attention_received(block: Block) -> Tensor:
    """The share of all attention of a layer that each token receives, from its window.   -> h rows columns"""
    weights = block.entry.weights.cpu()  # windows h n n
    from_tokens = (weights * block.real[:, None, :, None]).sum(2) / block.real.sum()
    return from_tokens.transpose(0, 1).flatten(1)[:, block.cut.back].unflatten(-1, block.grid)


def rollout(found: Sequence[Block]) -> Tensor:
    """How much of each patch can reach the mean of all tokens of the last stage.
    -> rows columns of the first

    As for whole attention, each layer is half what a token was and half the mean of its heads. A merge takes
    its four tokens alike; what lies beyond the border is lost.
    """
    *_, last = found
    rows, columns = last.grid
    share = torch.full((rows * columns,), 1 / (rows * columns))
    for block, before in zip(reversed(found), [*reversed(found[:-1]), None], strict=True):
        share = 0.5 * share + 0.5 * _backwards(share, block)
        if before is not None and before.grid != block.grid:
            share = _spread(share.unflatten(0, block.grid), before.grid).flatten()
    return share.unflatten(0, found[0].grid)


def _backwards(share: Tensor, block: Block) -> Tensor:
    """Where the shares of tokens come from, one attention earlier.   tokens -> tokens"""
    slots = torch.zeros(len(block.cut.into))
    slots[block.cut.back] = share
    mean = block.entry.weights.mean(1).float().cpu()  # windows n n
    return torch.einsum("wn, wnm -> wm", slots.view(mean.shape[:2]), mean).flatten()[block.cut.back]


def _spread(share: Tensor, grid: tuple[int, int]) -> Tensor:
    """A share of a merged token belongs to its four in equal parts.   h/2 w/2 -> h w"""
    return share.repeat_interleave(2, 0).repeat_interleave(2, 1)[: grid[0], : grid[1]] / 4
