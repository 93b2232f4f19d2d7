"""Blocks that provably cannot matter: their whole weight is below the rounding of the dtype.

A bias that falls with distance (ALiBi) makes far blocks vanish. For row i and any key j of a block,
score_ij ≤ |q_i|·max|k|·scale + upper(block), and the row's log-sum-exp is at least that of one near block,
which is cheap to compute. If all m keys at that bound weigh less than half the spacing of numbers near 1,
leaving the block out changes nothing that rounding would not.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from regard.attention.kernels.fused import additive_mask
from regard.attention.kernels.reference import heads_of
from regard.attention.mask import Blocks
from regard.attention.terms import Terms


def prune(blocks: Blocks, q: Tensor, k: Tensor, terms: Terms, block: int) -> Blocks:
    """The same blocks without those that cannot matter, head by head.  -> 1 h row-blocks column-blocks"""
    assert terms.bias is not None
    upper = terms.bias.upper(terms.here.bounds(block), terms.there.bounds(block))
    if upper is None:
        return blocks
    bound = np.where(blocks.some, upper.max(0, keepdims=True), -np.inf)  # 1 h nr nc
    nearest = bound[0].sum(0).argmax(-1)  # the block to glance at, for each block of rows
    slack = _row_slack(q, k, nearest, terms, block)
    threshold = math.log(torch.finfo(q.dtype).eps / 2) - math.log(max(terms.there.count, 1))
    with np.errstate(invalid="ignore"):
        # −inf + inf is NaN, a row that sees nothing: kept
        matters = ~(bound + slack[None, :, :, None] < threshold)
    return Blocks(blocks.some & matters, blocks.every)


def _row_slack(q: Tensor, k: Tensor, nearest: np.ndarray, terms: Terms, block: int) -> np.ndarray:
    """max over the rows of a block of |q_i|·max|k|·scale − a lower bound of the row's log-sum-exp.  h
    row-blocks"""
    n, m = terms.here.count, terms.there.count
    longest = heads_of(k.norm(dim=-1, keepdim=True).amax(2, keepdim=True), q.shape[1])  # b h 1 1
    most = (q.norm(dim=-1, keepdim=True) * longest * abs(terms.scale)).squeeze(-1)  # b h n
    slack = []
    for i, j in enumerate(nearest):
        rows = slice(i * block, min((i + 1) * block, n))
        columns = slice(int(j) * block, min((int(j) + 1) * block, m))
        scores = (q[:, :, rows] * terms.scale) @ heads_of(k[:, :, columns], q.shape[1]).mT
        scores = scores + additive_mask(q, terms.part(rows, columns))
        slack.append((most[:, :, rows] - scores.logsumexp(-1)).amax((0, 2)))
    return torch.stack(slack, -1).double().cpu().numpy()
