"""Gated convolutions as a language model and as a classifier of texts."""

from __future__ import annotations

from torch import Tensor, nn

from regard.config import Depth, Kernel, config
from regard.errors import RegardError
from regard.models.series_model import SeriesConfig, SeriesModel
from regard.models.states import States
from regard.models.token_model import TokenConfig, TokenModel
from regard.nn.convolve import GatedConv
from regard.nn.norm import RMSNorm


@config
class ConvConfig(TokenConfig):
    """Settings of a convolutional model. It sees depth · (kernel − 1) tokens back."""

    depth: Depth = 6  # layers
    kernel: Kernel = 5  # tokens that one layer reads: up to this one, or around it in a classifier

    def __post_init__(self) -> None:
        if self.classes is not None and self.kernel % 2 == 0:
            raise RegardError(
                f"must be odd, because a classifier reads as many tokens before as after, got {self.kernel}",
                option="kernel",
            )


class Conv(TokenModel):
    """Gated convolutions one after another, each with a residual.   ids b n -> b n vocab, or b classes

    As a language model causal: output i depends on the tokens from i − depth·(kernel − 1) to i. Keeps shifts of
    all places.
    """

    Config = ConvConfig
    config: ConvConfig
    keeps = GatedConv.keeps

    def __init__(self, config: ConvConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(
            GatedConv(config.dim, config.kernel, causal=config.causal, dropout=config.dropout)
            for _ in range(config.depth)
        )
        self.norm = RMSNorm(config.dim)

    def read(self, x: Tensor, real: Tensor | None, states: States | None) -> Tensor:
        return self.norm(run_convolutions(self.layers, x, real, states))


def run_convolutions(layers: nn.ModuleList, x: Tensor, real: Tensor | None, states: States | None) -> Tensor:
    """One layer after another, each with what it has seen last.   b n d -> b n d"""
    for i, layer in enumerate(layers):
        x = run_convolution(layer, i, x, real, states)
    return x


def run_convolution(layer: nn.Module, i: int, x: Tensor, real: Tensor | None, states: States | None) -> Tensor:
    """Layer i, which finds what it has seen last in the states, and leaves there what it sees now."""
    assert isinstance(layer, GatedConv)
    if states is None:
        return layer(x, real)
    name = f"before{i}"
    before = states.held.get(name)
    if before is None:
        before = layer.empty(x)
    out = layer(x, real, before)
    states.keep(**{name: layer.last(x, real, before)})
    return out


# ── gated convolutions of series: each step reads its neighbours, layer after layer


@config
class ConvSeriesConfig(SeriesConfig):
    """Gated convolutions of series. They see depth · (kernel − 1) steps back."""

    depth: Depth = 4  # layers
    kernel: Kernel = 5  # steps that one layer reads: up to this one for forecasts, else around it

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.causal and self.kernel % 2 == 0:
            raise RegardError(
                f"must be odd, because {self.task} reads as many steps before as after, got {self.kernel}",
                option="kernel",
            )


class ConvSeries(SeriesModel):
    """Convolutions over steps in order. It reads gaps between steps as numbers, so it keeps shifts of all times."""

    Config = ConvSeriesConfig
    config: ConvSeriesConfig
    keeps = GatedConv.keeps

    def __init__(self, config: ConvSeriesConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(
            GatedConv(config.dim, config.kernel, causal=config.causal, dropout=config.dropout)
            for _ in range(config.depth)
        )
        self.norm = RMSNorm(config.dim)

    def read(self, x: Tensor, times: Tensor | None, real: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x, real)
        return self.norm(x)
