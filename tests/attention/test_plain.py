"""The kernel of two plain products: its gradients are written by hand, and what else may be asked of it."""

import pytest
import torch

from regard.attention import kernels
from regard.attention.attend import attend, explain, validate
from regard.attention.biases import Offsets, Relative
from regard.attention.kernels import plain
from regard.attention.kernels.plain import Plain
from regard.attention.kernels.reference import by_definition
from regard.attention.masks import Causal, Dense
from regard.models.swin import Near
from regard.nn.embed import grid_places
from tests.attention.cases import CHANNELS, HEADS, random_inputs, results

WHERE = grid_places((2, 3), (2, 3), torch.device("cpu"))


def some_hidden():
    """Of two rows the second query sees nothing, and no query sees the last key."""
    allowed = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(0)) < 0.7
    allowed[:, 1], allowed[..., 5] = False, False
    return Dense(allowed)


@pytest.mark.parametrize("mask", [None, Causal(), some_hidden()])
@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("piece", [plain.PIECE, 1])
def test_the_bias_gets_its_gradient_whole_or_in_pieces(mask, groups, piece, monkeypatch):
    monkeypatch.setattr(plain, "PIECE", piece)  # 1: each row by itself
    inputs, bias = random_inputs(6, 6, heads=4, groups=groups), Offsets(4, reach=2).double()
    how = {"mask": mask, "bias": bias, "where": WHERE}
    found = {}
    for kernel in ("reference", "plain"):
        with kernels.only(kernel):
            out = attend(*inputs, **how)
            found[kernel] = (out, *torch.autograd.grad(out.sin().sum(), (*inputs, bias.table)))
    for mine, true in zip(found["plain"], found["reference"], strict=True):
        torch.testing.assert_close(mine, true)


def test_first_and_second_gradients():
    q, k, v = random_inputs(3, 4)
    draw = torch.Generator().manual_seed(0)
    added = torch.randn(1, q.shape[1], 3, 4, dtype=q.dtype, generator=draw).requires_grad_()
    hidden = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]], dtype=torch.bool)
    empty = torch.tensor([[False], [True], [False]])
    for rest in ((None, None), (hidden, None), (hidden, empty)):
        function = lambda *given, rest=rest: Plain.apply(*given, *rest, 0.3)  # noqa: E731
        assert torch.autograd.gradcheck(function, (q, k, v, added))
        assert torch.autograd.gradgradcheck(function, (q, k, v, added))


@pytest.mark.parametrize("rows", [1, 3, 4, 12])
# all at once; some rounds; parts of a round; each row by itself
@pytest.mark.parametrize("piece", [plain.PIECE, 100, 30, 1])
def test_what_is_added_may_come_again_after_some_rows(rows, piece, monkeypatch):
    monkeypatch.setattr(plain, "PIECE", piece)
    q, k, v = random_inputs(3, 3, batch=12)
    added = torch.randn(rows, q.shape[1], 3, 3, dtype=q.dtype, generator=torch.Generator().manual_seed(0))
    added[:, :, 0, 1] = -torch.inf
    added.requires_grad_()
    found = Plain.apply(q, k, v, added, None, None, 0.3)
    true = (0.3 * q @ k.mT + added.repeat(12 // rows, 1, 1, 1)).softmax(-1) @ v
    gradients = (torch.autograd.grad(out.sin().sum(), (q, k, v, added), create_graph=True) for out in (found, true))
    torch.testing.assert_close(found, true)
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("piece", [plain.PIECE, 400, 1])
def test_a_mask_that_comes_again_is_hidden_once(piece, monkeypatch):
    """Two images of three windows: the same as if nothing were known of the mask, and no row was masked by itself."""
    monkeypatch.setattr(plain, "PIECE", piece)
    inputs, bias, seen = random_inputs(6, 6, heads=4, groups=4, batch=6), Offsets(4, reach=2).double(), []
    allowed = (torch.rand(3, 6, 6, generator=torch.Generator().manual_seed(0)) < 0.6) | torch.eye(6, dtype=torch.bool)
    apply = Plain.apply
    monkeypatch.setattr(Plain, "apply", lambda *given: seen.append((given[3].shape, given[4])) or apply(*given))
    found = {}
    for name, mask in (("again", Near(allowed, 2)), ("dense", Dense(allowed.repeat(2, 1, 1)))):
        with kernels.only("plain"):
            out = attend(*inputs, mask=mask, bias=bias, where=WHERE)
        found[name] = (out, *torch.autograd.grad(out.sin().sum(), (*inputs, bias.table)))
    for mine, true in zip(*found.values(), strict=True):
        torch.testing.assert_close(mine, true)
    assert seen[0] == ((3, 4, 6, 6), None) and seen[1][0] == (1, 4, 6, 6)


def test_only_some_may_want_a_gradient():
    q, k, v = (x.detach() for x in random_inputs(6, 6))
    bias = Offsets(q.shape[1], reach=2).double()
    assert explain(q, k, v, bias=bias, where=WHERE).name == "plain"
    found = torch.autograd.grad(attend(q, k, v, bias=bias, where=WHERE).sin().sum(), bias.table)
    with kernels.only("reference"):
        true = torch.autograd.grad(attend(q, k, v, bias=bias, where=WHERE).sin().sum(), bias.table)
    torch.testing.assert_close(found, true)


BIASES = {
    "none": lambda: None,
    "relative": lambda: Relative(8, reach=2, values=False),
    "offsets": lambda: Offsets(4, reach=2),
}


@pytest.mark.parametrize("bias, where", [("none", None), ("relative", None), ("offsets", WHERE)])
@pytest.mark.parametrize("mask", [None, Causal()])
def test_half_precision_is_about_as_near_as_autograd_would_bring_it(mask, bias, where):
    """Weights are kept in bfloat16; that must cost little beside what is rounded anyway."""
    torch.manual_seed(0)
    half = [
        torch.randn(200, HEADS, 6, CHANNELS).bfloat16().requires_grad_() for _ in range(3)
    ]  # many: chance evens out
    exact, how = (
        [x.detach().double().requires_grad_() for x in half],
        {"mask": mask, "bias": BIASES[bias](), "where": where},
    )
    with kernels.only("reference"):
        true = results(exact, **how)
    with kernels.only("plain"):
        found = results(half, **how)
    *given, terms = validate(*half, scale=None, dropout=0.0, **how)
    out = by_definition(*given, terms)
    learned = [] if how["bias"] is None else how["bias"].learned()
    usual = (out, *torch.autograd.grad(out.double().sin().sum(), (*half, *learned)))
    for mine, other, exactly in zip(found, usual, true, strict=True):
        assert (mine - exactly).abs().mean() < 1.2 * (other - exactly).abs().mean()


def test_many_at_once():
    inputs = random_inputs(6, 6)

    def loss(q, k, v):
        return attend(q[None], k[None], v[None], mask=Causal()).sin().sum()

    with kernels.only("plain"):
        found = torch.func.vmap(torch.func.grad(loss))(*inputs)
    with kernels.only("reference"):
        true = torch.func.vmap(torch.func.grad(loss))(*inputs)
    torch.testing.assert_close(found, true)
