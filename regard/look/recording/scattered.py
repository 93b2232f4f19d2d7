"""Attention along edges written out by hand: exp(a_e) / Σ exp(a_e) over the edges that end in a node, times
values, summed there by index. From where each edge comes is not heard, so nothing can be proved of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.look.recording.edges import EdgeSource
from regard.look.recording.handwritten import CLOSE, CLOSE_HALF
from regard.look.recording.lineage import Product, Weighted
from regard.look.recording.source import quiet

SUMS = {
    "index_add",
    "index_add_",
    "scatter_add",
    "scatter_add_",
}  # the result, an axis, an index, what is summed
UNKNOWN = "attention along edges was written out, and from where its edges come was not heard"


def edges_by_hand(root: Any, args: Any, out: Tensor) -> EdgeSource | None:
    """What was summed by index, if it is weights times values and the weights of each node sum to one."""
    if not isinstance(root, Weighted) or not isinstance(root.node.root, Product) or args[1] != 0:
        return None
    with quiet(out):
        index = args[2].detach()
        index = index if index.dim() == 1 else index.flatten(1)[:, 0]
        count, nodes = len(index), len(out)
        weights, values = root.weights.detach(), root.values.detach()
        if not count or len(weights) != count or len(values) != count or len(args[3]) != count:
            return None
        weights = weights.reshape(count, -1)
        heads = weights.shape[1]
        total = weights.new_zeros(nodes, heads).index_add(0, index, weights)
        close = CLOSE if torch.finfo(weights.dtype).bits > 16 else CLOSE_HALF
        reached = torch.bincount(index, minlength=nodes) > 0
        if (weights < 0).any() or ((total[reached] - 1).abs() > close).any() or out[0].numel() % heads:
            return None
        laid = values.expand(args[3].shape).reshape(count, heads, -1)
        edges = torch.stack((torch.full_like(index, -1), index))
        return EdgeSource(weights, laid, index, edges, out.detach().reshape(nodes, heads, -1))
