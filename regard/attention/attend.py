"""The attention function. Every model calls it; what differs between models comes in as a mask, a bias, or a
place."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import kernels, tap
from regard.attention.biases import Bias
from regard.attention.kernels.causal_blocks import suits
from regard.attention.kernels.choose import Choice, choose
from regard.attention.kernels.fused import widens
from regard.attention.kernels.precision import HALF, native
from regard.attention.kernels.reference import Terms
from regard.attention.mask import Mask
from regard.attention.masks import Causal, Full
from regard.attention.places import Where, sides
from regard.attention.weights import Weights
from regard.errors import RegardError


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    where: Where = None,
    scale: float | None = None,
    dropout: float = 0.0,
    weights: Weights | None = None,
) -> Tensor:
    """out_i = Σ_j w_ij (v_j + r_ij),  w_i = softmax over the j that mask allows of (scale·q_i·k_j + bias_ij).

    q: b h n c   k: b g m c   v: b g m e   ->   b h n e;  g divides h, and query head i uses key head i //
    (h/g).

    mask    True = may attend. A query that may attend to nothing gets zeros. Keys that nobody may see may
            hold anything.
    bias    added to the scores (ALiBi, Relative, Buckets).
    where   places: None (consecutive, the queries are the last n of the m), a tensor for the keys whose last
            n are the queries', or a pair (here, there); each n, b n or b n s. NaN: a token without a place.
    scale   None is c^(−½).
    dropout the share of weights that is dropped, always: pass 0.0 when not training.
    weights what takes the place of softmax: Sparsemax() or Entmax() of regard.attention.weights.

    Without mask, bias and places it commutes with permutations: attend(P x) = P attend(x).
    """
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)) or q.is_meta:
        raise RegardError(_no_numbers(q, k, v))
    if bias is None and where is None and weights is None and is_plain_sdpa(q, k, v, mask, scale, dropout):
        return F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None, scale=scale)
    q, k, v, terms = validate(q, k, v, mask, bias, where, scale, dropout, weights)
    choice = choose(q, k, v, terms)
    if torch.is_autocast_enabled(q.device.type):
        # dtypes were settled above; a kernel knows its own
        with torch.autocast(q.device.type, enabled=False):
            out = choice.kernel(q, k, v, terms)
    else:
        out = choice.kernel(q, k, v, terms)
    if tap.listeners:
        heard = tap.Heard(q, k, v, terms, out, choice.name)
        for listener in tap.listeners:
            listener(heard)
    return out


def is_plain_sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, scale: float | None, dropout: float) -> bool:
    """Is there nothing to prepare, and would `choose` take SDPA as it is?

    Only a shortcut: for short sequences the way to the kernel costs up to a fifth of the kernel itself.
    """
    if not (q.shape == k.shape == v.shape and q.dim() == 4 and q.dtype is k.dtype is v.dtype and q.numel()):
        return False
    if not q.dtype.is_floating_point or (q.dtype in HALF and (native(q) or widens(q, k, v))):
        return False
    return (
        (mask is None or type(mask) is Causal)
        and (scale is None or type(scale) is float)
        and dropout == 0.0
        and kernels.wanted is None
        and not tap.listeners
        and not torch.is_autocast_enabled(q.device.type)
        and (mask is None or not suits(q, k, v))
    )


def explain(q: Tensor, k: Tensor, v: Tensor, **how: Any) -> Choice:
    """Which kernel `attend` would use for the same arguments, and why."""
    if not all(isinstance(x, Tensor) for x in (q, k, v)) or q.is_meta:
        raise RegardError(_no_numbers(q, k, v))
    defaults = {"mask": None, "bias": None, "where": None, "scale": None, "dropout": 0.0, "weights": None}
    q, k, v, terms = validate(q, k, v, **(defaults | how))
    return choose(q, k, v, terms)


def validate(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    bias: Bias | None,
    where: Where,
    scale: float | None,
    dropout: float,
    weights: Weights | None = None,
) -> tuple[Tensor, Tensor, Tensor, Terms]:
    """The arguments, checked and in their one form."""
    device = q.device
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if not (q.dim() == k.dim() == v.dim() == 4):
        raise RegardError(
            f"attend takes q: b h n c, k: b g m c, v: b g m e, got {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    (b, h, n, c), (bk, g, m, ck), (bv, gv, mv, e) = q.shape, k.shape, v.shape
    if not b == bk == bv or ck != c or gv != g or mv != m or g == 0 or h % g:
        _raise_shape_error(q, k, v)
    dtype = q.dtype
    if k.dtype is not dtype or v.dtype is not dtype or not dtype.is_floating_point:
        raise RegardError(
            f"q, k and v must have one floating dtype, got {q.dtype}, {k.dtype} and {v.dtype}; use .to(...)"
        )
    if not (isinstance(dropout, (int, float)) and 0.0 <= dropout < 1.0):
        raise RegardError(
            f"dropout must be at least 0 and less than 1, got {dropout!r}; give a float, 0.0 when not training"
        )
    if weights is not None and not isinstance(weights, Weights):
        advice = "give Sparsemax() or Entmax() of regard.attention.weights, or None for softmax"
        raise RegardError(_no_object("weights", weights, Weights, advice))
    here, there = sides(where, n, m, b, device)
    if mask is not None:
        if not isinstance(mask, Mask):
            advice = "wrap a bool tensor, True = may attend, in Dense of regard.attention.masks"
            raise RegardError(_no_object("mask", mask, Mask, advice))
        mask.fits(b, h, n, m)
        unseen = mask.unseen(m, device)
        if unseen is not None:  # 0 · NaN is NaN, so what nobody may see is cleared
            k, v = k.masked_fill(_grouped(unseen, k), 0), v.masked_fill(_grouped(unseen, v), 0)
        if type(mask) is Full:
            mask = None
    if bias is not None:
        if not isinstance(bias, Bias):
            raise RegardError(
                _no_object("bias", bias, Bias, "for scores of your own, subclass Bias of regard.attention.biases")
            )
        bias.fits(h, c, e, here.axes)
    return q, k, v, Terms(here, there, mask, bias, _factor(scale, c), dropout, weights)


def _factor(scale: float | None, c: int) -> float:
    """What scores are multiplied by. A tensor cannot be: only some kernels would give it a gradient, and in
    silence."""
    if scale is None:
        if c == 0:
            raise RegardError(
                "q and k have c=0 channels, and scale=None is c^(−½); give a scale, or at least one channel"
            )
        return c**-0.5
    if not isinstance(scale, (int, float, torch.SymFloat)):
        if isinstance(scale, Tensor):
            advice = "for a learned one multiply q by it and give scale=1.0"
        else:
            advice = "use float(...)"
        raise RegardError(f"scale must be a number, got {type(scale).__name__}; {advice}")
    return scale


def _no_numbers(q: Any, k: Any, v: Any) -> str:
    """Which of them is no tensor, or a tensor without numbers."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            return f"{name} must be a tensor, got {type(x).__name__}; use torch.as_tensor(...)"
    return "q is a meta tensor, which has a shape and no numbers; make it on a device, such as device='cpu'"


def _no_object(name: str, given: Any, base: type, advice: str) -> str:
    """Why this is no mask or bias, and what to do about it."""
    if isinstance(given, type) and issubclass(given, base):
        return f"{name} must be an object, got the class {given.__name__}; write {given.__name__}(...)"
    return f"{name} must be a {base.__name__} of regard.attention, got {type(given).__name__}; {advice}"


def _raise_shape_error(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Say which of the sizes do not fit together."""
    (b, h, _, c), (bk, g, m, ck), (bv, gv, mv, _) = q.shape, k.shape, v.shape
    shapes = f"q: b h n c = {tuple(q.shape)}, k: b g m c = {tuple(k.shape)}, v: b g m e = {tuple(v.shape)}"
    if not b == bk == bv:
        problem = f"b must be one number, got {b}, {bk} and {bv}"
    elif ck != c:
        problem = f"queries and keys must have as many channels, got c={c} and {ck}"
    elif (gv, mv) != (g, m):
        problem = f"keys and values must belong together, got {g} heads of {m} keys and {gv} heads of {mv} values"
    else:
        problem = f"the number of key heads must divide that of query heads, got g={g} and h={h}"
    raise RegardError(f"{problem}; attend was given {shapes}")


def _grouped(unseen: Tensor, x: Tensor) -> Tensor:
    """Cleared for a key head when every query head that uses it is told not to look.  b|1 h|1 m -> b|1 g|1 m
    1"""
    g = x.shape[1]
    if unseen.shape[1] not in (1, g):
        unseen = unseen.unflatten(1, (g, -1)).all(2)
    return unseen[..., None]
