"""Additive models: the output is the sum of evidence, padding gives none, and what is declared is measured."""

import pytest
import torch

from regard.models.additive import Additive, AdditiveConfig
from regard.nn.embed import gather_neighbours
from regard.symmetry.check import check

KINDS = {
    "a text": {"vocab": 17, "outputs": 4, "contrast": True},
    "a text and its letters": {"vocab": 17, "outputs": 4, "bag": True},
    "a text with neighbours": {"vocab": 17, "outputs": 3, "window": 2, "depth": 2},
    "a number of a text": {"vocab": 17, "outputs": 1},
    "a set": {"features": 3, "outputs": 4, "usual": 5},
    "classes of a set": {"features": 3, "outputs": 4, "contrast": True},
}


def made(kind, seed=0):
    torch.manual_seed(seed)
    model = Additive(AdditiveConfig(hidden=16, **KINDS[kind])).eval()
    with torch.no_grad():
        model.bias.normal_()
        if model.bag is not None:
            model.bag.table.normal_(std=0.1)
            model.bag.spelling.random_(100)
            model.bag.part_rarity.uniform_(1, 5)
            model.lengths.copy_(torch.tensor([3.0, 7.0]))
    return model


def inputs(model, n=9, b=3):
    if model.embed is None:
        return torch.randn(b, n, 3)
    return torch.randint(17, (b, n))


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_sums_to_the_output_and_padding_gives_none(kind):
    model = made(kind)
    x = inputs(model)
    real = torch.arange(9) < torch.tensor([9, 4, 0])[:, None]
    evidence = model.evidence(x, real=real)
    torch.testing.assert_close(model.bias + evidence.sum(1), model(x, real=real), rtol=0, atol=0)
    assert evidence.shape == (3, 9, model.config.outputs) and not evidence[~real].any() and evidence[real].any()
    torch.testing.assert_close(model(x, real=real)[2], model.bias)  # of an empty text or set
    torch.testing.assert_close(evidence[1, :4], model.evidence(x[1:2, :4])[0])
    if model.config.contrast:
        torch.testing.assert_close(evidence.sum(-1), torch.zeros(3, 9), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "neighbours" not in kind])
def test_evidence_is_that_of_a_token_alone(kind):
    model = made(kind)
    x = inputs(model)
    alone = torch.stack([model.evidence(x[:, i : i + 1])[:, 0] for i in range(9)], 1)
    torch.testing.assert_close(alone, model.evidence(x))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_declared_is_measured(kind):
    model = made(kind)
    report = check(model, model.sample_inputs(), trials=4)
    assert report.ok, report
    permuted = report["permutation"]
    if "neighbours" in kind:
        assert (permuted.declared, permuted.measured) == ("broken", "broken") and report["shift"].measured == "holds"
    else:
        assert (permuted.declared, permuted.measured) == ("invariant", "holds")
    assert report["padding"].measured == "holds"


def test_neighbours_by_place_are_those_by_slot():
    x, order = torch.randn(2, 6, 3), torch.tensor([3, 0, 5, 1, 4, 2])
    near = gather_neighbours(x, 2, None, None)
    torch.testing.assert_close(near[:, 3], x[:, 1:6].flatten(1))
    assert not near[:, 0, :6].any() and not near[:, 5, 9:].any()
    moved = gather_neighbours(x[:, order], 2, torch.arange(6)[order] + 10, None)
    torch.testing.assert_close(moved, near[:, order])
    apart = gather_neighbours(x, 2, torch.tensor([0, 1, 2, 7, 8, 9]), None)  # two runs with a gap between them
    torch.testing.assert_close(apart[:, :3], gather_neighbours(x[:, :3], 2, None, None))
    torch.testing.assert_close(apart[:, 3:], gather_neighbours(x[:, 3:], 2, None, None))


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "vocab=None.*features=None"),
        ({"vocab": 5, "features": 2}, "vocab=5.*features=2"),
        ({"features": 2, "window": 1}, "window.*texts"),
        ({"features": 2, "bag": True}, "bag.*texts"),
        ({"vocab": 5, "window": -1}, "window.*-1"),
        ({"vocab": 5, "contrast": True}, "contrast.*1"),
    ],
)
def test_what_does_not_go_together_is_said(options, words):
    with pytest.raises(ValueError, match=words):
        AdditiveConfig(outputs=1, **options)
