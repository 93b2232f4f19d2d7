"""The geometry of a mesh as layers read it: angles around each vertex, areas, and how the surface bends.

All of it stays when the mesh moves or turns. Angles are measured within the surface, so they also stay when the
surface bends without stretching; `bend` and `mean_curvature` say how it lies in space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from regard.errors import RegardError

# ── which triangles of a mesh meet where: the edges that leave each vertex, in the order in which they lie around it
#
# Every edge is there twice, once from each of its ends: a half-edge, as the literature calls it. Their order around a
# vertex is what angles are summed along. Nothing here knows where the vertices are.

NOT_MANIFOLD = "repair it with regard.data.surface.repair_mesh, which cuts the surface there"


class HalfEdges:
    """h half-edges of a mesh with `count` vertices and triangles `faces` 3 f, whose corners run counter-clockwise.

    They are sorted by `centre`, the vertex that each leaves, and around it counter-clockwise. An inner vertex begins
    with the edge to the next corner of the first triangle that names it, a vertex on a border with its first edge.
    Several meshes are one, side by side. A vertex without triangles has no half-edges.
    """

    def __init__(self, faces: Tensor, count: int) -> None:
        self.faces, self.count = faces, count
        if torch.compiler.is_compiling():
            found = _fans_in_graph(faces, count)
        else:
            found = _sort_fans(faces, count)
        self.centre: Tensor = found[0]  # h, the vertex that it leaves
        self.tip: Tensor = found[1]  # h, the vertex that it leads to
        # h, the tip of the next one around; the centre, where there is no triangle after it: at the end of a border
        self.after: Tensor = found[2]
        self.twin: Tensor = found[3]  # h, the same edge from its other end
        self.before: Tensor = found[4]  # h, the half-edge before it around

    @classmethod
    def of(cls, faces: Tensor | HalfEdges, count: int) -> HalfEdges:
        """Those of these triangles. The same tensor again, unchanged, gives the same object."""
        if isinstance(faces, HalfEdges):
            if faces.count != count:
                raise RegardError(f"the mesh has {faces.count} vertices, but there are points of {count}")
            return faces
        _check(faces)
        if torch.compiler.is_compiling() or faces.is_inference():
            return cls(faces, count)
        version, known = _seen.get(faces, (-1, None))
        if known is None or version != faces._version or known.count != count:
            known = cls(faces, count)
            known.faces = faces.detach()  # another object, lest `_seen` keep its keys
            _seen[faces] = faces._version, known
        return known

    def to(self, device: torch.device | str) -> HalfEdges:
        """The same on another device."""
        if torch.device(device) == self.faces.device:
            return self
        return HalfEdges(self.faces.to(device), self.count)

    @property
    def inside(self) -> Tensor:
        """Is there a triangle between this one and the next one around?   bool h"""
        return self.after != self.centre


_seen: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _check(faces: Tensor) -> None:
    if faces.dim() != 2 or faces.shape[0] != 3 or faces.is_floating_point() or faces.dtype == torch.bool:
        raise RegardError(
            f"faces must be whole numbers 3 f, the corners of each triangle, got {faces.dtype} of shape "
            f"{tuple(faces.shape)}; transpose an array f 3"
        )


def _sort_fans(faces: Tensor, count: int) -> Tensor:
    """centre, tip, after, twin, before.   3 f -> 5 h"""
    faces = faces.long()
    if faces.numel() and (int(faces.min()) < 0 or int(faces.max()) >= count):
        wrong = int(faces.max()) if int(faces.max()) >= count else int(faces.min())
        raise RegardError(f"a triangle has the corner {wrong}, but there are {count} vertices, counted from 0")
    # one for each corner, in the order of the triangles
    centre, tip, after = (faces.roll(-k, 0).T.flatten() for k in range(3))
    if bool((centre == tip).any()):
        where = int((centre == tip).nonzero()[0, 0]) // 3
        raise RegardError(f"triangle {where} has the same corner twice; {NOT_MANIFOLD}")
    keys, order = torch.sort(centre * count + tip)
    if bool((keys[1:] == keys[:-1]).any()):
        twice = int(keys[1:][keys[1:] == keys[:-1]][0])
        raise RegardError(
            f"the edge from vertex {twice // count} to {twice % count} runs the same way in two triangles: they do "
            f"not agree which side is up, or more than two meet there; {NOT_MANIFOLD}"
        )
    follower = _find(keys, order, centre * count + after)  # the half-edge that comes next around; −1: none
    ends = (follower < 0).nonzero()[:, 0]  # there the border begins
    rank, root = _rank(follower, centre, count)
    # the last edge of a border belongs to no corner
    centre, tip = torch.cat((centre, centre[ends])), torch.cat((tip, after[ends]))
    rank, root = torch.cat((rank, rank[ends] + 1)), torch.cat((root, root[ends]))
    after = torch.cat((after, centre[len(after) :]))
    _one_fan_each(centre, root, count)
    around = torch.argsort(centre * (int(rank.max()) + 1 if len(rank) else 1) + rank)
    centre, tip, after, rank = centre[around], tip[around], after[around], rank[around]
    keys, order = torch.sort(centre * count + tip)
    twin = _find(keys, order, tip * count + centre)
    place = torch.arange(len(centre), device=faces.device)
    degree = torch.bincount(centre, minlength=count)
    before = torch.where(rank == 0, place + degree[centre] - 1, place - 1)
    return torch.stack((centre, tip, after, twin, before))


def _find(keys: Tensor, order: Tensor, wanted: Tensor) -> Tensor:
    """The place of each wanted key, −1 for one that is not there.   keys: sorted by order"""
    if not len(keys):
        return wanted
    at = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return torch.where(keys[at] == wanted, order[at], -1)


def _rank(follower: Tensor, centre: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """How many come before each around its vertex, and which is the first.   h, h"""
    place = torch.arange(len(follower), device=follower.device)
    leader = torch.full_like(follower, -1)  # the one that comes before
    has = follower >= 0
    leader[follower[has]] = place[has]
    # around an inner vertex all have one before: the circle is cut at the first that is listed
    open_fans = torch.zeros(count, dtype=torch.bool, device=follower.device)
    open_fans[centre[leader < 0]] = True
    first = torch.full((count,), len(follower), device=follower.device)
    first = first.scatter_reduce(0, centre, place, "amin")
    leader = torch.where((first[centre] == place) & ~open_fans[centre], -1, leader)
    rank = (leader >= 0).long()
    root = torch.where(leader < 0, place, leader)
    for _ in range(math.ceil(math.log2(max(2, len(follower))))):  # each step looks twice as far back
        rank, root = rank + rank[root], root[root]
    return rank, root


def _one_fan_each(centre: Tensor, root: Tensor, count: int) -> None:
    """The triangles around a vertex are one after the other: all go back to the same first edge."""
    first = torch.full((count,), -1, device=centre.device)
    first[centre] = root
    apart = first[centre] != root
    if bool(apart.any()):
        which = int(centre[apart.nonzero()[0, 0]])
        raise RegardError(
            f"the triangles at vertex {which} touch there only at their corners, so they have no order around it; "
            f"{NOT_MANIFOLD}"
        )


@torch.library.custom_op("regard::mesh_fans", mutates_args=())
def _fans_in_graph(faces: Tensor, count: int) -> Tensor:
    """The same as one node of a compiled graph: a tracer cannot sort and count."""
    return _sort_fans(faces, count)


@_fans_in_graph.register_fake
def _(faces: Tensor, count: int) -> Tensor:
    size = torch.library.get_ctx().new_dynamic_size()
    return faces.new_empty((5, size), dtype=torch.int64)


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


def measure_mesh(points: Tensor, mesh: HalfEdges, frames: Tensor | None, of: Tensor, meshes: int) -> MeshGeometry:
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
