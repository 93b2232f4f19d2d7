"""Proof that weights are those a model used: in every head and row their sum of values must be what the model
computed, and the values must be able to tell these weights from others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.look.recording.weighted_sum import Source, quiet, tolerance_of, wide

# Values are alike if a tenth of a row's weight could move from one to the other within the tolerance.
MOVED = 0.1
# Nothing is proved where this part of a head's weight, or more, lies on one group of alike values.
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
    alike: Tensor  # b h: which part of the weight lies on one group of values that are alike
    heads: tuple[int, ...]  # their numbers
    rows: tuple[int, ...] | None  # and those of the rows; None: all

    @property
    def error(self) -> float:
        return 0.0 if not self.errors.numel() else float(self.errors.max())


def smallest_step(dtype: torch.dtype) -> float:
    """How far apart two values must be, relative to their size, for a sum to tell one from the other."""
    return tolerance_of(dtype) / MOVED


def group_alike(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Groups of keys whose values are so alike that the sum cannot tell one from the other, if at least half of all
    keys are in them: the number of each key's group, 0 for the others. Nearly equal values that are the larger part
    have the median in every channel.   ... m e -> ... m"""
    count = values.shape[-2]
    if not values.numel():
        return values.new_zeros(values.shape[:-1], dtype=torch.long)
    values = wide(values)
    groups = _group_equal(values)
    if not _may_be_alike(values, dtype):
        return groups
    columns = values.mT
    centre = columns.median(-1, keepdim=True).values
    size = columns.abs().median(-1, keepdim=True).values
    near = ((columns - centre).abs() <= size * smallest_step(dtype)).all(-2)
    many = near.sum(-1, keepdim=True) >= max(2, count / 2)
    return groups.masked_fill(near & many, count + 1)


def _group_equal(values: Tensor) -> Tensor:
    """Sorted along one direction, equal values are neighbours."""
    channels = torch.arange(values.shape[-1], device=values.device)
    place = (values * ((channels * 0.618) % 1 + 0.5)).sum(-1)
    place, order = place.sort(-1)
    same = place[..., 1:] == place[..., :-1]
    groups = torch.zeros_like(order)
    if not same.any():
        return groups
    rows = values.gather(-2, order[..., None].expand(values.shape))
    same = same & (rows[..., 1:, :] == rows[..., :-1, :]).all(-1)
    first = torch.cat((torch.zeros_like(same[..., :1]), same), -1)
    number = (~first).cumsum(-1)  # from 1 on
    sizes = torch.zeros_like(groups).repeat_interleave(2, -1).scatter_add(-1, number, torch.ones_like(number))
    few = sizes.gather(-1, number) < max(2, values.shape[-2] / 2)
    number = number.masked_fill(few, 0)
    return groups.scatter(-1, order, number)


def _may_be_alike(values: Tensor, dtype: torch.dtype) -> bool:
    """If more than half of the keys are alike, two neighbours are (the last and the first are neighbours, too).
    Medians take long, and this does not: no median of sizes is above twice their mean."""
    most = values.abs().mean(-2, keepdim=True) * (4 * smallest_step(dtype))
    apart = (values - values.roll(1, -2)).abs()
    return bool((apart <= most).all(-1).any())


def part_of(inside: Tensor, whole: Tensor) -> Tensor:
    """inside / whole, and 0 where there is nothing."""
    return torch.where(whole > 0, inside / whole, 0.0)


def prove(source: Source) -> Proof:
    """Of the heads and rows that are wanted. Where no values were heard, nothing is known."""
    with quiet(source.out):
        groups = source.group_values(group_alike)
        blind = bool(groups.any())
        errors: list[Tensor] = []
        whole = torch.zeros(source.b, source.h, device=source.out.device)
        inside = whole[..., None]
        for rows, weights in source.blocks():
            errors.append(source.sum_errors(weights, rows))
            if blind:
                inside = inside + source.weight_in_groups(groups, weights, rows)
                whole = whole + weights.abs().sum((-2, -1))
        heads = tuple(range(source.h)) if source.numbers is None else source.numbers
        rows_named = None if source.rows is None else tuple(source.rows.tolist())
        alike = source.pick_heads(part_of(inside.amax(-1), whole))
        if not source.out.shape[-1]:
            errors = [torch.full_like(each, torch.inf) for each in errors]
        if errors:
            return Proof(torch.cat(errors, 2), alike, heads, rows_named)
        return Proof(alike[..., None][..., :0], alike, heads, rows_named)


def doubt(
    proof: Proof, dtype: torch.dtype, *, dropped: bool = False, changed: float = 0.0, changes: Sequence[str] = ()
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
    if proof.errors.isnan().any():
        return "values are not finite, so what was computed is NaN, as it would be with any other weights"
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
    """Where other weights would have given the same. A head is one rule for the whole batch: if the values can tell
    in some rows of it, it is proved there, and `find_gaps` names the others (windows of padding or of background)."""
    if not proof.alike.numel():
        return None
    least = proof.alike.amin(0)
    heads = [number for number, part in zip(proof.heads, least.tolist(), strict=True) if part >= MOST_ALIKE]
    if not heads:
        return None
    return (
        f"the values are alike where {float(least.max()):.0%} of the weight lies, so other weights would give the "
        f"same output ({_named(heads, len(proof.heads))})"
    )


def find_gaps(proof: Proof) -> str | None:
    """A note on the rows of the batch in which values are alike, although the heads are proved."""
    blind = (proof.alike >= MOST_ALIKE).any(1)
    if not blind.any():
        return None
    where = blind.nonzero().flatten().tolist()
    shown = ", ".join(map(str, where[:NAMED])) + (", …" if len(where) > NAMED else "")
    return (
        f"in {len(where)} of {len(blind)} rows of the batch ({shown}) the values are alike: there the output says "
        "nothing about the weights, and the proof is that of the others"
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
