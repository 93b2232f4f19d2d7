"""The cross-entropy of a linear layer equals torch's, whatever the number of rows taken at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn import linear_cross_entropy as module
from regard.nn.linear_cross_entropy import IGNORE, linear_cross_entropy

CLASSES, WIDTH = 11, 5


def random_inputs(rows: int, ignored: tuple[int, ...] = ()) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, WIDTH, generator=draw, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(CLASSES, WIDTH, generator=draw, dtype=torch.float64, requires_grad=True)
    target = torch.randint(CLASSES, (rows,), generator=draw)
    target[list(ignored)] = IGNORE
    return x, weight, target


def plain(x: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(F.linear(x, weight), target, label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows, ignored", [(1, ()), (7, (0, 6)), (8, ()), (3, (0, 1, 2))])
@pytest.mark.parametrize("at_once", [1, 3 * CLASSES, 10**6])
def test_loss_and_gradients_equal_torch(
    monkeypatch: pytest.MonkeyPatch, at_once: int, rows: int, ignored: tuple[int, ...], smoothing: float
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    x, weight, target = random_inputs(rows, ignored)
    loss = linear_cross_entropy(x, weight, target, smoothing)
    expected = plain(x, weight, target, smoothing)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    found = torch.autograd.grad(3 * loss, (x, weight))
    wanted = torch.autograd.grad(3 * expected, (x, weight))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_same_loss_without_gradients() -> None:
    x, weight, target = random_inputs(7, (2,))
    learned = linear_cross_entropy(x, weight, target, 0.1)
    with torch.no_grad():
        measured = linear_cross_entropy(x, weight, target, 0.1)
    torch.testing.assert_close(learned.detach(), measured, check_dtype=False, rtol=1e-6, atol=1e-6)


def test_a_class_that_is_all_but_impossible_has_a_finite_loss() -> None:
    x = torch.tensor([[1000.0]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    loss = linear_cross_entropy(x, weight, torch.tensor([1]))
    assert loss.item() == pytest.approx(2000.0)


def test_bfloat16_stays_near_float32() -> None:
    x, weight, target = (each.float() if each.is_floating_point() else each for each in random_inputs(8))
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(x, weight, target, 0.1)
    found = torch.autograd.grad(loss, (x, weight))
    assert [each.dtype for each in found] == [torch.float32] * 2
    wanted = torch.autograd.grad(plain(x, weight, target, 0.1), (x, weight))
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.05)
