"""Attention in odd ways: what is proved is right, what is not says why, and nothing is left out in silence."""

import contextlib

import pytest
import torch

from regard.look.record import record
from tests.look.odd import ODD, D, N, Odd


def truth_of(model):
    """One true matrix for each entry."""
    found = model.truth() if callable(model.truth) else model.truth
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("around", [contextlib.nullcontext, torch.no_grad, torch.inference_mode])
def test_odd_attention(name, around):
    case = ODD[name]
    torch.manual_seed(0)
    model, x = Odd(case.way).eval().to(case.dtype), torch.randn(2, N, D, dtype=case.dtype)
    with around():
        before = model(x)
        with record(model) as seen:
            after = model(x)
    assert torch.equal(before, after), "recording changes nothing"
    assert len(seen) == case.entries, "nothing is left out in silence"
    assert [entry.proved for entry in seen] == [case.proved] * case.entries, seen
    if not case.proved:
        assert case.words in seen[0].reason
        assert seen[0].get_weights(unproved=True).dim() == 4
        return
    tolerance = 1e-2 if case.dtype == torch.bfloat16 else 1e-5
    for entry, true in zip(seen, truth_of(model), strict=True):
        true = true.to(entry.weights.dtype)
        torch.testing.assert_close(entry.weights.reshape(true.shape), true, atol=tolerance, rtol=0)
        assert true.std() > 1e-3, "equal weights would prove little"


def test_there_are_many_ways():
    assert len(ODD) >= 60
    assert sum(not case.proved for case in ODD.values()) >= 20
