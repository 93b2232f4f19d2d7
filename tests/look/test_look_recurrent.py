"""Attention inside hand-written recurrent decoders of torch.nn, Luong's and Bahdanau's: heard step by step, and proved."""

import pytest
import torch
from torch import nn

from regard.look.record import record

V, D, M, N = 11, 12, 6, 5
SOURCE = torch.randint(V, (2, M), generator=torch.Generator().manual_seed(0))
TARGET = torch.randint(V, (2, N), generator=torch.Generator().manual_seed(1))
REAL = torch.arange(M) < torch.tensor([[M], [4]])


class Translator(nn.Module):
    """As people write it: an LSTM reads, an LSTMCell writes, and at each step attends to all states of the first."""

    def __init__(self, score):
        super().__init__()
        self.score, self.seen = score, []
        self.embed, self.encoder = nn.Embedding(V, D), nn.LSTM(D, D, batch_first=True)
        self.cell = nn.LSTMCell(2 * D if score == "additive" else D, D)
        self.w, self.u = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.v, self.out = nn.Linear(D, 1, bias=False), nn.Linear(2 * D, V)

    def look(self, s, memory, real):
        if self.score == "additive":
            scores = self.v(torch.tanh(self.w(s)[:, None] + self.u(memory)))[..., 0]
        elif self.score == "general":
            scores = torch.einsum("bmd,bd->bm", self.w(memory), s)
        else:
            scores = torch.bmm(memory, s[:, :, None])[..., 0]
        weights = scores.masked_fill(~real, -torch.inf).softmax(-1)
        self.seen.append(weights.detach())
        return torch.bmm(weights[:, None], memory)[:, 0]

    def forward(self, source, target, real):
        memory, (h, c) = self.encoder(self.embed(source))
        h, c, outs, self.seen = h[0], c[0], [], []
        for t in range(target.shape[1]):
            y = self.embed(target[:, t])
            if self.score == "additive":  # with the state before
                context = self.look(h, memory, real)
                h, c = self.cell(torch.cat((y, context), -1), (h, c))
            else:
                h, c = self.cell(y, (h, c))
                context = self.look(h, memory, real)
            outs.append(self.out(torch.cat((context, h), -1)))
        return torch.stack(outs, 1)


@pytest.mark.parametrize("score", ["dot", "general", "additive"])
def test_each_step_is_heard_and_proved(score):
    torch.manual_seed(0)
    model = Translator(score).double().eval()
    plain = model(SOURCE, TARGET, REAL)
    with record(model) as seen:
        assert torch.equal(model(SOURCE, TARGET, REAL), plain)
    assert len(seen) == N
    for each, true in zip(seen, model.seen, strict=True):
        assert each.reason is None and each.error < 1e-12 and each.kind == "cross"
        torch.testing.assert_close(each.weights[:, 0, 0], true)


class Reader(nn.Module):
    """A GRU that writes begins with the last state of the one that read, and carries it on."""

    def __init__(self, fused):
        super().__init__()
        self.fused = fused
        self.encoder, self.decoder = nn.GRU(D, D, batch_first=True), nn.GRU(2 * D, D, batch_first=True)

    def forward(self, source, target):
        memory, h = self.encoder(source)
        for t in range(target.shape[1]):
            q = h.transpose(0, 1)
            if self.fused:
                context = nn.functional.scaled_dot_product_attention(q[:, None], memory[:, None], memory[:, None])[:, 0]
            else:
                context = (q @ memory.mT).softmax(-1) @ memory
            _, h = self.decoder(torch.cat((target[:, t : t + 1], context), -1), h)
        return h


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("steps", [2, 3, 9])
@pytest.mark.parametrize("keep", ["weights", "summary"])
def test_a_state_that_comes_from_the_memory_does_not_make_it_self_attention(fused, steps, keep):
    torch.manual_seed(0)
    model = Reader(fused).eval()
    with record(model, keep=keep) as seen:
        model(torch.randn(2, M, D), torch.randn(2, steps, D))
    assert [each.kind for each in seen] == ["cross"] * steps
    assert all(each.summary.distance is None for each in seen)


class OneByOne(nn.Module):
    """Self-attention in a loop over its queries."""

    def forward(self, x):
        return torch.cat([(x[:, i : i + 1] @ x.mT).softmax(-1) @ x for i in range(x.shape[1])], 1)


@pytest.mark.parametrize("keep", ["weights", "summary"])
def test_a_loop_over_all_tokens_is_self_attention(keep):
    model = OneByOne()
    with record(model, keep=keep) as seen:
        model(torch.randn(2, M, D))
    assert [each.kind for each in seen] == ["self"] * M
    assert all(each.summary.distance is not None for each in seen)
