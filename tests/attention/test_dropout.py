"""Dropout as its definition says, and as often as it says."""

import math

import pytest
import torch
from torch import nn

from regard.attention.dropout import Dropout, apply_dropout

SHARES = (0.001, 0.1, 0.5, 0.6, 0.999)


@pytest.mark.parametrize("share", SHARES)
def test_the_share_that_is_dropped_and_the_mean_that_stays(share):
    torch.manual_seed(0)
    n = 400_003
    y = apply_dropout(torch.ones(n, dtype=torch.float64), share)
    kept = y != 0
    spread = math.sqrt(share * (1 - share) / n)
    assert abs(kept.double().mean().item() - (1 - share)) < 5 * spread + 2**-16
    assert y[kept].unique().numel() == 1
    # grown by 1/k, k to the nearest 2⁻¹⁶
    assert abs(y[kept][0].item() * (1 - share) - 1) < 2**-16 / (1 - share)
    assert abs(y.mean().item() - 1) < 5 * spread / (1 - share)


@pytest.mark.parametrize("share", (0.1, 0.5))
def test_neighbours_are_dropped_independently(share):
    """Four draws come from each 64 bits: none of them may know another."""
    torch.manual_seed(0)
    gone = (apply_dropout(torch.ones(400_000, dtype=torch.float64), share) == 0).double() - share
    for apart in (1, 2, 3, 4, 8, 64):
        together = (gone[apart:] * gone[:-apart]).mean().item() / (share * (1 - share))
        assert abs(together) < 5 / math.sqrt(len(gone)), apart
    for lane in range(4):
        assert abs(gone[lane::4].mean().item()) < 5 * math.sqrt(share * (1 - share) / 100_000), lane


@pytest.mark.parametrize("shape", ((), (1,), (3,), (5, 7), (2, 0, 3), (2, 3, 4, 5)))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16, torch.float16))
def test_any_shape_and_dtype(shape, dtype):
    y = apply_dropout(torch.ones(shape, dtype=dtype), 0.5)
    assert y.shape == torch.Size(shape) and y.dtype == dtype
    assert set(y.flatten().tolist()) <= {0.0, 2.0}


def test_the_gradient_goes_where_the_number_went():
    x = torch.randn(50, 9, dtype=torch.float64, requires_grad=True)
    y = apply_dropout(x, 0.3)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())
    assert ((x.grad == 0) == (y == 0)).all()


def test_a_view_and_a_leaf_are_left_alone():
    x = torch.randn(6, 8)
    before = x.clone()
    apply_dropout(x.T, 0.5)
    apply_dropout(x[:, ::2], 0.5)
    assert torch.equal(x, before)


def test_the_same_seed_drops_the_same():
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = apply_dropout(x, 0.5), apply_dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(first, apply_dropout(x, 0.5)) and torch.equal(second, apply_dropout(x, 0.5))
    assert not torch.equal(first, second)


def test_what_drops_nothing_draws_nothing():
    x = torch.randn(100)
    before = torch.get_rng_state()
    assert torch.equal(apply_dropout(x, 0.5, training=False), x) and torch.equal(apply_dropout(x, 0.0), x)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(apply_dropout(x, 1.0), torch.zeros(100))
    assert torch.equal(apply_dropout(x, 1e-9), x)  # less than one draw can tell


def test_the_layer_is_one_of_torch_and_obeys_eval():
    layer = Dropout(0.5)
    assert isinstance(layer, nn.Dropout)
    x = torch.ones(1000)
    assert (layer(x) == 0).any()
    assert torch.equal(layer.eval()(x), x)
    with pytest.raises(ValueError, match="dropout probability.*between 0.*1"):
        Dropout(1.5)
