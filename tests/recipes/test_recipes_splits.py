"""The test split and the folds of every recipe."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.errors import RegardError
from regard.recipes.base import get_recipe
from regard.recipes.job import DataContext
from regard.recipes.request import TrainRequest
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import encode_corpus
from regard.verbs.train_run import prepare_job
from tests.recipes.graphs.prepared import Read as read
from tests.recipes.tiny_data import COUNT, KINDS

WITH_FOLDS = [name for name in KINDS if name not in ("language", "made_sets")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tiny")


def job_of(tiny, folder, **options):
    recipe = get_recipe(tiny.recipe)
    wanted = tiny.options | {name.replace("__", "."): value for name, value in options.items()}
    settings = TrainRequest(recipe=recipe, data=tiny.data, options=wanted).settings()
    return prepare_job(recipe, settings, DataContext(cache=folder))


def contents(split):
    """All numbers of a split, by which two splits can be compared."""
    return [
        batch.target.tolist() + next(iter(batch.values())).to_dense().flatten()[:50].tolist()
        for batch in split.batches()
    ]


def counts_of(job):
    """Examples of the train, the validation and the test split."""
    counts = job.counts or vars(job.info)
    return tuple(counts.get(name) for name in ("train", "validation", "test"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_recipe_holds_out_a_share_for_the_test(kind, folder):
    tiny = KINDS[kind](folder)
    job = job_of(tiny, folder, data__test=0.2)
    assert job.test.name == "test" and job.test.count == counts_of(job)[2] > 0
    if tiny.examples is not None:
        assert job.test.count == COUNT // 5
        assert sum(counts_of(job)) == COUNT
    known = [(batch.target != -100) & ~torch.isnan(batch.target.float()) for batch in job.test.batches()]
    per_example = job.test.count if kind != "made_sets" else sum(len(each) for each in known)
    assert sum(int(each.sum()) for each in known) == per_example
    assert job_of(tiny, folder, data__test=0.0).test is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_of_the_data_decides_the_split(kind, folder):
    tiny = KINDS[kind](folder)
    same = [contents(job_of(tiny, folder, data__test=0.2, train__seed=seed, data__seed=5).test) for seed in (0, 1)]
    np.testing.assert_equal(same[0], same[1])
    np.testing.assert_equal(same[0], contents(job_of(tiny, folder, data__test=0.2, train__seed=5).test))
    if kind != "language":  # whose test split is its end
        other = contents(job_of(tiny, folder, data__test=0.2, data__seed=6).test)
        with pytest.raises(AssertionError):
            np.testing.assert_equal(same[0], other)


@pytest.mark.parametrize("kind", WITH_FOLDS)
def test_folds_test_every_example_once(kind, folder):
    tiny = KINDS[kind](folder)
    jobs = [job_of(tiny, folder, data__folds=4, data__fold=fold) for fold in (1, 2, 3, 4)]
    assert [job.test.count for job in jobs] == [COUNT // 4] * 4
    assert all(counts_of(job)[1] == COUNT // 10 for job in jobs)
    if tiny.classes:
        shares = [np.concatenate([batch.target.numpy() for batch in job.test.batches()]) for job in jobs]
        assert all(abs((each == 1).sum() - COUNT // 8) <= 1 for each in shares)


@pytest.mark.parametrize("kind", ["language", "made_sets"])
def test_what_has_no_folds_says_so_in_a_line(kind, folder):
    with pytest.raises(RegardError, match=r"4 folds.*train\.seeds 4") as raised:
        job_of(KINDS[kind](folder), folder, data__folds=4)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [-0.1, 1.5, 0.95])
def test_shares_that_cannot_be_are_one_line(kind, share, folder):
    with pytest.raises(RegardError, match=re.escape(f"{share}")) as raised:
        job_of(KINDS[kind](folder), folder, data__test=share)
    assert "\n" not in str(raised.value)


def test_data_with_its_own_splits_keeps_them(folder):
    own = dict(np.load(KINDS["nodes"](folder).data)) | {
        "train_idx": np.arange(20),
        "val_idx": np.arange(20, 30),
        "test_idx": np.arange(30, 40),
    }
    np.savez(folder / "own.npz", **own)
    tiny = KINDS["nodes"](folder)._replace(data=str(folder / "own.npz"))
    job = job_of(tiny, folder, data__test=0.3)
    assert job.test.count == 10 and any("--data.test 0.3" in note for note in job.notes)
    assert not any("--data.test" in note for note in job_of(tiny, folder).notes)
    with pytest.raises(RegardError, match=r"own\.npz.*own splits.*4 folds"):
        job_of(tiny, folder, data__folds=4)


def test_images_with_a_test_split_refuse_another(folder):
    x, y = np.random.default_rng(0).integers(0, 255, (COUNT, 8, 8)).astype(np.uint8), np.arange(COUNT) % 2
    np.savez(folder / "own_images.npz", x_train=x[:31], y_train=y[:31], x_test=x[31:], y_test=y[31:])
    tiny = KINDS["images"](folder)._replace(data=str(folder / "own_images.npz"))
    assert job_of(tiny, folder).test.count == 9
    with pytest.raises(RegardError, match=r"own test split of 9 images.*data\.test 0\.2"):
        job_of(tiny, folder, data__test=0.2)
    with pytest.raises(RegardError, match=r"own test split.*4 folds"):
        job_of(tiny, folder, data__folds=4)


def test_images_with_a_validation_split_get_a_test_split_beside_it(folder):
    place = folder / "pictures"
    for split, count in (("train", 20), ("val", 5)):
        for label in ("cat", "dog"):
            (place / split / label).mkdir(parents=True)
            for number in range(count):
                image = np.full((8, 8), 10 * number, dtype=np.uint8)
                Image.fromarray(image).save(place / split / label / f"{number}.png")
    tiny = KINDS["images"](folder)._replace(data=str(place))
    assert counts_of(job_of(tiny, folder, data__test=0.2)) == (32, 10, 8)
    assert counts_of(job_of(tiny, folder)) == (40, 10, 0)


def test_an_edge_in_both_directions_is_in_one_split(folder):
    place = folder / "both"
    place.mkdir()
    pairs = [(i, j) for i in range(12) for j in range(i)]
    rows = [f"{a},{b},{'ab'[(i + j) % 2]}" for i, j in pairs for a, b in ((i, j), (j, i))]
    (place / "edges.csv").write_text("\n".join(["source,target,label", *rows]))
    (place / "nodes.csv").write_text("\n".join(["id,x", *(f"{i},{i}" for i in range(12))]))
    for how in ({"test": 0.3}, {"folds": 3, "fold": 2}):
        found = read(place, **how)
        ends = np.sort(found.parts.edges, axis=0)
        held = {name: {tuple(ends[:, row]) for row in rows} for name, rows in found.split.items()}
        assert sum(map(len, held.values())) == len(set().union(*held.values())) == len(pairs)
        assert len(held["test"]) == round(len(pairs) * (0.3 if "test" in how else 1 / 3))


def test_the_end_of_a_text_is_its_test_split(folder):
    path = KINDS["language"](folder).data
    config = TextConfig(path=path, tokens="bytes", validation=0.2, test=0.1)
    corpus = encode_corpus(config, cache=folder, seed=0)
    text = Path(path).read_text()
    parts = [corpus.tokenizer.decode(part) for part in (corpus.train, corpus.validation, corpus.test)]
    assert "".join(parts) == text and [len(part) for part in parts] == [1400, 400, 200]
    source = corpus.source(4, 7, 0)
    for batches, part in ((source.validation(), parts[1]), (source.test(), parts[2])):
        asked = [batch.target[batch.target >= 0] for batch in batches]
        assert corpus.tokenizer.decode(torch.cat(asked).numpy()) == part
    large = replace(config, test=None)
    assert large.share_of_test(999_999) == 0 and large.share_of_test(10**6) == 0.05
    assert large.share_of_test(10**7) * 10**7 == pytest.approx(60_000)
