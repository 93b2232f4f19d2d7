"""Values of a series at other times than now: some steps ago, or around a moment, for equal and for uneven steps.

Missing values are NaN. Everything here is linear in the values, so it follows any scale and any offset of them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def carry_forward(x: Tensor, known: Tensor) -> Tensor:
    """The last value that was known at each step; 0 before the first.   x, known: b n c -> b n c

    Causal: step i depends on steps up to i.
    """
    steps = torch.arange(x.shape[1], device=x.device)[:, None]
    last = torch.where(known, steps, -1).cummax(1).values
    found = x.masked_fill(~known, 0.0).gather(1, last.clamp(min=0))
    return found.masked_fill(last < 0, 0.0)


def bridge_gaps(x: Tensor, known: Tensor, times: Tensor) -> Tensor:
    """Missing values on a straight line between the known ones before and after; beyond these, the nearest one;
    0 where none is known.   x, known: b n c, times: b n -> b n c"""
    n = x.shape[1]
    clean = x.masked_fill(~known, 0.0)
    steps = torch.arange(n, device=x.device)[:, None]
    last = torch.where(known, steps, -1).cummax(1).values
    following = torch.where(known, steps, n).flip(1).cummin(1).values.flip(1)
    before, after = last.clamp(min=0), following.clamp(max=n - 1)
    left, right = clean.gather(1, before), clean.gather(1, after)
    wide = times[..., None].expand_as(last)
    start, stop = wide.gather(1, before), wide.gather(1, after)
    share = ((wide - start) / (stop - start).clamp(min=1e-9)).clamp(0, 1).to(x.dtype)
    found = left + share * (right - left)
    found = torch.where(last < 0, right, found)
    found = torch.where(following >= n, left, found)
    return found.masked_fill((last < 0) & (following >= n), 0.0)


def bridge_seasons(x: Tensor, known: Tensor, times: Tensor, season: int, end: Tensor) -> Tensor:
    """Missing values as one season before and after, moved to where the known neighbours lie; on a straight line
    where no such moment is known.   x, known: b n c, times: b n, end: b 1, the last time -> b n c

    u_i is the mean of the known values at t_i ± season; what x is above u is bridged by straight lines.
    """
    line = bridge_gaps(x, known, times)
    if season < 2:
        return line
    offsets = (-season, season)
    asked = times[..., None] + torch.tensor(offsets, dtype=times.dtype, device=times.device)
    inside = (asked >= times[:, :1, None]) & (asked <= end[..., None])
    share = look_around(known.to(x.dtype), offsets, times) * inside[:, :, None]  # b n c 2
    total = share.sum(-1)
    there = total > 0.5
    usual = (look_around(line, offsets, times) * share).sum(-1) / total.clamp(min=0.5)
    above = bridge_gaps(x - usual, known & there, times)
    some = (known & there).any(1, keepdim=True)
    return torch.where(there & some, usual + above, line)


def look_around(x: Tensor, offsets: tuple[int, ...], times: Tensor | None) -> Tensor:
    """x at the times t_i + offset, for each offset.   x: b n c, times: b n in order -> b n c k

    Between two steps the values lie on a straight line; before the first step and after the last one they stay.
    With offsets up to 0 it is causal. times=None: equal steps of length 1.
    """
    if times is None:
        return _look_at_slots(x, offsets)
    _, n, c = x.shape
    asked = times[..., None] + torch.tensor(offsets, device=times.device, dtype=times.dtype)
    asked = asked.flatten(1).contiguous()  # b n·k
    left = torch.searchsorted(times.contiguous(), asked, right=True) - 1
    begins = left < 0
    left = left.clamp(min=0)
    right = (left + 1).clamp(max=n - 1)
    start, stop = times.gather(1, left), times.gather(1, right)
    share = ((asked - start) / (stop - start).clamp(min=1e-9)).clamp(0, 1).masked_fill(begins, 0.0)
    share = share.to(x.dtype)[..., None]
    from_left = x.gather(1, left[..., None].expand(-1, -1, c))
    from_right = x.gather(1, right[..., None].expand(-1, -1, c))
    # where the time is exactly that of a step, the next one must not count, not even as 0 · infinity
    from_right = torch.where(share > 0, from_right, from_left)
    found = from_left + share * (from_right - from_left)
    return found.unflatten(1, (n, len(offsets))).transpose(2, 3)


def _look_at_slots(x: Tensor, offsets: tuple[int, ...]) -> Tensor:
    before, after = max(0, -min(offsets)), max(0, *offsets)
    moved = F.pad(x.transpose(1, 2), (before, after), mode="replicate")  # b c before+n+after
    n = x.shape[1]
    parts = [moved[:, :, before + offset : before + offset + n] for offset in offsets]
    return torch.stack(parts, -1).transpose(1, 2)


def running_scale(x: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the values known up to each step.   x, known: b n c -> b n c, b n c

    Causal. Both are 0 before the first known value; a channel that never changed has the deviation 0.
    """
    first = _first_known(x, known)
    count = known.to(x.dtype).cumsum(1)
    apart = (x - first).masked_fill(~known, 0.0)
    mean, square = (each.cumsum(1) / count.clamp(min=1) for each in (apart, apart.square()))
    return _mean_and_deviation(first, mean, square, count > 0)


def whole_scale(x: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of all known values.   x, known: b n c -> b 1 c, b 1 c"""
    first = _first_known(x, known)
    count = known.sum(1, keepdim=True)
    apart = (x - first).masked_fill(~known, 0.0)
    mean, square = (each.sum(1, keepdim=True) / count.clamp(min=1) for each in (apart, apart.square()))
    return _mean_and_deviation(first, mean, square, count > 0)


def _first_known(x: Tensor, known: Tensor) -> Tensor:
    """From which all others are counted, so that a large level costs no digits.   b 1 c"""
    at = known.to(torch.int8).argmax(1, keepdim=True)
    return x.masked_fill(~known, 0.0).gather(1, at)


def _mean_and_deviation(first: Tensor, mean: Tensor, square: Tensor, some: Tensor) -> tuple[Tensor, Tensor]:
    variance = square - mean.square()
    variance = torch.where(variance > 1e-6 * square, variance, 0.0)
    # the root of 0 has no gradient
    deviation = torch.where(variance > 0, torch.where(variance > 0, variance, 1.0).sqrt(), 0.0)
    return (first + mean).masked_fill(~some, 0.0), deviation
