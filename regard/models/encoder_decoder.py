"""The transformer: an encoder that attends in both directions, and a causal decoder that attends to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

from torch import Tensor

from regard.attention.cache import Cache
from regard.attention.masks import Causal
from regard.attention.positions import Learned
from regard.config import Amount, Count, Depth, config
from regard.errors import RegardError
from regard.models.attentions import check_heads, check_position
from regard.models.caches import Caches
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.models.experts import MLPConfig, PlainMLP, promises_of_experts
from regard.models.registered_model import Options
from regard.models.seq2seq import Memory, Seq2Seq, Seq2SeqConfig
from regard.models.sequence_model import POSITIONS, SequenceConfig, count_places, make_stack
from regard.shapes import expect
from regard.symmetry.groups import Group
from regard.symmetry.roles import Roles


@config
class EncoderDecoderConfig(Seq2SeqConfig):
    """A transformer encoder-decoder. The options are those of encoders and decoders."""

    depth: Depth = 4  # blocks of the encoder
    decoder_depth: Depth | None = None  # blocks of the decoder; None: as many as the encoder has
    heads: Count = 4  # attention heads of each block
    # key and value heads, shared by groups of query heads; None: same as heads
    kv_heads: Count | None = None
    # position encoding
    position: Literal["none", "sinusoidal", "learned", "concatenated", "rotary"] = "rotary"
    bias: Literal["none", "relative", "alibi", "buckets"] = "none"  # added to the scores of self-attention
    base: Amount = 10_000.0  # base of the frequencies of rotary, sinusoidal and concatenated positions
    norm: Literal["layernorm", "rmsnorm"] = "rmsnorm"  # type of the norms
    placement: Literal["pre", "post", "deepnorm"] = "pre"  # where the norms are in a block
    # the MLP of each block: plain, or experts, of which each token passes a few (see docs/experts.md)
    mlp: MLPConfig = PlainMLP()
    qk_norm: bool = True  # normalise queries and keys, so that scores stay bounded
    offset: bool = False  # linear maps of the blocks have a bias (never in swiglu)
    embedding_norm: bool = False  # a norm after embedding and position
    # multiply embeddings by √dim, so that an added position does not dominate them
    embedding_scale: bool = False
    zero_start: bool = False  # blocks start as the identity: faster training

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self)
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise RegardError(f"must divide heads={self.heads}, got {self.kv_heads}", option="kv_heads")
        check_position(self.side(EncoderConfig, self.vocab, self.depth), POSITIONS)

    def side(self, cls: type[SequenceConfig], vocab: int, depth: int) -> Any:
        """The config of the encoder or of the decoder alone."""
        names = (
            *("context", "dim", "heads", "kv_heads", "position", "bias", "base", "norm", "placement", "mlp"),
            *("qk_norm", "offset", "dropout", "embedding_norm", "embedding_scale", "zero_start"),
        )
        return cls(vocab=vocab, depth=depth, **{name: getattr(self, name) for name in names})


class EncoderDecoder(Seq2Seq):
    """The transformer encoder-decoder.   source b m, target b n -> b n vocab

    Blocks as in Encoder and Decoder; those of the decoder attend to the encoder's output, too. It keeps shifts
    of all target places unless its position knows where a sequence begins; `symmetry` says so.
    """

    Config = EncoderDecoderConfig
    TINY: ClassVar[Options] = {**Seq2Seq.TINY, "heads": 2}
    config: EncoderDecoderConfig
    shares_memory = True

    def __init__(self, config: EncoderDecoderConfig) -> None:
        depth, other = config.depth, config.depth_of_decoder
        encoder = config.side(EncoderConfig, config.source_size, depth)
        decoder = config.side(DecoderConfig, config.vocab, other)
        positions = [POSITIONS[config.position](encoder), POSITIONS[config.position](decoder)]
        # a concatenated position brings the rest of the width
        super().__init__(config, config.dim - positions[0].widens, scale=config.embedding_scale)
        self.mask = Causal()
        self.encoder = make_stack(encoder, positions[0], across=other)
        self.decoder = make_stack(decoder, positions[1], across=depth, memory_dim=config.dim)
        self.longest = config.context if isinstance(positions[1], Learned) else None

    def encode(self, source: Tensor, real: Tensor | None = None, *, where: Tensor | None = None) -> Memory:
        expect(source, "b m", name="source")
        if where is None:
            where = count_places(real)
        states = self.encoder(self.source_embed(source, real), where=where, real=real)
        return Memory(states, real)

    def features(
        self,
        target: Tensor,
        memory: Memory,
        caches: Any = None,
        *,
        real: Tensor | None = None,
        where: Tensor | None = None,
    ) -> Tensor:
        expect(target, "b n", name="target", b=memory.rows_for(target))
        x = self.embed(target, real)
        how: dict[str, Any] = {"mask": self.mask, "real": real, "memory_real": memory.real}
        if caches is None:
            if where is None:
                where = count_places(real)
            return self.decoder(x, memory.states, where=where, **how)
        if not isinstance(caches, Caches):
            raise RegardError(f"caches must be what model.caches() gives, got {type(caches).__name__}")
        return self.decoder(x, self._projected(memory), where=where, caches=caches, **how)

    def _projected(self, memory: Memory) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of the memory in each block, computed at the first step."""
        if "k0" not in memory.more:
            for i, block in enumerate(self.decoder.blocks):
                k, v = block.project(memory.states, memory.real)  # type: ignore[operator]
                memory.more |= {f"k{i}": k, f"v{i}": v}
        return [(memory.more[f"k{i}"], memory.more[f"v{i}"]) for i in range(len(self.decoder.blocks))]

    def caches(self, length: int | None = None) -> Caches:
        return Caches(Cache(length) for _ in self.decoder.blocks)

    @property
    def limit(self) -> int | None:
        return self.longest

    @property
    def keeps(self) -> Group:
        return self.mask.keeps & self.decoder.keeps

    @property
    def roles(self) -> Roles:
        found = super().roles
        return replace(found, promises={**found.promises, **promises_of_experts(self.config)})
