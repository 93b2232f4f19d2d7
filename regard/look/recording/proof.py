"""Proof that weights are those a model used: in every head and row their sum of values must be what the model
computed, and the values must be able to tell these weights from others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.look.recording.source import Source, quiet, wide

MOST = 2**22  # weights in memory at once while a proof is done
# How far a channel of the sum may be from what was computed, relative to Σ_j |w_ij| |v_jc| of that channel and
# row, which is what rounding is relative to. Fused kernels round the weights of half precision before they are
# multiplied; in float32 a score of 100 is known to about 1e-5, and so are its weights.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 2e-2}
# Values are alike if a tenth of a row's weight could move from one to the other within the tolerance.
MOVED = 0.1
# A head is not proved if more than this part of its weight lies on alike values.
MOST_ALIKE = 0.5
NAMED = 4  # heads in a reason
DROPPED = (
    "attention dropout was on: these are the weights before it, and what was computed is not their sum of the "
    "values; call model.eval() before recording"
)


@dataclass(frozen=True, eq=False)
class Proof:
    """What was found for every head and row that is wanted."""

    errors: Tensor  # b h r: max over channels of |Σ_j w_ij v_jc − what was computed| / Σ_j |w_ij| |v_jc|
    alike: Tensor  # b h: which part of the weight lies on values that are alike
    heads: tuple[int, ...]  # their numbers
    rows: tuple[int, ...] | None  # and those of the rows; None: all

    @property
    def error(self) -> float:
        if not self.errors.numel():
            return 0.0
        return float(self.errors.max())


def tolerance_of(dtype: torch.dtype) -> float:
    return TOLERANCE.get(dtype, TOLERANCE[torch.bfloat16])


def smallest_step(dtype: torch.dtype) -> float:
    """How far apart two values must be, relative to their size, for a sum to tell one from the other."""
    return tolerance_of(dtype) / MOVED


def relative_errors(mine: Tensor, theirs: Tensor, size: Tensor, dtype: torch.dtype) -> Tensor:
    """|mine − theirs| / size, the largest of the last axis. NaN where both are NaN is agreement, NaN in one of
    them is none at all. What the smallest numbers of a dtype cannot hold is no error."""
    if not mine.numel():
        return mine.new_zeros(mine.shape[:-1])
    theirs = wide(theirs).to(mine.dtype)
    errors = ((mine - theirs).abs() / size).amax(-1)
    if errors.isfinite().all() and errors.max() <= tolerance_of(dtype):  # nearly always, and this is quick
        return errors
    same = (mine == theirs) | (mine.isnan() & theirs.isnan())
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    apart = ((mine - theirs).abs() - smallest * (1 + size.nan_to_num())).clamp(min=0)
    errors = (apart / size).masked_fill((apart == 0) | same, 0)
    return errors.nan_to_num(nan=torch.inf).amax(-1)


def find_alike(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest group of keys whose values are so alike that the sum cannot tell one from the other, if it is
    the larger part of them: then it has the median in every channel.   ... m e -> ... m"""
    if not values.numel():
        return values.new_zeros(values.shape[:-1], dtype=torch.bool)
    if not _may_be_alike(values, dtype):
        return values.new_zeros(values.shape[:-1], dtype=torch.bool)
    columns = wide(values).mT
    centre = columns.median(-1, keepdim=True).values
    size = columns.abs().median(-1, keepdim=True).values
    near = ((columns - centre).abs() <= size * smallest_step(dtype)).all(-2)
    return near & (near.sum(-1, keepdim=True) > 1)


def _may_be_alike(values: Tensor, dtype: torch.dtype) -> bool:
    """If more than half of the keys are alike, two neighbours are (the last and the first are neighbours, too).
    Medians take long, and this does not: no median of sizes is above twice their mean."""
    values = wide(values)
    most = values.abs().mean(-2, keepdim=True) * (4 * smallest_step(dtype))
    apart = (values - values.roll(1, -2)).abs()
    return bool((apart <= most).all(-1).any())


def part_of(inside: Tensor, whole: Tensor) -> Tensor:
    """inside / whole, and 0 where there is nothing."""
    return torch.where(whole > 0, inside / whole, 0.0)


def prove(source: Source) -> Proof:
    """Of the heads and rows that are wanted. Where no values were heard, nothing is known."""
    dtype = source.out.dtype
    with quiet(source.out):
        twins = source.spread_values(find_alike)
        blind = bool(twins.any())
        errors: list[Tensor] = []
        inside = whole = torch.zeros(source.b, source.h, device=source.out.device)
        for rows, weights in source.blocks(MOST):
            mine, size = source.sums(weights, rows)
            theirs = source.out[:, :, rows]
            errors.append(source.picked(relative_errors(mine, theirs, size, dtype)).float())
            if blind:
                inside = inside + source.weight_on(twins, weights, rows)
                whole = whole + weights.abs().sum((-2, -1))
        heads = tuple(range(source.h)) if source.numbers is None else source.numbers
        rows_named = None if source.rows is None else tuple(source.rows.tolist())
        alike = source.picked(part_of(inside, whole))
        if not source.out.shape[-1]:
            errors = [torch.full_like(each, torch.inf) for each in errors]
        if errors:
            return Proof(torch.cat(errors, 2), alike, heads, rows_named)
        return Proof(source.picked(inside)[..., None][..., :0], alike, heads, rows_named)


def doubt(
    proof: Proof,
    dtype: torch.dtype,
    *,
    dropped: bool = False,
    changed: float = 0.0,
    changes: Sequence[str] = (),
) -> str | None:
    """Why the weights are not proved, or None if they are."""
    if dropped:
        return DROPPED
    steps = ", ".join(dict.fromkeys(changes))
    if changed > 0:
        went = f"after the softmax the weights went through {steps or 'something that was not heard'}"
        return f"{went} and changed by up to {changed:.1g}: these are the weights before that"
    found = _too_far(proof, dtype)
    if found is not None and steps:
        return f"{found}; after the softmax the weights went through {steps}"
    if found is not None:
        return found
    return _too_alike(proof)


def _too_far(proof: Proof, dtype: torch.dtype) -> str | None:
    """Where the sum is not what was computed."""
    wrong = ~(proof.errors <= tolerance_of(dtype))
    if not wrong.any():
        return None
    place = int(proof.errors.flatten().argmax())
    head, row = proof.heads[place // proof.errors.shape[2] % len(proof.heads)], place % proof.errors.shape[2]
    row = row if proof.rows is None else proof.rows[row]
    kind = str(dtype).removeprefix("torch.")
    heads = [number for number, bad in zip(proof.heads, wrong.any(2).any(0).tolist(), strict=True) if bad]
    return (
        f"their sum of the values is {proof.error:.1e} away from what was computed in head {head}, row {row} "
        f"({tolerance_of(dtype):.0e} is allowed in {kind}; {_named(heads, len(proof.heads))})"
    )


def _too_alike(proof: Proof) -> str | None:
    """Where other weights would have given the same."""
    blind = proof.alike > MOST_ALIKE
    if not blind.any():
        return None
    heads = [number for number, bad in zip(proof.heads, blind.any(0).tolist(), strict=True) if bad]
    most = float(proof.alike.max())
    return (
        f"the values are alike where {most:.0%} of the weight lies, so other weights would give the same output "
        f"({_named(heads, len(proof.heads))})"
    )


def _named(heads: list[int], count: int) -> str:
    """Which heads it is, in words."""
    if count == 1:
        return "the only head"
    if len(heads) == count:
        return f"all {count} heads"
    shown = ", ".join(map(str, heads[:NAMED]))
    more = ", …" if len(heads) > NAMED else ""
    return f"{len(heads)} of {count} heads: {shown}{more}"
