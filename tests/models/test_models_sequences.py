"""Configs that are checked and come back from JSON, options that each do something, and a count of what it all costs."""

from dataclasses import fields
from typing import get_args

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import kernels
from regard.attention.rope_scaling import KINDS
from regard.config import from_json, options_of, override, to_json, union_members
from regard.models.attentions import WEIGHTS, LinformerAttention, LSHAttention, PerformerAttention, WindowAttention
from regard.models.cost import cost
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import HEADS, POOLS, Encoder, EncoderConfig
from regard.models.experts import ExpertsMLP, PlainMLP
from regard.models.ngrams import ROWS, NGrams
from regard.models.sequence_model import BIASES, OFFSETS, POSITIONS, SequenceConfig
from regard.nn.block import PLACEMENTS
from regard.nn.mlp import MLPS
from regard.nn.moe import find_experts
from regard.nn.norm import NORMS
from tests.models.sequences import SMALL, VOCAB, awake, decoder, encoder, some_tokens, within

OTHER = {
    "vocab": 12,
    "context": 41,
    "dim": 32,
    "depth": 3,
    "heads": 4,
    "kv_heads": 1,
    "base": 100.0,
    "mlp": "experts",
    "mlp.activation": "swiglu",
    "mlp.hidden": 24,
    "mlp.count": 3,
    "mlp.chosen": 3,
    "mlp.gate": "all",
    "mlp.balance": 0.5,
    "dropout": 0.5,
    "softcap": 2.0,
    "classes": 3,
    "position": "learned",
    "bias": "alibi",
    "norm": "layernorm",
    "placement": "post",
    "pool": "max",
    "ngrams": 3,
    "memory": 4,
    "attention": "performer",
    "attention.width": 3,
    "attention.block": 2,
    "attention.random_blocks": 0,
    "attention.features": 8,
    "attention.projected": 3,
    "attention.buckets": 4,
    "attention.rounds": 1,
    "attention.redraw": 1,
    "attention.seed": 5,
    "weights": "sparsemax",
    "head_dim": 12,
    "rope.channels": 2,
    "rope.scaling": "linear",
    "rope.factor": 3.0,
    "rope.original": 5,
    "rope.low": 2.0,
    "rope.high": 50.0,
    "unused_places": 2,
    "eps": 0.1,
    "offsets": "qkv",
    "head": "transform",
    "token_types": 2,
    "lora": 2,
}
LLAMA3 = {"rope.scaling": "llama3", "rope.factor": 4.0, "rope.original": 20}
# what an option needs to have an effect
WITH = {
    "context": {"position": "learned"},
    "unused_places": {"position": "learned"},
    "pool": {"classes": 4},
    "bag": {"classes": 4},
    "rope.scaling": {"rope.factor": 4.0},
    "rope.factor": {"rope.scaling": "linear"},
    "rope.original": LLAMA3,
    "rope.low": LLAMA3,
    "rope.high": LLAMA3,
    "attention.width": {"attention": "window"},
    "attention.block": {"attention": "bigbird", "attention.random_blocks": 1},
    "attention.random_blocks": {"attention": "bigbird", "attention.block": 2},
    "attention.features": {"attention": "performer"},
    "attention.redraw": {"attention": "performer"},
    "attention.projected": {"attention": "linformer"},
    "attention.buckets": {"attention": "lsh", "attention.block": 1},
    "attention.rounds": {"attention": "lsh", "attention.block": 1, "attention.buckets": 4},
    "attention.seed": {"attention": "performer"},
    **{f"mlp.{name}": {"mlp": "experts"} for name in ("count", "chosen", "gate", "balance")},
}


@pytest.mark.parametrize("cls", [Decoder, Encoder])
@pytest.mark.parametrize("option", sorted(options_of(DecoderConfig) | options_of(EncoderConfig)))
def test_every_option_does_something(cls, option):
    if option not in options_of(cls.Config) or (option == "attention.projected" and cls is Decoder):
        return
    config = override(cls.Config(**SMALL), WITH.get(option, {}))
    value = OTHER[option] if option in OTHER else not getattr(config, option)
    one, two = (fingerprint(cls, c) for c in (config, override(config, {option: value})))
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
        "mlp.activation": MLPS,
        "pool": POOLS,
        "weights": WEIGHTS,
        "head": HEADS,
        "offsets": ("usual", *OFFSETS),
        "rope.scaling": KINDS,
    }
    hints = options_of(EncoderConfig)
    found = {name: {choice for each in union_members(hints[name]) for choice in get_args(each)} for name in tables}
    assert found == {name: set(table) for name, table in tables.items()}


@pytest.mark.parametrize(
    "config",
    [
        DecoderConfig(vocab=65),
        DecoderConfig(
            vocab=5,
            kv_heads=2,
            position="learned",
            bias="buckets",
            attention=WindowAttention(width=7),
            softcap=30,
            dropout=0.1,
            tied=True,
        ),
        EncoderConfig(vocab=9, classes=3, pool="class", base=500, mlp=PlainMLP(hidden=12)),
    ],
)
def test_a_config_comes_back_from_json(config):
    assert from_json(type(config), to_json(config)) == config
    assert config.causal == (type(config) is DecoderConfig)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"dim": 18, "heads": 4}, "dim.*heads=4.*18.*20"),
        ({"heads": 4, "kv_heads": 3}, "kv_heads.*heads=4.*3"),
        ({"dim": 12, "heads": 4}, "position 'rotary'.*dim=12.*heads=4: channels.*even"),
        ({"dim": 15, "heads": 3, "position": "sinusoidal"}, "position 'sinusoidal'.*dim=15.*dim.*even"),
        ({"position": "rotery"}, "position.*'rotery'.*'rotary'"),
        ({"mlp": ExpertsMLP(), "offsets": "all"}, "offsets.*all.*biases"),
    ],
)
def test_a_wrong_config_is_told_what_is_wrong(wrong, words):
    with pytest.raises(ValueError, match=words):
        DecoderConfig(**SMALL | wrong)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"attention": LinformerAttention()}, "linformer.*causal.*performer.*encoder"),
        ({"attention": PerformerAttention(), "bias": "alibi"}, "bias.*alibi.*attention=performer.*full"),
        ({"attention": LSHAttention(), "bias": "relative"}, "bias.*relative.*attention=lsh"),
        ({"attention": LSHAttention(), "heads": 2, "kv_heads": 1}, "kv_heads.*heads=2.*lsh.*1"),
        ({"attention": PerformerAttention(), "weights": "entmax"}, "weights.*entmax.*attention=performer"),
    ],
)
def test_an_attention_says_what_does_not_go_with_it(wrong, words):
    with pytest.raises(ValueError, match=words):
        DecoderConfig(**SMALL | wrong)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"mlp": "exprts"}, "mlp.kind.*plain, experts.*'exprts'.*'experts'"),
        ({"mlp.activation": "swigl"}, "mlp.activation.*'swigl'.*'swiglu'"),
        ({"mlp.count": 4}, "mlp.count.*mlp=experts.*mlp=plain"),
        ({"mlp": "experts", "mlp.chosen": 9}, "mlp.chosen.*8.*9"),
        ({"mlp": "experts", "mlp.chosen": 1, "mlp.gate": "chosen"}, "mlp.gate.*all"),
        ({"mlp": "experts", "mlp.balance": -1.0}, "mlp.balance.*-1.0"),
        ({"attention": "performr"}, "attention.kind.*'performr'.*'performer'"),
        ({"attention.features": 8}, "attention.features.*attention=performer.*attention=full"),
        ({"attention": "lsh", "attention.buckets": 3}, "attention.buckets.*even.*3"),
        ({"rope.scaling": "yarn", "rope.low": 5.0}, "rope.*low.*high"),
    ],
)
def test_a_wrong_option_of_a_part_is_told_what_is_wrong(wrong, words):
    with pytest.raises(ValueError, match=words):
        override(DecoderConfig(**SMALL), wrong)


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
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state) == len(list(model.parameters()))
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
            mlp=PlainMLP(activation="gelu"),
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
        (decoder, {"dim": 64, "heads": 4, "kv_heads": 2, "mlp": PlainMLP(activation="swiglu")}),
        (decoder, {"position": "concatenated", "tied": True, "offset": True}),
        (decoder, {"bias": "relative", "ngrams": 3}),
        (decoder, {"mlp": ExpertsMLP(count=5, hidden=10)}),  # (a width that torch's counter can follow)
        (decoder, {"mlp": ExpertsMLP(chosen=1, activation="swiglu", hidden=10)}),
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
    assert found["training_flops"] == pytest.approx(count + backward.get_total_flops() / tokens.numel(), rel=0.02)


@pytest.mark.parametrize(
    "how",
    [
        {"attention": PerformerAttention(features=48)},
        {"attention": LinformerAttention(projected=8)},
        {"attention": LSHAttention(block=4, buckets=2, rounds=2)},
    ],
)
def test_the_cost_of_an_approximation_agrees_with_torch(how):
    model, tokens = encoder(torch.float32, dim=128, heads=2, **how), some_tokens(2, 32)
    with kernels.only("reference"), FlopCounterMode(display=False) as counter:
        model(tokens)
    count = counter.get_total_flops() / tokens.numel()
    assert cost(model, 32)["forward_flops"] == pytest.approx(count, rel=0.02)


def test_a_performer_keeps_nothing_of_a_token():
    assert cost(decoder(attention=PerformerAttention()))["cache_bytes"] == 0 < cost(decoder())["cache_bytes"]


def test_a_window_costs_what_it_is_wide():
    wide, narrow = (cost(decoder(attention=within(window)), 32)["forward_flops"] for window in (None, 5))
    assert wide - narrow == 2 * 4 * 16 * (32 - 5)
    assert cost(encoder(attention=WindowAttention(width=5)), 32)["forward_flops"] - cost(encoder(), 32)[
        "forward_flops"
    ] == 2 * 4 * 16 * (9 - 32)


def test_training_reaches_every_parameter():
    model = decoder(
        ngrams=3, embedding_norm=True, bias="relative", position="learned", offset=True, mlp=PlainMLP(activation="gelu")
    ).train()
    out = model(some_tokens())
    torch.nn.functional.cross_entropy(out.flatten(0, 1), some_tokens(seed=2).flatten()).backward()
    untouched = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert untouched == []


def test_sequence_config_is_what_both_share():
    encoders, both = ({field.name for field in fields(c)} for c in (EncoderConfig, SequenceConfig))
    assert encoders - both == {"classes", "pool", "bag", "head", "token_types"}
