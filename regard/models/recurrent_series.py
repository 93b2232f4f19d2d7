"""LSTM and GRU of series: the rivals of the transformer, with one state in place of attention."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from regard.config import config
from regard.errors import RegardError
from regard.models.series_model import SeriesConfig, SeriesModel
from regard.nn.recurrent import Recurrent


@config
class RecurrentSeriesConfig(SeriesConfig):
    """Settings of LSTM and GRU. They read forwards for forecasts, else in both directions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.causal and self.dim % 2:
            raise RegardError(
                f"must be even, because two directions share it, got {self.dim}; take {self.dim + 1}",
                option="dim",
            )


@config
class LSTMSeriesConfig(RecurrentSeriesConfig):
    """An LSTM of series."""


@config
class GRUSeriesConfig(RecurrentSeriesConfig):
    """A GRU of series."""


class RecurrentSeries(SeriesModel):
    """A state that gates keep, step after step. It reads order, and gaps between steps as numbers, so it keeps
    shifts of all times."""

    cell: ClassVar[str]
    keeps = Recurrent.keeps
    config: RecurrentSeriesConfig

    def __init__(self, config: RecurrentSeriesConfig) -> None:
        super().__init__(config)
        hidden = config.dim if config.causal else config.dim // 2
        self.layers = Recurrent(
            self.cell,
            config.dim,
            hidden,
            config.depth,
            bidirectional=not config.causal,
            dropout=config.dropout,
        )

    def read(self, x: Tensor, times: Tensor | None, real: Tensor | None) -> Tensor:
        out: Tensor = self.layers(x, None, real)[0]
        return out


class LSTMSeries(RecurrentSeries):
    """Long short-term memory over steps."""

    cell = "lstm"
    Config = LSTMSeriesConfig


class GRUSeries(RecurrentSeries):
    """Gated recurrent units over steps."""

    cell = "gru"
    Config = GRUSeriesConfig
