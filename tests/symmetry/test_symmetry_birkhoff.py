"""Birkhoff's polytope: every operation against scipy, against all corners by brute force, or against its own definition."""

import builtins
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, minimize

from regard.symmetry.actions import OnAxis
from regard.symmetry.elements import Permutation
from regard.symmetry.linear.birkhoff import (
    assign,
    check_doubly_stochastic,
    decompose,
    error_of,
    gumbel_sinkhorn,
    order_of,
    permutation_matrix,
    project,
    sinkhorn,
    soft_sort,
)

SIZES = [1, 2, 3, 5, 9]


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def corners(n):
    return torch.stack(
        [permutation_matrix(torch.tensor(order), torch.float64) for order in itertools.permutations(range(n))]
    )


# ── permutations ────────────────────────────────────────────────────────────────────────────────────────────


def test_permutation_matrices_move_as_permutations_do():
    order, x = torch.tensor([2, 0, 3, 1]), torch.arange(4.0)
    matrix = permutation_matrix(order)
    assert torch.equal(matrix @ x, x[order])
    assert torch.equal(matrix @ x, OnAxis(0).act(Permutation((2, 0, 3, 1)), x))
    assert torch.equal(order_of(matrix), order)
    batch = torch.stack([torch.randperm(6, generator=torch.Generator().manual_seed(k)) for k in range(8)]).view(2, 4, 6)
    assert permutation_matrix(batch).shape == (2, 4, 6, 6) and torch.equal(order_of(permutation_matrix(batch)), batch)
    for matrices in (permutation_matrix(batch), permutation_matrix(torch.tensor([0]))):
        assert error_of(matrices).max() == 0


# ── Sinkhorn ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sinkhorn_balances_and_changes_only_rows_and_columns(n, dtype):
    scores = random(2, 3, n, n, dtype=dtype)
    found = sinkhorn(scores)
    assert found.converged and found.matrix.shape == scores.shape and found.error.shape == (2, 3)
    assert found.error.max() < 1e4 * torch.finfo(dtype).eps
    check_doubly_stochastic(found.matrix, 1e4 * torch.finfo(dtype).eps)
    factors = found.matrix.log() - scores  # u_i + v_j, so every second difference is 0
    second = factors - factors[..., :1, :] - factors[..., :, :1] + factors[..., :1, :1]
    assert second.abs().max() < 1e-4 if dtype == torch.float32 else second.abs().max() < 1e-12


def test_sinkhorn_is_the_nearest_in_entropy():
    """Among doubly stochastic matrices it has the least Σ P log P − P·scores: a step to any corner makes it larger."""
    scores = random(4, 4)
    found = sinkhorn(scores).matrix
    cost = (found * (found.log() - scores)).sum()
    for corner in corners(4):
        near = 0.999 * found + 0.001 * corner
        assert (near * (near.log() - scores)).sum() > cost


def test_sinkhorn_says_when_it_has_not_arrived():
    scores = 4 * random(6, 6)
    short, long = sinkhorn(scores, iterations=3), sinkhorn(scores, iterations=5000, tolerance=1e-6)
    assert not short.converged and short.iterations == 3 and short.error > 1e-3
    assert long.converged and 3 < long.iterations < 5000 and long.error < 2e-6
    never = sinkhorn(torch.tensor([[0.0, 0.0, 0.0], [0.0, -math.inf, -math.inf], [0.0, -math.inf, -math.inf]]))
    assert not never.converged and never.error > 0.1  # no permutation is allowed here
    huge = sinkhorn(torch.tensor([[1e6, 0.0], [0.0, 1e6]]))
    assert huge.converged and torch.equal(huge.matrix, torch.eye(2))


def test_sinkhorn_gradients_and_forbidden_pairs():
    scores = random(2, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: sinkhorn(s, iterations=50).matrix, (scores,))
    mask = torch.tensor([[0.0, -math.inf, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    found = sinkhorn(scores + mask)
    assert found.converged and (found.matrix[:, 0, 1] == 0).all()
    (grad,) = torch.autograd.grad(found.matrix[:, 0, 0].sum(), scores)
    assert grad.isfinite().all() and grad.any()


@pytest.mark.parametrize("n", [2, 3, 5])
def test_at_low_temperature_it_is_as_good_as_the_exact_assignment(n):
    """It gives away at most the entropy that it gains, temperature · n log n."""
    scores = random(4, n, n, seed=n)
    best = (permutation_matrix(assign(scores), torch.float64) * scores).sum((-2, -1))
    for temperature in (1.0, 0.1, 0.02):
        cold = sinkhorn(scores, temperature=temperature, iterations=500)
        assert cold.error.max() < 0.02
        lost = best - (cold.matrix * scores).sum((-2, -1))
        assert (lost < temperature * n * math.log(n) + 0.1).all()
    warm = sinkhorn(scores, temperature=1e6)
    torch.testing.assert_close(warm.matrix, torch.full_like(warm.matrix, 1 / n), rtol=0, atol=1e-5)


# ── assignment ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [1, 2, 4, 6])
def test_assign_is_the_best_of_all_orders(n):
    scores = random(2, 3, n, n)
    order = assign(scores)
    best = torch.einsum("abij,kij->abk", scores, corners(n)).max(-1).values
    torch.testing.assert_close((permutation_matrix(order, torch.float64) * scores).sum((-2, -1)), best)
    assert order[1, 2].tolist() == linear_sum_assignment(scores[1, 2], maximize=True)[1].tolist()
    assert assign(scores[:0]).shape == (0, 3, n)


def test_gumbel_sinkhorn_draws_orders_as_likely_as_their_scores_say():
    """At n = 2 the noise is a difference of two sums of two Gumbels, and order 01 is likelier the higher its score."""
    scores = torch.tensor([[1.5, 0.0], [0.0, 1.5]], dtype=torch.float64).expand(3000, 2, 2)
    drawn = gumbel_sinkhorn(scores, temperature=0.3, generator=torch.Generator().manual_seed(0), iterations=50)
    again = gumbel_sinkhorn(scores, temperature=0.3, generator=torch.Generator().manual_seed(0), iterations=50)
    assert torch.equal(drawn.matrix, again.matrix)
    uniform = torch.rand(3000, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    noise = -(-uniform.log()).log()
    share = (3.0 + noise[:, 0] + noise[:, 1] > noise[:, 2] + noise[:, 3]).double().mean()
    assert abs((drawn.matrix[:, 0, 0] > 0.5).double().mean() - share) < 0.04


def test_a_hard_draw_is_a_permutation_with_a_soft_gradient():
    scores = random(2, 4, 4).requires_grad_()
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    hard = gumbel_sinkhorn(scores, hard=True, generator=generators[0])
    soft = gumbel_sinkhorn(scores, generator=generators[1])
    assert set(hard.matrix.unique().tolist()) == {0.0, 1.0}
    assert error_of(hard.matrix).max() == 0
    weights = random(2, 4, 4, seed=2)
    grads = [torch.autograd.grad((each.matrix * weights).sum(), scores)[0] for each in (hard, soft)]
    torch.testing.assert_close(*grads)


def test_soft_sort():
    x = random(3, 7).requires_grad_()
    cold = soft_sort(x, temperature=1e-3)
    assert cold.converged
    torch.testing.assert_close((cold.matrix @ x[..., None])[..., 0], x.sort(-1).values, rtol=0, atol=1e-4)
    warm = soft_sort(x, temperature=1e5)
    torch.testing.assert_close(
        (warm.matrix @ x[..., None])[..., 0], x.mean(-1, keepdim=True).expand_as(x), rtol=0, atol=1e-4
    )
    middle = soft_sort(x, temperature=0.5)
    soft = (middle.matrix @ x[..., None])[..., 0]
    assert middle.converged and (soft[:, 1:] > soft[:, :-1]).all()
    assert torch.autograd.gradcheck(lambda x: soft_sort(x, temperature=0.5, iterations=30).matrix, (x[:1, :4],))
    assert soft_sort(torch.tensor([2.0])).matrix.tolist() == [[1.0]]


# ── decomposition ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [*SIZES, 14])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_matrix_is_a_mean_of_permutations(n, dtype):
    matrix = sinkhorn(2 * random(2, 3, n, n, dtype=dtype), iterations=5000).matrix
    parts = decompose(matrix, 1e-4)
    assert parts.weights.shape[-1] <= (n - 1) ** 2 + 1
    assert (parts.weights >= 0).all() and (parts.weights.diff(dim=-1) <= 0).all()
    torch.testing.assert_close(parts.weights.sum(-1), torch.ones(2, 3, dtype=dtype))
    assert (parts.matrix() - matrix).abs().max() < (1e-11 if dtype == torch.float64 else 1e-5)
    assert parts.weights.dtype == dtype


def test_the_bound_is_reached_and_a_permutation_is_itself():
    assert decompose(sinkhorn(random(5, 5)).matrix).weights.shape == (17,)
    for order in itertools.permutations(range(3)):
        parts = decompose(permutation_matrix(torch.tensor(order), torch.float64))
        assert parts.weights.tolist() == [1.0] and parts.orders.tolist() == [list(order)]
    even = decompose(torch.full((4, 4), 0.25, dtype=torch.float64))
    assert even.weights.tolist() == [0.25] * 4  # a Latin square
    ragged = decompose(torch.stack([torch.eye(3).double(), torch.full((3, 3), 1 / 3, dtype=torch.float64)]))
    assert ragged.weights[0].tolist() == [1.0, 0.0, 0.0]
    torch.testing.assert_close(ragged.matrix()[0], torch.eye(3).double())


@settings(max_examples=40)
@given(st.lists(st.tuples(st.permutations(range(5)), st.integers(1, 9)), min_size=1, max_size=9))
def test_any_mean_of_permutations_is_one_again(chosen):
    """Sparse ones too, where hardly any permutation fits."""
    total = sum(weight for _, weight in chosen)
    matrix = sum(weight / total * permutation_matrix(torch.tensor(order), torch.float64) for order, weight in chosen)
    parts = decompose(matrix)
    torch.testing.assert_close(parts.matrix(), matrix, rtol=0, atol=1e-12)
    assert len(parts.weights) <= 17
    allowed = matrix > 0
    assert all(allowed[i, j] for order in parts.orders.tolist() for i, j in enumerate(order))


# ── projection ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_no_corner_is_nearer_than_the_projection(n, scale):
    """At the nearest point of a convex set the way back makes no acute angle with the way to any corner."""
    matrix = scale * random(20, n, n)
    found = project(matrix)
    assert found.converged and found.error.max() < 1e-9
    angle = torch.einsum("bij,bkij->bk", matrix - found.matrix, corners(n) - found.matrix[:, None])
    assert angle.max() < 1e-9 * max(1, scale)


def test_projection_agrees_with_a_solver_of_scipy():
    matrix = random(3, 3)
    sums = [{"type": "eq", "fun": lambda p, a=axis: (p.reshape(3, 3).sum(a) - 1)[a:]} for axis in (0, 1)]  # five count
    start, bounds = torch.full((9,), 1 / 3, dtype=torch.float64).numpy(), [(0, None)] * 9
    best = minimize(
        lambda p: ((p - matrix.flatten().numpy()) ** 2).sum(), start, bounds=bounds, constraints=sums, tol=1e-12
    )
    assert best.success
    torch.testing.assert_close(project(matrix).matrix.flatten(), torch.from_numpy(best.x), rtol=0, atol=1e-6)


def test_projection_of_what_is_inside_and_of_odd_matrices():
    inside = sinkhorn(random(4, 4)).matrix
    torch.testing.assert_close(project(inside).matrix, inside)
    torch.testing.assert_close(project(project(random(6, 6)).matrix).matrix, project(random(6, 6)).matrix)
    for odd in (torch.zeros(3, 3), torch.full((3, 3), 1e6), -5 * torch.eye(3), torch.diag(torch.tensor([1e8, 0, 0]))):
        assert project(odd.double()).converged
    for n in (10, 30):
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            many = project((10 * random(5, n, n)).to(dtype))
            assert many.converged and many.matrix.dtype == dtype
    assert project(torch.zeros(0, 3, 3)).matrix.shape == (0, 3, 3)


def test_projection_has_the_gradient_of_its_face():
    for scale in (0.3, 2.0):
        matrix = (scale * random(3, 3, seed=3)).requires_grad_()
        assert torch.autograd.gradcheck(lambda m: project(m).matrix, (matrix,))


# ── bad input, and no scipy ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: decompose(torch.tensor([[0.5, 0.6], [0.5, 0.4]])), r"sum to 0.9 … 1.1, .* off by 0.1 where"),
        (lambda: decompose(torch.tensor([[1.5, -0.5], [-0.5, 1.5]])), "the least entry is -0.5"),
        (lambda: decompose(torch.full((2, 2), math.nan)), "rows and columns sum to nan … nan"),
        (lambda: decompose(torch.ones(2, 3)), r"matrix must be '... n n', got shape \(2, 3\)"),
        (lambda: decompose(torch.eye(2).long()), "a matrix must be of real numbers, got torch.int64"),
        (lambda: sinkhorn(torch.tensor([[0.0, math.nan], [0.0, 0.0]])), "scores must be numbers, or −inf where a pair"),
        (
            lambda: sinkhorn(torch.tensor([[0.0, -math.inf], [0.0, -math.inf]])),
            "with one allowed in every row and column",
        ),
        (lambda: sinkhorn(torch.zeros(2, 2), temperature=0.0), "temperature must be above zero, got 0.0"),
        (lambda: sinkhorn(torch.zeros(2, 2), iterations=0), "iterations must be above zero, got 0"),
        (lambda: sinkhorn(torch.zeros(0, 0)), "a matrix of 0 × 0 has nothing to permute"),
        (lambda: gumbel_sinkhorn(torch.zeros(2)), "matrix must be '... n n'"),
        (
            lambda: assign(torch.tensor([[0.0, -math.inf], [0.0, -math.inf]])),
            "no permutation is allowed: too many scores are −inf",
        ),
        (lambda: assign(torch.tensor([[math.inf]])), "scores must be numbers"),
        (lambda: project(torch.tensor([[math.inf]])), "only finite numbers can be projected"),
        (
            lambda: permutation_matrix(torch.tensor([[0, 1], [1, 1]])),
            r"an order holds each of 0 … 1 once, as int64, got \[1, 1\]",
        ),
        (lambda: permutation_matrix(torch.tensor([0.0, 1.0])), "as int64, got torch.float32"),
        (
            lambda: order_of(torch.full((2, 2), 0.5)),
            "one 1 in every row and column, and 0 elsewhere; assign decides for one",
        ),
        (lambda: order_of(torch.tensor([[1.0, 0.0], [1.0, 0.0]])), "an order holds each of 0 … 1 once"),
    ],
)
def test_words_of_errors(make, words):
    with pytest.raises(ValueError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_without_scipy_the_exact_ones_say_what_to_install_and_the_others_work(monkeypatch):
    real = builtins.__import__

    def without(name, *more, **named):
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    scores = random(3, 3)
    for call in (lambda: assign(scores), lambda: decompose(torch.eye(3)), lambda: gumbel_sinkhorn(scores, hard=True)):
        with pytest.raises(
            ValueError, match=r"^an exact assignment needs scipy; install .*: pip install 'regard\[math\]'$"
        ):
            call()
    assert sinkhorn(scores).converged and project(scores).converged
