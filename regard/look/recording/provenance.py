"""Which tensor was made of which, element by element: how a product, a softmax and a second product are known
to belong together.

Tensors are told apart by their storage, so every view of one is the same. An operation that works element by
element makes a new storage; a Node remembers how the old one was looked at then, and from any element one can
go back to where it came from. Nothing here keeps a tensor alive, but for the two factors of a product whose
result is still alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

DEEPEST = 64  # steps element by element that are followed back
FEW = 8  # ancestors that are remembered of each kind
Index = list[np.ndarray]  # one array for each axis
Ancestors = tuple[frozenset[int], frozenset[int]]  # of queries and of keys


class Geometry(NamedTuple):
    """How a tensor lies in its storage."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    start: int

    @classmethod
    def of(cls, x: Tensor) -> Geometry:
        return cls(tuple(x.shape), x.stride(), int(x.storage_offset()))

    def spread(self, sizes: Sequence[int]) -> Geometry | None:
        """The same broadcast to other sizes, or None if it cannot be."""
        extra = len(sizes) - len(self.sizes)
        if extra < 0:
            return None
        strides = [0] * extra
        for mine, wanted, stride in zip(self.sizes, sizes[extra:], self.strides, strict=True):
            if mine != wanted and mine != 1:
                return None
            strides.append(stride if mine == wanted else 0)
        return Geometry(tuple(sizes), tuple(strides), self.start)

    def offsets(self, index: Index) -> np.ndarray | None:
        """Where in the storage these elements are; None if one of them is outside."""
        total: Any = self.start
        for size, stride, i in zip(self.sizes, self.strides, index, strict=True):
            if i.size and i.max() >= size:
                return None
            total = total + i * stride
        return np.asarray(total)

    def elements(self, offsets: np.ndarray) -> Index | None:
        """Which elements are there: the inverse of `offsets`, for a tensor whose elements do not overlap."""
        rest = offsets - self.start
        found: Index = [np.zeros_like(offsets) for _ in self.sizes]
        for axis in sorted(range(len(self.sizes)), key=lambda a: -self.strides[a]):
            if self.sizes[axis] == 1:
                continue
            if self.strides[axis] <= 0:
                return None
            found[axis], rest = np.divmod(rest, self.strides[axis])
            if found[axis].size and (found[axis].min() < 0 or found[axis].max() >= self.sizes[axis]):
                return None
        if rest.any():
            return None
        return found


@dataclass(eq=False)
class Product:
    """A product of matrices, or a convolution: where queries and keys, and also scores, come from."""

    channel: int = -1  # the axis of the result along which a projection lays heads
    left: Tensor | None = None  # both factors, where they are no parameters
    right: Tensor | None = None
    left_node: Node | None = None
    right_node: Node | None = None
    ancestors: Ancestors = (frozenset(), frozenset())


@dataclass(eq=False)
class Softmax:
    """A softmax. The tensor is held until values are met, or the module that computes it has ended."""

    tensor: Tensor | None
    axis: int
    given: Node | None  # of the scores, and how they were looked at
    view: Geometry
    call: Any = None  # the call in which it ran
    owner: Any = None  # the call that ends its life
    used: bool = False
    scored: bool = False  # its scores come from a product of two computed tensors, as those of queries and keys
    consumed: bool = False  # something made of it was multiplied with values
    mixed: str | None = None  # between what its weights were mixed
    parts: list[Any] = field(default_factory=list)  # sums of some of its rows
    entry: Any = None  # what was recorded of it
    lost: list[str] = field(default_factory=list)  # what it went through without being followed any further


@dataclass(eq=False)
class EdgeSoftmax:
    """A softmax over the edges that end in a node.   e h"""

    tensor: Tensor
    index: Tensor


@dataclass(eq=False)
class WeightedValues:
    """Weights times values, element by element, not summed yet."""

    node: Node  # of the weights, and how they were laid over the result
    view: Geometry
    weights: Tensor
    values: Tensor


class Noise:
    """Random zeros and ones: what dropout multiplies with."""


Root = Product | Softmax | EdgeSoftmax | WeightedValues | Noise


@dataclass(eq=False, slots=True)
class Part:
    """A stretch of a storage that was made of another one, element by element."""

    node: Node | None
    view: Geometry  # how the other was looked at: element i here was made of element i there
    start: int = 0  # where the stretch begins, along the axis on which several were joined


@dataclass(eq=False, slots=True)
class Node:
    """How one storage was filled."""

    root: Root
    own: Geometry
    parts: tuple[Part, ...] = ()  # none: this is where it begins
    axis: int = 0
    changes: tuple[str, ...] = ()  # operations since the root that did more than copy
    dropped: bool = False
    depth: int = 0
    exponential: bool = False  # an exponential was taken on the way
    own_root: Any = None  # weights that were found to begin here, though no softmax gave them

    def locate(self, offsets: np.ndarray) -> Index | None:
        """The elements of the root's own tensor that the elements at these offsets were made of."""
        index = self.own.elements(offsets)
        if index is None or not self.parts:
            return index
        if len(self.parts) == 1:
            return self.back(self.parts[0], index)
        found: Index | None = None
        for part in self.parts:
            inside = (index[self.axis] >= part.start) & (index[self.axis] < part.start + part.view.sizes[self.axis])
            if not inside.any():
                continue
            origin = self.back(part, [i[inside] - (part.start if a == self.axis else 0) for a, i in enumerate(index)])
            if origin is None:
                return None
            if found is None:
                found = [np.zeros_like(offsets) for _ in origin]
            for whole, piece in zip(found, origin, strict=True):
                whole[inside] = piece
        return found

    def back(self, part: Part, index: Index) -> Index | None:
        if part.node is None or part.node.root is not self.root:
            return None
        offsets = part.view.offsets(index)
        if offsets is None:
            return None
        return part.node.locate(offsets)


@dataclass(eq=False, slots=True)
class Trace:
    """What is known of one storage."""

    alive: StorageWeakRef
    number: int
    base: int  # the number of what it was made of element by element, first operands only
    near: tuple[int, ...] = ()  # numbers of what was projected to give it
    far: tuple[int, ...] = ()  # and of what was projected to give that
    node: Node | None = None
    scored: bool = False  # made of a product of two computed tensors, and not projected since
    paired: bool = False  # made of all pairs of two tensors, element by element
    softmax: Softmax | None = None  # made of this, in whatever way


def key_of(x: Tensor) -> int | None:
    """What all views of one storage share; None for a tensor without one (sparse, nested)."""
    try:
        return x.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None


def _latest(several: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The last few of all numbers."""
    distinct = {numbers for numbers in several if numbers}
    if len(distinct) < 2:  # mostly
        return distinct.pop() if distinct else ()
    return tuple(sorted({number for numbers in distinct for number in numbers})[-FEW:])


class Provenance:
    """All storages that are alive, and how each came to be."""

    def __init__(self) -> None:
        self.traces: dict[int, Trace] = {}
        self.numbers = count()
        self.limit = 512

    def trace(self, x: Tensor) -> Trace | None:
        key = key_of(x)
        if key is None:
            return None
        found = self.traces.get(key)
        if found is None:
            if len(self.traces) > self.limit:
                self.traces = {k: t for k, t in self.traces.items() if not t.alive.expired()}
                self.limit = max(512, 2 * len(self.traces))
            number = next(self.numbers)
            found = self.traces[key] = Trace(StorageWeakRef(x.untyped_storage()), number, number)
        return found

    def node(self, x: Tensor) -> Node | None:
        key = key_of(x)
        found = self.traces.get(key) if key is not None else None
        if found is not None:
            return found.node
        return None

    def ancestors(self, x: Tensor) -> frozenset[int]:
        """What a tensor descends from, up to two projections back. Queries and keys that share it attend to
        themselves."""
        trace = self.trace(x)
        if trace is None:
            return frozenset()
        return frozenset((trace.number, trace.base, *trace.near, *trace.far))

    def is_view(self, inputs: list[Tensor], outputs: list[Tensor]) -> bool:
        """Is all that came out another view of the one tensor that went in?"""
        if len(inputs) != 1 or self.trace(inputs[0]) is None:
            return False
        key = key_of(inputs[0])
        return all(key_of(x) == key for x in outputs)

    def made(self, inputs: list[Tensor], outputs: list[Tensor], projects: bool, writes: bool) -> None:
        """Note an operation: what its outputs descend from."""
        known = [trace for trace in map(self.trace, inputs) if trace is not None]
        if projects:
            near, far = _latest([(t.number,) for t in known]), _latest([t.near for t in known])
        else:
            near, far = _latest([t.near for t in known]), _latest([t.far for t in known])
        given = {trace.number for trace in known}
        scored = not projects and any(trace.scored for trace in known)
        paired = not projects and any(trace.paired for trace in known)
        softmax = None if projects else next((t.softmax for t in known if t.softmax is not None), None)
        for x in outputs:
            trace = self.trace(x)
            if trace is None:
                continue
            if trace.number not in given:
                trace.near, trace.far, trace.base = (
                    near,
                    far,
                    known[0].base if known and not projects else trace.number,
                )
            elif writes:
                trace.near, trace.far = near, far
            trace.scored, trace.paired, trace.softmax = scored, paired, softmax

    def follow(
        self,
        made_of: Tensor,
        out: Tensor,
        *,
        change: str | None = None,
        dropped: bool = False,
        exponential: bool = False,
    ) -> None:
        """`out` was made of a tensor element by element; `change` names an operation that did more than
        copy."""
        node, trace = self.node(made_of), self.trace(out)
        if node is None or trace is None or node.depth >= DEEPEST:
            return
        changes = node.changes if change is None else (*node.changes, change)
        dropped, exponential = dropped or node.dropped, exponential or node.exponential
        if key_of(made_of) == key_of(out):  # in place
            trace.node = replace(node, changes=changes, dropped=dropped, exponential=exponential)
            return
        view = Geometry.of(made_of).spread(out.shape)
        if view is not None:
            parts, own = (Part(node, view),), Geometry.of(out)
            trace.node = Node(node.root, own, parts, 0, changes, dropped, node.depth + 1, exponential)

    def join(self, pieces: list[Tensor], axis: int, out: Tensor) -> None:
        """`out` is made of several tensors, one after the other along an axis."""
        nodes, trace = [self.node(x) for x in pieces], self.trace(out)
        first = next((node for node in nodes if node is not None), None)
        depth = max((node.depth for node in nodes if node is not None), default=0)
        if first is None or trace is None or depth >= DEEPEST or any(x.dim() != out.dim() for x in pieces):
            return
        parts, start = [], 0
        for x, node in zip(pieces, nodes, strict=True):
            parts.append(Part(node, Geometry.of(x), start))
            start += x.shape[axis]
        known = [node for node in nodes if node is not None]
        changes = tuple(change for node in known for change in node.changes)
        dropped, exponential = any(node.dropped for node in known), any(node.exponential for node in known)
        trace.node = Node(first.root, Geometry.of(out), tuple(parts), axis, changes, dropped, depth + 1, exponential)

    def begin(self, out: Tensor, root: Root, *, exponential: bool = False) -> None:
        """`out` is where something begins."""
        trace = self.trace(out)
        if trace is not None:
            trace.node = Node(root, Geometry.of(out), exponential=exponential)
            if isinstance(root, Softmax):
                trace.softmax = root

    def scored(self, x: Tensor) -> bool:
        """Was it made of a product of two computed tensors, as queries and keys, and not projected since?"""
        trace = self.trace(x)
        return trace is not None and trace.scored

    def paired(self, x: Tensor) -> bool:
        """Was it made of all pairs of two tensors, element by element?"""
        trace = self.trace(x)
        return trace is not None and trace.paired

    def softmax(self, x: Tensor) -> Softmax | None:
        """The softmax of which it was made, in whatever way."""
        trace = self.trace(x)
        return None if trace is None else trace.softmax

    def mark(self, out: Tensor, **flags: Any) -> None:
        """Something is known of a tensor that the way it was made does not tell."""
        trace = self.trace(out)
        for name, value in flags.items():
            if trace is not None:
                setattr(trace, name, value)
