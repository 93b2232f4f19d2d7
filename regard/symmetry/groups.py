"""Groups: what may be done to an input. Values that can be compared, and met with `&`.

A mask, a bias or a position says which group it *keeps*; what keeps both of two groups keeps their meet, so
the symmetry of a whole is the meet of its parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from regard.errors import RegardError
from regard.symmetry.elements import (
    IDENTITY,
    Composed,
    Element,
    Gauge,
    Mirror,
    Permutation,
    Scale,
    Shift,
    Translate,
    Turn,
    quarter,
)


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
        raise RegardError(f"{type(self).__name__} draws no elements; draw from its parts")

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        """A few elements of which all others are composed, or at least come as near as one likes to all
        others."""
        raise RegardError(f"{type(self).__name__} names no generators; use one of the other groups, or Generated")

    def order(self, sizes: tuple[int, ...]) -> int | None:
        """How many elements there are, None for infinitely many."""
        return None

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        """All of them, the identity too. What is in two factors of a product comes more than once, all of it
        equally often."""
        raise RegardError(f"{self} are infinitely many; draw some of them")

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        """One of them, each as likely as any other."""
        raise RegardError(
            f"no element of the {self} is as likely as any other; choose a group that is finite, or rotations"
        )

    def __str__(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Trivial(Group):
    """Only the identity: order and place both matter."""

    def parts(self) -> tuple[Group, ...]:
        return ()

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        return []

    def order(self, sizes: tuple[int, ...]) -> int:
        return 1

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        yield IDENTITY

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        return IDENTITY

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

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        """A swap of two neighbours, and all one place on."""
        if len(sizes) != 1:
            raise RegardError(
                f"permutations act on one number of things, got {sizes}; choose another action, or another group"
            )
        (n,) = sizes
        swap, cycle = (1, 0, *range(2, n)), (*range(1, n), 0)
        if n > 1:
            return [Permutation(order) for order in dict.fromkeys((swap, cycle))]
        return []

    def order(self, sizes: tuple[int, ...]) -> int:
        return math.factorial(sizes[0])

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        return map(Permutation, itertools.permutations(range(sizes[0])))

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        return Permutation(tuple(random.sample(range(sizes[0]), sizes[0])))


@dataclass(frozen=True)
class Shifts(Group):
    """A multiple of `step` is added to every coordinate."""

    step: int = 1

    def __post_init__(self) -> None:
        if self.step < 1:
            raise RegardError(f"step must be a positive whole number, got {self.step}; Shifts() is every shift")

    def meet(self, other: Group) -> Group | None:
        return Shifts(math.lcm(self.step, other.step)) if isinstance(other, Shifts) else None

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        """For each axis a multiple of step that is less than its size, or any where the size is 0 (no
        end)."""
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

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        return [Shift(tuple(self.step if i == j else 0 for i in range(len(sizes)))) for j in range(len(sizes))]

    def order(self, sizes: tuple[int, ...]) -> int | None:
        return math.prod(map(len, self._around(sizes))) if all(sizes) else None

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        if all(sizes):
            return map(Shift, itertools.product(*self._around(sizes)))
        return super().elements(sizes)

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        if all(sizes):
            return Shift(tuple(map(random.choice, self._around(sizes))))
        return super().sample(sizes, random)

    def _around(self, sizes: tuple[int, ...]) -> list[range]:
        """Every shift along each axis, once around: 4 steps on 6 places come to stand on every second one."""
        return [range(0, size, math.gcd(self.step, size)) for size in sizes]

    def __str__(self) -> str:
        return "shifts" if self.step == 1 else f"shifts by multiples of {self.step}"


@dataclass(frozen=True)
class Rotations(Group):
    """Turns: "quarter" those of a square grid, "plane" all of the plane, SO(2), "space" all of space,
    SO(3)."""

    of: Literal["quarter", "plane", "space"] = "quarter"

    def __post_init__(self) -> None:
        if self.of not in ("quarter", "plane", "space"):
            raise RegardError(f"rotations are of 'quarter', 'plane' or 'space', got {self.of!r}")

    def meet(self, other: Group) -> Group | None:
        if isinstance(other, Rotations) and {self.of, other.of} == {"quarter", "plane"}:
            return Rotations("quarter")
        return super().meet(other)

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        if self.of == "quarter":
            quarters: list[Element] = [quarter(1), quarter(2), quarter(3)]
            return quarters[:count]
        if self.of == "plane":
            return list[Element](_turn(random.uniform(0.1, 2 * math.pi - 0.1)) for _ in range(count))
        turns = (Turn(_matrix_of_quaternion([random.gauss(0, 1) for _ in range(4)])) for _ in range(count))
        return list[Element](turns)

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        """Whole degrees come back to where they began; a radian never does: its multiples come near to every
        angle."""
        if self.of == "quarter":
            return [quarter(1)]
        if self.of == "plane":
            return [_turn(1.0)]
        c, s = math.cos(1), math.sin(1)
        return [Turn(((c, -s, 0), (s, c, 0), (0, 0, 1))), Turn(((1, 0, 0), (0, c, -s), (0, s, c)))]

    def order(self, sizes: tuple[int, ...]) -> int | None:
        return 4 if self.of == "quarter" else None

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        return map(quarter, range(4)) if self.of == "quarter" else super().elements(sizes)

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        if self.of == "quarter":
            return quarter(random.randrange(4))
        if self.of == "plane":
            return _turn(random.uniform(0, 2 * math.pi))
        return self.draw(sizes, random, 1)[0]

    def __str__(self) -> str:
        return {"quarter": "quarter turns", "plane": "rotations of the plane", "space": "rotations of space"}[self.of]


def _turn(angle: float) -> Turn:
    return Turn(((math.cos(angle), -math.sin(angle)), (math.sin(angle), math.cos(angle))))


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

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        return [Mirror(axis) for axis in range(len(sizes))]

    def order(self, sizes: tuple[int, ...]) -> int:
        return 2 ** len(sizes)

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        choices = itertools.product((False, True), repeat=len(sizes))
        return (Composed(tuple(Mirror(axis) for axis, chosen in enumerate(each) if chosen)) for each in choices)

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        return Composed(tuple(Mirror(axis) for axis in range(len(sizes)) if random.random() < 0.5))


@dataclass(frozen=True)
class OneMirror(Reflections):
    """The last axis runs backwards, or does not."""

    def order(self, sizes: tuple[int, ...]) -> int:
        return 2

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        return iter((IDENTITY, Mirror(len(sizes) - 1)))


@dataclass(frozen=True)
class Scalings(Group):
    """Values times a positive number."""

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        more: list[Element] = [Scale(math.exp(random.uniform(-1, 1))) for _ in range(count)]
        return [Scale(2.0), *more][:count]

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        return [Scale(2.0)]  # a linear map that keeps this one keeps them all


@dataclass(frozen=True)
class Translations(Group):
    """One vector is added to all points."""

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        width = len(sizes)
        first: list[Element] = [
            Translate(tuple(1.0 if k == axis else 0.0 for k in range(width))) for axis in range(width)
        ]
        more: list[Element] = [Translate(tuple(random.uniform(-3, 3) for _ in range(width))) for _ in range(count)]
        return [*first, *more][:count]


@dataclass(frozen=True)
class Gauges(Group):
    """Every vertex of a surface gets another frame, each by an angle of its own."""

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        (n,) = sizes
        if not n:
            return []
        found: list[Element] = [Gauge((math.pi / 2, *[0.0] * (n - 1)))]
        found += [self.sample(sizes, random) for _ in range(count - 1)]
        return found

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        return Gauge(tuple(random.uniform(-math.pi, math.pi) for _ in range(sizes[0])))


@dataclass(frozen=True)
class Product(Group):
    """Several groups of transformations, and what is composed of them: one of each, in any order."""

    factors: tuple[Group, ...]

    def parts(self) -> tuple[Group, ...]:
        return self.factors

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        return [element for factor in self.factors for element in factor.generators(sizes)]

    def order(self, sizes: tuple[int, ...]) -> int | None:
        orders = [factor.order(sizes) for factor in self._apart(sizes)]
        if None in orders:
            return None
        return math.prod(order for order in orders if order is not None)

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        return map(Composed, itertools.product(*(factor.elements(sizes) for factor in self._apart(sizes))))

    def _apart(self, sizes: tuple[int, ...]) -> list[Group]:
        """Factors that share less: both mirrors of the plane are half a turn, so beside turns one mirror is
        enough."""
        turns = Rotations("quarter") in self.factors and len(sizes) == 2
        return [OneMirror() if turns and factor == Reflections() else factor for factor in self.factors]

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        return Composed(tuple(factor.sample(sizes, random) for factor in self.factors))

    def __str__(self) -> str:
        return " and ".join(str(factor) for factor in self.factors)


@dataclass(frozen=True)
class Generated(Group):
    """What is composed of some permutations of your own, or of some turns: a group that has no name here.

    >>> Generated((Permutation((1, 0, 3, 2)),))        # two pairs, each of which changes places with itself
    """

    of: tuple[Element, ...]

    def __post_init__(self) -> None:
        if not self.of or not (
            all(isinstance(g, Permutation) for g in self.of) or all(isinstance(g, Turn) for g in self.of)
        ):
            raise RegardError(
                f"a group is generated by permutations, or by turns, got {', '.join(map(str, self.of)) or 'none'}"
            )

    def draw(self, sizes: tuple[int, ...], random: Random, count: int) -> list[Element]:
        words = [Composed(tuple(random.choices(self.of, k=random.randrange(2, 8)))) for _ in range(count)]
        return [*self.of, *words][:count]

    def generators(self, sizes: tuple[int, ...]) -> list[Element]:
        return list(self.of)

    def order(self, sizes: tuple[int, ...]) -> int:
        return len(list(self.elements(sizes)))

    def elements(self, sizes: tuple[int, ...]) -> Iterator[Element]:
        """What is known is composed with the generators until nothing new comes."""
        first = self.of[0].inverse()
        found = {_key(start := _composed(self.of[0], first)): start}
        new: list[Element] = [start]
        while new:
            if len(found) > MOST_GENERATED:
                raise RegardError(f"these generate more than {MOST_GENERATED} elements; draw some of them")
            longer = [_composed(element, g) for element in new for g in self.of]
            new = [element for element in longer if found.setdefault(_key(element), element) is element]
        return iter(found.values())

    def sample(self, sizes: tuple[int, ...], random: Random) -> Element:
        return random.choice(list(self.elements(sizes)))

    def __str__(self) -> str:
        return f"what is generated by {' and '.join(map(str, self.of))}"


MOST_GENERATED = 10_000


def _composed(first: Element, second: Element) -> Element:
    """second ∘ first, as one permutation or one turn."""
    if isinstance(first, Permutation) and isinstance(second, Permutation):
        return Permutation(tuple(first.order[i] for i in second.order))  # x_first[second[i]]
    assert isinstance(first, Turn) and isinstance(second, Turn)
    columns = list(zip(*first.matrix, strict=True))
    product_of = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in second.matrix]
    return Turn(tuple(map(tuple, product_of)))


def _key(element: Element) -> object:
    """Turns that differ by rounding are one."""
    if isinstance(element, Turn):
        return tuple(round(x, 6) + 0.0 for row in element.matrix for x in row)
    return element


def product(*groups: Group) -> Group:
    """The product of groups in one canonical form: flat, no identity, one order."""
    flat = {part for group in groups for part in group.parts()}
    ordered = tuple(sorted(flat, key=str))
    if not ordered:
        return Trivial()
    if len(ordered) == 1:
        return ordered[0]
    return Product(ordered)


EVERYTHING = product(Permutations(), Shifts())  # bare attention keeps both
