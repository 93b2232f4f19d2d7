"""Stochastic depth: as its definition says, with nothing computed that would be multiplied by zero."""

import math

import pytest
import torch
from torch import nn

from regard import check
from regard.models.swin import Swin, SwinConfig
from regard.models.vit import ViT, ViTConfig
from regard.nn import block
from regard.nn.block import Stack
from regard.nn.drop_path import Join, Part, depth_schedule, draw_rows, with_branch
from regard.training.memory import recompute_activations

SIZES = {"classes": 3, "colours": 2, "size": 12, "drop_path": 0.6}
MODELS = {
    "class": lambda: ViT(ViTConfig(patch=4, dim=16, depth=3, heads=2, **SIZES)),
    "mean": lambda: ViT(ViTConfig(patch=4, dim=16, depth=3, heads=2, pool="mean", position="rotary", **SIZES)),
    "Swin": lambda: Swin(SwinConfig(patch=2, dim=8, depths=(2, 1), heads=(2, 2), window=2, **SIZES)),
    "odd": lambda: Swin(
        SwinConfig(patch=2, dim=8, depths=(2, 1), heads=(2, 2), window=5, **SIZES)
    ),  # windows with empty slots
}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def chosen(b, share, seed, apart=True):
    """Which examples take a branch after this seed."""
    torch.manual_seed(seed)
    if not apart:
        return torch.rand(b) >= share
    z = torch.zeros(b, dtype=torch.bool)
    for run in draw_rows(b, share):
        z[run] = True
    return z


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("seed, b", [*((seed, 5) for seed in range(12)), (0, 1), (1, 1), (0, 0)])
def test_values_and_gradients_are_those_of_the_definition(seed, b, own, apart):
    share, f = 0.6, nn.Linear(4, 4).double()
    x, beside = (torch.randn(b, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    onto = x * 2 if own else beside
    z = chosen(b, share, seed, apart).double()[:, None, None]
    torch.manual_seed(seed)
    found, true = with_branch(x, f, share, onto=onto, apart=apart), onto + z * f(x) / (1 - share)
    torch.testing.assert_close(found, true)
    torch.manual_seed(seed)
    torch.testing.assert_close(with_branch(x, f, share, apart=apart), x + z * f(x) / (1 - share))
    weights = torch.randn_like(true)
    wanted = (x, *f.parameters(), *(() if own else (beside,)))
    ours, theirs = (torch.autograd.grad((each * weights).sum(), wanted, retain_graph=True) for each in (found, true))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_seeds_above_have_all_that_can_happen():
    found = {tuple(chosen(5, 0.6, seed).tolist()) for seed in range(12)}
    assert any(sum(each) == 0 for each in found) and any(len(drawn_at(seed)) == 2 for seed in range(12))
    assert {tuple(chosen(1, 0.6, seed).tolist()) for seed in range(2)} == {(True,), (False,)}


def drawn_at(seed):
    torch.manual_seed(seed)
    return draw_rows(5, 0.6)


@pytest.mark.parametrize("b, many", [(1, 1), (6, 1), (6, 2), (6, 5), (6, 6)])
def test_gradients_of_gradients(b, many):
    for first in range(b):
        runs = (slice(first, first + many),) if first + many <= b else (slice(0, first + many - b), slice(first, b))
        x, y = (torch.randn(n, 2, dtype=torch.float64, requires_grad=True) for n in (b, many))
        assert torch.autograd.gradcheck(lambda x, runs=runs: Part.apply(x, runs, 1.5, x.dtype), (x,))
        assert torch.autograd.gradgradcheck(
            lambda x, runs=runs: (Part.apply(x, runs, 1.5, x.dtype)[1] ** 2).sum(), (x,)
        )
        assert torch.autograd.gradgradcheck(lambda x, y, runs=runs: Join.apply(x, y, runs, 1.5) ** 3, (x, y))


def test_how_many_and_which_is_chance():
    """Of so many draws: the share of each place, and how the number of those that go past is spread, as of single coins."""
    share, b, n = 0.3, 8, 6000
    z = torch.stack([chosen(b, share, seed) for seed in range(n)]).double()
    spread = math.sqrt(share * (1 - share) / n)
    assert ((z.mean(0) - (1 - share)).abs() < 5 * spread).all()
    for many in range(b + 1):
        true = math.comb(b, many) * (1 - share) ** many * share ** (b - many)
        assert abs((z.sum(1) == many).double().mean() - true) < 5 * math.sqrt(true * (1 - true) / n)
    # one branch, and the next
    assert torch.corrcoef(torch.stack([z[:-1, 0], z[1:, 0]]))[0, 1].abs() < 5 / math.sqrt(n)


def test_the_mean_stays_and_who_goes_past_is_not_computed():
    share, n, seen = 0.3, 20_000, []

    def f(x):
        seen.append(len(x))
        return 2 * x

    y = with_branch(torch.ones(n, 1), f, share)
    spread = math.sqrt(share * (1 - share) / n)
    assert seen == [int((y > 1).sum())]
    assert abs(seen[0] / n - (1 - share)) < 5 * spread
    assert abs(y.mean().item() - 3) < 5 * 2 * spread / (1 - share)


@pytest.mark.parametrize("how", [{"training": False, "drop_path": 0.9}, {"drop_path": 0.0}])
def test_without_it_nothing_is_drawn(how):
    state, x = torch.get_rng_state(), torch.ones(50, 2)
    torch.testing.assert_close(with_branch(x, torch.sin, **how), x + x.sin(), atol=0, rtol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_shares_grow_with_depth():
    assert depth_schedule(0.3, 4) == pytest.approx([0, 0.1, 0.2, 0.3])
    assert depth_schedule(0.3, 1) == [0.3]
    assert [each.drop_path for stage in MODELS["Swin"]().stages for each in stage] == pytest.approx([0, 0.3, 0.6])
    assert [each.mlp.drop_path for each in MODELS["class"]().stack.blocks] == pytest.approx([0, 0.3, 0.6])


@pytest.mark.parametrize("make", [
    lambda: depth_schedule(1.0, 3), lambda: Stack(2, 8, 2, drop_path=1.0), lambda: SwinConfig(classes=2, drop_path=1.0),
    lambda: ViTConfig(classes=2, drop_path=1.0),
])  # fmt: skip
def test_all_is_no_share(make):
    with pytest.raises(ValueError, match=r"drop_path.*0.*(less|below).*1.*1\.0"):
        make()


def gradients(model, x, seed):
    torch.manual_seed(seed)
    model.zero_grad()
    out = model(x)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_learns_the_same_whether_it_leaves_out_or_multiplies(kind, monkeypatch):
    model, x = MODELS[kind]().double(), torch.randn(4, 2, 12, 12, dtype=torch.float64)
    found = [gradients(model, x, seed) for seed in range(6)]
    for place in ("regard.nn.block", "regard.models.vit", "regard.models.swin"):
        monkeypatch.setattr(f"{place}.with_branch", multiplied)
    for seed, each in enumerate(found):
        for a, b in zip(each, gradients(model, x, seed), strict=True):
            torch.testing.assert_close(a, b)
    assert not torch.allclose(found[0][0], found[1][0])


def multiplied(x, f, drop_path, *, onto=None, training=True, apart=True):
    """The same, with everything computed."""
    z = torch.zeros(len(x), 1, 1, dtype=x.dtype)
    for run in draw_rows(len(x), drop_path) if drop_path else [slice(None)]:
        z[run] = 1 / (1 - drop_path)
    return (x if onto is None else onto) + z * f(x)


def test_what_differs_from_example_to_example_goes_with_its_example():
    """A mask of each example, its padding, its places: all are computed, so none is taken for another's."""
    stack, x = Stack(3, 8, 2, drop_path=0.6).double(), torch.randn(4, 5, 8, dtype=torch.float64)
    real = torch.arange(5) < torch.tensor([5, 2, 3, 1])[:, None]
    torch.manual_seed(1)
    found = stack(x, real=real)
    torch.manual_seed(1)
    other = stack(torch.where(real[..., None], x, 1e6), real=real)
    torch.testing.assert_close(found[real], other[real])
    for how in ({"real": real}, {"where": torch.rand(4, 5)}, {"mask": object()}, {"bias": object()}):
        assert not block.same_for_all((), how)
    assert not block.same_for_all((x,), {})
    for how in ({}, {"real": None, "mask": None}, {"where": torch.rand(5)}, {"where": torch.rand(1, 5, 2)}):
        assert block.same_for_all((), how)


def test_a_stream_of_float32_stays_one_under_autocast():
    f, x = nn.Linear(4, 4), torch.randn(6, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert {with_branch(x, f, share).dtype for share in (0.0, 1e-9, 0.5)} == {torch.float32}


def test_what_is_computed_again_leaves_out_the_same():
    model, x = MODELS["Swin"](), torch.randn(4, 2, 12, 12)
    true = gradients(model, x, 3)
    with recompute_activations(model):
        for a, b in zip(true, gradients(model, x, 3), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", MODELS)
def test_laws_are_measured_without_it(kind):
    """In training, rows of a batch do not mix; chance would look as if they did."""
    finding = check(MODELS[kind]().train(), torch.randn(3, 2, 12, 12), laws=["neighbours"])["neighbours"]
    assert finding.measured == "holds", str(finding)
