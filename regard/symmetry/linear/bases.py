"""All linear maps that commute with a group: W (g x) = g (W x) for every g, x acted on in one way and W x in
another.

    basis(Permutations(), OnAxis(), OnAxis(), 1000)      2 maps, λI + γ11ᵀ
    basis(Shifts(), OnAxis(), OnAxis(), 8)               8 circulant matrices: convolution
    basis(Permutations(), OnBoth(), OnBoth(), 1000)      15 maps from matrices to matrices
    basis(Rotations(), OnGrid(), Fixed(), (3, 3))        3 kernels that look the same from four sides

Where elements only move numbers, W is constant on the orbits of pairs (output, input), and every orbit is one
map. Orbits are the connected components of a graph, or known in closed form. Where elements do more, as turns
of vectors do, W is in the null space of linear equations, one for each generator. Nothing here knows of
channels; `EquivariantLinear` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import RegardError
from regard.symmetry.actions import Action, Fixed, OnAxis, OnBoth, OnGrid, Together
from regard.symmetry.groups import Group, Permutations, Reflections, Rotations, Shifts
from regard.symmetry.linear.basis import Basis, Layout, Size, as_sizes

MOST_PAIRS = 2**24  # of an output and an input, in a search for orbits
MOST_UNKNOWNS = 1_600  # entries of W, in a search for a null space
MOST_AXES = 8  # Bell(8) = 4,140 maps


def basis(group: Group, into: Action, out: Action, size: Size) -> Basis:
    """All linear maps W with W (g x) = g (W x).

    size: how many things are permuted or shifted, the sides of a grid, or the width of vectors.
    """
    if not isinstance(group, Group):
        raise RegardError(f"a group is an object like Permutations() or Shifts(), got {group!r}")
    first, last = Layout.of(into, size), Layout.of(out, size)
    inputs, outputs = _axes_permuted(into), _axes_permuted(out)
    if isinstance(group, Permutations) and inputs is not None and outputs is not None:
        return Diagrams(as_sizes(size)[0], inputs, outputs)
    places = isinstance(into, OnAxis) or (isinstance(into, OnGrid) and into.stride == 1)
    rigid = all(isinstance(part, Shifts | Rotations | Reflections) for part in group.parts())
    if into == out and places and rigid and Shifts() in group.parts():
        return Convolution(group, first)
    elements = group.generators(sizes_for(first, last))
    moves = [(first.order(g), last.order(g)) for g in elements]
    known = [(a, b) for a, b in moves if a is not None and b is not None]
    if len(known) == len(moves):
        return Orbits([a for a, _ in known], [b for _, b in known], first.count, last.count)
    return NullSpace([first.matrix(g) for g in elements], [last.matrix(g) for g in elements])


def _axes_permuted(action: Action) -> int | None:
    """How many axes permutations move alike, None for an action that is something else."""
    if isinstance(action, Together):
        counts = [_axes_permuted(each) for each in action.actions]
        if None in counts:
            return None
        return sum(count for count in counts if count is not None)
    return {Fixed: 0, OnAxis: 1, OnBoth: 2}.get(type(action))


def sizes_for(first: Layout, last: Layout) -> tuple[int, ...]:
    """What a group's elements are named for, where it acts on both: the input says it, or else the output."""
    for side in (first, last):
        sizes = side.action.sizes(side.unflat(torch.zeros(1, side.count, 1), side.sizes))
        if sizes:
            return sizes
    return ()


class Orbits(Basis):
    """Map k is 1 on the orbit k of pairs (output, input), and 0 elsewhere.

    into, out   the order in which each generator puts the numbers of the input and of the output: (g x)_i =
                x_order[i]
    """

    how = "orbits of index pairs"
    labels: Tensor

    def __init__(self, into: Sequence[Tensor], out: Sequence[Tensor], n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out)
        if len(into) != len(out):
            raise RegardError(f"each generator acts on input and output, got {len(into)} and {len(out)} orders")
        for orders, n in ((into, n_in), (out, n_out)):
            for order in orders:
                if order.shape != (n,) or not torch.equal(order.sort().values, torch.arange(n)):
                    shown = ", ".join(map(str, order.flatten()[:6].tolist()))
                    raise RegardError(f"no group action: an order holds each of 0 … {n - 1} once, got {shown} …")
        if n_in * n_out > MOST_PAIRS:
            raise RegardError(
                f"{n_out} × {n_in} pairs are too many to search for orbits, {MOST_PAIRS} are the most; "
                "take a smaller size"
            )
        moves = [(to[:, None] * n_in + come[None, :]).flatten() for come, to in zip(into, out, strict=True)]
        self.register_buffer("labels", components(n_in * n_out, moves).view(n_out, n_in), persistent=False)
        self.count = int(self.labels.max()) + 1

    def __len__(self) -> int:
        return self.count

    def matrix(self, k: int) -> Tensor:
        return (self.labels == range(self.count)[k]).float()

    def spread(self) -> Tensor:
        rows = torch.arange(self.n_out, device=self.labels.device)[:, None]
        touched = (self.labels * self.n_out + rows).unique() // self.n_out
        return self.labels.flatten().bincount() / touched.bincount()

    def mix(self, x: Tensor, weight: Tensor, n: int | None = None) -> Tensor:
        whole = F.embedding(self.labels, weight.flatten(1)).unflatten(-1, weight.shape[1:])
        return torch.einsum("oiec,bic->boe", whole, x)


def components(count: int, moves: Sequence[Tensor]) -> Tensor:
    """Which of `count` nodes hang together, if node j is joined to move[j] by every move: a number from 0 for
    each node.

    Every node points to the least of its neighbours; the lesser of two that point to each other is a root;
    whatever leads to one root becomes one node; and again, until no edges are left. Each round at least
    halves the nodes that have edges.
    """
    names, nodes = torch.arange(count), count
    one, other = names.repeat(len(moves)), torch.cat([*moves, names[:0]])
    while True:
        apart = one != other
        one, other = one[apart], other[apart]
        if not len(one):
            return names
        each = torch.arange(nodes)
        least = (
            torch.full_like(each, nodes).scatter_reduce_(0, one, other, "amin").scatter_reduce_(0, other, one, "amin")
        )
        least = torch.where(least == nodes, each, least)
        roots = (least == each) | ((least[least] == each) & (each < least))
        least = torch.where(roots, each, least)
        while not torch.equal(further := least[least], least):
            least = further
        merged = (roots.cumsum(0) - 1)[least]
        names, one, other, nodes = merged[names], merged[one], merged[other], int(roots.sum())


class Convolution(Basis):
    """(W x)_o = Σ_i kernel_(o−i) x_i around the end, by the fast Fourier transform. One map for each place of
    the kernel, or, where it may also be turned or mirrored, for each set of places that become each other.
    """

    how = "convolution"
    labels: Tensor

    def __init__(self, group: Group, layout: Layout) -> None:
        super().__init__(layout.count, layout.count)
        self.sizes = layout.sizes
        places, moves = self.places(), []
        for element in (g for part in group.parts() if part != Shifts() for g in part.generators(self.sizes)):
            order = layout.order(element)
            assert order is not None  # turns and mirrors of a grid move its numbers, and do no more
            moves.append(self.numbers(places[order] - places[order[0]]))
        self.register_buffer("labels", components(self.n_in, moves), persistent=False)
        self.count = int(self.labels.max()) + 1

    def places(self) -> Tensor:
        """Row and column of every place.   n s"""
        return torch.stack(torch.meshgrid(*map(torch.arange, self.sizes), indexing="ij"), -1).flatten(0, -2)

    def numbers(self, places: Tensor) -> Tensor:
        """And back, around the end.   ... s -> ..."""
        around = (places % torch.tensor(self.sizes)).unbind(-1)
        return torch.arange(self.n_in).view(self.sizes)[around]

    def __len__(self) -> int:
        return self.count

    def matrix(self, k: int) -> Tensor:
        places = self.places()
        apart = self.numbers(places[:, None] - places)
        return (self.labels[apart.to(self.labels.device)] == range(self.count)[k]).float()

    def spread(self) -> Tensor:
        return self.labels.bincount().float()

    def mix(self, x: Tensor, weight: Tensor, n: int | None = None) -> Tensor:
        if not len(x):
            return x.new_zeros(0, self.n_out, weight.shape[1])  # MKL knows no transform of nothing
        kernel = F.embedding(self.labels, weight.flatten(1)).unflatten(-1, weight.shape[1:])  # n e c
        wide = torch.promote_types(x.dtype, torch.float32)  # there is no transform of halves on every device
        axes = tuple(range(1, len(self.sizes) + 1))
        there = torch.fft.rfftn(x.to(wide).unflatten(1, self.sizes), dim=axes)
        kernels = torch.fft.rfftn(kernel.to(wide).unflatten(0, self.sizes), dim=tuple(axis - 1 for axis in axes))
        mixed = torch.einsum("b...c,...ec->b...e", there, kernels)
        return torch.fft.irfftn(mixed, s=self.sizes, dim=axes).flatten(1, len(self.sizes)).to(x.dtype)


class NullSpace(Basis):
    """All W with B W = W A for every pair of matrices: A is what a generator does to the input, B what it
    does to the output.

    The maps are orthogonal, each with squares that add up to n_out. They are the same on every machine, so
    that weights mean the same, too: the projection onto the space is unique, and they are its columns, one
    after another.
    """

    how = "matrices"

    def __init__(self, into: Sequence[Tensor], out: Sequence[Tensor]) -> None:
        if not into or len(into) != len(out):
            raise RegardError(
                f"each generator has a matrix for input and one for output, got {len(into)} and {len(out)}"
            )
        n_in, n_out = (_invertible(matrices) for matrices in (into, out))
        super().__init__(n_in, n_out)
        unknowns = n_in * n_out
        if unknowns > MOST_UNKNOWNS:
            raise RegardError(
                f"a map of {n_out} × {n_in} entries is too large to solve for, {MOST_UNKNOWNS} are the most"
            )
        eyes = torch.eye(n_in, dtype=torch.float64), torch.eye(n_out, dtype=torch.float64)
        pairs = [(a.double().T.contiguous(), b.double().contiguous()) for a, b in zip(into, out, strict=True)]
        equations = torch.cat([torch.kron(b, eyes[0]) - torch.kron(eyes[1], a) for a, b in pairs])
        values, vectors = torch.linalg.eigh(equations.T @ equations)
        null = vectors[:, values < 1e-10 * values.max().clamp(min=1.0)]
        left, maps = null @ null.T, []
        for _ in range(null.shape[1]):
            column = int((left.diagonal() > 1e-6).nonzero()[0])
            maps.append(left[:, column] / left[column, column].sqrt())
            left = left - torch.outer(maps[-1], maps[-1])
        found = torch.stack(maps) if maps else torch.zeros(0, unknowns, dtype=torch.float64)
        # no buffer: a layer that was in half precision gets them back
        self.maps = n_out**0.5 * found.view(-1, n_out, n_in)

    def __len__(self) -> int:
        return len(self.maps)

    def matrix(self, k: int) -> Tensor:
        return self.maps[k]

    def spread(self) -> Tensor:
        return torch.ones(len(self))

    def mix(self, x: Tensor, weight: Tensor, n: int | None = None) -> Tensor:
        return torch.einsum("koi,kec,bic->boe", self.maps.to(x.dtype).to(x.device), weight, x)


def _invertible(matrices: Sequence[Tensor]) -> int:
    """The size of square matrices that can be undone."""
    size = len(matrices[0])
    for matrix in matrices:
        if matrix.shape != (size, size):
            raise RegardError(f"no group action: matrices must all be {size} × {size}, got {tuple(matrix.shape)}")
        if torch.linalg.matrix_rank(matrix.double()) < size:
            raise RegardError(
                f"no group action: a matrix of {size} × {size} cannot be undone, its rank is less than {size}"
            )
    return size


# ── tensors whose axes are permuted alike, in closed form
#
# Write the axes of the output and of the input side by side. Axes in one part of a partition must have equal
# indices; axes in different parts are free. For one axis out and one in there are two partitions, {out in} and
# {out}{in}: the identity and the sum, λI + γ11ᵀ. For two and two there are 15, in general Bell(axes). Every map
# is made of sums, diagonals and repetitions, so none is ever written down as a matrix, and a thousand nodes are
# no trouble.

Partition = tuple[int, ...]  # the part of each axis, numbered as they first come: (0, 1, 0) is {0 2}{1}


class Diagrams(Basis):
    """The maps from n × … × n (`inputs` axes) to n × … × n (`outputs` axes) that commute with all
    permutations of n things.

    A partition with more parts than n gives no new map, and is left out. Its maps suit any other number of
    things as well.
    """

    how = "sums and diagonals"

    def __init__(self, n: int, inputs: int, outputs: int) -> None:
        if inputs + outputs > MOST_AXES:
            raise RegardError(
                f"from {inputs} axes to {outputs} there are too many maps; {MOST_AXES} axes in all are the most"
            )
        super().__init__(n**inputs, n**outputs)
        self.n, self.inputs, self.outputs = n, inputs, outputs
        self.partitions = [p for p in partitions(inputs + outputs) if len(set(p)) <= n]

    def __len__(self) -> int:
        return len(self.partitions)

    def matrix(self, k: int) -> Tensor:
        partition, axes = self.partitions[k], self.outputs + self.inputs
        found = torch.ones((self.n,) * axes)
        for axis, part in enumerate(partition):
            first = partition.index(part)
            if first < axis:
                eye = torch.eye(self.n)
                found = found * eye.view([self.n if each in (first, axis) else 1 for each in range(axes)])
        return found.view(self.n_out, self.n_in)

    def spread(self) -> Tensor:
        """Each part that the output does not have is summed over."""
        summed = [len(set(p[self.outputs :]) - set(p[: self.outputs])) for p in self.partitions]
        return torch.tensor([float(self.n**count) for count in summed])

    def mix(self, x: Tensor, weight: Tensor, n: int | None = None) -> Tensor:
        n = self.n if n is None else n
        x = x.view(len(x), *[n] * self.inputs, x.shape[-1])
        reduced: dict[str, Tensor] = {}
        sums: dict[tuple[Partition, tuple[int, ...]], Tensor] = {}  # by where in the output they are put
        for partition, each in zip(self.partitions, weight, strict=True):
            out, into = partition[: self.outputs], partition[self.outputs :]
            kept = tuple(part for part in range(len(set(out))) if part in into)
            equation = _equation(into, kept)
            if equation not in reduced:
                reduced[equation] = torch.einsum(equation, x)
            z = reduced[equation] @ each.T
            if (out, kept) in sums:
                sums[out, kept] = sums[out, kept] + z
            else:
                sums[out, kept] = z
        y = x.new_zeros((len(x), *[n] * self.outputs, weight.shape[1]))
        for (out, kept), z in sums.items():
            for part in range(len(set(out))):
                if part not in kept:
                    z = z.unsqueeze(part + 1)  # the same for all its indices
            _diagonal(y, out).add_(z)
        return y.view(len(x), n**self.outputs, weight.shape[1])


def partitions(count: int) -> Iterator[Partition]:
    """Every way to put so many axes into parts."""

    def go_on(begun: Partition) -> Iterator[Partition]:
        if len(begun) == count:
            yield begun
            return
        for part in range(max(begun, default=-1) + 2):
            yield from go_on((*begun, part))

    return go_on(())


def _equation(into: Partition, kept: tuple[int, ...]) -> str:
    """einsum's words for: diagonals of the axes in one part, then sums over the parts that are not kept. B
    batch, C channels.

    Letters are given as parts first come, so that equal work has equal words.
    """
    letters = {part: ascii_lowercase[i] for i, part in enumerate(dict.fromkeys(into))}
    return f"B{''.join(letters[p] for p in into)}C->B{''.join(letters[p] for p in kept)}C"


def _diagonal(y: Tensor, out: Partition) -> Tensor:
    """The entries of y whose indices are equal within each part, as a view: one axis for each part, in
    order."""
    axes = list(out)
    for part in range(len(set(out))):
        while axes.count(part) > 1:
            first = axes.index(part)
            second = axes.index(part, first + 1)
            y = y.diagonal(dim1=first + 1, dim2=second + 1).movedim(-1, first + 1)
            del axes[second]
    return y
