"""Attention along edges, as PyTorch Geometric's layers compute it: a softmax over the edges that end in a
node, times values, summed there. Its softmax is a plain function, so while recording one that also tells
takes its place; its hooks tell what is summed. Nothing is imported for this: a model that needs it has done
so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.look.recording.calls import copy_detached
from regard.look.recording.proof import Proof, part_of, smallest_step
from regard.look.recording.provenance import EdgeSoftmax, Node, Product, Provenance, WeightedValues
from regard.look.recording.weighted_sum import close_to_one, quiet, relative_errors, wide

Add = Callable[..., None]
# each is given the result, an axis, an index and what is summed
SUMS = {"index_add", "index_add_", "scatter_add", "scatter_add_"}
UNKNOWN = "attention along edges was written out, and from where its edges come was not heard"


class EdgeSource:
    """out_i = Σ over the edges e that end in i of w_e v_e."""

    def __init__(self, weights: Tensor, values: Tensor, index: Tensor, edges: Tensor, out: Tensor) -> None:
        self.kept = weights  # e h
        self.values = values  # e h c
        self.index = index  # e: the node in which each ends
        self.edges = edges  # 2 e
        self.out = out  # n ...
        self.numbers: tuple[int, ...] = tuple(range(weights.shape[1]))  # of the heads that are wanted

    def weights(self) -> Tensor:
        """h e"""
        return wide(self.kept).T

    def prove(self) -> Proof:
        """Of the heads that are wanted, for every node as a row."""
        with quiet(self.out):
            values, weights = wide(self.values), wide(self.kept)[..., None]
            return self.proof(
                self.summed(weights * values),
                self.summed((weights * values).abs()),
                self.summed(values.double()),
                self.summed(values.double().square()),
            )

    def summed(self, each: Tensor) -> Tensor:
        """In each node.   e h c -> n h c"""
        return each.new_zeros(self.out.shape[0], *each.shape[1:]).index_add(0, self.index, each)

    def proof(self, total: Tensor, size: Tensor, first: Tensor, second: Tensor) -> Proof:
        """From Σ w v, Σ |w v|, Σ v and Σ v² over the edges that end in each node.   n h c"""
        dtype, nodes = self.out.dtype, self.out.shape[0]
        errors = relative_errors(total, self.out.reshape(total.shape), size, dtype).T[None]
        count = torch.bincount(self.index, minlength=nodes)
        each = count.clamp(min=1)[:, None, None]
        deviation = (second / each - (first / each).square()).clamp(min=0).sqrt()
        alike = (deviation <= smallest_step(dtype) * (second / each).sqrt()).all(-1)  # n h
        several = (count > 1)[:, None]  # the weight of a single edge is 1
        part = part_of((alike & several).sum(0).double(), several.sum(0).double())[None]
        chosen = list(self.numbers)
        return Proof(errors[:, chosen].float(), part[:, chosen], self.numbers, None)

    def choose(self, heads: Sequence[int] | None) -> None:
        if heads is not None:
            self.numbers = tuple(heads)

    def hold(self) -> None:
        self.kept = self.kept[:, list(self.numbers)]
        self.kept, self.edges, self.index, self.out = map(copy_detached, (self.kept, self.edges, self.index, self.out))
        self.values = self.values[:0]  # the proof is done


@contextmanager
def record_edges(model: nn.Module, provenance: Provenance, add_edges: Add) -> Iterator[None]:
    """Tell of every softmax over edges whose weights are summed in a layer that passes messages."""
    layers = [module for module in model.modules() if hasattr(module, "register_aggregate_forward_hook")]
    library = sys.modules.get("torch_geometric.utils")
    if not layers or library is None:
        yield
        return
    listeners = [Messages(layer, provenance, add_edges) for layer in layers]
    owners = [*sys.modules.values(), *model.modules()]
    with _replaced_softmax(library.softmax, owners, provenance):
        try:
            for listener in listeners:
                listener.start()
            yield
        finally:
            for listener in listeners:
                listener.stop()


@contextmanager
def _replaced_softmax(softmax: Callable[..., Tensor], owners: Sequence[Any], provenance: Provenance) -> Iterator[None]:
    """Wherever one of these modules knows this function by a name, one that also tells what it gave."""

    @wraps(softmax)
    def noting_softmax(src: Tensor, index: Any = None, ptr: Any = None, num_nodes: Any = None, dim: int = 0) -> Tensor:
        out = softmax(src, index, ptr, num_nodes, dim)
        if index is not None and dim == 0:
            provenance.begin(out, EdgeSoftmax(out.detach(), index.detach()))
        return out

    holders = [(vars(owner), name) for owner in owners for name in _named(owner, softmax)]
    try:
        for holder, name in holders:
            holder[name] = noting_softmax
        yield
    finally:
        for holder, name in holders:
            holder[name] = softmax


def _named(owner: Any, function: Any) -> list[str]:
    """The names by which a module, of Python or of a network, knows a function."""
    known = getattr(owner, "__dict__", None)
    if isinstance(known, dict):
        return [name for name, value in list(known.items()) if value is function]
    return []


class Messages:
    """What passes in one layer: the edges, each one's message, and the sum in each node."""

    def __init__(self, layer: Any, provenance: Provenance, add_edges: Add) -> None:
        self.layer, self.provenance, self.add_edges = layer, provenance, add_edges
        self.edges: Tensor | None = None
        self.node: Node | None = None
        self.handles: list[Any] = []

    def start(self) -> None:
        self.handles = [
            self.layer.register_propagate_forward_pre_hook(self.begins),
            self.layer.register_message_forward_hook(self.passes),
            self.layer.register_aggregate_forward_hook(self.arrives),
        ]

    def stop(self) -> None:
        for handle in self.handles:
            handle.remove()

    def begins(self, layer: Any, given: Any) -> None:
        if isinstance(given[0], Tensor) and given[0].layout == torch.strided:
            self.edges = given[0]
        else:
            self.edges = None

    def passes(self, layer: Any, given: Any, messages: Any) -> None:
        if isinstance(messages, Tensor):
            self.node = self.provenance.node(messages)
        else:
            self.node = None

    def arrives(self, layer: Any, given: Any, out: Any) -> None:
        root = self.node.root if self.node is not None else None
        self.node = None
        if isinstance(root, WeightedValues) and self.edges is not None:
            source = _source_of(root, self.edges, out.detach())
            if source is not None:
                self.add_edges(source, root.node.dropped, root.node.changes)


def _source_of(root: WeightedValues, edges: Tensor, out: Tensor) -> EdgeSource | None:
    """Weights of edges and the values they were multiplied with, if they lie as they should: one row an
    edge."""
    portion, sizes = root.node.root, root.view.sizes
    if (
        not isinstance(portion, EdgeSoftmax)
        or edges.shape != (2, len(portion.tensor))
        or sizes[0] != len(portion.tensor)
    ):
        return None
    heads = portion.tensor.flatten(1).shape[1] if portion.tensor.dim() > 1 else 1
    laid = [axis for axis, stride in enumerate(root.view.strides) if stride or axis == 0]
    counts = [size if axis in laid else 1 for axis, size in enumerate(sizes)]
    offsets = root.view.offsets(list(np.indices(counts).reshape(len(counts), -1)))
    found = None if offsets is None else root.node.locate(offsets)
    if found is None or not _in_order(found, tuple(portion.tensor.shape)):
        return None
    values = root.values.expand(sizes).reshape(sizes[0], heads, -1)
    return EdgeSource(portion.tensor.reshape(sizes[0], heads), values, portion.index, edges, out)


def _in_order(index: list[np.ndarray], sizes: tuple[int, ...]) -> bool:
    """Is this every element of a tensor, in its order?"""
    flat = np.zeros_like(index[0])
    for i, size in zip(index, sizes, strict=True):
        flat = flat * size + i
    return flat.size == int(np.prod(sizes)) and bool((flat == np.arange(flat.size)).all())


# ── written out by hand: exp(a_e) / Σ exp(a_e) over the edges that end in a node, times values, summed by index


def edges_by_hand(root: Any, args: Any, out: Tensor) -> EdgeSource | None:
    """What was summed by index, if it is weights times values and the weights of each node sum to one. From where
    each edge comes is not heard, so nothing can be proved of it."""
    if not isinstance(root, WeightedValues) or not isinstance(root.node.root, Product) or args[1] != 0:
        return None
    with quiet(out):
        index = args[2].detach()
        index = index if index.dim() == 1 else index.flatten(1)[:, 0]
        count, nodes = len(index), len(out)
        weights, values = root.weights.detach(), root.values.detach()
        if not count or len(weights) != count or len(values) != count or len(args[3]) != count:
            return None
        if args[3].numel() != math.prod(root.view.sizes):
            return None
        weights = weights.reshape(count, -1)
        heads = weights.shape[1]
        total = weights.new_zeros(nodes, heads).index_add(0, index, weights)
        reached = torch.bincount(index, minlength=nodes) > 0
        if (
            (weights < 0).any()
            or ((total[reached] - 1).abs() > close_to_one(weights.dtype)).any()
            or out[0].numel() % heads
        ):
            return None
        laid = values.expand(root.view.sizes).reshape(count, heads, -1)
        edges = torch.stack((torch.full_like(index, -1), index))
        return EdgeSource(weights, laid, index, edges, out.detach().reshape(nodes, heads, -1))
