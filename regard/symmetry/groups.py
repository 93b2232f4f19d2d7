"""Groups: what may be done to an input. Values that can be compared, and met with `&`.

A mask, a bias or a position says which group it *keeps*; what keeps both of two groups keeps their meet, so the
symmetry of a whole is the meet of its parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Literal

from regard.symmetry.elements import Element, Mirror, Permutation, Scale, Shift, Turn, quarter


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

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        """`count` of its elements, never the identity, for axes of these sizes; the telling ones first."""
        raise ValueError(f"{type(self).__name__} draws no elements; draw from its parts")

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

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        (n,) = sizes
        if n < 2:
            return []
        found: list[Element] = [Permutation((*range(n - 2), n - 1, n - 2)), Permutation(tuple(reversed(range(n))))]
        while len(found) < count and n > 2:
            order = tuple(random.sample(range(n), n))
            if order != tuple(range(n)):
                found.append(Permutation(order))
        return found[:count]


@dataclass(frozen=True)
class Shifts(Group):
    """A multiple of `step` is added to every coordinate."""

    step: int = 1

    def __post_init__(self) -> None:
        if self.step < 1:
            raise ValueError(f"step must be a positive whole number, got {self.step}; Shifts() is every shift")

    def meet(self, other: Group) -> Group | None:
        return Shifts(math.lcm(self.step, other.step)) if isinstance(other, Shifts) else None

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        """For each axis a multiple of step that is less than its size, or any where the size is 0 (no end)."""
        choices = [range(-limit * self.step, limit * self.step + 1, self.step) for limit in self.most(sizes)]
        found: list[Element] = []
        for i in range(len(choices)):
            if len(choices[i]) > 1:
                found.append(Shift(tuple(self.step if j == i else 0 for j in range(len(choices)))))
        while found and len(found) < count:
            by = tuple(random.choice(choice) for choice in choices)
            if any(by):
                found.append(Shift(by))
        return found[:count]

    def most(self, sizes: tuple[int, ...]) -> list[int]:
        """How many steps it can go along each axis."""
        return [(size - 1) // self.step if size else max(1, 32 // self.step) for size in sizes]

    def __str__(self) -> str:
        return "shifts" if self.step == 1 else f"shifts by multiples of {self.step}"


@dataclass(frozen=True)
class Rotations(Group):
    """Turns: "quarter" those of a square grid, "plane" all of the plane, SO(2), "space" all of space, SO(3)."""

    of: Literal["quarter", "plane", "space"] = "quarter"

    def __post_init__(self) -> None:
        if self.of not in ("quarter", "plane", "space"):
            raise ValueError(f"rotations are of 'quarter', 'plane' or 'space', got {self.of!r}")

    def meet(self, other: Group) -> Group | None:
        if isinstance(other, Rotations) and {self.of, other.of} == {"quarter", "plane"}:
            return Rotations("quarter")
        return super().meet(other)

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        if self.of == "quarter":
            quarters: list[Element] = [quarter(1), quarter(2), quarter(3)]
            return quarters[:count]
        if self.of == "plane":
            angles = [random.uniform(0.1, 2 * math.pi - 0.1) for _ in range(count)]
            return list[Element](Turn(((math.cos(a), -math.sin(a)), (math.sin(a), math.cos(a)))) for a in angles)
        turns = (Turn(_matrix_of_quaternion([random.gauss(0, 1) for _ in range(4)])) for _ in range(count))
        return list[Element](turns)

    def __str__(self) -> str:
        return {"quarter": "quarter turns", "plane": "rotations of the plane", "space": "rotations of space"}[self.of]


def _matrix_of_quaternion(q: list[float]) -> tuple[tuple[float, ...], ...]:
    norm = math.sqrt(sum(x * x for x in q))
    w, x, y, z = (part / norm for part in q)
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )


@dataclass(frozen=True)
class Reflections(Group):
    """One axis runs backwards."""

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        mirrors: list[Element] = [Mirror(axis) for axis in reversed(range(len(sizes)))]
        return mirrors[:count]


@dataclass(frozen=True)
class Scalings(Group):
    """Values times a positive number."""

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        more: list[Element] = [Scale(math.exp(random.uniform(-1, 1))) for _ in range(count)]
        return [Scale(2.0), *more][:count]


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
