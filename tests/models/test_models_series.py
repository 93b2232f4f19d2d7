"""Models of series: every task keeps its laws, times are places, quantiles are in order, and the laws see bugs."""

from dataclasses import replace

import pytest
import torch

from regard import registry
from regard.models.sample_inputs import build_seeded
from regard.models.series import TransformerSeries, TransformerSeriesConfig
from regard.symmetry.check import check

KINDS = ("transformerseries", "lstmseries", "gruseries", "convseries")


def tiny(kind="transformerseries", **how):
    cls = registry.find("models", kind)
    model, inputs = cls.tiny()
    model = build_seeded(cls, replace(model.config, **how))
    if hasattr(model, "weight"):
        model.weight.normal_(std=0.2, generator=torch.Generator().manual_seed(1))
    return model, inputs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ["fill", "classify"])
def test_gaps_and_classes_keep_their_laws(kind, task):
    model, inputs = tiny(kind, task=task, classes=3 if task == "classify" else None, season=4)
    laws = ["shift", "reordering", "padding", "neighbours", "determinism"]
    if task == "fill":
        laws += ["scaling", "translation"]
    report = check(model, inputs, laws=laws, trials=3, dtype=torch.float64)
    assert report.ok and all(found.measured == "holds" for found in report), str(report)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_steps_are_the_same_with_and_without_their_times(kind):
    model, inputs = tiny(kind)
    x = inputs["x"]
    x[0, 3, 1] = torch.nan  # one missing value, and one step of which nothing is known
    x[1, 5] = torch.nan
    out = model(x)
    assert out.shape == (3, 12, 3, 3, 2) and out.isfinite().all()
    torch.testing.assert_close(model(x, where=torch.arange(12) + 40), out)
    asked = torch.tensor([[2, 11], [0, 5], [7, 7]])
    wanted = torch.stack([out[row, asked[row]] for row in range(3)])
    torch.testing.assert_close(model(x, asked=asked), wanted)
    order = torch.randperm(12)  # times say the order, and asked names slots
    moved = model(x[:, order], where=order, asked=order.argsort()[asked])
    torch.testing.assert_close(moved, wanted)
    assert not torch.allclose(model(x, where=torch.arange(12) * 2.0), out)  # longer steps are something else


def test_quantiles_never_cross_and_a_constant_stays():
    model, inputs = tiny()
    torch.nn.init.normal_(model.head.linear.weight, std=3.0)
    out = model(inputs["x"])[:, 1:]  # before that there is no deviation
    assert (out.diff(dim=3) > 0).all()
    constant = torch.full((1, 9, 2), 0.3)
    torch.testing.assert_close(model(constant), torch.full((1, 9, 3, 3, 2), 0.3))


def test_without_a_network_it_is_the_linear_map_of_the_past():
    model, inputs = tiny()
    x = inputs["x"]
    model.head.linear.weight.data.zero_()
    median = model(x)[:, :, :, 1]
    torch.testing.assert_close(median, model.linear(x))
    for step in (6, 11):
        past = torch.stack([x[:, step - k] for k in range(1, 5)], -1) - x[:, step, :, None]  # b c k
        wanted = x[:, step, None] + torch.einsum("bck,chk->bhc", past, model.weight)
        torch.testing.assert_close(median[:, step], wanted)


class SeesAhead(TransformerSeries):
    """The values are scaled by the whole window, as reversible instance normalisation does."""

    def _tokens(self, given, values, mean, deviation):
        return super()._tokens(given, values, values.mean(1, keepdim=True), deviation[:, -1:])


class AddsEpsilon(TransformerSeries):
    """A small number in the denominator, so that small values are scaled otherwise."""

    def _tokens(self, given, values, mean, deviation):
        return super()._tokens(given, values, mean, deviation + 0.1)


@pytest.mark.parametrize("cls, law", [(SeesAhead, "causality"), (AddsEpsilon, "scaling"), (SeesAhead, "neighbours")])
def test_planted_bugs_are_seen(cls, law):
    config = TransformerSeriesConfig(channels=2, horizon=3, quantiles=(0.1, 0.5, 0.9), lags=4, patch=3, dim=16)
    model = build_seeded(cls, config)
    found = check(model, model.sample_inputs(), laws=[law], trials=3)[law]
    assert found.measured == ("holds" if law == "neighbours" else "broken")


@pytest.mark.parametrize(
    "how, words",
    [
        ({"quantiles": (0.1, 0.9)}, "0.5 among"),
        ({"quantiles": (0.5, 0.1)}, "0.5 0.1"),
        ({"task": "classify"}, "classes"),
        ({"horizon": 0}, "horizon"),
        ({"dim": 12, "heads": 4}, "even"),
    ],
)
def test_what_cannot_be_is_one_line(how, words):
    with pytest.raises(ValueError, match=words) as raised:
        TransformerSeriesConfig(**({"channels": 1} | how))
    assert "\n" not in str(raised.value)
