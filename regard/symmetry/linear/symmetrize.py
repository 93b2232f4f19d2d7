"""Any function made symmetric: by an average over the whole group, by one over some of it, or by putting
tokens in order first.

    Averaged(f, Permutations(), OnAxis(1), Fixed())
    exact; runs f once for each element of the group Sampled(f, Permutations(), OnAxis(1), Fixed(),
    samples=64)   64 runs; what is left of the asymmetry shrinks like 1/√samples Sorted(f, OnAxis(1), Fixed())
    exact for permutations; one run, but not continuous

With out=Fixed() the result is invariant; with an action on the output it is equivariant. `left(x)` says what
it cost and what it left, `check` measures the same. The state is that of the function: nothing is learned
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.symmetry.actions import Action, Fixed, OnAxis
from regard.symmetry.compare import relative
from regard.symmetry.elements import Element
from regard.symmetry.groups import Group, Permutations
from regard.symmetry.laws import Symmetry

MOST_RUNS = 5_040  # all orders of seven things


@dataclass(frozen=True)
class Left:
    """What symmetrizing cost, and what of the asymmetry is left: the largest |f(gx) − g f(x)| / max |f(x)|
    that was seen."""

    before: float
    after: float
    runs: int  # of the function, for each call


class Symmetrized(nn.Module):
    """A function of a tensor, and of whatever else is handed on to it as it is, made symmetric in the
    tensor."""

    def __init__(self, function: Callable[..., Tensor], group: Group, into: Action, out: Action) -> None:
        super().__init__()
        if not callable(function):
            raise RegardError(f"only a function or a module can be made symmetric, got {type(function).__name__}")
        self.function, self.group, self.into, self.out = function, group, into, out

    @property
    def symmetry(self) -> tuple[Symmetry, ...]:
        """What it keeps, for `check`: one law for each part of the group."""
        return tuple(Symmetry(part, self.into, self.out) for part in self.group.parts())

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        """What the group's elements are drawn for."""
        try:
            return self.into.sizes(x)
        except IndexError:
            raise RegardError(f"acting {self.into} needs an axis that shape {tuple(x.shape)} does not have") from None

    def runs(self, x: Tensor) -> int:
        """How often the function is run for such an input."""
        raise NotImplementedError(f"{type(self).__name__} must define runs()")

    @torch.no_grad()
    def left(self, x: Tensor, *more: Any, seed: int = 0, trials: int = 8, **named: Any) -> Left:
        """Its error on x before and after, over the same seeded elements of the group."""
        sizes, random = self.sizes(x), Random(seed)
        elements = [g for part in self.group.parts() for g in part.draw(sizes, random, trials)]
        errors = []
        for f in (self.function, self):
            first = f(x, *more, **named)
            pairs = ((self.out.act(g, first), f(self.into.act(g, x), *more, **named)) for g in elements)
            errors.append(max((relative(expected, found) for expected, found in pairs), default=0.0))
        return Left(errors[0], errors[1], self.runs(x))

    def mean(self, elements: Iterable[Element], x: Tensor, *more: Any, **named: Any) -> Tensor:
        """The mean of g⁻¹ f(g x)."""
        total, count = None, 0
        for g in elements:
            y = self.out.act(g.inverse(), self.function(self.into.act(g, x), *more, **named))
            total, count = y if total is None else total + y, count + 1
        assert total is not None
        return total / count

    def extra_repr(self) -> str:
        return f"{self.group}: {self.into} -> {self.out}"


class Averaged(Symmetrized):
    """f̄(x) = 1/|G| Σ_g g⁻¹ f(g x): exact, and f̄ = f where f is symmetric already. For small groups."""

    def elements(self, x: Tensor) -> list[Element]:
        """All of them, for inputs like x."""
        sizes = self.sizes(x)
        order = self.group.order(sizes)
        if order is None or order > MOST_RUNS:
            many = "infinitely many" if order is None else order
            raise RegardError(
                f"{self.group} on {sizes} are {many}, and an exact average takes {MOST_RUNS} at most; use Sampled"
            )
        return list(self.group.elements(sizes))

    def runs(self, x: Tensor) -> int:
        return len(self.elements(x))

    def forward(self, x: Tensor, *more: Any, **named: Any) -> Tensor:
        return self.mean(self.elements(x), x, *more, **named)


class Sampled(Symmetrized):
    """The mean of g⁻¹ f(g x) over `samples` elements drawn by a seed: the same ones every time, so that it is
    one function."""

    def __init__(
        self, function: Callable[..., Tensor], group: Group, into: Action, out: Action, *, samples: int, seed: int = 0
    ) -> None:
        super().__init__(function, group, into, out)
        if type(samples) is not int or samples < 1:
            raise RegardError(f"samples must be a whole number above zero, got {samples!r}")
        self.samples, self.seed = samples, seed

    @property
    def symmetry(self) -> tuple[Symmetry, ...]:
        """Nothing is declared: nearly kept is not kept. `left` says how nearly."""
        return ()

    def runs(self, x: Tensor) -> int:
        return self.samples

    def forward(self, x: Tensor, *more: Any, **named: Any) -> Tensor:
        random, sizes = Random(self.seed), self.sizes(x)
        return self.mean((self.group.sample(sizes, random) for _ in range(self.samples)), x, *more, **named)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.samples} samples"


class Sorted(Symmetrized):
    """f of the tokens in their own order, and the outputs put back: exact for permutations, at the cost of a
    sort.

    Tokens are compared by their first channel, where that is equal by the second, and so on. Tokens that are
    equal in all of them get the mean of their outputs, for nothing tells them apart. It is not continuous:
    where two tokens change places, f
    may jump.   x: b n d, or b n
    """

    def __init__(self, function: Callable[..., Tensor], into: OnAxis, out: OnAxis | Fixed) -> None:
        if not isinstance(into, OnAxis) or not isinstance(out, OnAxis | Fixed):
            raise RegardError(
                f"tokens are sorted along one axis: into is OnAxis, out is OnAxis or Fixed, got {into} and {out}"
            )
        super().__init__(function, Permutations(), into, out)

    def runs(self, x: Tensor) -> int:
        return 1

    def forward(self, x: Tensor, *more: Any, **named: Any) -> Tensor:
        axis = self.into.axis % x.dim()  # type: ignore[attr-defined]
        if x.dim() not in (2, 3) or axis == x.dim() - 1 == 2:
            raise RegardError(f"tokens to be sorted are b n d or b n, got shape {tuple(x.shape)} along axis {axis}")
        rows = x.movedim(axis, 1)
        order = _lexicographic(rows.detach())
        ranked = _take(rows, order)
        y = self.function(ranked.movedim(1, axis), *more, **named)
        if isinstance(self.out, Fixed):
            return y
        axis = self.out.axis  # type: ignore[attr-defined]
        return _take(_shared(y.movedim(axis, 1), ranked.detach()), order.argsort(1)).movedim(1, axis)


def _take(x: Tensor, order: Tensor) -> Tensor:
    """Each row in its own order.   b n ..., b n -> b n ..."""
    return x.gather(1, order.view(*order.shape, *[1] * (x.dim() - 2)).expand_as(x))


def _lexicographic(x: Tensor) -> Tensor:
    """The order that sorts each row's tokens, by the first channel first.   b n d, or b n -> b n"""
    channels = x[..., None] if x.dim() == 2 else x
    order = channels[..., 0].argsort(dim=1, stable=True)
    keys = channels[..., 0].gather(1, order)
    if not (keys[:, 1:] == keys[:, :-1]).any():
        return order  # no two are alike, so the other channels have no say
    order = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    # sorts that keep what is sorted: the last one counts most
    for channel in reversed(range(channels.shape[-1])):
        order = order.gather(1, channels[..., channel].gather(1, order).argsort(dim=1, stable=True))
    return order


def _shared(y: Tensor, ranked: Tensor) -> Tensor:
    """The outputs y of sorted tokens, with their mean for tokens that are equal.
    b n ..., b n d or b n -> b n ..."""
    if ranked.dim() == 3:
        new = (ranked[:, 1:] != ranked[:, :-1]).flatten(2).any(-1)
    else:
        new = ranked[:, 1:] != ranked[:, :-1]
    if new.all():
        return y
    which = torch.cat((new.new_zeros(len(y), 1), new), 1).cumsum(1)  # b n: equal tokens have one number
    members = torch.nn.functional.one_hot(which, y.shape[1]).to(y.dtype)  # b n k
    means = torch.einsum("bnk,bn...->bk...", members, y) / members.sum(1).clamp(min=1).view(
        *which.shape, *[1] * (y.dim() - 2)
    )
    return _take(means, which)
