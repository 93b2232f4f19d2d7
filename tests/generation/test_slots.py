"""Slots hold what they were given, and each goes on as if it were alone."""

import random

import pytest
import torch

from regard.errors import RegardError
from regard.generation.model_slots import make_slots
from regard.models.attentions import BigBirdAttention, PerformerAttention, WindowAttention
from regard.models.conv import Conv
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder
from regard.models.experts import PlainMLP
from regard.models.recurrent import GRU, LSTM

VOCAB, CONTEXT, COUNT = 29, 24, 5
DECODERS = {
    "ours": {},
    "grouped heads and n-grams": {"kv_heads": 2, "ngrams": 3},
    "GPT-2": {
        "position": "learned",
        "norm": "layernorm",
        "offset": True,
        "mlp": PlainMLP(activation="gelu_tanh"),
        "tied": True,
    },
    "Llama": {"kv_heads": 1, "mlp": PlainMLP(activation="swiglu"), "qk_norm": False},
    "a window": {"attention": WindowAttention(width=5)},
    "a window of one": {"attention": WindowAttention(width=1)},
    "alibi": {"position": "none", "bias": "alibi"},
    "relative": {"position": "none", "bias": "relative"},
    "buckets": {"position": "none", "bias": "buckets"},
    "big bird": {"attention": BigBirdAttention(block=4, random_blocks=1)},
    "sinusoidal and sparse": {"position": "sinusoidal", "weights": "sparsemax"},
    "parallel, capped": {"placement": "parallel", "softcap": 5.0},
    "sums over a whole text": {"attention": PerformerAttention()},
}


def decoder(**how):
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=VOCAB, context=CONTEXT, dim=32, depth=2, heads=4, **how)).eval()
    for parameter in model.parameters():
        if not parameter.any():  # tables of n-grams begin at zero, and would hide what is wrong with them
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def token_model(cls):
    torch.manual_seed(0)
    return cls(cls.Config(vocab=VOCAB, context=CONTEXT, dim=16)).eval()


class Alone:
    """The definition: the ids of each slot, and one reading of all of them without a cache."""

    def __init__(self, model, capacity):
        self.model, self.capacity = model, capacity
        self.ids = [[] for _ in range(COUNT)]

    @torch.inference_mode()
    def read(self, slots, tokens):
        for slot, new in zip(slots, tokens, strict=True):
            self.ids[slot] = self.ids[slot] + new
        return torch.stack([self.model(torch.tensor([self.ids[slot]]))[0, -1] for slot in slots])


def play(model, capacity, moves, seed):
    """Random moves on both. -> the largest relative error"""
    draw, alone, slots = random.Random(seed), Alone(model, capacity), make_slots(model, COUNT, capacity)
    worst = 0.0
    for _ in range(moves):
        move, slot = draw.random(), draw.randrange(COUNT)
        length = draw.randint(0, len(alone.ids[slot]))
        if move < 0.15:
            slots.truncate(slot, length)
            alone.ids[slot] = alone.ids[slot][:length]
        elif move < 0.3:
            target = draw.randrange(COUNT)
            slots.copy(slot, target, length)
            alone.ids[target] = alone.ids[slot][:length]
        else:
            rows = draw.sample(range(COUNT), draw.randint(1, COUNT))
            rows = [row for row in rows if len(alone.ids[row]) < capacity]
            most = draw.choice([1, capacity])  # as in decoding, or as with prompts
            sizes = [draw.randint(1, min(most, capacity - len(alone.ids[row]))) for row in rows]
            tokens = [[draw.randrange(VOCAB) for _ in range(size)] for size in sizes]
            if rows:
                found, wanted = slots.read(rows, tokens), alone.read(rows, tokens)
                assert found.dtype == torch.float32 and found.shape == (len(rows), VOCAB)
                worst = max(worst, float((found - wanted).abs().max() / wanted.abs().max()))
        assert [slots.length(i) for i in range(COUNT)] == [len(ids) for ids in alone.ids]
    return worst


@pytest.mark.parametrize("capacity", [1, 7, CONTEXT])
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_goes_on_with_each_as_if_it_were_alone(name, capacity):
    assert play(decoder(**DECODERS[name]), capacity, 24, seed=capacity) < 2e-5


@pytest.mark.parametrize("cls", [LSTM, GRU, Conv])
def test_models_without_attention_do_so_too(cls):
    assert play(token_model(cls), 30, 40, seed=1) < 2e-5


def test_an_endless_model_has_slots_longer_than_its_context():
    model = decoder(attention=WindowAttention(width=4))
    assert model.limit is None
    assert play(model, 3 * CONTEXT, 12, seed=2) < 2e-5


def test_a_planted_shift_of_places_is_seen(monkeypatch):
    """If a slot forgot where it begins, the comparison would tell."""
    from regard.generation.cached_slots import CachedSlots

    right = CachedSlots._turn

    def wrong(self, slots, n, lengths):
        turn = right(self, slots, n, lengths)
        object.__setattr__(turn, "here", turn.here - turn.here[:, :1])
        return turn

    monkeypatch.setattr(CachedSlots, "_turn", wrong)
    assert play(decoder(), CONTEXT, 24, seed=0) > 1e-3


def test_what_cannot_be_is_said():
    model = decoder()
    with pytest.raises(RegardError, match="longer than the 24 that the model reads"):
        make_slots(model, 2, 25)
    with pytest.raises(RegardError, match="count and a capacity of at least 1"):
        make_slots(model, 0, 5)
    with pytest.raises(RegardError, match="Encoder cannot go on"):
        make_slots(Encoder.tiny()[0], 2, 5)
    slots = make_slots(model, 2, 5)
    slots.read([1], [[1, 2, 3]])
    for rows, tokens, words in [
        ([0], [[]], "no token"),
        ([1], [[1, 2, 3]], "room for 5"),
        ([0, 0], [[1], [1]], "each slot is read once"),
        ([0, 1], [[1]], "each slot is read once"),
        ([2], [[1]], "no slot 2"),
        ([-1], [[1]], "no slot -1"),
        ([0, 1], [[1], [VOCAB]], "ids are 0 to 28, got 29"),
        ([0], [[-1]], "got -1"),
    ]:
        with pytest.raises(RegardError, match=words):
            slots.read(rows, tokens)
        assert [slots.length(i) for i in (0, 1)] == [0, 3]
    with pytest.raises(RegardError, match="holds 3 tokens, not 4"):
        slots.truncate(1, 4)
    with pytest.raises(RegardError, match="holds 0 tokens, not 1"):
        slots.copy(0, 1, 1)


def test_memory_is_taken_once():
    model = decoder()
    slots = make_slots(model, 3, CONTEXT)
    slots.read([0], [[1]])
    before = [x.data_ptr() for cache in slots.caches for x in cache.store.values()]
    slots.read([0, 2], [[1, 2, 3], [4]])
    slots.copy(0, 1, 2)
    slots.read([0, 1, 2], [[5], [6], [7]])
    assert [x.data_ptr() for cache in slots.caches for x in cache.store.values()] == before
