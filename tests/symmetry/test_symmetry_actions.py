"""Groups act: undoing undoes, doing nothing is no element, and each action is what its words say."""

from random import Random

import pytest
import torch

from regard.symmetry.actions import Fixed, OnAxis, OnBoth, OnEdges, OnGrid, OnPoses, OnVectors, OnWhere, Together
from regard.symmetry.elements import IDENTITY, Composed, Mirror, Permutation, Scale, Shift, Turn, quarter
from regard.symmetry.groups import Permutations, Reflections, Rotations, Scalings, Shifts, Trivial, product

DRAW = torch.Generator().manual_seed(0)
SEQUENCE = torch.randn(2, 7, 3, generator=DRAW, dtype=torch.float64)
IMAGE = torch.randn(2, 3, 6, 6, generator=DRAW, dtype=torch.float64)
SQUARE = torch.randn(2, 7, 7, generator=DRAW, dtype=torch.float64)
CASES = [
    (Permutations(), OnAxis(1), SEQUENCE),
    (Shifts(), OnAxis(1), SEQUENCE),
    (Permutations(), OnBoth(), SQUARE),
    (Shifts(2), OnGrid(), IMAGE),
    (Rotations("quarter"), OnGrid(), IMAGE),
    (Reflections(), OnGrid(), IMAGE),
    (Rotations("space"), OnVectors(), SEQUENCE),
    (Rotations("plane"), OnVectors(), SEQUENCE[..., :2]),
    (Reflections(), OnVectors(), SEQUENCE),
    (Scalings(), OnVectors(), SEQUENCE),
    (Shifts(), OnWhere(), torch.arange(7).double()),
    (Rotations(), OnPoses(1), SEQUENCE[:, :4]),
    (Reflections(), OnPoses(0, 8), torch.arange(8.0)),
    (Reflections(), Together((OnPoses(0, 8), OnGrid())), torch.rand(8, 6, 6, generator=DRAW, dtype=torch.float64)),
    (Permutations(), Together((OnAxis(1), OnAxis(2))), SQUARE),
]


@pytest.mark.parametrize(
    "group, action, x", CASES, ids=lambda each: str(each) if not isinstance(each, torch.Tensor) else "x"
)
def test_an_element_does_something_and_can_be_undone(group, action, x):
    elements = group.draw(action.sizes(x), Random(0), 8)
    assert elements
    for element in elements:
        moved = action.act(element, x)
        assert not torch.allclose(moved, x), element
        torch.testing.assert_close(action.act(element.inverse(), moved), x)
        assert Fixed().act(element, x) is x


def test_what_the_words_say():
    x = torch.arange(4)[None, :, None]
    assert OnAxis(1).act(Permutation((2, 0, 3, 1)), x).flatten().tolist() == [2, 0, 3, 1]  # (Px)_i = x_order[i]
    assert OnAxis(1).act(Shift((1,)), x).flatten().tolist() == [3, 0, 1, 2]  # (Sx)_i = x_(i−1)
    image = torch.arange(4).view(1, 1, 2, 2)
    assert torch.equal(OnGrid().act(quarter(1), image), torch.rot90(image, 1, (-2, -1)))
    assert OnGrid().act(Mirror(1), image).flatten().tolist() == [1, 0, 3, 2]
    assert torch.equal(OnGrid(stride=2).act(Shift((4, 0)), IMAGE), IMAGE.roll(2, -2))
    turned = OnVectors().act(quarter(1), torch.tensor([[[1.0, 0.0]]]))
    torch.testing.assert_close(turned, torch.tensor([[[0.0, 1.0]]]))
    assert OnWhere().act(Shift((3,)), torch.tensor([0, 5])).tolist() == [3, 8]


def test_composed_elements_act_one_after_another_and_are_undone_the_other_way_round():
    both = Composed((quarter(1), Mirror(1), Shift((1, 2))))
    moved = OnGrid().act(both, IMAGE)
    assert torch.equal(moved, IMAGE.rot90(1, (-2, -1)).flip(-1).roll((1, 2), (-2, -1)))
    assert torch.equal(OnGrid().act(both.inverse(), moved), IMAGE)
    assert OnGrid().act(IDENTITY, IMAGE) is IMAGE and IDENTITY.inverse() == IDENTITY
    assert (str(both), str(IDENTITY)) == ("turn by 90°, then mirror axis 1, then shift by +1, +2", "nothing at all")
    assert torch.equal(
        OnBoth().act(Composed((Permutation((1, 2, 3, 4, 5, 6, 0)),)), SQUARE), SQUARE.roll((-1, -1), (1, 2))
    )


def test_poses_move_as_the_group_multiplies():
    """A kernel in all its poses, and the image of it turned: the poses of the turned kernel are the poses, moved."""
    kernel = torch.rand(3, 3, generator=DRAW)
    group = product(Rotations(), Reflections())
    # 8 3 3: pose h is h·kernel
    poses = torch.stack([k.rot90(r, (0, 1)) for k in (kernel, kernel.flip(1)) for r in range(4)])
    for g in group.elements((3, 3)):
        there = torch.stack([OnGrid().act(g, pose) for pose in poses])  # g h·kernel is pose gh
        assert torch.equal(OnPoses(0, 8).act(g, there), poses)
    assert len({OnPoses(0, 8).act(g, torch.arange(8)).numpy().tobytes() for g in group.elements((3, 3))}) == 8


def test_edges_are_renamed_as_nodes_move():
    """Node features move by the permutation; an edge must still join the same features."""
    features, edges, g = torch.arange(5.0), torch.tensor([[0, 1, 4], [2, 3, 0]]), Permutation((3, 1, 4, 0, 2))
    moved = OnAxis(0).act(g, features)
    assert torch.equal(moved[OnEdges().act(g, edges)], features[edges])


def test_rotations_are_rotations():
    for of in ("quarter", "plane", "space"):
        for turn in Rotations(of).draw((3,), Random(0), 6):
            matrix = torch.tensor(turn.matrix, dtype=torch.float64)
            torch.testing.assert_close(matrix @ matrix.T, torch.eye(len(matrix), dtype=torch.float64))
            torch.testing.assert_close(torch.linalg.det(matrix), torch.tensor(1.0, dtype=torch.float64))


def test_meets_of_rotations():
    assert Rotations("plane") & Rotations("quarter") == Rotations("quarter")
    assert Rotations("plane") & Rotations("space") == Trivial()
    assert Rotations() & Reflections() == Trivial()
    assert str(Rotations("space")) == "rotations of space"


def test_words_of_elements():
    assert str(Permutation((0, 2, 1))) == "swap 1 and 2"
    assert str(Permutation((3, 2, 1, 0))) == "reverse 4"
    assert str(Permutation((1, 2, 3, 0))) == "order 1 2 3 0"
    assert str(Permutation((*range(1, 12), 0))) == "order 1 2 3 4 5 6 … of 12"
    assert str(Shift((2, -1))) == "shift by +2, -1"
    assert str(quarter(3)) == "turn by 270°"
    assert str(Turn(((0.5, -(0.75**0.5)), (0.75**0.5, 0.5)))) == "turn by 60°"
    assert str(Scale(0.5)) == "times 0.5"


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: Permutation((0, 0)), r"a permutation holds each of 0 … 1 once, got \[0, 0\]"),
        (lambda: OnAxis(1).act(Permutation((1, 0)), SEQUENCE), "a permutation of 2 acts on no axis of 7"),
        (lambda: OnAxis(1).act(Scale(2.0), SEQUENCE), "times 2 has no meaning on axis 1"),
        (lambda: OnGrid(stride=2).act(Shift((1, 0)), IMAGE), "no whole number of steps on a grid 2 times coarser"),
        (lambda: OnVectors().act(quarter(1), SEQUENCE), "a turn of 2 dimensions acts on no vectors of 3"),
        (lambda: OnPoses(1).act(quarter(1), SEQUENCE), "4 poses are on no axis of 7"),
        (lambda: OnPoses(1).act(Mirror(1), SEQUENCE), "mirror axis 1 has no meaning on the 4 poses along axis 1"),
        (lambda: OnEdges().along(), "on the ends of edges, values do not move along axes"),
        (lambda: Rotations("round"), "rotations are of 'quarter', 'plane' or 'space', got 'round'"),
    ],
)
def test_words_of_errors(act, words):
    with pytest.raises(ValueError, match=words):
        act()
