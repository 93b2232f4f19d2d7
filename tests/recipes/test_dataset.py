"""Batches of encoded examples: a function of (seed, step), the same however examples are kept, without what cannot be read."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from regard.data.batch import Batch
from regard.data.slices import read_slice
from regard.data.splits import NOWHERE, TEST, TRAIN, VALIDATION
from regard.errors import RegardError
from regard.recipes.dataset import Dataset, Encodings
from regard.recipes.example import Examples
from regard.recipes.processor import Processor
from regard.recipes.target import Target

COUNT, BROKEN = 23, 4


@dataclass(frozen=True, kw_only=True)
class Fitted:
    add: float = 1.0


class Rows(Processor):
    """Rows of three numbers; one of them cannot be read."""

    Fitted = Fitted
    stacked = ("x", "float32")
    encodes_by = ("add",)

    def read(self, data, *, want):
        raise NotImplementedError

    def encode(self, example):
        if example.name == str(BROKEN):
            raise RegardError(f"{example.name} is broken")
        return {"x": (example.inputs["x"] + self.fitted.add).astype(np.float32)}

    def collate(self, rows, random=None):
        return Batch({"x": torch.from_numpy(np.stack([row["x"] for row in rows]))})


class OneByOne(Rows):
    """The same, not in one array."""

    stacked = None


def dataset(folder, cls=Rows, keep="memory", size=4):
    examples = Examples(
        what="rows",
        count=COUNT,
        inputs=lambda i: {"x": np.array([i, i / 2, -i])},
        names=str,
        files=lambda i: str(folder / str(i)),
    )
    processor = cls(None, fitted=Fitted(), target=Target(classes=("a", "b")))
    encodings = Encodings(examples, processor, keep)
    encodings.prepare(folder, lambda what, share: None)
    splits = np.array([TRAIN] * 15 + [VALIDATION] * 5 + [TEST] * 3, dtype=np.uint8)
    splits[BROKEN] = NOWHERE
    return Dataset(examples, processor, np.arange(COUNT) % 2, splits, encodings, size, seed=0)


def numbers(batch):
    return batch["x"].tolist(), batch.target.tolist()


WAYS = [(Rows, "memory"), (Rows, "disk"), (OneByOne, "memory"), (OneByOne, "none")]


@pytest.mark.parametrize("cls, keep", WAYS)
def test_batches_are_the_same_however_examples_are_kept(tmp_path, cls, keep):
    found, like = dataset(tmp_path, cls, keep), dataset(tmp_path)
    for step in (5, 0, 3):
        assert numbers(found.batch(step)) == numbers(like.batch(step)) == numbers(found.batch(step))
    for split, count in (("train", 14), ("validation", 5), ("test", 3)):
        rows = np.concatenate([batch["x"].numpy() for batch in found.of(split)])
        assert len(rows) == count and (rows[:, 0] - 1).astype(int).tolist() == found.order(split).tolist()
    assert found.encodings.errors == {BROKEN: f"{BROKEN} is broken"}


def test_another_seed_gives_other_batches(tmp_path):
    found = dataset(tmp_path)
    assert numbers(found.batch(0)) != numbers(replace(found, seed=1).batch(0))


@pytest.mark.parametrize("cls", [Rows, OneByOne])
def test_slices_of_several_processes_are_the_batch(tmp_path, cls):
    found = dataset(tmp_path, cls, size=5)
    whole = found.batch(2)
    parts = [read_slice(found, 2, part, 2).batch for part in (0, 1)]
    assert torch.equal(torch.cat([part["x"] for part in parts]), whole["x"])
    assert torch.equal(torch.cat([part.target for part in parts]), whole.target)


def test_what_is_kept_on_disk_depends_on_what_encoding_reads(tmp_path):
    first = dataset(tmp_path, keep="disk")
    made = first.encodings._key()
    changed = Encodings(first.examples, replace(first.processor, fitted=Fitted(add=2.0)), "disk")
    assert changed._key() != made == dataset(tmp_path, keep="disk").encodings._key()
    (tmp_path / "3").write_text("a new file")
    assert dataset(tmp_path, keep="disk").encodings._key() != made


def test_a_split_without_training_is_named(tmp_path):
    found = dataset(tmp_path)
    with pytest.raises(RegardError, match="rows.*nothing to train on"):
        replace(found, splits=np.full(COUNT, TEST, dtype=np.uint8)).batch(0)
