"""Any function becomes symmetric: exactly by an average or an order, nearly by samples; and says what it cost."""

import pytest
import torch
from torch import nn

from regard.symmetry.actions import Fixed, OnAxis, OnBoth, OnGrid, OnVectors
from regard.symmetry.check import check
from regard.symmetry.elements import Permutation
from regard.symmetry.groups import Generated, Permutations, Reflections, Rotations, Scalings, Shifts, Trivial, product
from regard.symmetry.laws import Symmetry
from regard.symmetry.linear.symmetrize import Averaged, Sampled, Sorted

DRAW = torch.Generator().manual_seed(0)
SETS = torch.randn(3, 4, 2, dtype=torch.float64, generator=DRAW)
IMAGES = torch.randn(2, 3, 6, 6, dtype=torch.float64, generator=DRAW)


class Flat(nn.Module):
    """Knows every place: b n d -> b outputs, or b n d again."""

    def __init__(self, n=4, d=2, outputs=None):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(n * d, 16), nn.Tanh(), nn.Linear(16, outputs or n * d)
        ).double()
        self.shape = (n, d) if outputs is None else (outputs,)

    def forward(self, x, scale=1.0):
        return scale * self.net(x).view(len(x), *self.shape)


def conv():
    torch.manual_seed(0)
    return nn.Conv2d(3, 2, 3, padding=1).double()


def pooled():
    return nn.Sequential(conv(), nn.Tanh(), nn.Flatten(), nn.Linear(72, 2).double())


EXACT = [
    (lambda: Averaged(Flat(outputs=3), Permutations(), OnAxis(1), Fixed()), SETS, 24),
    (lambda: Averaged(Flat(), Permutations(), OnAxis(1), OnAxis(1)), SETS, 24),
    (lambda: Averaged(Flat(), Shifts(), OnAxis(1), OnAxis(1)), SETS, 4),
    (lambda: Averaged(Flat(), Shifts(2), OnAxis(1), OnAxis(1)), SETS, 2),
    (lambda: Averaged(Flat(), Generated((Permutation((1, 0, 3, 2)),)), OnAxis(1), OnAxis(1)), SETS, 2),
    (lambda: Averaged(Flat(), Trivial(), OnAxis(1), OnAxis(1)), SETS, 1),
    (lambda: Averaged(conv(), Rotations(), OnGrid(), OnGrid()), IMAGES, 4),
    (lambda: Averaged(conv(), product(Rotations(), Reflections()), OnGrid(), OnGrid()), IMAGES, 8),
    (lambda: Averaged(pooled(), product(Rotations(), Shifts()), OnGrid(), Fixed()), IMAGES, 144),
    (lambda: Sorted(Flat(outputs=3), OnAxis(1), Fixed()), SETS, 1),
    (lambda: Sorted(Flat(), OnAxis(1), OnAxis(1)), SETS, 1),
    (
        lambda: Sorted(nn.Linear(5, 2).double(), OnAxis(1), Fixed()),
        torch.randn(2, 5, dtype=torch.float64, generator=DRAW),
        1,
    ),
]


@pytest.mark.parametrize("make, x, runs", EXACT)
def test_it_is_exact_where_it_says_so(make, x, runs):
    model = make()
    left = model.left(x)
    assert left.runs == runs and left.after < 1e-12
    assert left.before > 0.05 or isinstance(model.group, Trivial)
    report = check(model, x, laws=model.symmetry)
    assert report.ok, str(report)
    assert set(model.state_dict()) == {f"function.{name}" for name in model.function.state_dict()}
    assert torch.equal(model(x), model(x))


def test_what_is_symmetric_already_stays():
    pool = Averaged(lambda x: x.sum(1), Permutations(), OnAxis(1), Fixed())
    torch.testing.assert_close(pool(SETS), SETS.sum(1))
    assert Sorted(lambda x: x, OnAxis(1), OnAxis(1))(SETS).equal(SETS)  # sorted and put back


def test_the_average_of_a_linear_map_is_its_part_in_the_basis():
    """λI + γ11ᵀ, with λ and γ from the diagonal and from the rest."""
    matrix = torch.randn(4, 4, dtype=torch.float64, generator=DRAW)
    mean = Averaged(lambda x: matrix @ x, Permutations(), OnAxis(1), OnAxis(1))
    found = mean(torch.eye(4, dtype=torch.float64)[None])[0]
    both = (matrix.sum() - matrix.trace()) / 12
    torch.testing.assert_close(found, (matrix.trace() / 4 - both) * torch.eye(4, dtype=torch.float64) + both)


def test_samples_leave_less_the_more_there_are():
    """Sixteen times the runs leave about a quarter of the error."""
    exact = Averaged(Flat(), Permutations(), OnAxis(1), OnAxis(1))(SETS)
    left, errors = [], []
    for samples in (16, 256):
        many = [Sampled(Flat(), Permutations(), OnAxis(1), OnAxis(1), samples=samples, seed=seed) for seed in range(8)]
        errors.append(torch.stack([model(SETS) - exact for model in many]).square().mean().sqrt())
        left.append(many[0].left(SETS, trials=3))
    assert [each.runs for each in left] == [16, 256] and left[0].before == left[1].before > 0.5
    assert 0.15 < errors[1] / errors[0] < 0.4
    assert left[1].after < 0.7 * left[0].after


@pytest.mark.parametrize(
    "group, into, x",
    [
        (Permutations(), OnAxis(1), SETS),
        (Shifts(), OnAxis(1), SETS),
        (Rotations(), OnGrid(), IMAGES),
        (product(Rotations(), Reflections()), OnGrid(), IMAGES),
        (Rotations("plane"), OnVectors(), SETS),
        (Rotations("space"), OnVectors(), IMAGES[..., :3]),
        (Generated((Permutation((1, 2, 3, 0)),)), OnAxis(1), SETS),
    ],
)
def test_samples_are_the_same_every_time_and_go_to_the_mean(group, into, x):
    def squares(x):
        return x[..., :1].square()

    model = Sampled(squares, group, into, Fixed(), samples=200, seed=3)
    once = model(x)
    assert torch.equal(once, model(x))
    assert not torch.equal(once, Sampled(squares, group, into, Fixed(), samples=200, seed=4)(x))
    assert model.left(x).after < 0.6 * model.left(x).before
    assert model.symmetry == ()  # nearly kept is not kept
    law = Symmetry(group.parts()[0], into, Fixed())
    assert check(model, x, laws=[law])[law.name].measured == "broken"


def test_ties_and_other_axes():
    x = SETS.clone()
    x[:, :, 0] = torch.tensor([1.0, 0.0, 1.0, 0.0])  # the second channel decides
    x[:, 3] = x[:, 1]  # and these two are the same
    for out in (Fixed(), OnAxis(1)):
        model = Sorted(Flat(outputs=3) if isinstance(out, Fixed) else Flat(), OnAxis(1), out)
        assert model.left(x).after < 1e-15
    twice = Sorted(Flat(), OnAxis(1), OnAxis(1))(x)
    assert torch.equal(twice[:, 3], twice[:, 1])  # nothing tells them apart
    turned = Sorted(lambda x: Flat(outputs=3)(x.transpose(0, 1)), OnAxis(0), Fixed())
    assert turned.left(SETS.transpose(0, 1)).after == 0.0


def test_other_inputs_and_gradients_pass_through():
    for model in (Averaged(Flat(), Permutations(), OnAxis(1), OnAxis(1)), Sorted(Flat(), OnAxis(1), OnAxis(1))):
        x = SETS.clone().requires_grad_()
        torch.testing.assert_close(model(x, scale=2.0), 2 * model(x))
        assert torch.autograd.gradcheck(model, (x,))
        assert torch.autograd.grad(model(x).sum(), list(model.parameters()))[0].any()


@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda: Averaged(Flat(8), Permutations(), OnAxis(1), OnAxis(1))(torch.ones(1, 8, 2)),
            r"are 40320, and .*; use Sampled",
        ),
        (lambda: Averaged(Flat(), Rotations("plane"), OnVectors(), Fixed())(SETS), "rotations .* are infinitely many"),
        (
            lambda: Sampled(Flat(), Scalings(), OnVectors(), Fixed(), samples=3)(SETS),
            "no element of the scalings is as likely",
        ),
        (
            lambda: Sampled(Flat(), Permutations(), OnAxis(1), Fixed(), samples=0),
            "samples must be a whole number .* got 0",
        ),
        (
            lambda: Averaged(Flat(), Permutations(), OnAxis(5), Fixed())(SETS),
            "acting on axis 5 needs an axis that shape",
        ),
        (
            lambda: Averaged(3, Permutations(), OnAxis(1), Fixed()),
            "only a function or a module can be made symmetric, got int",
        ),
        (lambda: Sorted(Flat(), OnBoth(), Fixed()), "tokens are sorted along one axis"),
        (
            lambda: Sorted(Flat(), OnAxis(1), Fixed())(IMAGES),
            r"tokens to be sorted are b n d or b n, got shape \(2, 3, 6, 6\)",
        ),
        (lambda: Averaged(Flat(), Rotations(), OnAxis(1), Fixed())(SETS), "turn by 0° has no meaning on axis 1"),
    ],
)
def test_words_of_errors(make, words):
    with pytest.raises(ValueError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
