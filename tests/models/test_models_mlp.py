"""The MLP is a plain network: every option counts, padding does not, and the order does."""

from dataclasses import fields, replace

import pytest
import torch
from torch import nn

from regard.config import from_json, to_json
from regard.models.mlp import MLP, MLPConfig
from regard.symmetry.groups import Trivial

CONFIG = MLPConfig(features=3, size=6, outputs=2, hidden=8)


def made(config=CONFIG):
    torch.manual_seed(0)
    return MLP(config).double()


def things(b=2, n=6):
    return torch.randn(b, n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_it_is_linear_maps_with_a_nonlinearity_between():
    model, x = made(), things()
    first, second = model.layers
    h = nn.functional.gelu(second(nn.functional.gelu(first(x.flatten(1)))))
    torch.testing.assert_close(model(x), model.head(h))
    assert model.symmetry == Trivial()
    assert not torch.allclose(model(x.flip(1)), model(x))


def test_fewer_things_are_zeros_and_padding_does_not_count():
    model, x = made(), things(n=4)
    filled = torch.cat((x, torch.zeros(2, 2, 3).double()), 1)
    torch.testing.assert_close(model(x), model(filled))
    real = torch.arange(9) < 4
    padded = torch.cat((x, torch.full((2, 5, 3), torch.nan).double()), 1)
    torch.testing.assert_close(model(padded, real=real.expand(2, 9)), model(x))  # beyond its size, too


@pytest.mark.parametrize("option", [field.name for field in fields(MLPConfig)])
def test_every_option_does_something(option):
    other = replace(CONFIG, **{option: "relu" if option == "activation" else getattr(CONFIG, option) + 1})
    x = torch.randn(2, 6, other.features, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    shapes = [[p.shape for p in made(config).parameters()] for config in (CONFIG, other)]
    assert shapes[0] != shapes[1] or not torch.allclose(made()(x), made(other)(x))
    assert from_json(MLPConfig, to_json(other)) == other


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: replace(CONFIG, activation="rleu"), "activation.*'rleu'.*'relu'"),
        (lambda: made()(things(n=7)), "MLP.*6 elements.*7"),
        (lambda: made()(things()[..., :2]), r"x.*'b n d'.*d=3.*shape \(2, 6, 2\)"),
        (lambda: made()(things(), real=torch.ones(2, 5, dtype=torch.bool)), "real.*'b n'.*b=2, n=6"),
    ],
)
def test_words_of_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()
