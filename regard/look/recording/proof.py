"""Proof that weights are those a model used: their sum of values must be what the model computed."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.look.recording.source import Source, quiet, wide

MOST = 2**22  # weights in memory at once while a proof is done
# How far the sum may be from what was computed, relative to the largest number computed. Fused kernels round
# the weights of
# half precision before they are multiplied; in float32 a score of 100 is known to about 1e-5, and so are its
# weights.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}


def _tolerance(dtype: torch.dtype) -> float:
    return TOLERANCE.get(dtype, TOLERANCE[torch.bfloat16])


def distance(mine: Tensor, theirs: Tensor) -> tuple[float, float]:
    """max |mine − theirs| and max |theirs|. NaN where both are NaN is agreement, NaN in one of them is no
    agreement at all."""
    theirs = wide(theirs).to(mine.dtype)
    if not mine.numel():
        return 0.0, 0.0
    apart = (mine - theirs).abs().masked_fill((mine == theirs) | (mine.isnan() & theirs.isnan()), 0)
    return float(apart.nan_to_num(nan=torch.inf).max()), float(
        theirs.abs().nan_to_num(nan=0.0, posinf=0.0).max()
    )


def error_of(source: Source) -> float:
    """max |Σ_j w_ij (v_j + r_ij) − what was computed| / max |what was computed|, over the heads and rows that
    are wanted."""
    with quiet(source.out):
        apart = largest = 0.0
        for rows, weights in source.blocks(MOST):
            mine = source.picked(source.mixed(weights, rows))
            theirs = source.picked(source.out[:, :, rows])
            block = distance(mine, theirs)
            apart, largest = max(apart, block[0]), max(largest, block[1])
        return relative(apart, largest)


def relative(apart: float, largest: float) -> float:
    if largest == 0.0:
        return apart
    return apart / largest


def doubt(error: float, dtype: torch.dtype, *, dropped: bool, changes: tuple[str, ...]) -> str | None:
    """Why the weights are not proved, or None if they are."""
    if dropped:
        return (
            "attention dropout was on: these are the weights before it, and what was computed is not their "
            "sum of the values; call model.eval() before recording"
        )
    if error <= _tolerance(dtype):
        return None
    kind = str(dtype).removeprefix("torch.")
    found = f"their sum of the values is {error:.1e} away from what was computed ({_tolerance(dtype):.0e} is allowed in {kind})"
    if changes:
        return f"{found}; after the softmax the weights went through {', '.join(changes)}"
    return found
