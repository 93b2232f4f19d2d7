"""Birkhoff's polytope: the doubly stochastic matrices, whose corners are the permutation matrices.

A matrix is doubly stochastic when nothing in it is negative and every row and every column sums to 1. Every
such matrix is a mean of permutations (`decompose`), so it is a permutation that has not quite decided.
`sinkhorn` makes one of any scores, `project` finds the nearest one, `assign` decides.

Matrices are ... n n, with any axes in front, on any device. (Px)_i = x_order[i], so P_ij = 1 where j =
order[i].
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.shapes import expect

BALANCING = 20  # rounds, before a matrix is taken apart


class Balanced(NamedTuple):
    """A doubly stochastic matrix, and how well it was reached."""

    matrix: Tensor  # ... n n
    error: Tensor  # ...: the largest distance of a row's or a column's sum from 1
    iterations: int
    converged: bool  # every error is within the tolerance


class Decomposition(NamedTuple):
    """Σ_k weights_k P_k. A matrix with fewer permutations than another of its batch has weights of 0 at the
    end."""

    weights: Tensor  # ... k, the largest first
    orders: Tensor  # ... k n

    def matrix(self) -> Tensor:
        return (self.weights[..., None, None] * permutation_matrix(self.orders).to(self.weights.dtype)).sum(-3)


# ── permutations and checks


def permutation_matrix(order: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """P with P x = x[order].   ... n -> ... n n"""
    _square_orders(order)
    return torch.nn.functional.one_hot(order, order.shape[-1]).to(dtype or torch.get_default_dtype())


def order_of(matrix: Tensor) -> Tensor:
    """The order of a permutation matrix.   ... n n -> ... n"""
    order = _square(matrix).argmax(-1)
    if not torch.equal(matrix, torch.nn.functional.one_hot(order, matrix.shape[-1]).to(matrix.dtype)):
        raise RegardError(
            "a permutation matrix has one 1 in every row and column, and 0 elsewhere; assign decides for one"
        )
    _square_orders(order)
    return order


def error_of(matrix: Tensor) -> Tensor:
    """The largest distance of a row's or a column's sum from 1, or of a negative entry from 0.
    ... n n -> ..."""
    sums = torch.cat((_square(matrix).sum(-1), matrix.sum(-2)), -1) - 1
    return torch.maximum(sums.abs().amax(-1), -matrix.amin((-2, -1)))


def check_doubly_stochastic(matrix: Tensor, tolerance: float | None = None) -> None:
    """A ValueError unless it is, within a tolerance; None: half the digits of its dtype."""
    _square(matrix)
    allowed = torch.finfo(matrix.dtype).eps ** 0.5 if tolerance is None else tolerance
    error = error_of(matrix).max().item() if matrix.numel() else 0.0
    if not error <= allowed:
        sums = torch.cat((matrix.sum(-1), matrix.sum(-2)), -1)
        raise RegardError(
            f"not doubly stochastic: rows and columns sum to {sums.min():.6g} … {sums.max():.6g}, the "
            f"least entry is {matrix.min():.3g}, off by {error:.1g} where {allowed:.1g} is allowed; use "
            "sinkhorn(matrix.log()), or project"
        )


def _square(matrix: Tensor) -> Tensor:
    n, _ = expect(matrix, "... n n", name="matrix")
    if not n:
        raise RegardError("a matrix of 0 × 0 has nothing to permute")
    if not matrix.is_floating_point():
        raise RegardError(f"a matrix must be of real numbers, got {matrix.dtype}; use matrix.float()")
    return matrix


def _square_orders(order: Tensor) -> None:
    (n,) = expect(order, "... n", name="order")
    each = torch.arange(n, device=order.device).expand_as(order)
    if order.dtype != torch.long or not torch.equal(order.sort(-1).values, each):
        wrong = next((row for row in order.reshape(-1, n).tolist() if sorted(row) != list(range(n))), order.dtype)
        raise RegardError(f"an order holds each of 0 … {n - 1} once, as int64, got {wrong}")


# ── scores to matrices


def sinkhorn(
    scores: Tensor, *, temperature: float = 1.0, iterations: int = 1000, tolerance: float | None = None
) -> Balanced:
    """The matrix D₁ exp(scores / temperature) D₂ that is doubly stochastic: rows and columns are divided by
    their sums in turn.

    In the logarithm, so that nothing overflows, and with gradients through every step. A score of −inf
    forbids a pair. The lower the temperature, the nearer to the permutation that `assign` finds, and the more
    iterations it takes: it stops at `tolerance` (None: a few roundings of the largest exponent) or after
    `iterations`, and says which. ... n n -> ... n n
    """
    _square(scores)
    _positive(temperature=temperature, iterations=iterations)
    if (
        torch.isnan(scores).any()
        or (scores == math.inf).any()
        or (scores.amax(-1).isinf() | scores.amax(-2).isinf()).any()
    ):
        raise RegardError(
            "scores must be numbers, or −inf where a pair is forbidden, with one allowed in every row and column"
        )
    x, done = scores / temperature, 0
    largest = max(1.0, x.detach().abs().nan_to_num(posinf=0.0).max().item()) if x.numel() else 1.0
    eps = torch.finfo(scores.dtype).eps
    allowed = min(8 * eps * largest, eps**0.5) if tolerance is None else tolerance
    rows, columns = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1, :])
    for _ in range(iterations):
        done += 1
        columns = -torch.logsumexp(x + rows, -2, keepdim=True)
        sums = torch.logsumexp(x + columns, -1, keepdim=True)
        error = torch.expm1((sums + rows).detach()).abs()  # columns sum to 1 now, so only rows are off
        if error.numel() == 0 or error.max().item() <= allowed:
            break
        rows = -sums
    matrix = (x + rows + columns).exp()
    error = error_of(matrix.detach()) if matrix.numel() else matrix.new_zeros(matrix.shape[:-2])
    return Balanced(matrix, error, done, bool((error <= 2 * allowed).all()))


def gumbel_sinkhorn(
    scores: Tensor,
    *,
    temperature: float = 1.0,
    hard: bool = False,
    iterations: int = 1000,
    generator: torch.Generator | None = None,
) -> Balanced:
    """A random matrix near a permutation, likelier the higher its score: sinkhorn of scores + Gumbel noise,
    at a temperature.

    hard: the permutation itself, with the gradient of the soft matrix (straight through); needs scipy.
    ... n n -> ... n n
    """
    _square(scores)
    uniform = torch.rand(scores.shape, dtype=scores.dtype, device=scores.device, generator=generator)
    noise = -(-uniform.clamp(min=torch.finfo(scores.dtype).tiny).log()).log()
    soft = sinkhorn(scores + noise, temperature=temperature, iterations=iterations)
    if not hard:
        return soft
    chosen = permutation_matrix(assign(scores + noise), scores.dtype)
    return soft._replace(matrix=chosen + (soft.matrix - soft.matrix.detach()))


def assign(scores: Tensor) -> Tensor:
    """The order with the largest Σ_i scores[i, order[i]], exactly, by scipy on the processor.
    ... n n -> ... n"""
    _square(scores)
    if torch.isnan(scores).any() or (scores == math.inf).any():
        raise RegardError("scores must be numbers, or −inf where a pair is forbidden")
    solve = _linear_sum_assignment()
    exact = scores.detach().double().cpu()
    each = exact.flatten(0, -3).unbind() if exact.dim() > 2 else (exact,)
    try:
        found = [torch.from_numpy(solve(matrix.numpy(), maximize=True)[1]) for matrix in each]
    except ValueError as error:
        raise RegardError("no permutation is allowed: too many scores are −inf") from error
    if found:
        return torch.stack(found).view(scores.shape[:-1]).to(scores.device)
    return scores.new_zeros(scores.shape[:-1]).long()


def soft_sort(x: Tensor, *, temperature: float = 1.0, iterations: int = 1000) -> Balanced:
    """A doubly stochastic P with P x nearly in ascending order: sinkhorn of −|sorted_i − x_j|.
    ... n -> ... n n

    At low temperature P x is sort(x), at high temperature everywhere the mean. Gradients reach x through P.
    """
    expect(x, "... n", name="x")
    return sinkhorn(
        -(x.sort(-1).values[..., :, None] - x[..., None, :]).abs(), temperature=temperature, iterations=iterations
    )


# ── matrices to permutations, and back into the polytope


def decompose(matrix: Tensor, tolerance: float | None = None) -> Decomposition:
    """Birkhoff and von Neumann: a doubly stochastic matrix as a mean of at most (n−1)² + 1 permutations.

    While something is left, some permutation has all its entries where something is left; as much of it as
    fits is taken away, which leaves one entry less at least. Exact up to the rounding of float64; by scipy on
    the processor, without gradients.
    """
    check_doubly_stochastic(matrix, tolerance)
    n, whole = matrix.shape[-1], matrix.detach().double().cpu().reshape(-1, *matrix.shape[-2:])
    found = [_taken_apart(each) for each in whole]
    most = max((len(weights) for weights, _ in found), default=1)
    weights = torch.zeros(len(found), most, dtype=matrix.dtype)
    orders = torch.arange(n).repeat(len(found), most, 1)
    for k, (some, taken) in enumerate(found):
        weights[k, : len(some)], orders[k, : len(some)] = some.to(matrix.dtype), taken
    ahead = matrix.shape[:-2]
    return Decomposition(weights.view(*ahead, most).to(matrix.device), orders.view(*ahead, most, n).to(matrix.device))


def _taken_apart(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Weights k and orders k n of one matrix."""
    solve, n = _linear_sum_assignment(), len(matrix)
    rest = matrix.clamp(min=0).numpy().copy()
    # what another dtype rounded is put right, or the last permutations would not be found
    for _ in range(BALANCING):
        rest /= rest.sum(1, keepdims=True)
        rest /= rest.sum(0, keepdims=True)
    nothing, rows = 8 * n * np.finfo(float).eps, np.arange(n)
    weights, orders = [], []
    while True:
        columns = solve(np.where(rest > nothing, -rest, n))[1]  # an empty entry costs more than all others can bring
        weight = rest[rows, columns].min()
        if weight <= nothing:
            break
        weights.append(weight)
        orders.append(columns)
        rest[rows, columns] -= weight
    by_weight = np.argsort(weights, kind="stable")[::-1]
    found = torch.from_numpy(np.array(weights)[by_weight])
    return found / found.sum(), torch.from_numpy(np.stack(orders)[by_weight])


def project(matrix: Tensor, *, iterations: int = 100, tolerance: float | None = None) -> Balanced:
    """The doubly stochastic matrix nearest to this one, in squares.   ... n n -> ... n n

    It is max(matrix + u_i + v_j, 0) for the u and v that make all sums 1, found by Newton's method on the
    dual problem, which is convex. The gradient is exact.
    """
    _square(matrix)
    _positive(iterations=iterations)
    if not torch.isfinite(matrix).all():
        raise RegardError("only finite numbers can be projected, got nan or inf")
    x = matrix.to(torch.float32 if matrix.device.type == "mps" else torch.float64)  # which has no wider one
    largest = max(1.0, x.detach().abs().max().item()) if x.numel() else 1.0
    allowed = 32 * x.shape[-1] * torch.finfo(x.dtype).eps * largest if tolerance is None else tolerance
    n, start = x.shape[-1], x.detach()
    share = (n - start.sum((-2, -1))[..., None]) / (2 * n)
    # what would do without the max
    duals = torch.cat((1 - start.sum(-1) - share, 1 - start.sum(-2) - share), -1) / n
    done = 0
    with torch.no_grad():
        for _ in range(iterations):
            done += 1
            gap = _gap(start, duals)
            if gap.numel() == 0 or gap.abs().max().item() <= allowed:
                break
            duals = _descend(start, duals, gap, _newton(start, duals, gap))
    back = torch.linalg.pinv(_slope(start, duals), rtol=torch.finfo(x.dtype).eps ** 0.5, hermitian=True)
    follow = -(back @ _gap(x, duals)[..., None])[..., 0]
    follow = follow - follow.detach()  # no value of its own, but the derivative of u and v
    found = (x + _sums(duals + follow)).clamp(min=0).to(matrix.dtype)
    error = error_of(found.detach()) if found.numel() else found.new_zeros(found.shape[:-2])
    return Balanced(found, error, done, bool((error <= max(2 * allowed, 4 * n * torch.finfo(matrix.dtype).eps)).all()))


def _sums(duals: Tensor) -> Tensor:
    """u_i + v_j.   ... 2n -> ... n n"""
    u, v = duals.chunk(2, -1)
    return u[..., :, None] + v[..., None, :]


def _gap(x: Tensor, duals: Tensor) -> Tensor:
    """How far all sums are from 1: the gradient of the dual.   ... 2n"""
    y = (x + _sums(duals)).clamp(min=0)
    return torch.cat((y.sum(-1), y.sum(-2)), -1) - 1


def _slope(x: Tensor, duals: Tensor) -> Tensor:
    """The derivative of the gap by the duals: how many entries are positive, and which.   ... 2n 2n"""
    inside = (x + _sums(duals) > 0).to(x.dtype)
    rows, columns = torch.diag_embed(inside.sum(-1)), torch.diag_embed(inside.sum(-2))
    return torch.cat((torch.cat((rows, inside), -1), torch.cat((inside.mT, columns), -1)), -2)


def _newton(x: Tensor, duals: Tensor, gap: Tensor) -> Tensor:
    """The step that closes the gap if nothing else becomes positive; damped, for where nothing is it has no
    end.   ... 2n"""
    damp = 0.1 * gap.abs().amax(-1).clamp(max=1.0) + 16 * x.shape[-1] * torch.finfo(x.dtype).eps
    eye = torch.eye(gap.shape[-1], dtype=x.dtype, device=x.device)
    return -torch.linalg.solve(_slope(x, duals) + damp[..., None, None] * eye, gap[..., None])[..., 0]


def _descend(x: Tensor, duals: Tensor, gap: Tensor, step: Tensor) -> Tensor:
    """As much of the step, halved and halved again, as makes the dual smaller: each matrix of the batch for
    itself."""

    def dual(at: Tensor) -> Tensor:
        return (x + _sums(at)).clamp(min=0).square().sum((-2, -1)) / 2 - at.sum(-1)

    now, slope = dual(duals), (gap * step).sum(-1)
    rounding = 8 * torch.finfo(x.dtype).eps * (1 + now.abs())
    length = torch.ones_like(now)
    for _ in range(30):
        enough = dual(duals + length[..., None] * step) <= now + 1e-4 * length * slope + rounding
        if enough.all():
            break
        length = torch.where(enough, length, length / 2)
    return duals + length[..., None] * step


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise RegardError(f"{name} must be above zero, got {value}")


def _linear_sum_assignment() -> Any:
    try:
        from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]
    except ImportError as error:
        raise RegardError("an exact assignment needs scipy; install it with: pip install 'regard[math]'") from error
    return linear_sum_assignment
