"""Batches of rows: the slices of several processes are the batch, and each reads its own rows alone."""

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from regard.data.batch import Batch
from regard.data.row_source import AHEAD, RowSource, TensorSource
from regard.data.slices import read_slice
from regard.recipes.text.dataset import TextSource

X = torch.arange(60.0).view(20, 3)


class Rows(Dataset):
    """Rows that say when they are read."""

    def __init__(self):
        self.read = []

    def __len__(self):
        return len(X)

    def __getitem__(self, row):
        self.read.append(row)
        return X[row], row


def row_source(slow):
    return RowSource(lambda rows: Batch({"x": X[rows]}, torch.from_numpy(rows)), np.arange(20), 7, seed=3, slow=slow)


SOURCES = {
    "rows": lambda: row_source(False),
    "slow rows": lambda: row_source(True),
    "tensors": lambda: TensorSource((X, X), 7),
    "padded tensors": lambda: TensorSource((X, X, X > 9), 7),
    "dataset": lambda: TensorSource(Rows(), 7),
    "text": lambda: TextSource(np.arange(500) % 50, 400, 7, 9, seed=1),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_slices_together_are_the_batch(name, parts):
    source, other = SOURCES[name](), SOURCES[name]()
    for step in (0, 1, 5, 2):
        whole = source.batch(step)
        slices = [read_slice(other, step, part, parts) for part in range(parts)]
        x = next(iter(whole))
        assert torch.equal(torch.cat([each.batch[x] for each in slices]), whole[x])
        assert torch.equal(torch.cat([each.batch.target for each in slices]), whole.target)
        assert {each.size for each in slices} == {whole.size}
        assert all(each.counts for each in slices)


def test_a_process_reads_its_own_rows_alone():
    rows = Rows()
    source = TensorSource(rows, 8)
    rows.read.clear()
    mine = read_slice(source, 0, 1, 4)
    assert rows.read == mine.batch.target.tolist()
    assert len(rows.read) == 2


def test_a_process_without_a_row_reads_one_that_does_not_count():
    found = [read_slice(row_source(False), 0, part, 9) for part in range(9)]
    assert [each.counts for each in found].count(False) == 2
    assert all(len(each.batch["x"]) == 1 for each in found)


def test_slow_rows_are_read_ahead_once():
    asked = []

    def take(rows):
        asked.append(rows.tolist())
        return Batch({"x": X[rows]}, torch.from_numpy(rows))

    source = RowSource(take, np.arange(20), 5, seed=0, slow=True)
    found = [source.batch(step).target.tolist() for step in range(4)]
    source.batch(4)
    assert asked[:4] == found
    assert 5 <= len(asked) <= 5 + AHEAD
