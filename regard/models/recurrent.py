"""LSTM and GRU as language models and as classifiers of texts."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from regard.config import config
from regard.errors import RegardError
from regard.models.series_model import SeriesConfig, SeriesModel
from regard.models.states import States
from regard.models.token_model import TokenConfig, TokenModel
from regard.models.world_model import WorldConfig, WorldModel
from regard.nn.recurrent import Recurrent, State
from regard.nn.sort_by_position import line_up


@config
class RecurrentConfig(TokenConfig):
    """Settings of LSTM and GRU."""

    # a classifier reads in both directions, each with half of the width
    bidirectional: bool = False

    def __post_init__(self) -> None:
        if self.bidirectional and self.classes is None:
            raise RegardError(
                "bidirectional=True sees the next token, which a language model predicts; it is for classifiers"
            )
        if self.bidirectional and self.dim % 2:
            raise RegardError(
                f"must be even, because two directions share it, got {self.dim}; take {self.dim + 1}", option="dim"
            )


@config
class LSTMConfig(RecurrentConfig):
    """An LSTM: without `classes` a language model, with `classes` a classifier."""


@config
class GRUConfig(RecurrentConfig):
    """A GRU: without `classes` a language model, with `classes` a classifier."""


class RecurrentModel(TokenModel):
    """A stack of recurrent layers between embedding and head.   ids b n -> b n vocab, or b classes"""

    cell: ClassVar[str]
    keeps = Recurrent.keeps
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        hidden = config.dim // 2 if config.bidirectional else config.dim
        self.layers = Recurrent(
            self.cell, config.dim, hidden, config.depth, bidirectional=config.bidirectional, dropout=config.dropout
        )

    def read(self, x: Tensor, real: Tensor | None, states: States | None) -> Tensor:
        if states is None:
            return self.layers(x, None, real)[0]
        x, ends = self.layers(x, load_state(states, self.layers), real)
        keep_state(states, ends)
        return x


def load_state(states: States, layers: Recurrent) -> list[State] | None:
    """The state of each layer; None before the first token."""
    if "h0" not in states.held:
        return None
    names = "hc"[: 2 if layers.cell == "lstm" else 1]
    return [tuple(states.held[f"{name}{i}"] for name in names) for i in range(layers.depth)]


def keep_state(states: States, ends: list[State]) -> None:
    for i, end in enumerate(ends):
        states.keep(**{f"{name}{i}": x for name, x in zip("hc", end, strict=False)})


class LSTM(RecurrentModel):
    """Long short-term memory: gates decide what a cell keeps.   ids b n -> b n vocab, or b classes

    Causal as a language model: output i depends on tokens up to i. Keeps shifts of all places.
    """

    cell = "lstm"
    Config = LSTMConfig


class GRU(RecurrentModel):
    """Gated recurrent units: one state, two gates.   ids b n -> b n vocab, or b classes

    Causal as a language model: output i depends on tokens up to i. Keeps shifts of all places.
    """

    cell = "gru"
    Config = GRUConfig


# ── LSTM and GRU of series: the rivals of the transformer, with one state in place of attention


@config
class RecurrentSeriesConfig(SeriesConfig):
    """Settings of LSTM and GRU. They read forwards for forecasts, else in both directions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.causal and self.dim % 2:
            raise RegardError(
                f"must be even, because two directions share it, got {self.dim}; take {self.dim + 1}", option="dim"
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
            self.cell, config.dim, hidden, config.depth, bidirectional=not config.causal, dropout=config.dropout
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


# ── the GRU world model: the rival of the transformer, with one state in place of attention


@config
class GRUWorldConfig(WorldConfig):
    """A GRU world model."""


class GRUWorld(WorldModel):
    """What comes next, from a state that gates keep.   steps b n (o + a) -> b n (o + 2)

    Causal: output i depends on steps up to i. Keeps shifts of all places.
    """

    Config = GRUWorldConfig
    keeps = Recurrent.keeps

    def __init__(self, config: GRUWorldConfig) -> None:
        super().__init__(config)
        self.layers = Recurrent("gru", config.dim, config.dim, config.depth)

    def read(self, x: Tensor, where: Tensor | None, real: Tensor | None, caches: Any) -> Tensor:
        line = line_up(x, where, real)
        x = line.take(x)
        if caches is None:
            return line.put_back(self.layers(x, None, line.real)[0])
        x, ends = self.layers(x, load_state(caches, self.layers), line.real)
        keep_state(caches, ends)
        return line.put_back(x)

    def body_caches(self) -> States:
        return States()
