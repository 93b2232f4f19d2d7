"""PyTorch's fused attention operators: which argument is what, and the weights that they never show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels.reference import heads_of
from regard.look.recording.source import Rows, Source, Unchanged, softmax, wide

# Beneath scaled_dot_product_attention, one for each device and way; the first is the processor's.
FUSED = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
)


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
        self.same_mask = Unchanged(() if mask is None else [mask])

    def choose(self, heads: Sequence[int] | None, rows: Tensor | None) -> None:
        self.rows = rows
        if heads is None:
            return
        assert self.q is not None and self.k is not None and self.v is not None
        chosen = list(heads)
        self.k, self.v = heads_of(self.k, self.h)[:, chosen], heads_of(self.v, self.h)[:, chosen]
        self.q, self.out = self.q[:, chosen], self.out[:, chosen]
        self.h, self.numbers, self.heads = len(chosen), tuple(chosen), chosen

    def held(self, shelf: list[Tensor]) -> None:
        """Most layers share a mask, but each is handed a copy; two are remembered, as local and global layers
        alternate."""
        super().held(shelf)
        if self.mask is None:
            return
        for other in shelf:
            if (
                other.shape == self.mask.shape
                and other.dtype == self.mask.dtype
                and torch.equal(other, self.mask)
            ):
                self.mask = other
                break
        else:
            shelf[:] = [*shelf[-1:], self.mask]
        self.same_mask = Unchanged([self.mask])

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
        self.same_mask.check("the mask")
        scores = (wide(self.q[:, :, rows]) * self.scale) @ wide(heads_of(self.k, self.h)).mT
        if self.mask is not None:
            mask = self.mask_of(rows)
            if mask.dtype == torch.bool:
                scores = scores.masked_fill(~mask, -torch.inf)
            else:
                scores = scores + mask.to(scores.dtype)
        if self.causal:
            here = torch.arange(self.n, device=scores.device)[rows]
            scores = scores.masked_fill(
                torch.arange(self.m, device=scores.device) > here[:, None], -torch.inf
            )
        return softmax(scores)
