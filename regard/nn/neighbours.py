"""A token together with those beside it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.positions import coordinates


def gather_neighbours(x: Tensor, reach: int, where: Tensor | None, real: Tensor | None) -> Tensor:
    """The vectors of a token and of `reach` tokens on each side, side by side.   b n d -> b n (2·reach+1)·d

    Neighbours are found by their places, one place on at a time, not by their slots: tokens may be given in any
    order with their places, and padding does not matter. Where a place is empty, it and all beyond it are zeros.
    """
    if where is None:
        return torch.cat([_slide(x, k) for k in range(-reach, reach + 1)], -1)
    b, n, d = x.shape
    places = coordinates(where, 0, n, b, x.device, "neighbours").expand(b, n).double()
    places = places.masked_fill(places.isnan(), torch.inf)
    if real is not None:
        places = places.masked_fill(~real, torch.inf)
    sorted_places, order = places.sort(dim=1, stable=True)
    line = x.gather(1, order[..., None].expand(b, n, d))
    follows = F.pad(
        sorted_places[:, 1:] - sorted_places[:, :-1] == 1, (1, 0)
    )  # b n: right after the one before
    before, unbroken = [line], torch.ones_like(follows)
    after, open_on = [], torch.ones_like(follows)
    for k in range(1, reach + 1):
        unbroken = unbroken & _slide(follows, -(k - 1))
        before.insert(0, _slide(line, -k) * unbroken[..., None])
        open_on = open_on & _slide(follows, k)
        after.append(_slide(line, k) * open_on[..., None])
    both = torch.cat((*before, *after), -1)
    return torch.zeros_like(both).scatter(1, order[..., None].expand_as(both), both)


def _slide(x: Tensor, k: int) -> Tensor:
    """y_i = x_(i+k) along the second axis; zeros (or False) beyond the ends."""
    n = x.shape[1]
    if abs(k) >= n:
        return torch.zeros_like(x)
    empty = torch.zeros_like(x[:, : abs(k)])
    if k < 0:
        return torch.cat((empty, x[:, :k]), 1)
    return torch.cat((x[:, k:], empty), 1)
