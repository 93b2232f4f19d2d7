"""What models of token sequences without self-attention have in common: embedding, layers that read slot after
slot, and a head. Without `classes` they are language models, with `classes` classifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.config import Amount, Classes, Depth, Length, Share, Vocab, Width, config
from regard.errors import RegardError
from regard.models.caches import States, step_with_caches
from regard.models.registered_model import Options, RegisteredModel
from regard.models.sample_inputs import sample_sequences
from regard.models.sequence_model import Head
from regard.nn.embed import TokenEmbedding
from regard.nn.padding import line_up
from regard.nn.pool import AttentionPool, MaxPool, MeanPool
from regard.shapes import expect
from regard.symmetry.groups import Group
from regard.symmetry.roles import Roles, Stream


@config
class TokenConfig:
    """Settings of recurrent and convolutional models."""

    vocab: Vocab  # number of token ids
    context: Length = 256  # tokens per sequence in training; afterwards it reads texts of any length
    dim: Width = 256  # width of embeddings and layers
    depth: Depth = 2  # layers
    tied: bool = False  # the head shares the matrix of the embedding
    dropout: Share = 0.0  # share of embeddings and of each layer's outputs dropped in training
    # logits l become cap·tanh(l/cap): limits overconfident predictions; None: no cap
    softcap: Amount | None = None
    classes: Classes | None = None  # number of classes; None: predict the next token
    pool: Literal["mean", "max", "attention"] = "mean"  # how a classifier pools its tokens

    @property
    def causal(self) -> bool:
        return self.classes is None


POOLS: dict[str, Callable[[TokenConfig], nn.Module]] = {
    "mean": lambda c: MeanPool(),
    "max": lambda c: MaxPool(),
    "attention": lambda c: AttentionPool(c.dim),
}


class TokenModel(RegisteredModel):
    """Embedding, layers, head.   ids b n -> b n vocab, or b classes

    A subclass gives `read`. Tokens are read in the order of their places, so shifts of all places change nothing.
    """

    config: TokenConfig
    TINY: ClassVar[Options] = dict(vocab=13, context=64, dim=16, depth=2)
    TINY_INPUTS: ClassVar[Options] = {"rows": 2}
    keeps: Group

    def __init__(self, config: TokenConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = TokenEmbedding(config.vocab, config.dim, scale=True)
        self.dropout = Dropout(config.dropout)
        self.pool: nn.Module | None = None
        self.head: nn.Module = Head(config)
        if config.classes is not None:
            self.pool = POOLS[config.pool](config)
            self.head = nn.Linear(config.dim, config.classes)

    def read(self, x: Tensor, real: Tensor | None, states: States | None) -> Tensor:
        """The layers. Padding is at the end; states are read and written.   b n d -> b n d"""
        raise NotImplementedError

    def forward(
        self, tokens: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, caches: States | None = None
    ) -> Tensor:
        """where: places n or b n, None: consecutive; real: bool b n, False for padding, which may hold any id.

        With caches (see `caches`) the tokens are new ones that go on from those given before.
        """
        x = self.features(tokens, where=where, real=real, caches=caches)
        if isinstance(self.head, Head):
            return self.head(x, self.embed.weight)
        return self.head(x)

    def features(
        self, tokens: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, caches: States | None = None
    ) -> Tensor:
        """What the head reads.   b n -> b n d, or b d for a classifier"""
        expect(tokens, "b n", name="tokens")
        if caches is not None and not isinstance(caches, States):
            raise RegardError(f"caches must be what model.caches() gives, got {type(caches).__name__}")
        line = line_up(tokens, where, real)
        x = self.dropout(line.take(self.embed(tokens, real)))
        x = self.dropout(self.read(x, line.real, caches))
        if self.pool is None:
            return line.put_back(x)
        return self.pool(x, line.real)

    def caches(self, length: int | None = None) -> States:
        """An empty state, for reading step by step. Its size does not depend on the number of tokens."""
        if not self.config.causal:
            raise RegardError("a classifier reads whole texts; a cache is for models that predict next tokens")
        return States()

    @property
    def limit(self) -> int | None:
        """How many tokens it can be shown at once: any number."""
        return None

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        return sample_sequences(self.config, seed, tokens, rows)

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        promises = {"reordering": "holds", "causality": "holds" if self.config.causal else "not promised"}
        stream = Stream("tokens", mask="real", places="where", sides=("right", "left"))
        roles = Roles(streams=(stream,), promises=promises)
        if self.config.causal:
            return replace(roles, step=step_with_caches)
        return roles
