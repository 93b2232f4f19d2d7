"""Layers made of bases: `check` measures what they promise, a plain Linear does the same, and one state serves all."""

import copy

import pytest
import torch
from torch import nn

from regard.symmetry.actions import Fixed, OnAxis, OnBoth, OnGrid, OnVectors, Together
from regard.symmetry.check import check
from regard.symmetry.groups import Permutations, Reflections, Rotations, Scalings, Shifts, product
from regard.symmetry.laws import Symmetry
from regard.symmetry.linear.bases import basis
from regard.symmetry.linear.equivariant import EquivariantLinear
from tests.symmetry.test_symmetry_bases import CASES, NAMES, POSES

ALL = [case[:4] for case in CASES] + [
    (Permutations(), Fixed(), OnAxis(), 5),
    (Rotations("space"), OnVectors(), OnVectors(), 3),
    (Rotations("space"), Together((OnVectors(-2), OnVectors(-1))), OnVectors(), 3),
    (Rotations("plane"), OnVectors(), OnVectors(), 2),
    (Scalings(), OnVectors(), OnVectors(), 2),
    (product(Rotations(), Shifts()), POSES, POSES, (3, 3)),
]


def made(group, into, out, size, channels=(3, 2), dtype=torch.float64, **options):
    torch.manual_seed(0)
    layer = EquivariantLinear(group, into, out, *channels, size=size, **options).to(dtype)
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    return layer


def inputs(layer, b=3, n=None):
    """As the layer wants them: some numbers in its own order of axes."""
    sizes = layer.first.sizes if n is None else (n,) * len(layer.first.sizes)
    flat = torch.randn(b, torch.Size(sizes).numel(), layer.channels_in, generator=torch.Generator().manual_seed(1))
    return layer.first.unflat(flat.to(layer.weight), sizes)


@pytest.mark.parametrize("group, into, out, size", ALL)
def test_a_layer_keeps_what_it_promises_and_is_a_plain_linear(group, into, out, size):
    layer = made(group, into, out, size)
    x = inputs(layer)
    y = layer(x)
    for found in check(layer, x, laws=layer.symmetry):
        if group == Shifts() and size == 1:  # of one place there is nothing to shift
            assert found.measured == "unknown"
        else:
            assert found.measured == "holds" and found.tolerance == 1e-9, found.sentence()
    linear = layer.to_linear()
    assert type(linear) is nn.Linear
    torch.testing.assert_close(linear(x.flatten(1)), y.flatten(1), rtol=0, atol=1e-12)
    maps = torch.einsum("koi,kec->oeic", layer.maps.matrices().double(), layer.weight)
    true = torch.einsum("oeic,bic->boe", maps, layer.first.flat(x))
    true = true + torch.einsum("ko,ke->oe", layer.vectors.matrices()[..., 0].double(), layer.bias)
    torch.testing.assert_close(layer.last.flat(y), true, rtol=0, atol=1e-12)


def test_deep_sets():
    """λI + γ11ᵀ for each pair of channels: each thing by itself, and the sum of all."""
    layer = made(Permutations(), OnAxis(1), OnAxis(1), 5)
    x = inputs(layer)
    alone, together = layer.weight
    torch.testing.assert_close(layer(x), x @ alone.T + x.sum(1, keepdim=True) @ together.T + layer.bias)
    more = inputs(layer, n=9)  # sets of any other size, too
    order = torch.randperm(9)
    torch.testing.assert_close(layer(more[:, order]), layer(more)[:, order])
    pool = made(Permutations(), OnAxis(1), Fixed(), 5)
    torch.testing.assert_close(pool(more), more.sum(1) @ pool.weight[0].T + pool.bias)


def test_convolution_is_torchs():
    """Shifts of an image: the same as nn.Conv2d around the end, whose kernel torch writes the other way round."""
    layer = made(Shifts(), OnGrid(), OnGrid(), (5, 5))
    x = inputs(layer)
    kernel = layer.weight.view(5, 5, 2, 3).permute(2, 3, 0, 1)  # entry d: what comes from d places before
    conv = nn.Conv2d(3, 2, 5, padding=2, padding_mode="circular").double()
    with torch.no_grad():
        conv.weight.copy_(kernel.roll((2, 2), (2, 3)).flip(2, 3))
        conv.bias.copy_(layer.bias[0])
    torch.testing.assert_close(layer(x), conv(x))


@pytest.mark.parametrize("group", [Rotations(), product(Rotations(), Reflections())])
def test_kernels_of_turns_make_convolutions_that_turn(group):
    """W (g x) = g (W x) at one place is all it takes: the kernel, moved over an image, keeps the turns."""
    kernels = basis(group, OnGrid(), Fixed(), (3, 3)).matrices().double()
    conv = nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular").double()
    image = torch.randn(2, 2, 6, 6, dtype=torch.float64)
    assert not check(conv, image, symmetry=group).ok
    with torch.no_grad():
        conv.weight.copy_(
            torch.einsum("koi,kec->eci", kernels, torch.randn(len(kernels), 4, 2).double()).view(4, 2, 3, 3)
        )
    for law in ("rotation", "reflection"):
        assert check(conv, image)[law].measured == "holds"  # those of 3 × 3 that turn can also be mirrored


@pytest.mark.parametrize("case", [0, 4, 7, 12, 23, 31, 36], ids=lambda k: NAMES[k])
def test_a_layer_keeps_the_laws_of_hygiene_too(case):
    layer = made(*CASES[case][:4])
    report = check(layer, inputs(layer))
    assert report.ok and len(report) > 5, str(report)


def test_a_graph_network_of_layers():
    """Edges to edges, a nonlinearity, edges to nodes: check measures the whole."""
    torch.manual_seed(0)
    model = nn.Sequential(
        EquivariantLinear(Permutations(), OnBoth(), OnBoth(), 1, 4, size=6),
        nn.Tanh(),
        EquivariantLinear(Permutations(), OnBoth(), OnAxis(1), 4, 3, size=6),
    )
    x = torch.randn(2, 1, 6, 6, dtype=torch.float64)
    assert check(model.double(), x, symmetry=Symmetry(Permutations(), OnBoth(), OnAxis(1))).ok
    broken = nn.Sequential(model, nn.Linear(3, 3).double(), Placed())
    report = check(broken, x, symmetry=Symmetry(Permutations(), OnBoth(), OnAxis(1)))
    assert not report.ok


class Placed(nn.Module):
    def forward(self, x):
        return x * torch.arange(x.shape[1], dtype=x.dtype)[:, None]


def test_one_state_for_training_and_use():
    for case in (CASES[7][:4], CASES[12][:4], (Rotations("space"), OnVectors(), OnVectors(), 3)):
        layer = made(*case)
        x = inputs(layer)
        assert set(layer.state_dict()) == {"weight", "bias"}
        torch.testing.assert_close(layer.train()(x), layer.eval()(x), rtol=0, atol=0)
        other = made(*case)
        nn.init.zeros_(other.weight)
        other.load_state_dict(layer.state_dict())
        assert torch.equal(other(x), layer(x)) and torch.equal(copy.deepcopy(layer)(x), layer(x))
        assert "bias" not in made(*case, bias=False).state_dict()
        # only the parameters are rounded
        there_and_back = copy.deepcopy(layer).to(torch.bfloat16).to(torch.float64)
        assert torch.equal(there_and_back.maps.matrices(), layer.maps.matrices())


@pytest.mark.parametrize("case", [0, 7, 12, 18, 24, 36], ids=lambda k: NAMES[k])
def test_gradients_dtypes_and_devices(case):
    group, into, out, size, *_ = CASES[case]
    layer = made(group, into, out, size, channels=(2, 2))
    x = inputs(layer, b=2).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,))
    exact = layer(x).detach()
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        found = copy.deepcopy(layer).to(dtype)(x.detach().to(dtype))
        assert found.dtype == dtype
        assert (found.double() - exact).abs().max() < tolerance * exact.abs().max()
    assert layer(x[:0]).shape == (0, *exact.shape[1:])
    # nothing is on a device of its own
    assert copy.deepcopy(layer).to("meta")(x.to("meta")).shape == exact.shape


@pytest.mark.parametrize("case", [4, 12], ids=lambda k: NAMES[k])
def test_a_layer_compiles_in_one_graph(case):
    torch.compiler.reset()
    layer = made(*CASES[case][:4])
    x = inputs(layer)
    torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="eager")(x), layer(x))


@pytest.mark.parametrize("case", [k for k, case in enumerate(CASES) if case[3] != 1])
def test_outputs_start_as_large_as_inputs(case):
    group, into, out, size, *_ = CASES[case]
    torch.manual_seed(0)
    layer = EquivariantLinear(group, into, out, 64, 64, size=size)
    y = layer(inputs(layer, b=64))
    assert 0.5 < y.std() < 1.5


def test_it_learns_what_any_linear_map_of_the_kind_does():
    """The centred matrix of a set: x_i minus the mean of all, found from examples by least squares through the layer."""
    layer = made(Permutations(), OnAxis(1), OnAxis(1), 4, channels=(1, 1))
    x = inputs(layer, b=64)
    target = x - x.mean(1, keepdim=True)
    optimiser = torch.optim.LBFGS(layer.parameters(), max_iter=50)

    def closure():
        optimiser.zero_grad()
        loss = (layer(x) - target).square().mean()
        loss.backward()
        return loss

    optimiser.step(closure)
    torch.testing.assert_close(
        layer.weight.flatten(), torch.tensor([1.0, -0.25], dtype=torch.float64), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda: made(Permutations(), OnAxis(), OnAxis(), 5, channels=(0, 2)),
            "channels_in must be a whole number .* got 0",
        ),
        (
            lambda: made(Permutations(), OnAxis(), OnAxis(), 5, channels=(2, 1.5)),
            "channels_out must be a whole number .* got 1.5",
        ),
        (
            lambda: made(Rotations("space"), OnVectors(), Fixed(), 3),
            "no linear map but 0 .* commutes with rotations of space",
        ),
        (
            lambda: made(Permutations(), OnAxis(), OnAxis(), 5)(torch.ones(2, 5, 4)),
            r"x must be 'b n c' with c=3, got shape",
        ),
        (
            lambda: made(Permutations(), OnBoth(), OnAxis(), 5)(torch.ones(2, 3, 5, 4)),
            r"'b c n n' .* axis 'n' is 4, but 5",
        ),
        (
            lambda: made(Shifts(), OnAxis(), OnAxis(), 5)(torch.ones(2, 6, 3)),
            r"'b i c' with c=3, i=5, got shape \(2, 6, 3\)",
        ),
        (lambda: made(Shifts(), OnGrid(), OnGrid(), (4, 4))(torch.ones(3, 4, 4)), r"'b c i j' .* 3 axes, not 4"),
        (lambda: made(Permutations(), OnAxis(0), OnAxis(0), 5).to_linear(), "a plain Linear has its batch first"),
        (
            lambda: made(Permutations(), OnBoth(), OnBoth(), 100).to_linear(),
            "has too large a matrix; take a smaller size",
        ),
    ],
)
def test_words_of_errors(make, words):
    with pytest.raises(ValueError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_it_prints_what_it_is():
    layer = EquivariantLinear(Shifts(), OnAxis(), OnAxis(), 3, 8, size=16)
    assert "3 -> 8 channels, shifts: on axis 1 -> on axis 1" in repr(layer)
    assert "16 maps from 16 to 16 numbers, by convolution" in repr(layer)
