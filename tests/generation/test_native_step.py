"""The native step against the decoder in PyTorch: every option, every way through the source, rows and threads."""

import ctypes
from dataclasses import fields

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.generation.native.compile import load_library
from regard.generation.native.describe import why_not
from regard.generation.native.library import Matrix
from regard.generation.native.model import limit_of, open_native
from regard.generation.native.pack import KINDS, arrange, pack_matrix
from regard.models.attentions import BigBirdAttention, LSHAttention, PerformerAttention
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.experts import ExpertsMLP
from regard.nn.quantise import GROUP, ZERO, Quantised, quantise
from regard.recipes.text.fast_weights import round_weights
from tests.generation.native_cases import CASES, OTHERS, REFUSED, RUNS_HERE, draw_ids, make_decoder, share_cache


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("REGARD_CACHE", str(share_cache(tmp_path_factory)))


def open_model(model, weights="float32", **how):
    return open_native(model.config, model.state_dict, weights, **{"threads": 1} | how)


def error(found, wanted):
    return float((found - wanted).abs().max() / wanted.abs().max())


@torch.no_grad()
def largest_error(model, native):
    """Prompts, single tokens, many rows at once, copies and forgotten tokens, each against the whole text at once."""
    ids = draw_ids(model, 2, 40)
    wanted = model(ids)
    rows = ids.tolist()
    slots = native.slots(3, 50)
    found = [slots.read([0, 1], [rows[0][:10], rows[1][:1]])]
    places = [(0, 9), (1, 0)]
    for i in range(10, 16):
        found.append(slots.read([1, 0], [[rows[1][i - 9]], [rows[0][i]]]))
        places += [(1, i - 9), (0, i)]
    slots.copy(0, 2, 13)
    slots.truncate(0, 11)
    found.append(slots.read([2, 1, 0], [rows[0][13:40], rows[1][7:30], rows[0][11:20]]))
    places += [(0, 39), (1, 29), (0, 19)]
    assert [slots.length(slot) for slot in range(3)] == [20, 30, 40]
    return error(torch.cat(found), torch.stack([wanted[row, place] for row, place in places]))


@pytest.mark.parametrize("path", RUNS_HERE)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_the_decoder(case, path):
    model = make_decoder(**CASES[case])
    native = open_model(model, path=path, threads=1 + (path != "plain"))
    assert native.limit == model.limit == limit_of(model.config)
    assert largest_error(model, native) < 1e-5


def test_every_option_is_compared_or_refused():
    for option in fields(DecoderConfig):
        compared = [case for case in CASES.values() if option.name in case]
        assert compared or option.name in OTHERS or option.name in REFUSED, option.name


@pytest.mark.parametrize(
    "options, word",
    [
        ({"attention": PerformerAttention()}, "performer"),
        ({"attention": BigBirdAttention(block=8)}, "bigbird"),
        ({"attention": LSHAttention()}, "lsh"),
        ({"weights": "entmax"}, "entmax"),
        ({"mlp": ExpertsMLP()}, "experts"),
        ({"bias": "relative", "position": "none"}, "relative"),
        ({"dim": 4096, "heads": 2}, "1024 channels"),
    ],
)
def test_what_it_has_not_is_said(options, word):
    config = DecoderConfig(**{"vocab": 8, **options})
    assert word in why_not(config)
    with pytest.raises(RegardError, match=word):
        open_native(config, dict, "float32")


def test_an_option_that_came_later_is_refused_unless_it_is_left_out():
    from dataclasses import make_dataclass

    Later = make_dataclass("Later", [("mirrors", int, 0)], bases=(DecoderConfig,), frozen=True, kw_only=True)
    assert why_not(Later(vocab=8)) is None
    assert "mirrors=4" in why_not(Later(vocab=8, mirrors=4))
    assert "LSTM" in why_not(type("LSTMConfig", (), {})())


# ── products


def emulate(matrix, x):
    """The product with activations rounded to int8, 32 at a time, as step.cpp says."""
    groups = torch.nn.functional.pad(x, (0, -x.shape[1] % GROUP)).unflatten(1, (-1, GROUP)).double()
    peak = groups.abs().amax(-1, keepdim=True)
    rounded = (groups / peak.clamp(min=1e-30) * 127).round() * peak / 127
    return rounded.flatten(1)[:, : x.shape[1]] @ matrix.double().mT


def odd_quantised(kind, rows, columns):
    """All whole numbers that a kind has, and scales of both signs."""
    draw = torch.Generator().manual_seed(3)
    wide = -(-columns // GROUP) * GROUP
    q = torch.randint(256 if kind == "int8" else 16, (rows, wide), generator=draw, dtype=torch.uint8)
    q[:, columns:] = ZERO[kind]
    scale = torch.randn(rows, wide // GROUP, generator=draw).half()
    scale[0, 0] = 3e-7  # denormal
    minimum = torch.randn(rows, wide // GROUP, generator=draw).half() if kind == "int4_min" else None
    return Quantised(kind, q, scale, columns, minimum)


@pytest.mark.parametrize("path", RUNS_HERE)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows, columns", [(1, 32), (17, 96), (48, 75)])
def test_a_product_is_what_it_is_defined_to_be(kind, path, rows, columns):
    library = load_library(path)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(3, columns, generator=draw)
    x[1] = 0
    x[2, 5] = 100.0
    if kind in ("float32", "bfloat16"):
        weight = torch.randn(rows, columns, generator=draw)
        data = pack_matrix(weight, kind)
        wanted = x.double() @ weight.to(getattr(torch, kind)).double().mT
    else:
        made = odd_quantised(kind, rows, columns)
        data = arrange(made)
        wanted = emulate(made.dequantise(), x)
    aligned = np.zeros(len(data) + 64, np.uint8)
    first = -aligned.ctypes.data % 64
    aligned[first : first + len(data)] = data.numpy()
    out = torch.full((3, rows), torch.nan)
    matrix = Matrix(aligned.ctypes.data + first, None, KINDS.index(kind), rows, columns, 0)
    library.multiply(ctypes.byref(matrix), 3, x.data_ptr(), out.data_ptr())
    assert error(out.double(), wanted) < 1e-5


@pytest.mark.parametrize("path", RUNS_HERE)
def test_bfloat16_multiplies_float32_with_rounded_weights(path):
    model = make_decoder(**CASES["llama"])
    rounded = make_decoder(**CASES["llama"])
    with torch.no_grad():
        for parameter in rounded.parameters():
            if parameter.dim() == 2:
                parameter.copy_(parameter.bfloat16().float())
    native = open_model(model, "bfloat16", path=path)
    assert largest_error(rounded, native) < 1e-5
    assert largest_error(model, native) > 1e-4


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("case", ["gpt2", "llama", "ngrams"])
def test_int8_activations_stay_near_the_same_weights_in_float32(case, weights):
    """With the same quantised weights, and alike on all ways: each activation is rounded by up to 1/254 of the largest
    of its group, about 0.6 % of a product, and these random models make more of it than trained ones."""
    rounded = make_decoder(**CASES[case])
    round_weights(rounded, weights)
    found = [largest_error(rounded, open_model(rounded, weights, path=path)) for path in RUNS_HERE]
    assert max(found) < 0.05
    assert min(found) > 1e-3  # else it multiplies in float32
    assert max(found) - min(found) < 1e-3


@torch.no_grad()
@pytest.mark.parametrize("weights", ["float32", "int4"])
def test_a_row_has_the_same_logits_in_a_batch_and_alone_to_the_bit(weights):
    """The kernels for 1, 2, 4 and 8 rows add in one order; so do threads, and tokens read at once or one by one."""
    model = make_decoder(**CASES["llama"])
    ids = draw_ids(model, 15, 12).tolist()
    native = open_model(model, weights, threads=2)
    many, alone = native.slots(15, 20), open_model(model, weights).slots(1, 20)
    together = many.read(range(15), ids)
    for row, logits in zip(ids, together, strict=True):
        alone.truncate(0, 0)
        torch.testing.assert_close(alone.read([0], [row])[0], logits, rtol=0, atol=0)
    alone.truncate(0, 0)
    for token in ids[0]:
        last = alone.read([0], [[token]])
    torch.testing.assert_close(last[0], together[0], rtol=0, atol=0)


@torch.no_grad()
def test_a_long_prompt_is_read_in_pieces():
    model = make_decoder(context=400)
    ids = draw_ids(model, 1, 390)
    native = open_model(model, threads=2)
    slots = native.slots(2, 400)
    found = slots.read([1, 0], [ids[0, :300].tolist(), ids[0].tolist()])
    wanted = model(ids)[0]
    assert error(found, wanted[[299, 389]]) < 1e-5


# ── slots and quantising


def test_slots_say_what_does_not_fit():
    slots = open_model(make_decoder()).slots(2, 8)
    with pytest.raises(RegardError, match="64"):
        slots.model.slots(1, 65)
    with pytest.raises(RegardError, match="9 tokens, but has room for 8"):
        slots.read([0], [[1] * 9])
    with pytest.raises(RegardError, match="given no token"):
        slots.read([0], [[]])
    with pytest.raises(RegardError, match="0 to 36"):
        slots.read([0], [[37]])
    with pytest.raises(RegardError, match="no slot 2; .* 0 to 1"):
        slots.read([2], [[1]])
    with pytest.raises(RegardError, match=r"got 1 for slots \[0, 1\]"):
        slots.read([0, 1], [[1]])
    with pytest.raises(RegardError, match="once"):
        slots.read([0, 0], [[1], [2]])
    with pytest.raises(RegardError, match="holds 0 tokens, not 1"):
        slots.truncate(0, 1)
    with pytest.raises(RegardError, match="holds 0 tokens, not 3"):
        slots.copy(0, 1, 3)
    assert slots.length(0) == slots.length(1) == 0


@pytest.mark.parametrize("kind, most", [("int8", 0.5 / 127), ("int4", 0.5 / 6.4)])
def test_quantising_is_near_and_done_twice_the_same(kind, most):
    weight = torch.randn(7, 75, generator=torch.Generator().manual_seed(0))
    weight[2] = 0
    made = quantise(weight, kind)
    again = quantise(made.dequantise(), kind)
    assert made.shape == (7, 75) and bool((made.dequantise()[2] == 0).all())
    near = (made.dequantise() - weight).abs() / weight.abs().amax(-1, keepdim=True).clamp(min=1e-9)
    assert near.max() < 2 * most
    torch.testing.assert_close(again.dequantise(), made.dequantise(), rtol=2e-3, atol=1e-6)
    with pytest.raises(RegardError, match="float16"):
        quantise(weight * 1e8, kind)


def test_int4_clips_where_that_brings_others_nearer():
    weight = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    groups = weight.unflatten(1, (-1, GROUP))
    scale = groups.abs().amax(-1, keepdim=True) / 7
    plain = ((groups / scale).round() * scale).flatten(1)
    assert (quantise(weight, "int4").dequantise() - weight).norm() < 0.9 * (plain - weight).norm()


def test_decoders_state_is_all_packed():
    """Nothing of a decoder is left out in silence."""
    model = make_decoder(**CASES["neox"], ngrams=2, embedding_norm=True)
    packed = open_model(model).packed
    assert set(packed.table) == set(model.state_dict())
    assert isinstance(model, Decoder)
