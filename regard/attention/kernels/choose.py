"""Which kernel: the fastest that is exact for the case, and why.

The thresholds were measured with `benchmarks/attention.py --thresholds`; they move a case between kernels that give the same
result, so being a little off costs a little time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention import kernels
from regard.attention.biases import Bias
from regard.attention.kernels.fused import fused, is_square_causal, refuses, sees_all
from regard.attention.kernels.plain import plain
from regard.attention.kernels.precision import HALF, native
from regard.attention.kernels.reference import reference
from regard.attention.kernels.strips import plan
from regard.attention.kernels.tiled import BLOCK, tiled
from regard.attention.mask import Mask
from regard.attention.places import Side

SHORT = 512  # up to here plain products beat SDPA in bfloat16 on a processor that has units for it
SMALL = 512 * 512  # pairs up to which a dense matrix costs less than finding out which blocks matter
LARGE = 2**27  # scores (all rows and heads) beyond which the dense matrix is no longer kept for the gradient


@dataclass(frozen=True)
class Choice:
    """A kernel, its name, and the reason it was taken."""

    name: str
    kernel: Callable[..., Tensor]
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


KERNELS: dict[str, Callable[..., Tensor]] = {"reference": reference, "plain": plain, "fused": fused, "tiled": tiled}
SDPA_ALONE = Choice("fused", fused, "SDPA does this without a matrix of masks")
SDPA_IN_HALF = Choice("fused", fused, "SDPA does this, in float32 since the processor does not multiply this dtype itself")
SHORT_HALF = Choice("plain", plain, f"plain products beat SDPA in bfloat16 up to {SHORT} tokens")
NO_KEYS = Choice("reference", reference, "there is nothing to compute")


def choose(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    here: Side,
    there: Side,
    mask: Mask | None = None,
    bias: Bias | None = None,
    dropout: float = 0.0,
) -> Choice:
    """The kernel that `attend` would use for this case."""
    if kernels.wanted is not None:
        return Choice(kernels.wanted, KERNELS[kernels.wanted], f"asked for with only({kernels.wanted!r})")
    b, h, n, _ = q.shape
    m = k.shape[2]
    if n == 0 or m == 0:
        return NO_KEYS
    if q.dtype is torch.bfloat16 and q.device.type == "cpu" and max(n, m) <= SHORT and native(q) and n > 1:
        return SHORT_HALF
    plain_mask = mask is None or is_square_causal(mask, here, there) or sees_all(mask, here, there)
    if plain_mask and bias is None and not dropout:
        return SDPA_ALONE if q.dtype not in HALF or native(q) else SDPA_IN_HALF
    reason = refuses(q, bias, dropout)
    if reason is not None:
        if b * h * n * m <= LARGE // 16:
            return Choice("reference", reference, f"{reason}, and {n} × {m} is small enough to be done plainly")
        return Choice("tiled", tiled, f"{reason}, and {n} × {m} is too large to be done plainly")
    if n * m <= SMALL:
        return Choice("fused", fused, f"a matrix of {n} × {m} costs less than finding out which blocks matter")
    if bias is not None and bias.upper is not None:
        return Choice("tiled", tiled, "the bias is laid out strip by strip, and far blocks may be skipped")
    share = sum(strip.area for strip in plan(mask, bias, here, there, 1, BLOCK)) / (n * m)
    if share < 0.9 or n * m > LARGE // 8:
        return Choice("tiled", tiled, f"{share:.0%} of the {n} × {m} pairs are in blocks that are not empty")
    return Choice("fused", fused, f"the mask leaves {share:.0%} of {n} × {m}: a dense matrix is best")
