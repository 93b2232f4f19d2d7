"""PyTorch's scaled_dot_product_attention, with the mask and the bias laid out as one matrix where it needs one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.kernels.precision import HALF, native
from regard.attention.mask import Mask
from regard.attention.masks import Causal
from regard.attention.places import Side


def refuses(q: Tensor, bias: Bias | None, dropout: float) -> str | None:
    """Why SDPA would leave its fast path or cannot do it, or None."""
    if dropout:
        return "SDPA has no fused kernel with dropout"
    if bias is None:
        return None
    if bias.gives_values:
        return f"{type(bias).__name__} adds to the values, which SDPA cannot"
    if bias.reads_queries and torch.is_grad_enabled():
        return f"{type(bias).__name__} reads the queries, and SDPA has no fused gradient for what is added to the scores"
    if torch.is_grad_enabled() and any(p.requires_grad for p in bias.parameters()):
        return f"{type(bias).__name__} is learned, and SDPA has no fused gradient for what is added to the scores"
    return None


def fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    here: Side,
    there: Side,
    mask: Mask | None,
    bias: Bias | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """Attention by SDPA, where it keeps to its fast path; otherwise a ValueError with the reason.  -> b h n e"""
    reason = refuses(q, bias, dropout)
    if reason is not None:
        raise ValueError(f"the fused kernel cannot do this: {reason}; use the tiled or the reference kernel")
    given, width = q.dtype, v.shape[-1]
    if not native(q):
        q, k, v = q.float(), k.float(), v.float()
    if width < q.shape[-1]:  # SDPA has a fast path only for values as wide as queries; zeros change nothing
        v = F.pad(v, (0, q.shape[-1] - width))
    elif width > q.shape[-1]:
        q, k = F.pad(q, (0, width - q.shape[-1])), F.pad(k, (0, width - k.shape[-1]))
    grouped = q.shape[1] != k.shape[1]
    if bias is None and (mask is None or sees_all(mask, here, there)):
        out = F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped)
    elif bias is None and is_square_causal(mask, here, there):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
    else:
        matrix = added(q, here, there, mask, bias)
        empty = (matrix == -torch.inf).all(-1, keepdim=True)  # not every device's kernel gives zeros there
        matrix = matrix.masked_fill(empty, 0)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=matrix, scale=scale, enable_gqa=grouped)
        out = out.masked_fill(empty, 0)
    return out[..., :width].to(given) if width != out.shape[-1] or out.dtype != given else out


def is_square_causal(mask: Mask | None, here: Side, there: Side) -> bool:
    """Only then do SDPA's top-left alignment and ours agree."""
    return type(mask) is Causal and here.consecutive and here.size == there.size


def sees_all(mask: Mask, here: Side, there: Side) -> bool:
    """The last query of a causal sequence sees every key."""
    return type(mask) is Causal and here.consecutive and here.size == 1


def added(q: Tensor, here: Side, there: Side, mask: Mask | None, bias: Bias | None) -> Tensor:
    """Mask and bias as one matrix that is added to the scores: −inf hides.  b|1 h|1 n m, in the dtype of q"""
    if bias is None:
        assert mask is not None
        allowed = mask.tile(here, there)
        return torch.zeros(allowed.shape, dtype=q.dtype, device=q.device).masked_fill_(~allowed, -torch.inf)
    scores = bias.scores(q, here, there)
    if mask is not None:
        scores = scores.masked_fill(~mask.tile(here, there), -torch.inf)
    return scores if q.dtype in HALF and scores.dtype == torch.float32 and q.device.type == "cpu" else scores.to(q.dtype)
