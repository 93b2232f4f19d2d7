"""The law of frames: what a network on a surface says must not depend on the frame that each vertex was given.

A frame is an axis in the plane that touches the surface at a vertex: nothing says where it should point. `frames` are
the angles of these axes. A field `n 1+2M c` holds, of each vertex, scalars and features of order 1 to M, real and
imaginary part of each: turn the frame by g, and a feature of order m must be multiplied by e^{−img}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.symmetry.actions import Action, Fixed
from regard.symmetry.align import Alignment, Pair
from regard.symmetry.elements import Element, Gauge
from regard.symmetry.groups import Gauges, Group
from regard.symmetry.law import Others
from regard.symmetry.law import Pair as Both
from regard.symmetry.laws import Named, Symmetry
from regard.symmetry.model_under_test import Subject
from regard.symmetry.output import Axes
from regard.symmetry.roles import Inputs


def is_field(x: Tensor, n: int) -> bool:
    """Does it hold scalars and arrows of n vertices, n 1+2M c?"""
    return x.is_floating_point() and x.dim() == 3 and x.shape[0] == n and x.shape[1] % 2 == 1 and x.shape[1] > 1


@dataclass(frozen=True)
class OnFrames(Action):
    """On the angles of frames, n: each grows by its own angle."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        if isinstance(element, Gauge):
            return x + torch.tensor(element.angles, dtype=x.dtype, device=x.device)
        return super().act(element, x)

    def sizes(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[0],)

    def __str__(self) -> str:
        return "on the angles of frames"


@dataclass(frozen=True)
class OnFields(Action):
    """On a field n 1+2M c: order m times e^{−img}, as the frame of its vertex turns by g."""

    def act(self, element: Element, x: Tensor) -> Tensor:
        if not isinstance(element, Gauge):
            return super().act(element, x)
        angles = torch.tensor(element.angles, dtype=torch.float64, device=x.device)[:, None]
        out = x.clone()
        for m in range(1, (x.shape[1] + 1) // 2):
            cosine, sine = (m * angles).cos().to(x.dtype), (m * angles).sin().to(x.dtype)
            real, imaginary = x[:, 2 * m - 1], x[:, 2 * m]
            out[:, 2 * m - 1] = cosine * real + sine * imaginary
            out[:, 2 * m] = cosine * imaginary - sine * real
        return out

    def __str__(self) -> str:
        return "on fields of vertices"


@dataclass(frozen=True, eq=False)
class TurnedFrames(Alignment):
    """Angles of frames grow, fields of vertices turn, and all else stays."""

    element: Gauge
    before: Tensor  # the angles of the frames
    after: Tensor

    def pairs(self, first: Tensor, second: Tensor) -> list[Pair]:
        if first.shape != second.shape:
            return []
        return [Pair(self.moved(first).to(second.dtype), second)]

    def patched(self, first: Tensor, second: Tensor) -> Tensor | None:
        return self.moved(first).clone() if first.shape == second.shape else None

    def moved(self, x: Tensor) -> Tensor:
        """What a tensor of the first run must be in the second."""
        if x.shape == self.before.shape and torch.equal(x.to(self.before.dtype), self.before):
            return self.after.to(x.dtype)
        if is_field(x, len(self.element.angles)):
            return OnFields().act(self.element, x)
        return x


@dataclass(frozen=True)
class OfFrames(Symmetry):
    """The frames of all vertices turn: scalars stay, arrows turn along."""

    def others(self, element: Element, subject: Subject) -> Others:
        def pair(axes: Axes, first: Tensor, second: Tensor) -> Both | None:
            assert isinstance(element, Gauge)
            if is_field(first, len(element.angles)):
                return OnFields().act(element, first), second
            return first, second

        return pair

    @staticmethod
    def alignment(element: Element, inputs: Inputs, actions: Mapping[str, Action]) -> Alignment:
        ((name, action),) = actions.items()
        assert isinstance(element, Gauge)
        return TurnedFrames(element, inputs[name], action.act(element, inputs[name]))


def _gauge(subject: Subject, group: Group | None) -> Symmetry | None:
    frames = subject.roles.frames
    if frames is None or frames not in subject.inputs:
        return None
    n = subject.inputs[frames].shape[0]
    out: Action = OnFields() if is_field(subject.output, n) else Fixed()
    return OfFrames(Gauges(), {frames: OnFrames()}, out, "gauge")


GAUGE = Named("gauge", Gauges, _gauge)
