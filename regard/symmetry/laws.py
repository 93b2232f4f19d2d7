"""The symmetries: groups that act on the inputs of a model, and how its output must follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from regard.symmetry.actions import Action, Fixed, OnAxis, OnBoth, OnEdges, OnGrid, OnPatches, OnVectors, OnWhere
from regard.symmetry.align import Alignment, Indexed, Match, Moved
from regard.symmetry.elements import Composed, Element, Mirror, Permutation, Shift
from regard.symmetry.groups import Group, Permutations, Reflections, Rotations, Scalings, Shifts, Translations
from regard.symmetry.image_alignment import OnMaps
from regard.symmetry.law import Law, Others, Outputs, Pair, Trial, as_they_are
from regard.symmetry.model_under_test import CannotTell, Subject
from regard.symmetry.output import Axes
from regard.symmetry.roles import Inputs


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
                self, "name", next((law.name for law in NAMED if isinstance(self.group, law.group)), str(self.group))
            )

    def declared(self, subject: Subject, symmetry: Group | None) -> str | None:
        return "invariant" if isinstance(self.out, Fixed) else "equivariant"

    @property
    def by(self) -> str | None:
        """What is tried of it, where that is less than its name says."""
        if isinstance(self.group, Shifts) and self.group.step > 1:
            actions = [self.into] if isinstance(self.into, Action) else self.into.values()
            return f"multiples of {self.group.step}" + " pixels" * any(isinstance(action, OnGrid) for action in actions)
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
            if k == len(bases) - 1:
                share = count - done
            else:
                share = max(1, count // 3)  # at full length, which may be long
            for element in self.group.draw(sizes, random, share):
                done += 1
                element = self.settled(element, inputs)
                moved = {name: action.act(element, inputs[name]) for name, action in actions.items()}
                yield Trial(
                    str(element),
                    inputs,
                    {**inputs, **moved},
                    self.alignment(element, inputs, actions),
                    self.expected(element),
                    self.others(element, subject),
                )
        if not done:
            raise CannotTell(f"{self.group} have no element but the identity on sizes {sizes}")

    def settled(self, element: Element, inputs: Inputs) -> Element:
        """The element that is tried in place of one that was drawn."""
        return element

    def expected(self, element: Element) -> Outputs:
        def outputs(first: Tensor, second: Tensor) -> Pair:
            return self.out.act(element, first), second

        return outputs

    def others(self, element: Element, subject: Subject) -> Others:
        """Outputs of the same shape as the one that counts must follow as it does; of others nothing is
        said."""

        def pair(axes: Axes, first: Tensor, second: Tensor) -> Pair | None:
            if first.dim() == subject.output.dim() and axes == subject.main_axes:
                return self.out.act(element, first), second
            return None

        return pair

    @staticmethod
    def alignment(element: Element, inputs: Inputs, actions: Mapping[str, Action]) -> Alignment:
        for name, action in actions.items():
            if isinstance(action, OnPatches) or (isinstance(action, OnGrid) and action.axes in ((-2, -1), (2, 3))):
                rows, *_, height, width = inputs[name].shape
                return OnMaps(rows, (height, width), element, action.side if isinstance(action, OnPatches) else 1)
        if isinstance(element, Permutation):
            n = len(element.order)
            edges = any(isinstance(action, OnEdges) for action in actions.values())
            renamed = torch.tensor(element.inverse().order) if edges else None
            return Indexed(tokens=Match(n, torch.tensor(element.order), n, torch.arange(n)), renamed=renamed)
        if isinstance(element, Shift) and all(isinstance(action, OnAxis) for action in actions.values()):
            (name, action), *_ = actions.items()
            n = inputs[name].shape[action.axis]  # type: ignore[attr-defined]
            return Indexed(tokens=Match(n, (torch.arange(n) - element.by[0]) % n, n, torch.arange(n)))
        return Moved(tuple((inputs[name], action.act(element, inputs[name])) for name, action in actions.items()))


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
            more = "; for a graph, say it with Roles(nodes=..., edges=...) or Roles(nodes=..., adjacency=...)"
            hint = more if self.name == "relabelling" else ", as far as names and shapes say; see roles="
            raise CannotTell(f"none of the inputs is one that {self.name} acts on{hint}")
        return built

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        yield from self.of(subject, None).trials(subject, random, count)


@dataclass(frozen=True)
class TokenPermutation(Symmetry):
    """The tokens change places, with all that runs along them."""

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        subject.require_clear()
        yield from super().trials(subject, random, count)

    def others(self, element: Element, subject: Subject) -> Others:
        alike = super().others(element, subject)

        def pair(axes: Axes, first: Tensor, second: Tensor) -> Pair | None:
            if axes.tokens is None:
                return alike(axes, first, second)
            return OnAxis(axes.tokens).act(element, first), second

        return pair


def _permutation(subject: Subject, group: Group | None) -> Symmetry | None:
    stream = subject.roles.stream
    if stream is None:
        return _of_patches(subject)
    belongs = [name for name in (stream.tokens, stream.mask, *stream.along) if name and name in subject.inputs]
    into: dict[str, Action] = {name: OnAxis(stream.axis if name == stream.tokens else 1) for name in belongs}
    if subject.roles.adjacency is not None:
        into[subject.roles.adjacency] = OnBoth()
    out: Action = OnAxis(stream.axis) if subject.follows else Fixed()
    return TokenPermutation(Permutations(), into, out, "permutation")


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
    names = [subject.roles.points, subject.roles.grid, subject.roles.nodes, *(s.tokens for s in subject.roles.streams)]
    for name in names:
        if name is not None and subject.inputs[name].is_floating_point():
            return Symmetry(Scalings(), {name: OnVectors()}, _follow(subject, "scaling"), "scaling")
    return None


def _follow(subject: Subject, law: str) -> Action:
    """The output stays, unless the model promises that it moves along; then its last axis is that of the
    values."""
    return OnVectors() if subject.roles.promises.get(law) == "equivariant" else Fixed()


def _translation(subject: Subject, group: Group | None) -> Symmetry | None:
    points, promised = subject.roles.points, subject.roles.promises.get("translation")
    if points is None and promised is not None and subject.roles.stream is not None:
        points = subject.roles.stream.tokens  # values of steps, each with a level that may change
    if points is None:
        return None
    return Symmetry(Translations(), {points: OnVectors()}, _follow(subject, "translation"), "translation")


@dataclass(frozen=True)
class Relabelling(Symmetry):
    """The nodes of a graph get other numbers. Several graphs in one keep their order: each has its own
    numbers."""

    graphs: str | None = None  # the input that says in which graph a node is

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        subject.require_clear()
        yield from super().trials(subject, random, count)

    def settled(self, element: Element, inputs: Inputs) -> Element:
        if self.graphs is None or not isinstance(element, Permutation):
            return element
        order = torch.tensor(element.order)
        graph = inputs[self.graphs].cpu()[order]
        return Permutation(tuple(order[graph.argsort(stable=True)].tolist()))

    def others(self, element: Element, subject: Subject) -> Others:
        assert subject.roles.nodes is not None
        nodes = subject.inputs[subject.roles.nodes].shape[0]

        def pair(axes: Axes, first: Tensor, second: Tensor) -> Pair | None:
            if first.dim() and first.shape[0] == nodes:
                return OnAxis(0).act(element, first), second
            return as_they_are(first, second)

        return pair


def _relabelling(subject: Subject, group: Group | None) -> Symmetry | None:
    roles = subject.roles
    if roles.nodes is None:
        return None
    axis = subject.inputs[roles.nodes].dim() - 2 if roles.adjacency is not None else 0  # n d, or b n d
    into: dict[str, Action] = {name: OnAxis(axis) for name in (roles.nodes, *roles.of_nodes)}
    if roles.edges is not None:
        into[roles.edges] = OnEdges()
    if roles.adjacency is not None:
        into[roles.adjacency] = OnBoth()
    n = subject.inputs[roles.nodes].shape[axis]
    follows = subject.output.dim() > axis and subject.output.shape[axis] == n
    graphs = "batch" if "batch" in roles.of_nodes else None
    out: Action = OnAxis(axis) if follows else Fixed()
    return Relabelling(Permutations(), into, out, "relabelling", graphs)


def _on_grid(subject: Subject, group: Group, name: str) -> Symmetry:
    assert subject.roles.grid is not None
    given, out = subject.inputs[subject.roles.grid], subject.output
    follows = out.dim() == 4 and out.shape[-1] > 1 and given.shape[-1] % out.shape[-1] == 0
    stride = given.shape[-1] // out.shape[-1] if follows else 1
    if isinstance(group, Shifts) and follows and group.step % stride:
        # an output that is coarser can only follow whole steps of its own
        group = Shifts(group.step * stride)
    return Symmetry(group, {subject.roles.grid: OnGrid()}, OnGrid(stride=stride) if follows else Fixed(), name)


@dataclass(frozen=True)
class PlacesShift(Symmetry):
    """A constant is added to all places, which are said aloud for that; the output stays. Places before 0 are
    not tried."""

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        stream = subject.stream
        assert stream.places is not None and isinstance(self.group, Shifts)
        step = self.group.step

        def others(axes: Axes, first: Tensor, second: Tensor) -> Pair:
            return first, second

        for n in subject.lengths:
            inputs = subject.placed(subject.sized(subject.inputs, n), stream)
            more: list[int] = []
            if n == subject.lengths[-1]:
                more = [11, 3, *(random.randrange(1, 33) for _ in range(max(0, count - 4)))]
            for by in [step, *(step * steps for steps in more)]:
                moved = {**inputs, stream.places: inputs[stream.places] + by}
                align = Moved(((inputs[stream.places], moved[stream.places]),))
                # a table of places ends somewhere
                yield Trial(f"places {by:+d}", inputs, moved, align, others=others, refusable=True)


@dataclass(frozen=True)
class PointMirror(Symmetry):
    """Mirrors of space: one for each coordinate, then others that stand askew."""

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        ((name, action),) = self.actions(subject.inputs).items()
        width = subject.inputs[name].shape[-1]
        sizes = (width,) * width
        elements = self.group.draw(sizes, random, count)
        turns: list[Element] = []
        if width in (2, 3):
            turns = Rotations("plane" if width == 2 else "space").draw((0,) * width, random, max(1, count // 2))
        elements = [*elements[: max(width, count - len(turns))], *(_askew(turn) for turn in turns)]
        for element in elements:
            moved = {**subject.inputs, name: action.act(element, subject.inputs[name])}
            align = Moved(((subject.inputs[name], moved[name]),))
            what = "mirror askew" if isinstance(element, Composed) else str(element)
            yield Trial(what, subject.inputs, moved, align, self.expected(element))


def _askew(turn: Element) -> Element:
    return Composed((turn, Mirror(0), turn.inverse()))


PERMUTATION = Named("permutation", Permutations, _permutation)
SHIFT = Named("shift", Shifts, _shift)
ROTATION = Named("rotation", Rotations, _rotation)
REFLECTION = Named("reflection", Reflections, _reflection)
SCALING = Named("scaling", Scalings, _scaling, only_when_asked=True)
RELABELLING = Named("relabelling", Permutations, _relabelling)
TRANSLATION = Named("translation", Translations, _translation, only_when_asked=True)
NAMED = (PERMUTATION, SHIFT, ROTATION, REFLECTION, SCALING, TRANSLATION, RELABELLING)
