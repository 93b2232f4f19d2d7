"""Cross-entropy in pieces: the value and the gradient of PyTorch's, whatever the pieces."""

import pytest
import torch
import torch.nn.functional as F

from regard.data.batch import IGNORE
from regard.training import cross_entropy as module
from regard.training.cross_entropy import cross_entropy

ROWS, CLASSES = 11, 7


@pytest.fixture(autouse=True, params=[1, 3 * CLASSES, ROWS * CLASSES - 1])
def piece(request, monkeypatch):
    """One row at a time; several, the last piece shorter; all rows but one."""
    monkeypatch.setattr(module, "PIECE", request.param)
    monkeypatch.setattr(module, "LARGE", 1)


def make(dtype=torch.float64, ignored=(2, 10)):
    draw = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(ROWS, CLASSES, generator=draw, dtype=torch.float64)).to(dtype)
    target = torch.randint(CLASSES, (ROWS,), generator=draw)
    target[list(ignored)] = IGNORE
    return logits.requires_grad_(), target


def plain(logits, target, smoothing):
    return F.cross_entropy(logits, target, ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("ignored", [(), (2, 10), tuple(range(ROWS))])
def test_it_equals_pytorch(smoothing, ignored):
    logits, target = make(ignored=ignored)
    found, wanted = cross_entropy(logits, target, smoothing), plain(logits, target, smoothing)
    assert "InPieces" in str(found.grad_fn)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    (by_found,) = torch.autograd.grad(3 * found, logits)
    (by_wanted,) = torch.autograd.grad(3 * wanted, logits)
    torch.testing.assert_close(by_found, by_wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_gradient_is_that_of_the_value(smoothing):
    logits, target = make()
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, target, smoothing), logits)


def test_bfloat16_is_summed_in_float32_and_keeps_its_own_gradient():
    logits, target = make(torch.bfloat16)
    found = cross_entropy(logits, target, 0.1)
    found.backward()
    exact = logits.detach().float().requires_grad_()
    wanted = plain(exact, target, 0.1)
    wanted.backward()
    assert found.dtype == torch.float32 and logits.grad.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(logits.grad, exact.grad.bfloat16())


def test_what_is_ignored_may_be_no_number():
    logits, target = make()
    wanted = cross_entropy(logits, target, 0.1)
    with torch.no_grad():
        logits[2] = float("nan")
    found = cross_entropy(logits, target, 0.1)
    found.backward()
    assert found.item() == wanted.item()
    assert logits.grad.isfinite().all() and not logits.grad[2].any()


def test_a_class_may_be_impossible():
    logits, target = make()
    with torch.no_grad():
        logits[target != 3, 3] = -torch.inf
    found = cross_entropy(logits, target)
    found.backward()
    assert found.isfinite() and logits.grad.isfinite().all()
    torch.testing.assert_close(found, plain(logits, target, 0.0))


def test_the_logits_are_not_changed():
    logits, target = make()
    before = logits.detach().clone()
    cross_entropy(logits, target, 0.1).backward()
    assert torch.equal(logits, before)
