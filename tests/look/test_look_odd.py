"""Attention in odd ways: what is proved is right, what is not says why, and nothing is left out in silence."""

import contextlib
import itertools

import pytest
import torch

from regard.look.record import record
from tests.look.drawn import Drawn, Plan
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


ORDERS = list(itertools.permutations(range(3)))


def is_true(weights, true):
    """Are these the true weights: in their order, or in another one of batch, heads and queries, or those of one head?"""
    true = [true.permute(*order, 3) for order in ORDERS] + [true[:, n, None] for n in range(true.shape[1])]
    return any(
        weights.numel() == each.numel() and torch.allclose(weights.reshape(each.shape), each, atol=1e-5)
        for each in true
    )


@pytest.mark.parametrize("start", range(0, 240, 40))
def test_attention_drawn_at_random(start):
    for seed in range(start, start + 40):
        plan = Plan.draw(seed)
        torch.manual_seed(seed)
        model, x, y = Drawn(plan).eval(), torch.randn(2, 5, 12), torch.randn(2, 7, 12)
        with torch.no_grad() if seed % 2 else torch.inference_mode():
            before = model(x, y)
            with record(model) as seen:
                after = model(x, y)
        assert torch.equal(before, after), (seed, plan)
        softmax = plan.softmax in ("softmax", "double")
        for entry in seen:
            if entry.proved:
                assert is_true(entry.weights.float(), model.truth), (seed, plan, entry)
                same = entry.weights.shape == model.truth.shape
                ordered = same and torch.allclose(entry.weights.float(), model.truth, atol=1e-5)
                assert ordered or entry.note, (seed, plan, "another order is said")
        if softmax or not plan.changes:
            assert len(seen), (seed, plan, "nothing is left out in silence")
        if plan.softmax != "sigmoid" and not plan.changes:
            assert all(entry.proved for entry in seen), (seed, plan, seen)
        if softmax and plan.changes:
            assert not any(entry.proved for entry in seen), (seed, plan, seen)
