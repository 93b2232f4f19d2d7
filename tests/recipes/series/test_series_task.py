"""What is learned of series and how it is measured, beside scikit-learn, numpy and plain formulas; and that nothing
of what comes later is seen."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_pinball_loss

from regard.models.sample_inputs import build_seeded
from regard.models.series import TransformerSeries, TransformerSeriesConfig
from regard.recipes.series.evaluation import band_measures, evaluate_forecasts, point_measures
from regard.recipes.series.fit_linear import fit_linear
from regard.recipes.series.forecast import forecast, sample_futures
from regard.recipes.series.series import Series
from regard.recipes.series.task import ForecastTask, ImputeTask, at_times, pinball
from regard.recipes.series.time_splits import SplitSeries
from regard.recipes.series.windows import ForecastSource, GapSource
from tests.recipes.series.made import waves

QUANTILES = (0.1, 0.5, 0.9)
CONTEXT, HORIZON = 30, 4


def one(values, times=None, name="s"):
    values = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    times = np.arange(len(values), dtype=np.float64) if times is None else times
    return Series(name=name, times=times, values=values)


def source_of(series, train=72, validation=96):
    parts = [SplitSeries(series=each, train=train, validation=validation) for each in series]
    return ForecastSource(parts, context=CONTEXT, ahead=HORIZON, batch=8)


@pytest.fixture(scope="module")
def model():
    config = TransformerSeriesConfig(
        channels=1, horizon=HORIZON, quantiles=QUANTILES, lags=14, patch=3, dim=16, depth=1, dropout=0.0
    )
    made = build_seeded(TransformerSeries, config)
    fit_linear(source_of([one(waves())]), made)
    return made


def test_the_loss_is_that_of_scikit_learn():
    draw = torch.Generator().manual_seed(0)
    out, wanted = torch.randn(7, 3, 1, generator=draw), torch.randn(7, 1, generator=draw)
    known = torch.arange(7)[:, None] != 2
    found = pinball(out, wanted, known, QUANTILES)
    there = known[:, 0]
    theirs = [mean_pinball_loss(wanted[there], out[there, k], alpha=q) for k, q in enumerate(QUANTILES)]
    assert found.sum() / 6 == pytest.approx(2 * np.mean(theirs), rel=1e-5)
    assert found[2] == 0


def test_forecasts_at_uneven_times_lie_on_straight_lines():
    draw = torch.Generator().manual_seed(0)
    out, now = torch.randn(2, 1, 4, 3, 1, generator=draw), torch.randn(2, 1, 1, generator=draw)
    ahead = torch.tensor([[[0.5, 1.0, 2.25, 4.0]], [[1.0, 2.0, 3.0, 4.0]]])
    found = at_times(out, now, ahead)
    torch.testing.assert_close(found[1], out[1])
    for q in range(3):
        line = np.interp(ahead[0, 0], np.arange(5), [now[0, 0, 0], *out[0, 0, :, q, 0]])
        np.testing.assert_allclose(found[0, 0, :, q, 0], line, rtol=1e-5)


@pytest.mark.parametrize("equal", [True, False])
def test_training_never_sees_what_was_held_out(equal):
    """Other values after the training part change no batch of it; those of validation do not know the test."""
    times = None if equal else np.random.default_rng(0).exponential(1, 120).cumsum()
    values, later = waves(), waves()
    later[72:] = 1e6
    first, second = (source_of([one(each, times)]) for each in (values, later))
    for step in range(20):
        a, b = first.batch(step), second.batch(step)
        np.testing.assert_array_equal(a["x"], b["x"])
        np.testing.assert_array_equal(a.target, b.target)
        assert ("where" not in a) == equal
    tested = waves()
    tested[96:] = 1e6
    for a, b in zip(first.validation(), source_of([one(tested, times)]).validation(), strict=True):
        np.testing.assert_array_equal(a.target, b.target)
    moments = [int(window.asked[0]) for window in first.windows("test", 1000)]
    assert moments == list(range(95, 116)) and len(first.windows("test", 5)) == 5


def test_the_windows_hold_what_they_say():
    series = one(np.stack([np.arange(120.0), 2 * np.arange(120.0)], 1))
    source = source_of([series])
    batch, scale = source.batch(3), source.parts[0].scale
    x = scale.restore(batch["x"].numpy())
    np.testing.assert_allclose(np.diff(x[..., 0]), 1, atol=1e-4)
    now = np.take_along_axis(x, batch["asked"].numpy()[..., None], 1)
    after = scale.restore(batch.target[..., :2].numpy())
    np.testing.assert_allclose(after[..., 0] - now[:, :, None, 0], np.tile([1, 2, 3, 4], (8, 16, 1)), atol=1e-4)
    assert after.max() < 2 * 72
    short = source_of([series, one(np.ones((40, 2)))], train=20, validation=30)
    padded = short.batch(0)
    assert "real" not in padded and padded["x"].shape[1] == 16  # all that fits before a horizon


def test_the_linear_part_is_the_least_squares_of_numpy():
    """A process of two lags without noise is found, and forecast to the end of its horizon."""
    x = np.zeros(120)
    x[:2] = 1.0, 0.5
    for k in range(2, 120):
        x[k] = 1.6 * x[k - 1] - 0.99 * x[k - 2]
    config = TransformerSeriesConfig(channels=1, horizon=HORIZON, quantiles=QUANTILES, lags=3, patch=2, dim=16, depth=1)
    made = build_seeded(TransformerSeries, config)
    source = source_of([one(x)])
    fit_linear(source, made)
    batch = next(source.of("test"))
    guess = made.linear(batch["x"])[:, -1]
    off = (guess - batch.target[:, 0, :, :1]).abs().mean()
    assert off < 0.03 * batch.target[..., :1].abs().mean()


def test_measures_are_their_formulas():
    truth = np.array([[[1.0], [2.0]], [[np.nan], [4.0]]])
    found = np.array([[[2.0], [2.0]], [[9.0], [1.0]]])
    measures = point_measures(truth, found, np.array([[2.0], [2.0]]))
    assert measures == pytest.approx({"MAE": 4 / 3, "RMSE": np.sqrt(10 / 3), "MASE": 2 / 3})
    quantiles = np.stack([found - 1, found, found + 1], 2)
    band = band_measures(truth, quantiles, QUANTILES)
    lost = [mean_pinball_loss([1, 2, 4], (found + k - 1)[~np.isnan(truth)], alpha=q) for k, q in enumerate(QUANTILES)]
    assert band["weighted quantile loss"] == pytest.approx(2 * np.mean(lost) * 3 / 7)
    assert band["80% band covers"] == pytest.approx(2 / 3)


def test_an_evaluation_is_beside_its_rivals(model):
    found = evaluate_forecasts(model, source_of([one(waves())]), "test", 12)
    assert found.count == 21 and len(found.by_step["model"]) == HORIZON
    assert found.measures["MAE"] < found.rivals["naive"]["MAE"]
    said = found.format()
    assert "seasonal naive (12 steps before): MAE" in said and "linear part: MAE" in said
    gone = source_of([one(np.where(np.arange(120) < 96, waves(), np.nan))])
    with pytest.raises(ValueError, match="no known value"):
        evaluate_forecasts(model, gone, "test", 12)


def test_any_horizon_can_be_asked_for_and_units_are_those_of_the_data(model):
    past = one(waves())
    (near,) = forecast(model, [past], 3, CONTEXT)
    (far,) = forecast(model, [past], 10, CONTEXT)
    assert near.shape == (3, 3, 1) and far.shape == (10, 3, 1)
    np.testing.assert_array_equal(near, far[:3])
    width = far[:, 2, 0] - far[:, 0, 0]
    assert (np.diff(far, axis=1) > 0).all() and width[4:].min() >= 0.99 * width[3]
    (other,) = forecast(model, [one(1e-6 * waves() + 1e3)], 3, CONTEXT)
    np.testing.assert_allclose(other, 1e-6 * near + 1e3, rtol=1e-9)
    both = forecast(model, [past, past.part(100, 120)], 3, CONTEXT)
    np.testing.assert_allclose(both[0], near, rtol=1e-4)  # a shorter one beside it changes nothing
    (alone,) = forecast(model, [past.part(119, 120)], 3, CONTEXT)
    np.testing.assert_allclose(alone, past.values[-1, 0])
    with pytest.raises(ValueError, match="no known value"):
        forecast(model, [one(np.full(9, np.nan))], 3, CONTEXT)


def test_sampled_futures_follow_the_seed_and_the_quantiles(model):
    past = one(waves())
    futures = sample_futures(model, past, 40, 3, CONTEXT, seed=1)
    assert futures.shape == (40, 3, 1)
    np.testing.assert_array_equal(futures, sample_futures(model, past, 40, 3, CONTEXT, seed=1))
    assert (futures != sample_futures(model, past, 40, 3, CONTEXT, seed=2)).any()
    (quantiles,) = forecast(model, [past], 1, CONTEXT)
    below = (futures[:, 0, 0] < quantiles[0, :, 0][:, None]).mean(1)
    np.testing.assert_allclose(below, QUANTILES, atol=0.2)


def test_hidden_steps_are_gone_and_only_they_are_asked_for():
    x = np.where(np.arange(120) % 10 == 3, np.nan, waves())
    parts = [SplitSeries(series=one(x), train=72, validation=96)]
    source = GapSource(parts, context=24, batch=16)
    task = ImputeTask(QUANTILES, share=0.3, longest=6)
    torch.manual_seed(0)
    batch = source.batch(0)
    hidden = task.hide(batch)
    gone = hidden["x"].isnan() & ~batch["x"].isnan()
    assert 0.15 < gone.float().mean() < 0.45
    torch.testing.assert_close(hidden.target[gone], batch["x"][gone])
    assert hidden.target[~gone].isnan().all()
    first, second = ([each["x"] for each in task.ask_always([batch])] for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    config = TransformerSeriesConfig(channels=1, task="fill", quantiles=QUANTILES, patch=3, dim=16, depth=1)
    filler = build_seeded(TransformerSeries, config)
    loss, count = task.loss(filler, batch)
    assert loss.isfinite() and count > 0
    assert replace(config, task="fill") == config


def test_uneven_steps_are_forecast_where_they_come():
    """The same curve at random times: the loss compares forecasts with values at those times."""
    random = np.random.default_rng(0)
    times = random.uniform(0.4, 1.6, 160).cumsum()
    series = one(np.sin(2 * np.pi * times / 12), times)
    parts = [SplitSeries(series=series, train=100, validation=130)]
    source = ForecastSource(parts, context=40, ahead=4, batch=8)
    config = TransformerSeriesConfig(channels=1, horizon=4, quantiles=QUANTILES, lags=14, patch=3, dim=16, depth=1)
    made = build_seeded(TransformerSeries, config)
    before = ForecastTask(QUANTILES, equal=False).measure(made, source.validation())["loss"]
    fit_linear(source, made)
    after = ForecastTask(QUANTILES, equal=False).measure(made, source.validation())["loss"]
    assert after < 0.4 * before
    found = evaluate_forecasts(made, source, "test", 12)
    assert found.measures["MAE"] < 0.2 and found.rivals["linear"]["MAE"] < 0.2
