"""All linear maps between tensors whose axes are permuted alike, in closed form: one for each partition of
the axes.

Write the axes of the output and of the input side by side. Axes in one part of a partition must have equal
indices; axes in different parts are free. For one axis out and one in there are two partitions, {out in} and
{out}{in}: the identity and the sum, λI + γ11ᵀ. For two and two there are 15, in general Bell(axes). Every map
is made of sums, diagonals and repetitions, so none is ever written down as a matrix, and a thousand nodes are
no trouble.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_lowercase

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.symmetry.basis import Basis

Partition = tuple[int, ...]  # the part of each axis, numbered as they first come: (0, 1, 0) is {0 2}{1}
MOST_AXES = 8  # Bell(8) = 4,140 maps


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
                f"from {inputs} axes to {outputs} there are too many maps; {MOST_AXES} axes in all are the "
                "most"
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
