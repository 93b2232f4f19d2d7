"""The linear part of a forecast: ridge regression of what comes on the last values, in units of the window.

It is fitted once, before the training, on the training part alone; the ridge is chosen on the last fifth of it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.models.series import SeriesModel
from regard.nn.lags import carry_forward
from regard.recipes.series.windows import ForecastSource

ROWS = 20_000  # examples that are fitted, at most
RIDGES = tuple(10.0**k for k in range(-4, 4))  # times the mean of the squares


@torch.no_grad()
def fit_linear(source: ForecastSource, model: nn.Module) -> None:
    """Set the weights of the linear part, and the size of what it leaves to the network."""
    assert isinstance(model, SeriesModel)
    stride = max(1, source.context // 4)
    parts = [_examples(model, batch, source.equal) for batch in source.in_order(stride)]
    lags, wanted = (torch.cat([part[k] for part in parts]) for k in (0, 1))  # r c k, r h c
    if len(lags) > ROWS:
        some = torch.linspace(0, len(lags) - 1, ROWS).long()
        lags, wanted = lags[some], wanted[some]
    for channel in range(model.config.channels):
        x, y = lags[:, channel], wanted[..., channel]
        usable = x.isfinite().all(1) & y.isfinite().all(1) & (x.abs().sum(1) > 0)
        if int(usable.sum()) < 4:
            continue
        found = _ridge(x[usable], y[usable])
        model.weight[channel] = found.T
        left = (y[usable] - x[usable] @ found).abs().mean(0) * 1.2533  # a normal distribution's deviation
        model.size[:, channel] = left.clamp(min=1e-3)


def _examples(model: SeriesModel, batch: Batch, equal: bool) -> tuple[Tensor, Tensor]:
    """Earlier values and following ones, relative to now and in deviations up to now.   r c k, r h c"""
    asked = batch["asked"]
    lags, now, deviation = model.lag_values(batch["x"].to(model.weight), batch.get("where"))
    lags = torch.take_along_dim(lags, asked[..., None, None], 1)
    now, deviation = (torch.take_along_dim(each, asked[..., None], 1) for each in (now, deviation))
    target = batch.target.to(now)
    wanted, ahead = target[..., :-1], target[..., -1]
    if equal:
        both = torch.cat((now[:, :, None], wanted), 2).flatten(0, 1)
        there = batch.target[..., -1:].isnan().any(2).flatten()
        filled = carry_forward(both, ~both.isnan()).masked_fill(there[:, None, None], torch.nan)
        wanted = filled[:, 1:].unflatten(0, now.shape[:2])
    else:
        wanted = _on_grid(wanted, ahead, now)
    unit = torch.where(deviation > 0, deviation, torch.nan)
    lags = lags / unit[..., None]
    wanted = (wanted - now[:, :, None]) / unit[:, :, None]
    return lags.flatten(0, 1).double(), wanted.flatten(0, 1).double()


def _on_grid(wanted: Tensor, ahead: Tensor, now: Tensor) -> Tensor:
    """Values at uneven times, on straight lines at 1, 2, … steps ahead.   b p k c -> b p k c"""
    b, p, k, c = wanted.shape
    times = torch.cat((torch.zeros_like(ahead[..., :1]), ahead), -1).flatten(0, 1).contiguous()
    values = torch.cat((now[:, :, None], wanted), 2).flatten(0, 1)
    values = carry_forward(values, ~values.isnan())
    grid = torch.arange(1.0, k + 1, dtype=times.dtype).expand(b * p, k).contiguous()
    times = times.nan_to_num(torch.inf)
    right = torch.searchsorted(times, grid).clamp(1, k)
    start, stop = times.gather(1, right - 1), times.gather(1, right)
    share = ((grid - start) / (stop - start).clamp(min=1e-6))[..., None]
    low, high = (values.gather(1, (right - 1 + i)[..., None].expand(-1, -1, c)) for i in (0, 1))
    found = low + share * (high - low)
    beyond = grid > times[:, -1:]
    return found.masked_fill(beyond[..., None], torch.nan).unflatten(0, (b, p))


def _ridge(x: Tensor, y: Tensor) -> Tensor:
    """The weights with the ridge that forecasts the last fifth best.   r k, r h -> k h"""
    cut = max(2, int(0.8 * len(x)))
    best, least = RIDGES[-1], torch.inf
    if cut < len(x):
        for ridge in RIDGES:
            apart = y[cut:] - x[cut:] @ _solve(x[:cut], y[:cut], ridge)
            error = float(apart.abs().mean())
            if error < least:
                best, least = ridge, error
    return _solve(x, y, best)


def _solve(x: Tensor, y: Tensor, ridge: float) -> Tensor:
    gram = x.T @ x
    scale = gram.diagonal().mean().clamp(min=1e-12)
    eye = torch.eye(len(gram), dtype=gram.dtype)
    return torch.linalg.solve(gram + ridge * scale * eye, x.T @ y)
