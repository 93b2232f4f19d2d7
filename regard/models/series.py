"""What all models of series have in common: a step of numbers is a token, and what a network says is added to a
simple guess, in units of the series' own deviation.

    forecast   y_(i+h) = v_i + Σ_k W_hk (v_(i−k) − v_i) + s_i σ_h (f_h + quantile),   s_i: deviation of v_1 … v_i
    fill       y_i = a season before and after, moved to the known neighbours + s σ (f + quantile)
    classify   classes or numbers from the mean of all steps

v are the values, the last known one where some are missing (NaN). W is the least squares of the training part.
Guess and network both follow a change of unit or level of the values: forecasts and fills are equivariant to
scalings and translations of each channel. Times are places: only their differences count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.attention.mask import Mask
from regard.attention.masks import Causal
from regard.attention.positions import Rotary, coordinates
from regard.config import Classes, Count, Depth, Share, Size, Width, config
from regard.errors import RegardError
from regard.models.attentions import check_heads
from regard.models.registered_model import Options, RegisteredModel
from regard.nn.block import Stack
from regard.nn.embed import StepEmbedding
from regard.nn.lags import bridge_seasons, carry_forward, look_around, running_scale, whole_scale
from regard.nn.padding import line_up
from regard.nn.pool import AttentionPool, MaxPool, MeanPool
from regard.shapes import expect
from regard.symmetry.groups import Group
from regard.symmetry.roles import Roles, Stream

QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
FLAT = 1e-4  # the least width of a quantile, in units of the guess's error


@config
class SeriesConfig:
    """Settings of all models of series."""

    channels: Count  # numbers of a step
    # forecast: the steps after each one; fill: steps that are missing; classify: the whole series
    task: Literal["forecast", "fill", "classify"] = "forecast"
    classes: Classes | None = None  # classify: number of classes, or of numbers that are predicted
    horizon: Size = 24  # forecast: steps ahead
    # shares of what comes that should lie below each forecast; 0.5, the median, is one of them
    quantiles: tuple[float, ...] = QUANTILES
    lags: Annotated[int, Field(ge=1, le=2**14)] = 48  # forecast: steps back that the linear part reads
    # fill: steps after which a series repeats itself, from which the first guess is made; 1: it does not
    season: Size = 1
    patch: Count = 8  # steps that one token reads: the last ones, or those around it
    dim: Width = 32  # width of the layers
    depth: Depth = 2  # layers
    dropout: Share = 0.2  # share of each layer's outputs dropped in training
    pool: Literal["mean", "max", "attention"] = "mean"  # classify: how steps are pooled

    def __post_init__(self) -> None:
        if (self.classes is not None) != (self.task == "classify"):
            raise RegardError(
                f"task=classify needs classes, and no other task has any, got {self.task} and {self.classes}"
            )
        check_quantiles(self.quantiles)

    @property
    def causal(self) -> bool:
        return self.task == "forecast"


def check_quantiles(quantiles: tuple[float, ...]) -> None:
    """Rising shares between 0 and 1 with the median among them."""
    rising = all(a < b for a, b in pairwise(quantiles))
    if not rising or 0.5 not in quantiles or not all(0 < q < 1 for q in quantiles):
        said = " ".join(map(str, quantiles)) or "none"
        raise RegardError(
            f"quantiles must rise from above 0 to below 1 with 0.5 among them, got {said}; give 0.1 0.5 0.9"
        )


POOLS: dict[str, Callable[[int], nn.Module]] = {
    "mean": lambda dim: MeanPool(),
    "max": lambda dim: MaxPool(),
    "attention": AttentionPool,
}


@dataclass(frozen=True, eq=False)
class Lined:
    """Steps in the order of their times, and what is known of them."""

    x: Tensor  # b n c, NaN where missing
    known: Tensor  # b n c
    times: Tensor | None  # b n; None: 0, 1, 2, …
    real: Tensor | None  # b n, padding is at the end
    gap: Tensor  # b n 1, the logarithm of the time since the step before


class Quantiles(nn.Module):
    """A median and widths above and below it, so that quantiles never cross.   ... d -> ... outputs q"""

    def __init__(self, dim: int, outputs: int, quantiles: tuple[float, ...]) -> None:
        super().__init__()
        self.middle = quantiles.index(0.5)
        self.outputs, self.count = outputs, len(quantiles)
        self.linear = nn.Linear(dim, outputs * len(quantiles))
        normal = NormalDist()
        z = [normal.inv_cdf(q) for q in quantiles]
        begin = torch.zeros(len(quantiles))
        for k in range(len(quantiles)):
            if k != self.middle:
                inner = k - 1 if k > self.middle else k + 1
                begin[k] = math.log(math.expm1(abs(z[k] - z[inner]) - FLAT))  # softplus⁻¹
        with torch.no_grad():
            self.linear.weight.mul_(0.1)  # it begins near the simple guess, with the widths of a normal distribution
            self.linear.bias.copy_(begin.repeat(outputs))

    def forward(self, h: Tensor) -> Tensor:
        raw = self.linear(h).unflatten(-1, (self.outputs, self.count))
        median = raw[..., self.middle, None]
        wide = F.softplus(raw) + FLAT
        above = wide[..., self.middle + 1 :].cumsum(-1)
        below = wide[..., : self.middle].flip(-1).cumsum(-1).flip(-1)
        return torch.cat((median - below, median, median + above), -1)


class SeriesModel(RegisteredModel):
    """Quantiles of what comes after each step, b n h q c, of the steps themselves, b n q c, or classes, b k.
    x: b n c, NaN where missing

    A subclass gives `read`. A forecast is causal by times, and both it and a fill are equivariant to scalings and
    translations of the values. Keeps shifts of all times.
    """

    Config: ClassVar[Any] = SeriesConfig
    TINY: ClassVar[Options] = dict(channels=2, horizon=3, quantiles=(0.1, 0.5, 0.9), lags=4, patch=3, dim=16, depth=2)
    config: SeriesConfig
    keeps: Group
    weight: Tensor
    size: Tensor

    def __init__(self, config: SeriesConfig) -> None:
        super().__init__()
        self.config = config
        c, p = config.channels, config.patch
        if config.causal:
            self.around = tuple(range(1 - p, 0))
        else:
            self.around = tuple(k for k in range(-(p // 2), p - p // 2) if k)
        # the values around it, its own, whether it is known; the gap before it; level and deviation of a whole
        features = c * (len(self.around) + 2) + 1 + (2 * c if config.task == "classify" else 0)
        self.embed = StepEmbedding(features, config.dim)
        self.pool: nn.Module | None = None
        if config.task == "classify":
            assert config.classes is not None
            self.pool = POOLS[config.pool](config.dim)
            self.head: nn.Module = nn.Linear(config.dim, config.classes)
        else:
            ahead = config.horizon if config.causal else 1
            self.head = Quantiles(config.dim, ahead * c, config.quantiles)
            self.register_buffer("size", torch.ones(ahead, c))
        if config.causal:
            self.register_buffer("weight", torch.zeros(c, config.horizon, config.lags))

    # ── what a subclass gives

    def read(self, x: Tensor, times: Tensor | None, real: Tensor | None) -> Tensor:
        """The body; steps are in order, padding is at the end.   b n d -> b n d"""
        raise NotImplementedError

    # ── predictions

    def forward(
        self, x: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, asked: Tensor | None = None
    ) -> Tensor:
        """where: times n or b n in units of a step, None: consecutive; real: bool b n, False for padding, which may
        hold anything; asked: b p, the slots after which something is forecast, None: all."""
        expect(x, "b n c", name="x", c=self.config.channels)
        line = line_up(x, where, real)
        given = self._line(line.take(x), where, line.real, line)
        if self.config.task == "classify":
            return self._classify(given)
        if self.config.task == "fill":
            return line.put_back(self._fill(given))
        if asked is None:
            return line.put_back(self._forecast(given, None))
        if line.order is not None:
            place = line.order.argsort(1)  # where each slot has gone
            asked = place.gather(1, asked)
        return self._forecast(given, asked)

    def linear(self, x: Tensor, *, where: Tensor | None = None, real: Tensor | None = None) -> Tensor:
        """The linear part alone: what comes after each step, without a network.   b n c -> b n h c"""
        line = line_up(x, where, real)
        given = self._line(line.take(x), where, line.real, line)
        return line.put_back(self._guess(carry_forward(given.x, given.known), given.times))

    def lag_values(self, x: Tensor, where: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """What the linear part is fitted on, of steps in order: earlier values relative to now, b n c k; the value
        now, b n c; and the deviation up to now, b n c."""
        given = self._line(x, where, None, None)
        now = carry_forward(given.x, given.known)
        _, deviation = running_scale(given.x, given.known)
        return self._lags(now, given.times), now, deviation

    def _line(self, x: Tensor, where: Tensor | None, real: Tensor | None, line: Any) -> Lined:
        b, n, _ = x.shape
        known = ~x.isnan()
        if real is not None:
            known = known & real[..., None]
        if x.dtype in (torch.float16, torch.bfloat16):
            x = x.float()  # sums over a long past need the digits
        gap = torch.zeros(b, n, 1, dtype=x.dtype, device=x.device)
        if where is None:
            return Lined(x, known, None, real, gap)
        times = coordinates(where, 0, n, b, x.device, "a model of series").expand(b, n).double()
        if line is not None:
            times = line.take(times)
        if real is not None:
            end = times.masked_fill(~real, -torch.inf).amax(1, keepdim=True)
            times = torch.where(real, times, end + 1)
        apart = times.diff(dim=1).clamp(min=1e-6).log().to(x.dtype)
        gap = torch.cat((gap[:, :1, 0], apart), 1)[..., None]
        return Lined(x, known, times, real, gap)

    def _tokens(self, given: Lined, values: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        """What the body reads: values around each step relative to it, its own, in deviations.   b n d"""
        unit = torch.where(deviation > 0, deviation, 1.0)
        parts = [(values - mean) / unit, given.known.to(values.dtype), given.gap]
        if self.around:
            near = look_around(values, self.around, given.times) - values[..., None]  # b n c p−1
            parts.append((near / unit[..., None]).flatten(2))
        if self.config.task == "classify":
            whole = torch.cat((mean, (deviation + 1e-3).log()), -1)
            parts.append(whole.expand(-1, values.shape[1], -1))
        return self.embed(torch.cat(parts, -1).to(self.embed.linear.weight.dtype), given.real)

    def _lags(self, now: Tensor, times: Tensor | None) -> Tensor:
        back = tuple(-k for k in range(1, self.config.lags + 1))
        return look_around(now, back, times) - now[..., None]

    def _guess(self, now: Tensor, times: Tensor | None) -> Tensor:
        """b n c -> b n h c"""
        change = torch.einsum("bnck,chk->bnhc", self._lags(now, times), self.weight.to(now.dtype))
        return now[:, :, None] + change

    def _forecast(self, given: Lined, asked: Tensor | None) -> Tensor:
        now = carry_forward(given.x, given.known)
        mean, deviation = running_scale(given.x, given.known)
        h = self.read(self._tokens(given, now, mean, deviation), given.times, given.real)
        guess = self._guess(now, given.times)
        if asked is not None:
            h, deviation = (torch.take_along_dim(each, asked[..., None], 1) for each in (h, deviation))
            guess = torch.take_along_dim(guess, asked[..., None, None], 1)
        shape = (self.config.horizon, self.config.channels)
        added = self.head(h).unflatten(2, shape).transpose(-1, -2)  # b n h q c
        unit = (self.size * deviation[:, :, None])[..., None, :]
        return guess[..., None, :] + unit * added

    def _fill(self, given: Lined) -> Tensor:
        b, n, _ = given.x.shape
        times = given.times
        if times is None:
            times = torch.arange(n, device=given.x.device, dtype=torch.float64).expand(b, n)
        end = times[:, -1:]
        if given.real is not None:
            end = times.masked_fill(~given.real, -torch.inf).amax(1, keepdim=True)
        line = bridge_seasons(given.x, given.known, times, self.config.season, end)
        if given.real is not None:  # beyond the end, values stay as they are at it
            last = (given.real.sum(1) - 1).clamp(min=0)[:, None, None]
            line = torch.where(given.real[..., None], line, torch.take_along_dim(line, last, 1))
        mean, deviation = whole_scale(given.x, given.known)
        h = self.read(self._tokens(given, line, mean, deviation), given.times, given.real)
        added = self.head(h).transpose(-1, -2)  # b n q c
        return line[..., None, :] + (self.size * deviation)[..., None, :] * added

    def _classify(self, given: Lined) -> Tensor:
        assert self.pool is not None
        now = carry_forward(given.x, given.known)
        mean, deviation = whole_scale(given.x, given.known)
        h = self.read(self._tokens(given, now, mean, deviation), given.times, given.real)
        return self.head(self.pool(h, given.real))

    # ── for check

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        stream = Stream("x", mask="real", places="where", sides=("right", "left"))
        promises = {"reordering": "holds", "causality": "holds" if self.config.causal else "not promised"}
        if self.config.task != "classify":
            promises |= {"scaling": "equivariant", "translation": "equivariant"}
        return Roles(streams=(stream,), promises=promises)

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Tensor]:
        draw = torch.Generator().manual_seed(seed)
        steps = torch.randn(rows or 3, tokens or 12, self.config.channels, generator=draw)
        return {"x": steps.cumsum(1)}


# ── the transformer


@config
class TransformerSeriesConfig(SeriesConfig):
    """A transformer of series."""

    heads: Count = 4  # attention heads of each layer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self)
        if self.dim // self.heads % 2:
            raise RegardError(f"dim / heads must be even for rotary places, got dim={self.dim} and heads={self.heads}")


class TransformerSeries(SeriesModel):
    """Attention over steps, by their times: a decoder for forecasts, an encoder for gaps and classes.

    Rotary places read differences of times only, of equal or uneven steps, so it keeps shifts of all times.
    """

    Config = TransformerSeriesConfig
    config: TransformerSeriesConfig

    def __init__(self, config: TransformerSeriesConfig) -> None:
        super().__init__(config)
        self.stack = Stack(
            config.depth,
            config.dim,
            config.heads,
            position=Rotary(config.dim // config.heads),
            norm="rmsnorm",
            mlp="gelu",
            qk_norm=True,
            dropout=config.dropout,
        )
        self.mask: Mask | None = Causal() if config.causal else None

    @property
    def keeps(self) -> Group:  # type: ignore[override]
        return self.stack.keeps if self.mask is None else self.stack.keeps & self.mask.keeps

    def read(self, x: Tensor, times: Tensor | None, real: Tensor | None) -> Tensor:
        return self.stack(x, mask=self.mask, where=times, real=real)
