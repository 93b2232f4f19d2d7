"""Edges in the order of the nodes they lead to, and what is computed along them: products, a softmax, sums.

Nothing here is as large as nodes × nodes, nor as edges × channels, in either direction: a product along edges
is a sampled matrix product, a sum is a sparse one, and each is what the other needs for its gradient.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 2**22  # numbers that are gathered at once where there is no sampled product


class Links:
    """Edges from m sources to n targets, sorted by target: those of target i are slots starts[i] … starts[i +
    1].

    `order` says which of the edges as they were given each slot holds. A tracer cannot sort and count, so
    while a function is compiled edges stay in the order in which they were given, and products and sums are
    plain ones.
    """

    def __init__(self, source: Tensor, target: Tensor, n: int, m: int) -> None:
        self.n, self.m = n, m
        if torch.compiler.is_compiling():
            self.order, self.source, self.target = (torch.arange(source.shape[0], device=source.device), source, target)
            return
        self.order = torch.argsort(target, stable=True)
        self.source, self.target = source[self.order], target[self.order]
        self.starts = F.pad(torch.bincount(self.target, minlength=n).cumsum(0), (1, 0))
        self.reversed: Links | None = None
        self.short: tuple[Tensor, Tensor] | None = None

    @property
    def count(self) -> int:
        return self.source.shape[0]

    @property
    def turned(self) -> Links:
        """The same edges the other way round; its `order` counts the slots of these."""
        if self.reversed is None:
            self.reversed = Links(self.target, self.source, self.m, self.n)
        return self.reversed

    @property
    def pattern(self) -> tuple[Tensor, Tensor]:
        """Starts and sources as short integers, which sparse products read faster."""
        if self.short is None:
            dtype = torch.int32 if max(self.count, self.n, self.m) < 2**31 else torch.int64
            self.short = self.starts.to(dtype), self.source.to(dtype)
        return self.short

    def total(self, x: Tensor) -> Tensor:
        """The sum over the edges that lead to each target.   e -> n"""
        return torch.zeros(self.n, dtype=x.dtype, device=x.device).index_add(0, self.target, x)


class Products(torch.autograd.Function):
    """s_e = Σ_c x_target(e),c y_source(e),c.   p n c, p m c -> p e"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, links: Links) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.links = links
        return _sampled(x, y, links)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        links, grad = ctx.links, grads[0]
        to_x = edge_sum(grad, y, links) if ctx.needs_input_grad[0] else None
        if ctx.needs_input_grad[1]:
            to_y = edge_sum(grad[:, links.turned.order], x, links.turned)
        else:
            to_y = None
        return to_x, to_y, None


class Sums(torch.autograd.Function):
    """o_i = Σ over edges e that lead to i of w_e y_source(e).
    p e, p m c -> p n c;  weights None: all are 1"""

    @staticmethod
    def forward(ctx: Any, weights: Tensor | None, y: Tensor, links: Links) -> Tensor:
        ctx.save_for_backward(weights, None if weights is None else y)
        ctx.links = links
        return _summed(weights, y, links)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, y = ctx.saved_tensors
        links, grad = ctx.links, grads[0]
        to_weights = edge_dot(grad, y, links) if ctx.needs_input_grad[0] else None
        if weights is None or not ctx.needs_input_grad[1]:
            back = None
        else:
            back = weights[:, links.turned.order]
        to_y = edge_sum(back, grad, links.turned) if ctx.needs_input_grad[1] else None
        return to_weights, to_y, None


class Portions(torch.autograd.Function):
    """w_e = exp(s_e) / Σ of exp(s) over the edges with the same target.   p e -> p e"""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, links: Links) -> Tensor:
        rows = []
        for row in scores:
            most = torch.segment_reduce(row, "max", offsets=links.starts)[links.target]
            risen = (row - most).exp_()
            rows.append(risen.div_(torch.segment_reduce(risen, "sum", offsets=links.starts)[links.target]))
        weights = torch.stack(rows) if rows else torch.empty_like(scores)
        ctx.save_for_backward(weights)
        ctx.links = links
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (weights,), links = ctx.saved_tensors, ctx.links
        share = weights * grads[0]
        total = torch.stack([torch.segment_reduce(row, "sum", offsets=links.starts)[links.target] for row in share])
        return share - weights * total, None


def edge_dot(x: Tensor, y: Tensor, links: Links) -> Tensor:
    """s_e = x_target(e) · y_source(e).   p n c, p m c -> p e, in float32 at least"""
    x, y = _wide(x, y)
    if torch.compiler.is_compiling():
        return (x[:, links.target] * y[:, links.source]).sum(-1)
    found: Tensor = Products.apply(x, y, links)
    return found


def edge_sum(weights: Tensor | None, y: Tensor, links: Links) -> Tensor:
    """o_i = Σ_e w_e y_source(e) over the edges that lead to i.
    p e, p m c -> p n c, as y is; weights None: all are 1

    Half precision is summed in float32, and only the sums are rounded.
    """
    narrow = y.dtype
    if weights is None:
        y, weights = (_wide(y, y)[0], None)
    else:
        y, weights = _wide(y, weights)
    if torch.compiler.is_compiling():
        empty = torch.zeros(y.shape[0], links.n, y.shape[-1], dtype=y.dtype, device=y.device)
        along = y[:, links.source] if weights is None else weights[..., None] * y[:, links.source]
        return empty.index_add(1, links.target, along).to(narrow)
    found: Tensor = Sums.apply(weights, y, links)
    return found.to(narrow)


def _wide(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one dtype, float32 at least: long sums in half precision would lose what they add."""
    dtype = torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)
    return x.to(dtype), y.to(dtype)


def edge_softmax(scores: Tensor, links: Links) -> Tensor:
    """The softmax of scores among the edges with the same target.   p e -> p e"""
    if torch.compiler.is_compiling():
        lowest = torch.full((scores.shape[0], links.n), -torch.inf, dtype=scores.dtype, device=scores.device)
        most = lowest.scatter_reduce(1, links.target.expand_as(scores), scores.detach(), "amax")
        risen = (scores - most[:, links.target]).exp()
        return risen / torch.zeros_like(lowest).index_add(1, links.target, risen)[:, links.target]
    found: Tensor = Portions.apply(scores, links)
    return found


@cache
def has_sampled_products() -> bool:
    """Can this build of PyTorch multiply at chosen places of a matrix? The first such matrix warns: once, and
    here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))
    return torch.backends.mkl.is_available()


def _sampled(x: Tensor, y: Tensor, links: Links) -> Tensor:
    if not links.count or not len(x):
        return x.new_zeros(len(x), links.count)
    fits = x.dtype in (torch.float32, torch.float64) and x.shape[-1] > 0 and links.count <= links.n * links.m
    if fits and x.device.type == "cpu" and has_sampled_products():
        starts, source = links.pattern
        empty = torch.zeros(links.count, dtype=x.dtype)
        rows = []
        for one, other in zip(x, y, strict=True):
            pattern = torch.sparse_csr_tensor(starts, source, empty, (links.n, links.m), check_invariants=False)
            rows.append(torch.sparse.sampled_addmm(pattern, one.contiguous(), other.contiguous().mT, beta=0.0).values())
        return torch.stack(rows)
    step = max(1, CHUNK // max(1, len(x) * x.shape[-1]))
    pieces = zip(links.target.split(step), links.source.split(step), strict=True)
    return torch.cat([(x[:, target] * y[:, source]).sum(-1) for target, source in pieces], 1)


def _summed(weights: Tensor | None, y: Tensor, links: Links) -> Tensor:
    if not links.count or not len(y) or not y.shape[-1]:
        return y.new_zeros(len(y), links.n, y.shape[-1])
    starts, source = links.pattern
    how: dict[str, Any] = {"mode": "sum", "include_last_offset": True}
    held = [None] * len(y) if weights is None else [each.contiguous() for each in weights.detach()]
    # (detached: a gradient is no business of embedding_bag, and would cost it time)
    rows = [
        F.embedding_bag(source, of, starts, per_sample_weights=w, **how) for w, of in zip(held, y.detach(), strict=True)
    ]
    if len(rows) == 1:
        return rows[0][None]
    return torch.stack(rows)
