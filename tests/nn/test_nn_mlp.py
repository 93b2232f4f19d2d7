"""MLPs: the same numbers as torch's feed-forward block and as the equations, and names that are understood."""

import pytest
import torch

from regard.nn.mlp import ACTIVATIONS, MLP, MLPS, SwiGLU, make_mlp


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(2, 5, 8, dtype=torch.float64)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_same_as_the_feed_forward_block_of_torch(activation, x):
    ours = MLP(8, 20, activation).double()
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 20, dropout=0.0, activation=activation).double()
    theirs.linear1.load_state_dict(ours.up.state_dict())
    theirs.linear2.load_state_dict(ours.down.state_dict())
    torch.testing.assert_close(ours(x), theirs._ff_block(x))


def test_activations_are_what_their_names_say():
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], dtype=torch.float64)
    normal = 0.5 * (1 + torch.erf(x / 2**0.5))
    expected = {
        "relu": x.clamp(min=0),
        "leaky": torch.where(x > 0, x, x / 100),
        "gelu": x * normal,
        "gelu_tanh": x / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
        "relu2": x.clamp(min=0) ** 2,
    }
    assert set(expected) == set(ACTIVATIONS)
    for name, activation in ACTIVATIONS.items():
        torch.testing.assert_close(activation(x), expected[name])


def test_swiglu_is_its_equation(x):
    mlp = SwiGLU(8).double()
    gate, up, down = mlp.gate.weight, mlp.up.weight, mlp.down.weight
    z = x @ gate.T
    torch.testing.assert_close(mlp(x), (z / (1 + torch.exp(-z)) * (x @ up.T)) @ down.T)
    assert [name for name, _ in mlp.named_parameters()] == ["gate.weight", "up.weight", "down.weight"]


@pytest.mark.parametrize("dim, hidden", [(1, 8), (8, 24), (96, 256), (384, 1024), (512, 1368), (4096, 10920)])
def test_swiglu_takes_the_multiple_of_8_nearest_to_eight_thirds(dim, hidden):
    with torch.device("meta"):
        mlp = SwiGLU(dim)
    assert mlp.hidden == hidden == mlp.down.weight.shape[1]
    assert dim < 8 or abs(hidden - 8 / 3 * dim) <= 4


@pytest.mark.parametrize("name", MLPS)
def test_make_mlp_gives_the_one_that_was_named(name, x):
    torch.manual_seed(3)
    made = make_mlp(name, 8, 16, 0.25).double()
    torch.manual_seed(3)
    direct = (SwiGLU(8, 16) if name == "swiglu" else MLP(8, 16, name)).double()
    assert made.dropout.p == 0.25
    assert made.up.weight.shape == (16, 8)
    torch.testing.assert_close(made.eval()(x), direct(x))
    assert make_mlp(name, 8).hidden == (24 if name == "swiglu" else 32)


def test_every_name_is_another_function(x):
    outs = []
    for name in MLPS:
        torch.manual_seed(3)
        outs.append(make_mlp(name, 8, 16).double()(x))
    for i, one in enumerate(outs):
        for other in outs[:i]:
            assert (one - other).abs().max() > 1e-4


@pytest.mark.parametrize("name", MLPS)
def test_each_token_by_itself(name, x):
    mlp = make_mlp(name, 8).double()
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(mlp(x[:, order]), mlp(x)[:, order])
    torch.testing.assert_close(mlp(x[1, 2]), mlp(x)[1, 2])


@pytest.mark.parametrize("name", MLPS)
def test_dropout_falls_on_hidden_channels_and_only_in_training(name):
    mlp = make_mlp(name, 64, 64, 0.5)
    with torch.no_grad():
        for parameter in mlp.parameters():
            parameter.zero_()
        for part in (mlp.up, getattr(mlp, "gate", mlp.up)):
            part.weight.copy_(torch.eye(64))
        mlp.down.weight.fill_(1 / 64)  # every output is the mean of the hidden channels
    x = torch.ones(3, 64)
    whole = mlp.eval()(x)
    torch.testing.assert_close(whole, mlp(x))
    torch.manual_seed(0)
    dropped = mlp.train()(x)
    kept = dropped / whole * 32  # how many of the 64 are left, each twice as large
    torch.testing.assert_close(kept, kept.round())
    torch.testing.assert_close(dropped, dropped[:, :1].expand(-1, 64))
    assert ((kept > 16) & (kept < 48)).all() and (
        kept != 32
    ).any()  # 32: as if nothing were dropped, or half of them were


def test_without_bias():
    assert MLP(8, bias=False).up.bias is None
    assert MLP(8, bias=False).down.bias is None
    assert SwiGLU(8, bias=True).gate.bias is not None


def test_words_of_errors():
    known = "relu, leaky, gelu, gelu_tanh, relu2"
    with pytest.raises(ValueError, match=f"mlp.*{known}, swiglu.*'swigl'.*'swiglu'"):
        make_mlp("swigl", 8)
    with pytest.raises(ValueError, match=f"activation.*{known}.*'geluu'.*'gelu'"):
        MLP(8, activation="geluu")
    with pytest.raises(ValueError, match="got 'zzz'$"):
        make_mlp("zzz", 8)
    with pytest.raises(ValueError, match="x must be '... d' with d=8"):
        MLP(8)(torch.zeros(2, 6))
    with pytest.raises(ValueError, match="x must be '... d' with d=8"):
        SwiGLU(8)(torch.zeros(2, 6))


@pytest.mark.parametrize("name", MLPS)
def test_compiles_in_one_graph(name, x):
    mlp = make_mlp(name, 8).double()
    torch.testing.assert_close(torch.compile(mlp, fullgraph=True, backend="eager")(x), mlp(x))


def test_relu2_gradient_is_smooth_at_zero():
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    ACTIVATIONS["relu2"](x).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([0.0, 0.0, 4.0]))


def test_many_tokens_go_through_in_pieces_when_nobody_wants_a_gradient():
    """The same numbers either way, and whoever listens hears one call."""
    mlp = MLP(32, 256)
    x, calls = torch.randn(3, 12_000, 32), []
    assert mlp.in_pieces(x) is False  # a gradient may be wanted
    true = mlp(x)
    with torch.no_grad():
        assert mlp.in_pieces(x) and not mlp.in_pieces(x[:, :64])
        torch.testing.assert_close(mlp(x), true)
        mlp.up.register_forward_hook(lambda module, given, out: calls.append(out.shape))
        assert torch.equal(mlp(x), true)
    assert calls == [(3, 12_000, 256)]
