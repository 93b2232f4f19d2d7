"""A bag of n-grams: zero at first, a linear map of TF-IDF features, blind to order and padding."""

from __future__ import annotations

import pytest
import torch

from regard.models.encoder import Encoder, EncoderConfig
from regard.nn.ngram_logistic import RATE, BagOfNGrams

VOCAB, CLASSES = 7, 3


def filled(dtype=torch.float64) -> BagOfNGrams:
    """A bag with random tables: token 1 counts as token 2, token 0 has no n-grams."""
    draw = torch.Generator().manual_seed(0)
    bag = BagOfNGrams(VOCAB, CLASSES)
    bag.same[1] = 2
    bag.spelling[1:, :5] = torch.randint(1, 40, (VOCAB - 1, 5), generator=draw, dtype=torch.int32)
    bag.word_rarity.copy_(1 + torch.rand(VOCAB, generator=draw))
    bag.part_rarity[1:] = 1 + torch.rand(len(bag.part_rarity) - 1, generator=draw)
    with torch.no_grad():
        for table in bag.parameters():
            table.copy_(torch.randn(table.shape, generator=draw))
    return bag.to(dtype).eval()


def test_it_adds_nothing_at_first():
    bag = BagOfNGrams(VOCAB, CLASSES)
    assert not bag(torch.tensor([[1, 2, 3]])).any()


def test_it_is_the_sum_it_says():
    """In the words of scikit-learn: sublinear TF-IDF with norm="l2", one of words and one of character n-grams."""
    bag, ids = filled(), [1, 2, 0, 5, 5, 5]
    words, parts = torch.zeros(VOCAB).double(), torch.zeros(len(bag.parts)).double()
    for id in ids:
        words[bag.same[id]] += 1
        for gram in bag.spelling[id].tolist():
            parts[gram] += 1
    words = torch.where(words > 0, 1 + words.log(), 0) * bag.word_rarity
    parts = torch.where(parts > 0, 1 + parts.log(), 0) * bag.part_rarity
    wanted = words @ bag.words / words.norm() + parts @ bag.parts / parts.norm()
    torch.testing.assert_close(bag(torch.tensor([ids]))[0], wanted)


def test_tokens_may_be_spelled_by_hand():
    """As unknown words are, whose id says nothing of them."""
    bag, ids = filled(), torch.tensor([[0, 3, 4]])
    spelling = bag.spelling[ids]
    torch.testing.assert_close(bag(ids, spelling=spelling), bag(ids))
    other = spelling.clone()
    other[0, 0, :2] = torch.tensor([7, 8])
    assert not torch.equal(bag(ids, spelling=other), bag(ids))
    hidden = torch.tensor([[False, True, True]])
    torch.testing.assert_close(bag(ids, hidden, other), bag(ids, hidden))


def test_features_that_training_never_saw_change_nothing():
    bag = filled()
    bag.word_rarity[3] = 0.0
    bag.part_rarity[bag.spelling[3].long()] = 0.0
    torch.testing.assert_close(bag(torch.tensor([[4, 3, 6]])), bag(torch.tensor([[4, 6]])))


def test_neither_order_nor_padding_counts():
    bag = filled()
    plain = bag(torch.tensor([[4, 1, 6]]))
    torch.testing.assert_close(bag(torch.tensor([[6, 4, 1]])), plain)
    padded, real = torch.tensor([[-1, 4, 1, 6, 3]]), torch.tensor([[False, True, True, True, False]])
    torch.testing.assert_close(bag(padded, real), plain)


def test_a_row_without_tokens_gives_zeros_and_finite_gradients():
    bag = filled().train()
    out = bag(torch.tensor([[1, 2]]), torch.tensor([[False, False]]))
    assert not out.any()
    out.sum().backward()
    assert all(table.grad.isfinite().all() for table in bag.parameters())


def test_training_leaves_features_out_and_evaluation_does_not():
    bag, ids = filled(), torch.tensor([[1, 2, 3, 4]])
    torch.testing.assert_close(bag(ids), bag(ids), rtol=0, atol=0)
    bag.train()
    assert not torch.equal(bag(ids), bag(ids))


@pytest.mark.parametrize("real", [None, torch.tensor([[True, True, False]])])
def test_an_encoder_adds_its_logits_to_it_through_a_gate(real):
    config = EncoderConfig(vocab=VOCAB, context=8, dim=16, depth=1, heads=2, classes=CLASSES, bag=True)
    model, ids = Encoder(config).double().eval(), torch.tensor([[3, 1, 2]])
    torch.nn.init.normal_(model.head.weight)
    model.bag = filled()
    torch.testing.assert_close(model(ids, real=real), model.bag(ids, real))
    torch.nn.init.constant_(model.gate.opened, 2.0)
    alone = model.head(model.features(ids, real=real))
    torch.testing.assert_close(model(ids, real=real), model.bag(ids, real) + 2 * RATE * alone)
