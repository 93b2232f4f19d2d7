"""Bases hold all linear maps that commute with a group, and no others: counted by Burnside's lemma, published by others, and
compared with brute force over every element.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import circulant

from regard.symmetry.actions import Fixed, OnAxis, OnBoth, OnEdges, OnGrid, OnPoses, OnVectors, OnWhere, Together
from regard.symmetry.elements import Permutation, Shift
from regard.symmetry.groups import Generated, Permutations, Reflections, Rotations, Scalings, Shifts, Trivial, product
from regard.symmetry.linear.bases import (
    Convolution,
    Diagrams,
    NullSpace,
    Orbits,
    basis,
    components,
    partitions,
    sizes_for,
)
from regard.symmetry.linear.basis import Basis, Layout

BELL = [1, 1, 2, 5, 15, 52, 203, 877]
MIRRORED = product(Rotations(), Reflections())
POSES = Together((OnPoses(-3), OnGrid()))
POSES8 = Together((OnPoses(-3, 8), OnGrid()))
CUBE = Together((OnAxis(1), OnAxis(2), OnAxis(3)))
PAIRS = Generated((Permutation((1, 0, 3, 2)), Permutation((2, 3, 0, 1))))

# group, how it acts on input and output, size, how many maps there are (None: only Burnside says), how they are found
CASES = [
    (Permutations(), OnAxis(), OnAxis(), 5, 2, Diagrams),
    (Permutations(), OnAxis(), OnAxis(), 1, 1, Diagrams),
    (Permutations(), OnAxis(), Fixed(), 5, 1, Diagrams),
    (Permutations(), Fixed(), OnBoth(), 5, 2, Diagrams),
    (Permutations(), OnAxis(), OnBoth(), 5, 5, Diagrams),
    (Permutations(), OnAxis(), OnBoth(), 2, 4, Diagrams),
    (Permutations(), OnBoth(), OnAxis(), 3, 5, Diagrams),
    (Permutations(), OnBoth(), OnBoth(), 4, 15, Diagrams),
    (Permutations(), OnBoth(), OnBoth(), 3, 14, Diagrams),
    (Permutations(), OnBoth((1, 2)), OnBoth(), 2, 8, Diagrams),
    (Permutations(), CUBE, OnAxis(), 4, 15, Diagrams),
    (Permutations(), CUBE, OnBoth(), 3, None, Diagrams),
    (Shifts(), OnAxis(), OnAxis(), 8, 8, Convolution),
    (Shifts(), OnAxis(), OnAxis(), 1, 1, Convolution),
    (Shifts(), OnAxis(1), OnAxis(2), 6, 6, Orbits),
    (Shifts(), OnAxis(), Fixed(), 8, 1, Orbits),
    (Shifts(), OnBoth(), OnBoth(), 3, 27, Orbits),
    (Shifts(2), OnAxis(), OnAxis(), 8, 16, Orbits),
    (Shifts(4), OnAxis(), OnAxis(), 6, 12, Orbits),
    (Shifts(), OnGrid(), OnGrid(), (3, 4), 12, Convolution),
    (Shifts(2), OnGrid(), OnGrid(stride=2), (4, 4), 16, Orbits),
    (product(Shifts(), Reflections()), OnAxis(), OnAxis(), 7, 4, Convolution),
    (product(Shifts(), Rotations()), OnGrid(), OnGrid(), (4, 4), None, Convolution),
    (product(Shifts(), MIRRORED), OnGrid(), OnGrid(), (5, 5), 6, Convolution),
    (Rotations(), OnGrid(), Fixed(), (3, 3), 3, Orbits),
    (Rotations(), OnGrid(), Fixed(), (5, 5), 7, Orbits),
    (MIRRORED, OnGrid(), Fixed(), (5, 5), 6, Orbits),
    (Rotations(), OnGrid(), OnPoses(), (3, 3), 9, Orbits),
    (Rotations(), POSES, OnPoses(), (3, 3), 36, Orbits),
    (MIRRORED, OnGrid(), OnPoses(count=8), (3, 3), 9, Orbits),
    (MIRRORED, POSES8, OnPoses(count=8), (3, 3), 72, Orbits),
    (MIRRORED, OnPoses(count=8), Fixed(), 1, 1, Orbits),
    (Reflections(), OnGrid(), OnGrid(), (2, 3), None, Orbits),
    (Trivial(), OnAxis(), OnAxis(), 3, 9, Orbits),
    (PAIRS, OnAxis(), OnAxis(), 4, 4, Orbits),
    (product(Permutations(), Shifts()), OnAxis(), OnAxis(), 5, 2, Orbits),
    (Rotations(), OnVectors(), OnVectors(), 2, 2, NullSpace),
    (Reflections(), OnVectors(), OnVectors(), 3, 3, NullSpace),
    (MIRRORED, OnVectors(), OnVectors(), 2, 1, NullSpace),
    (MIRRORED, Together((OnVectors(1), OnVectors(2))), Fixed(), 2, 1, NullSpace),
]
NAMES = [f"{group} {into} to {out} of {size}" for group, into, out, size, *_ in CASES]


def trace(layout, element):
    return layout.matrix(element).trace().item()


@pytest.mark.parametrize("group, into, out, size, count, kind", CASES, ids=NAMES)
def test_all_maps_and_no_others(group, into, out, size, count, kind):
    found = basis(group, into, out, size)
    first, last = Layout.of(into, size), Layout.of(out, size)
    elements = list(group.elements(sizes_for(first, last)))
    assert isinstance(found, kind)
    assert len(elements) == group.order(sizes_for(first, last))
    # the mean number of fixed pairs
    burnside = sum(trace(first, g) * trace(last, g) for g in elements) / len(elements)
    assert len(found) == burnside == (burnside if count is None else count)
    maps = found.matrices().double()
    assert maps.shape == (len(found), last.count, first.count)
    assert torch.linalg.matrix_rank(maps.flatten(1)) == len(found)
    for g in elements:
        torch.testing.assert_close(last.matrix(g) @ maps, maps @ first.matrix(g), rtol=0, atol=1e-12)


@pytest.mark.parametrize("group, into, out, size, count, kind", CASES, ids=NAMES)
def test_the_mean_over_the_group_is_the_projection_onto_the_basis(group, into, out, size, count, kind):
    """Brute force: any matrix, averaged over every element, is the nearest weighted sum of the maps."""
    first, last = Layout.of(into, size), Layout.of(out, size)
    anything = torch.randn(last.count, first.count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    elements = list(group.elements(sizes_for(first, last)))
    # orthogonal: g⁻¹ = gᵀ
    mean = sum(last.matrix(g).T @ anything @ first.matrix(g) for g in elements) / len(elements)
    maps = basis(group, into, out, size).matrices().double().flatten(1)
    nearest = maps.T @ torch.linalg.lstsq(maps.T, anything.flatten()).solution
    torch.testing.assert_close(mean.flatten(), nearest, rtol=0, atol=1e-10)


@pytest.mark.parametrize("group, into, out, size, count, kind", CASES, ids=NAMES)
def test_mixing_is_the_sum_of_matrices(group, into, out, size, count, kind):
    found, draw = basis(group, into, out, size), torch.Generator().manual_seed(1)
    x = torch.randn(2, found.n_in, 3, dtype=torch.float64, generator=draw)
    weight = torch.randn(len(found), 4, 3, dtype=torch.float64, generator=draw, requires_grad=True)
    fast = found.mix(x, weight)
    slow = torch.einsum("koi,kec,bic->boe", found.matrices().double(), weight, x)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    grads = [torch.autograd.grad(y.sin().sum(), weight)[0] for y in (fast, slow)]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-11)
    touched = (found.matrices() != 0).sum(-1)
    if kind is not NullSpace:
        torch.testing.assert_close(found.spread(), touched.max(-1).values.float())


def test_published_dimensions():
    """Those that the quickstart of emlp prints, and that Maron and others prove for graphs."""
    assert len(basis(Shifts(), OnAxis(), OnAxis(), 6)) == 6  # Z(6), a basis of shape (36, 6)
    assert len(basis(Permutations(), OnBoth(), OnBoth(), 6)) == 15  # S(6), (1296, 15)
    # SO(3), (27, 1)
    cross = basis(Rotations("space"), Together((OnVectors(-2), OnVectors(-1))), OnVectors(), 3)
    assert len(cross) == 1
    a, b = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = cross.matrix(0) @ torch.outer(a, b).flatten()
    true = torch.linalg.cross(a, b)
    torch.testing.assert_close(found / found.norm(), true / true.norm(), rtol=0, atol=1e-9)
    for axes in range(8):
        assert len(Diagrams(8, axes, 0)) == len(list(partitions(axes))) == BELL[axes]


@pytest.mark.parametrize(
    "of, size, powers, count",
    [
        ("plane", 2, (1, 1), 2),
        ("plane", 2, (2, 0), 2),
        ("plane", 2, (1, 0), 0),
        ("plane", 2, (2, 2), 6),
        ("space", 3, (1, 1), 1),
        ("space", 3, (1, 0), 0),
        ("space", 3, (2, 0), 1),
        ("space", 3, (2, 2), 3),
    ],
)
def test_rotations_that_have_no_end(of, size, powers, count):
    """Isotropic tensors, as in any book on mechanics; the characters' integral gives the same numbers."""
    into, out = (Together(tuple(OnVectors(axis + 1) for axis in range(k))) if k else Fixed() for k in powers)
    found = basis(Rotations(of), into, out, size)
    assert len(found) == count
    angles = (torch.arange(4000, dtype=torch.float64) + 0.5) * math.pi / 2000
    if of == "plane":
        mean = (2 * angles.cos()).pow(sum(powers)).mean()
    else:
        mean = ((1 + 2 * angles.cos()).pow(sum(powers)) * (1 - angles.cos())).mean()  # the density of an angle in SO(3)
    assert round(mean.item(), 6) == count


@pytest.mark.parametrize("n", [1, 2, 5])
def test_shifts_give_circulants(n):
    found = basis(Shifts(), OnAxis(), OnAxis(), n)
    kernel = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    matrix = torch.einsum("k,koi->oi", kernel, found.matrices().double())
    torch.testing.assert_close(matrix, torch.from_numpy(circulant(kernel.numpy())))
    x = torch.randn(1, n, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(found.mix(x, kernel[:, None, None])[0, :, 0], matrix @ x[0, :, 0])


def test_sets_and_sums():
    identity, ones = basis(Permutations(), OnAxis(), OnAxis(), 4).matrices()
    assert torch.equal(identity, torch.eye(4)) and torch.equal(ones, torch.ones(4, 4))


def test_kernels_look_the_same_from_all_sides():
    kernels = basis(Rotations(), OnGrid(), Fixed(), (5, 5)).matrices().view(-1, 5, 5)
    assert torch.equal(kernels.rot90(1, (1, 2)), kernels)
    assert not torch.equal(kernels.flip(2), kernels)
    mirrored = basis(MIRRORED, OnGrid(), Fixed(), (5, 5)).matrices().view(-1, 5, 5)
    assert torch.equal(mirrored.flip(2), mirrored) and torch.equal(mirrored.mT, mirrored)
    lifted = basis(Rotations(), OnGrid(), OnPoses(), (3, 3)).matrices().view(9, 4, 3, 3)
    for pose in range(4):  # any kernel, and its three turns
        assert torch.equal(lifted[:, pose], lifted[:, 0].rot90(pose, (1, 2)))


def test_a_thousand_things_are_no_trouble():
    """Nothing of the size of a matrix of maps is ever made: 15 maps of a million by a million numbers."""
    for into, out, count in ((OnAxis(), OnAxis(), 2), (OnAxis(), OnBoth(), 5), (OnBoth(), OnBoth(), 15)):
        assert len(basis(Permutations(), into, out, 1000)) == count
    assert len(basis(Shifts(), OnAxis(), OnAxis(), 1000)) == 1000
    assert len(basis(product(Shifts(), MIRRORED), OnGrid(), OnGrid(), (32, 32))) == 153
    found = basis(Permutations(), OnBoth(), OnBoth(), 1000)
    x, weight = torch.randn(1, 1000 * 1000, 1), torch.randn(15, 1, 1)
    order = torch.randperm(1000)
    moved = x.view(1000, 1000)[order][:, order].reshape(1, -1, 1)
    y = found.mix(x, weight).view(1000, 1000)[order][:, order]
    torch.testing.assert_close(found.mix(moved, weight).view(1000, 1000), y, rtol=0, atol=1e-5 * y.abs().max().item())
    swap, cycle = torch.tensor([1, 0, *range(2, 1000)]), torch.tensor([*range(1, 1000), 0])
    assert len(Orbits([swap, cycle], [swap, cycle], 1000, 1000)) == 2


@given(st.integers(1, 12), st.lists(st.permutations(range(12)), min_size=0, max_size=3))
def test_components_are_those_of_a_plain_search(count, orders):
    moves = [[j for j in order if j < count] for order in orders]
    found = components(count, [torch.tensor(move) for move in moves]).tolist()
    reached = [{j} for j in range(count)]
    for _ in range(count):
        for j in range(count):
            for move in moves:
                both = reached[j] | reached[move[j]]
                for k in both:
                    reached[k] = both
    names = {frozenset(part): number for number, part in enumerate(dict.fromkeys(map(frozenset, reached)))}
    assert found == [names[frozenset(part)] for part in reached]


def test_matrices_of_ones_own():
    """The group of three turns of a triangle, written as matrices of two kinds."""
    turn = torch.tensor([[-0.5, -(0.75**0.5)], [0.75**0.5, -0.5]], dtype=torch.float64)
    cycle = torch.eye(3, dtype=torch.float64)[[1, 2, 0]]
    # from the plane to the corners: projections onto them, and onto their tangents
    corners = NullSpace([turn], [cycle])
    assert len(corners) == 2
    for matrix in corners.matrices():
        torch.testing.assert_close(cycle @ matrix, matrix @ turn)
        torch.testing.assert_close(matrix.square().sum(), torch.tensor(3.0, dtype=torch.float64))
    assert len(NullSpace([turn], [torch.eye(1)])) == 0


def test_a_null_space_is_the_same_whatever_comes_out_of_the_eigenvectors(monkeypatch):
    """Weights saved on one machine must mean the same on another, where eigenvectors may be others of the same space."""
    found = basis(Rotations("plane"), Together((OnVectors(1), OnVectors(2))), Together((OnVectors(1), OnVectors(2))), 2)
    true = torch.linalg.eigh

    def turned(matrix):
        values, vectors = true(matrix)
        null = values < 1e-9
        q, _ = torch.linalg.qr(torch.randn(int(null.sum()), int(null.sum()), dtype=torch.float64))
        vectors[:, null] = vectors[:, null] @ q
        return values, vectors

    monkeypatch.setattr(torch.linalg, "eigh", turned)
    again = basis(Rotations("plane"), Together((OnVectors(1), OnVectors(2))), Together((OnVectors(1), OnVectors(2))), 2)
    torch.testing.assert_close(again.maps, found.maps, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: basis(Permutations(), OnAxis(), OnAxis(), 0), r"size is one whole number above zero, .*, got 0"),
        (
            lambda: basis(Permutations(), OnAxis(), OnAxis(), (2, 3)),
            r"on axis 1 needs a size for each of 1 axes, got \(2, 3\)",
        ),
        (lambda: basis(Shifts(), OnAxis(), OnGrid(), 4), r"on the grid .* needs a size for each of 2 axes, got 4"),
        (
            lambda: basis(Rotations(), OnGrid(), OnGrid(), (2, 3)),
            r"turn by 90° makes \(1, 1, 3, 2\) of \(1, 1, 2, 3\); ",
        ),
        (lambda: basis(Shifts(2), OnGrid(), OnGrid(stride=2), (4, 3)), "no whole number of steps of 2"),
        (
            lambda: basis(Shifts(), OnVectors(), OnVectors(), 3),
            "shift by .* is not linear, it moves 0; this is no group action",
        ),
        (lambda: basis(Shifts(), OnWhere(), OnWhere(), 3), "on coordinates, values do not move along axes"),
        (lambda: basis(Permutations(), OnEdges(), OnAxis(), 3), "on the ends of edges, values do not move along axes"),
        (
            lambda: basis(Permutations(), OnGrid(), OnGrid(), (4, 4)),
            r"permutations act on one number of things, got \(4, 4\)",
        ),
        (lambda: basis(Permutations, OnAxis(), OnAxis(), 4), "a group is an object like Permutations"),
        (lambda: basis(Permutations(), OnAxis, OnAxis(), 4), "an action is an object like OnAxis"),
        (lambda: basis(Rotations(), OnAxis(), OnAxis(), 3), "turn by 90° has no meaning on axis 1"),
        (lambda: basis(Reflections(), OnPoses(), Fixed(), 1), "mirror axis 0 has no meaning on the 4 poses"),
        (lambda: basis(Permutations(), Together((OnAxis(1), OnAxis(-3))), OnAxis(), 3), "needs different axes of 4"),
        (lambda: basis(Shifts(), Together((OnAxis(1), OnAxis(-3))), OnAxis(), 3), "needs different axes of 4"),
        (lambda: basis(Shifts(), OnAxis(3), OnAxis(), 3), "needs different axes of 3: batch, channels and 1 more"),
        (
            lambda: basis(Permutations(), Together(tuple(map(OnAxis, range(1, 9)))), OnAxis(), 3),
            "too many maps; 8 axes in all",
        ),
        (lambda: basis(Trivial(), OnAxis(), OnAxis(), 5000), "5000 × 5000 pairs are too many to search for orbits"),
        (lambda: basis(Scalings(), OnVectors(), OnVectors(), 50), "a map of 50 × 50 entries is too large to solve for"),
        (
            lambda: Orbits([torch.tensor([0, 0])], [torch.tensor([1, 0])], 2, 2),
            "no group action: an order holds each of",
        ),
        (
            lambda: Orbits([torch.tensor([1, 0])], [], 2, 2),
            "each generator acts on input and output, got 1 and 0 orders",
        ),
        (lambda: NullSpace([torch.zeros(2, 2)], [torch.eye(2)]), "no group action: a matrix of 2 × 2 cannot be undone"),
        (lambda: NullSpace([torch.eye(2), torch.eye(3)], [torch.eye(2)] * 2), r"must all be 2 × 2, got \(3, 3\)"),
        (lambda: NullSpace([], []), "each generator has a matrix for input and one for output, got 0 and 0"),
        (
            lambda: basis(Permutations(), OnBoth(), OnBoth(), 100).matrices(),
            r"15 maps of 10000 × 10000 are too many numbers",
        ),
        (lambda: Generated((Shift((1,)),)), "a group is generated by permutations, or by turns, got shift by"),
        (lambda: list(Generated(tuple(Permutations().generators((9,)))).elements(())), "more than 10000 elements"),
        (lambda: Rotations("space").elements(()), "rotations of space are infinitely many; draw some of them"),
    ],
)
def test_words_of_errors(make, words):
    with pytest.raises(ValueError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_every_kind_of_basis_defines_what_it_must():
    bare = Basis(1, 1)
    for call in (
        lambda: len(bare),
        lambda: bare.matrix(0),
        bare.spread,
        lambda: bare.mix(torch.ones(1), torch.ones(1)),
    ):
        with pytest.raises(NotImplementedError, match="Basis must"):
            call()
