"""How far two outputs are from each other: the largest difference, by the size of what it stands beside.

One scale for a whole output would hide a lot: a leak of 0.1 in logits of 1 is 1e-10 of the −1e9 that stands
for "masked" beside them. So every channel has its own scale, numbers that only fill a place (−1e9, the lowest
number of a dtype) set none, and what is infinite in both runs at the same places is left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

AT_ONCE = 2**18  # numbers compared at once: outputs over a vocabulary are long
LEAST_FILL = 1e3  # smaller numbers are no fill: among a few numbers one may be small by chance
GAP = 1e4  # between a fill and the largest of the other numbers
SPREAD = 4.0  # within this factor, large numbers are one fill
LEAST = 1e-4  # of the largest number, the scale of a channel that holds less: rounding comes from its neighbours
EQUAL, DIFFERENT, UNKNOWN = "equal", "different", "unknown"  # what a tensor is to what it should be


class Difference(NamedTuple):
    """The largest difference: relative to its scale, and as it is."""

    error: float  # inf: not the same shape, or not finite in the same places; NaN: nothing to compare with
    absolute: float = math.nan

    def __gt__(self, other: object) -> bool:
        """Larger, by the error."""
        return isinstance(other, Difference) and self.error > other.error


def equal(first: Tensor, second: Tensor) -> bool:
    """Number by number the same; NaN is NaN."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(((first == second) | ((first != first) & (second != second))).all())


def relative(first: Tensor, second: Tensor) -> float:
    """The largest error of the second against the first."""
    return difference(first, second).error


def difference(first: Tensor, second: Tensor, channels: int | None = -1) -> Difference:
    """The largest error, by the scale of each channel along one axis; None: by one scale for all."""
    if first.shape != second.shape:
        return Difference(math.inf)
    if first.numel() == 0:
        return Difference(math.nan)
    if first.is_complex() or second.is_complex():
        first, second = (torch.view_as_real(x.resolve_conj().to(torch.complex128)) for x in (first, second))
        return difference(first.flatten(-2), second.flatten(-2), -1)
    if not first.is_floating_point():
        share = float((first != second).double().mean())
        return Difference(share, share)
    one, two = _in_channels(first, channels), _in_channels(second, channels)
    scale, apart = _largest(one, two)
    if not (scale.isfinite().all() and apart.isfinite().all()):
        known = _finite_in_both(one, two)
        if known is None:
            return Difference(math.inf)
        if not known.any():
            return Difference(math.nan)
        one, two = (x.where(known, 0.0) for x in (one, two))
        scale, apart = _largest(one, two)
    fill = _fill(one, float(scale.max()))
    if fill is None:
        return _worst_channel(scale, apart, len(one))
    beyond = one.abs() >= fill
    filled = float((two - one).abs().where(beyond, 0.0).max())
    scale, apart = _largest(*(x.where(~beyond, 0.0) for x in (one, two)))
    return max(_worst_channel(scale, apart, len(one)), Difference(filled / fill, filled))


def _in_channels(x: Tensor, axis: int | None) -> Tensor:
    """Channels last, all else in rows.   -> r c"""
    if axis is None or x.dim() == 0:
        return x.detach().reshape(-1, 1)
    x = x.detach().movedim(axis, -1)
    return x.reshape(-1, x.shape[-1])


def _largest(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """Of each channel the largest number of the first, and the largest difference, in pieces that fit a
    cache."""
    rows = max(1, AT_ONCE // one.shape[1])
    found = [(x.abs().amax(0), (y - x).abs_().amax(0)) for x, y in zip(one.split(rows), two.split(rows), strict=True)]
    scale, apart = zip(*found, strict=True)
    return torch.stack(scale).amax(0), torch.stack(apart).amax(0)


def _finite_in_both(one: Tensor, two: Tensor) -> Tensor | None:
    """Which numbers are; None: what is infinite in one run is not so in the other."""
    same = (one == two) | (one.isnan() & two.isnan())
    finite = one.isfinite() & two.isfinite()
    if not (same | finite).all():
        return None
    return finite


def _worst_channel(scale: Tensor, apart: Tensor, rows: int) -> Difference:
    """The largest error of all channels. Few numbers do not tell the size of a channel: with one row, all
    channels have the same scale."""
    scale, apart = scale.double(), apart.double()
    top = float(scale.max())
    if not top:
        largest = float(apart.max())
        return Difference(math.inf if largest else 0.0, largest)
    least = max(LEAST, 0.1 ** (rows - 1))
    errors = apart / scale.clamp(min=least * top)
    if not errors.isfinite().all():  # a difference of finite numbers beyond what a number can hold
        return Difference(math.inf, math.inf)
    worst = int(errors.argmax())
    return Difference(float(errors[worst]), float(apart[worst]))


def _fill(x: Tensor, top: float) -> float | None:
    """From which size on numbers are a fill: a few large ones alike, and a wide gap to all others."""
    limit = None
    while top >= LEAST_FILL:
        low, high = top / GAP, top / SPREAD
        few = x[: max(1, AT_ONCE // x.shape[1])].abs()
        if ((few > low) & (few < high)).any():  # as nearly always
            return limit
        sizes = x.abs()
        rest = float(sizes.where(sizes < high, 0.0).max())
        alike = (sizes >= high) if limit is None else (sizes >= high) & (sizes < limit)
        if rest > low or not rest or int(alike.sum()) < 2:
            return limit
        limit, top = high, rest
    return limit


def close(first: Tensor, second: Tensor, tolerance: float) -> bool:
    """Equal up to rounding, with what is not finite in the same places."""
    if first.shape != second.shape:
        return False
    if first.numel() == 0:
        return True
    if not first.is_floating_point() and not first.is_complex():
        return torch.equal(first, second)
    found = difference(first, second).error
    return math.isnan(found) or found <= tolerance
