"""Models of sets: any order, any padding, sets of one and of nothing, and large ones."""

import pytest
import torch
from torch import nn

from regard.look.record import record
from regard.models.deep_sets import DeepSets, DeepSetsConfig
from regard.models.mlp import MLP
from regard.models.point_net import PointNet, PointNetConfig
from regard.models.set_transformer import SetTransformer, SetTransformerConfig
from regard.nn.set_attention import ISAB, MAB, PMA, SetLinear
from regard.symmetry.check import check
from regard.symmetry.groups import Permutations, Trivial

SIZES = {"features": 3, "outputs": 2, "hidden": 16}
VARIANTS = {
    **{
        f"deepsets {layers} {pool} {'each' * each}": (
            DeepSets,
            DeepSetsConfig(layers=layers, pool=pool, each=each, **SIZES),
        )
        for layers in ("alone", "together")
        for pool in ("sum", "mean", "max")
        for each in (False, True)
    },
    **{
        f"deepsets together {pool} ": (DeepSets, DeepSetsConfig(layers="together", pool=pool, **SIZES))
        for pool in ("composite", "gated", "softmax")
    },
    **{f"pointnet {'each' * each}": (PointNet, PointNetConfig(each=each, turned=8, **SIZES)) for each in (False, True)},
    "settransformer": (SetTransformer, SetTransformerConfig(**SIZES)),
    "settransformer induced": (SetTransformer, SetTransformerConfig(points=3, seeds=2, after=1, **SIZES)),
    "settransformer each": (SetTransformer, SetTransformerConfig(each=True, norm="rmsnorm", mlp="swiglu", **SIZES)),
}


def made(name):
    torch.manual_seed(0)
    cls, config = VARIANTS[name]
    model = cls(config).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))  # what starts at zero must not hide anything
    return model


def things(b=2, n=7, seed=0):
    return torch.randn(b, n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_declared_is_measured(name):
    report = check(made(name), things(n=11), trials=3)
    assert report.ok, str(report)
    assert report["permutation"].declared == ("equivariant" if "each" in name else "invariant")
    # then things know nothing of each other, and padding is no promise to break
    alone = "each" in name and "alone" in name
    assert report["padding"].measured == "holds" or alone


@pytest.mark.parametrize("name", VARIANTS)
def test_sets_of_several_sizes_in_one_batch(name):
    model, x = made(name), things(3, 6)
    real = torch.arange(6) < torch.tensor([[6], [1], [0]])
    spoiled = torch.where(real[..., None], x, torch.nan)
    out = model(spoiled, real=real)
    for row, size in enumerate((6, 1, 0)):
        alone = model(x[row : row + 1, :size])
        assert alone.isfinite().all()
        torch.testing.assert_close(out[row : row + 1, :size] if "each" in name else out[row : row + 1], alone)


@pytest.mark.parametrize("layers", ["alone", "together"])
def test_a_pool_that_knows_order_says_so(layers):
    torch.manual_seed(0)
    model = DeepSets(DeepSetsConfig(pool="fading", layers=layers, **SIZES)).double()
    assert model.symmetry == Trivial()
    report = check(model, things(n=11), trials=3)
    assert report.ok and report["permutation"].measured == "broken" and report["padding"].measured == "holds"
    each = DeepSets(DeepSetsConfig(pool="fading", layers=layers, each=True, **SIZES))
    assert each.symmetry == (Permutations() if layers == "alone" else Trivial())  # alone, nothing is pooled


def test_a_composite_memory_is_a_sum_of_linear_maps():
    """ρ(Σ θᵀφ̄(x)): with θ the identity it is the sum pool."""
    torch.manual_seed(0)
    ours, plain = (DeepSets(DeepSetsConfig(pool=pool, **SIZES)).double() for pool in ("composite", "sum"))
    ours.load_state_dict(plain.state_dict(), strict=False)
    with torch.no_grad():
        ours.pool.value.weight.copy_(torch.eye(16))
        ours.pool.value.bias.zero_()
    torch.testing.assert_close(ours(things()), plain(things()))


def test_each_attention_block_is_that_of_torch():
    torch.manual_seed(0)
    mine, theirs = MAB(16, 4).double(), nn.MultiheadAttention(16, 4, batch_first=True).double()
    with torch.no_grad():
        parts = (mine.attention.to_q, mine.attention.to_k, mine.attention.to_v)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.weight, theirs.out_proj.bias = mine.attention.mix.weight, mine.attention.mix.bias
    x, y = torch.randn(2, 5, 16, dtype=torch.float64), torch.randn(2, 8, 16, dtype=torch.float64)
    real = torch.arange(8) < torch.tensor([[8], [5]])
    h = mine.norm_attention(x + theirs(x, y, y, key_padding_mask=~real)[0])
    torch.testing.assert_close(mine(x, y, real), mine.norm_mlp(h + mine.mlp(h)))
    induced = ISAB(16, 4, 3).double()
    told = induced.ask(induced.points.expand(2, -1, -1), y, real)
    torch.testing.assert_close(induced(y, real), induced.tell(y, told))
    seeds = PMA(16, 4, 2).double()
    torch.testing.assert_close(seeds(y[:1], real[:1]), seeds.ask(seeds.seeds[None], seeds.before(y[:1])))


def test_things_that_are_asked_one_by_one_hear_of_the_others_unless_told_otherwise():
    x, other = things(1), things(1)
    other[:, 1:] += 1.0
    said = {layers: DeepSets(DeepSetsConfig(each=True, layers=layers, **SIZES)).double() for layers in (None, "alone")}
    assert (said[None](x)[0, 0] - said[None](other)[0, 0]).abs().max() > 1e-3
    assert torch.equal(said["alone"](x)[0, 0], said["alone"](other)[0, 0])
    assert not any(isinstance(layer, SetLinear) for layer in DeepSets(DeepSetsConfig(**SIZES)).layers)


def test_layers_that_work_together_do_not_grow_with_the_set():
    """The same things a hundred times over: the sum at the end is a hundred times larger, and no layer before it."""
    x = things(1)
    for pool, hears, growth in (("sum", None, 100), ("sum", "sum", 1e5), ("max", None, 1), ("mean", None, 1)):
        torch.manual_seed(0)
        how = {"layers": "together", "depth": 3, "activation": "relu", **SIZES}
        model = DeepSets(DeepSetsConfig(pool=pool, hears=hears, **how)).double()
        model.head = nn.Identity()
        with torch.no_grad():
            ratio = float(model(x.repeat(1, 100, 1)).norm() / model(x).norm())
        assert (ratio > growth) if hears else ratio == pytest.approx(growth, rel=1e-9)


def test_a_sum_is_told_in_parts_of_a_usual_set():
    """So that a step of training means the same for baskets of five and of five hundred; it still knows how many there are."""
    ours, plain = (DeepSets(DeepSetsConfig(usual=usual, **SIZES)).double() for usual in (50, 1))
    ours.load_state_dict(plain.state_dict())
    ours.head = plain.head = nn.Identity()
    x = things()
    torch.testing.assert_close(50 * ours(x), plain(x))
    mean = DeepSets(DeepSetsConfig(usual=50, pool="mean", **SIZES)).double()
    mean.load_state_dict(plain.state_dict(), strict=False)
    mean.head = nn.Identity()
    torch.testing.assert_close(7 * mean(x), plain(x))


def test_a_linear_layer_of_sets_is_the_null_space_of_the_lectures():
    """λI + γ11ᵀ in every pair of channels."""
    layer = SetLinear(2, 3, pool="sum").double()
    x = things()[..., :2]
    matrix = torch.einsum("oi, nm -> onim", layer.own.weight, torch.eye(7, dtype=torch.float64))
    matrix = matrix + torch.einsum("oi, nm -> onim", layer.others.weight, torch.ones(7, 7, dtype=torch.float64))
    torch.testing.assert_close(layer(x), torch.einsum("onim, bmi -> bno", matrix, x) + layer.own.bias)


@pytest.mark.parametrize("name", ["deepsets together mean ", "pointnet ", "settransformer induced"])
def test_cost_is_linear_in_the_set(name):
    model = made(name).float()
    with torch.no_grad():
        assert model(torch.randn(1, 100_000, 3)).isfinite().all()


def test_what_the_seeds_look_at_is_recorded():
    model = made("settransformer induced")
    with torch.no_grad(), record(model) as seen:
        model(things(1))
    pool = next(entry for entry in seen if entry.name == "pool.ask.attention")
    assert pool.kind == "cross" and pool.weights.shape == (1, 4, 2, 7) and pool.proved


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: SetTransformerConfig(heads=3, **SIZES), "hidden.*heads=3.*16"),
        (lambda: DeepSetsConfig(pool="median", **SIZES), "pool.*'median'"),
        (lambda: DeepSetsConfig(layers="apart", **SIZES), "layers.*'apart'"),
        (lambda: DeepSetsConfig(usual=0, **SIZES), "usual.*0"),
        (lambda: DeepSetsConfig(pool=None, **SIZES), "pool.*sum.*None"),
        (lambda: SetLinear(2, 2, pool="x"), "pool.*softmax.*'x'"),
        (lambda: ISAB(8, 2, 0), "points must be at least 1"),
        (lambda: MLP.tiny()[0](torch.zeros(1, 99, 3)), "takes at most 24 elements, got 99"),
        (lambda: made("settransformer")(torch.zeros(1, 4, 2, dtype=torch.float64)), "d"),
    ],
)
def test_what_does_not_fit(make, words):
    with pytest.raises(ValueError, match=words):
        make()
