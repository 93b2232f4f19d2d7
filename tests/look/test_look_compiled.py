"""Compiled models and FlexAttention are heard in their eager form, and run as before afterwards."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import flex_attention as flex

from regard.look.record import NOTE_COMPILED, record

HEADS, LENGTH, EACH = 4, 32, 16


class Projects(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def parts(self, x):
        return self.qkv(x).unflatten(-1, (3, HEADS, EACH)).permute(2, 0, 3, 1, 4)

    def forward(self, x):
        q, k, v = self.parts(x)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


TABLE = torch.randn(HEADS, 2 * LENGTH, generator=torch.Generator().manual_seed(0))


def score(s, b, h, i, j):
    return 3 * torch.tanh(s / 3) + TABLE[h, i - j + LENGTH]


class Flexible(Projects):
    def __init__(self, mask=True, grouped=False):
        super().__init__()
        causal = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, LENGTH, LENGTH, device="cpu")
        self.mask, self.grouped = causal if mask else None, grouped

    def forward(self, x):
        q, k, v = self.parts(x)
        if self.grouped:
            k, v = k[:, ::2], v[:, ::2]
        return flex.flex_attention(q, k, v, score_mod=score, block_mask=self.mask, scale=0.3, enable_gqa=self.grouped)

    def plain(self, x):
        q, k, _ = self.parts(x)
        if self.grouped:
            k = k[:, ::2].repeat_interleave(2, 1)
        places = torch.arange(LENGTH)
        apart = places[:, None] - places
        scores = 3 * torch.tanh(q @ k.mT * 0.3 / 3) + TABLE[:, apart + LENGTH]
        return (scores if self.mask is None else scores.masked_fill(apart < 0, -torch.inf)).softmax(-1)


@pytest.mark.parametrize("options", [{}, {"mask": False}, {"grouped": True}], ids=str)
def test_flex_attention(options):
    torch.manual_seed(0)
    model, x = Flexible(**options), torch.randn(2, LENGTH, 64)
    with torch.no_grad():
        before = model(x)
        with record(model) as seen:
            after = model(x)
        assert torch.equal(before, after)
        torch.testing.assert_close(seen[0].weights, model.plain(x), atol=1e-5, rtol=0)
        with record(model, rows=[3], heads=[2], keep="summary") as short:
            model(x)
    (entry,) = seen
    assert (entry.operator, entry.kind, entry.proved) == ("flex_attention", "self", True)
    torch.testing.assert_close(short[0].summary.top[0, 0, 0, 0], seen[0].weights[0, 2, 3].max())
    assert flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG is False


@pytest.mark.parametrize("way", ["torch.compile", "module.compile"])
def test_a_compiled_model(way):
    torch.manual_seed(0)
    model, x = Projects(), torch.randn(2, LENGTH, 64)
    plain = model(x)
    if way == "torch.compile":
        compiled = torch.compile(model, backend="eager")
    else:
        model.compile(backend="eager")
        compiled = model
    before = compiled(x)
    with record(compiled) as seen:
        after = compiled(x)
    (entry,) = seen
    assert entry.proved and entry.note == NOTE_COMPILED
    torch.testing.assert_close(after, before, atol=1e-6, rtol=0)
    torch.testing.assert_close(after, plain, atol=1e-6, rtol=0)
    stance = torch._dynamo.eval_frame._stance.stance
    assert stance == "default", "compiled code runs again as before"
