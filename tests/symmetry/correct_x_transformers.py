"""Correct models of x-transformers: encoders and decoders with several positions, with and without its flash path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.symmetry.groups import Permutations, Shifts
from regard.symmetry.roles import Inputs, Roles, Stream
from tests.symmetry.correct import ROW, TOKENS, Made, Table, adder, ids

LIBRARY = "x-transformers"
TABLE: Table = {}
add = adder(TABLE)
VOCAB = 23
SIZES: dict[str, Any] = {"dim": 32, "depth": 2, "heads": 4, "attn_dim_head": 8, "rotary_emb_dim": 4}


def wrapped(layers: str, *, pooled: dict[str, Any] | None = None, absolute: bool = False, **options: Any) -> Any:
    """Tokens to logits, with an Encoder or a Decoder inside."""
    import loguru
    import x_transformers

    # it says aloud that heads as small as these should not be trained
    loguru.logger.disable("x_transformers")
    inside = getattr(x_transformers, layers)(**SIZES | options)
    more = pooled or {}
    return x_transformers.TransformerWrapper(
        num_tokens=VOCAB, max_seq_len=128, use_abs_pos_emb=absolute, attn_layers=inside, **more
    )


def step(model: Any, new: Inputs, state: tuple[Tensor, Any] | None) -> tuple[Tensor, Any]:
    """It wants all tokens again, and computes as many of the last ones as it is told are new."""
    tokens = new["x"]
    if state is None:
        out, cache = model(tokens, return_intermediates=True)
    else:
        count = tokens.shape[1]
        tokens = torch.cat([state[0], tokens], 1)
        out, cache = model(tokens, cache=state[1], cache_age=count, return_intermediates=True)
    return out, (tokens, cache)


DECODES = f"{TOKENS} causality padding cache"


@add(DECODES, name="decoder, learned places", seldom=True, absolute=True)
@add(DECODES, name="decoder, rotary", seldom=True, rotary_pos_emb=True)
@add(DECODES, name="decoder, rotary, flash", rotary_pos_emb=True, attn_flash=True, use_rmsnorm=True)
@add(DECODES, name="decoder, ALiBi", alibi_pos_bias=True, attn_kv_heads=2)
@add(DECODES, name="decoder, ALiBi, flash", seldom=True, alibi_pos_bias=True, attn_flash=True)
@add(DECODES, name="decoder, T5 bias", seldom=True, rel_pos_bias=True, ff_glu=True)
def decoder(absolute: bool = False, **options: Any) -> Made:
    model = wrapped("Decoder", absolute=absolute, **options)
    stream = Stream("x", mask="mask", sides=("right",) if absolute else ("right", "left"))
    return (model, {"x": ids(VOCAB)}, {"roles": Roles(streams=(stream,), step=step, promises={"causality": "holds"})})


@add(f"{TOKENS} padding", name="encoder, learned places", seldom=True, absolute=True)
@add(f"{TOKENS} padding permutation", name="encoder of a set", keeps=Permutations())
@add(
    f"{TOKENS} padding permutation", name="encoder of a set, flash", seldom=True, keeps=Permutations(), attn_flash=True
)
@add(f"{TOKENS} padding reordering shift", name="encoder, rotary", keeps=Shifts(), places="pos", rotary_pos_emb=True)
@add(f"{TOKENS} padding", name="encoder, T5 bias", seldom=True, rel_pos_bias=True)
def encoder(absolute: bool = False, keeps: Any = None, places: str | None = None, **options: Any) -> Made:
    model = wrapped("Encoder", absolute=absolute, **options)
    promises = {"reordering": "holds"} if places else {}
    roles = Roles(streams=(Stream("x", mask="mask", places=places),), promises=promises)
    return model, {"x": ids(VOCAB)}, {"roles": roles, "symmetry": keeps}


@add(f"{TOKENS} padding permutation")
def mean_of_a_set() -> Made:
    model = wrapped("Encoder", pooled={"average_pool_embed": True, "logits_dim": 5})
    return (model, {"x": ids(VOCAB)}, {"roles": Roles(streams=(Stream("x", mask="mask"),)), "symmetry": Permutations()})


@add(ROW)
def vision_transformer() -> Made:
    from x_transformers import Encoder, ViTransformerWrapper

    model = ViTransformerWrapper(image_size=16, patch_size=4, num_classes=5, attn_layers=Encoder(**SIZES))
    return model, {"img": torch.randn(3, 3, 16, 16)}, {}
