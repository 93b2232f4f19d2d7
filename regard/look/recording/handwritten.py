"""Weights that no softmax operator gave: exp(a) / Σ exp(a), exp(log_softmax(a)), exp(a − logsumexp(a)) and
whatever else is written out. They are known by what they are used for: a tensor that follows from scores,
element by element, is summed with values along one axis, and its rows are not negative and sum to one.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.look.recording.lineage import Geometry, Node, Product, Weights
from regard.look.recording.sums import Sum

CLOSE = 1e-3  # how near to one a row must sum
CLOSE_HALF = 5e-2  # exp(a − logsumexp(a)) in bfloat16 is off by 0.03
EXPONENTIALS = {"exp", "exp_", "exp2", "exp2_"}


def may_be_weights(node: Node | None, weights: Tensor) -> bool:
    """Is it worth asking? `weights` are what was multiplied with values, as the product was given them."""
    if node is None or not isinstance(node.root, Product) or not weights.is_floating_point():
        return False
    row = weights.detach()
    while row.dim() > 1 and len(row):
        row = row[0]
    return node.root.left is not None or bool((row >= 0).all())


def with_own_root(found: Sum) -> Sum | None:
    """The same sum, with its weights as the place where something begins."""
    own = _without_ones(found.node.own)
    first, second = own.elements(found.starts), own.elements(found.starts + found.step)
    if first is None or second is None:
        return None
    moving = [axis for axis, (i, j) in enumerate(zip(first, second, strict=True)) if (i != j).any()]
    if len(moving) != 1:
        return None
    root = found.node.own_root
    if root is None or root.axis != moving[0]:
        tensor = found.storage.as_strided(own.sizes, own.strides, own.start)
        root = found.node.own_root = Weights(tensor, moving[0], found.node, own, scored=True)
    return replace(found, node=Node(root, own, dropped=found.node.dropped))


def _without_ones(own: Geometry) -> Geometry:
    """Of more than four axes, those of size one are left out from the end."""
    kept = list(range(len(own.sizes)))
    for axis in reversed(range(len(own.sizes))):
        if len(kept) > 4 and own.sizes[axis] == 1:
            kept.remove(axis)
    return Geometry(tuple(own.sizes[a] for a in kept), tuple(own.strides[a] for a in kept), own.start)


def is_normalized(weights: Tensor) -> bool:
    """Are the weights not negative, and does each row sum to one? Rows of nothing but zeros have nothing to
    look at.   ... m"""
    if weights.shape[-1] < 2 or not weights.numel() or not weights.is_floating_point():
        return False
    if not (weights >= 0).all():
        return False
    total = weights.sum(-1, dtype=torch.float64)
    close = CLOSE if torch.finfo(weights.dtype).bits > 16 else CLOSE_HALF
    fits = (total - 1).abs() <= close
    return bool((fits | (total == 0)).all() and fits.any())


DROPPED = "attention dropout was on: these are the weights after it; call model.eval() before recording"


def describe(weights: Tensor) -> str:
    """Why these are no weights as a softmax gives them.   ... m"""
    if (weights < 0).any():
        return "no softmax was heard: what was multiplied with the values has negative entries (linear attention?)"
    total = weights.sum(-1, dtype=torch.float64)
    return (
        "no softmax was heard: the rows of what was multiplied with the values sum to "
        f"{float(total.min()):.2g} to {float(total.max()):.2g}, not to 1"
    )
