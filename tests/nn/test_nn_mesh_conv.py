"""Meshes as layers read them: the order around a vertex, angles, transport, curvature, and the convolution itself,
each against something independent: a slow walk, the plane, Gauss and Bonnet, complex numbers of Python."""

import cmath
import math

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.nn.mesh_conv import FieldLinear, FieldNorm, MeshConv, NormGate
from regard.nn.mesh_geometry import HalfEdges, measure_mesh
from regard.recipes.meshes.made_meshes import FAMILIES, _icosphere, _torus
from regard.symmetry.check import check
from regard.symmetry.groups import Gauges, Permutations, product
from regard.symmetry.roles import Roles


def sphere(cuts=3):
    points, faces = _icosphere(cuts)
    return torch.from_numpy(points), torch.from_numpy(faces).T.contiguous()


def torus():
    points, faces = _torus(np.random.default_rng(0))
    return torch.from_numpy(points), torch.from_numpy(faces).T.contiguous()


def sheet(rows=4, columns=5, seed=0):
    """A flat sheet with a border, its vertices not on a grid."""
    random = np.random.default_rng(seed)
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    points = np.stack((i.ravel(), j.ravel(), np.zeros(i.size)), -1).astype(float)
    points[:, :2] += 0.2 * random.random((i.size, 2))
    number = np.arange(i.size).reshape(rows, columns)
    a, b, c, d = (x.ravel() for x in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    faces = np.concatenate((np.stack((a, b, c)), np.stack((a, c, d))), 1)
    return torch.from_numpy(points), torch.from_numpy(faces)


def measured(points, faces, frames=None):
    mesh = HalfEdges.of(faces, len(points))
    return mesh, measure_mesh(points, mesh, frames, torch.zeros(len(points), dtype=torch.long), 1)


def walk(faces, vertex):
    """The neighbours of a vertex in order, found triangle by triangle."""
    corners = {}
    for triangle in faces.T.tolist():
        if vertex in triangle:
            k = triangle.index(vertex)
            corners[triangle[(k + 1) % 3]] = triangle[(k + 2) % 3]
    starts = set(corners) - set(corners.values())
    here = starts.pop() if starts else next(iter(corners))
    found = [here]
    while here in corners and corners[here] != found[0]:
        here = corners[here]
        found.append(here)
    return found


@pytest.mark.parametrize("make", [sphere, torus, sheet])
def test_half_edges_are_in_the_order_of_a_walk_around_each_vertex(make):
    points, faces = make()
    mesh = HalfEdges.of(faces, len(points))
    assert torch.equal(mesh.twin[mesh.twin], torch.arange(len(mesh.twin)))
    assert torch.equal(mesh.centre[mesh.twin], mesh.tip)
    for vertex in range(len(points)):
        assert mesh.tip[mesh.centre == vertex].tolist() == walk(faces, vertex)
    assert HalfEdges.of(faces, len(points)) is mesh  # found out once
    assert torch.equal(mesh.before[mesh.inside].unique().sort()[0], mesh.before[mesh.inside].sort()[0])


def test_a_sheet_in_the_plane_carries_an_arrow_along_without_turning_it():
    """The same arrow of the plane at every vertex, each in its own frame: transport finds it again everywhere."""
    points, faces = sheet()
    mesh, geometry = measured(points, faces, frames := torch.rand(len(points), dtype=torch.float64) * 6)
    first = [walk(faces, v)[0] for v in range(len(points))]
    along = points[first] - points
    axis = torch.atan2(along[:, 1], along[:, 0]) + frames
    arrow = torch.polar(torch.ones_like(axis), 0.7 - axis)  # in the frame of each vertex
    here = torch.view_as_complex(geometry.phase())
    there = -here[mesh.twin].conj()
    carried = here * there * arrow[mesh.tip]
    inner = geometry.border[mesh.centre] == 0
    torch.testing.assert_close(carried, arrow[mesh.centre])
    assert inner.any() and not inner.all()


@pytest.mark.parametrize("make, euler", [(sphere, 2), (torus, 0)])
def test_gauss_and_bonnet(make, euler):
    """Curvature sums to 2π times the Euler number, and so do the angles by which arrows come back turned."""
    points, faces = make()
    mesh, geometry = measured(points, faces)
    assert float((geometry.share * geometry.gauss_curvature).sum()) == pytest.approx(euler / 2, abs=1e-12)
    assert float(geometry.share.sum()) == pytest.approx(1)
    torch.testing.assert_close(
        torch.zeros(len(points), dtype=torch.float64).index_add(0, mesh.centre, geometry.weight),
        torch.ones(len(points), dtype=torch.float64),
    )
    phase = torch.view_as_complex(geometry.phase())
    carry = phase * -phase[mesh.twin].conj()  # from the tip to the centre
    place = {(int(c), int(t)): k for k, (c, t) in enumerate(zip(mesh.centre, mesh.tip, strict=True))}
    turned = 0.0
    for a, b, c in faces.T.tolist():
        around = carry[place[a, b]] * carry[place[b, c]] * carry[place[c, a]]
        turned += cmath.phase(complex(around))
    assert abs(turned) == pytest.approx(2 * math.pi * euler, abs=1e-9)
    if euler:
        assert abs(turned) > 1  # transport around a triangle is not the identity


def test_a_round_sphere_bends_alike_everywhere():
    points, faces = sphere(8)
    _, geometry = measured(points, faces)
    assert float(geometry.mean_curvature.std()) < 0.05
    assert float(geometry.mean_curvature.mean()) == pytest.approx(math.sqrt(4 * math.pi), rel=0.02)  # 1/r · √area
    doubled = measured(2 * points + 5, faces)[1]
    torch.testing.assert_close(doubled.mean_curvature, geometry.mean_curvature)


def test_one_triangle_and_a_vertex_without_any():
    points = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5]], dtype=torch.float64)
    _, geometry = measured(points, torch.tensor([[0], [1], [2]]))
    assert geometry.border.tolist() == [1, 1, 1, 0] and geometry.share[3] == 0
    assert torch.isfinite(geometry.bend).all()
    conv = MeshConv(2, 3).double()
    out = conv(torch.randn(4, 3, 2, dtype=torch.float64), geometry)
    assert torch.isfinite(out).all() and out[3].abs().max() == 0
    flat = points.clone()
    flat[:3] = 0  # no area at all
    assert torch.isfinite(measured(flat, torch.tensor([[0], [1], [2]]))[1].angle).all()


@pytest.mark.parametrize(
    "faces, words",
    [
        ([[0, 0], [1, 1], [2, 3]], "same way in two triangles"),
        ([[0, 0], [1, 3], [2, 4]], "vertex 0 touch there only at their corners"),
        ([[0], [1], [1]], "same corner twice"),
        ([[0], [1], [7]], "corner 7, but there are 5"),
    ],
)
def test_what_is_no_surface_is_said_in_one_line(faces, words):
    with pytest.raises(RegardError, match=words) as refused:
        HalfEdges.of(torch.tensor(faces), 5)
    assert "\n" not in str(refused.value)
    with pytest.raises(RegardError, match="transpose"):
        HalfEdges.of(torch.zeros(8, 3, dtype=torch.long), 5)


@pytest.mark.parametrize("make", [sphere, sheet])
def test_the_convolution_is_what_complex_numbers_say(make):
    """Edge by edge, with Python's own complex numbers."""
    points, faces = make()
    torch.manual_seed(0)
    mesh, geometry = measured(points, faces, torch.rand(len(points), dtype=torch.float64) * 6)
    conv = MeshConv(2, 2, orders=2).double()
    x = torch.randn(len(points), 5, 2, dtype=torch.float64)
    with torch.no_grad():
        out = conv(x, geometry)

    def turned(field, angle):
        found = [field[0].tolist()]
        for m in (1, 2):
            arrows = [
                complex(a, b) * cmath.exp(1j * m * angle) for a, b in zip(field[2 * m - 1], field[2 * m], strict=True)
            ]
            found += [[z.real for z in arrows], [z.imag for z in arrows]]
        return torch.tensor(found, dtype=torch.float64)

    angle = geometry.angle - geometry.frames[geometry.centre]
    for vertex in (0, 7):
        total = torch.zeros(5, 2, dtype=torch.float64)
        for h in (mesh.centre == vertex).nonzero()[:, 0].tolist():
            theta, phi = float(angle[h]), float(angle[mesh.twin[h]])
            edge = [math.log(float(geometry.length[h])) + 3, math.asinh(float(geometry.bend[h]))]
            inside = torch.cat(
                (
                    turned(x[mesh.tip[h]], math.pi - phi).flatten(),
                    turned(x[vertex], -theta).flatten(),
                    torch.tensor(edge, dtype=torch.float64),
                )
            )
            message = conv.give(conv.ask(inside).relu()).detach().view(5, 2)
            total += float(geometry.weight[h]) * turned(message, theta)
        torch.testing.assert_close(out[vertex], total)


class Stack(nn.Module):
    """Layers on fields, of a field that the frames turn: a scalar and a gradient at each vertex."""

    def __init__(self, orders):
        super().__init__()
        self.first, self.second = MeshConv(2, 4, orders=orders), MeshConv(4, 4, orders=orders)
        self.norm, self.gate = FieldNorm(4, orders=orders), NormGate(4, orders=orders)
        self.mix = FieldLinear(4, 4, orders=orders)
        self.orders = orders

    @property
    def symmetry(self):
        return product(Permutations(), Gauges())

    @property
    def roles(self):
        return Roles(
            nodes="points",
            edges="faces",
            of_nodes=("frames",),
            frames="frames",
            # frames are counted from the first triangle of each vertex
            promises={"edge_order": "not promised"},
        )

    def forward(self, points, faces, frames):
        _, geometry = measured(points, faces, frames)
        x = torch.stack((geometry.mean_curvature, geometry.gauss_curvature), -1)[:, None]
        x = torch.cat((x, x.new_zeros(len(x), 2 * self.orders, 2)), 1)
        return self.mix(self.gate(self.norm(self.second(self.first(x, geometry), geometry))))


@pytest.mark.parametrize("orders", [1, 2])
def test_arrows_turn_along_with_their_frames(orders):
    random = np.random.default_rng(0)
    points, faces = FAMILIES["star"](random)
    inputs = {
        "points": torch.from_numpy(points),
        "faces": torch.from_numpy(faces).T.contiguous(),
        "frames": torch.from_numpy(random.random(len(points))),
    }
    torch.manual_seed(0)
    report = check(Stack(orders).double(), inputs, laws=["gauge", "relabelling"], trials=4)
    assert report.ok, str(report)
    assert report["gauge"].declared == "equivariant" and report["gauge"].error < 1e-11
