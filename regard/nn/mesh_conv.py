"""Convolution on the triangles of a mesh, whatever frame each vertex has: gauge equivariant.

A field on a mesh has features of rotation order 0, 1, … M at each vertex: scalars, and complex numbers that belong to
the vertex' own frame. They are kept as `n 1+2M c`: the scalars first, then real and imaginary part of each order.
Turn the frame of a vertex by g, and a feature of order m is multiplied by e^{−img}: the same arrow, seen from another
axis. Nothing says which frame a vertex should have, so no layer here may depend on it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.mesh_geometry import MeshGeometry
from regard.shapes import expect

SCALARS = 2  # numbers of a half-edge that messages know: its length, and how the surface bends along it


def turn_field(x: Tensor, phase: Tensor) -> Tensor:
    """Features of order m times phase^m.   h 1+2M c, phase h 2 -> h 1+2M c"""
    return torch.stack(_turn_parts(x, phase), 1)


def _turn_parts(x: Tensor, phase: Tensor) -> list[Tensor]:
    """The same, part by part.   1+2M times h c"""
    parts, power = [x[:, 0]], phase
    for m in range(1, (x.shape[1] + 1) // 2):
        if m > 1:
            power = multiply(power, phase)
        cosine, sine = power[:, :1], power[:, 1:]
        real, imaginary = x[:, 2 * m - 1], x[:, 2 * m]
        parts += [cosine * real - sine * imaginary, sine * real + cosine * imaginary]
    return parts


def multiply(x: Tensor, y: Tensor) -> Tensor:
    """The product of complex numbers.   … 2, … 2 -> … 2"""
    return torch.stack(
        (x[..., 0] * y[..., 0] - x[..., 1] * y[..., 1], x[..., 0] * y[..., 1] + x[..., 1] * y[..., 0]), -1
    )


def conjugate(x: Tensor) -> Tensor:
    """… 2 -> … 2"""
    return torch.stack((x[..., 0], -x[..., 1]), -1)


class MeshConv(nn.Module):
    """y_j = Σ_i w_ij e^{imθ_ij} Θ′ relu(Θ [e^{im(π−φ_ij)} x_i, e^{−imθ_ij} x_j, a_ij]).   n 1+2M c -> n 1+2M c′

    θ_ij is the angle of the edge from j to its neighbour i in the frame of j, φ_ij that of the same edge in the frame
    of i. The two factors bring the features of both ends into the frame of the edge itself, where parallel transport
    from i to j is nothing at all, and where no choice is left: there anything may be done, relu too. The last factor
    brings the message into the frame of j. a_ij: length of the edge, and how the surface bends along it. w_ij is the
    share of the full angle around j next to the edge.

    Turns of all frames by any angles turn the output along; relabelling vertices moves it along.
    """

    def __init__(self, dim: int, out: int, *, orders: int = 1, hidden: int | None = None) -> None:
        super().__init__()
        if orders < 0:
            raise RegardError(f"orders must be 0 (scalars only) or more, got {orders}")
        self.dim, self.out, self.orders = dim, out, orders
        width = 1 + 2 * orders
        hidden = hidden or 2 * out
        self.ask = nn.Linear(2 * width * dim + SCALARS, hidden)
        self.give = nn.Linear(hidden, width * out)

    def forward(self, x: Tensor, geometry: MeshGeometry) -> Tensor:
        n, width, _ = expect(x, "n k d", name="x", n=geometry.frames.shape[0], k=1 + 2 * self.orders, d=self.dim)
        here, there = self.edge_frames(geometry)
        own = _turn_parts(x[geometry.centre], conjugate(here))
        other = _turn_parts(x[geometry.tip], there)
        edge = torch.stack((geometry.length.clamp_min(1e-12).log() + 3, geometry.bend.asinh()), -1)  # h 2
        message = self.give(F.relu(self.ask(torch.cat((*other, *own, edge), -1))))  # h (1+2M)c′
        brought = turn_field(message.unflatten(1, (width, self.out)), here) * geometry.weight[:, None, None]
        return brought.new_zeros(n, width, self.out).index_add(0, geometry.centre, brought)

    def edge_frames(self, geometry: MeshGeometry) -> tuple[Tensor, Tensor]:
        """e^{iθ}, and what brings the features of the neighbour into the frame of the edge, e^{i(π−φ)}.   h 2, h 2"""
        here = geometry.phase()
        return here, -conjugate(here[geometry.twin])


class FieldLinear(nn.Module):
    """Each order by itself: y_m = Θ_m x_m, with complex Θ_m for m ≥ 1 and an offset for scalars.   n 1+2M c -> n 1+2M c′

    A complex weight turns an arrow by an angle, whatever the frame: such a layer tells left from right.
    """

    def __init__(self, dim: int, out: int, *, orders: int = 1) -> None:
        super().__init__()
        self.scalars = nn.Linear(dim, out)
        self.real = nn.ModuleList(nn.Linear(dim, out, bias=False) for _ in range(orders))
        self.imaginary = nn.ModuleList(nn.Linear(dim, out, bias=False) for _ in range(orders))

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.scalars(x[:, 0])]
        for m, (real, imaginary) in enumerate(zip(self.real, self.imaginary, strict=True), 1):
            a, b = x[:, 2 * m - 1], x[:, 2 * m]
            parts += [real(a) - imaginary(b), real(b) + imaginary(a)]
        return torch.stack(parts, 1)


class NormGate(nn.Module):
    """gelu of scalars; arrows keep their direction, and σ(a|v| + b) of their length.   n 1+2M c -> n 1+2M c

    A function of the components would depend on the frame, |v| does not.
    """

    def __init__(self, dim: int, *, orders: int = 1) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(orders, dim))
        self.offset = nn.Parameter(torch.zeros(orders, dim))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 1:
            return F.gelu(x)
        length = arrow_lengths(x)  # n M c
        gate = torch.sigmoid(self.slope * length + self.offset).repeat_interleave(2, 1)
        return torch.cat((F.gelu(x[:, :1]), x[:, 1:] * gate), 1)


class FieldNorm(nn.Module):
    """Layer norm of scalars; arrows are divided by the root mean square of their lengths.   n 1+2M c -> n 1+2M c"""

    def __init__(self, dim: int, *, orders: int = 1) -> None:
        super().__init__()
        self.scalars = nn.LayerNorm(dim)
        self.scale = nn.Parameter(torch.ones(orders, dim))

    def forward(self, x: Tensor) -> Tensor:
        scalars = self.scalars(x[:, :1])
        if x.shape[1] == 1:
            return scalars
        squares = x[:, 1:].square().unflatten(1, (-1, 2)).sum(2)  # n M c
        size = (squares.mean(-1, keepdim=True) + 1e-3).sqrt()
        scale = (self.scale / size).repeat_interleave(2, 1)
        return torch.cat((scalars, x[:, 1:] * scale), 1)


def arrow_lengths(x: Tensor) -> Tensor:
    """|v| of each feature of order 1 and more; its slope at 0 is 0.   n 1+2M c -> n M c"""
    squares = x[:, 1:].square().unflatten(1, (-1, 2)).sum(2)
    return (squares + 1e-12).sqrt()
