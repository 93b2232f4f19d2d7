"""Made tasks: the answer computed by somebody else, the best likelihood that can be had, and batches by number."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from regard.data.batch import generator
from regard.recipes.sets.cluster import Gaussians
from regard.recipes.sets.config import SetsConfig
from regard.recipes.sets.made_sets import MADE, Wish
from tests.recipes.sets.prepared import prepared


def drawn(task, count=60, points=None, turn="any", seed=0):
    return MADE[task].draw(Wish(count, points, turn), generator(seed))


def sets(found):
    return [found.points[a:b] for a, b in zip(found.starts[:-1], found.starts[1:], strict=True)]


@pytest.mark.parametrize("task, low, high, answer", [("max", 1, 99, max), ("sum", 0, 9, sum)])
def test_max_and_sum(task, low, high, answer):
    found = drawn(task, 500)
    assert found.points.min() == low and found.points.max() == high and (found.points == found.points.round()).all()
    assert {len(each) for each in sets(found)} == set(range(1, 11))
    assert found.target[:, 0].tolist() == [answer(each[:, 0].tolist()) for each in sets(found)]


def test_statistics():
    found = drawn("statistics")
    for each, (mean, variance, entropy) in zip(sets(found), found.target, strict=True):
        digits = each[:, 0]
        assert 10 <= len(digits) <= 100 and set(digits) <= set(range(10))
        np.testing.assert_allclose([mean, variance], [np.mean(digits), np.var(digits)])
        np.testing.assert_allclose(entropy, stats.entropy(np.bincount(digits.astype(int))), atol=1e-12)


def test_clusters_come_from_the_mixture_that_they_say():
    """Their likelihood by scipy is that of ours, and what is published for the truth: −1.4726 (here within its spread)."""
    ours, theirs, sizes = [], [], set()
    for seed in range(120):
        found = drawn("clusters", 10, seed=seed)
        made, n = found.target.reshape(10, 4, 5), len(found.points) // 10
        sizes.add(n)
        points = found.points.reshape(10, n, 2)
        share, middle, deviation = (torch.from_numpy(part) for part in (made[..., 0], made[..., 1:3], made[..., 3:]))
        ours.append(Gaussians(share.log(), middle, deviation).log_likelihood(torch.from_numpy(points)).mean().item())
        if seed < 3:
            each = [
                [
                    np.log(p) + stats.multivariate_normal(m, np.diag(s**2)).logpdf(x)
                    for p, m, s in zip(row[:, 0], row[:, 1:3], row[:, 3:], strict=True)
                ]
                for row, x in zip(made, points, strict=True)
            ]
            theirs.append(np.mean([logsumexp(each[i], axis=0).mean() for i in range(10)]))
    np.testing.assert_allclose(ours[:3], theirs)
    error = np.std(ours) / len(ours) ** 0.5
    assert abs(np.mean(ours) + 1.4726) < 4 * error < 0.06
    assert min(sizes) >= 100 and max(sizes) <= 500 and len(sizes) > 80


def test_solids_have_names_and_are_turned_unless_told_not_to():
    found = drawn("solids", 24, points=64)
    assert (
        found.points.shape == (24 * 64, 3) and set(found.target) <= set(range(12)) and len(MADE["solids"].classes) == 12
    )
    cubes = MADE["solids"].draw(Wish(200, 64, "none"), generator(0))
    flat = np.isclose(abs(cubes.points.reshape(200, 64, 3)[cubes.target == 7]), 0.5, atol=0.2).any(-1).mean()
    assert flat > 0.95  # each point of a cube is on a face


@pytest.mark.parametrize("task", MADE)
def test_batches_follow_from_seed_and_step_alone(task):
    points = 16 if task in ("solids", "clusters") else None
    job, again, otherwise = (prepared(task, seed=seed, points=points) for seed in (3, 3, 4))
    source, other = job.source, again.source
    first = [source.batch(step) for step in range(4)]
    for step in (3, 0, 2):
        batch = other.batch(step)
        assert torch.equal(batch["x"], first[step]["x"]) and torch.equal(batch.target, first[step].target)
    assert not torch.equal(first[0]["x"][0, :1], first[1]["x"][0, :1])
    assert sum(len(batch["x"]) for batch in source.validation()) == job.validation == 512
    assert job.notes == ()  # the task says what is asked
    a, b = (torch.cat([batch.target for batch in each.validation()]) for each in (source, other))
    assert torch.equal(a, b)
    # a task looks the same whatever the seed
    assert job.processor.target == otherwise.processor.target
    assert job.processor.fitted.centre == otherwise.processor.fitted.centre
    seeds = otherwise.source.batch(0)
    assert seeds["x"].shape != first[0]["x"].shape or not torch.equal(seeds["x"], first[0]["x"])


def test_a_number_of_sets_to_learn_from_is_kept_to():
    small, large = (prepared("max", sets=count) for count in (20, 40))
    assert (small.counts["train"], large.counts["train"]) == (20, 40)

    def learned(job):
        return np.concatenate([job.source.examples.inputs(i)["x"] for i in job.source.units("train")])

    a, b = learned(small), learned(large)
    np.testing.assert_allclose(a, b[: len(a)], rtol=1e-4)  # the first twenty are the same
    seen = {value for step in range(30) for value in small.source.batch(step).target.tolist()}
    assert len(seen) <= 20


def test_a_task_that_there_is_not():
    with pytest.raises(ValueError, match="task.*solids.*'solid'.*'solids'"):
        SetsConfig(task="solid")
    with pytest.raises(ValueError, match="turn.*upright.*'up'"):
        SetsConfig(turn="up")
    with pytest.raises(ValueError, match="id.*target.*'a'.*both"):
        SetsConfig(id="a", target="a")
