"""Recurrent sequence to sequence: the models that attention was first made for.

An encoder reads the source in both directions; the decoder goes on from its last state, and at every step
attends to all its states:

    dot, general   s_t = cell(y_t, s_(t−1)), scores with s_t                          Luong
    with `feed`    s_t = cell([y_t; o_(t−1)], s_(t−1)), scores with s_t               Luong's input feeding
    additive       scores with s_(t−1), context c_t, s_t = cell([y_t; c_t], s_(t−1))  Bahdanau
    none           s_t = cell(y_t, s_(t−1)) alone                                     Sutskever
    o_t = tanh(W [c_t; s_t]), and the head reads o_t

Without feeding, all steps are one fused call and one call of attention. With feeding and with additive scores a
step needs the one before, so there is a loop over the target; what does not depend on the step is outside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.dropout import Dropout
from regard.attention.masks import Padding
from regard.attention.mix import StepwiseMix
from regard.errors import RegardError
from regard.models.recurrent import keep_state, load_state
from regard.models.seq2seq import Memory, Seq2Seq, Seq2SeqConfig
from regard.models.states import States
from regard.nn.in_order import line_up
from regard.nn.padding import zero_padding
from regard.nn.recurrent import Recurrent, State
from regard.nn.recurrent_cell import RecurrentCells
from regard.nn.score import SCORES
from regard.shapes import expect
from regard.symmetry.groups import Group


@dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig(Seq2SeqConfig):
    """Settings of recurrent encoder-decoders. The encoder's directions have half of the width each."""

    dropout: float = 0.2  # share of embeddings and of each layer's outputs dropped in training
    # how a state of the decoder is compared with those of the encoder; none: no attention
    score: Literal["dot", "general", "additive", "none"] = "general"
    # the last output goes into the next step (only dot and general; additive always feeds its context)
    feed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % 2:
            raise RegardError(
                f"two directions share dim, so it must be even, got dim={self.dim}; take {self.dim + 1}"
            )
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


class RecurrentSeq2Seq(Seq2Seq):
    """A recurrent encoder in both directions and a recurrent decoder that attends to it.
    source b m, target b n -> b n vocab"""

    cell: ClassVar[str]
    Config = RecurrentSeq2SeqConfig
    config: RecurrentSeq2SeqConfig

    def __init__(self, config: RecurrentSeq2SeqConfig) -> None:
        super().__init__(config)
        dim, how = config.dim, config.dropout
        self.dropout = Dropout(how)
        self.encoder = Recurrent(self.cell, dim, dim // 2, config.depth, bidirectional=True, dropout=how)
        # the first layer also reads what is fed
        self.fed = config.feed or config.score == "additive"
        self.decoder = Recurrent(
            self.cell, 2 * dim if self.fed else dim, dim, config.depth_of_decoder, dropout=how
        )
        self.score: nn.Module | None = None
        self.combine: nn.Module | None = None
        if config.score in SCORES:
            self.score = SCORES[config.score](dim)
            self.combine = nn.Linear(2 * dim, dim, bias=False)
        self.before = config.score == "additive"  # scores with the state before the step

    def encode(self, source: Tensor, real: Tensor | None = None, *, where: Tensor | None = None) -> Memory:
        expect(source, "b m", name="source")
        line = line_up(source, where, real)
        x = self.dropout(line.take(self.source_embed(source, real)))
        states, ends = self.encoder(x, None, line.real)
        memory = Memory(self.dropout(zero_padding(states, line.real)), line.real)
        for i, end in enumerate(ends):
            memory.more |= {f"{name}{i}": x for name, x in zip("hc", end, strict=False)}
        if self.score is not None:
            memory.more["keys"] = self.score.keys(memory.states)  # type: ignore[operator]
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
        state = None if caches is None else load_state(caches, self.decoder)
        if state is None:
            state = self._first_state(memory)
        if self.fed:
            fed = None if caches is None else caches.held.get("fed")
            out, ends, fed = self._loop(x, memory, state, fed, line.real)
            if caches is not None:
                caches.keep(fed=fed)
        else:
            out, ends = self.decoder(x, state, line.real)
            out = self._attend(out, memory)
        if caches is not None:
            keep_state(caches, ends)
        return line.put_back(self.dropout(out))

    def _first_state(self, memory: Memory) -> list[State]:
        """Each layer of the decoder goes on from the encoder's layer; what is deeper begins with zeros."""
        names = "hc"[: 2 if self.cell == "lstm" else 1]
        state: list[State] = [
            tuple(memory.more[f"{name}{i}"] for name in names) for i in range(self.encoder.depth)
        ]
        empty = tuple(torch.zeros_like(x) for x in state[0])
        return state + [empty] * (self.decoder.depth - self.encoder.depth)

    def _attend(self, s: Tensor, memory: Memory) -> Tensor:
        """tanh(W [c; s]) for all steps at once; c attends with scores s·keys.   b n d -> b n d"""
        if self.combine is None:
            return s
        keys, values = memory.more["keys"].to(s.dtype), memory.states.to(s.dtype)
        mask = None if memory.real is None else Padding(memory.real)
        context = attend(s[:, None], keys[:, None], values[:, None], mask=mask, scale=1.0)[:, 0]
        return torch.tanh(self.combine(torch.cat((context, s), -1)))

    def _loop(
        self, x: Tensor, memory: Memory, state: Sequence[State], fed: Tensor | None, real: Tensor | None
    ) -> tuple[Tensor, list[State], Tensor]:
        """Step by step, because each reads what the one before made.
        b n d -> b n d, the last state, and what would be fed next"""
        assert self.score is not None and self.combine is not None
        cells = RecurrentCells(self.decoder, x)
        keys = memory.more["keys"]
        mixer = StepwiseMix(memory.states[:, None], None if memory.real is None else Padding(memory.real))
        if fed is None:
            fed = torch.zeros_like(state[-1][0])
        tops: list[Tensor] = []
        contexts: list[Tensor] = []
        outs: list[Tensor] = []
        now = list(state)
        for t in range(x.shape[1]):
            old, old_fed = now, fed
            if self.before:
                fed = self._look(now[-1][0], keys, mixer)
                contexts.append(fed)
            now = cells.step(t, fed, now)
            top = now[-1][0]
            if self.before:
                tops.append(top)
            else:
                context = self._look(top, keys, mixer)
                fed = torch.tanh(self.combine(torch.cat((context, top), -1)))
                outs.append(fed)
            if real is not None:  # a row that has ended keeps its state
                there = real[:, t, None]
                now = [
                    tuple(torch.where(there, new, x) for new, x in zip(n, o, strict=True))
                    for n, o in zip(now, old, strict=True)
                ]
                fed = torch.where(there, fed, old_fed)
        mixer.end()
        if not self.before:
            return torch.stack(outs, 1), now, fed
        both = torch.cat((torch.stack(contexts, 1), torch.stack(tops, 1)), -1)
        return torch.tanh(self.combine(both)), now, fed

    def _look(self, s: Tensor, keys: Tensor, mixer: StepwiseMix) -> Tensor:
        """The context of one state.   b d -> b d"""
        assert self.score is not None
        return mixer(self.score(s[:, None], keys)[:, None])[:, 0, 0]

    def caches(self, length: int | None = None) -> States:
        return States()

    @property
    def keeps(self) -> Group:
        return self.decoder.keeps


class LSTMSeq2Seq(RecurrentSeq2Seq):
    """LSTM encoder-decoder with Luong's, Bahdanau's or no attention.   source b m, target b n -> b n vocab

    Causal along the target. Keeps shifts of all places.
    """

    cell = "lstm"


class GRUSeq2Seq(RecurrentSeq2Seq):
    """GRU encoder-decoder with Luong's, Bahdanau's or no attention.   source b m, target b n -> b n vocab

    Causal along the target. Keeps shifts of all places.
    """

    cell = "gru"
