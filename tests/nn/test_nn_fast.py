"""Gradients written by hand are the gradients: of the norm and the activation that have one for the CPU."""

import pytest
import torch
import torch.nn.functional as F

from regard.nn.mlp import Relu2, relu2
from regard.nn.norm import Fast, RMSNorm


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)


def test_first_and_second_gradients(x):
    scale = torch.randn(8, dtype=torch.float64, requires_grad=True)
    for function, inputs in ((lambda x, s: Fast.apply(x, s, 1e-3)[0], (x, scale)), (relu2, (x,))):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_they_are_used_for_training_on_the_cpu_and_nowhere_else(x):
    norm = RMSNorm(8).double()
    assert norm(x).grad_fn.next_functions and "Fast" in norm(x).grad_fn.name() and "Relu2" in relu2(x).grad_fn.name()
    with torch.no_grad():
        assert norm(x).grad_fn is None is relu2(x).grad_fn
    half = norm.bfloat16()(x.bfloat16())
    assert half.dtype == torch.bfloat16 and "Fast" not in half.grad_fn.name()


def test_strided_and_empty_inputs(x):
    norm, theirs = RMSNorm(3).double(), torch.nn.RMSNorm(3, eps=1e-6).double()
    turned = x.transpose(1, 2)  # 2 8 3, not contiguous
    found, true = (torch.autograd.grad(f(turned).sin().sum(), x)[0] for f in (norm, theirs))
    torch.testing.assert_close(found, true)
    assert norm(torch.zeros(2, 0, 3, dtype=torch.float64, requires_grad=True)).sum() == 0
    torch.testing.assert_close(Relu2.apply(x)[0], F.relu(x) ** 2)


@pytest.mark.filterwarnings("error")
def test_a_gradient_for_each_row_at_once(x):
    norm = RMSNorm(8).double()
    parameters = dict(norm.named_parameters())

    def loss(parameters, row):
        return torch.func.functional_call(norm, parameters, (row,)).sin().sum() + relu2(row).sum()

    rows = x.detach()
    each, onto_rows = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(None, 0))(parameters, rows)
    for i, row in enumerate(rows):
        row = row.clone().requires_grad_()
        true = torch.autograd.grad(loss(parameters, row), (norm.scale, row))
        torch.testing.assert_close((each["scale"][i], onto_rows[i]), true)
