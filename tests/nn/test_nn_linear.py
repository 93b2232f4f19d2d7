"""Large linear maps on a processor by another library: the same numbers, the same gradients, and small ones as ever."""

import copy

import pytest
import torch
import torch.nn.functional as F

from regard.nn import linear
from regard.nn.linear import Linear, Shared, prepacked, suits
from regard.nn.mlp import MLP

pytestmark = pytest.mark.skipif(not linear.KNOWN, reason="this PyTorch was built without oneDNN")


@pytest.fixture
def any_size(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 1)
    monkeypatch.setattr(linear, "LARGE_WITH_GRADIENT", 1)


def layer(bias=True):
    torch.manual_seed(0)
    return Linear(24, 40, bias=bias)


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(24,), (5, 24), (2, 3, 24), (24, 7), (0, 24)])
def test_numbers_and_gradients(bias, shape):
    one, draw = layer(bias), torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=draw).requires_grad_()
    given = x.mT if shape == (24, 7) else x  # not contiguous
    assert suits(given, one.weight) == bool(x.numel())
    found, true = one(given), F.linear(given, one.weight, one.bias)
    torch.testing.assert_close(found, true)
    wanted = (x, *one.parameters())
    for mine, other in zip(*(torch.autograd.grad(y.sin().sum(), wanted) for y in (found, true)), strict=True):
        torch.testing.assert_close(mine, other)
    with torch.no_grad():
        torch.testing.assert_close(one(given), true)


@pytest.fixture
def one_thread():
    """Two threads add in another order, which is seen in the last digits of sums as large as second gradients."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("any_size", "one_thread")
def test_gradients_of_gradients_and_of_some():
    one, x = layer(), torch.randn(5, 24, generator=torch.Generator().manual_seed(1)).requires_grad_()
    second = []
    for f in (one, lambda x: F.linear(x, one.weight, one.bias)):
        first = torch.autograd.grad(f(x).sin().sum(), (x, one.weight), create_graph=True)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in first), (x, one.weight)))
    torch.testing.assert_close(*second)
    one.requires_grad_(False)
    (found,) = torch.autograd.grad(one(x).sum(), x)
    torch.testing.assert_close(found, one.weight.sum(0).expand(5, -1))


@pytest.mark.usefixtures("any_size")
def test_others_get_what_they_always_got():
    one, x = layer(), torch.randn(5, 24)
    assert suits(x, one.weight)
    assert not suits(x.double(), one.double().weight) and not suits(x.half(), one.half().weight)
    assert not suits(x.bfloat16(), one.bfloat16().weight)  # a gradient may be wanted
    one = layer()
    with torch.autocast("cpu", torch.bfloat16):
        assert not suits(x, one.weight) and one(x).dtype is torch.bfloat16
    each = torch.func.vmap(lambda row: one(row[None])[0])(x)
    torch.testing.assert_close(each, one(x))
    compiled = torch.compile(one, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), one(x))


def test_small_ones_are_left_alone():
    one = layer()
    assert not suits(torch.zeros(1, 24), one.weight)
    assert suits(torch.zeros(linear.LARGE_WITH_GRADIENT // 960 + 1, 24), one.weight)


@pytest.mark.usefixtures("any_size")
def test_gelu_comes_with_the_map_unless_somebody_listens():
    torch.manual_seed(0)
    mlp, x, heard = MLP(24, 40), torch.randn(3, 5, 24), []
    assert mlp.up.gelu(x) is None  # a gradient may be wanted
    true = mlp(x)
    with torch.no_grad():
        torch.testing.assert_close(mlp.up.gelu(x), F.gelu(F.linear(x, mlp.up.weight, mlp.up.bias)))
        torch.testing.assert_close(mlp(x), true)
        mlp.up.register_forward_hook(lambda module, given, out: heard.append(out))
        torch.testing.assert_close(mlp(x), true)
    torch.testing.assert_close(heard[0], F.linear(x, mlp.up.weight, mlp.up.bias))


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 200])
def test_weights_that_stay_give_the_same_bits(dtype, rows):
    torch.manual_seed(0)
    mlp, draw = MLP(24, 40).to(dtype), torch.Generator().manual_seed(1)
    x, other = (torch.randn(2, rows, 24, generator=draw).to(dtype), torch.randn(5, 24, generator=draw).to(dtype))
    with torch.no_grad():
        true, else_true = mlp(x), mlp(other)
        with prepacked(mlp):
            assert torch.equal(mlp(x), true) and torch.equal(mlp(other), else_true)  # laid out for other rows
            assert torch.equal(mlp(x), true)
    assert mlp.up.laid is None is mlp.down.laid


@pytest.mark.usefixtures("any_size")
def test_a_weight_that_changes_inside_is_laid_out_anew():
    one, x = layer(), torch.randn(5, 24, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), prepacked(one):
        before = one(x)
        first = one.laid.weight
        assert one.laid.of(one.weight, 5) is first  # and not anew while it stays
        one.weight.mul_(2)
        torch.testing.assert_close(one(x), F.linear(x, one.weight, one.bias))
        assert not torch.equal(one(x), before)
        one.load_state_dict({"weight": torch.zeros(40, 24), "bias": torch.ones(40)})
        assert torch.equal(one(x), torch.ones(5, 40))
        for value in range(5):  # none of which may be taken for one before that lay in the same place
            del one.weight
            one.weight = torch.nn.Parameter(torch.full((40, 24), float(value)))
            torch.testing.assert_close(one(x), F.linear(x, one.weight, one.bias))


@pytest.mark.usefixtures("any_size")
def test_inside_gradients_copies_and_layers_within_are_as_ever():
    one, x = layer(), torch.randn(5, 24, generator=torch.Generator().manual_seed(1))
    with prepacked(one), prepacked(one):
        true = torch.autograd.grad(F.linear(x, one.weight, one.bias).sin().sum(), one.weight)
        torch.testing.assert_close(torch.autograd.grad(one(x).sin().sum(), one.weight), true)
        with torch.no_grad():
            one(x)
        assert one.laid.weight is not None and copy.deepcopy(one).laid is None
    assert one.laid is None
    with torch.inference_mode():
        made_here = layer()
        with prepacked(made_here):
            made_here(x)
            made_here.weight.zero_()  # which nobody counts
            assert torch.equal(made_here(x), made_here.bias.expand(5, -1))


@pytest.mark.usefixtures("any_size")
def test_a_matrix_of_another_layer_is_mapped_the_same_packed_or_not():
    one, weight = Shared(), layer().weight
    for x in (torch.randn(5, 24), torch.randn(2, 3, 24), torch.randn(3, 30)[:, :24]):
        true = F.linear(x, weight)
        torch.testing.assert_close(one.map(x, weight), true)
        with torch.no_grad():
            torch.testing.assert_close(one.map(x, weight), true)
            with prepacked(one):
                torch.testing.assert_close(one.map(x, weight), true)
                assert one.laid is not None and one.laid.weight is not None
        assert one.laid is None
    (gradient,) = torch.autograd.grad(one.map(torch.ones(2, 24), weight).sum(), weight)
    torch.testing.assert_close(gradient, torch.full_like(weight, 2.0))
