"""Approximations against their formulas: outputs and gradients, what they imply, and what they refuse."""

import math

import pytest
import torch

from regard.attention import tap
from regard.attention.approximate.approximation import is_causal
from regard.attention.approximate.favor import AHEAD, Features, draw_features
from regard.attention.approximate.linformer import Linformer
from regard.attention.approximate.lsh import LSH, keys_of
from regard.attention.approximate.performer import Performer
from regard.attention.attend import attend
from regard.attention.masks import Causal, Dense, Padding, Window

B, H, C = 2, 3, 8


def draw(n, *, seed=0, heads=H, dtype=torch.float64, size=1.0):
    random = torch.Generator().manual_seed(seed)
    return [
        (size * torch.randn(B, h, n, C, generator=random, dtype=torch.float64)).to(dtype).requires_grad_()
        for h in (H, heads, heads)
    ]


def some_real(n):
    real = torch.arange(n) < torch.tensor([[n], [max(1, n - 3)]])
    real[1, 0] = n < 2
    return real


def same(found, true, inputs):
    """Equal outputs, and equal gradients."""
    torch.testing.assert_close(found, true)
    above = torch.randn(found.shape, generator=torch.Generator().manual_seed(5), dtype=found.dtype)
    grads = (torch.autograd.grad(y, inputs, above) for y in (found, true))
    for grad, other in zip(*grads, strict=True):
        torch.testing.assert_close(grad, other)


# ── performer


def by_formula(q, k, v, omega, *, causal=False, real=None):
    """φ(x) = exp(ωx − ‖x‖²/2)/√m of q·c^(−¼) and k·c^(−¼), as the paper writes it, pair by pair."""
    m, h = len(omega), q.shape[1]

    def phi(x):
        x = x * C**-0.25
        return torch.exp(x @ omega.T - x.square().sum(-1, keepdim=True) / 2) / math.sqrt(m)

    k, v = (x.repeat_interleave(h // x.shape[1], 1) for x in (k, v))
    pairs = torch.einsum("bhim,bhjm->bhij", phi(q), phi(k))
    n = q.shape[2]
    allowed = torch.ones(n, n, dtype=torch.bool)
    if causal:
        allowed = allowed.tril()
    pairs = pairs * allowed
    if real is not None:
        pairs = pairs * real[:, None, None]
    return pairs / pairs.sum(-1, keepdim=True).clamp(min=1e-300) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 7, AHEAD, AHEAD + 1, 2 * AHEAD + 5])
def test_a_performer_is_its_formula(n, causal):
    q, k, v = draw(n, heads=1)
    performer = Performer(C, 12, seed=3).double()
    same(performer(q, k, v, causal=causal), by_formula(q, k, v, performer.omega, causal=causal), (q, k, v))


@pytest.mark.parametrize("causal", [False, True])
def test_a_performer_reads_no_padding(causal):
    q, k, v = draw(20)
    real = some_real(20)
    performer = Performer(C, 12).double()
    found = performer(q, k, v, causal=causal, real=real)
    true = by_formula(q, k, v, performer.omega, causal=causal, real=real)
    rows = real[:, None, :, None].expand_as(found)
    same(found[rows], true[rows], (q, k, v))


@pytest.mark.parametrize("squared", [0.5, 2.0])
def test_the_variance_of_independent_features_is_the_one_derived(squared):
    """Var/mean² of φ(x)·φ(y) is (exp(‖x + y‖²) − 1)/m. Measured over a million features, five standard errors."""
    random = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, C, generator=random, dtype=torch.float64)
    x, y = (z * math.sqrt(squared) / (x + y).norm() for z in (x, y))
    omega = draw_features(10**6, C, 7, orthogonal=False)
    features = Features.of(omega)
    each = (features.keys(x[None]) * features.keys(y[None]))[0]
    mean = each.mean() / math.exp(x @ y)
    relative = (each / math.exp(x @ y)).var()
    law = math.exp(squared) - 1
    fourth = (each / math.exp(x @ y) - 1).pow(4).mean()
    assert abs(mean - 1) < 5 * math.sqrt(law / 10**6)
    assert abs(relative - law) < 5 * math.sqrt(fourth / 10**6)


def test_orthogonal_features_have_the_same_mean_and_less_variance():
    """By about a sixth here, with as many features as channels (theorem 2 of the paper)."""
    channels, draws = 32, 3000
    x = torch.full((channels,), math.sqrt(0.25 / channels), dtype=torch.float64)
    found = []
    for orthogonal in (True, False):
        omega = torch.stack([draw_features(channels, channels, s, orthogonal=orthogonal) for s in range(draws)])
        found.append(Features.of(omega.flatten(0, 1)).keys(x[None]).square().view(draws, -1).mean(1))
    for each in found:
        assert abs(each.mean() - math.exp(0.25)) < 5 * each.std() / math.sqrt(draws)
    assert found[0].var() < 0.92 * found[1].var()


def test_orthogonal_features_are_orthogonal_and_as_long_as_random_ones():
    omega = draw_features(2 * C + 3, C, 0)
    for block in omega.split(C):
        gram = block @ block.T
        torch.testing.assert_close(gram, torch.diag(gram.diagonal()))
    many = draw_features(4000 * C, C, 0)
    assert many.square().sum(-1).mean() == pytest.approx(C, rel=0.02)


def test_more_features_come_nearer_to_softmax():
    q, k, v = draw(40, size=0.7)
    true = attend(q, k, v)
    errors = []
    for count in (16, 256, 4096):
        errors.append((Performer(C, count, seed=1).double()(q, k, v) - true).norm() / true.norm())
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_features_follow_from_the_seed_and_the_layer_and_are_stored():
    one, two = Performer(C, 12, seed=1, layer=2), Performer(C, 12, seed=1, layer=2)
    assert torch.equal(one.omega, two.omega)
    assert not torch.equal(one.omega, Performer(C, 12, seed=1, layer=3).omega)
    other = Performer(C, 12, seed=2, layer=2)
    assert not torch.equal(one.omega, other.omega)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.omega, other.omega)


def test_features_are_redrawn_as_asked_and_a_stored_count_goes_on():
    q, k, v = (x.detach() for x in draw(5, dtype=torch.float32))
    drawn = []
    performer = Performer(C, 6, redraw=2).train()
    for _ in range(5):
        performer(q, k, v)
        drawn.append(performer.omega.clone())
    assert torch.equal(drawn[1], drawn[2]) and torch.equal(drawn[3], drawn[4])
    assert not torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[2], drawn[3])
    again = Performer(C, 6, redraw=2).train()
    again.load_state_dict(performer.state_dict())
    for each in (performer, again):
        each(q, k, v)
    assert torch.equal(performer.omega, again.omega) and not torch.equal(again.omega, drawn[4])
    performer.eval()
    for _ in range(3):
        performer(q, k, v)
    assert int(performer.drawn) == 6


def test_what_is_computed_again_for_the_gradient_has_the_same_features():
    from torch.utils.checkpoint import checkpoint

    q, k, v = draw(9)
    performer = Performer(C, 6, redraw=1).double().train()
    out = checkpoint(performer, q, k, v, use_reentrant=False)
    before = performer.omega.clone()
    out.sum().backward()
    assert torch.equal(performer.omega, before) and int(performer.drawn) == 1


@pytest.mark.parametrize("size", [1e-3, 30.0, 1e4])
def test_a_performer_is_finite_for_long_and_for_short_vectors(size):
    q, k, v = draw(200, dtype=torch.float32, size=size)
    for causal in (False, True):
        out = Performer(C, 12)(q, k, v, causal=causal)
        assert out.isfinite().all()
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), (q, k, v)))


# ── linformer


def test_a_linformer_with_the_identity_is_exact_attention():
    n = 9
    q, k, v = draw(n, heads=1)
    linformer = Linformer(n, n).double()
    with torch.no_grad():
        for matrix in (linformer.of_keys, linformer.of_values):
            matrix.copy_(torch.eye(n, n + 1))
    same(linformer(q, k, v), attend(q, k, v), (q, k, v))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    moved = linformer(q[:, :, order], k[:, :, order], v[:, :, order], where=order)
    torch.testing.assert_close(moved, attend(q, k, v)[:, :, order])


def test_a_linformer_is_its_formula_and_learns_its_projections():
    q, k, v = draw(7)
    linformer = Linformer(10, 4).double()
    projections = linformer.of_keys, linformer.of_values
    keys, values = (m[:, :7] @ x for m, x in zip(projections, (k, v), strict=True))
    weights = (q @ keys.mT / math.sqrt(C)).softmax(-1)
    same(linformer(q, k, v), weights @ values, (q, k, v, *projections))


def test_a_linformer_says_where_its_places_end():
    q, k, v = (x.detach().float() for x in draw(5))
    with pytest.raises(ValueError, match="place 4.*4.*context"):
        Linformer(4, 2)(q, k, v)
    with pytest.raises(ValueError, match="place 7"):
        Linformer(6, 2)(q, k, v, where=torch.tensor([0, 1, 7, 2, 3]))
    with pytest.raises(ValueError, match="place -1"):
        Linformer(6, 2)(q, k, v, where=torch.tensor([0.0, 1.0, -1.0, 2.0, torch.nan]))
    with pytest.raises(ValueError, match="linformer.*causal"):
        Linformer(6, 2)(q, k, v, causal=True)


# ── lsh


def met_by_hand(lsh, k, causal, real):
    """Who meets whom, by loops: in some round one bucket, and among the `near` nearest of it on each side."""
    buckets, n = lsh.hash(k), k.shape[2]
    met = torch.zeros(*k.shape[:2], n, n, dtype=torch.bool)
    for b in range(k.shape[0]):
        for h in range(k.shape[1]):
            for each in buckets[b, h].tolist():
                for i in range(n):
                    fellows = [j for j in range(n) if each[j] == each[i] and (real is None or real[b, j])]
                    before = [j for j in fellows if j < i][-lsh.near :]
                    after = [] if causal else [j for j in fellows if j > i][: lsh.near]
                    met[b, h, i, before + after] = True
    alone = ~met.any(-1)
    return met | (alone[..., None] & torch.eye(n, dtype=torch.bool))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n, near, buckets, rounds", [(1, 4, 2, 1), (23, 3, 4, 3), (24, 4, 2, 2), (17, 64, 8, 2)])
def test_lsh_is_exact_attention_over_those_it_meets(n, near, buckets, rounds, causal):
    q, _, v = draw(n)
    lsh = LSH(C, buckets, near=near, rounds=rounds).double()
    for real in (None, some_real(n)):
        k = keys_of(q)
        mask = Dense(met_by_hand(lsh, k.detach(), causal, real))
        found, true = lsh(q, q, v, causal=causal, real=real), attend(q, k, v, mask=mask)
        if real is None:
            same(found, true, (q, v))
        else:
            rows = real[:, None, :, None].expand_as(found)
            torch.testing.assert_close(found[rows], true[rows])


@pytest.mark.parametrize("causal", [False, True])
def test_lsh_with_one_bucket_is_exact_attention(causal):
    n = 21
    q, _, v = draw(n)
    others = ~torch.eye(n, dtype=torch.bool)
    others[0, 0] = causal  # the first is alone
    mask = Dense(others)
    found = LSH(C, 1, near=n, rounds=2).double()(q, q, v, causal=causal)
    same(found, attend(q, keys_of(q), v, mask=mask & Causal() if causal else mask), (q, v))


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-13, 1e-6])
@pytest.mark.parametrize("causal", [False, True])
def test_lsh_is_finite_where_queries_are_zero_as_those_of_padding_are(causal, size):
    """In heads of more than 16 channels, too: √c over the smallest number of float32 is infinite there."""
    torch.manual_seed(0)
    q, v = torch.randn(2, 2, 2, 12, 64)
    real = torch.arange(12) < torch.tensor([[7], [12]])
    q = torch.where(real[:, None, :, None], q, size * q).requires_grad_()
    v.requires_grad_()
    out = LSH(64, buckets=4, near=4)(q, q, v, causal=causal, real=real)
    grad_q, grad_v = torch.autograd.grad(out[real[:, None].expand(2, 2, 12)].square().sum(), (q, v))
    assert all(each.isfinite().all() for each in (out, grad_q, grad_v))
    assert grad_q[0, :, :7].abs().max() > 0 and not grad_q[0, :, 7:].any()


def test_near_queries_share_buckets_more_often_than_far_ones():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, 500, C, generator=random)
    y = x + 0.2 * torch.randn(x.shape, generator=random)
    lsh = LSH(C, 8, rounds=4)
    near = (lsh.hash(x) == lsh.hash(y)).float().mean()
    far = (lsh.hash(x) == lsh.hash(x.roll(1, 2))).float().mean()
    assert near > 0.75 and far < 0.25


def test_hashes_follow_from_the_seed_and_are_stored():
    one, two = LSH(C, 4, seed=1), LSH(C, 4, seed=2)
    assert torch.equal(one.directions, LSH(C, 4, seed=1).directions)
    assert not torch.equal(one.directions, two.directions)
    two.load_state_dict(one.state_dict())
    assert torch.equal(one.directions, two.directions)


# ── all of them

MAKERS = {
    "performer": lambda: Performer(C, 12).double(),
    "linformer": lambda: Linformer(40, 6).double(),
    "lsh": lambda: LSH(C, 4, near=3, rounds=2).double(),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_tokens_that_move_with_their_places_move_the_output(name, causal):
    if causal and name == "linformer":
        return
    n, approximate = 20, MAKERS[name]()
    q, k, v = (x.detach() for x in draw(n))
    real = some_real(n)
    orders = torch.stack([torch.randperm(n, generator=torch.Generator().manual_seed(s)) for s in range(B)])

    def move(x):
        return torch.stack([row[..., order, :] for row, order in zip(x, orders, strict=True)])

    out = approximate(q, k, v, causal=causal, real=real)
    moved = approximate(move(q), move(k), move(v), causal=causal, where=orders.double(), real=real.gather(1, orders))
    rows = real.gather(1, orders)[:, None, :, None].expand_as(out)
    torch.testing.assert_close(moved[rows], move(out)[rows])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_weights_that_are_told_give_the_output(name, causal):
    if causal and name == "linformer":
        return
    q, k, v = (x.detach() for x in draw(20))
    heard = []
    with tap.listen(heard.append):
        out = MAKERS[name]()(q, k, v, causal=causal, real=some_real(20))
    (told,) = heard
    rows = torch.tensor([2, 3, 11])
    weights = told.weigh(told.q[:, :, rows], told.k, rows)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, 3, dtype=torch.float64))
    torch.testing.assert_close(weights @ told.v, out[:, :, rows])
    assert told.name == name and told.implied


@pytest.mark.parametrize("name", MAKERS)
def test_half_precision_stays_near(name):
    q, k, v = (x.detach() for x in draw(20, size=0.5))
    approximate = MAKERS[name]()
    out = approximate(q, k, v)
    half = approximate.float()(q.bfloat16(), k.bfloat16(), v.bfloat16())
    assert half.dtype is torch.bfloat16
    if name == "lsh":  # a key that falls into another bucket meets others
        return
    assert (half.double() - out).abs().max() < 0.05 * out.abs().max()


def test_masks_that_are_not_known_are_refused():
    assert is_causal(Causal(), "performer") and not is_causal(None, "performer")
    for mask in (Window(3), Causal() & Window(3), Padding([3, 2])):
        with pytest.raises(ValueError, match="performer.*Causal"):
            is_causal(mask, "performer")


@pytest.mark.parametrize("name", ["performer", "lsh"])
def test_two_tokens_at_one_place_are_refused(name):
    q, k, v = (x.detach() for x in draw(4))
    with pytest.raises(ValueError, match=f"{name}.*row 0.*place 2"):
        MAKERS[name]()(q, k, v, causal=True, where=torch.tensor([0, 2, 2, 1]))
    with pytest.raises(ValueError, match=f"{name}.*NaN"):
        MAKERS[name]()(q, k, v, causal=True, where=torch.tensor([0.0, torch.nan, 2.0, 1.0]))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Performer(C, 0), "features.*0"),
        (lambda: Linformer(0, 4), "places.*0"),
        (lambda: LSH(C, 3), "buckets.*3.*even"),
        (lambda: LSH(C, 4, rounds=0), "rounds.*0"),
    ],
)
def test_sizes_that_cannot_be_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("name", MAKERS)
def test_it_says_below_which_length_exact_attention_is_faster(name):
    approximate = MAKERS[name]()
    first = approximate.wins_from[False]
    assert approximate.explain(first, causal=False) is None
    words = approximate.explain(first - 1, causal=False)
    assert name in words and f"{first:,}" in words and f"{first - 1:,}" in words
