"""The geometry of a mesh as layers read it: angles around each vertex, areas, and how the surface bends.

All of it stays when the mesh moves or turns. Angles are measured within the surface, so they also stay when the
surface bends without stretching; `bend` and `mean_curvature` say how it lies in space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.half_edges import HalfEdges


@dataclass(frozen=True, eq=False)
class MeshGeometry:
    """n vertices and h half-edges; lengths are in units of the root of the area of the whole mesh.

    `angle` is that of each half-edge at its centre, from the first one around, counter-clockwise. Around an inner
    vertex angles are scaled, so that they sum to 2π; on a border they stay as they are. `frames` n turns the axis
    that angles are counted from.
    """

    centre: Tensor  # h, the vertex that a half-edge leaves
    tip: Tensor  # h, the vertex that it leads to
    twin: Tensor  # h, the same edge from its other end
    angle: Tensor  # h
    weight: Tensor  # h, the share of the full angle that lies next to it; of one vertex they sum to 1
    length: Tensor  # h
    bend: Tensor  # h, the normal curvature of the surface along it, times the unit of length
    frames: Tensor  # n, the angle of the axis of each frame
    share: Tensor  # n, of the area of its mesh that belongs to a vertex
    gauss_curvature: Tensor  # n, 2π less the angles around it, by area; a sphere has 1, a border 0
    mean_curvature: Tensor  # n, the mean of `bend`
    border: Tensor  # n, 1 on a border
    area: Tensor  # meshes, in the units of the points

    def phase(self) -> Tensor:
        """e^{iθ}: the direction of each half-edge in the frame of its centre.   h 2"""
        angle = self.angle - self.frames[self.centre]
        return torch.stack((angle.cos(), angle.sin()), -1)


def measure_mesh(
    points: Tensor, mesh: HalfEdges, frames: Tensor | None, of: Tensor, meshes: int
) -> MeshGeometry:
    """points: n 3   frames: n, None: all 0   of: n, the mesh of each vertex, of so many"""
    dtype = points.dtype
    points = points.float() if dtype in (torch.bfloat16, torch.float16) else points  # sums need the digits
    tiny = torch.finfo(points.dtype).tiny ** 0.5
    n, centre, tip = mesh.count, mesh.centre, mesh.tip
    a, b, c = points[mesh.faces.long()]  # f 3 each
    cross = torch.linalg.cross(b - a, c - a)
    size = cross.norm(dim=-1) / 2
    corners = mesh.faces.long().flatten()
    area = points.new_zeros(n).index_add(0, corners, (size / 3).repeat(3))
    normal = torch.zeros_like(points).index_add(0, corners, cross.repeat(3, 1))
    normal = normal / normal.norm(dim=-1, keepdim=True).clamp_min(tiny)
    whole = points.new_zeros(meshes).index_add(0, of, area)
    unit = whole.clamp_min(tiny).sqrt()[of]  # n

    along = points[tip] - points[centre]
    around = points[mesh.after] - points[centre]
    corner = torch.atan2(torch.linalg.cross(along, around).norm(dim=-1), (along * around).sum(-1))
    corner = corner.masked_fill(~mesh.inside, 0)
    full = points.new_zeros(n).index_add(0, centre, corner)
    border = points.new_zeros(n).index_add(0, centre, (~mesh.inside).to(points.dtype)).clamp(max=1)
    inner = (border == 0) & (full > 0)
    scale = torch.where(inner, 2 * math.pi / full.clamp_min(tiny), 1.0)
    angle = _sum_around(corner, mesh) * scale[centre]
    weight = (corner + corner[mesh.before]) / 2 / full.clamp_min(tiny)[centre]

    length = along.norm(dim=-1) / unit[centre]
    height = -(along * normal[centre]).sum(-1) / unit[centre]
    bend = 2 * height / length.square().clamp_min(1e-12)
    mean = points.new_zeros(n).index_add(0, centre, weight * bend)
    share = area / whole.clamp_min(tiny)[of]
    defect = torch.where(inner, 2 * math.pi - full, 0.0)
    gauss = defect / (4 * math.pi * share.clamp_min(1e-12))
    turned = torch.zeros_like(area) if frames is None else frames.to(points.dtype)
    real = (angle, weight, length, bend, turned, share, gauss, mean, border, whole)
    return MeshGeometry(centre, tip, mesh.twin, *(each.to(dtype) for each in real))


def _sum_around(corner: Tensor, mesh: HalfEdges) -> Tensor:
    """The angles that come before each half-edge around its centre.   h -> h

    One running sum over all, less what it is at the first of each vertex: in float64, lest digits are lost in it.
    """
    upto = corner.double().cumsum(0) - corner.double()
    first = upto.new_full((mesh.count,), math.inf).scatter_reduce(0, mesh.centre, upto, "amin")
    return (upto - first[mesh.centre]).to(corner.dtype)
