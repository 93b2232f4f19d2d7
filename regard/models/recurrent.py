"""LSTM and GRU: as language models and classifiers of texts, of series, for pairs of sequences, and as a world model."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from regard.attention.dropout import Dropout
from regard.config import Share, config
from regard.errors import RegardError
from regard.models.caches import States
from regard.models.seq2seq import Memory, Seq2Seq, Seq2SeqConfig
from regard.models.series import SeriesConfig, SeriesModel
from regard.models.token_model import TokenConfig, TokenModel
from regard.models.world_model import WorldConfig, WorldModel
from regard.nn.padding import line_up, zero_padding
from regard.nn.recurrent import Recurrent, State
from regard.nn.recurrent_decoder import RecurrentDecoder
from regard.shapes import expect
from regard.symmetry.groups import Group


def _check_halves(dim: int) -> None:
    if dim % 2:
        raise RegardError(f"must be even, because two directions share it, got {dim}; take {dim + 1}", option="dim")


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
        if self.bidirectional:
            _check_halves(self.dim)


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
        if not self.causal:
            _check_halves(self.dim)


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


# ── sequence to sequence, the models that attention was first made for: an encoder reads the source in both directions; the
# decoder goes on from its last state, and at every step attends to all its states (see nn/recurrent_decoder.py)


@config
class RecurrentSeq2SeqConfig(Seq2SeqConfig):
    """Settings of recurrent encoder-decoders. The encoder's directions have half of the width each."""

    dropout: Share = 0.2  # share of embeddings and of each layer's outputs dropped in training
    # how a state of the decoder is compared with those of the encoder; none: no attention
    score: Literal["dot", "general", "additive", "none"] = "general"
    # the last output goes into the next step (only dot and general; additive always feeds its context)
    feed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_halves(self.dim)
        if self.feed and self.score in ("additive", "none"):
            instead = "which always feeds its context" if self.score == "additive" else "which has no context"
            raise RegardError(
                f"feed goes with score dot or general, got score={self.score!r}, {instead}; leave out feed"
            )
        if self.depth_of_decoder < self.depth:
            raise RegardError(
                f"the decoder goes on from the state of each layer of the encoder, so it needs as many layers, "
                f"got depth={self.depth} and decoder_depth={self.decoder_depth}"
            )


@config
class LSTMSeq2SeqConfig(RecurrentSeq2SeqConfig):
    """An LSTM encoder-decoder."""


@config
class GRUSeq2SeqConfig(RecurrentSeq2SeqConfig):
    """A GRU encoder-decoder."""


class RecurrentSeq2Seq(Seq2Seq):
    """A recurrent encoder in both directions and a recurrent decoder that attends to it.
    source b m, target b n -> b n vocab"""

    cell: ClassVar[str]
    config: RecurrentSeq2SeqConfig

    def __init__(self, config: RecurrentSeq2SeqConfig) -> None:
        super().__init__(config)
        dim, how = config.dim, config.dropout
        self.dropout = Dropout(how)
        self.encoder = Recurrent(self.cell, dim, dim // 2, config.depth, bidirectional=True, dropout=how)
        self.decoder = RecurrentDecoder(
            self.cell, dim, config.depth_of_decoder, score=config.score, feed=config.feed, dropout=how
        )

    def encode(self, source: Tensor, real: Tensor | None = None, *, where: Tensor | None = None) -> Memory:
        expect(source, "b m", name="source")
        line = line_up(source, where, real)
        x = self.dropout(line.take(self.source_embed(source, real)))
        states, ends = self.encoder(x, None, line.real)
        memory = Memory(self.dropout(zero_padding(states, line.real)), line.real)
        for i, end in enumerate(ends):
            memory.more |= {f"{name}{i}": x for name, x in zip("hc", end, strict=False)}
        memory.more |= self.decoder.prepare(memory.states)
        return memory

    def features(
        self,
        target: Tensor,
        memory: Memory,
        caches: Any = None,
        *,
        real: Tensor | None = None,
        where: Tensor | None = None,
    ) -> Tensor:
        expect(target, "b n", name="target", b=len(memory.states))
        if caches is not None and not isinstance(caches, States):
            raise RegardError(f"caches must be what model.caches() gives, got {type(caches).__name__}")
        line = line_up(target, where, real)
        x = self.dropout(line.take(self.embed(target, real)))
        state = None if caches is None else load_state(caches, self.decoder.layers)
        if state is None:
            state = self._first_state(memory)
        fed = None if caches is None else caches.held.get("fed")
        keys = memory.more.get("keys")
        out, ends, fed = self.decoder(x, memory.states, keys, state, fed=fed, real=line.real, memory_real=memory.real)
        if caches is not None:
            keep_state(caches, ends)
            if fed is not None:
                caches.keep(fed=fed)
        return line.put_back(self.dropout(out))

    def _first_state(self, memory: Memory) -> list[State]:
        """Each layer of the decoder goes on from the encoder's layer; what is deeper begins with zeros."""
        names = "hc"[: 2 if self.cell == "lstm" else 1]
        state: list[State] = [tuple(memory.more[f"{name}{i}"] for name in names) for i in range(self.encoder.depth)]
        empty = tuple(torch.zeros_like(x) for x in state[0])
        return state + [empty] * (self.decoder.layers.depth - self.encoder.depth)

    def caches(self, length: int | None = None) -> States:
        return States()

    @property
    def keeps(self) -> Group:
        return self.decoder.layers.keeps


class LSTMSeq2Seq(RecurrentSeq2Seq):
    """LSTM encoder-decoder with Luong's, Bahdanau's or no attention.   source b m, target b n -> b n vocab

    Causal along the target. Keeps shifts of all places.
    """

    cell = "lstm"
    Config = LSTMSeq2SeqConfig


class GRUSeq2Seq(RecurrentSeq2Seq):
    """GRU encoder-decoder with Luong's, Bahdanau's or no attention.   source b m, target b n -> b n vocab

    Causal along the target. Keeps shifts of all places.
    """

    cell = "gru"
    Config = GRUSeq2SeqConfig


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
