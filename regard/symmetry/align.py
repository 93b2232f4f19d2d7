"""Where a tensor of one run is found again in another: the way from f(x) to f(gx), also for what passes
between the modules.

An alignment answers for any tensor, seen in both runs, with a pair that must be equal if the law holds, and
says whether it is sure that this is the pair; or with None, where it does not know how the tensor should have
changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Pair(NamedTuple):
    """What must be equal. Not `sure`: equality proves it, but a difference may only mean that the layout is
    another one."""

    first: Tensor
    second: Tensor
    sure: bool = True


class Alignment:
    """How tensors of the first run are found again in the second."""

    def pairs(self, first: Tensor, second: Tensor) -> list[Pair]:
        """The likeliest layout first; more than one where a tensor can be read in several ways."""
        raise NotImplementedError(f"{type(self).__name__} must define pairs()")

    def patched(self, first: Tensor, second: Tensor) -> Tensor | None:
        """The second tensor with what the law says it should hold, where that is known."""
        raise NotImplementedError(f"{type(self).__name__} must define patched()")


class Same(Alignment):
    """Nothing may change: a tensor that did change may still be right, so a difference is never sure."""

    def pairs(self, first: Tensor, second: Tensor) -> list[Pair]:
        return [Pair(first, second, sure=False)] if first.shape == second.shape else []

    def patched(self, first: Tensor, second: Tensor) -> Tensor | None:
        return first.clone() if first.shape == second.shape else None


@dataclass(frozen=True, eq=False)
class Moved(Same):
    """The inputs themselves change as the law says, and it is known what they were and are; nothing else is
    known to."""

    inputs: tuple[tuple[Tensor, Tensor], ...]

    def pairs(self, first: Tensor, second: Tensor) -> list[Pair]:
        for before, after in self.inputs:
            if first.shape == before.shape and torch.equal(first.to(before.dtype), before):
                if after.shape == second.shape:
                    return [Pair(after.to(second.dtype), second)]
                return []
        return super().pairs(first, second)


class Equal(Alignment):
    """Nothing may change anywhere."""

    def patched(self, first: Tensor, second: Tensor) -> Tensor | None:
        return first.clone() if first.shape == second.shape else None

    def pairs(self, first: Tensor, second: Tensor) -> list[Pair]:
        return [Pair(first, second)] if first.shape == second.shape else []


@dataclass(frozen=True, eq=False)
class Match:
    """Along one axis, entries `here` of the first run's `size` are entries `there` of the second run's
    `other`."""

    size: int
    here: Tensor
    other: int
    there: Tensor

    def fits(self, first: int, second: int) -> bool:
        return first == self.size and second == self.other

    def folds(self, first: int, second: int) -> int:
        """The number r of an axis of r times the sizes in both runs, or 0."""
        r = first // self.size if self.size else 0
        if r and first == r * self.size and second == r * self.other:
            return r
        return 0


@dataclass(frozen=True, eq=False)
class Indexed(Alignment):
    """Rows and tokens keep their values and change their places. Axes are recognised by their sizes."""

    tokens: Match | None = None
    rows: Match | None = None
    renamed: Tensor | None = None  # for graphs: what each number of a node became
    future: bool = False  # tokens that are not matched may change, and so may all that does not follow the tokens

    def pairs(self, first: Tensor, second: Tensor) -> list[Pair]:
        if first.dim() != second.dim():
            return []
        if self.renamed is not None and not first.is_floating_point():
            return self.numbers(first, second)
        return [
            Pair(self.view(first, plan, 0), self.view(second, plan, 1), sure)
            for plan, sure in self.plans(first, second)
        ]

    def numbers(self, first: Tensor, second: Tensor) -> list[Pair]:
        """Whole numbers may name nodes, or count something: either may be meant."""
        assert self.renamed is not None
        found = [Pair(first, second, sure=False)] if first.shape == second.shape else []
        if (
            first.shape == second.shape
            and first.numel()
            and int(first.min()) >= 0
            and int(first.max()) < len(self.renamed)
        ):
            found.append(Pair(self.renamed.to(first.device)[first.long()].to(first.dtype), second, sure=False))
        moved = [
            Pair(self.view(first, plan, 0), self.view(second, plan, 1), sure=False)
            for plan, _ in self.plans(first, second)
        ]
        return found + moved

    def patched(self, first: Tensor, second: Tensor) -> Tensor | None:
        if first.dim() != second.dim():
            return None
        if first.dim() == 0:
            return first.clone()
        for plan, sure in self.plans(first, second):
            if sure:
                slots = [
                    torch.arange(size) if match is None else match.there
                    for match, size in zip(plan, second.shape, strict=True)
                ]
                out = second.clone()
                out[torch.meshgrid(*(slot.to(out.device) for slot in slots), indexing="ij")] = self.view(first, plan, 0)
                return out
        return None

    def plans(self, first: Tensor, second: Tensor) -> list[tuple[list[Match | None], bool]]:
        """Ways to read the axes: for each axis the match it follows, or None for one that is left alone."""
        plan: list[Match | None] = []
        rows_found, strange = False, False
        for one, two in zip(first.shape, second.shape, strict=True):
            if self.tokens is not None and self.tokens.fits(one, two):
                plan.append(self.tokens)
            elif self.rows is not None and not rows_found and self.rows.fits(one, two):
                plan.append(self.rows)
                rows_found = True
            else:
                plan.append(None)
                strange = strange or one != two or self.maybe_folded(one, two)
        if not strange:
            known = not self.future or any(match is not None and match is self.tokens for match in plan)
            return [(plan, known)]
        return [(folded, False) for folded in self.foldings(first, second, plan)]

    def maybe_folded(self, one: int, two: int) -> bool:
        """Might tokens be folded into an axis that looks as if nothing happened to it?"""
        return (
            self.tokens is not None
            and self.tokens.size == self.tokens.other > 1
            and one == two
            and one % self.tokens.size == 0
        )

    def foldings(self, first: Tensor, second: Tensor, plan: list[Match | None]) -> list[list[Match | None]]:
        """Rows, tokens or both folded into one axis with others, either way round."""
        sizes = list(zip(first.shape, second.shape, strict=True))
        found: list[list[Match | None]] = []
        for k, (one, two) in enumerate(sizes):
            rest_is_clear = all(
                m is not None or a == b for j, (m, (a, b)) in enumerate(zip(plan, sizes, strict=True)) if j != k
            )
            if plan[k] is None and rest_is_clear:
                found += [[*plan[:k], match, *plan[k + 1 :]] for match in self.folded_matches(one, two)]
        if first.shape == second.shape:
            found.append(plan)
        return found

    def folded_matches(self, one: int, two: int) -> list[Match]:
        found = []
        tokens, rows = self.tokens, self.rows
        if tokens is not None and rows is not None:
            both = Match(
                rows.size * tokens.size,
                (rows.here[:, None] * tokens.size + tokens.here).flatten(),
                rows.other * tokens.other,
                (rows.there[:, None] * tokens.other + tokens.there).flatten(),
            )
            swapped = Match(
                both.size,
                (rows.here[:, None] + tokens.here * rows.size).flatten(),
                both.other,
                (rows.there[:, None] + tokens.there * rows.other).flatten(),
            )
            found += [widened for m in (both, swapped) for widened in _folded(m, one, two)]
        for m in (tokens, rows):
            if m is not None:
                found += _folded(m, one, two)
        return found

    @staticmethod
    def view(x: Tensor, plan: list[Match | None], run: int) -> Tensor:
        for axis, match in enumerate(plan):
            if match is not None:
                x = x.index_select(axis, (match.there if run else match.here).to(x.device))
        return x


def _folded(m: Match, one: int, two: int) -> list[Match]:
    """m within an axis that holds r times as many entries: m outside, or inside."""
    r = m.folds(one, two)
    if r < 1:
        return []
    inner = torch.arange(r)
    outside = Match(one, (m.here[:, None] * r + inner).flatten(), two, (m.there[:, None] * r + inner).flatten())
    inside = Match(
        one, (m.here + inner[:, None] * m.size).flatten(), two, (m.there + inner[:, None] * m.other).flatten()
    )
    if r == 1:
        return [outside]
    return [outside, inside]
