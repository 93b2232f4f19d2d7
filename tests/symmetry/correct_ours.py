"""Correct models of our own: what is promised is taken from the models themselves, and guessed from the names of inputs."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.attention.biases import ALiBi
from regard.attention.masks import Causal
from regard.attention.positions import Rotary
from regard.models.attentions import WindowAttention
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.nn.attention import Attention
from regard.nn.block import Stack
from regard.nn.memory import Composite, Fading, Forgetting, Gated, Softmax
from regard.nn.pool import AttentionPool, MaxPool, MeanPool, SumPool
from regard.symmetry.groups import EVERYTHING, Permutations, Shifts
from regard.symmetry.roles import Inputs, Roles, Stream
from tests.symmetry.correct import ROW, TOKENS, Made, Table, adder, ids, vectors

LIBRARY = "regard"
TABLE: Table = {}
add = adder(TABLE)
VOCAB = 23
SMALL: dict[str, Any] = {"vocab": VOCAB, "context": 128, "dim": 16, "depth": 2, "heads": 2}
STREAM = Stream("tokens", mask="real", places="where", sides=("right", "left"))


def step(model: Decoder, new: Inputs, caches: Any) -> tuple[Tensor, Any]:
    """New tokens go on from those in the caches."""
    caches = model.caches() if caches is None else caches
    return model(**new, caches=caches), caches


DECODES = f"{TOKENS} causality cache padding reordering"


@add(f"{DECODES} shift", name="decoder, rotary", kv_heads=1)
@add(f"{DECODES} shift", name="decoder, ALiBi", position="none", bias="alibi")
@add(f"{DECODES} shift", name="decoder, buckets", seldom=True, position="none", bias="buckets", placement="post")
@add(f"{DECODES} shift", name="decoder, window and runs", attention=WindowAttention(width=4), ngrams=3)
@add(f"{DECODES} shift", name="decoder, no position", seldom=True, position="none")
@add(DECODES, name="decoder, learned", position="learned", tied=True)
@add(DECODES, name="decoder, concatenated", seldom=True, position="concatenated", placement="deepnorm", dropout=0.2)
@add(f"{DECODES} shift", name="decoder, blocks that begin at zero", seldom=True, zero_start=True, softcap=5.0)
def decoder(**options: Any) -> Made:
    model = Decoder(DecoderConfig(**SMALL | options))
    roles = Roles(streams=(STREAM,), step=step, promises={"causality": "holds"})
    return model, {"tokens": ids(VOCAB)}, {"symmetry": model.symmetry, "roles": roles}


ENCODES = f"{TOKENS} padding reordering"


@add(f"{ENCODES} shift", name="encoder, buckets", seldom=True, bias="buckets")
@add(f"{ENCODES} permutation shift", name="encoder of a set")
@add(ENCODES, name="encoder, sinusoidal", seldom=True, position="sinusoidal", embedding_norm=True)
@add(f"{ENCODES} permutation shift", name="classifier of a set", classes=3)
@add(f"{ENCODES} permutation shift", name="classifier, largest of a set", seldom=True, classes=3, pool="max")
@add(f"{ENCODES} permutation shift", name="classifier, attention pool", seldom=True, classes=3, pool="attention")
@add(f"{ENCODES} shift", name="classifier, class token", classes=3, pool="class", bias="alibi")
def encoder(position: str = "none", **options: Any) -> Made:
    """Nothing is said: names of the inputs and `model.symmetry` must be enough."""
    return Encoder(EncoderConfig(position=position, **SMALL | options)), {"tokens": ids(VOCAB)}, {}


@add(f"{TOKENS} padding reordering shift")
def stack_of_blocks() -> Made:
    model = Stack(2, 16, 4, position=Rotary(4), kv_heads=2, qk_norm=True)
    return model, vectors(), {"symmetry": Shifts()}


class CausalStack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = Stack(2, 16, 4, bias=ALiBi(4), placement="post")

    def forward(self, x: Tensor, *, where: Tensor | None = None, real: Tensor | None = None) -> Tensor:
        return self.stack(x, mask=Causal(), where=where, real=real)


@add(f"{TOKENS} padding reordering causality shift")
def causal_stack() -> Made:
    stream = Stream("x", mask="real", places="where")
    return (
        CausalStack(),
        vectors(),
        {"roles": Roles(streams=(stream,), promises={"causality": "holds"}), "symmetry": Shifts()},
    )


@add(f"{TOKENS} padding permutation reordering")
def attention() -> Made:
    return Attention(16, 4, kv_heads=2), vectors(), {"symmetry": EVERYTHING}


@add(f"{TOKENS} padding permutation", name="sum pool", cls=SumPool)
@add(f"{TOKENS} padding permutation", name="mean pool", cls=MeanPool)
@add(f"{ROW} padding permutation", name="max pool", cls=MaxPool, promises={"reach": "not promised"})
@add(f"{TOKENS} padding permutation", name="attention pool", cls=lambda: AttentionPool(16, 4, seeds=2))
@add(f"{TOKENS} padding permutation", name="composite memory", cls=lambda: Composite(16, 8))
@add(f"{TOKENS} padding permutation", name="gated memory", cls=lambda: Gated(16, 8))
@add(f"{TOKENS} padding permutation", name="softmax memory", cls=lambda: Softmax(16, 8))
def pool(cls: Any, promises: Any = None) -> Made:
    stream = Stream("x", mask="real", sides=("right", "left"))
    return (cls(), vectors(), {"roles": Roles(streams=(stream,), promises=promises or {}), "symmetry": Permutations()})


@add(f"{TOKENS} padding", name="fading memory", cls=lambda: Fading(16, 8, learned=True))
@add(f"{TOKENS} padding", name="forgetting memory", cls=lambda: Forgetting(16, 8))
def memory(cls: Any) -> Made:
    stream = Stream("x", mask="real", sides=("right", "left"))
    return cls(), vectors(), {"roles": Roles(streams=(stream,), promises={"permutation": "broken"})}
