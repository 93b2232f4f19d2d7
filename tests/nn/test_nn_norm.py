"""Norms: what they promise, and the same numbers as torch's own."""

import pytest
import torch

from regard.nn.norm import NORMS, LayerNorm, RMSNorm


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(2, 5, 12, dtype=torch.float64) * 3 + 1


def randomised(norm):
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return norm.double()


def test_layer_norm_promises_mean_zero_and_variance_one_divided_by_d(x):
    out = LayerNorm(12, eps=1e-12).double()(x)
    torch.testing.assert_close(out.mean(-1), torch.zeros(2, 5).double())
    torch.testing.assert_close(out.square().mean(-1), torch.ones(2, 5).double())
    assert (out.var(-1) - 1).abs().min() > 0.05  # dividing by d − 1 would give another number


def test_rms_norm_promises_mean_square_one_and_leaves_the_mean(x):
    out = RMSNorm(12, eps=1e-12).double()(x)
    torch.testing.assert_close(out.square().mean(-1), torch.ones(2, 5).double())
    torch.testing.assert_close(out.mean(-1), x.mean(-1) / x.square().mean(-1).sqrt())


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (LayerNorm(12, eps=1e-3), torch.nn.LayerNorm(12, eps=1e-3)),
        (RMSNorm(12, eps=1e-3), torch.nn.RMSNorm(12, eps=1e-3)),
    ],
)
def test_same_as_torch(ours, theirs, x):
    ours, theirs = randomised(ours), theirs.double()
    with torch.no_grad():
        theirs.weight.copy_(ours.scale)
        if hasattr(ours, "shift"):
            theirs.bias.copy_(ours.shift)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.testing.assert_close(ours(mine), theirs(other))
    ours(mine).sin().sum().backward()
    theirs(other).sin().sum().backward()
    torch.testing.assert_close(mine.grad, other.grad)
    torch.testing.assert_close(ours.scale.grad, theirs.weight.grad)


@pytest.mark.parametrize("name", NORMS)
def test_size_does_not_matter_and_an_offset_matters_to_rms_only(name, x):
    norm = randomised(NORMS[name](12, eps=1e-14))
    torch.testing.assert_close(norm(7 * x), norm(x))
    assert torch.allclose(norm(x + 5), norm(x)) == (name == "layernorm")


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.filterwarnings("error")
def test_half_precision_stays_near_and_keeps_its_dtype(name, x):
    norm = NORMS[name](12)
    exact = norm.double()(x)
    half = norm.float()(x.bfloat16()) if name == "rmsnorm" else norm.bfloat16()(x.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), exact, rtol=0.02, atol=0.02)


def test_parameters_are_called_scale_and_shift():
    assert list(LayerNorm(3).state_dict()) == ["scale", "shift"]
    assert list(RMSNorm(3).state_dict()) == ["scale"]
    assert repr(LayerNorm(3)) == "LayerNorm(3, eps=1e-05)"


@pytest.mark.parametrize("name", NORMS)
def test_a_wrong_width_is_said(name):
    with pytest.raises(ValueError, match="x.*'... d'.*d=12.*shape .2, 6."):
        NORMS[name](12)(torch.zeros(2, 6))
