"""Sums of values: where the weights of each lie in their storage, and what was computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.look.recording.lineage import Index, Node, Weighted


@dataclass(eq=False)
class Sum:
    """A sum of values: out_β,r = Σ_j w_β,r,j v_β,j, with the weights as they were laid out for it."""

    node: Node  # of the weights
    starts: np.ndarray  # B R: where in their storage the first weight of each sum is
    step: int  # how far apart two neighbouring weights of a sum are
    storage: Tensor  # a tensor in the storage of the weights
    weights: Tensor  # B R m; a copy, perhaps
    values: Tensor  # B m e
    out: Tensor  # B R e
    ends: tuple[Index, Index] | None = (
        None  # the first and the last weight of each sum, in the tensor of the root
    )

    def find_ends(self) -> tuple[Index, Index] | None:
        """B R for each axis; None if they are not known."""
        if self.ends is not None:
            return self.ends
        first = self.node.locate(self.starts)
        last = self.node.locate(self.starts + self.step * (self.values.shape[1] - 1))
        if first is None or last is None:
            return None
        return first, last


def join(parts: list[Sum]) -> Sum | None:
    """Sums of parts of the same weights, head by head or a few rows at a time, as one; None if their sizes
    differ."""
    shapes = {(part.weights.shape[1:], part.values.shape[1:]) for part in parts}
    ends = [part.find_ends() for part in parts]
    known = [each for each in ends if each is not None]
    if len(shapes) != 1 or len(known) != len(parts):
        return None
    first, last = (
        [np.concatenate(axis) for axis in zip(*(each[end] for each in known), strict=True)] for end in (0, 1)
    )
    weights, values, out = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("weights", "values", "out")
    )
    changes = tuple(change for part in parts for change in part.node.changes)
    dropped = any(part.node.dropped for part in parts)
    node = replace(parts[0].node, changes=changes, dropped=dropped)
    whole = replace(parts[0], node=node, weights=weights, values=values, out=out)
    return replace(whole, ends=(first, last))


def of_product(node: Node, weights: Tensor, values: Tensor, out: Tensor, *, right: bool) -> Sum:
    """weights @ values, or values @ weights (`right`), of matrices or batches of them."""
    weights, values, out = (x if x.dim() == 3 else x[None] for x in (weights, values, out))
    if right:
        weights, values, out = weights.mT, values.mT, out.mT
    (b, r, _), (sb, sr, sm) = weights.shape, weights.stride()
    starts = int(weights.storage_offset()) + np.arange(b)[:, None] * sb + np.arange(r)[None] * sr
    return Sum(node, starts, sm, weights.detach(), weights.detach(), values, out)


def from_weighted_sum(root: Weighted, view: Tensor, axis: int, out: Tensor) -> Sum | None:
    """(weights * values).sum(axis): the last axis along which the weights are all the same is that of the
    channels."""
    laid, values = root.view, root.values.expand(root.view.sizes)
    if tuple(view.shape) != laid.sizes:
        return None
    channels = [a for a in range(len(laid.sizes)) if a != axis and laid.strides[a] == 0 and laid.sizes[a] > 1]
    if not channels:
        return None
    rest = [a for a in range(len(laid.sizes)) if a not in (axis, channels[-1])]
    starts = np.asarray(laid.start)
    for a in rest:
        starts = starts[..., None] + np.arange(laid.sizes[a]) * laid.strides[a]
    order = [*rest, axis, channels[-1]]
    flat = values.permute(order).reshape(-1, laid.sizes[axis], laid.sizes[channels[-1]])
    used = root.weights.expand(laid.sizes).permute(order)[..., 0].reshape(-1, 1, laid.sizes[axis])
    sums = out.reshape([laid.sizes[a] for a in range(len(laid.sizes)) if a != axis])
    kept = [a for a in range(len(laid.sizes)) if a != axis]
    sums = sums.permute([kept.index(a) for a in (*rest, channels[-1])]).reshape(
        -1, 1, laid.sizes[channels[-1]]
    )
    return Sum(root.node, starts.reshape(-1, 1), laid.strides[axis], root.weights, used, flat, sums)
