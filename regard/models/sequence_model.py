"""What models of sequences have in common: embedding, position, blocks. GPT, Llama and BERT are choices of
the same parts.

A config names the parts; the tables below turn each name into an object once, in the constructor, and nothing
asks for names after that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Annotated, Any, ClassVar, Literal, Protocol

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.attention.biases import ALiBi, Bias, Buckets, Relative
from regard.attention.dropout import Dropout
from regard.attention.mask import Mask
from regard.attention.masks import Causal
from regard.attention.positions import Concatenated, Learned, Nothing, Position, Rotary, Sinusoidal
from regard.attention.rope_scaling import RopeScaling
from regard.config import Amount, Count, Depth, Extras, Length, Rare, Share, Vocab, Width, config
from regard.errors import RegardError
from regard.models.attentions import (
    WEIGHTS,
    AttentionConfig,
    FullAttention,
    check_attention,
    check_heads,
    check_position,
    hides_far_tokens,
    make_approximation,
    make_mask,
)
from regard.models.caches import Caches
from regard.models.experts import ExpertsMLP, MLPConfig, PlainMLP, make_mlp_of, promises_of_experts
from regard.models.memory_estimate import OnlyShapes
from regard.models.ngrams import NGrams
from regard.models.registered_model import RegisteredModel
from regard.models.sample_inputs import sample_sequences
from regard.nn.block import Stack, kept_by
from regard.nn.embed import TokenEmbedding
from regard.nn.linear import Shared
from regard.nn.linear_cross_entropy import IGNORE, linear_cross_entropy
from regard.nn.lora import add_lora
from regard.nn.norm import NORMS, LayerNorm, RMSNorm
from regard.symmetry.groups import Group, Permutations, Shifts
from regard.symmetry.roles import Roles, Stream


@config
class RopeConfig:
    """How rotary positions turn. They are slower for texts longer than those of the training."""

    channels: Width | None = None  # channels of each head that turn; None: all
    scaling: Literal["none", "linear", "llama3", "yarn"] = "none"  # which of them are slower
    factor: Annotated[float, Field(ge=1)] = 1.0  # how many times slower
    original: Length = 8192  # llama3 and yarn: the context before it was made longer
    # llama3 and yarn: channels that turn less often than this in that context are slowed in full
    low: Amount = 1.0
    high: Amount = 4.0  # and those that turn more often than this are left as they are

    def __post_init__(self) -> None:
        self.made()

    def made(self) -> RopeScaling:
        return RopeScaling(self.scaling, self.factor, self.original, self.low, self.high)


@config
class SequenceConfig:
    """Settings of decoders and encoders."""

    vocab: Vocab  # number of token ids
    context: Length = 256  # tokens per sequence in training; also the size of a learned position table
    dim: Width = 256  # width of the residual stream
    depth: Depth = 4  # blocks
    heads: Count = 4  # attention heads of each block
    # key and value heads, shared by groups of query heads; None: same as heads
    kv_heads: Rare[Count | None] = None
    head_dim: Rare[Width | None] = None  # channels of each head; None: dim / heads
    # position encoding
    position: Literal["none", "sinusoidal", "learned", "concatenated", "rotary"] = "rotary"
    bias: Rare[Literal["none", "relative", "alibi", "buckets"]] = "none"  # added to the attention scores
    base: Rare[Amount] = 10_000.0  # base of the frequencies of rotary, sinusoidal and concatenated positions
    rope: Rare[RopeConfig] = RopeConfig()  # how rotary positions turn
    # rows of a learned position table before that of the first place, as in RoBERTa
    unused_places: Rare[Extras] = 0
    norm: Rare[Literal["layernorm", "rmsnorm"]] = "rmsnorm"  # type of the norms
    eps: Rare[Amount | None] = None  # what norms add to the variance; None: 1e-5 (layernorm), 1e-6 (rmsnorm)
    # where the norms are in a block; parallel: attention and MLP read the same tokens, as in GPT-NeoX
    placement: Rare[Literal["pre", "post", "deepnorm", "parallel"]] = "pre"
    # the MLP of each block: plain, or experts, of which each token passes a few (see docs/experts.md)
    mlp: Rare[MLPConfig] = PlainMLP()
    qk_norm: Rare[bool] = True  # normalise queries and keys, so that scores stay bounded
    offset: Rare[bool] = False  # linear maps of the blocks have a bias (never in swiglu)
    # which of them have one; usual: all or none, as offset says; attention, mlp and all: in swiglu, too
    offsets: Rare[Literal["usual", "qkv", "attention", "mlp", "all"]] = "usual"
    tied: Rare[bool] = False  # the head shares the matrix of the embedding
    # which tokens a token attends to, or how it is approximated (see docs/long.md)
    attention: AttentionConfig = FullAttention()
    dropout: Share = 0.0  # share of weights, hidden channels and branches dropped in training
    embedding_norm: Rare[bool] = False  # a norm after embedding and position, as in BERT
    # multiply embeddings by √dim, so that an added position does not dominate them
    embedding_scale: Rare[bool] = False
    # how scores become weights: sparsemax and entmax give most tokens no weight at all
    weights: Rare[Literal["softmax", "sparsemax", "entmax"]] = "softmax"
    # add learned vectors for n-grams of up to this many tokens: faster training; 1: none
    ngrams: Annotated[int, Field(ge=1, le=8)] = 1
    zero_start: Rare[bool] = False  # blocks start as the identity: faster training
    # logits l become cap·tanh(l/cap): limits overconfident predictions; None: no cap
    softcap: Rare[Amount | None] = None
    # train a small map of this rank beside each linear map of the blocks, and nothing else but a new head
    # (LoRA): for --from, with less memory; 0: train all
    lora: Extras = 0

    causal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.head_dim is None:
            check_heads(self)
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise RegardError(f"must divide heads={self.heads}, got {self.kv_heads}", option="kv_heads")
        check_position(self, POSITIONS)
        check_attention(self)
        if isinstance(self.mlp, ExpertsMLP) and self.offsets in ("mlp", "all"):
            raise RegardError(
                f"{self.offsets} is not for experts, which have no biases; use usual, qkv or attention",
                option="offsets",
            )

    @property
    def channels(self) -> int:
        """Of each head."""
        return self.dim // self.heads if self.head_dim is None else self.head_dim


POSITIONS: dict[str, Callable[[SequenceConfig], Position]] = {
    "none": lambda c: Nothing(),
    "sinusoidal": lambda c: Sinusoidal(c.dim, base=c.base),
    "learned": lambda c: Learned(c.context, c.dim, unused=c.unused_places),
    "concatenated": lambda c: Concatenated(Sinusoidal(2 * max(1, c.dim // 8), base=c.base)),  # a quarter of the width
    "rotary": lambda c: Rotary(c.channels, base=c.base, turned=c.rope.channels, scaling=c.rope.made()),
}
BIASES: dict[str, Callable[[SequenceConfig], Bias | Callable[[], Bias] | None]] = {
    "none": lambda c: None,
    "relative": lambda c: lambda: Relative(c.channels),  # each block its own, as Shaw's has
    "alibi": lambda c: ALiBi(c.heads),
    "buckets": lambda c: Buckets(c.heads, both_directions=not c.causal),  # shared by all blocks, as T5's is
}


class Entrance(Position):
    """dropout(norm(x with its position)): what tokens pass on their way into the blocks."""

    def __init__(self, position: Position, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.of, self.norm, self.dropout = position, norm, Dropout(dropout)
        self.keeps, self.widens, self.turns = position.keeps, position.widens, position.turns

    def place(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        return self.dropout(self.norm(self.of.place(x, where, first)))

    def turn(self, x: Tensor, where: Tensor | None = None, first: int = 0) -> Tensor:
        return self.of.turn(x, where, first)


def make_stack(
    config: SequenceConfig, position: Position, *, across: int | None = None, memory_dim: int | None = None
) -> Stack:
    """The blocks that a config names. across: depth of the other stack of an encoder-decoder; memory_dim: width
    of what a decoder reads by cross-attention."""
    norm = NORMS[config.norm](config.dim)
    stack = Stack(
        config.depth,
        config.dim,
        config.heads,
        kv_heads=config.kv_heads,
        channels=config.head_dim,
        position=Entrance(position, norm if config.embedding_norm else nn.Identity(), config.dropout),
        bias=BIASES[config.bias](config),
        norm=config.norm,
        placement=config.placement,
        across=across,
        memory_dim=memory_dim,
        mlp=make_mlp_of(config),
        qk_norm=config.qk_norm,
        dropout=config.dropout,
        approximate=make_approximation(config),
        weights=WEIGHTS[config.weights],
    )
    _set_offsets(stack, config)
    if config.eps is not None:
        for part in stack.modules():
            if isinstance(part, LayerNorm | RMSNorm):
                part.eps = config.eps
    if config.zero_start:
        for name, parameter in stack.named_parameters():
            if ".mix." in name or ".down." in name:
                nn.init.zeros_(parameter)
    if config.lora:
        add_lora(stack, config.lora)
    return stack


def check_memory(config: Any) -> None:
    """A memory is 0 or more tokens, and needs places that are relative: a stream goes on without end."""
    if config.memory == 0:
        return
    if config.attention.kind not in ("full", "window"):
        raise RegardError(
            f"memory={config.memory} goes with attention=full or window, got attention={config.attention.kind}; change one"
        )
    with torch.device("meta"), OnlyShapes():
        bias = BIASES[config.bias](config)
        each = bias if bias is None or isinstance(bias, Bias) else bias()
        keeps = kept_by(POSITIONS[config.position](config), each)
    if not Shifts() <= keeps:
        raise RegardError(
            f"memory={config.memory} needs places that are relative, because a stream goes on without end, got "
            f"position={config.position} and bias={config.bias}; take position none with any bias, or rotary with "
            "bias none, alibi or buckets"
        )


ATTENTION_MAPS, MLP_MAPS = ("to_q", "to_k", "to_v", "mix"), ("gate", "up", "down")
OFFSETS: dict[str, tuple[str, ...]] = {
    "qkv": ATTENTION_MAPS[:3],
    "attention": ATTENTION_MAPS,
    "mlp": MLP_MAPS,
    "all": (*ATTENTION_MAPS, *MLP_MAPS),
}


def _set_offsets(stack: Stack, config: SequenceConfig) -> None:
    """Biases for those linear maps that the config names, and for no other."""
    for name, part in stack.named_modules():
        if not isinstance(part, nn.Linear):
            continue
        wanted = config.offset and part.bias is not None
        if config.offsets != "usual":
            wanted = name.rpartition(".")[2] in OFFSETS[config.offsets]
        if not wanted:
            part.register_parameter("bias", None)
        elif part.bias is None:
            part.bias = nn.Parameter(torch.zeros(part.out_features))


class SequenceModel(RegisteredModel):
    """Embedding and blocks: what decoders and encoders have in common.   ids b n -> b n d"""

    config: SequenceConfig
    head: nn.Module

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        position = POSITIONS[config.position](config)
        width = config.dim - position.widens  # a concatenated position brings the rest
        self.embed = TokenEmbedding(config.vocab, width, scale=config.embedding_scale)
        self.ngrams: NGrams | None = None
        if config.ngrams > 1:
            self.ngrams = NGrams(config.vocab, width, config.ngrams)
        self.stack = make_stack(config, position)
        self.mask: Mask | None = make_mask(config)

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        return sample_sequences(self.config, seed, tokens, rows)

    @property
    def symmetry(self) -> Group:
        """What may be done to the tokens so that the output moves along (or, for a classifier, stays)."""
        parts = [part.keeps for part in (self.mask, self.ngrams) if part is not None]
        return reduce(and_, parts, self.stack.keeps)

    @property
    def full_symmetry(self) -> Group:
        """The same if attention were full."""
        causal = Causal() if self.config.causal else None
        parts = [part.keeps for part in (causal, self.ngrams) if part is not None]
        return reduce(and_, parts, self.stack.exact_keeps)

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        promises = {"reordering": "holds", "causality": "holds" if self.config.causal else "not promised"}
        promises |= promises_of_experts(self.config)
        if hides_far_tokens(self.config):
            # what is lost by this alone is lost only from a length on
            for law, group in (("permutation", Permutations()), ("shift", Shifts())):
                if group <= self.full_symmetry and not group <= self.symmetry:
                    promises[law] = "not promised"
        return Roles(
            streams=(Stream("tokens", mask="real", places="where", sides=("right", "left")),), promises=promises
        )

    def embedded(
        self,
        tokens: Tensor,
        where: Tensor | None,
        real: Tensor | None,
        caches: Caches | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """What each token is, without its place.   b n -> b n d"""
        x = self.embed(tokens, real)
        if self.ngrams is None:
            return x
        return x + self.ngrams(tokens, where, real, caches, documents)


def count_places(real: Tensor | None) -> Tensor | None:
    """Places where only padding is known: each row counts its real tokens, as a cache does.   b n -> b n

    None where slots say the same (all padding is at the end), because plain sequences are faster.
    """
    if real is None:
        return None
    if not torch.compiler.is_compiling() and real.device.type == "cpu" and not (real[:, 1:] & ~real[:, :-1]).any():
        return None
    return (real.cumsum(1) - 1).clamp(min=0)


class HeadConfig(Protocol):
    """What a head reads of a config."""

    @property
    def vocab(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def tied(self) -> bool: ...
    @property
    def softcap(self) -> float | None: ...


class Head(Shared):
    """Logits of all tokens, by a matrix of its own or by that of the embedding, perhaps capped.
    b n d -> b n vocab

    With a concatenated position a tied head reads the channels that the embedding wrote, and not those of the
    position.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.softcap = config.softcap
        if config.tied:
            self.weight = None
        else:
            self.weight = nn.Parameter(torch.randn(config.vocab, config.dim) * 0.02)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        weight = embedding if self.weight is None else self.weight
        width = weight.shape[1]
        logits = self.map(x if x.shape[-1] == width else x[..., :width], weight)
        if self.softcap is None:
            return logits
        return self.softcap * torch.tanh(logits / self.softcap)

    def cross_entropy(self, x: Tensor, embedding: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        """Σ −log p(label), over all labels that are not IGNORE; without a cap, never with all logits in memory.
        x b n d, labels b n"""
        labels = labels.reshape(-1)
        if self.softcap is not None:
            logits = self(x, embedding).float().flatten(0, -2)
            return F.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum")
        weight = embedding if self.weight is None else self.weight
        x = x[..., : weight.shape[1]].flatten(0, -2)
        return linear_cross_entropy(x, weight, labels, smoothing)
