"""Biases: what is added to the scores of attention, from the places of query and key.

Relative always means there − here. A pair in which one token has no place gets 0.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.places import Bounds, Side, lost
from regard.errors import RegardError
from regard.symmetry.groups import EVERYTHING, Group, Reflections, Rotations, Shifts, Trivial, product


class Bias(nn.Module):
    """Base of all biases. Its parameters are the module's, so that a kernel can return their gradients.

    `keeps` is the symmetry that survives it; `reads_queries` says that scores depend on q; `gives_values`
    says that it also adds to the values, out_i += Σ_j w_ij r_ij; `by_slot` says that it looks pairs up by
    their slots, not their places.
    """

    keeps: Group = Trivial()
    reads_queries = False
    gives_values = False
    by_slot = False

    def scores(self, q: Tensor, here: Side, there: Side) -> Tensor:
        """What is added to scale·q_i·k_j.  q: b h n c -> broadcasts to b h n m"""
        raise TypeError(f"{type(self).__name__} must define scores(q, here, there)")

    def values(self, weights: Tensor, here: Side, there: Side) -> Tensor:
        """Σ_j w_ij r_ij.  b h n m -> b h n e"""
        raise TypeError(f"{type(self).__name__} gives no values")

    def upper(self, here: Bounds, there: Bounds) -> np.ndarray | None:
        """An upper bound of the scores in each block (b|1 h|1 row-blocks column-blocks), or None if it says
        nothing."""
        return None

    def learned(self) -> list[nn.Parameter]:
        """Its parameters that want a gradient. (A tracer asks no `parameters` of a module made while it
        traces.)"""
        return [p for p in self.parameters() if p.requires_grad]

    def fits(self, h: int, c: int, e: int, axes: int) -> None:
        """Raise a ValueError if it cannot serve h heads of c channels with values of width e and places of
        some axes."""


def _one_axis(bias: Bias, axes: int) -> None:
    if axes != 1:
        raise RegardError(
            f"{type(bias).__name__} reads places on one axis, got where with {axes}; ALiBi sums over axes"
        )


def _distance(here: Side, there: Side) -> Tensor:
    """there − here on one axis, and 0 where one of them has no place.  b|1 1 n m, whole numbers"""
    apart = there.axis(0) - here.axis(0)
    if apart.is_floating_point():
        return torch.nan_to_num(apart).round().long()
    return apart


def _placed(here: Side, there: Side) -> Tensor | None:
    """Pairs that both have a place; None when all have.  b|1 1 n m"""
    apart = [side.axis(0) for side in (here, there)]
    if not any(a.is_floating_point() for a in apart):
        return None
    return ~(apart[0].isnan() | apart[1].isnan())


class ALiBi(Bias):
    """−slope·|here − there|, summed over axes; a slope a head: attention that forgets at its own pace.

    slope_i = 2^(−8i/h), i from 1, when h is a power of two; otherwise those of the power below, then every
    other one of its double. `two_sided=False` lets only the past fade; the future gets 0, so use it with
    Causal. `learned=True` makes the slopes parameters.
    """

    keeps = Shifts()
    slopes: Tensor

    def __init__(self, heads: int, *, two_sided: bool = True, learned: bool = False) -> None:
        super().__init__()
        if heads < 1:
            raise RegardError(f"heads must be at least 1, got {heads}")
        self.two_sided = two_sided
        self.heads = heads
        slopes = torch.tensor(alibi_slopes(heads), dtype=torch.float32)
        if learned:
            self.slopes = nn.Parameter(slopes)
        else:
            self.register_buffer("slopes", slopes, persistent=False)

    def scores(self, q: Tensor, here: Side, there: Side) -> Tensor:
        total: Tensor | None = None
        for i in range(here.axes):
            past = here.axis(i) - there.axis(i)
            apart = past.abs() if self.two_sided else past.clamp(min=0)
            total = apart if total is None else total + apart
        assert total is not None
        if total.is_floating_point():
            total = torch.nan_to_num(total)
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        return -self.slopes.to(wide)[:, None, None] * total.to(wide)

    def upper(self, here: Bounds, there: Bounds) -> np.ndarray:
        nearest = farthest = np.zeros((1, 1, 1, 1))
        for i in range(here.low.shape[-1]):
            (first, last), (begin, end) = here.axis(i), there.axis(i)
            past_most, past_least = last - begin, first - end
            if self.two_sided:
                near = np.maximum(past_least, -past_most)
                far = np.maximum(past_most, -past_least)
            else:
                near = past_least
                far = past_most
            nearest, farthest = nearest + np.maximum(near, 0), farthest + np.maximum(far, 0)
        slopes = self.slopes.detach().double().cpu().numpy()[None, :, None, None]
        bound = np.maximum(-slopes * nearest, -slopes * farthest)  # a learned slope may be negative
        return np.where(lost(here, there), np.maximum(bound, 0), bound)

    def fits(self, h: int, c: int, e: int, axes: int) -> None:
        if h != self.heads:
            raise RegardError(f"ALiBi was made for {self.heads} heads, got queries with {h}; use ALiBi(heads={h})")


def alibi_slopes(heads: int) -> list[float]:
    """One slope a head, from steep to flat within each power of two."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8 * i / power) for i in range(1, power + 1)]
    double = [2.0 ** (-4 * i / power) for i in range(1, 2 * power + 1)]
    return slopes + double[0::2][: heads - power]


class Relative(Bias):
    """Shaw's relative positions: scores get q_i·a_r·scale and values get b_r, with r = there − here clipped
    to ±reach.

    Tables a and b have 2·reach + 1 rows, shared by all heads. `values=False` leaves b out. `scale=None` is
    c^(−½).
    """

    keeps = Shifts()
    reads_queries = True

    def __init__(self, channels: int, *, reach: int = 16, values: bool = True, scale: float | None = None) -> None:
        super().__init__()
        if reach < 0:
            raise RegardError(f"reach must be 0 or more, got {reach}")
        self.reach = reach
        self.scale = channels**-0.5 if scale is None else scale
        self.gives_values = values
        self.keys = nn.Parameter(torch.randn(2 * reach + 1, channels) * channels**-0.5)
        self.vals: nn.Parameter | None = None
        if values:
            self.vals = nn.Parameter(torch.randn(2 * reach + 1, channels) * channels**-0.5)

    def rows(self, here: Side, there: Side) -> Tensor:
        """Which row of the tables each pair uses.  b|1 1 n m"""
        return _distance(here, there).clamp(-self.reach, self.reach) + self.reach

    def scores(self, q: Tensor, here: Side, there: Side) -> Tensor:
        each = (q @ self.keys.to(q.dtype).mT) * self.scale  # b h n r
        rows = self.rows(here, there)
        scores = each.gather(-1, rows.expand(*each.shape[:2], -1, -1))
        both = _placed(here, there)
        if both is None:
            return scores
        return scores.masked_fill(~both, 0)

    def values(self, weights: Tensor, here: Side, there: Side) -> Tensor:
        assert self.vals is not None
        both = _placed(here, there)
        if both is not None:
            weights = weights.masked_fill(~both, 0)
        rows = self.rows(here, there).expand(*weights.shape[:2], -1, -1)
        gathered = weights.new_zeros(*weights.shape[:3], 2 * self.reach + 1).scatter_add(-1, rows, weights)
        return gathered @ self.vals.to(weights.dtype)

    def fits(self, h: int, c: int, e: int, axes: int) -> None:
        _one_axis(self, axes)
        channels = self.keys.shape[1]
        if c != channels or (self.gives_values and e != channels):
            raise RegardError(f"Relative was made for {channels} channels a head, got queries of {c} and values of {e}")


class Buckets(Bias):
    """T5's bias: a learned number a head for each bucket of there − here, exact when near, logarithmic when
    far.

    Both directions have half of the buckets each; `both_directions=False` gives all of them to the past (the
    future counts as distance 0). Distances of `farthest` and more share the last bucket.
    """

    keeps = Shifts()

    def __init__(self, heads: int, *, buckets: int = 32, farthest: int = 128, both_directions: bool = True) -> None:
        super().__init__()
        sides = 2 if both_directions else 1
        exact = buckets // sides // 2
        if buckets % (2 * sides) or farthest <= exact:
            raise RegardError(
                f"buckets must be a multiple of {2 * sides} and farthest more than {exact}, got "
                f"buckets={buckets} and farthest={farthest}"
            )
        self.heads, self.buckets, self.farthest, self.both_directions = (heads, buckets, farthest, both_directions)
        self.table = nn.Parameter(torch.randn(buckets, heads) * 0.1)

    def bucket(self, relative: Tensor) -> Tensor:
        """there − here -> the row of the table."""
        if self.both_directions:
            count = self.buckets // 2
            start: Tensor | int = (relative > 0).long() * count
            apart = relative.abs()
        else:
            count = self.buckets
            start = 0
            apart = (-relative).clamp(min=0)
        exact = count // 2
        # log(apart/exact) / log(farthest/exact), spread over the buckets that are left
        growth = torch.log(apart.clamp(min=1).float() / exact) / math.log(self.farthest / exact)
        far = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return start + torch.where(apart < exact, apart, far)

    def scores(self, q: Tensor, here: Side, there: Side) -> Tensor:
        scores = self.table[self.bucket(_distance(here, there)[:, 0])].permute(0, 3, 1, 2)  # b|1 h n m
        both = _placed(here, there)
        if both is None:
            return scores
        return scores.masked_fill(~both, 0)

    def fits(self, h: int, c: int, e: int, axes: int) -> None:
        _one_axis(self, axes)
        if h != self.heads:
            raise RegardError(f"Buckets was made for {self.heads} heads, got queries with {h}; use Buckets(heads={h})")


class Distance(Bias):
    """A learned number a head for each distance ‖there − here‖ over all axes: straight lines between `steps`
    + 1 knots.

    Knots lie at 0, farthest/steps, …, farthest; what is farther counts as `farthest`. Points that are
    shifted, turned or mirrored together are as far apart as before. `over(apart)` reads distances that are no
    differences of places.
    """

    keeps = product(Shifts(), Rotations("space"), Reflections())

    def __init__(self, heads: int, *, farthest: float = 8.0, steps: int = 8) -> None:
        super().__init__()
        if heads < 1 or steps < 1 or not 0 < farthest < math.inf:
            given = f"heads={heads}, steps={steps} and farthest={farthest}"
            raise RegardError(f"heads and steps must be at least 1 and farthest above 0, got {given}")
        self.heads, self.farthest, self.steps = heads, farthest, steps
        self.table = nn.Parameter(torch.randn(steps + 1, heads) * 0.1)

    def read(self, apart: Tensor) -> Tensor:
        """Distances -> what is added for each.   b|1 n m -> b|1 h n m"""
        at = (apart * (self.steps / self.farthest)).clamp(0, self.steps).to(self.table.dtype)
        knots = torch.arange(self.steps + 1, dtype=at.dtype, device=at.device)
        share = (1 - (at[..., None] - knots).abs()).clamp_min(0)  # of each knot, 0 for all but two
        # (a table for each row: its gradient is summed within rows first, and so with less rounding than all
        # pairs at once)
        return (share @ self.table.expand(apart.shape[-2], -1, -1)).permute(0, 3, 1, 2)

    def over(self, apart: Tensor) -> Held:
        """The same bias for distances known beforehand, such as steps along edges.   n m or b n m"""
        return Held(self, apart)

    def scores(self, q: Tensor, here: Side, there: Side) -> Tensor:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        squares = [(there.axis(i).to(wide) - here.axis(i).to(wide)).square()[:, 0] for i in range(here.axes)]
        apart = torch.stack(squares).sum(0).sqrt()  # b|1 n m, NaN where one has no place
        return self.read(torch.nan_to_num(apart)).masked_fill(apart.isnan()[:, None], 0)

    def fits(self, h: int, c: int, e: int, axes: int) -> None:
        if h != self.heads:
            raise RegardError(
                f"Distance was made for {self.heads} heads, got queries with {h}; use Distance(heads={h})"
            )


class Held(Bias):
    """A Distance whose distances belong to the tokens, n m or b n m by slot, and move with them: order does
    not matter."""

    keeps = EVERYTHING
    by_slot = True

    def __init__(self, by: Distance, apart: Tensor) -> None:
        super().__init__()
        if apart.dim() not in (2, 3) or apart.is_complex() or apart.dtype == torch.bool:
            raise RegardError(f"distances must be numbers n m or b n m, got {apart.dtype} {tuple(apart.shape)}")
        self.by, self.apart = by, apart if apart.dim() == 3 else apart[None]

    def learned(self) -> list[nn.Parameter]:
        return self.by.learned()

    def take(self, order: Tensor) -> Held:
        """The same bias after tokens moved: slot i now holds what slot order[i] held.
        order: n, as many queries as keys"""
        return Held(self.by, self.apart[:, order][:, :, order])

    def scores(self, q: Tensor, here: Side, there: Side) -> Tensor:
        if (here.count, there.count) != tuple(self.apart.shape[1:]):
            sizes = f"{here.count} queries and {there.count} keys"
            raise RegardError(f"the distances are for {tuple(self.apart.shape[1:])} queries and keys, got {sizes}")
        return self.by.read(self.apart[:, here.slots][:, :, there.slots].to(q.device))

    def fits(self, h: int, c: int, e: int, axes: int) -> None:
        self.by.fits(h, c, e, axes)


class Offsets(Bias):
    """A learned number a head for each difference in row and column, there − here, each clipped to ±reach
    (Swin).

    Places have two axes, row and column. The table runs through the differences row by row, both from −reach
    on.
    """

    keeps = Shifts()

    def __init__(self, heads: int, *, reach: int) -> None:
        super().__init__()
        if reach < 0:
            raise RegardError(f"reach must be 0 or more, got {reach}")
        self.heads, self.reach = heads, reach
        self.table = nn.Parameter(torch.randn((2 * reach + 1) ** 2, heads) * 0.02)

    def scores(self, q: Tensor, here: Side, there: Side) -> Tensor:
        apart = [there.axis(i) - here.axis(i) for i in range(2)]
        lost = None
        if apart[0].is_floating_point():
            lost = apart[0].isnan() | apart[1].isnan()
            apart = [torch.nan_to_num(each).round().long() for each in apart]
        rows, columns = (each.clamp(-self.reach, self.reach) + self.reach for each in apart)
        index = (rows * (2 * self.reach + 1) + columns)[:, 0]  # b|1 n m
        scores = self.table.index_select(0, index.flatten()).view(*index.shape, -1).permute(0, 3, 1, 2)
        if lost is None:
            return scores
        return scores.masked_fill(lost, 0)

    def fits(self, h: int, c: int, e: int, axes: int) -> None:
        if axes != 2:
            raise RegardError(f"Offsets reads places on two axes, row and column, got where with {axes}")
        if h != self.heads:
            raise RegardError(
                f"Offsets was made for {self.heads} heads, got queries with {h}; use Offsets({h}, reach=...)"
            )
