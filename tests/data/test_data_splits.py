"""Splits: every class keeps its share, every example is in one split and one test fold, and what cannot be is one
line."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.splits import (
    ENOUGH,
    TEST,
    TRAIN,
    VALIDATION,
    SplitConfig,
    check_splits,
    draw_splits,
    note_missing,
    number_folds,
    stratified_mask,
)
from regard.errors import RegardError

counts_of_classes = st.lists(st.integers(6, 60), min_size=2, max_size=5)


def classes_of(counts, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def drawn(classes, seed=0, **how):
    return draw_splits(len(classes), SplitConfig(**how), seed, unit="rows", classes=classes)


@settings(max_examples=30)
@given(counts_of_classes, st.sampled_from([0.1, 0.2, 0.35]), st.integers(0, 5))
def test_each_class_has_its_share_in_each_split(counts, test, seed):
    classes = classes_of(counts)
    splits = drawn(classes, seed, validation=0.1, test=test)
    assert (splits == TEST).sum() == min(max(1, round(len(classes) * test)), len(classes) - len(counts))
    for each, count in enumerate(counts):
        own = splits[classes == each]
        assert (own == TRAIN).any()
        assert abs((own == TEST).sum() - count * test) <= 1
        assert abs((own == VALIDATION).sum() - count * 0.1) <= 1.5


@settings(max_examples=30)
@given(counts_of_classes, st.integers(2, 12), st.integers(0, 5))
def test_every_example_is_in_one_test_fold_and_classes_are_spread_evenly(counts, folds, seed):
    classes = classes_of(counts)
    numbers = number_folds(len(classes), folds, seed, classes)
    assert set(numbers.tolist()) <= set(range(folds))
    for own in [numbers, *(numbers[classes == each] for each in range(len(counts)))]:
        sizes = np.bincount(own, minlength=folds)
        assert sizes.max() - sizes.min() <= 1


@settings(max_examples=30)
@given(st.integers(8, 60), st.booleans(), st.integers(0, 3))
def test_the_folds_of_a_config_cover_the_data_once(count, labelled, seed):
    classes = np.arange(count) % 2 if labelled else None
    tested = np.zeros(count, dtype=int)
    for fold in (1, 2, 3):
        config = SplitConfig(folds=3, fold=fold, test=0.9)  # the share has no effect
        splits = draw_splits(count, config, seed, unit="rows", classes=classes)
        tested += splits == TEST
        assert (splits == TRAIN).any() and (splits == VALIDATION).any()
    assert (tested == 1).all()


def test_a_seed_draws_one_split_and_another_seed_another():
    classes = classes_of([40, 60])
    for how in ({"test": 0.2}, {"folds": 5, "fold": 2}):
        assert np.array_equal(drawn(classes, 3, **how), drawn(classes, 3, **how))
        assert not np.array_equal(drawn(classes, 3, **how), drawn(classes, 4, **how))


def test_without_a_test_split_the_validation_split_is_what_it_was():
    classes = classes_of([40, 60])
    held = stratified_mask(classes, 0.1, 7)
    assert np.array_equal(drawn(classes, 7, test=0.0) == VALIDATION, held)
    assert np.array_equal(drawn(classes, 7) != TRAIN, held)  # a hundred are too few for a default


def test_many_examples_have_a_test_split_by_default():
    for count, tested in ((ENOUGH - 1, 0), (ENOUGH, ENOUGH // 10)):
        assert (draw_splits(count, SplitConfig(), 0, unit="rows") == TEST).sum() == tested


@pytest.mark.parametrize(
    "how, words",
    [
        ({"test": 1.5}, ("test", "1.5")),
        ({"test": -0.1}, ("test", "-0.1")),
        ({"test": 1.0}, ("test", "1.0")),
        ({"test": float("nan")}, ("test", "nan")),
        ({"validation": 0.5, "test": 0.5}, ("validation and test", "0.5 and 0.5")),
        ({"folds": 1}, ("folds", "from 2", "1")),
        ({"fold": 2}, ("fold=2", "folds")),
        ({"folds": 3, "fold": 4}, ("fold", "1 to 3", "4")),
        ({"folds": 3, "fold": 0}, ("fold", "from 1", "0")),
        ({"folds": 2, "validation": 0.5}, ("validation 0.5", "2 folds")),
        ({"seed": -1}, ("seed", "-1")),
    ],
)
def test_settings_that_cannot_be(how, words):
    with pytest.raises(RegardError) as raised:
        check_splits(SplitConfig(**how), "rows")
    said = str(raised.value)
    assert all(word in said for word in words) and "\n" not in said


@pytest.mark.parametrize(
    "counts, how, words",
    [
        ([2, 1], {"test": 0.85}, ("3 rows", "validation", "0.1")),
        ([1, 1, 1], {"test": 0.5}, ("3 rows", "validation split", "0.1")),
        ([1, 1, 1], {"test": 0.5, "validation": 0.0}, ("3 rows", "test split", "0.5")),
        ([5, 1], {"folds": 3, "fold": 1}, ("class '1'", "one of the 6 rows")),
        ([2, 2], {"folds": 9, "fold": 1}, ("9 folds", "got 4")),
    ],
)
def test_too_few_examples_are_one_line(counts, how, words):
    with pytest.raises(RegardError) as raised:
        drawn(np.repeat(np.arange(len(counts)), counts), **how)
    said = str(raised.value)
    assert all(word in said for word in words) and "\n" not in said


def test_a_class_that_a_split_lacks_is_named():
    classes = classes_of([100, 60, 2])
    splits = drawn(classes, test=0.1)
    (validation, test) = note_missing(splits, classes, ("a", "b", "rare"), "row")
    assert "'rare'" in test and "test split" in test and "'a'" not in test
    assert "'rare'" in validation and "validation split" in validation
    assert note_missing(drawn(classes, test=0.0), classes, ("a", "b", "rare"), "row") == ()
