"""The encoder: attends in both directions, and predicts masked tokens (masked LM, BERT) or classifies."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import Classes, Extras, config
from regard.errors import RegardError
from regard.models.registered_model import Options
from regard.models.sequence_model import POSITIONS, Head, SequenceConfig, SequenceModel, count_places
from regard.nn.lora import freeze_others
from regard.nn.mlp import ACTIVATIONS
from regard.nn.ngram_logistic import BagOfNGrams, Gate
from regard.nn.norm import LayerNorm
from regard.nn.pool import AttentionPool, ClassToken, FirstToken, MaxPool, MeanPool
from regard.shapes import expect
from regard.symmetry.groups import Group, Trivial


@config
class EncoderConfig(SequenceConfig):
    """An encoder: without `classes` a masked LM, with `classes` a classifier."""

    classes: Classes | None = None  # number of classes; None: predict tokens
    # how a classifier pools its tokens; first: a layer on the first token, with tanh or relu, as in BERT
    pool: Literal["mean", "max", "attention", "class", "first", "first_relu"] = "mean"
    # without classes: logits by one matrix, or by one more layer before it, as in BERT; none: give the tokens
    head: Literal["linear", "transform", "none"] = "linear"
    token_types: Extras = 0  # learned vectors that tell parts of a text apart, as in BERT; 0: none
    # classes: add logits, through a learned gate, to a linear map of a bag of words and character n-grams
    bag: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head == "transform" and (self.mlp.kind == "experts" or self.mlp.activation == "swiglu"):
            raise RegardError(
                "transform has one activation, which experts and swiglu are not; use mlp.activation=gelu", option="head"
            )


POOLS: dict[str, Callable[[SequenceConfig], nn.Module]] = {
    "mean": lambda c: MeanPool(),
    "max": lambda c: MaxPool(),
    "attention": lambda c: AttentionPool(c.dim, c.heads),
    "class": lambda c: ClassToken(c.dim - POSITIONS[c.position](c).widens),
    "first": lambda c: FirstToken(c.dim, "tanh"),
    "first_relu": lambda c: FirstToken(c.dim, "relu"),
}


class MaskedHead(Head):
    """W norm(σ(θᵀx + b)) + c, with the σ of the MLPs; W may be the matrix of the embedding.   b n d -> b n vocab"""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__(config)
        self.activation = ACTIVATIONS[config.mlp.activation]
        self.linear = nn.Linear(config.dim, config.dim)
        self.norm = LayerNorm(config.dim, eps=config.eps or 1e-5)
        self.bias = nn.Parameter(torch.zeros(config.vocab))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        return super().forward(self.norm(self.activation(self.linear(x))), embedding) + self.bias


HEADS: dict[str, Callable[[SequenceConfig], nn.Module]] = {
    "linear": Head,
    "transform": MaskedHead,
    "none": lambda c: nn.Identity(),
}


class Encoder(SequenceModel):
    """Logits at every place from all tokens (masked LM), or of `classes` for the whole
    (classifier).

    ids b n -> b n vocab, or b classes
    Without position and bias it knows a set only: permutations move the output along, and after a pool change
    nothing.
    """

    Config = EncoderConfig
    TINY: ClassVar[Options] = dict(vocab=13, context=64, dim=32, depth=2, heads=4, position="none", bias="buckets")
    TINY_INPUTS: ClassVar[Options] = {"rows": 2}
    config: EncoderConfig

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.config = config
        self.pool: nn.Module | None = None
        # without a head a model may bring its pool along, see `pooled`
        if config.classes is not None or (config.head == "none" and config.pool.startswith("first")):
            self.pool = POOLS[config.pool](config)
        self.types: nn.Parameter | None = None
        if config.token_types:
            self.types = nn.Parameter(torch.randn(config.token_types, config.dim) * 0.02)
        self.bag: BagOfNGrams | None = None
        if config.classes is None:
            self.head = HEADS[config.head](config)
            if config.lora:
                freeze_others(self)
            return
        head = nn.Linear(config.dim, config.classes)
        self.head = head
        if config.bag:
            self.bag = BagOfNGrams(config.vocab, config.classes)
            self.gate = Gate()  # blocks need many rows for what a bag learns from few
            nn.init.zeros_(head.weight)  # chance adds nothing to what the bag learns first
        if config.lora:
            freeze_others(self, learns=("head.", "pool.", "bag.", "gate."))

    @property
    def symmetry(self) -> Group:
        """A class token has no place, so a position that turns keys is seen by it from where it is not turned
        itself."""
        if self._turned_away:
            return Trivial()
        if isinstance(self.pool, FirstToken) and self.config.classes is not None:
            return super().symmetry & self.pool.keeps
        return super().symmetry

    @property
    def full_symmetry(self) -> Group:
        return Trivial() if self._turned_away else super().full_symmetry

    @property
    def _turned_away(self) -> bool:
        return isinstance(self.pool, ClassToken) and self.stack.position.turns

    def forward(
        self,
        tokens: Tensor,
        *,
        where: Tensor | None = None,
        real: Tensor | None = None,
        spelling: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> Tensor:
        """where: places n or b n, None: consecutive; real: bool b n, False for padding, which may hold any
        id; spelling: for the bag of n-grams, see there; token_types: b n, which part of a text each token
        belongs to, None: all to the first."""
        x = self.features(tokens, where=where, real=real, token_types=token_types)
        if isinstance(self.head, Head):
            return self.head(x, self.embed.weight)
        if self.bag is None:
            return self.head(x)
        bag, logits = self.bag(tokens, real, spelling), self.head(x)
        if not self.training:
            out: Tensor = self.gate(bag, logits)
            return out
        known = self.bag.predict(tokens, real, spelling)
        return self.gate.teach(bag, known, logits, tokens, real)

    def features(
        self,
        tokens: Tensor,
        *,
        where: Tensor | None = None,
        real: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> Tensor:
        """What the head reads.   b n -> b n d, or b d for a classifier"""
        expect(tokens, "b n", name="tokens")
        if where is None:
            where = count_places(real)
        x = self.typed(self.embedded(tokens, where, real), token_types)
        if isinstance(self.pool, ClassToken):
            x, where, real = self.pool.add(x, where, real)
        x = self.stack(x, mask=self.mask, where=where, real=real)
        if self.pool is None or self.config.classes is None:
            return x
        if isinstance(self.pool, ClassToken):
            return x[:, 0]
        if isinstance(self.pool, FirstToken):
            return self.pool(x, real, where)
        return self.pool(x, real)

    def typed(self, x: Tensor, token_types: Tensor | None) -> Tensor:
        """The tokens, with the vectors of the parts they belong to.   b n d -> b n d"""
        if self.types is None:
            if token_types is not None:
                raise RegardError("this model has no token types; leave token_types out")
            return x
        if token_types is None:
            return x + self.types[0]
        return x + F.embedding(token_types, self.types)

    def pooled(self, tokens: Tensor, *, where: Tensor | None = None, real: Tensor | None = None) -> Tensor:
        """What the pool of a model without a head gives for each text.   b n -> b d"""
        if not isinstance(self.pool, FirstToken) or self.config.classes is not None:
            raise RegardError("only a model with head='none' and pool='first' has a pool beside its tokens")
        if where is None:
            where = count_places(real)
        return self.pool(self.features(tokens, where=where, real=real), real, where)
