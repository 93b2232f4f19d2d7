"""Which kernel: the fastest that is exact for the case, and why.

The thresholds were measured with `benchmarks/attention.py --thresholds`; they move a case between kernels
that give the same result, so being a little off costs a little time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention import kernels
from regard.attention.biases import Bias
from regard.attention.edges import Edges, declines, edges
from regard.attention.kernels.causal_blocks import LONGEST, stairs, suits
from regard.attention.kernels.fused import fused, needs_no_matrix, refuses, widens
from regard.attention.kernels.plain import plain
from regard.attention.kernels.precision import HALF, native
from regard.attention.kernels.reference import Terms, reference
from regard.attention.kernels.row_strips import constant, plan
from regard.attention.kernels.tiled import block_size, tiled

# tokens up to which plain products beat SDPA in bfloat16 on a processor that has units for it
SHORT = 512  # where weights are kept for the gradient, or a matrix is needed anyway
SHORT_ALONE = 1024  # without gradient, mask and bias
SHORT_AHEAD = 256  # without gradient, but causal: SDPA then computes half of the scores
SMALL = 320 * 320  # pairs up to which a dense matrix costs less than finding out which blocks matter
SMALL_WITH_BIAS = 1024 * 1024  # the same with a bias, whose heads are cut one by one
SPARSE = 8  # pairs for each edge from which on it pays to compute the edges alone
LARGE = 2**24  # pairs beyond which no matrix of them is made
FEW_SCORES = 2**23  # scores, of all rows and heads, up to which the reference may keep them for the gradient


@dataclass(frozen=True)
class Choice:
    """A kernel, its name, and the reason it was taken."""

    name: str
    kernel: Callable[..., Tensor]
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


KERNELS: dict[str, Callable[..., Tensor]] = {
    "reference": reference,
    "plain": plain,
    "fused": fused,
    "stairs": stairs,
    "tiled": tiled,
    "edges": edges,
}
SDPA_ALONE = Choice("fused", fused, "SDPA does this without a matrix of masks")
SDPA_IN_FLOAT32 = Choice(
    "fused", fused, "SDPA does this, in float32 since the processor does not multiply this dtype itself"
)
SHORT_CAUSAL = Choice("stairs", stairs, f"up to {LONGEST} tokens it pays to keep causal weights for the gradient")
NO_KEYS = Choice("reference", reference, "there is nothing to compute")


def choose(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Choice:
    """The kernel that `attend` would use for this case."""
    if kernels.wanted is not None:
        return Choice(kernels.wanted, KERNELS[kernels.wanted], f"asked for with only({kernels.wanted!r})")
    b, h, n, _ = q.shape
    m = k.shape[2]
    if n == 0 or m == 0:
        return NO_KEYS
    half = q.dtype in HALF
    if (
        half
        and n > 1
        and max(n, m) <= SHORT_ALONE
        and q.dtype is torch.bfloat16
        and native(q)
        and q.device.type == "cpu"
    ):
        short = _short_half(terms)
        if max(n, m) <= short:
            return Choice("plain", plain, f"plain products beat SDPA in bfloat16 up to {short} tokens")
    if not terms.dropout and needs_no_matrix(terms):
        if terms.mask is not None and suits(q, k, v):
            return SHORT_CAUSAL
        if half and widens(q, k, v):
            return SDPA_IN_FLOAT32
        return SDPA_ALONE
    tracing = torch.compiler.is_compiling()
    # writing a length down would make a compiled function one for it alone
    pairs = "n × m" if tracing else f"{n} × {m}"
    if isinstance(terms.mask, Edges) and declines(terms) is None and not tracing:
        count = terms.mask.edges.shape[1]
        if n * m > SMALL and count * SPARSE < n * m:
            return Choice("edges", edges, f"{count} edges are few beside {pairs} pairs")
    reason = refuses(terms)
    if reason is not None:
        if half:
            name, kernel = ("reference", reference)
        else:
            name, kernel = ("plain", plain)
        # as windows have it: scores take no more room than k and v
        if m <= q.shape[-1] + v.shape[-1] and not tracing:
            return Choice(name, kernel, f"{reason}, and the scores of {m} keys take no more room than the keys")
        if b * h * n * m <= FEW_SCORES:
            return Choice(name, kernel, f"{reason}, and {pairs} is small enough to be done plainly")
        return Choice("tiled", tiled, f"{reason}, and {pairs} is too large to be done plainly")
    if n * m <= (SMALL if terms.bias is None else SMALL_WITH_BIAS):
        return Choice("fused", fused, f"a matrix of {pairs} costs less than finding out which blocks matter")
    if terms.bias is not None:
        if type(terms.bias).upper is not Bias.upper:
            skips = ", and far blocks may be skipped"
        else:
            skips = ""
        return Choice("tiled", tiled, f"the bias is laid out strip by strip{skips}")
    share = sum(strip.area for strip in plan(terms, 1, block_size(terms))) / (constant(n) * constant(m))
    if share < 0.9 or n * m > LARGE:
        return Choice("tiled", tiled, f"{share:.0%} of the {pairs} pairs are in blocks that are not empty")
    return Choice("fused", fused, f"the mask leaves {share:.0%} of {pairs}: a dense matrix is best")


def _short_half(terms: Terms) -> int:
    """Up to how many tokens are plain products the fastest in bfloat16?"""
    if torch.is_grad_enabled() or not needs_no_matrix(terms):
        return SHORT
    if terms.mask is None:
        return SHORT_ALONE
    return SHORT_AHEAD
