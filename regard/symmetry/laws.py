"""Laws: what may be done to an input, and what must then happen to the output.

A law makes trials. A trial is two runs of the model and what of their outputs must be equal; its alignment
says the same of every tensor inside, which is how a break is located. This file has the parts of a law and
the symmetries; the laws of hygiene are in `hygiene.py`. To write one of your own, subclass Law and pass an
object of it to `check`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.symmetry.actions import (
    Action,
    Fixed,
    OnAxis,
    OnBoth,
    OnEdges,
    OnGrid,
    OnPatches,
    OnVectors,
    OnWhere,
)
from regard.symmetry.align import Alignment, Indexed, Match, Moved
from regard.symmetry.elements import Element, Permutation, Shift
from regard.symmetry.groups import Group, Permutations, Reflections, Rotations, Scalings, Shifts
from regard.symmetry.maps import OnMaps
from regard.symmetry.roles import Inputs
from regard.symmetry.subject import CannotTell, Subject, Vacuous, first_line

PIECE = 2**18  # numbers compared at once
Outputs = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def as_they_are(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    return first, second


@dataclass(frozen=True, eq=False)
class Earlier:
    """A step that has to come before the second run: what it makes of the state, and how its tensors compare
    with the first."""

    run: Callable[[Any], Any]
    align: Alignment


@dataclass(frozen=True, eq=False)
class Trial:
    """Two runs, and what of them must be equal."""

    what: str  # what was done, in words: the group element
    first: Inputs
    # inputs, or a function that runs the model itself (on the state that `earlier` steps left)
    second: Inputs | Callable[[Any], Any]
    align: Alignment
    outputs: Outputs = as_they_are  # the parts of both outputs that must be equal
    earlier: tuple[Earlier, ...] = ()
    refusable: bool = False  # the second run may be more than a model takes; then this is no trial of it

    def state(self) -> Any:
        """What the earlier steps leave behind."""
        state = None
        for step in self.earlier:
            state = step.run(state)
        return state


class Refused(Exception):
    """The second run of a trial is more than the model takes."""


@dataclass(frozen=True, eq=False)
class Measure:
    """How far a law is from holding, and the trial that showed it."""

    error: float
    what: str
    trial: Trial | None


def error_of(trial: Trial, subject: Subject) -> float:
    """max |second − first| / max |first|; NaN where the first run gives no finite numbers to compare with."""
    first = subject.plain(trial.first)
    try:
        second = _second_run(subject, trial)
    except Exception as error:
        if not trial.refusable:
            raise
        raise Refused(first_line(error)) from error
    return relative(*trial.outputs(first, second))


def _second_run(subject: Subject, trial: Trial) -> Tensor:
    if callable(trial.second):
        with torch.no_grad():
            return subject.read(trial.second(trial.state()))
    known = None if trial.second is trial.first else subject.recalled(trial.second)
    if known is None:
        return subject.run(trial.second)
    return known


def relative(first: Tensor, second: Tensor) -> float:
    if first.shape != second.shape:
        return math.inf
    if first.numel() == 0:
        return math.nan
    scale, difference = _largest(first), _largest(first, second)
    if not math.isfinite(scale):
        return math.nan
    if math.isnan(difference):
        return math.inf
    if scale:
        return difference / scale
    if difference:
        return math.inf
    return 0.0


def _largest(first: Tensor, second: Tensor | None = None) -> float:
    """max |first|, or max |second − first|, in pieces that fit a cache: outputs over a vocabulary are
    long."""
    pieces = first.flatten().split(PIECE)
    if second is not None:
        pieces = (y - x for x, y in zip(pieces, second.flatten().split(PIECE), strict=True))
    return float(torch.stack([piece.abs().max() for piece in pieces]).max().item())


class Law:
    """One promise. `kind` is "symmetry" or "hygiene"; `counts` says that it is promised by every model it
    applies to."""

    name: str
    kind: ClassVar[str] = "hygiene"
    counts: ClassVar[bool] = True
    tolerance: ClassVar[float | None] = None  # None: that of the dtype

    def applies(self, subject: Subject) -> bool:
        """Is there anything to measure for such inputs?"""
        return True

    def wanted(self, subject: Subject, symmetry: Group | None) -> bool:
        """Is it measured when nobody names the laws to be measured?"""
        return self.applies(subject)

    def declared(self, subject: Subject, symmetry: Group | None) -> str | None:
        """What the model promises: invariant, equivariant, holds, broken, not promised, or None for nothing
        said."""
        said = subject.roles.promises.get(self.name)
        if said is not None:
            return said
        if self.counts:
            return "holds"
        return None

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        """About `count` trials; CannotTell where they cannot be made."""
        raise NotImplementedError(f"the law {self.name!r} must define trials()")

    def measure(self, subject: Subject, random: Random, count: int) -> Measure:
        """The largest error of all trials."""
        worst, hollow, refused = Measure(-1.0, "", None), False, None
        for trial in self.trials(subject, random, count):
            try:
                error = error_of(trial, subject)
            except Refused as reason:
                refused = reason
                continue
            hollow = hollow or math.isnan(error)
            if error > worst.error:
                worst = Measure(error, trial.what, trial)
        if hollow and worst.error < math.inf:
            raise Vacuous("the output is not finite")
        if worst.trial is None:
            raise CannotTell(
                f"the model takes nothing of that kind: {refused}" if refused else "no trial could be made"
            )
        return worst

    def __str__(self) -> str:
        return self.name


def torch_generator(random: Random) -> torch.Generator:
    """Numbers of torch that follow from those of `random`."""
    return torch.Generator().manual_seed(random.randrange(2**31))


@dataclass(frozen=True)
class Symmetry(Law):
    """f(g·x) = g·f(x) for all g of a group: `into` says how g acts on the inputs, `out` how on the output.

    >>> Symmetry(Permutations(), into=OnAxis(1), out=Fixed())
    # invariant; out=OnAxis(1) would say equivariant
    """

    group: Group
    into: Action | Mapping[str, Action]  # of the first input, or of each by name
    out: Action
    name: str = ""
    kind = "symmetry"

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(
                self,
                "name",
                next((law.name for law in NAMED if isinstance(self.group, law.group)), str(self.group)),
            )

    def declared(self, subject: Subject, symmetry: Group | None) -> str | None:
        if isinstance(self.out, Fixed):
            return "invariant"
        return "equivariant"

    @property
    def by(self) -> str | None:
        """What is tried of it, where that is less than its name says."""
        if isinstance(self.group, Shifts) and self.group.step > 1:
            actions = [self.into] if isinstance(self.into, Action) else self.into.values()
            return f"multiples of {self.group.step}" + " pixels" * any(
                isinstance(action, OnGrid) for action in actions
            )
        if self.group == Rotations("quarter"):
            return "quarter turns"
        return None

    def actions(self, inputs: Inputs) -> dict[str, Action]:
        if isinstance(self.into, Action):
            return {next(name for name, x in inputs.items() if isinstance(x, Tensor)): self.into}
        missing = sorted(set(self.into) - set(inputs))
        if missing:
            raise CannotTell(f"the inputs have no {', '.join(missing)}, on which the group should act")
        return dict(self.into)

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        bases = [subject.inputs]
        stream = subject.roles.stream
        if stream is not None and isinstance(self.actions(subject.inputs).get(stream.tokens), OnAxis):
            bases = [subject.sized(subject.inputs, n) for n in subject.lengths]
        done = 0
        sizes: tuple[int, ...] = ()
        for k, inputs in enumerate(bases):
            actions = self.actions(inputs)
            sizes = next((a.sizes(inputs[name]) for name, a in actions.items() if a.sizes(inputs[name])), ())
            sizes = sizes or self.out.sizes(subject.output)
            share = count - done if k == len(bases) - 1 else 1  # one at full length, which may be long
            for element in self.group.draw(sizes, random, share):
                done += 1
                moved = {name: action.act(element, inputs[name]) for name, action in actions.items()}
                yield Trial(
                    str(element),
                    inputs,
                    {**inputs, **moved},
                    self.alignment(element, inputs, actions),
                    self.expected(element),
                )
        if not done:
            raise CannotTell(f"{self.group} have no element but the identity on sizes {sizes}")

    def expected(self, element: Element) -> Outputs:
        def outputs(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
            return self.out.act(element, first), second

        return outputs

    @staticmethod
    def alignment(element: Element, inputs: Inputs, actions: Mapping[str, Action]) -> Alignment:
        for name, action in actions.items():
            if isinstance(action, OnPatches) or (
                isinstance(action, OnGrid) and action.axes in ((-2, -1), (2, 3))
            ):
                rows, *_, height, width = inputs[name].shape
                return OnMaps(
                    rows, (height, width), element, action.side if isinstance(action, OnPatches) else 1
                )
        if isinstance(element, Permutation):
            n = len(element.order)
            edges = any(isinstance(action, OnEdges) for action in actions.values())
            renamed = torch.tensor(element.inverse().order) if edges else None
            return Indexed(tokens=Match(n, torch.tensor(element.order), n, torch.arange(n)), renamed=renamed)
        if isinstance(element, Shift) and all(isinstance(action, OnAxis) for action in actions.values()):
            (name, action), *_ = actions.items()
            n = inputs[name].shape[action.axis]  # type: ignore[attr-defined]
            return Indexed(tokens=Match(n, (torch.arange(n) - element.by[0]) % n, n, torch.arange(n)))
        return Moved(
            tuple((inputs[name], action.act(element, inputs[name])) for name, action in actions.items())
        )


@dataclass(frozen=True, eq=False)
class Named(Law):
    """A symmetry by its usual name: how it acts follows from what the inputs are."""

    name: str
    group: type[Group]
    build: Callable[[Subject, Group | None], Symmetry | None]
    kind = "symmetry"
    counts = False
    only_when_asked: bool = False

    def applies(self, subject: Subject) -> bool:
        return self.build(subject, None) is not None

    def wanted(self, subject: Subject, symmetry: Group | None) -> bool:
        asked = self.kept(symmetry) is not None or self.name in subject.roles.promises
        return self.applies(subject) and (asked or not self.only_when_asked)

    def declared(self, subject: Subject, symmetry: Group | None) -> str | None:
        said = subject.roles.promises.get(self.name)
        if said is not None or symmetry is None:
            return said
        kept = self.kept(symmetry)
        built = self.build(subject, kept)
        if built is None:
            return None
        if kept is None:
            return "broken"
        return built.declared(subject, symmetry)

    def kept(self, symmetry: Group | None) -> Group | None:
        if symmetry:
            return next((part for part in symmetry.parts() if isinstance(part, self.group)), None)
        return None

    def of(self, subject: Subject, symmetry: Group | None) -> Symmetry:
        """The symmetry itself, for these inputs: of the group that is declared, or else of the whole
        group."""
        built = self.build(subject, self.kept(symmetry))
        if built is None:
            raise CannotTell(f"none of the inputs is one that {self.name} acts on")
        return built

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        yield from self.of(subject, None).trials(subject, random, count)


def _permutation(subject: Subject, group: Group | None) -> Symmetry | None:
    stream = subject.roles.stream
    if stream is None:
        return _of_patches(subject)
    belongs = [
        name for name in (stream.tokens, stream.mask, *stream.along) if name and name in subject.inputs
    ]
    into: dict[str, Action] = {name: OnAxis(stream.axis if name == stream.tokens else 1) for name in belongs}
    if subject.roles.adjacency is not None:
        into[subject.roles.adjacency] = OnBoth()
    return Symmetry(Permutations(), into, OnAxis(stream.axis) if subject.follows else Fixed(), "permutation")


def _of_patches(subject: Subject) -> Symmetry | None:
    """A model of patches takes them for tokens: they change places, and what it says of the image stays."""
    grid, patch = subject.roles.grid, subject.roles.patch
    if grid is None or patch is None or any(side % patch for side in subject.inputs[grid].shape[-2:]):
        return None
    return Symmetry(Permutations(), {grid: OnPatches(patch)}, Fixed(), "permutation")


def _shift(subject: Subject, group: Group | None) -> Symmetry | None:
    roles = subject.roles
    if roles.stream is not None and roles.stream.places is not None:
        return PlacesShift(group or Shifts(), {roles.stream.places: OnWhere()}, Fixed(), "shift")
    if roles.grid is not None:
        return _on_grid(subject, group or Shifts(), "shift")
    return None


def _rotation(subject: Subject, group: Group | None) -> Symmetry | None:
    roles = subject.roles
    if roles.points is not None:
        width = subject.inputs[roles.points].shape[-1]
        of = Rotations("plane" if width == 2 else "space")
        if width in (2, 3):
            return Symmetry(group or of, {roles.points: OnVectors()}, Fixed(), "rotation")
        return None
    if roles.grid is None or subject.inputs[roles.grid].shape[-1] != subject.inputs[roles.grid].shape[-2]:
        return None
    return _on_grid(subject, Rotations("quarter"), "rotation")


def _reflection(subject: Subject, group: Group | None) -> Symmetry | None:
    if subject.roles.points is not None:
        return PointMirror(Reflections(), {subject.roles.points: OnVectors()}, Fixed(), "reflection")
    if subject.roles.grid is not None:
        return _on_grid(subject, Reflections(), "reflection")
    return None


def _scaling(subject: Subject, group: Group | None) -> Symmetry | None:
    names = [
        subject.roles.points,
        subject.roles.grid,
        subject.roles.nodes,
        *(s.tokens for s in subject.roles.streams),
    ]
    for name in names:
        if name is not None and subject.inputs[name].is_floating_point():
            return Symmetry(Scalings(), {name: OnVectors()}, Fixed(), "scaling")
    return None


def _relabelling(subject: Subject, group: Group | None) -> Symmetry | None:
    roles = subject.roles
    if roles.nodes is None:
        return None
    into: dict[str, Action] = {roles.nodes: OnAxis(0)}
    if roles.edges is not None:
        into[roles.edges] = OnEdges()
    if roles.adjacency is not None:
        into[roles.adjacency] = OnBoth()
    n = subject.inputs[roles.nodes].shape[0]
    follows = subject.output.dim() > 0 and subject.output.shape[0] == n
    return Symmetry(Permutations(), into, OnAxis(0) if follows else Fixed(), "relabelling")


def _on_grid(subject: Subject, group: Group, name: str) -> Symmetry:
    assert subject.roles.grid is not None
    given, out = subject.inputs[subject.roles.grid], subject.output
    follows = out.dim() == 4 and out.shape[-1] > 1 and given.shape[-1] % out.shape[-1] == 0
    stride = given.shape[-1] // out.shape[-1] if follows else 1
    if isinstance(group, Shifts) and follows and group.step % stride:
        # an output that is coarser can only follow whole steps of its own
        group = Shifts(group.step * stride)
    return Symmetry(
        group, {subject.roles.grid: OnGrid()}, OnGrid(stride=stride) if follows else Fixed(), name
    )


@dataclass(frozen=True)
class PlacesShift(Symmetry):
    """A constant is added to all places, which are said aloud for that; the output stays. Places before 0 are
    not tried."""

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        stream = subject.stream
        assert stream.places is not None and isinstance(self.group, Shifts)
        step = self.group.step
        for n in subject.lengths:
            inputs = subject.placed(subject.sized(subject.inputs, n), stream)
            more: list[int] = []
            if n == subject.lengths[-1]:
                more = [11, 3, *(random.randrange(1, 33) for _ in range(max(0, count - 4)))]
            for by in [step, *(step * steps for steps in more)]:
                moved = {**inputs, stream.places: inputs[stream.places] + by}
                align = Moved(((inputs[stream.places], moved[stream.places]),))
                # a table of places ends somewhere
                yield Trial(f"places {by:+d}", inputs, moved, align, refusable=True)


@dataclass(frozen=True)
class PointMirror(Symmetry):
    """Mirrors of space: one for each coordinate."""

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        ((name, action),) = self.actions(subject.inputs).items()
        sizes = (subject.inputs[name].shape[-1],) * subject.inputs[name].shape[-1]
        for element in self.group.draw(sizes, random, count):
            moved = {**subject.inputs, name: action.act(element, subject.inputs[name])}
            align = Moved(((subject.inputs[name], moved[name]),))
            yield Trial(str(element), subject.inputs, moved, align, self.expected(element))


PERMUTATION = Named("permutation", Permutations, _permutation)
SHIFT = Named("shift", Shifts, _shift)
ROTATION = Named("rotation", Rotations, _rotation)
REFLECTION = Named("reflection", Reflections, _reflection)
SCALING = Named("scaling", Scalings, _scaling, only_when_asked=True)
RELABELLING = Named("relabelling", Permutations, _relabelling)
NAMED = (PERMUTATION, SHIFT, ROTATION, REFLECTION, SCALING, RELABELLING)
