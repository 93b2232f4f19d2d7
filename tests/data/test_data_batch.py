"""Batches, and sources of one's own tensors: by number, whatever was asked before."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from regard.data.batch import IGNORE, Batch, Epochs, held_out, pad_rows
from regard.data.row_source import TensorSource

TOKENS = torch.arange(60).reshape(20, 3)
TARGET = torch.arange(20)


class Squares(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return torch.tensor([i, i * i]), i


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(2), 0


def rows(batch):
    return batch.target.tolist()


def test_ignore_is_what_torch_ignores():
    assert torch.nn.CrossEntropyLoss().ignore_index == IGNORE


def test_size_is_the_work():
    assert Batch({"x": torch.zeros(4, 7)}, TARGET[:4]).size == 4
    assert Batch({"x": torch.zeros(4, 7)}, TARGET[:4], size=28).size == 28
    for x, size in ((TOKENS, 60), (TOKENS[..., None].float(), 60), (TOKENS.float(), 20)):
        assert TensorSource((x, TARGET), batch=20, validation=0).batch(0).size == size


def test_inputs_by_name_and_nothing_that_is_none():
    batch = Batch({"tokens": TOKENS, "real": None}, TARGET)
    assert list(batch) == ["tokens"] and len(batch) == 1 and batch.get("real") is None and batch.rows == 20
    other = batch.replace(target=TARGET + 1, rank=TOKENS)
    assert list(other) == ["tokens", "rank"] and torch.equal(other.target, TARGET + 1)
    assert torch.equal(batch.target, TARGET) and batch != other


def test_to_moves_everything():
    batch = Batch({"tokens": TOKENS, "real": torch.ones(20, 3).bool(), "graphs": 3}, TARGET).to("meta")
    assert {each.device.type for each in (batch["tokens"], batch.target, batch["real"])} == {"meta"}
    assert batch["graphs"] == 3


@pytest.mark.parametrize("data", [(TOKENS, TARGET), [TOKENS, TARGET], TensorDataset(TOKENS, TARGET), Squares()])
def test_every_row_once_an_epoch_and_none_of_validation(data):
    source = TensorSource(data, batch=6, seed=3)
    held = [row for batch in source.validation() for row in rows(batch)]
    assert len(held) == 2
    for epoch in range(3):
        seen = [row for step in range(3) for row in rows(source.batch(3 * epoch + step))]
        assert len(seen) == 18 and {*seen, *held} == set(range(20))
    batch = source.batch(0)
    assert torch.equal(
        batch["tokens"][:, 0], (TOKENS[batch.target, 0] if not isinstance(data, Squares) else batch.target)
    )


def test_a_batch_depends_on_seed_and_step_alone():
    one, other = TensorSource((TOKENS, TARGET), 4), TensorSource((TOKENS, TARGET), 4)
    backwards = [rows(other.batch(step)) for step in reversed(range(12))][::-1]
    assert [rows(one.batch(step)) for step in range(12)] == backwards
    assert rows(one.batch(0)) != rows(one.batch(4))  # four batches of four an epoch: another order
    assert rows(TensorSource((TOKENS, TARGET), 4, seed=-1).batch(0)) != backwards[0]


def test_validation_of_its_own_and_none():
    source = TensorSource((TOKENS, TARGET), 8, validation=(TOKENS + 100, TARGET + 100))
    assert [row for batch in source.validation() for row in rows(batch)] == list(range(100, 120))
    assert sorted(row for step in range(2) for row in rows(source.batch(step)))[-1] <= 19
    assert list(TensorSource((TOKENS, TARGET), validation=0).validation()) == []


def test_fewer_rows_than_a_batch():
    source = TensorSource((TOKENS[:3], TARGET[:3]), batch=32, validation=0.5)
    assert len(rows(source.batch(5))) == 1 and [len(rows(each)) for each in source.validation()] == [1, 1]


def test_a_third_tensor_says_what_is_real():
    real = torch.arange(3) < torch.arange(20)[:, None]
    batch = TensorSource((TOKENS, TARGET, real), 5).batch(0)
    assert torch.equal(batch["real"], real[batch.target])


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6), context=st.none() | st.integers(1, 9))
def test_padding(lengths, context):
    tokens, real = pad_rows([np.arange(1, n + 1, dtype=np.uint8) for n in lengths], context)
    short = [min(n, context or n) for n in lengths]
    assert tokens.shape == (len(lengths), max(1, *short) if len(short) > 1 else max(1, short[0]))
    assert tokens.dtype == torch.int64
    for row, n in enumerate(short):
        assert tokens[row, :n].tolist() == list(range(1, n + 1)) and not tokens[row, n:].any()
        assert real is None or real[row].tolist() == [i < n for i in range(tokens.shape[1])]
    assert (real is None) == (set(short) == {tokens.shape[1]})


def test_buckets_put_like_lengths_together():
    lengths = np.random.default_rng(0).integers(1, 1000, 4000)
    plain, bucketed = (Epochs(np.arange(4000), 20, 0, each) for each in (None, lengths))

    def padding(epochs):
        return sum(int((lengths[rows].max() - lengths[rows]).sum()) for rows in map(epochs.rows, range(200)))

    assert padding(bucketed) < padding(plain) / 10
    assert sorted(np.concatenate([bucketed.rows(step) for step in range(200)])) == list(range(4000))
    longest = [int(lengths[bucketed.rows(step)].max()) for step in range(200)]
    assert abs(np.corrcoef(longest, range(200))[0, 1]) < 0.3  # and the batches themselves come in any order


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: TensorSource(TOKENS), "data.*tensors.*.tokens, target..*Dataset.*Tensor"),
        (lambda: TensorSource((TOKENS,)), "got tuple of 1"),
        (lambda: TensorSource((TOKENS, TARGET[:7])), "rows, got 20 and 7"),
        (lambda: TensorSource((TOKENS[:0], TARGET[:0])), "data.*rows; give"),
        (lambda: TensorSource((TOKENS, TARGET), validation=1.0), "validation.*rows.*1.0"),
        (lambda: TensorSource((TOKENS[:1], TARGET[:1])), "there is 1 row, .* validation=0"),
        (lambda: TensorSource((TOKENS, TARGET), 0), "batch.*1.*0"),
        (lambda: TensorSource(Endless()), "Endless has no __len__"),
        (lambda: TensorSource(TensorDataset(TOKENS)).batch(0), "Dataset.*tuple.*1"),
        (lambda: Batch({"tokens": TOKENS}, TARGET[:3]), r"rows, got 20 and \(3,\) in target"),
        (
            lambda: Batch({"tokens": TOKENS, "real": torch.ones(20, 3)}, TARGET),
            "real.*tensor 'b n', True = real.*torch.float32",
        ),
        (lambda: Batch({"tokens": TOKENS, "real": torch.ones(20, 4).bool()}, TARGET), "real.*'b n'.*b=20, n=3"),
    ],
)
def test_words_of_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_how_many_are_held_out():
    assert [held_out(20, share) for share in (0, 0.01, 0.1, 0.5, 0.99)] == [0, 1, 2, 10, 19]
