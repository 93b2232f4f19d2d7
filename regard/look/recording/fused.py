"""PyTorch's fused attention operators, which never show their weights, and attention over nested tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.reference import heads_of
from regard.look.recording.calls import Calls, copy_detached
from regard.look.recording.weighted_sum import COPIED, RecordedWeights, Rows, Source, softmax, wide

# Beneath scaled_dot_product_attention, one for each device and way; the first is the processor's.
FUSED = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
)
FLEX_ARGUMENTS = (
    "query",
    "key",
    "value",
    "score_mod",
    "block_mask",
    "scale",
    "kernel_options",
    "score_buffers",
    "mask_buffers",
)
NESTED_NOTE = "a nested tensor: shorter sequences are padded with zeros here"
NESTED_UNSUMMED = "no sum of these weights with values was heard; they are those of a softmax over a nested tensor"
NESTED_PRODUCTS = ("matmul", "bmm")


def arguments_by_name(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that the operator's schema gives them, with its defaults."""
    schema = operator._schema.arguments
    given = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    given |= {argument.name: value for argument, value in zip(schema, args, strict=False)}
    return given | dict(kwargs)


class Fused(Source):
    """softmax(scale·q kᵀ + mask) of one call of a fused operator. Its causal flag is aligned at the top
    left."""

    def __init__(self, given: Mapping[str, Any], out: Tensor) -> None:
        self.q, self.k, self.v, self.out = given["query"], given["key"], given["value"], out
        (self.b, self.h, self.n, c), self.m = self.q.shape, self.k.shape[2]
        scale = given.get("scale")
        self.scale = c**-0.5 if scale is None else scale
        self.causal = bool(given.get("is_causal"))
        self.dropout = float(given.get("dropout_p") or 0.0)
        mask = given.get("attn_mask", given.get("attn_bias"))
        if mask is None:
            self.mask: Tensor | None = None
        else:
            self.mask = mask.detach()
        self.heads: list[int] | None = None  # which of the mask's

    def choose(self, heads: Sequence[int] | None, rows: Tensor | None) -> None:
        self.rows = rows
        if heads is None:
            return
        assert self.q is not None and self.k is not None and self.v is not None
        chosen = list(heads)
        self.k, self.v = heads_of(self.k, self.h)[:, chosen], heads_of(self.v, self.h)[:, chosen]
        self.q, self.out = self.q[:, chosen], self.out[:, chosen]
        self.h, self.numbers, self.heads = len(chosen), tuple(chosen), chosen

    def hold(self, shelf: list[Tensor]) -> None:
        """Most layers share a mask, but each is handed one of its own; two are remembered, as local and global layers
        alternate."""
        super().hold(shelf)
        if self.mask is None:
            return
        expanded = self.mask.stride()
        once = self.mask[tuple(slice(0, None if step else 1) for step in expanded)]
        if once.numel() > COPIED:
            return
        for other in shelf:
            if other.shape == once.shape and other.dtype == once.dtype and torch.equal(other, once):
                break
        else:
            other = copy_detached(once)
            shelf[:] = [*shelf[-1:], other]
        self.mask = other.expand(self.mask.shape)

    def mask_of(self, rows: Rows) -> Tensor:
        """b|1 h|1 r m"""
        assert self.mask is not None
        mask = self.mask[(None,) * (4 - self.mask.dim())]
        mask = mask.expand(*mask.shape[:2], self.n, self.m)[:, :, rows]
        if self.heads is None or mask.shape[1] == 1:
            return mask
        return mask[:, self.heads]

    def all_weights(self, rows: Rows) -> Tensor:
        assert self.q is not None and self.k is not None
        scores = (wide(self.q[:, :, rows]) * self.scale) @ wide(heads_of(self.k, self.h)).mT
        if self.mask is not None:
            mask = self.mask_of(rows)
            if mask.dtype == torch.bool:
                scores.masked_fill_(~mask, -torch.inf)
            else:
                scores += mask.to(scores.dtype)
        if self.causal:
            here = torch.arange(self.n, device=scores.device)[rows]
            scores.masked_fill_(torch.arange(self.m, device=scores.device) > here[:, None], -torch.inf)
        return softmax(scores)


# ── FlexAttention: its score and mask functions are evaluated for the rows that are asked for


class Flexed(Source):
    """softmax over the keys that mask_mod allows of score_mod(scale·q kᵀ, b, h, i, j)."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor) -> None:
        given = {"score_buffers": (), "mask_buffers": ()} | dict(zip(FLEX_ARGUMENTS, args, strict=False)) | dict(kwargs)
        self.q, self.k, self.v, self.out = given["query"], given["key"], given["value"], out
        (self.b, self.h, self.n, _), self.m = self.q.shape, self.k.shape[2]
        self.scale = given["scale"]
        self.score_mod, self.score_buffers = given["score_mod"], given["score_buffers"]
        self.mask_mod, self.mask_buffers = given["block_mask"][-1], given["mask_buffers"]

    def all_weights(self, rows: Rows) -> Tensor:
        # lets a function index by a number
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        assert self.q is not None and self.k is not None
        scores = (wide(self.q[:, :, rows]) @ wide(heads_of(self.k, self.h)).mT) * self.scale
        device = scores.device
        b, h, m = (torch.arange(size, device=device) for size in (self.b, self.h, self.m))
        index = b, h, torch.arange(self.n, device=device)[rows], m
        with TransformGetItemToIndex():
            score = _everywhere(self.score_mod, 1, len(self.score_buffers))(scores, *index, *self.score_buffers)
            allowed = _everywhere(self.mask_mod, 0, len(self.mask_buffers))(*index, *self.mask_buffers)
        return softmax(score.masked_fill(~allowed.bool(), -torch.inf).to(scores.dtype))


def _everywhere(f: Callable[..., Tensor], scores: int, buffers: int) -> Callable[..., Tensor]:
    """A function of one score and four numbers (b, h, i, j) as one of all scores and four ranges."""
    for axis in (3, 2, 1, 0):
        numbers = [0 if a == axis else None for a in range(4)]
        f = torch.vmap(f, in_dims=(*[0] * scores, *numbers, *[None] * buffers))
    return f


# ── nested tensors: sequences of different lengths in one tensor, shown with the shorter ones padded by zeros


@dataclass(eq=False)
class NestedWeights:
    """A softmax over a nested tensor, until it meets values."""

    tensor: Tensor
    call: Any
    owner: Any
    changed: str | None = None  # what wrote on it since

    @property
    def doubt(self) -> str | None:
        if self.changed is None:
            return None
        return f"after the softmax the weights went through {self.changed}: these are the weights after that"


def _pad(x: Tensor) -> Tensor:
    """b n m -> b 1 n m, b h n m as it is; shorter sequences have zeros at their ends."""
    pieces = [piece if piece.dim() == 3 else piece[None] for piece in x.detach().unbind()]
    sizes = [max(piece.shape[axis] for piece in pieces) for axis in range(3)]
    out = pieces[0].new_zeros(len(pieces), *sizes)
    for row, piece in zip(out, pieces, strict=True):
        row[: piece.shape[0], : piece.shape[1], : piece.shape[2]] = piece
    return out


def is_nested(tensors: list[Tensor]) -> bool:
    return any(x.is_nested for x in tensors)


class NestedSoftmaxes:
    """Hears what happens to nested tensors. Only those that hold their sequences themselves are understood;
    all others are made of such."""

    def __init__(
        self, calls: Calls, paused: Callable[[], AbstractContextManager[None]], add_dense: Callable[..., Any]
    ) -> None:
        self.calls, self.paused, self.add_dense = calls, paused, add_dense
        self.pending: list[NestedWeights] = []
        calls.when_ended.append(self.forget)

    def note(self, name: str, args: Any, out: Any) -> None:
        if not isinstance(out, Tensor) or not out.is_nested or out.layout != torch.strided:
            return
        if name.endswith("softmax"):
            self.pending.append(NestedWeights(out, self.calls.current, self.calls.outer))
        elif name in NESTED_PRODUCTS:
            for found in [each for each in self.pending if each.tensor is args[0]]:
                self.pending.remove(found)
                source = RecordedWeights(_pad(found.tensor), _pad(args[1]), _pad(out))
                self.report(source, f"softmax, {name}", unsure=found.doubt)
        for found in [each for each in self.pending if each.tensor is out and not name.endswith("softmax")]:
            found.changed = name

    def report(self, source: RecordedWeights, operator: str, **how: Any) -> None:
        self.add_dense(source, operator, source.itself, note=NESTED_NOTE, **how)

    def forget(self, ended: Any) -> None:
        """A call has ended: no values will come."""
        for found in [each for each in self.pending if each.owner is ended]:
            self.pending.remove(found)
            with self.paused():
                source = RecordedWeights.alone(_pad(found.tensor))
            self.report(source, "softmax", unsure=NESTED_UNSUMMED, call=found.call)
