"""Group convolution: turned images give turned maps whose poses have moved on, exactly; two ways to the filters agree."""

import pytest
import torch
import torch.nn.functional as F

from regard.nn.group_conv import (
    POSES,
    TURNS,
    GroupConvolution,
    PoseNorm,
    by_basis,
    by_turning,
    elements,
    halve,
    pooled_poses,
)
from regard.symmetry.actions import OnGrid, OnPoses, Together
from regard.symmetry.check import check
from regard.symmetry.groups import Reflections, Rotations, Shifts, product
from regard.symmetry.laws import Symmetry

GROUPS = ["p4", "p4m"]


def image(channels, side=8, seed=0):
    return torch.randn(2, channels, side, side, generator=torch.Generator().manual_seed(seed))


def with_poses(layer, poses, lifted):
    """A layer on b c p h w, so that poses have an axis of their own for the group to act on."""

    def run(x):
        return layer(x.flatten(1, 2) if lifted else x).unflatten(1, (-1, poses))

    return run


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("lifted", [False, True])
def test_filters_by_turning_are_those_of_the_basis(group, kernel, lifted):
    """The table made by turning numbers is that of the orbits which symmetry/linear/bases.py finds for the same two actions."""
    assert torch.equal(by_turning(group, kernel, lifted), by_basis(group, kernel, lifted))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("padding, kernel", [("circular", 3), ("zeros", 5), ("valid", 3), ("valid", 2)])
def test_equivariant_to_1e5_in_float32(group, lifted, padding, kernel):
    torch.manual_seed(1)
    poses = POSES[group]
    layer = GroupConvolution(3, 4, kernel, group=group, lifted=lifted, padding=padding)
    torch.nn.init.normal_(layer.bias)
    x = image(3 * poses).unflatten(1, (3, poses)) if lifted else image(3)
    act = Together((OnPoses(2, poses), OnGrid()))
    laws = [Symmetry(Rotations(), act if lifted else OnGrid(), act, "rotation")]
    if group == "p4m":
        laws.append(Symmetry(Reflections(), act if lifted else OnGrid(), act, "reflection"))
    if padding == "circular":
        laws.append(Symmetry(Shifts(), act if lifted else OnGrid(), act, "shift"))
    report = check(with_poses(layer, poses, lifted), x, laws=laws)
    assert report.ok and all(found.error < 1e-5 for found in report), str(report)


def test_p4_is_not_mirrored_and_p1_is_not_turned():
    act = Together((OnPoses(2, 4), OnGrid()))
    layer = GroupConvolution(1, 2, group="p4", lifted=False)
    turned = check(with_poses(layer, 4, False), image(1), laws=[Symmetry(Rotations(), OnGrid(), act, "rotation")])
    assert turned.ok
    plain = GroupConvolution(1, 2, group="p1", lifted=False)
    assert not check(plain, image(1), laws=[Symmetry(Rotations(), OnGrid(), OnGrid(), "rotation")]).ok
    torch.testing.assert_close(
        plain(image(1)),
        F.conv2d(F.pad(image(1), (1, 1, 1, 1), mode="circular"), plain.weight.view(2, 1, 3, 3), plain.bias),
    )


@pytest.mark.parametrize("group", GROUPS)
def test_each_pose_is_the_filter_turned(group):
    """Torch's convolution with every filter turned by hand is the same."""
    layer, x = GroupConvolution(2, 3, group=group, lifted=False, padding="zeros"), image(2)
    filters = layer.weight.view(3, 2, 3, 3)
    true = torch.stack([F.conv2d(x, OnGrid().act(element, filters), padding=1) for element in elements(group)], 2)
    torch.testing.assert_close(layer(x).unflatten(1, (3, -1)), true)
    assert layer.keeps == TURNS[group] and len(elements(group)) == POSES[group]


@pytest.mark.parametrize("side", [8, 9])
@pytest.mark.parametrize("group", GROUPS)
def test_norm_halving_and_pooling_keep_turns(side, group):
    poses = POSES[group]
    norm, x = PoseNorm(2, poses), image(2 * poses, side).unflatten(1, (2, poses))
    norm.norm.running_mean.normal_()
    act = Together((OnPoses(2, poses), OnGrid()))
    out = Symmetry(Rotations(), act, act, "rotation")
    assert check(with_poses(norm.eval(), poses, True), x, laws=[out]).ok
    assert check(with_poses(halve, poses, True), x, laws=[out]).ok
    pool = Symmetry(product(Rotations()), act, OnGrid(), "rotation")
    assert check(lambda x: pooled_poses(x.flatten(1, 2), poses), x, laws=[pool]).ok
    if side % 2:  # torch's own pooling drops the last row of an odd side, and with it the turns
        assert not check(with_poses(lambda x: F.max_pool2d(x, 2), poses, True), x, laws=[out]).ok


def test_gradients_of_all_poses_meet_in_one_filter():
    layer = GroupConvolution(1, 2, group="p4m", lifted=True).double()
    x = torch.randn(1, 8, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, w: torch.func.functional_call(layer, {"weight": w}, (x,)), (x, layer.weight)
    )


def test_bad_arguments():
    with pytest.raises(ValueError, match="group.*p1, p4, p4m.*'p6'"):
        GroupConvolution(1, 1, group="p6")
    with pytest.raises(ValueError, match=r"x must be 'b c h w' with c=8"):
        GroupConvolution(2, 1)(torch.zeros(1, 2, 4, 4))
