"""A decoder with a memory of earlier segments (Transformer-XL): in pieces it is one pass under the mask that it really has."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import regard.nn.attention
from regard.attention.attend import attend
from regard.attention.cache import SegmentMemory
from regard.attention.masks import Dense
from regard.generation.generate import generate
from regard.models.attentions import BigBirdAttention, WindowAttention
from regard.models.decoder import DecoderConfig
from regard.models.sequence_model import BIASES, POSITIONS
from regard.symmetry.check import check
from regard.training.memory import recompute_activations
from tests.models.sequences import SMALL, VOCAB, B, decoder, gap, some_tokens

N, SEGMENT, MEMORY = 23, 5, 8
RELATIVE = [
    (position, bias) for position in ("none", "rotary") for bias in BIASES if (position, bias) != ("rotary", "relative")
]
ABSOLUTE = [(position, "none") for position in POSITIONS if position not in ("none", "rotary")] + [
    ("rotary", "relative")
]


def with_memory(**options):
    return decoder(**{"memory": MEMORY, "context": SEGMENT} | options)


def in_pieces(model, tokens, memories, real=None, segment=SEGMENT):
    outs = []
    for start in range(0, tokens.shape[1], segment):
        part = slice(start, start + segment)
        outs.append(model(tokens[:, part], real=None if real is None else real[:, part], caches=memories))
    return torch.cat(outs, 1)


def seen_by(memory, n=N, segment=SEGMENT):
    """Which tokens each one really sees: its segment up to itself, and so many before the segment.   n n"""
    place = torch.arange(n)
    first = place // segment * segment
    return (place <= place[:, None]) & (place >= first[:, None] - memory)


def in_one_pass(model, tokens, memory, segment=SEGMENT):
    mask = model.mask
    model.mask = mask & Dense(seen_by(memory, tokens.shape[1], segment))
    try:
        return model(tokens)
    finally:
        model.mask = mask


@pytest.mark.parametrize("position, bias", RELATIVE)
@pytest.mark.parametrize("options", [{}, {"ngrams": 3, "kv_heads": 1}, {"attention": WindowAttention(width=7)}])
def test_pieces_are_one_pass_under_the_mask_they_have(position, bias, options):
    model, tokens = with_memory(position=position, bias=bias, **options), some_tokens(n=N)
    with torch.no_grad():
        for memory, segment in ((MEMORY, SEGMENT), (3, SEGMENT), (0, SEGMENT), (1, 1), (100, 4)):
            pieces = in_pieces(model, tokens, model.memories(memory), segment=segment)
            assert gap(pieces, in_one_pass(model, tokens, memory, segment)) < 1e-12
        # the test can fail: one token more or less in the memory is another model (a window hides the difference)
        if "attention" not in options:
            assert gap(in_pieces(model, tokens, model.memories()), in_one_pass(model, tokens, MEMORY + 1)) > 1e-6
        assert gap(in_pieces(model, tokens, model.memories(N)), model(tokens)) < 1e-12


def stopped_at_segments(q, k, v, *, mask=None, bias=None, where=None, dropout=0.0, weights=None):
    """Attention of a whole sequence, segment after segment, whose keys of earlier segments have no gradients."""
    outs, allowed = [], seen_by(MEMORY)
    for start in range(0, N, SEGMENT):
        end = min(start + SEGMENT, N)
        keys, values = (torch.cat((x[:, :, :start].detach(), x[:, :, start:end]), 2) for x in (k, v))
        seen = Dense(allowed[start:end, :end])
        places = (torch.arange(start, end), torch.arange(end))
        outs.append(attend(q[:, :, start:end], keys, values, mask=seen, bias=bias, where=places))
    return torch.cat(outs, 2)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "position, bias", [("rotary", "none"), ("none", "relative"), ("none", "alibi"), ("rotary", "buckets")]
)
def test_gradients_stop_at_segments(position, bias, monkeypatch):
    model, tokens = with_memory(position=position, bias=bias, ngrams=2), some_tokens(n=N)
    weights = torch.randn(B, N, VOCAB, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    memories = model.memories()
    found = gradients(model, (in_pieces(model, tokens, memories) * weights).sum())
    model.zero_grad()
    again = model.memories()
    with recompute_activations(model):  # blocks are computed twice, and remember once
        for start in range(0, N, SEGMENT):
            part = slice(start, start + SEGMENT)
            (model(tokens[:, part], caches=again) * weights[:, part]).sum().backward()
    twice = {name: p.grad.clone() for name, p in model.named_parameters()}
    free = gradients(model, (in_one_pass(model, tokens, MEMORY) * weights).sum())
    monkeypatch.setattr(regard.nn.attention, "attend", stopped_at_segments)
    wanted = gradients(model, (model(tokens) * weights).sum())
    assert wanted.keys() == found.keys() == twice.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(twice[name], gradient, rtol=1e-9, atol=1e-12)
    assert any(gap(free[name], gradient) > 1e-3 for name, gradient in wanted.items())
    for one, two in zip(memories, again, strict=True):
        one.begin(), two.begin()
        assert torch.equal(one.store["k"], two.store["k"]) and one.count == two.count == N
        assert one.store["k"].shape[2] == MEMORY and not one.store["k"].requires_grad


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_different_length_remember_their_own(side):
    model, tokens = with_memory(ngrams=3), some_tokens(n=15)
    lengths = (5, 3, 4)  # real tokens in each segment of a row, padding around them
    real = torch.zeros(B, 15, dtype=torch.bool)
    for row, length in enumerate(lengths):
        for start in range(0, 15, SEGMENT):
            first = start if side == "right" else start + SEGMENT - length
            real[row, first : first + length] = True
    with torch.no_grad():
        found = in_pieces(model, tokens.masked_fill(~real, -1), model.memories(), real)
        for row, length in enumerate(lengths):
            alone = in_pieces(model, tokens[row : row + 1][:, real[row]], model.memories(), segment=length)
            assert gap(found[row][real[row]], alone[0]) < 1e-12


def test_padding_in_a_later_segment_only():
    """Places are written down once rows differ, and are those that were only understood before."""
    model, tokens = with_memory(), some_tokens(n=15)
    real = torch.ones(B, 15, dtype=torch.bool)
    real[1, 13:] = False
    with torch.no_grad():
        memories, outs = model.memories(), []
        for start in range(0, 15, SEGMENT):
            part = slice(start, start + SEGMENT)
            outs.append(model(tokens[:, part], real=None if start < 10 else real[:, part], caches=memories))
        found = torch.cat(outs, 1)
        assert gap(found[real], in_pieces(model, tokens, model.memories())[real]) < 1e-12


def test_a_memory_goes_from_one_process_to_another():
    model, tokens = with_memory(ngrams=3), some_tokens(n=20)
    with torch.no_grad():
        memories = model.memories()
        in_pieces(model, tokens[:, :10], memories)
        carried, other = memories.tensors(), model.memories()
        other.load({name: x.clone() for name, x in carried.items()})
        assert torch.equal(in_pieces(model, tokens[:, 10:], other), in_pieces(model, tokens[:, 10:], memories))


@pytest.mark.parametrize("position, bias", ABSOLUTE)
def test_absolute_places_are_refused(position, bias):
    with pytest.raises(ValueError, match=f"memory=8.*relative.*position={position}.*bias={bias}") as error:
        DecoderConfig(**SMALL, position=position, bias=bias, memory=MEMORY)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="memory=8.*attention=bigbird"):
        DecoderConfig(vocab=5, memory=8, attention=BigBirdAttention())
    with pytest.raises(ValueError, match="memory.*relative"):
        decoder(position=position, bias=bias).memories(4)


@pytest.mark.parametrize("memory", [-1, 2.0, True])
def test_other_numbers_are_refused(memory):
    with pytest.raises(ValueError, match="memory"):
        DecoderConfig(**SMALL, memory=memory)
    if memory == -1:
        with pytest.raises(ValueError, match="length.*-1"):
            SegmentMemory(memory)


class Letters:
    def encode(self, text):
        return [ord(each) - ord("a") for each in text]

    def decode(self, ids):
        return "".join(chr(ord("a") + int(each)) for each in ids)

    def stream(self):
        return self

    def add(self, token):
        return self.decode([token])

    def rest(self):
        return ""


def test_generate_sees_context_and_memory():
    """The text that it continues may be as long as what it saw in training, memory included."""
    model = with_memory()
    assert model.limit == SEGMENT + MEMORY
    prompt = Letters().decode(some_tokens(1, SEGMENT + MEMORY)[0])
    changed = ("b" if prompt[0] == "a" else "a") + prompt[1:]
    with torch.no_grad():
        far = [model(torch.tensor([Letters().encode(text)]))[0, -1] for text in (prompt, changed)]
    assert gap(far[0], far[1]) > 1e-9
    wanted = far[0].argmax()
    assert "".join(generate(model, prompt, tokenizer=Letters(), max_new=1, temperature=0.0)) == Letters().decode(
        [wanted]
    )


def by_memory(length):
    """Reading step by step with a memory of this length, as `check` asks for it."""

    def step(model, inputs, memories):
        memories = model.memories(length) if memories is None else memories
        return model(**inputs, caches=memories), memories

    return step


def test_laws_hold_with_a_memory_too():
    model, inputs = with_memory(ngrams=3), {"tokens": some_tokens()}
    laws = ["causality", "neighbours", "cache", "shift", "padding"]
    assert check(model, inputs, laws=laws).ok
    roles = replace(model.roles, step=by_memory(N))
    assert check(model, inputs, laws=["cache"], roles=roles)["cache"].measured == "holds"
    forgets = replace(model.roles, step=by_memory(2))
    assert check(model, inputs, laws=["cache"], roles=forgets)["cache"].measured == "broken"
