"""Configs that are checked and come back from JSON, options that each do something, and a count of what it all costs."""

from dataclasses import fields, replace
from typing import get_args, get_type_hints

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import kernels
from regard.attention.rope_scaling import KINDS
from regard.config import from_json, to_json
from regard.models.attentions import OPTIONS, WEIGHTS
from regard.models.cost import cost
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import HEADS, POOLS, Encoder, EncoderConfig
from regard.models.ngrams import ROWS, NGrams
from regard.models.sequence_model import BIASES, OFFSETS, POSITIONS, SequenceConfig
from regard.nn.block import PLACEMENTS
from regard.nn.mlp import MLPS
from regard.nn.moe import find_experts
from regard.nn.norm import NORMS
from tests.models.sequences import SMALL, VOCAB, awake, decoder, encoder, some_tokens

OTHER = {
    "vocab": 12,
    "context": 41,
    "dim": 32,
    "depth": 3,
    "heads": 4,
    "kv_heads": 1,
    "base": 100.0,
    "hidden": 24,
    "window": 3,
    "dropout": 0.5,
    "softcap": 2.0,
    "classes": 3,
    "position": "learned",
    "bias": "alibi",
    "norm": "layernorm",
    "placement": "post",
    "mlp": "gelu",
    "pool": "max",
    "ngrams": 3,
    "memory": 4,
    "attention": "performer",
    "weights": "sparsemax",
    "block": 2,
    "random_blocks": 0,
    "features": 8,
    "projected": 3,
    "buckets": 4,
    "rounds": 1,
    "redraw": 1,
    "attention_seed": 5,
    "head_dim": 12,
    "rotary_channels": 2,
    "rope_scaling": "linear",
    "rope_factor": 3.0,
    "rope_original": 5,
    "rope_low": 2.0,
    "rope_high": 50.0,
    "unused_places": 2,
    "eps": 0.1,
    "offsets": "qkv",
    "head": "transform",
    "token_types": 2,
    "lora": 2,
    "experts": 3,
    "chosen": 3,
    "expert": "swiglu",
    "gate": "all",
    "balance": 0.5,
}
LLAMA3 = {"rope_scaling": "llama3", "rope_factor": 4.0, "rope_original": 20}
# what an option needs to have an effect
WITH = {
    "context": {"position": "learned"},
    "unused_places": {"position": "learned"},
    "pool": {"classes": 4},
    "bag": {"classes": 4},
    "rope_scaling": {"rope_factor": 4.0},
    "rope_factor": {"rope_scaling": "linear"},
    "rope_original": LLAMA3,
    "rope_low": LLAMA3,
    "rope_high": LLAMA3,
    "block": {"attention": "bigbird", "random_blocks": 1},
    "random_blocks": {"attention": "bigbird", "block": 2},
    "features": {"attention": "performer"},
    "redraw": {"attention": "performer"},
    "projected": {"attention": "linformer"},
    "buckets": {"attention": "lsh", "block": 1},
    "rounds": {"attention": "lsh", "block": 1, "buckets": 4},
    "attention_seed": {"attention": "performer"},
    **{name: {"mlp": "experts"} for name in ("experts", "chosen", "expert", "gate", "balance")},
}


@pytest.mark.parametrize("cls", [Decoder, Encoder])
@pytest.mark.parametrize(
    "option", sorted({field.name for c in (DecoderConfig, EncoderConfig) for field in fields(c)})
)
def test_every_option_does_something(cls, option):
    config = cls.Config(**SMALL)
    if option not in {field.name for field in fields(config)}:
        return
    if option == "projected" and cls is Decoder:
        return
    config = replace(config, **WITH.get(option, {}))
    changed = replace(config, **{option: OTHER.get(option, not getattr(config, option))})
    one, two = (fingerprint(cls, c) for c in (config, changed))
    assert one[0] != two[0] or not torch.equal(one[1], two[1])


def fingerprint(cls, config):
    """Names and shapes of all parameters, and the output of a training step's forward."""
    torch.manual_seed(0)
    model = awake(cls(config))
    shapes = [(name, parameter.shape) for name, parameter in model.named_parameters()]
    zeros = [name for name, parameter in cls(config).named_parameters() if not parameter.any()]
    torch.manual_seed(0)
    model.train()
    balances = [layer.balance for _, layer in find_experts(model)]
    if not getattr(config, "memory", 0):
        return (shapes, zeros, balances), model(some_tokens())
    memories = model.memories()
    return (shapes, zeros), torch.cat([model(part, caches=memories) for part in some_tokens().split(7, 1)], 1)


def test_each_name_has_its_object():
    tables = {
        "position": POSITIONS,
        "bias": BIASES,
        "norm": NORMS,
        "placement": PLACEMENTS,
        "mlp": (*MLPS, "experts"),
        "pool": POOLS,
        "attention": OPTIONS,
        "weights": WEIGHTS,
        "head": HEADS,
        "offsets": ("usual", *OFFSETS),
        "rope_scaling": KINDS,
    }
    hints = get_type_hints(EncoderConfig)
    assert {name: set(get_args(hints[name])) for name in tables} == {
        name: set(table) for name, table in tables.items()
    }


@pytest.mark.parametrize(
    "config",
    [
        DecoderConfig(vocab=65),
        DecoderConfig(
            vocab=5,
            kv_heads=2,
            position="learned",
            bias="buckets",
            window=7,
            softcap=30,
            dropout=0.1,
            tied=True,
        ),
        EncoderConfig(vocab=9, classes=3, pool="class", base=500, hidden=12),
    ],
)
def test_a_config_comes_back_from_json(config):
    assert from_json(type(config), to_json(config)) == config
    assert config.causal == (type(config) is DecoderConfig)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (
            {"dim": 18, "heads": 4},
            "dim.*heads=4.*18.*20",
        ),
        ({"heads": 4, "kv_heads": 3}, "kv_heads.*heads=4.*3"),
        (
            {"dim": 12, "heads": 4},
            "position 'rotary'.*dim=12.*heads=4: channels.*even",
        ),
        (
            {"dim": 15, "heads": 3, "position": "sinusoidal"},
            "position 'sinusoidal'.*dim=15.*dim.*even",
        ),
        (
            {"position": "rotery"},
            "position.*'rotery'.*'rotary'",
        ),
        ({"mlp": "x"}, "mlp.*relu, leaky, gelu, gelu_tanh, relu2, swiglu, experts.*'x'$"),
        ({"experts": 4}, "experts=4.*mlp=experts.*mlp=relu2"),
        ({"mlp": "experts", "chosen": 9}, "chosen.*experts=8.*chosen=9"),
        ({"mlp": "experts", "experts": 0}, "experts.*0"),
        ({"mlp": "experts", "chosen": 1, "gate": "chosen"}, "gate=chosen.*chosen=1.*gate=all"),
        ({"mlp": "experts", "balance": -1.0}, "balance.*-1.0"),
        ({"mlp": "experts", "offsets": "all"}, "biases.*offsets=all"),
        ({"mlp": "experts", "expert": "swigl"}, "expert.*'swigl'.*'swiglu'"),
    ],
)
def test_a_wrong_config_is_told_what_is_wrong(wrong, words):
    with pytest.raises(ValueError, match=words):
        DecoderConfig(**SMALL | wrong)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"attention": "linformer"}, "linformer.*causal.*performer.*encoder"),
        ({"features": 8}, "features=8.*performer.*attention=full"),
        ({"attention": "lsh", "features": 8}, "features=8.*performer.*attention=lsh"),
        ({"attention": "performer", "window": 8}, "window=8.*full or window.*attention=performer"),
        ({"attention": "performer", "bias": "alibi"}, "performer.*bias=alibi.*full"),
        ({"attention": "lsh", "bias": "relative"}, "lsh.*bias=relative"),
        ({"attention": "lsh", "buckets": 3}, "buckets.*even.*3"),
        ({"attention": "lsh", "heads": 2, "kv_heads": 1}, "lsh.*kv_heads.*heads=2.*kv_heads=1"),
        ({"attention": "performer", "weights": "entmax"}, "weights=entmax.*attention=performer"),
        ({"attention": "performr"}, "attention.*'performr'.*'performer'"),
    ],
)
def test_an_attention_says_what_does_not_go_with_it(wrong, words):
    with pytest.raises(ValueError, match=words):
        DecoderConfig(**SMALL | wrong)


def test_words_of_other_errors():
    with pytest.raises(ValueError, match="tokens.*'b n'.*shape .5,."):
        decoder()(torch.zeros(5, dtype=torch.long))
    tokens = some_tokens()
    tokens[1, 2] = 99
    with pytest.raises(ValueError, match=f"ids.*0.*{VOCAB - 1}.*99.*row 1.*place 2"):
        decoder()(tokens)


def test_shapes():
    tokens = some_tokens()
    assert decoder()(tokens).shape == encoder()(tokens).shape == (*tokens.shape, VOCAB)
    for pool in POOLS:
        assert encoder(classes=5, pool=pool)(tokens).shape == (len(tokens), 5)


def test_the_state_holds_each_parameter_once_and_comes_back():
    model = decoder(tied=True, ngrams=3, embedding_norm=True, bias="relative", position="concatenated")
    state = model.state_dict()
    assert (
        len({tensor.data_ptr() for tensor in state.values()}) == len(state) == len(list(model.parameters()))
    )
    other = Decoder(model.config).double().eval()
    other.load_state_dict(state)
    torch.testing.assert_close(other(some_tokens()), model(some_tokens()))


def test_zero_start_makes_every_block_the_identity():
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(**SMALL, zero_start=True, position="none", offset=True)).double()
    x = model.embed(some_tokens())
    torch.testing.assert_close(model.stack(x, mask=model.mask), model.stack.norm(x))


def test_softcap_bounds_logits_and_leaves_small_ones():
    model = decoder(softcap=2.0)
    plain = decoder()
    torch.testing.assert_close(model(some_tokens()), 2 * torch.tanh(plain(some_tokens()) / 2))
    with torch.no_grad():
        model.head.weight.mul_(1000)
    assert 1.9 < model(some_tokens()).abs().max() <= 2


def test_offset_is_a_vector_in_each_linear_map():
    assert not any(name.endswith("bias") for name, _ in decoder().stack.named_parameters())
    assert sum(name.endswith("bias") for name, _ in decoder(offset=True).stack.named_parameters()) == 2 * 6


# ── runs of neighbours ──────────────────────────────────────────────────────────────────────────────────────


def test_every_run_has_its_own_row_if_they_fit():
    runs = NGrams(5, 4, 3)
    third, first, second = torch.cartesian_prod(torch.arange(6), torch.arange(6), torch.arange(5)).T
    pairs, triples = runs.rows(second, [first, third])
    assert sorted(pairs.unique().tolist()) == list(range(30))
    assert sorted(triples.tolist()) == list(range(180))
    assert [len(table) for table in runs.tables] == [30, 180]


@pytest.mark.parametrize("most", [2, 4])
def test_runs_share_rows_by_a_hash_that_spreads(most):
    runs = NGrams(5000, 1, most)
    size = max(ROWS, 4 * 5000)
    assert [len(table) for table in runs.tables] == [size] * (most - 1)
    ids, *before = torch.randint(5000, (most, 200_000), generator=torch.Generator().manual_seed(0))
    counts = torch.bincount(runs.rows(ids, before)[-1], minlength=size).double()
    assert counts.max() < 40 and (counts == 0).double().mean() < 0.001  # ten each on average
    near = runs.rows(torch.arange(4999), [torch.arange(1, 5000)] * (most - 1))[-1]
    assert len(near.unique()) > 0.8 * len(near)


def test_a_run_is_this_token_and_those_one_place_before_another():
    runs = awake(NGrams(VOCAB, 3, 4)).double()
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    plain = runs(tokens)
    x = VOCAB  # nothing
    before = [torch.tensor([each]) for each in ([x, 3, 1, 4, 1], [x, x, 3, 1, 4], [x, x, x, 3, 1])]
    by_hand = sum(table[row] for table, row in zip(runs.tables, runs.rows(tokens, before), strict=True))
    torch.testing.assert_close(plain, by_hand)
    torch.testing.assert_close(runs(tokens, torch.arange(5) + 7), plain)
    gone = runs(tokens, torch.tensor([0, 1, 5, 6, 7]))  # nothing is one place before the third
    torch.testing.assert_close(gone[:, 2:], runs(tokens[:, 2:]))
    torch.testing.assert_close(gone[:, :2], plain[:, :2])
    order = torch.tensor([4, 0, 3, 1, 2])
    torch.testing.assert_close(runs(tokens[:, order], torch.arange(5)[order]), plain[:, order])


# ── cost ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_cost_of_gpt_is_the_one_counted_by_hand():
    model = Decoder(
        DecoderConfig(
            vocab=65,
            context=256,
            dim=384,
            depth=6,
            heads=6,
            offset=True,
            norm="layernorm",
            mlp="gelu",
            position="learned",
            qk_norm=False,
            tied=True,
        )
    )
    matrices = 6 * 12 * 384**2
    vectors = 6 * ((4 + 4 + 1) * 384 + 4 * 384) + 2 * 384
    assert cost(model) == {
        "parameters": matrices + vectors + (65 + 256) * 384,
        "active": matrices + vectors + (65 + 256) * 384,
        "bytes": 4 * (matrices + vectors + (65 + 256) * 384),
        "forward_flops": 2 * matrices + 6 * 4 * 256 * 384 + 2 * 65 * 384,
        "training_flops": 3 * (2 * matrices + 6 * 4 * 256 * 384 + 2 * 65 * 384),
        "cache_bytes": 6 * 2 * 384 * 4,
    }


@pytest.mark.parametrize(
    "make, how",
    [
        (decoder, {"dim": 64, "heads": 4, "kv_heads": 2, "mlp": "swiglu"}),
        (decoder, {"position": "concatenated", "tied": True, "offset": True}),
        (decoder, {"bias": "relative", "ngrams": 3}),
        (
            decoder,
            {"mlp": "experts", "experts": 5, "hidden": 10},
        ),  # (a width that torch's counter can follow)
        (decoder, {"mlp": "experts", "chosen": 1, "expert": "swiglu", "hidden": 10}),
        (encoder, {"position": "learned"}),
        (encoder, {"classes": 7, "pool": "attention"}),
        (encoder, {"classes": 7, "pool": "mean"}),
    ],
)
def test_the_cost_agrees_with_torch(make, how):
    model, tokens = make(torch.float32, **how), some_tokens(2, 32)
    found = cost(model, 32)
    assert found["parameters"] == sum(p.numel() for p in model.parameters())
    with (
        kernels.only("reference"),
        FlopCounterMode(display=False) as forward,
    ):  # the counter does not know the fused ones
        out = model(tokens)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    count = forward.get_total_flops() / tokens.numel()
    assert found["forward_flops"] == pytest.approx(count, rel=0.02)
    assert found["training_flops"] == pytest.approx(
        count + backward.get_total_flops() / tokens.numel(), rel=0.02
    )


@pytest.mark.parametrize(
    "how",
    [
        {"attention": "performer", "features": 48},
        {"attention": "linformer", "projected": 8},
        {"attention": "lsh", "block": 4, "buckets": 2, "rounds": 2},
    ],
)
def test_the_cost_of_an_approximation_agrees_with_torch(how):
    model, tokens = encoder(torch.float32, dim=128, heads=2, **how), some_tokens(2, 32)
    with kernels.only("reference"), FlopCounterMode(display=False) as counter:
        model(tokens)
    count = counter.get_total_flops() / tokens.numel()
    assert cost(model, 32)["forward_flops"] == pytest.approx(count, rel=0.02)


def test_a_performer_keeps_nothing_of_a_token():
    assert cost(decoder(attention="performer"))["cache_bytes"] == 0 < cost(decoder())["cache_bytes"]


def test_a_window_costs_what_it_is_wide():
    wide, narrow = (cost(decoder(window=window), 32)["forward_flops"] for window in (None, 5))
    assert wide - narrow == 2 * 4 * 16 * (32 - 5)
    assert cost(encoder(window=5), 32)["forward_flops"] - cost(encoder(), 32)[
        "forward_flops"
    ] == 2 * 4 * 16 * (9 - 32)


def test_training_reaches_every_parameter():
    model = decoder(
        ngrams=3, embedding_norm=True, bias="relative", position="learned", offset=True, mlp="gelu"
    ).train()
    out = model(some_tokens())
    torch.nn.functional.cross_entropy(out.flatten(0, 1), some_tokens(seed=2).flatten()).backward()
    untouched = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert untouched == []


def test_sequence_config_is_what_both_share():
    encoders, both = ({field.name for field in fields(c)} for c in (EncoderConfig, SequenceConfig))
    assert encoders - both == {"classes", "pool", "bag", "head", "token_types"}
