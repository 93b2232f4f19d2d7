"""Batches by number of tokens: each pair once in an epoch, little padding, a function of (seed, step)."""

import numpy as np
import pytest
import torch

from regard.data.batch import IGNORE
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.recipes.translation.config import PairsConfig
from regard.recipes.translation.processor import PairProcessor
from regard.recipes.translation.source import PairSource
from regard.recipes.translation.task import shift_right

TOKENS, ROWS = 200, 16


@pytest.fixture(scope="module")
def pairs():
    """Pairs as ids, and their splits."""
    random = np.random.default_rng(0)
    lengths = random.geometric(0.08, (600, 2)).clip(1, 100).tolist()
    # the first id is the number of the pair, so that each can be told
    found = [{"source": np.full(a, i), "target": np.full(b, i)} for i, (a, b) in enumerate(lengths)]
    return found, random.choice([TRAIN, TRAIN, TRAIN, VALIDATION, TEST], 600).astype(np.uint8)


def make(pairs, seed=0, **how):
    size = {"tokens": TOKENS, "most": ROWS, "seed": seed} | how
    return PairSource(examples=None, processor=PairProcessor(PairsConfig()), pairs=pairs[0], splits=pairs[1], **size)


def numbers(batch):
    return batch["source"][:, 0].tolist()


def test_an_epoch_has_each_training_pair_once(pairs):
    source = make(pairs)
    for epoch in (0, 3):
        steps = range(epoch * source.steps, (epoch + 1) * source.steps)
        seen = sorted(number for step in steps for number in numbers(source.batch(step)))
        assert seen == source.rows("train").tolist()


def test_a_batch_is_within_its_limits_and_has_little_padding(pairs):
    source = make(pairs)
    cells = real = 0
    for step in range(source.steps):
        batch = source.batch(step)
        width = max(batch["source"].shape[1], batch.target.shape[1])
        assert len(batch["source"]) == 1 or (len(batch["source"]) * width <= TOKENS and len(batch["source"]) <= ROWS)
        longer = source.lengths[numbers(batch)]
        cells, real = cells + len(longer) * width, real + longer.sum()
    assert real / cells > 0.8
    assert max(len(make(pairs, most=3).batch(step)["source"]) for step in range(50)) == 3
    assert make(pairs, tokens=1000).steps < source.steps


def test_a_batch_follows_from_seed_and_step_alone(pairs):
    here, there = make(pairs), make(pairs)
    steps = [0, 1, here.steps, 5 * here.steps + 2]
    first = {step: here.batch(step) for step in steps}
    for step in reversed(steps):
        again = there.batch(step)
        assert torch.equal(first[step]["source"], again["source"]) and torch.equal(first[step].target, again.target)
    assert numbers(first[0]) != numbers(first[here.steps])
    assert any(numbers(make(pairs, seed=1).batch(step)) != numbers(first[step]) for step in (0, 1))


def test_the_other_splits_come_whole_and_in_one_order(pairs):
    source = make(pairs)
    for split in ("validation", "test"):
        told = [number for batch in source.of(split) for number in numbers(batch)]
        assert told == source.order(split).tolist() and sorted(told) == source.rows(split).tolist()


def test_the_decoder_reads_what_comes_before_each_target():
    target = torch.tensor([[5, 6, 2], [7, 2, IGNORE]])
    given, real = shift_right(target, begin=1)
    assert given.tolist() == [[1, 5, 6], [1, 7, 2]] and real.tolist() == [[True] * 3, [True, True, False]]
    assert shift_right(target[:1], begin=1)[1] is None
