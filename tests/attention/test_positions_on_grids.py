"""Positions on several axes: each axis by itself, differences only for Rotary, places between for what was learned."""

import pytest
import torch
import torch.nn.functional as F

from regard.attention import positions
from regard.attention.positions import LearnedGrid, Rotary, Sinusoidal
from regard.nn.embed import PatchEmbedding, cut, grid_places

CPU = torch.device("cpu")


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_turns_each_axis_in_its_own_channels(axes, interleaved):
    x, where = random(2, 3, 7, 12), torch.randint(9, (2, 7, axes))
    whole = Rotary(12, axes=axes, interleaved=interleaved).turn(x, where)
    part = Rotary(12 // axes, interleaved=interleaved)
    each = [part.turn(piece, where[..., i]) for i, piece in enumerate(x.chunk(axes, -1))]
    torch.testing.assert_close(whole, torch.cat(each, -1))


@pytest.mark.parametrize("interleaved", [False, True])
def test_scores_of_a_turned_grid_know_differences_only(interleaved):
    rotary, where = Rotary(8, axes=2, interleaved=interleaved), grid_places((4, 5), (4, 5), CPU)
    q, k = random(1, 2, 20, 8), random(1, 2, 20, 8).flip(2)

    def scores(moved):
        return rotary.turn(q, moved) @ rotary.turn(k, moved).mT

    torch.testing.assert_close(scores(where), scores(where + torch.tensor([7, -3])))
    assert (scores(where) - scores(where.flip(-1))).abs().max() > 1e-3  # rows are no columns
    x = random(1, 1, 3, 8).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotary.turn(x, torch.tensor([[[0, 1], [2, 0], [3, 4]]])), (x,))


def test_turns_are_made_once_for_all_layers_and_anew_for_places_that_changed(monkeypatch):
    made, turns_at, rotary, x = [], positions.turns_at, Rotary(8, axes=2), random(1, 2, 4, 8)
    monkeypatch.setattr(positions, "turns_at", lambda *given: made.append(given) or turns_at(*given))
    where, other = torch.randint(9, (1, 4, 2)), torch.randint(9, (1, 4, 2))
    first = rotary.turn(x, where)
    assert torch.equal(rotary.turn(x, where), first) and len(made) == 1
    assert (
        not torch.equal(rotary.turn(x, other), first) and torch.equal(rotary.turn(x, where), first) and len(made) == 2
    )
    where += 1
    changed = rotary.turn(x, where)
    assert len(made) == 3 and torch.equal(changed, rotary.turn(x, where.clone())) and not torch.equal(changed, first)
    with torch.inference_mode():
        assert torch.equal(rotary.turn(x, other), rotary.turn(x, other.clone()))
        rotary.turn(x.float(), other)  # kept in another precision, and made where nothing has a gradient
    rotary.turn(x.float().requires_grad_(), other).sum().backward()


def test_tokens_without_a_place_are_left_alone():
    where = torch.tensor([[[torch.nan, torch.nan], [1.0, 2.0]]])
    x = random(1, 1, 2, 8)
    assert torch.equal(Rotary(8, axes=2).turn(x, where)[:, :, 0], x[:, :, 0])
    for position in (Sinusoidal(8, axes=2), LearnedGrid((3, 4), 8).double()):
        placed = position(x[0], where)
        assert torch.equal(placed[:, 0], x[0, :, 0]) and not torch.equal(placed[:, 1], x[0, :, 1])


def test_sinusoidal_codes_each_axis_in_its_own_channels():
    where = grid_places((3, 4), (3, 4), CPU)
    code, one = Sinusoidal(8, axes=2).code(where), Sinusoidal(4)
    torch.testing.assert_close(code, torch.cat((one.code(where[..., 0]), one.code(where[..., 1])), -1))
    assert len({tuple(row.tolist()) for row in code[0]}) == 12  # every place has a code of its own


def test_a_learned_grid_looks_up_whole_places_and_interpolates_others():
    learned = LearnedGrid((3, 4), 5).double()
    where = grid_places((3, 4), (3, 4), CPU)
    assert torch.equal(learned.code(where)[0], learned.table)
    torch.testing.assert_close(learned.code(where.double())[0], learned.table)
    image = learned.table.T.reshape(1, 5, 3, 4)
    for grid in ((6, 8), (5, 3), (1, 9)):
        true = F.interpolate(image, grid, mode="bicubic", align_corners=False)
        found = learned.code(grid_places(grid, (3, 4), CPU).double())
        torch.testing.assert_close(found[0], true[0].flatten(1).T, atol=1e-6, rtol=1e-6)
    with pytest.raises(ValueError, match="grid.*3 × 4.*learned"):
        learned.code(torch.tensor([[[0, 4]]]))


def test_bad_axes():
    with pytest.raises(ValueError, match="channels.*even.*channels.*2 axes.*6.*8"):
        Rotary(6, axes=2)
    with pytest.raises(ValueError, match="Rotary.*2 axes.*give where"):
        Rotary(8, axes=2).turn(random(1, 1, 3, 8))
    with pytest.raises(ValueError, match="Sinusoidal.*2 axes.*where.*1"):
        Sinusoidal(8, axes=2)(random(1, 3, 8), torch.arange(3))
    with pytest.raises(ValueError, match="axes.*1.*0"):
        Sinusoidal(8, axes=0)


def test_patches_are_squares_row_by_row():
    x = torch.arange(2 * 3 * 4 * 6.0).view(2, 3, 4, 6)
    patches = cut(x, 2)
    assert patches.shape == (2, 6, 12)
    assert torch.equal(patches[1, 4], x[1, :, 2:4, 2:4].flatten())
    # filled up with zeros
    assert torch.equal(cut(x[..., :5], 2)[:, 2].view(2, 3, 2, 2)[..., 1], torch.zeros(2, 3, 2))
    embed = PatchEmbedding(3, 2, 5)
    conv = F.conv2d(x, embed.linear.weight.view(5, 3, 2, 2), embed.linear.bias, stride=2)
    torch.testing.assert_close(embed(x), conv.flatten(2).mT)
    assert embed.grid(4, 5) == (2, 3)
    with pytest.raises(ValueError, match="image.*pixels.*0 × 4"):
        embed(torch.zeros(1, 3, 0, 4))


def test_places_of_another_resolution_lie_from_border_to_border():
    assert torch.equal(grid_places((2, 2), (2, 2), CPU)[0], torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]))
    finer = grid_places((4, 2), (2, 2), CPU)[0]
    assert finer[::2, 0].tolist() == [-0.25, 0.25, 0.75, 1.25] and finer[:2, 1].tolist() == [0.0, 1.0]
