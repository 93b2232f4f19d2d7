"""Sequence to sequence: what transformers, recurrent and convolutional encoder-decoders have in common.

    logits = model(source, target)                    # teacher forcing: logits at place i predict target i + 1
    memory = model.encode(source, source_real)        # once for each source
    caches = model.caches()                           # empty; then step by step
    logits = model.decode(first, memory, caches)      # b 1 -> b 1 vocab
    caches.take(rows); memory = memory.take(rows)     # row i goes on from row rows[i]

A model knows nothing of searches, nor which id begins or ends a sentence: whoever asks gives the first id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.config import Amount, Depth, Length, Share, Vocab, Width, config
from regard.errors import RegardError
from regard.models.caches import Caches, States
from regard.models.registered_model import Options, RegisteredModel
from regard.models.sequence_model import Head
from regard.nn.embed import TokenEmbedding
from regard.shapes import expect
from regard.symmetry.groups import Group
from regard.symmetry.roles import Roles, Stream

ROWS, TOKENS = 3, 12  # of sample inputs, unless more are asked for


@config
class Seq2SeqConfig:
    """Settings that all encoder-decoders have."""

    vocab: Vocab  # number of token ids of the target
    source_vocab: Vocab | None = None  # number of token ids of the source; None: as many as the target
    context: Length = 128  # longest sequence in training, source or target; also the size of a learned position table
    dim: Width = 256  # width
    depth: Depth = 2  # layers of the encoder
    decoder_depth: Depth | None = None  # layers of the decoder; None: as many as the encoder has
    shared: bool = True  # source and target share one embedding
    tied: bool = True  # the head shares the matrix of the target's embedding
    dropout: Share = 0.1  # share of channels dropped in training
    # logits l become cap·tanh(l/cap): limits overconfident predictions; None: no cap
    softcap: Amount | None = None

    @property
    def source_size(self) -> int:
        return self.vocab if self.source_vocab is None else self.source_vocab

    @property
    def depth_of_decoder(self) -> int:
        return self.depth if self.decoder_depth is None else self.decoder_depth

    def __post_init__(self) -> None:
        if self.shared and self.source_size != self.vocab:
            raise RegardError(
                f"shared embeddings need one vocabulary, got source_vocab={self.source_vocab} and "
                f"vocab={self.vocab}; use shared=False"
            )


@dataclass(eq=False)
class Memory:
    """What an encoder made of its sources, and what a decoder keeps of it."""

    states: Tensor  # b m d
    real: Tensor | None = None  # bool b m, False for padding; None: all real
    more: dict[str, Tensor] = field(default_factory=dict)  # other tensors, each with a row for each source

    def rows_for(self, target: Tensor) -> int:
        """How many rows a target must have: as many as there are sources, or so many times as many (for models that
        share memories) that the target's come out."""
        count = len(self.states)
        if count and len(target) > count and len(target) % count == 0:
            return len(target)
        return count

    def take(self, rows: Tensor) -> Memory:
        """Row i is row rows[i] of this one."""
        real = None if self.real is None else self.real.index_select(0, rows)
        more = {name: x.index_select(0, rows) for name, x in self.more.items()}
        return Memory(self.states.index_select(0, rows), real, more)


class Seq2Seq(RegisteredModel):
    """An encoder and a decoder that attends to it.   source b m, target b n -> b n vocab

    A subclass gives `encode`, `decode`, `caches` and `keeps`. Causal along the target: output i depends on the
    source and on target tokens up to i. `symmetry` is that of the target's places.
    """

    TINY: ClassVar[Options] = dict(vocab=13, context=64, dim=16, depth=1)
    TINY_INPUTS: ClassVar[Options] = {"tokens": 9, "rows": 2}
    config: Seq2SeqConfig
    # may a memory have fewer rows than a target that is decoded over caches? Each is then for several rows in a row
    shares_memory = False

    def __init__(self, config: Seq2SeqConfig, width: int | None = None, scale: bool = True) -> None:
        """width: of the embeddings; None: dim"""
        super().__init__()
        self.config = config
        width = config.dim if width is None else width
        self.embed = TokenEmbedding(config.vocab, width, scale=scale)
        self.source_embed = self.embed
        if not config.shared:
            self.source_embed = TokenEmbedding(config.source_size, width, scale=scale)
        self.head = Head(config)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_real: Tensor | None = None,
        target_real: Tensor | None = None,
        *,
        source_where: Tensor | None = None,
        target_where: Tensor | None = None,
        labels: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Tensor:
        """Logits of the token after each token of the target.   b m, b n -> b n vocab

        source_real, target_real: bool, False for padding, which may hold any id; it may be on either side
        source_where, target_where: places, m or b m and n or b n; None: consecutive
        labels: ids b n that should come next (-100: any). Then the result is the sum of −log p(label), and the
            logits are never in memory all at once; smoothing: the share of a label given to all ids alike
        """
        b, _ = expect(source, "b m", name="source")
        expect(target, "b n", name="target", b=b)
        memory = self.encode(source, source_real, where=source_where)
        if labels is None:
            return self.decode(target, memory, real=target_real, where=target_where)
        features = self.features(target, memory, real=target_real, where=target_where)
        return self.head.cross_entropy(features, self.embed.weight, labels, smoothing)

    def encode(self, source: Tensor, real: Tensor | None = None, *, where: Tensor | None = None) -> Memory:
        """What the decoder reads.   b m -> states b m d, and more"""
        raise NotImplementedError

    def decode(
        self,
        target: Tensor,
        memory: Memory,
        caches: Any = None,
        *,
        real: Tensor | None = None,
        where: Tensor | None = None,
    ) -> Tensor:
        """Logits of the token after each token of the target; with caches the tokens are new ones that go on
        from those given before.   b n -> b n vocab"""
        return self.head(self.features(target, memory, caches, real=real, where=where), self.embed.weight)

    def features(
        self,
        target: Tensor,
        memory: Memory,
        caches: Any = None,
        *,
        real: Tensor | None = None,
        where: Tensor | None = None,
    ) -> Tensor:
        """What the head reads.   b n -> b n d"""
        raise NotImplementedError

    def caches(self, length: int | None = None) -> Caches | States:
        """Empty caches for decoding step by step; `length`: the most tokens they will hold, None: they grow."""
        raise NotImplementedError

    @property
    def limit(self) -> int | None:
        """The longest source and target that it can read; None: any length."""
        return None

    @property
    def keeps(self) -> Group:
        raise NotImplementedError

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        both: tuple[str, ...] = ("right", "left")
        return Roles(
            streams=(
                Stream("target", mask="target_real", places="target_where", sides=both),
                Stream("source", mask="source_real", places="source_where", sides=both),
            ),
            promises={"reordering": "holds", "causality": "holds"},
            step=_step,
        )

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        draw = torch.Generator().manual_seed(seed)
        n = min(tokens or TOKENS, self.config.context)
        m = max(1, n - 2)
        return {
            "source": torch.randint(self.config.source_size, (rows or ROWS, m), generator=draw),
            "target": torch.randint(self.config.vocab, (rows or ROWS, n), generator=draw),
        }


def _step(model: Any, inputs: dict[str, Any], state: Any) -> tuple[Tensor, Any]:
    """Decoding with a cache, as `check` asks for it: the source is read once."""
    target = inputs["target"]
    how = {"real": inputs.get("target_real"), "where": inputs.get("target_where")}
    if state is None:
        source = inputs["source"]
        memory = model.encode(source, inputs.get("source_real"), where=inputs.get("source_where"))
        state = (memory, model.caches())
    return model.decode(target, *state, **how), state
