"""Mesh networks: gauge equivariant convolution on triangles, and a prediction for each mesh or each vertex.

Vertices are n 3, triangles 3 f; several meshes are one, side by side, with `of` saying which mesh a vertex belongs to.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Depth, Share, Size, Width, config
from regard.models.registered_model import Options, RegisteredModel
from regard.models.sample_inputs import sample_mesh
from regard.nn.mesh_conv import FieldLinear, FieldNorm, MeshConv, NormGate, arrow_lengths
from regard.nn.mesh_geometry import HalfEdges, MeshGeometry, measure_mesh
from regard.shapes import expect
from regard.symmetry.groups import Gauges, Group, Permutations, Rotations, Scalings, Translations, product
from regard.symmetry.roles import Roles

SEEN = 3  # numbers of a vertex: both curvatures, and whether it is on a border


@config
class MeshNetConfig:
    """A mesh network."""

    outputs: Size  # numbers in the output
    hidden: Width = 24  # channels of each rotation order
    depth: Depth = 3  # convolutions
    # the largest rotation order of features; 0: scalars only, filters without a direction
    orders: Annotated[int, Field(ge=0, le=16)] = 1
    level: Literal["mesh", "vertex"] = "mesh"  # a prediction for each mesh, or each vertex
    sized: bool = False  # does the size of a mesh matter? False: meshes of any scale are the same
    dropout: Share = 0.0  # share of channels dropped before the last layer, in training


class MeshBlock(nn.Module):
    """x + linear(gate(conv(norm x))).   n 1+2M c -> n 1+2M c"""

    def __init__(self, dim: int, orders: int) -> None:
        super().__init__()
        self.norm = FieldNorm(dim, orders=orders)
        self.conv = MeshConv(dim, dim, orders=orders)
        self.gate = NormGate(dim, orders=orders)
        self.mix = FieldLinear(dim, dim, orders=orders)

    def forward(self, x: Tensor, geometry: MeshGeometry) -> Tensor:
        out: Tensor = x + self.mix(self.gate(self.conv(self.norm(x), geometry)))
        return out


class MeshNet(RegisteredModel):
    """Convolutions with parallel transport on a surface, then the mean over its area.
    points n 3, faces 3 f -> meshes outputs, or n outputs

    The output stays when the mesh is moved, turned or (unless `sized`) scaled, and when vertices get other numbers or
    other frames; outputs of vertices move along with their numbers. It may differ for a mirror image.
    """

    Config = MeshNetConfig
    TINY: ClassVar[Options] = dict(outputs=5, hidden=8, depth=2)

    def __init__(self, config: MeshNetConfig) -> None:
        super().__init__()
        self.config = config
        dim, orders = config.hidden, config.orders
        self.embed = nn.Linear(SEEN, dim)
        self.blocks = nn.ModuleList(MeshBlock(dim, orders) for _ in range(config.depth))
        self.norm = FieldNorm(dim, orders=orders)
        self.see = nn.Linear((1 + orders) * dim, 2 * dim)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(2 * dim, config.outputs)
        self.size: nn.Linear | None = None
        if config.sized:
            self.size = nn.Linear(1, config.outputs)

    @property
    def symmetry(self) -> Group:
        """Numbers of vertices, turns and moves of space, and all frames; scales where size does not matter."""
        groups = [Permutations(), Rotations("space"), Translations(), Gauges()]
        if not self.config.sized:
            groups.append(Scalings())
        return product(*groups)

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        return Roles(nodes="points", points="points", edges="faces", of_nodes=("frames",), frames="frames")

    def forward(
        self, points: Tensor, faces: Tensor | HalfEdges, *, frames: Tensor | None = None, of: Tensor | None = None
    ) -> Tensor:
        """faces: 3 f, corners counter-clockwise, or their HalfEdges   frames: n, the angle by which the axis of each
        vertex is turned from its first edge (None: 0)   of: n, the mesh of each vertex, from 0 (None: one mesh)
        """
        each, geometry, of = self.see_vertices(points, faces, frames, of)
        if self.config.level == "vertex":
            return self.with_size(self.head(self.dropout(each)), geometry, of)
        weighed = each * geometry.share[:, None]
        pooled = weighed.new_zeros(len(geometry.area), each.shape[1]).index_add(0, of, weighed)
        return self.with_size(self.head(self.dropout(pooled)), geometry, None)

    def see_vertices(
        self, points: Tensor, faces: Tensor | HalfEdges, frames: Tensor | None, of: Tensor | None
    ) -> tuple[Tensor, MeshGeometry, Tensor]:
        """Features of each vertex that no frame changes, the geometry, and the mesh of each vertex.   n 2·hidden"""
        n, _ = expect(points, "n d", name="points", d=3)
        if frames is not None:
            expect(frames, "n", name="frames", n=n)
        meshes = 1
        if of is None:
            of = torch.zeros(n, dtype=torch.long, device=points.device)
        else:
            expect(of, "n", name="of", n=n)
            meshes = int(of.max()) + 1
        geometry = measure_mesh(points, HalfEdges.of(faces, n), frames, of, meshes)
        seen = torch.stack((geometry.mean_curvature, geometry.gauss_curvature), -1).asinh()
        scalars = self.embed(torch.cat((seen, geometry.border[:, None]), -1))
        arrows = scalars.new_zeros(n, 2 * self.config.orders, self.config.hidden)
        x = torch.cat((scalars[:, None], arrows), 1)  # n 1+2M c
        for block in self.blocks:
            x = block(x, geometry)
        x = self.norm(x)
        invariant = torch.cat((x[:, :1], arrow_lengths(x)), 1)  # n 1+M c
        return nn.functional.gelu(self.see(invariant.flatten(1))), geometry, of

    def with_size(self, out: Tensor, geometry: MeshGeometry, of: Tensor | None) -> Tensor:
        """The output, and what the area of the mesh adds to it."""
        if self.size is None:
            return out
        area = geometry.area.clamp_min(1e-30).log()[:, None]
        added: Tensor = self.size(area if of is None else area[of])
        return out + added

    def contributions(self, points: Tensor, faces: Tensor | HalfEdges) -> Tensor:
        """What each vertex of one mesh adds to each output. With the offsets of the head they sum to it exactly: the
        output is linear in the mean over the area.   n outputs"""
        each, geometry, _ = self.see_vertices(points, faces, None, None)
        return nn.functional.linear(each * geometry.share[:, None], self.head.weight)

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        return sample_mesh(seed)
