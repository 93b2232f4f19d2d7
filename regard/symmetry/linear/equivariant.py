"""A linear layer that commutes with a group by construction, made of all linear maps that do."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.shapes import expect
from regard.symmetry.actions import Action, Fixed
from regard.symmetry.groups import Group
from regard.symmetry.laws import Symmetry
from regard.symmetry.linear.bases import Diagrams, basis
from regard.symmetry.linear.basis import MOST_ENTRIES, Layout, Size, as_sizes


class EquivariantLinear(nn.Module):
    """y = Σ_k map_k x weight_kᵀ + Σ_j vector_j bias_j, layer(g x) = g layer(x) for every g of the group.

    >>> EquivariantLinear(Permutations(), OnAxis(1), OnAxis(1), 8, 16, size=10)
    # Deep Sets: b n 8 -> b n 16
    >>> EquivariantLinear(Permutations(), OnAxis(1), Fixed(), 8, 16, size=10)
    # a sum pool: b n 8 -> b 16
    >>> EquivariantLinear(Shifts(), OnGrid(), OnGrid(), 3, 8, size=(16, 16))
    # a convolution: b 3 h w -> b 8 h w
    >>> EquivariantLinear(Permutations(), OnBoth(), OnAxis(1), 1, 8, size=10)
    # a graph: b 1 n n -> b n 8

    map_k are all linear maps that commute with the group, vector_j all vectors that it leaves alone; see
    `bases`. The first axis that is not acted on is the batch, the second the channels. `size` is how many
    things are permuted or shifted, the sides of a grid, or the width of vectors. A layer for permutations
    takes any other number of things, too.
    """

    def __init__(
        self,
        group: Group,
        into: Action,
        out: Action,
        channels_in: int,
        channels_out: int,
        *,
        size: Size,
        bias: bool = True,
    ) -> None:
        super().__init__()
        for name, value in (("channels_in", channels_in), ("channels_out", channels_out)):
            if type(value) is not int or value < 1:
                raise RegardError(f"{name} must be a whole number above zero, got {value!r}")
        self.maps = basis(group, into, out, size)
        self.group, self.into, self.out, self.size = group, into, out, as_sizes(size)
        self.channels_in, self.channels_out = channels_in, channels_out
        self.first, self.last = Layout.of(into, size), Layout.of(out, size)
        self.any_number = isinstance(self.maps, Diagrams) and self.maps.inputs > 0
        self.pattern = self.first.pattern(alike=self.any_number)
        letters = [letter for letter in self.pattern.split() if letter not in "bc"]
        fixed = {} if self.any_number else dict(zip(letters, self.first.sizes, strict=True))
        self.expected = {"c": channels_in, **fixed}
        if not len(self.maps):
            raise RegardError(f"no linear map but 0 from {into} to {out} commutes with {group}; choose another output")
        self.vectors = basis(group, Fixed(), out, size) if bias else None
        self.weight = nn.Parameter(torch.empty(len(self.maps), channels_out, channels_in))
        self.bias = nn.Parameter(torch.empty(len(self.vectors), channels_out)) if self.vectors is not None else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every map has the same share of the output, which starts about as large as the input."""
        scale = (len(self.maps) * self.channels_in * self.maps.spread()).rsqrt()
        with torch.no_grad():
            self.weight.normal_().mul_(scale.to(self.weight)[:, None, None])
            if self.bias is not None:
                self.bias.zero_()

    @property
    def symmetry(self) -> tuple[Symmetry, ...]:
        """What it keeps, for `check`: one law for each part of the group."""
        return tuple(Symmetry(part, self.into, self.out) for part in self.group.parts())

    def forward(self, x: Tensor) -> Tensor:
        expect(x, self.pattern, name="x", **self.expected)
        n = x.shape[self.first.axes[0]] if self.any_number else self.size[0]
        sizes = (n,) * len(self.last.axes) if self.any_number else self.last.sizes
        y = self.maps.mix(self.first.flat(x), self.weight, n)
        if self.vectors is not None and self.bias is not None:
            y = y + self.vectors.mix(y.new_ones(1, 1, 1), self.bias[..., None], n)
        return self.last.unflat(y, sizes)

    @torch.no_grad()
    def to_linear(self) -> nn.Linear:
        """The same map as a plain layer, for inputs of `size`: layer(x).flatten(1) = linear(x.flatten(1))."""
        if self.first.batch != 0 or self.last.batch != 0:
            raise RegardError(f"a plain Linear has its batch first; this layer acts {self.into} and {self.out}")
        shape_in = self.first.unflat(
            self.weight.new_zeros(1, self.first.count, self.channels_in), self.first.sizes
        ).shape[1:]
        inputs, outputs = shape_in.numel(), self.last.count * self.channels_out
        if inputs * outputs > MOST_ENTRIES:
            raise RegardError(
                f"a plain Linear from {inputs} to {outputs} numbers has too large a matrix; take a smaller size"
            )
        here = {"device": self.weight.device, "dtype": self.weight.dtype}
        linear = nn.utils.skip_init(nn.Linear, inputs, outputs, bias=self.bias is not None, **here)
        nothing = self(self.weight.new_zeros(1, *shape_in)).flatten(1)
        each = torch.eye(inputs).to(self.weight).view(inputs, *shape_in)
        linear.weight.copy_((self(each).flatten(1) - nothing).T)
        if linear.bias is not None:
            linear.bias.copy_(nothing[0])
        return linear

    def extra_repr(self) -> str:
        return f"{self.channels_in} -> {self.channels_out} channels, {self.group}: {self.into} -> {self.out}"
