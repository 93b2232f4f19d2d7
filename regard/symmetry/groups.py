"""Groups: what may be done to an input. Values that can be compared, and met with `&`.

A mask, a bias or a position says which group it *keeps*; what keeps both of two groups keeps their meet, so the
symmetry of a whole is the meet of its parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """Transformations of an input that can be undone and composed."""

    def parts(self) -> tuple[Group, ...]:
        """The independent groups it is a product of."""
        return (self,)

    def meet(self, other: Group) -> Group | None:
        """What this group shares with one other of the same kind, or None if that is only the identity."""
        return self if self == other else None

    def __and__(self, other: Group) -> Group:
        """The largest group inside both."""
        shared = (a.meet(b) for a in self.parts() for b in other.parts() if type(a) is type(b))
        return product(*(group for group in shared if group is not None))

    def __le__(self, other: Group) -> bool:
        """Is this group inside the other one?"""
        return self & other == self

    def __str__(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Trivial(Group):
    """Only the identity: order and place both matter."""

    def parts(self) -> tuple[Group, ...]:
        return ()

    def __str__(self) -> str:
        return "nothing"


@dataclass(frozen=True)
class Permutations(Group):
    """Values move among the tokens, places stay: (Px)_i = x_perm[i]."""


@dataclass(frozen=True)
class Shifts(Group):
    """A multiple of `step` is added to every coordinate."""

    step: int = 1

    def __post_init__(self) -> None:
        if self.step < 1:
            raise ValueError(f"step must be a positive whole number, got {self.step}; Shifts() is every shift")

    def meet(self, other: Group) -> Group | None:
        return Shifts(math.lcm(self.step, other.step)) if isinstance(other, Shifts) else None

    def __str__(self) -> str:
        return "shifts" if self.step == 1 else f"shifts by multiples of {self.step}"


@dataclass(frozen=True)
class Product(Group):
    """Several groups that act independently of each other."""

    factors: tuple[Group, ...]

    def parts(self) -> tuple[Group, ...]:
        return self.factors

    def __str__(self) -> str:
        return " and ".join(str(factor) for factor in self.factors)


def product(*groups: Group) -> Group:
    """The product of groups in one canonical form: flat, no identity, one order."""
    flat = {part for group in groups for part in group.parts()}
    ordered = tuple(sorted(flat, key=str))
    if not ordered:
        return Trivial()
    return ordered[0] if len(ordered) == 1 else Product(ordered)


EVERYTHING = product(Permutations(), Shifts())  # bare attention keeps both
