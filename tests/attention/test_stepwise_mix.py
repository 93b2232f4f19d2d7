"""Attention step by step is `mix` for all queries at once, masks, empty rows and recording included."""

import pytest
import torch

from regard.attention import tap
from regard.attention.additive_attention import StepwiseMix, mix
from regard.attention.masks import Causal, Padding
from regard.errors import RegardError


def score(queries, keys):
    return torch.tanh(queries[:, :, None] + keys[:, None]).sum(-1)


@pytest.mark.parametrize("lengths", [None, (5, 2, 0)])
def test_steps_are_one_call_of_mix(lengths):
    draw = torch.Generator().manual_seed(0)
    queries, keys, v = (torch.randn(3, n, 4, generator=draw, dtype=torch.float64) for n in (6, 5, 5))
    mask = None if lengths is None else Padding(torch.tensor(lengths))
    true = mix(score(queries, keys)[:, None], v[:, None], mask)[:, 0]
    if lengths is not None:  # what nobody may see may hold anything
        v = v.masked_fill(torch.arange(5)[:, None] >= torch.tensor(lengths)[:, None, None], torch.nan)
    heard = []
    with tap.listen(heard.append):
        steps = StepwiseMix(score, keys, v, mask)
        found = torch.cat([steps(queries[:, t : t + 1]) for t in range(6)], 1)
        steps.end()
    torch.testing.assert_close(found, true)
    (call,) = heard
    assert call.cross and call.scores.shape == (3, 1, 6, 5)
    torch.testing.assert_close(call.out[:, 0], true)
    torch.testing.assert_close(StepwiseMix(score, keys, v, mask)(queries), true)  # several at once


def test_only_padding_says_the_same_to_every_step():
    with pytest.raises(RegardError, match="Padding.*Causal"):
        StepwiseMix(score, torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), Causal())
