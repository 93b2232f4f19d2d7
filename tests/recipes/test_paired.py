"""Paired differences: intervals that hold what they promise, and a score test that agrees with them."""

import math

import numpy as np
import pytest
import torch

from regard.recipes.evaluation import find_intervals, judge_shares
from regard.recipes.intervals import Z, bootstrap_interval, tango_interval, wilson_interval
from regard.recipes.paired import differ
from regard.training.scores import Scores


def scores(right, loss=None):
    right = torch.tensor(right, dtype=torch.float64)
    sums = {"accuracy": right} | ({} if loss is None else {"log loss": torch.tensor(loss).double()})
    n = len(right)
    return Scores(
        main="accuracy",
        sums=sums,
        counts=torch.ones(n).double(),
        target=torch.zeros(n),
        predicted=torch.zeros(n),
        shares=torch.ones(n),
    )


def test_a_difference_counts_the_examples_on_which_only_one_is_right():
    found = differ(scores([1, 1, 1, 0, 0]), scores([1, 0, 0, 1, 0]), "accuracy")
    assert (found.value, found.only, found.count) == (pytest.approx(0.2), (2, 1), 5)
    assert found.low < 0 < found.high and found.better is None
    back = differ(scores([1, 0, 0, 1, 0]), scores([1, 1, 1, 0, 0]), "accuracy")
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))


@pytest.mark.parametrize("rising, better", [("accuracy", True), ("log loss", False)])
def test_more_is_better_of_an_accuracy_and_worse_of_a_loss(rising, better):
    high, low = scores([1] * 40, [2.0] * 40), scores([0] * 40, [1.0] * 40)
    assert differ(high, low, rising).better is better
    assert differ(low, high, rising).better is not better


@pytest.mark.parametrize("b, c, n", [(0, 0, 20), (9, 2, 50), (1, 12, 40), (5, 5, 10), (30, 0, 30)])
def test_the_limits_are_where_the_score_test_just_rejects(b, c, n):
    low, high = tango_interval(b, c, n)
    assert -1 <= low <= (b - c) / n <= high <= 1 and low < high
    for d in (low, high):
        if abs(d) > 1 - 1e-9:
            continue
        # the largest likelihood under a difference d, by trying many shares: not by the formula
        q = np.linspace(max(0.0, -d) + 1e-9, (1 - abs(d)) / 2 + max(0.0, -d) - 1e-9, 20_001)
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = 1 - 2 * q - d
            terms = [
                k * np.log(np.maximum(p, 1e-300)) if k else 0.0 * q for k, p in ((b, q + d), (c, q), (n - b - c, rest))
            ]
        best = q[int(np.argmax(sum(terms)))]
        z = (b - c - n * d) / math.sqrt(n * (2 * best + d - d * d))
        assert abs(abs(z) - Z) < 0.02


def test_intervals_cover_the_truth_nineteen_times_of_twenty():
    random = np.random.default_rng(0)
    drawn = random.multinomial(80, [0.15, 0.08, 0.77], size=400)
    limits = [tango_interval(int(b), int(c), 80) for b, c, _ in drawn]
    assert 0.92 < np.mean([low <= 0.07 <= high for low, high in limits]) < 0.98
    covered = []
    for number in range(60):
        counts = random.integers(1, 9, 120)
        apart = counts * 0.3 + random.normal(0, 1, 120) * np.sqrt(counts)  # per target: 0.3
        mean = lambda drawn, apart=apart, counts=counts: apart[drawn].sum(1) / counts[drawn].sum(1)  # noqa: E731
        low, high = bootstrap_interval(mean, len(apart), seed=number)
        covered.append(low <= 0.3 <= high)
    assert np.mean(covered) > 0.85


def test_one_example_has_no_interval():
    assert bootstrap_interval(lambda drawn: drawn.mean(1), 1) is None


def test_a_share_has_the_interval_of_wilson():
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)  # as in statsmodels
    assert wilson_interval(0, 20)[0] == 0 and 0.15 < wilson_interval(0, 20)[1] < 0.17
    found = find_intervals(scores([1] * 8 + [0] * 2, [0.5] * 10), {"loss": 0.5, "accuracy": 0.8})
    assert found == {"loss": pytest.approx((0.5, 0.5)), "accuracy": wilson_interval(8, 10)}


@pytest.mark.parametrize(
    "confusion, found",
    [
        ([[90, 0], [10, 0]], {"balanced accuracy": 0.5, "majority share": 0.9}),
        ([[50, 10], [10, 30]], {}),
        ([[72, 0, 0], [14, 0, 0], [0, 7, 7]], {"balanced accuracy": 0.5, "majority share": 0.72}),
    ],
)
def test_an_accuracy_stands_beside_the_share_of_a_large_class(confusion, found):
    assert judge_shares(torch.tensor(confusion)) == pytest.approx(found)
