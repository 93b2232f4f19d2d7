"""The definition in the dtype given, as two matrix products: for windows, and for short bfloat16 if a
processor multiplies it.

A flash kernel has no gradient for what is added to the scores, and is no faster for short inputs. Here the
weights are kept for the gradient, and nothing else of their size: what autograd would keep and copy beside
them costs as much as the products. Rows are taken a few at a time, so that the scores of one step are still
in a cache at the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.reference import Terms, by_definition, heads_of

# scores at once for each thread of a processor: few enough for its cache, and enough to be worth a call
PIECE = 2**20


def plain(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Two matrix products in the dtype given, around a softmax in float32 at least.  -> b h n e"""
    bias, mask = terms.bias, terms.mask
    followed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if terms.dropout or followed or terms.weights is not None or (bias is not None and bias.gives_values):
        return by_definition(q, k, v, terms)
    added = None if bias is None else bias.scores(q, terms.here, terms.there)
    hidden = empty = None
    if mask is not None:
        hidden = ~mask.tile(terms.here, terms.there)
        if not mask.leaves and (nothing := hidden.all(-1, keepdim=True)).any():
            hidden, empty = hidden & ~nothing, nothing  # softmax of only -inf is NaN
        again = mask.period or _period(hidden)
        # hidden once, and not in each row
        if added is not None and _period(added) == 1 and again < len(q) and empty is None:
            added, hidden = (added.masked_fill(hidden if hidden.dim() < 4 else hidden[:again], -torch.inf), None)
    k, v = heads_of(k, q.shape[1]), heads_of(v, q.shape[1])
    if torch.is_grad_enabled():
        q, k, v = (q.contiguous(), k.contiguous(), v.contiguous())  # products want them so, for the gradient once more
    return Plain.apply(q, k, v, added, hidden, empty, terms.scale)


class Plain(torch.autograd.Function):
    """softmax(scale·q kᵀ + added) v, without what is hidden, 0 in rows that are empty.
    added, hidden, empty: to b h n m

    Where `added` has fewer rows than the batch, it comes again after them.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, added: Any, hidden: Any, empty: Any, scale: float) -> Tensor:
        (b, h, n, _), (m, e) = q.shape, v.shape[2:]
        wide = torch.promote_types(q.dtype, torch.float32)
        kept = q.new_empty(b, h, n, m) if any(ctx.needs_input_grad) else None
        out = _heads_inside(b, h, n, e, q)
        given = (q, k, v, added, hidden, empty, kept, out)
        for q_, k_, v_, added_, hidden_, empty_, kept_, out_ in _in_pieces(h * n * m, _period(added), *given):
            scores = _times(q_.flatten(0, 1), k_.flatten(0, 1).mT, scale).view(-1, h, n, m)
            if added_ is not None:
                scores = scores.to(wide)
                _by_rows(scores, added_).add_(added_)
            if hidden_ is not None:
                scores = scores.to(wide).masked_fill_(hidden_, -torch.inf)
            same = scores.dtype is q.dtype  # PyTorch sums bfloat16 in float32
            weights = torch.softmax(scores, -1, out=kept_ if same and kept_ is not None else scores)
            if not same:
                weights = weights.to(q.dtype) if kept_ is None else kept_.copy_(weights)
            if empty_ is not None:
                weights.masked_fill_(empty_, 0)
            out_.copy_((weights.view(-1, n, m) @ v_.flatten(0, 1)).view(-1, h, n, e))
        ctx.save_for_backward(q, k, v, added, hidden, empty, kept)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, added, hidden, empty, weights = ctx.saved_tensors
        for_added = ctx.needs_input_grad[3]
        # the gradient of a gradient is asked for: the same by steps that can be followed
        if torch.is_grad_enabled():
            weights = _weights_of(q, k, added, hidden, empty, ctx.scale)
            dweights = grad @ v.mT
            dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True))
            dq, dk, dv = ctx.scale * dscores @ k, ctx.scale * dscores.mT @ q, weights.mT @ grad
            if for_added:
                dadded = _by_rows(dscores.to(added.dtype), added).sum_to_size(added.shape)
            else:
                dadded = None
            return dq, dk, dv, dadded, None, None, None
        (b, h, n, c), (m, e) = q.shape, v.shape[2:]
        dq, dk, dv = _heads_inside(b, h, n, c, q), _heads_inside(b, h, m, c, q), _heads_inside(b, h, m, e, q)
        dadded = torch.zeros_like(added) if for_added else None
        wide = torch.promote_types(q.dtype, torch.float32) if for_added else q.dtype
        everything = (q, k, v, grad, weights, dq, dk, dv, dadded)
        for *given, dq_, dk_, dv_, dadded_ in _in_pieces(h * n * m, _period(added), *everything):
            q_, k_, v_, grad_, weights_ = (x.flatten(0, 1) for x in given)
            dscores = torch._softmax_backward_data((grad_ @ v_.mT).to(wide), weights_.to(wide), -1, wide)
            if dadded_ is not None:
                dadded_ += _by_rows(dscores.view(-1, h, n, m), dadded_).sum_to_size(dadded_.shape)
            dscores = dscores.to(q.dtype)
            dq_.copy_(_times(dscores, k_, ctx.scale).view(-1, h, n, c))
            dk_.copy_(_times(dscores.mT, q_, ctx.scale).view(-1, h, m, c))
            dv_.copy_((weights_.mT @ grad_).view(-1, h, m, e))
        return dq, dk, dv, dadded, None, None, None


def _heads_inside(b: int, h: int, n: int, c: int, like: Tensor) -> Tensor:
    """Room for b h n c, laid out as b n h c: a linear map comes before it or after it, to which this is b n
    (h c)."""
    return like.new_empty(b, n, h, c).transpose(1, 2)


def _period(x: Tensor | None) -> int:
    """The rows after which it comes again."""
    return 1 if x is None or x.dim() < 4 else len(x)


def _by_rows(scores: Tensor, added: Tensor) -> Tensor:
    """Scores, as many rows at a time as are added.   b h n m -> (b / rows) rows h n m"""
    return scores.unflatten(0, (-1, _period(added)))


def _in_pieces(scores: int, again: int, *given: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Some rows of the batch at a time; what is the same for all rows goes with each.

    scores: of one row   again: the rows of what comes again after them; a piece has them whole, or a part of
    them
    """
    first = given[0]
    assert first is not None
    b, rows = first.shape[0], max(1, PIECE * torch.get_num_threads() // max(1, scores))
    if rows >= b or first.device.type != "cpu":
        yield given
        return
    rows = rows // again * again or rows
    for begin in range(0, b, max(again, rows)):
        end = min(begin + max(again, rows), b)
        for i in range(begin, end, rows):
            count = min(rows, end - i)
            yield tuple(piece(x, i, count, b, again) for x in given)


def piece(x: Tensor | None, i: int, count: int, b: int, again: int) -> Tensor | None:
    """Of b rows, or of those that come again, the ones from i on."""
    if x is None or x.dim() < 4 or len(x) == 1:
        return x
    if len(x) == b:
        return x[i : i + count]
    if count >= again:
        return x
    return x[i % again : i % again + count]


def _times(x: Tensor, y: Tensor, scale: float) -> Tensor:
    """scale·x y, in one pass over the result."""
    return torch.baddbmm(x.new_empty(()), x, y, beta=0, alpha=scale)


def _weights_of(q: Tensor, k: Tensor, added: Any, hidden: Any, empty: Any, scale: float) -> Tensor:
    """The weights in operations that have gradients themselves.   b h n m"""
    scores = scale * (q @ k.mT)
    if added is not None:
        scores = (_by_rows(scores, added) + added).flatten(0, 1)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1).to(q.dtype)
    if empty is None:
        return weights
    return weights.masked_fill(empty, 0)
