"""Gated convolutions: as a language model and a classifier of texts, of series, and for pairs of sequences."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.dropout import Dropout
from regard.attention.masks import Padding
from regard.attention.positions import Learned, Nothing, Position, Sinusoidal, coordinates
from regard.config import Depth, Kernel, config
from regard.errors import RegardError
from regard.models.caches import States
from regard.models.seq2seq import Memory, Seq2Seq, Seq2SeqConfig
from regard.models.series import SeriesConfig, SeriesModel
from regard.models.token_model import TokenConfig, TokenModel
from regard.nn.convolve import GatedConv
from regard.nn.norm import RMSNorm
from regard.nn.padding import Lineup, line_up
from regard.shapes import expect
from regard.symmetry.groups import Group


def _check_middle(kernel: int, reader: str) -> None:
    if kernel % 2 == 0:
        raise RegardError(f"must be odd, because {reader} reads as much before as after, got {kernel}", option="kernel")


@config
class ConvConfig(TokenConfig):
    """Settings of a convolutional model. It sees depth · (kernel − 1) tokens back."""

    depth: Depth = 6  # layers
    kernel: Kernel = 5  # tokens that one layer reads: up to this one, or around it in a classifier

    def __post_init__(self) -> None:
        if self.classes is not None:
            _check_middle(self.kernel, "a classifier")


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
        if not self.causal:
            _check_middle(self.kernel, self.task)


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


# ── sequence to sequence (ConvS2S), with attention in each layer of the decoder


@config
class ConvSeq2SeqConfig(Seq2SeqConfig):
    """Settings of a convolutional encoder-decoder."""

    depth: Depth = 4  # layers of the encoder
    kernel: Kernel = 3  # tokens that one layer reads: around each in the encoder, up to it in the decoder
    position: Literal["none", "sinusoidal", "learned"] = "learned"  # added to the embeddings

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_middle(self.kernel, "the encoder")
        if self.position == "sinusoidal" and self.dim % 2:
            raise RegardError(f"sinusoidal positions need an even dim, got dim={self.dim}")


POSITIONS = {
    "none": lambda c: Nothing(),
    "sinusoidal": lambda c: Sinusoidal(c.dim),
    "learned": lambda c: Learned(c.context, c.dim),
}


class ConvAttention(nn.Module):
    """h + W_o c,  c_i = Σ_j w_ij v_j,  w_i = softmax_j of (W norm(h_i) + y_i)·z_j / √d, where y is the target's
    embedding, z the encoder's output, and v = z + the source's embedding.   b n d -> b n d"""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.to_q = nn.Linear(dim, dim)
        self.mix = nn.Linear(dim, dim)
        self.norm = RMSNorm(dim)

    def forward(self, h: Tensor, y: Tensor, memory: Memory) -> Tensor:
        q = self.to_q(self.norm(h)) + y
        mask = None if memory.real is None else Padding(memory.real)
        keys, values = memory.states.to(q.dtype), memory.more["values"].to(q.dtype)
        c = attend(q[:, None], keys[:, None], values[:, None], mask=mask)[:, 0]
        return h + self.mix(c)


class ConvSeq2Seq(Seq2Seq):
    """A convolutional encoder-decoder with attention in each layer of the decoder.
    source b m, target b n -> b n vocab

    Causal along the target. Without a position it keeps shifts of all places.
    """

    Config = ConvSeq2SeqConfig
    config: ConvSeq2SeqConfig

    def __init__(self, config: ConvSeq2SeqConfig) -> None:
        super().__init__(config)
        dim, how = config.dim, {"dropout": config.dropout}
        self.dropout = Dropout(config.dropout)
        self.position: Position = POSITIONS[config.position](config)
        self.source_position: Position = POSITIONS[config.position](config)
        self.longest = config.context if isinstance(self.position, Learned) else None
        self.encoder = nn.ModuleList(GatedConv(dim, config.kernel, causal=False, **how) for _ in range(config.depth))
        self.decoder = nn.ModuleList(
            GatedConv(dim, config.kernel, causal=True, **how) for _ in range(config.depth_of_decoder)
        )
        self.attention = nn.ModuleList(ConvAttention(dim) for _ in self.decoder)
        self.encoder_norm, self.norm = RMSNorm(dim), RMSNorm(dim)

    def encode(self, source: Tensor, real: Tensor | None = None, *, where: Tensor | None = None) -> Memory:
        expect(source, "b m", name="source")
        line = line_up(source, where, real)
        x = line.take(self.source_embed(source, real))
        x = self.dropout(self.source_position.place(x, _places(line, where, x)))
        z = self.encoder_norm(run_convolutions(self.encoder, x, line.real, None))
        return Memory(z, line.real, {"values": z + x})

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
        x = line.take(self.embed(target, real))
        places = _places(line, where, x, caches)
        y = self.dropout(self.position.place(x, places))
        h = y
        for i, (layer, attention) in enumerate(zip(self.decoder, self.attention, strict=True)):
            h = run_convolution(layer, i, h, line.real, caches)
            h = attention(h, y, memory)
        return line.put_back(self.dropout(self.norm(h)))

    def caches(self, length: int | None = None) -> States:
        return States()

    @property
    def limit(self) -> int | None:
        return self.longest

    @property
    def keeps(self) -> Group:
        return self.position.keeps & GatedConv.keeps


def _places(line: Lineup, where: Tensor | None, x: Tensor, states: States | None = None) -> Tensor | None:
    """The places of lined-up tokens; None: consecutive from 0 on. States count how many were read."""
    b, n, _ = x.shape
    if where is not None:
        return line.take(coordinates(where, 0, n, b, x.device, "a convolutional model").expand(b, n))
    if states is None:
        return None
    seen = states.held.get("seen")
    if seen is None:
        seen = torch.zeros(b, dtype=torch.long, device=x.device)
    new = torch.full_like(seen, n) if line.real is None else line.real.sum(1)
    states.keep(seen=seen + new)
    places = seen[:, None] + torch.arange(n, device=x.device)
    if line.real is None:
        return places
    return places.masked_fill(~line.real, 0)
