"""LSTM and GRU as language models and as classifiers of texts."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from regard.config import config
from regard.errors import RegardError
from regard.models.states import States
from regard.models.token_model import TokenConfig, TokenModel
from regard.nn.recurrent import Recurrent, State


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
                f"must be even, because two directions share it, got {self.dim}; take {self.dim + 1}",
                option="dim",
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
            self.cell,
            config.dim,
            hidden,
            config.depth,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
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
