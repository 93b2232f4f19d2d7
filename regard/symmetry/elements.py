"""Elements of groups: one permutation, one shift, one turn. Plain values that print as a reader would say
them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.errors import RegardError


@dataclass(frozen=True)
class Element:
    """One thing that may be done to an input, and undone."""

    def inverse(self) -> Element:
        raise NotImplementedError(f"{type(self).__name__} must say what undoes it: define inverse()")


@dataclass(frozen=True)
class Permutation(Element):
    """(Px)_i = x_order[i]."""

    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise RegardError(f"a permutation holds each of 0 … {len(self.order) - 1} once, got {list(self.order)}")

    def inverse(self) -> Permutation:
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return Permutation(tuple(back))

    def __str__(self) -> str:
        moved = [i for i, j in enumerate(self.order) if i != j]
        if len(moved) == 2:
            return f"swap {moved[0]} and {moved[1]}"
        if self.order == tuple(reversed(range(len(self.order)))):
            return f"reverse {len(self.order)}"
        if len(self.order) <= 8:
            return "order " + " ".join(map(str, self.order))
        return f"order {' '.join(map(str, self.order[:6]))} … of {len(self.order)}"


@dataclass(frozen=True)
class Shift(Element):
    """On axes and grids (Sx)_i = x_(i−by), around the end; to coordinates `by` is added. One number for each
    axis."""

    by: tuple[int, ...]

    def inverse(self) -> Shift:
        return Shift(tuple(-b for b in self.by))

    def __str__(self) -> str:
        return "shift by " + ", ".join(f"{b:+d}" for b in self.by)


@dataclass(frozen=True)
class Turn(Element):
    """A rotation: its matrix, and for quarter turns of a grid how many (as torch.rot90 counts)."""

    matrix: tuple[tuple[float, ...], ...]
    quarters: int | None = None

    def inverse(self) -> Turn:
        back = tuple(zip(*self.matrix, strict=True))
        return Turn(back, None if self.quarters is None else -self.quarters % 4)

    def __str__(self) -> str:
        if self.quarters is not None:
            return f"turn by {90 * self.quarters}°"
        size = len(self.matrix)
        cosine = (sum(self.matrix[i][i] for i in range(size)) - (size - 2)) / 2
        return f"turn by {math.degrees(math.acos(max(-1.0, min(1.0, cosine)))):.0f}°"


@dataclass(frozen=True)
class Mirror(Element):
    """Axis number `axis` (of those acted on) runs backwards."""

    axis: int

    def inverse(self) -> Mirror:
        return self

    def __str__(self) -> str:
        return f"mirror axis {self.axis}"


@dataclass(frozen=True)
class Scale(Element):
    """Values times a positive factor."""

    factor: float

    def inverse(self) -> Scale:
        return Scale(1 / self.factor)

    def __str__(self) -> str:
        return f"times {self.factor:.3g}"


@dataclass(frozen=True)
class Translate(Element):
    """A vector is added to points."""

    by: tuple[float, ...]

    def inverse(self) -> Translate:
        return Translate(tuple(-b for b in self.by))

    def __str__(self) -> str:
        return "move by " + ", ".join(f"{b:.3g}" for b in self.by)


@dataclass(frozen=True)
class Gauge(Element):
    """The frame of each vertex is turned by an angle of its own, counter-clockwise."""

    angles: tuple[float, ...]

    def inverse(self) -> Gauge:
        return Gauge(tuple(-angle for angle in self.angles))

    def __str__(self) -> str:
        turned = [i for i, angle in enumerate(self.angles) if angle]
        if len(turned) == 1:
            return f"turn frame {turned[0]} by {math.degrees(self.angles[turned[0]]):.0f}°"
        return f"turn {len(turned)} frames, each by its own angle"


@dataclass(frozen=True)
class Composed(Element):
    """One element after another, the first one first. Of none at all it is the identity."""

    parts: tuple[Element, ...] = ()

    def inverse(self) -> Composed:
        return Composed(tuple(part.inverse() for part in reversed(self.parts)))

    def __str__(self) -> str:
        return ", then ".join(map(str, self.parts)) or "nothing at all"


IDENTITY = Composed()


def quarter(count: int) -> Turn:
    """`count` quarter turns of the plane."""
    cosine, sine = ((1, 0), (0, 1), (-1, 0), (0, -1))[count % 4]
    return Turn(((cosine, -sine), (sine, cosine)), count % 4)
