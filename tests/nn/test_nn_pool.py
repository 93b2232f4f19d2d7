"""Pools: right under padding, whatever it holds; no order; zeros for nothing."""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.biases import ALiBi
from regard.attention.masks import Causal, Padding, Window
from regard.nn.pool import AttentionPool, ClassToken, MaxPool, MeanPool, SumPool
from regard.symmetry.groups import Permutations, Shifts
from tests.nn.padding import SLOTS, put_in_slots

DIM = 6
POOLS = {
    "sum": SumPool,
    "mean": MeanPool,
    "max": MaxPool,
    "attention": lambda: AttentionPool(DIM, heads=2),
    "seeds": lambda: AttentionPool(DIM, heads=3, seeds=4),
}
JUNK = [0.0, torch.nan, torch.inf, -torch.inf, 1e300]


def made(name):
    torch.manual_seed(1)
    return POOLS[name]().double()


@pytest.fixture(params=POOLS)
def pool(request):
    return made(request.param)


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 5, DIM, dtype=torch.float64)


def with_gradients(f, x, *args):
    x = x.clone().requires_grad_()
    parameters = list(f.parameters())
    out = f(x, *args)
    gradients = torch.autograd.grad(out.sin().sum(), [x, *parameters])
    return out, *gradients


def test_what_they_are_by_definition(x):
    torch.testing.assert_close(SumPool()(x), sum(x[:, i] for i in range(5)))
    torch.testing.assert_close(MeanPool()(x), sum(x[:, i] for i in range(5)) / 5)
    torch.testing.assert_close(MaxPool()(x), x.max(1).values)


@pytest.mark.parametrize("seeds", [1, 3])
def test_attention_pool_is_multihead_attention_of_its_seeds(seeds, x):
    pool = AttentionPool(DIM, heads=2, seeds=seeds).double()
    theirs = torch.nn.MultiheadAttention(DIM, 2, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([torch.eye(DIM), pool.to_k.weight, pool.to_v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([torch.zeros(2 * DIM), pool.to_v.bias]))
        theirs.out_proj.weight.copy_(pool.mix.weight)
        theirs.out_proj.bias.zero_()
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 1]]).bool()
    queries = pool.seeds.expand(3, -1, -1)
    expected, _ = theirs(queries, x, x, key_padding_mask=~real)
    assert pool(x, real).shape == ((3, DIM) if seeds == 1 else (3, seeds, DIM))
    torch.testing.assert_close(pool(x, real), expected[:, 0] if seeds == 1 else expected)


@pytest.mark.parametrize("junk", JUNK)
def test_padding_never_matters(pool, x, junk):
    out, dx, *rest = with_gradients(pool, x)
    wide, real = put_in_slots(x, SLOTS, 9, junk)
    out_wide, dx_wide, *rest_wide = with_gradients(pool, wide, real)
    torch.testing.assert_close(out_wide, out)
    torch.testing.assert_close(dx_wide[real].view_as(dx), dx)
    assert (dx_wide[~real] == 0).all()
    torch.testing.assert_close(rest_wide, rest)


@pytest.mark.parametrize("name", POOLS)
def test_real_is_not_ignored(name, x):
    pool, real = made(name), torch.ones(3, 5, dtype=torch.bool)
    torch.testing.assert_close(pool(x, real), pool(x))
    real[:, int(x[0, :, 0].argmax())] = False
    assert (pool(x, real) - pool(x)).abs().max() > 1e-3


def test_a_row_with_nothing_real_gives_zeros_and_zero_gradients(pool, x):
    x[1] = torch.nan
    real = torch.tensor([True, False, True])[:, None].expand(3, 5)
    out, dx, *rest = with_gradients(pool, x, real)
    assert (out[1] == 0).all()
    assert (dx[1] == 0).all()
    others = with_gradients(pool, x[[0, 2]], real[[0, 2]])
    torch.testing.assert_close(out[[0, 2]], others[0])
    torch.testing.assert_close(rest, list(others[2:]))
    none = with_gradients(pool, x, torch.zeros(3, 5, dtype=torch.bool))
    assert all((each == 0).all() for each in none)


def test_no_tokens_at_all_give_zeros(pool):
    out = pool(torch.zeros(2, 0, DIM, dtype=torch.float64))
    assert out.shape[0] == 2
    assert out.shape[-1] == DIM
    assert (out == 0).all()


def test_order_does_not_matter_as_it_says(pool, x):
    assert Permutations() <= pool.keeps
    assert Shifts() <= pool.keeps
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1], [0, 1, 0, 1, 1]]).bool()
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(pool(x[:, order], real[:, order]), pool(x, real))
    assert (pool(x, real) - pool(x.flip(0), real)).abs().max() > 1e-3


def test_neighbours_in_the_batch_do_not_matter(pool, x):
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1], [0, 1, 0, 1, 1]]).bool()
    for row in range(3):
        torch.testing.assert_close(pool(x[row : row + 1], real[row : row + 1]), pool(x, real)[row : row + 1])


def test_largest_values_share_their_gradient():
    x = torch.tensor([[[1.0], [3.0], [3.0], [9.0]]], requires_grad=True)
    MaxPool()(x, torch.tensor([[True, True, True, False]])).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([[[0.0], [0.5], [0.5], [0.0]]]))


def test_max_of_negative_values_is_negative():
    x = torch.tensor([[[-1.0], [-3.0], [0.0]]])
    assert MaxPool()(x, torch.tensor([[True, True, False]])).item() == -1


def test_mean_counts_and_adds_in_float32():
    ones = torch.ones(1, 1001, 1, dtype=torch.bfloat16)
    real = torch.ones(1, 1001, dtype=torch.bool)
    assert MeanPool()(ones, real).item() == 1
    assert MeanPool()(ones).item() == 1
    assert MeanPool()(torch.full((1, 4, 1), 60000.0, dtype=torch.float16)).item() == 60000


# ── the class token ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "where",
    [None, torch.arange(5), torch.randn(5), torch.arange(15).view(3, 5), torch.randn(3, 5), torch.randn(3, 5, 2)],
    ids=["none", "n whole", "n", "b n whole", "b n", "b n s"],
)
def test_the_class_token_comes_first_has_no_place_and_is_real(where, x):
    token = ClassToken(DIM).double()
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1], [0, 0, 0, 0, 0]]).bool()
    longer, places, longer_real = token.add(x, where, real)
    torch.testing.assert_close(longer[:, 0], token.token.expand(3, -1))
    torch.testing.assert_close(longer[:, 1:], x * real[..., None])
    given = torch.arange(5) if where is None else where
    first, others = (places[0], places[1:]) if given.dim() == 1 else (places[:, 0], places[:, 1:])
    assert first.isnan().all()
    torch.testing.assert_close(others, given.to(others.dtype))
    assert longer_real[:, 0].all()
    assert (longer_real[:, 1:] == real).all()
    assert token.add(x, where)[2] is None
    torch.testing.assert_close(token(longer, longer_real), longer[:, 0])


def through_attention(token, x, where, real, mask):
    x, where, real = token.add(x, where, real)
    q = x[:, None]
    return token(attend(q, q, q, mask=mask & Padding(real), bias=ALiBi(1), where=where)[:, 0], real)


@pytest.mark.parametrize("mask", [Causal(), Window(1)], ids=str)
def test_the_class_token_sees_all_tokens_whatever_their_place_and_order(mask, x):
    torch.manual_seed(0)
    token = ClassToken(DIM).double()
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1], [0, 1, 0, 1, 1]]).bool()
    x.requires_grad_()
    out = through_attention(token, x, None, real, mask)
    (dx,) = torch.autograd.grad(out.sin().sum(), x)
    assert ((dx.abs().amax(-1) > 1e-6) == real).all()
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(through_attention(token, x[:, order], None, real[:, order], mask), out)
    torch.testing.assert_close(through_attention(token, x, torch.arange(5) + 100, real, mask), out)


def test_the_class_token_is_learned_and_padding_cannot_reach_it(x):
    token = ClassToken(DIM).double()
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1], [0, 1, 0, 1, 1]]).bool()
    x[~real] = torch.nan
    x.requires_grad_()
    out = through_attention(token, x, None, real, Causal())
    d_token, dx = torch.autograd.grad(out.sum(), [token.token, x])
    assert d_token.isfinite().all()
    assert d_token.abs().max() > 1e-3
    assert (dx[~real] == 0).all()


def test_a_class_token_that_is_called_unreal_gives_zeros(x):
    x[1, 0] = torch.nan
    out = ClassToken(DIM)(x, torch.tensor([True, False, True])[:, None].expand(3, 5))
    assert (out[1] == 0).all()
    torch.testing.assert_close(out[[0, 2]], x[[0, 2], 0])


# ── errors, compiling ───────────────────────────────────────────────────────────────────────────────────────


def test_words_of_errors(pool, x):
    with pytest.raises(ValueError, match="real.*tensor 'b n', True = real.*torch.int64 .3, 5."):
        pool(x, torch.ones(3, 5).long())
    with pytest.raises(ValueError, match="real.*'b n'.*b=3, n=5.*shape .3, 4."):
        pool(x, torch.ones(3, 4).bool())
    with pytest.raises(ValueError, match="x must be 'b n d'"):
        pool(x[0])


def test_words_of_errors_when_made():
    with pytest.raises(ValueError, match="dim.*heads.*dim=6.*heads=4"):
        AttentionPool(6, heads=4)
    with pytest.raises(ValueError, match="seeds.*1.*0"):
        AttentionPool(6, seeds=0)
    token = ClassToken(6)
    with pytest.raises(ValueError, match="shape n, b n.*b n.*n=5.*.3, 4."):
        token.add(torch.zeros(3, 5, 6), torch.zeros(3, 4))
    with pytest.raises(ValueError, match="real.*'b n'.*b=3, n=6"):
        token(torch.zeros(3, 6, 6), torch.ones(3, 5).bool())
    with pytest.raises(ValueError, match="real must be a bool tensor"):
        token.add(torch.zeros(3, 5, 6), None, torch.ones(3, 5))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "attention"])
def test_pools_compile_in_one_graph(name, x):
    pool = made(name)
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1], [0, 0, 0, 0, 0]]).bool()
    whole = torch.compile(pool, fullgraph=True, backend="eager")
    torch.testing.assert_close(whole(x, real), pool(x, real))


def test_the_class_token_compiles_in_one_graph(x):
    token = ClassToken(DIM).double()
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 1], [0, 0, 0, 0, 0]]).bool()

    def around(x, real):
        x, where, real = token.add(x, None, real)
        return token(x * 2, real), where

    out, where = torch.compile(around, fullgraph=True, backend="eager")(x, real)
    torch.testing.assert_close(out, around(x, real)[0])
    assert where[0].isnan()
