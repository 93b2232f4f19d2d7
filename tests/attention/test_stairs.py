"""The kernel for training on short causal sequences: when it is taken, and what else may be asked of it."""

import pytest
import torch

from regard.attention import kernels
from regard.attention.attend import attend, explain, is_plain_sdpa
from regard.attention.kernels.causal_blocks import LONGEST, SHORTEST
from regard.attention.masks import Causal, Window
from tests.attention.cases import random_inputs, results, worst_error


def test_it_is_taken_for_training_on_short_causal_sequences_and_only_for_them():
    short = random_inputs(SHORTEST, SHORTEST)
    assert explain(*short, mask=Causal()).name == "stairs"
    assert explain(*random_inputs(LONGEST, LONGEST), mask=Causal()).name == "stairs"
    assert not is_plain_sdpa(*short, Causal(), None, 0.0)  # the shortcut to SDPA leaves it alone
    others = [
        (random_inputs(SHORTEST - 1, SHORTEST - 1), {"mask": Causal()}),
        (random_inputs(LONGEST + 1, LONGEST + 1), {"mask": Causal()}),
        (random_inputs(SHORTEST, SHORTEST + 1), {"mask": Causal()}),
        (random_inputs(SHORTEST, SHORTEST, groups=2), {"mask": Causal()}),
        (random_inputs(SHORTEST, SHORTEST, dtype=torch.bfloat16), {"mask": Causal()}),
        (random_inputs(LONGEST, LONGEST, heads=16), {"mask": Causal()}),  # too many weights to be kept
        (short, {}),
        (short, {"mask": Causal() & Window(3)}),
        (short, {"mask": Causal(), "where": torch.arange(SHORTEST)}),
        (short, {"mask": Causal(), "dropout": 0.1}),
        ([x.detach() for x in short], {"mask": Causal()}),
    ]
    for inputs, how in others:
        assert explain(*inputs, **how).name != "stairs", how
    with torch.no_grad():
        assert explain(*short, mask=Causal()).name == "fused"


@pytest.mark.parametrize("n", [128, 191, 200])  # full strips, one row short, and a short last strip
@pytest.mark.parametrize("dtype, most", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_what_attend_takes_by_itself_equals_the_reference(n, dtype, most):
    inputs = random_inputs(n, n, dtype=dtype)
    laid = [
        x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in inputs
    ]  # as layers give them
    exact = [x.detach().double().requires_grad_() for x in inputs]
    for scale in (None, 0.3):
        with kernels.only("reference"):
            true = results(exact, mask=Causal(), scale=scale)
        for given in (inputs, laid):
            assert explain(*given, mask=Causal()).name == "stairs"
            assert worst_error(results(given, mask=Causal(), scale=scale), true) < most


def test_only_some_may_want_a_gradient():
    q, k, v = (x.detach() for x in random_inputs(SHORTEST, SHORTEST))
    v.requires_grad_()
    out = attend(q, k, v, mask=Causal())
    (found,) = torch.autograd.grad(out.sin().sum(), v)
    with kernels.only("reference"):
        (true,) = torch.autograd.grad(attend(q, k, v, mask=Causal()).sin().sum(), v)
    torch.testing.assert_close(found, true)


@pytest.mark.parametrize("width", [3, 16])
def test_values_may_have_a_width_of_their_own(width):
    inputs = random_inputs(70, 70, width=width)
    with kernels.only("reference"):
        true = results(inputs, mask=Causal())
    with kernels.only("stairs"):
        assert worst_error(results(inputs, mask=Causal()), true) < 1e-10


def twice(inputs, kernel):
    """Gradients of the size of a gradient."""
    with kernels.only(kernel):
        out = attend(*inputs, mask=Causal())
    first = torch.autograd.grad(out.sin().sum(), inputs, create_graph=True)
    return torch.autograd.grad(sum(g.square().sum() for g in first), inputs)


def test_gradients_of_gradients_and_of_many_at_once():
    inputs = random_inputs(70, 70)  # two strips
    for found, true in zip(twice(inputs, "stairs"), twice(inputs, "reference"), strict=True):
        torch.testing.assert_close(found, true)

    def loss(q, k, v):
        return attend(q[None], k[None], v[None], mask=Causal()).sin().sum()

    many = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)), in_dims=(0, 0, None))
    each = {}
    for kernel in ("stairs", "reference"):
        with kernels.only(kernel):
            each[kernel] = many(*inputs[:2], inputs[2][0])
    for found, true in zip(each["stairs"], each["reference"], strict=True):
        torch.testing.assert_close(found, true)


def test_it_refuses_what_it_cannot_do():
    inputs = random_inputs(7, 7)
    with kernels.only("stairs"):
        for how in ({}, {"mask": Causal() & Window(2)}, {"mask": Causal(), "dropout": 0.5}):
            with pytest.raises(ValueError, match="kernel.*causal mask"):
                attend(*inputs, **how)
