"""A bag of n-grams: zero at first, a linear map of TF-IDF features, blind to order and padding."""

from __future__ import annotations

import pytest
import torch

from regard.models.encoder import Encoder, EncoderConfig
from regard.nn.bag import SCALE, BagOfNGrams

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
    bag, ids = filled(), [1, 2, 0, 5]
    words, parts = torch.zeros(VOCAB).double(), torch.zeros(len(bag.parts)).double()
    word_squares = part_squares = 0.0
    for id in ids:
        words[bag.same[id]] += bag.word_rarity[id]
        word_squares += bag.word_rarity[id] ** 2
        for gram in bag.spelling[id].tolist():
            parts[gram] += bag.part_rarity[gram]
            part_squares += bag.part_rarity[gram] ** 2
    wanted = SCALE * (words @ bag.words / word_squares**0.5 + parts @ bag.parts / part_squares**0.5)
    torch.testing.assert_close(bag(torch.tensor([ids]))[0], wanted)


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
def test_an_encoder_adds_it_to_its_logits(real):
    config = EncoderConfig(vocab=VOCAB, context=8, dim=16, depth=1, heads=2, classes=CLASSES, bag=True)
    model, ids = Encoder(config).double().eval(), torch.tensor([[3, 1, 2]])
    torch.nn.init.normal_(model.head.weight)
    alone = model(ids, real=real)
    torch.testing.assert_close(alone, model.head(model.features(ids, real=real)))
    model.bag = filled()
    torch.testing.assert_close(model(ids, real=real), alone + model.bag(ids, real))


def test_in_training_the_bag_is_alone_on_most_rows():
    config = EncoderConfig(vocab=VOCAB, context=8, dim=16, depth=1, heads=2, classes=CLASSES, bag=True)
    model = Encoder(config).train()
    torch.nn.init.normal_(model.head.weight)
    torch.manual_seed(0)
    rows = model(torch.ones(400, 2, dtype=torch.long)).any(1).float()
    assert 0.04 < rows.mean() < 0.16
