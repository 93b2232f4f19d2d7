"""PyTorch's scaled_dot_product_attention, with the mask and the bias laid out as one matrix where it needs
one."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.kernels.precision import HALF, native
from regard.attention.kernels.reference import Terms
from regard.attention.masks import Causal
from regard.errors import RegardError

# pairs up to which SDPA's forward in half precision is as fast as copying to float32 and back
SHORT_PASS = 128 * 128


def refuses(terms: Terms) -> str | None:
    """Why SDPA would leave its fast path or cannot do it, or None."""
    if terms.weights is not None:
        return f"SDPA knows softmax, and not {type(terms.weights).__name__}"
    if terms.dropout:
        return "SDPA has no fused kernel with dropout"
    bias = terms.bias
    if bias is None:
        return None
    if bias.gives_values:
        return f"{type(bias).__name__} adds to the values, which SDPA cannot"
    if torch.is_grad_enabled() and (bias.reads_queries or bias.learned()):
        what = "reads the queries" if bias.reads_queries else "is learned"
        return f"{type(bias).__name__} {what}, and SDPA has no fused gradient for what is added to the scores"
    return None


def fused(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> Tensor:
    """Attention by SDPA, where it keeps to its fast path; otherwise a ValueError with the reason.  -> b h n
    e"""
    reason = refuses(terms)
    if reason is not None:
        raise RegardError(f"the fused kernel cannot do this: {reason}; use the tiled or the reference kernel")
    given, width, channels = q.dtype, v.shape[-1], q.shape[-1]
    if widens(q, k, v):
        q, k, v = q.float(), k.float(), v.float()
    if width < channels:  # SDPA has a fast path only for values as wide as queries; zeros change nothing
        v = F.pad(v, (0, channels - width))
    elif width > channels:
        q, k = F.pad(q, (0, width - channels)), F.pad(k, (0, width - channels))
    how: dict[str, Any] = {"scale": terms.scale}
    if q.shape[1] != k.shape[1]:  # a branch, because a tracer's open size makes no plain bool
        how["enable_gqa"] = True
    if needs_no_matrix(terms):
        causal = False
        if terms.mask is not None and q.shape[2] > 1:  # the last query of a causal sequence sees every key
            causal = True
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, **how)
    else:
        matrix = additive_mask(q, terms)
        if terms.mask is None or terms.mask.leaves:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=matrix, **how)
        else:
            # not every device's kernel gives zeros there
            empty = (matrix == -torch.inf).all(-1, keepdim=True)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=matrix.masked_fill(empty, 0), **how).masked_fill(
                empty, 0
            )
    if width < channels:
        out = out[..., :width]
    if out.dtype == given:
        return out
    return out.to(given)


def widens(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Work in float32? Where the processor does not multiply this dtype; but a short forward pass is not
    worth the copies."""
    if q.dtype not in HALF or native(q):
        return False
    if q.shape[2] * k.shape[2] > SHORT_PASS:
        return True
    return torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)


def needs_no_matrix(terms: Terms) -> bool:
    """SDPA's own causal flag is aligned at the top left: it means ours only for as many queries as keys, or
    for one."""
    if terms.bias is not None or terms.weights is not None:
        return False
    if terms.mask is None:
        return True
    n = terms.here.count
    return type(terms.mask) is Causal and terms.here.where is None and (n == terms.there.count or n == 1)


def additive_mask(q: Tensor, terms: Terms) -> Tensor:
    """Mask and bias as one matrix that is added to the scores: −inf hides.  b|1 h|1 n m"""
    if terms.bias is None:
        assert terms.mask is not None
        allowed = terms.mask.tile(terms.here, terms.there)
        return torch.zeros(allowed.shape, dtype=q.dtype, device=q.device).masked_fill_(~allowed, -torch.inf)
    scores = terms.bias.scores(q, terms.here, terms.there)
    if terms.mask is not None:
        scores = scores.masked_fill(~terms.mask.tile(terms.here, terms.there), -torch.inf)
    wide_enough = q.dtype in HALF and scores.dtype == torch.float32 and q.device.type == "cpu"
    # the CPU takes float32 beside half precision
    if wide_enough:
        return scores
    return scores.to(q.dtype)
