"""Gated convolutions of series: each step reads its neighbours, layer after layer."""

from __future__ import annotations

from torch import Tensor, nn

from regard.config import Depth, Kernel, config
from regard.errors import RegardError
from regard.models.series_model import SeriesConfig, SeriesModel
from regard.nn.convolve import GatedConv
from regard.nn.norm import RMSNorm


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
