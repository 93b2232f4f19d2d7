"""Sparse weights against their definitions: projections found by bisection, gradients by differences."""

import pytest
import torch

from regard.attention import kernels
from regard.attention.attend import attend, explain
from regard.attention.biases import ALiBi
from regard.attention.masks import Causal, Padding, Window
from regard.attention.weights import Entmax, Sparsemax

POWERS = {Sparsemax(): 1, Entmax(): 2}  # p = max((α − 1)·z − τ, 0)^(1/(α − 1)), with α = 2 and 1.5
EACH = pytest.mark.parametrize("weights", POWERS, ids=["sparsemax", "entmax"])


def by_bisection(z, power):
    """The weights at the threshold where they sum to one."""
    z = z / power
    low, high = z.amax(-1, keepdim=True) - 1, z.amax(-1, keepdim=True)
    for _ in range(200):
        middle = (low + high) / 2
        above = (z - middle).clamp(min=0).pow(power).sum(-1, keepdim=True) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (z - low).clamp(min=0).pow(power)


@EACH
@pytest.mark.parametrize("m", [1, 2, 9, 500])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_weights_are_the_projection(weights, m, size):
    z = size * torch.randn(3, 4, m, generator=torch.Generator().manual_seed(m), dtype=torch.float64)
    found = weights.normalise(z)
    torch.testing.assert_close(found, by_bisection(z, POWERS[weights]))
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 4, dtype=torch.float64))


@EACH
def test_ties_share(weights):
    z = torch.tensor([[3.0, 3.0, 3.0, 0.0, -torch.inf]], dtype=torch.float64)
    torch.testing.assert_close(weights.normalise(z), torch.tensor([[1.0, 1, 1, 0, 0]], dtype=torch.float64) / 3)


@EACH
def test_gradients(weights):
    z = torch.randn(5, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(weights.normalise, (z,))


def inputs(n, m, heads=2):
    random = torch.Generator().manual_seed(1)
    sizes = ((2, heads, n, 8), (2, heads, m, 8), (2, heads, m, 8))
    return [torch.randn(*size, generator=random, dtype=torch.float64).mul_(2).requires_grad_() for size in sizes]


MASKS = {
    "none": lambda: None,
    "causal": lambda: Causal(),
    "window and padding": lambda: Causal() & Window(5) & Padding([300, 0]),
}


@EACH
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("biased", [False, True])
def test_kernels_agree_and_empty_rows_are_zero(weights, mask, biased):
    q, k, v = inputs(300, 300)
    bias = ALiBi(2) if biased else None
    how = {"mask": MASKS[mask](), "bias": bias, "weights": weights}
    outs = []
    for name in ("reference", "tiled", "plain"):
        with kernels.only(name):
            outs.append(attend(q, k, v, **how))
    outs.append(attend(q, k, v, **how))
    grads = [torch.autograd.grad(out.sin().sum(), (q, k, v)) for out in outs]
    for out, grad in zip(outs[1:], grads[1:], strict=True):
        torch.testing.assert_close(out, outs[0])
        for one, other in zip(grad, grads[0], strict=True):
            torch.testing.assert_close(one, other)
    if "padding" in mask:
        assert not outs[0][1].any() and not grads[0][0][1].any()


@EACH
@pytest.mark.parametrize("kernel", ["fused", "stairs"])
def test_a_kernel_that_knows_softmax_only_says_so(weights, kernel):
    q, k, v = inputs(7, 7)
    with kernels.only(kernel), pytest.raises(ValueError, match=f"{kernel} kernel cannot"):
        attend(q, k, v, mask=Causal(), weights=weights)


@EACH
def test_long_sequences_are_done_in_strips(weights):
    q, k, v = (x.detach().float()[:, :1].repeat(1, 1, 7, 1) for x in inputs(600, 600))
    choice = explain(q, k, v, mask=Causal(), weights=weights)
    assert choice.name == "tiled" and type(weights).__name__ in choice.why


def test_what_is_no_weights_object_is_refused():
    q, k, v = inputs(3, 3)
    for wrong in ("sparsemax", Sparsemax):
        with pytest.raises(ValueError, match="weights.*Sparsemax"):
            attend(q, k, v, weights=wrong)
