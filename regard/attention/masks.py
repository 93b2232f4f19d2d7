"""The masks: which keys a query may attend to. **True means may attend.** They combine with `&`, `|` and `~`.

Those that read places come first, then those that compare what tokens hold, which moves with the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.mask import Blocks, Mask
from regard.attention.places import Bounds, Side, blockwise, lost
from regard.errors import RegardError
from regard.symmetry.groups import EVERYTHING, Shifts


def _is_number(x: Any) -> bool:
    """Text is none; nor is a tensor, since equal masks must be one and the same; nor NaN."""
    return isinstance(x, (int, float, np.integer, np.floating)) and x == x


@dataclass(frozen=True)
class Full(Mask):
    """Every query sees every key."""

    keeps = EVERYTHING
    static = True

    def tile(self, here: Side, there: Side) -> Tensor:
        return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=here.device).expand(1, 1, here.size, there.size)

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        all_true = np.ones((1, 1, here.low.shape[1], there.low.shape[1]), dtype=bool)
        return Blocks(all_true, all_true)


@dataclass(frozen=True)
class Causal(Mask):
    """there ≤ here, the present included. With several axes the first one is time. Tokens without a place see
    and are seen."""

    keeps = Shifts()
    static = True

    def tile(self, here: Side, there: Side) -> Tensor:
        # not <=: a comparison with NaN is False, and nowhere is allowed
        return ~(there.axis(0) > here.axis(0))

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        (first, last), (begin, end) = here.axis(0), there.axis(0)
        return Blocks((begin <= last) | lost(here, there), end <= first)


@dataclass(frozen=True)
class Window(Mask):
    """|here − there| ≤ reach on every axis: the largest axis distance counts. Tokens without a place see and
    are seen."""

    reach: float
    keeps = Shifts()
    static = True

    def __post_init__(self) -> None:
        if not (_is_number(self.reach) and self.reach >= 0):
            raise RegardError(
                f"reach must be 0 or more, got {self.reach!r}; give a number: Window(0) sees only its own "
                f"place, Window(3) three more to each side"
            )

    @property
    def farthest(self) -> float:
        return self.reach

    def tile(self, here: Side, there: Side) -> Tensor:
        near = ~((there.axis(0) - here.axis(0)).abs() > self.reach)
        for i in range(1, here.axes):
            near = near & ~((there.axis(i) - here.axis(i)).abs() > self.reach)
        return near

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        answer = Full().blocks(here, there)
        some, every = answer.some, answer.every
        for i in range(here.low.shape[-1]):
            (first, last), (begin, end) = here.axis(i), there.axis(i)
            some = some & (np.maximum(first - end, begin - last) <= self.reach)
            every = every & (np.maximum(last - begin, end - first) <= self.reach)
        return Blocks(some | lost(here, there), every)


@dataclass(frozen=True)
class Prefix(Mask):
    """Causal, or there < length: a prefix that all may see, then text that is written one by one."""

    length: float
    static = True

    def __post_init__(self) -> None:
        if not _is_number(self.length):
            raise RegardError(
                f"length must be a number, got {self.length!r}; Prefix(3) lets all see the places 0, 1 and 2"
            )

    def tile(self, here: Side, there: Side) -> Tensor:
        return Causal().tile(here, there) | (there.axis(0) < self.length)

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        begin, end = there.axis(0)
        return Causal().blocks(here, there) | Blocks(begin < self.length, end < self.length)


@dataclass(frozen=True)
class BigBird(Mask):
    """Sparse attention over blocks of places: neighbours, a few global blocks, and random ones drawn by a
    seed.

    With I and J the blocks of here and there, they may attend when |I − J| ≤ `neighbours`, or one of them is
    among the first `everywhere` blocks, or they are linked at random: each block I > 0 draws `random` earlier
    blocks, and a link counts in both directions. The draw depends on the seed and on I alone, so it does not
    change as a sequence grows.
    """

    block: int = 64
    neighbours: int = 1
    everywhere: int = 1
    random: int = 3
    seed: int = 0
    static = True

    def __post_init__(self) -> None:
        counts = (self.neighbours, self.everywhere, self.random)
        whole = all(isinstance(x, (int, np.integer)) for x in (self.block, *counts, self.seed))
        if not whole or self.block < 1 or min(counts) < 0:
            raise RegardError(f"block must be at least 1 and the counts at least 0, all whole numbers, got {self}")

    def tile(self, here: Side, there: Side) -> Tensor:
        if here.consecutive and there.consecutive and not torch.compiler.is_compiling():
            # few blocks, many places: the rule is asked once for each pair of blocks
            (i, rows), (j, columns) = (_blocks_of(side, self.block) for side in (here, there))
            linked: Tensor = self.linked(i[:, None], j[None])
            return linked[rows][:, columns][None, None]
        i, j = (torch.floor(side.axis(0) / self.block) for side in (here, there))
        placed = ~(i.isnan() | j.isnan())
        return self.linked(i.nan_to_num().long(), j.nan_to_num().long()) | ~placed

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        """Exact when tile blocks lie within few mask blocks: every pair of mask blocks in the two ranges is
        asked."""
        mixed = super().blocks(here, there)
        spans = [np.floor(np.stack(side.axis(0)) / self.block) for side in (here, there)]
        if not all(np.isfinite(span).all() for span in spans):
            return mixed
        (i_low, i_high), (j_low, j_high) = (span.astype(np.int64) for span in spans)
        width, height = int((i_high - i_low).max()) + 1, int((j_high - j_low).max()) + 1
        if width * height > 64:
            return mixed
        some, every = ~mixed.some, mixed.some
        for di in range(width):
            for dj in range(height):
                linked = self.linked(np.minimum(i_low + di, i_high), np.minimum(j_low + dj, j_high))
                some, every = some | linked, every & linked
        return Blocks(some | lost(here, there), every)

    @property
    def grain(self) -> int:  # type: ignore[override]
        return self.block

    def linked(self, i: Any, j: Any) -> Any:
        """The rule over block numbers, for torch and numpy integers alike (both wrap at 64 bits)."""
        where = torch.where if isinstance(i, Tensor) else np.where
        late, early = where(i > j, i, j), where(i > j, j, i)
        linked = (late - early <= self.neighbours) | ((early < self.everywhere) & (early >= 0))
        for draw in range(self.random):
            linked = linked | ((late > 0) & (early == _scramble(late, self.seed, draw) % where(late > 0, late, 1)))
        return linked


def _blocks_of(side: Side, block: int) -> tuple[Tensor, Tensor]:
    """The blocks in which consecutive tokens are, and which of them each token is in."""
    places = torch.div(side.index() + side.first, block, rounding_mode="floor")
    return torch.unique_consecutive(places, return_inverse=True)


def _scramble(x: Any, seed: int, draw: int) -> Any:
    """A non-negative whole number that looks random, from integers (multiply and fold, as hash functions
    do)."""
    x = (x + 1) * 0x1F3D5B79A7C3 + (seed * 1_000_003 + draw + 1) * 0x2545F4914F6D % 2**62
    for _ in range(3):
        x = (x ^ (x >> 29)) * 0x106689D45497FDB5
    return (x ^ (x >> 32)) & 0x7FFFFFFFFFFF


@dataclass(frozen=True, eq=False)
class ByToken(Mask):
    """A mask that compares what two tokens hold: `data` of the keys (the last n are the queries'), or a pair
    (here, there).

    Each is n or b n. It moves with the tokens, so permutations and shifts are both kept.
    """

    data: Tensor | tuple[Tensor, Tensor]
    keeps = EVERYTHING

    def __post_init__(self) -> None:
        if isinstance(self.data, Tensor):
            return
        pair = self.data if isinstance(self.data, (tuple, list)) and len(self.data) == 2 else None
        if pair is None or not all(isinstance(data, Tensor) for data in pair):
            if pair is None:
                got = type(self.data).__name__
            else:
                got = " and ".join(type(data).__name__ for data in pair)
            raise RegardError(
                f"{type(self).__name__} takes a tensor, or a pair (here, there) of tensors, got {got}; use "
                "torch.tensor(...)"
            )

    def held(self, side: Side | Bounds) -> Tensor:
        if isinstance(self.data, Tensor):
            data = self.data
        else:
            data = self.data[0 if side.rows else 1]
        if data.dim() != 2:
            data = data[None]
        return data[:, data.shape[1] - side.count :]

    def fits(self, b: int, h: int, n: int, m: int) -> None:
        name = type(self).__name__
        pair = self.data if not isinstance(self.data, Tensor) else (self.data, self.data)
        for data in pair:
            if data.dim() not in (1, 2) or (data.dim() == 2 and data.shape[0] not in (1, b)):
                raise RegardError(f"{name} takes tensors n or b n with b={b}, got {tuple(data.shape)}")
        held = tuple(data.shape[-1] for data in pair)
        if isinstance(self.data, Tensor) and (held[1] != m or n > m):
            raise RegardError(
                f"{name} holds {held[1]} tokens for n={n} queries and m={m} keys; give one number a key, "
                f"of which the last n are the queries', or a pair (here, there)"
            )
        if not isinstance(self.data, Tensor) and held != (n, m):
            raise RegardError(
                f"{name} holds {held[0]} and {held[1]} tokens, but there are n={n} queries and m={m} keys"
            )

    def take(self, order: Tensor) -> Mask:
        if isinstance(self.data, Tensor):
            return type(self)(_taken(self.data, order))
        return type(self)((_taken(self.data[0], order), _taken(self.data[1], order)))


class Order(ByToken):
    """Rank of there ≤ rank of here: the order of generation need not be the order of places (permutation
    models)."""

    def tile(self, here: Side, there: Side) -> Tensor:
        return there.pick(self.held(there)) <= here.pick(self.held(here))

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        (first, last), (begin, end) = here.extremes(self.held(here)), there.extremes(self.held(there))
        return Blocks(begin <= last, end <= first)


class Documents(ByToken):
    """Only within one document: several texts packed into one row do not see each other. Equal numbers, equal
    document."""

    def tile(self, here: Side, there: Side) -> Tensor:
        return there.pick(self.held(there)) == here.pick(self.held(here))

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        (first, last), (begin, end) = here.extremes(self.held(here)), there.extremes(self.held(there))
        return Blocks((begin <= last) & (first <= end), (first == end) & (begin == last))


class Padding(Mask):
    """Only real keys. `real`: a length for each row of the batch (b), or a bool tensor b m, True = real.

    It hides keys only: what comes out at a padded query is undefined, and pools and losses drop it. Padded
    keys and values may hold anything, NaN included. `real` moves with the tokens, so permutations and shifts
    are both kept.
    """

    keeps = EVERYTHING

    def __init__(self, real: Tensor | Sequence[int]) -> None:
        takes = "Padding takes whole lengths (b) or a bool tensor b m, True = real"
        try:
            given = real if isinstance(real, Tensor) else torch.tensor(real)
        except (TypeError, ValueError, RuntimeError):
            raise RegardError(
                f"{takes}, got {real!r:.60}; give a list of whole numbers, one a row, or a tensor"
            ) from None
        inexact = given.dtype.is_floating_point or given.dtype.is_complex
        if inexact or given.dim() != (2 if given.dtype == torch.bool else 1):
            hint = "; from 1 = real, 0 = padding it is `mask != 0`" if given.dim() == 2 else ""
            raise RegardError(f"{takes}, got {given.dtype} {tuple(given.shape)}{hint}")
        self.given = given

    @property
    def by_length(self) -> bool:
        return self.given.dim() == 1

    def real(self, m: int, device: torch.device) -> Tensor:
        """bool b m"""
        given = self.given.to(device)
        if given.dim() == 2:
            return given
        return torch.arange(m, device=device) < given[:, None]

    def tile(self, here: Side, there: Side) -> Tensor:
        return there.pick(self.real(there.count, there.device))

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        some_and_every = there.extremes(self.real(there.count, self.given.device))[::-1]
        rows = np.ones((1, 1, here.low.shape[1], 1), dtype=bool)
        return Blocks(*(rows & answer for answer in some_and_every))

    def fits(self, b: int, h: int, n: int, m: int) -> None:
        shape = tuple(self.given.shape)
        if self.by_length:
            if shape[0] != b:
                raise RegardError(f"Padding for b={b} rows takes {b} lengths, got {shape[0]}")
            if self.given.device.type == "cpu" and b and not torch.compiler.is_compiling():
                low, high = int(self.given.min()), int(self.given.max())
                if low < 0 or high > m:
                    wrong = low if low < 0 else high
                    raise RegardError(f"lengths of Padding must be from 0 to m={m}, the number of keys, got {wrong}")
        elif shape[0] not in (1, b) or shape[1] != m:
            raise RegardError(f"Padding for b={b} rows of m={m} keys takes a bool tensor {b} × {m}, got {shape}")

    def unseen(self, m: int, device: torch.device) -> Tensor | None:
        return ~self.real(m, device)[:, None]

    def take(self, order: Tensor) -> Mask:
        return Padding(_taken(self.real(order.shape[-1], self.given.device), order))

    def __repr__(self) -> str:
        return f"Padding({'lengths' if self.by_length else 'real'}: {tuple(self.given.shape)})"


class Dense(Mask):
    """Any bool tensor: n m, b n m or b h n m, True = may attend. It knows slots, not places."""

    keeps = Shifts()

    def __init__(self, allowed: Tensor) -> None:
        takes = "Dense takes a bool tensor n m, b n m or b h n m, True = may attend"
        if not isinstance(allowed, Tensor):
            raise RegardError(f"{takes}, got {type(allowed).__name__}; use torch.as_tensor(...)")
        if allowed.dtype != torch.bool or allowed.dim() not in (2, 3, 4):
            raise RegardError(
                f"{takes}, got {allowed.dtype} {tuple(allowed.shape)}; from 1 = may attend, 0 = may not it "
                "is `mask != 0`, "
                f"and from a float mask that is added to the scores (0 and -inf) it is `mask == 0`"
            )
        self.shape = tuple(allowed.shape)
        if allowed.dim() == 2:
            self.allowed = allowed[None, None]
        else:
            if allowed.dim() == 3:
                self.allowed = allowed[:, None]
            else:
                self.allowed = allowed

    def tile(self, here: Side, there: Side) -> Tensor:
        return self.allowed.to(here.device)[:, :, here.slots][..., there.slots]

    def blocks(self, here: Bounds, there: Bounds) -> Blocks:
        allowed = self.allowed.cpu().numpy()
        heads = allowed.reshape(-1, *allowed.shape[2:])  # (b h) n m

        def pooled(reduce: np.ufunc) -> np.ndarray:
            rows = blockwise(reduce, heads, here.block).swapaxes(1, 2)
            pool = blockwise(reduce, rows, there.block).swapaxes(1, 2)
            return pool.reshape(*allowed.shape[:2], *pool.shape[1:])

        return Blocks(pooled(np.logical_or), pooled(np.logical_and))

    def fits(self, b: int, h: int, n: int, m: int) -> None:
        shape = tuple(self.allowed.shape)
        if shape[0] not in (1, b) or shape[1] not in (1, h) or shape[2:] != (n, m):
            sizes = f"b={b}, h={h}, n={n}, m={m}"
            raise RegardError(f"Dense for {sizes} takes n m, b n m or b h n m, got {self.shape}; use .expand(...)")

    def unseen(self, m: int, device: torch.device) -> Tensor | None:
        return ~self.allowed.to(device).any(2)

    def take(self, order: Tensor) -> Mask:
        rows = _taken(self.allowed.movedim(2, -1), order).movedim(-1, 2)
        return Dense(_taken(rows, order))

    def __repr__(self) -> str:
        return f"Dense({self.shape})"


def _taken(data: Tensor, order: Tensor) -> Tensor:
    """Reorder the last axis of data (n, or b ... n) by one order for all rows, or one for each (b n)."""
    if order.dim() == 1:
        return data[..., order.to(data.device)]
    b = order.shape[0]
    data = data.expand(b, *data.shape[1:]) if data.dim() > 1 else data.expand(b, -1)
    laid = order.to(data.device).reshape(b, *(1,) * (data.dim() - 2), -1)
    return data.gather(-1, laid.expand(*data.shape[:-1], -1))
