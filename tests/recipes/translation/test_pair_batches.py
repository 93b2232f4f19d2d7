"""Batches by number of tokens: each pair once in an epoch, little padding, a function of (seed, step)."""

import numpy as np
import pytest
import torch

from regard.data.batch import IGNORE
from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.recipes.translation.batches import PairSource
from regard.recipes.translation.dataset import Corpus
from regard.recipes.translation.task import shift_right

TOKENS, ROWS = 200, 16


@pytest.fixture(scope="module")
def corpus():
    random = np.random.default_rng(0)
    lengths = random.geometric(0.08, (600, 2)).clip(1, 100)
    # the first id is the number of the pair, so that each can be told
    sources, targets = ([np.full(length, number) for number, length in enumerate(side)] for side in lengths.T.tolist())
    splits = random.choice([TRAIN, TRAIN, TRAIN, VALIDATION, TEST], 600).astype(np.uint8)
    return Corpus(texts=(), sources=sources, targets=targets, splits=splits, vocabulary=None, info=None)


def make(corpus, seed=0, **how):
    return PairSource(corpus, **{"tokens": TOKENS, "rows": ROWS, "seed": seed} | how)


def numbers(batch):
    return batch["source"][:, 0].tolist()


def test_an_epoch_has_each_training_pair_once(corpus):
    source = make(corpus)
    for epoch in (0, 3):
        steps = range(epoch * source.steps, (epoch + 1) * source.steps)
        seen = sorted(number for step in steps for number in numbers(source.batch(step)))
        assert seen == corpus.rows(TRAIN).tolist()


def test_a_batch_is_within_its_limits_and_has_little_padding(corpus):
    source = make(corpus)
    cells = real = 0
    for step in range(source.steps):
        batch = source.batch(step)
        width = max(batch["source"].shape[1], batch.target.shape[1])
        assert len(batch["source"]) == 1 or (len(batch["source"]) * width <= TOKENS and len(batch["source"]) <= ROWS)
        longer = np.maximum(
            *(np.array([len(side[i]) for i in numbers(batch)]) for side in (corpus.sources, corpus.targets))
        )
        cells, real = cells + len(longer) * width, real + longer.sum()
    assert real / cells > 0.8
    assert max(len(make(corpus, rows=3).batch(step)["source"]) for step in range(50)) == 3
    assert make(corpus, tokens=1000).steps < source.steps


def test_a_batch_follows_from_seed_and_step_alone(corpus):
    here, there = make(corpus), make(corpus)
    steps = [0, 1, here.steps, 5 * here.steps + 2]
    first = {step: here.batch(step) for step in steps}
    for step in reversed(steps):
        again = there.batch(step)
        assert torch.equal(first[step]["source"], again["source"]) and torch.equal(first[step].target, again.target)
    assert numbers(first[0]) != numbers(first[here.steps])
    assert any(numbers(make(corpus, seed=1).batch(step)) != numbers(first[step]) for step in (0, 1))


def test_the_other_splits_come_whole_and_in_one_order(corpus):
    source = make(corpus)
    for split, batches in ((VALIDATION, source.validation), (TEST, source.test)):
        told = [number for batch in batches() for number in numbers(batch)]
        assert told == source.rows_of(split).tolist() and sorted(told) == corpus.rows(split).tolist()


def test_the_decoder_reads_what_comes_before_each_target():
    target = torch.tensor([[5, 6, 2], [7, 2, IGNORE]])
    given, real = shift_right(target, begin=1)
    assert given.tolist() == [[1, 5, 6], [1, 7, 2]] and real.tolist() == [[True] * 3, [True, True, False]]
    assert shift_right(target[:1], begin=1)[1] is None
