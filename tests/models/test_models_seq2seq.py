"""Encoder-decoders: equal to torch.nn's, to loops of Luong's and Bahdanau's attention, and the same step by step."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.config import from_json, options_of, override, to_json
from regard.errors import RegardError
from regard.look.record import record
from regard.models.conv import ConvSeq2Seq, ConvSeq2SeqConfig
from regard.models.cost import cost_of_pair, count_operations
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.experts import PlainMLP
from regard.models.recurrent import GRUSeq2Seq, GRUSeq2SeqConfig, LSTMSeq2Seq, LSTMSeq2SeqConfig
from regard.nn.block import deepnorm_scales
from regard.nn.moe import find_experts

V, D = 11, 12
SMALL = {"vocab": V, "context": 30, "dim": D, "depth": 1}
SOURCE = torch.randint(V, (3, 6), generator=torch.Generator().manual_seed(0))
TARGET = torch.randint(V, (3, 5), generator=torch.Generator().manual_seed(1))
SOURCE_REAL = torch.arange(6) < torch.tensor([[6], [3], [1]])
TARGET_REAL = torch.arange(5) < torch.tensor([[5], [2], [4]])
ATTENTIVE = [
    {"score": "dot"},
    {"score": "general"},
    {"score": "additive"},
    {"score": "dot", "feed": True},
    {"score": "general", "feed": True, "decoder_depth": 2},
]


def made(cls, dtype=torch.float64, **options):
    if cls is EncoderDecoder:
        options = {"heads": 2} | options
    torch.manual_seed(0)
    return cls(cls.Config(**SMALL | options)).to(dtype).eval()


def everything():
    for cls in (LSTMSeq2Seq, GRUSeq2Seq):
        for how in [{"score": "none"}, *ATTENTIVE]:
            yield cls, how
    for position in ("none", "sinusoidal", "learned"):
        yield ConvSeq2Seq, {"position": position}
    yield EncoderDecoder, {"heads": 2}
    yield (EncoderDecoder, {"heads": 2, "position": "learned", "bias": "alibi", "placement": "deepnorm", "depth": 2})
    yield EncoderDecoder, {"heads": 2, "position": "concatenated", "bias": "buckets", "decoder_depth": 2}


EVERYTHING = [
    pytest.param(cls, how, id=f"{cls.__name__} {' '.join(map(str, how.values()))}") for cls, how in everything()
]


# ── the protocol


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("cls, how", EVERYTHING)
def test_loss_without_all_logits(cls, how, softcap):
    """With labels, the loss and its gradients are those of the logits."""
    model = made(cls, **how, softcap=softcap, tied=softcap is None)
    labels = torch.where(TARGET_REAL, TARGET.flip(1), -100)
    loss = model(SOURCE, TARGET, SOURCE_REAL, TARGET_REAL, labels=labels, smoothing=0.1)
    logits = model(SOURCE, TARGET, SOURCE_REAL, TARGET_REAL)
    wanted = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss, wanted, check_dtype=False, rtol=1e-6, atol=1e-6)
    found = torch.autograd.grad(loss, model.parameters(), allow_unused=True)
    true = torch.autograd.grad(wanted, model.parameters(), allow_unused=True)
    torch.testing.assert_close(found, true, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("cls, how", EVERYTHING)
def test_padding_neighbours_and_gradients(cls, how):
    """On either side, with any ids: each pair is what it is alone, and so are the gradients."""
    model = made(cls, **how, shared=False, source_vocab=9, tied=False)
    source = SOURCE % 9
    together = torch.cat(
        [
            model(source[i : i + 1, : SOURCE_REAL[i].sum()], TARGET[i : i + 1, : TARGET_REAL[i].sum()])[0]
            for i in range(3)
        ]
    )
    true = torch.autograd.grad(together.sin().sum(), model.parameters(), allow_unused=True)
    for flip in (False, True):
        inputs = [
            source.masked_fill(~SOURCE_REAL, 10**6),
            TARGET.masked_fill(~TARGET_REAL, -1),
            SOURCE_REAL,
            TARGET_REAL,
        ]
        if flip:
            inputs = [_to_the_right(x, SOURCE_REAL if i % 2 == 0 else TARGET_REAL) for i, x in enumerate(inputs)]
        out = model(*inputs)[inputs[3]]
        torch.testing.assert_close(out, together)
        grads = torch.autograd.grad(out.sin().sum(), model.parameters(), allow_unused=True)
        for grad, other in zip(grads, true, strict=True):
            torch.testing.assert_close(grad, other)


def _to_the_right(x, real):
    """Padding first."""
    return torch.take_along_dim(x, real.to(torch.int8).argsort(dim=1, stable=True), 1)


@pytest.mark.parametrize("cls, how", EVERYTHING)
def test_step_by_step_with_rows_taken_anew(cls, how):
    """Ragged beginnings, then steps over caches whose rows were moved, as a beam search does."""
    model = made(cls, **how)
    with torch.no_grad():
        memory, caches = model.encode(SOURCE, SOURCE_REAL), model.caches(20)
        begun = TARGET_REAL[:, :2]
        model.decode(TARGET[:, :2].masked_fill(~begun, -1), memory, caches, real=begun)
        rows = torch.tensor([2, 0, 0, 1])
        caches.take(rows)
        memory = memory.take(rows)
        after = torch.randint(V, (4, 3), generator=torch.Generator().manual_seed(3))
        steps = torch.cat([model.decode(after[:, t : t + 1], memory, caches) for t in range(3)], 1)
        for row, i in enumerate(rows.tolist()):
            target = torch.cat((TARGET[i, :2][begun[i]], after[row]))[None]
            alone = model(SOURCE[i : i + 1, : SOURCE_REAL[i].sum()], target)[0, -3:]
            torch.testing.assert_close(steps[row], alone)


@pytest.mark.parametrize("cls, how", EVERYTHING)
def test_autocast_is_near_float32_and_has_gradients(cls, how):
    model = made(cls, torch.float32, **how)
    inputs = (SOURCE, TARGET, SOURCE_REAL, TARGET_REAL)
    true = model(*inputs)[TARGET_REAL]
    with torch.autocast("cpu", torch.bfloat16):
        out = model(*inputs)[TARGET_REAL].float()
    assert (out - true).abs().max() < 0.03 * true.abs().max()
    out.sin().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert model.embed.weight.grad.any()


@pytest.mark.parametrize("cls", [LSTMSeq2Seq, ConvSeq2Seq, EncoderDecoder])
def test_every_option_does_something(cls):
    other = {
        "vocab": 12, "source_vocab": 9, "dim": 16, "depth": 2, "decoder_depth": 3, "dropout": 0.5, "softcap": 2.0,
        "score": "dot", "kernel": 5, "position": "none", "heads": 3, "kv_heads": 1, "bias": "alibi", "base": 9.0,
        "norm": "layernorm", "placement": "post", "mlp": "experts", "mlp.activation": "gelu", "mlp.hidden": 20,
        "mlp.count": 3, "mlp.chosen": 3, "mlp.gate": "all", "mlp.balance": 0.5, "context": 31,
    }  # fmt: skip
    for name in options_of(cls.Config):
        start = {"shared": False} if name == "source_vocab" else {}
        start |= {"position": "learned"} if name == "context" and cls is not LSTMSeq2Seq else {}
        start |= {"mlp": "experts"} if name in ("mlp.count", "mlp.chosen", "mlp.gate", "mlp.balance") else {}
        if name == "context" and cls is LSTMSeq2Seq:  # it reads any length
            continue
        config = override(cls.Config(**SMALL, **({"heads": 2} if cls is EncoderDecoder else {})), start)
        changed = override(config, {name: other[name] if name in other else not getattr(config, name)})
        assert changed != config and from_json(cls.Config, to_json(changed)) == changed
        outs = []
        for each in (config, changed):
            torch.manual_seed(0)
            model = cls(each).train()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.3 * torch.ones_like(parameter) * (not parameter.any()))
            zeros = [n for n, p in cls(each).named_parameters() if not p.any()]
            zeros += [f"balance {layer.balance}" for _, layer in find_experts(model)]
            torch.manual_seed(1)
            outs.append(([(n, p.shape) for n, p in model.named_parameters()], zeros, model(SOURCE % 9, TARGET)))
        same = outs[0][:2] == outs[1][:2] and torch.equal(outs[0][2], outs[1][2])
        assert not same, name


def test_a_row_without_a_source_is_no_nan():
    for cls in (LSTMSeq2Seq, GRUSeq2Seq, ConvSeq2Seq, EncoderDecoder):
        real = SOURCE_REAL.clone()
        real[1] = False
        out = made(cls)(SOURCE, TARGET, real)
        assert out.isfinite().all()


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: LSTMSeq2SeqConfig(vocab=5, dim=5), "dim.*even.*5.*6"),
        (lambda: LSTMSeq2SeqConfig(vocab=5, score="additive", feed=True), "feed.*additive.*context"),
        (lambda: GRUSeq2SeqConfig(vocab=5, score="none", feed=True), "feed.*none"),
        (lambda: GRUSeq2SeqConfig(vocab=5, score="concat"), "score.*dot, general, additive, none.*concat"),
        (lambda: GRUSeq2SeqConfig(vocab=5, depth=2, decoder_depth=1), "depth=2.*decoder_depth=1"),
        (lambda: EncoderDecoderConfig(vocab=5, source_vocab=6), "source_vocab=6.*vocab=5.*shared=False"),
        (lambda: EncoderDecoderConfig(vocab=5, dim=6, heads=4), "dim.*heads=4.*6"),
        (lambda: EncoderDecoderConfig(vocab=5, heads=4, kv_heads=3), "kv_heads.*heads=4.*3"),
        (lambda: ConvSeq2SeqConfig(vocab=5, kernel=2), "kernel.*odd.*2"),
        (lambda: ConvSeq2SeqConfig(vocab=5, softcap=0.0), "softcap.*0.0"),
        (lambda: made(LSTMSeq2Seq)(SOURCE, TARGET[:2]), "target.*b=3|target.*3"),
        (lambda: made(EncoderDecoder).decode(TARGET, made(EncoderDecoder).encode(SOURCE), []), "caches.*list"),
    ],
)
def test_words_of_errors(wrong, words):
    with pytest.raises(RegardError, match=words):
        wrong()


def test_operations_of_a_pair_are_counted():
    m, n, d, v = 6, 5, D, V
    inputs = {"source": SOURCE[:1], "target": TARGET[:1]}
    encoder = 2 * m * 4 * (d // 2) * (d + d // 2) * 2  # two directions
    decoder, head = 2 * n * 4 * d * (d + d), 2 * n * d * v
    attention = 4 * n * m * d + 2 * n * 2 * d * d  # scores and sums, then W [c; s]
    assert count_operations(made(LSTMSeq2Seq, score="none"), **inputs) == encoder + decoder + head
    assert count_operations(made(LSTMSeq2Seq, score="dot"), **inputs) == encoder + decoder + head + attention
    blocks = (m + n) * 2 * 12 * d * d + 2 * (n * 2 + m * 2) * d * d  # queries and mix of n, keys and values of m
    own = 4 * d * (m * m + n * n + n * m)
    assert count_operations(made(EncoderDecoder), **inputs) == blocks + own + head
    pair = cost_of_pair(made(EncoderDecoder), m, n)
    assert pair["forward_flops"] == blocks + own + head and pair["training_flops"] == 3 * (blocks + own + head)
    assert pair["bytes"] == 8 * pair["parameters"]


@pytest.mark.parametrize("cls", [LSTMSeq2Seq, GRUSeq2Seq, ConvSeq2Seq, EncoderDecoder])
def test_a_longer_pair_costs_more_and_its_tokens_do_not_matter(cls):
    model = made(cls)
    short, long = cost_of_pair(model, 6, 5), cost_of_pair(model, 12, 5)
    assert 0 < short["forward_flops"] < long["forward_flops"]
    assert short["forward_flops"] == count_operations(model, source=SOURCE[:1], target=TARGET[:1])
    assert short["forward_flops"] > 2 * 5 * D * V


# ── torch.nn.Transformer


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("pre", [True, False])
def test_outputs_and_gradients_are_those_of_torchs_transformer(pre, dtype, tolerance):
    theirs, ours = torch_pair(pre, dtype)
    source = ours.source_embed(SOURCE)
    target = ours.embed(TARGET)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=dtype)
    hidden = theirs(
        source, target, tgt_mask=causal,
        src_key_padding_mask=torch.zeros(3, 6, dtype=dtype).masked_fill(~SOURCE_REAL, -torch.inf),
        memory_key_padding_mask=torch.zeros(3, 6, dtype=dtype).masked_fill(~SOURCE_REAL, -torch.inf),
    )  # fmt: skip
    true, out = hidden @ ours.embed.weight.T, ours(SOURCE, TARGET, SOURCE_REAL)
    torch.testing.assert_close(out, true, rtol=tolerance, atol=tolerance)
    for of_theirs, of_ours in names_of(theirs, ours):
        one, two = (
            torch.autograd.grad(y.sin().sum(), p, retain_graph=True)[0] for y, p in ((out, of_ours), (true, of_theirs))
        )
        if one.shape != two.shape:
            two = two[: one.shape[0]]
        torch.testing.assert_close(one, two, rtol=10 * tolerance, atol=10 * tolerance)


def torch_pair(pre, dtype):
    torch.manual_seed(0)
    theirs = nn.Transformer(D, 2, 2, 1, 20, dropout=0.0, norm_first=pre, batch_first=True).to(dtype)
    if not pre:  # torch puts one more norm at the end of each side
        theirs.encoder.norm = theirs.decoder.norm = None
    ours = made(
        EncoderDecoder, dtype, depth=2, decoder_depth=1, heads=2, mlp=PlainMLP(activation="relu", hidden=20), position="none",
        norm="layernorm", placement="pre" if pre else "post", qk_norm=False, offset=True, dropout=0.0,
    )  # fmt: skip
    with torch.no_grad():
        for one in theirs.parameters():
            one.add_(0.1 * torch.randn_like(one))
        for side in ("encoder", "decoder"):
            for layer, block in zip(getattr(theirs, side).layers, getattr(ours, side).blocks, strict=True):
                copy_layer(layer, block)
            if pre:
                copy_norm(getattr(theirs, side).norm, getattr(ours, side).norm)
    return theirs, ours


def copy_layer(layer, block):
    norms = [layer.norm1, layer.norm2]
    attentions = [(layer.self_attn, block.attention)]
    if block.cross is not None:
        norms.append(layer.norm3)
        attentions.append((layer.multihead_attn, block.cross))
    for (theirs, ours), norm in zip(attentions, norms, strict=False):
        for name, weight, bias in zip(
            ("to_q", "to_k", "to_v"), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
        ):
            getattr(ours.f, name).weight.copy_(weight)
            getattr(ours.f, name).bias.copy_(bias)
        ours.f.mix.load_state_dict(theirs.out_proj.state_dict())
        copy_norm(norm, ours.norm)
    block.mlp.f.up.load_state_dict(layer.linear1.state_dict())
    block.mlp.f.down.load_state_dict(layer.linear2.state_dict())
    copy_norm(norms[-1], block.mlp.norm)


def copy_norm(theirs, ours):
    ours.scale.copy_(theirs.weight)
    ours.shift.copy_(theirs.bias)


def names_of(theirs, ours):
    """Some parameters of both, near the beginning, in the cross-attention, and at the end."""
    first, last = theirs.encoder.layers[0], theirs.decoder.layers[0]
    own_first, own_last = ours.encoder.blocks[0], ours.decoder.blocks[0]
    return [
        (first.self_attn.in_proj_weight, own_first.attention.f.to_q.weight),
        (first.linear1.weight, own_first.mlp.f.up.weight),
        (last.multihead_attn.in_proj_weight, own_last.cross.f.to_q.weight),
        (last.multihead_attn.out_proj.bias, own_last.cross.f.mix.bias),
        (last.linear2.weight, own_last.mlp.f.down.weight),
    ]


def test_deepnorm_knows_both_depths():
    model = made(EncoderDecoder, depth=3, decoder_depth=2, heads=2, placement="deepnorm")
    for stack, (alpha, _) in (
        (model.encoder, deepnorm_scales(3, 2)),
        (model.decoder, deepnorm_scales(2, 3, decoder=True)),
    ):
        assert {part.alpha for part in (stack.blocks[0].attention, stack.blocks[-1].mlp)} == {alpha}


# ── Luong's and Bahdanau's attention, by a loop


def by_loop(model, source, target):
    """One pair, token by token, with torch's own cells and every sum written out.  -> logits n v, weights n m"""
    lstm = model.cell == "lstm"
    embedded = model.source_embed(source[None])
    states, ends = model.encoder(embedded)
    decoder = model.decoder
    memory, state = states[0], [tuple(x[0] for x in end) for end in ends]
    state += [tuple(torch.zeros_like(x) for x in state[0])] * (decoder.layers.depth - len(state))
    before, fed, logits, all_weights = model.config.score == "additive", torch.zeros(D).double(), [], []

    def look(s):
        scores = []
        for m in memory:
            if model.config.score == "dot":
                scores.append(s @ m)
            elif model.config.score == "general":
                scores.append(s @ (decoder.score.linear.weight @ m))
            else:
                inner = (
                    decoder.score.of_state.weight @ s
                    + decoder.score.of_memory.weight @ m
                    + decoder.score.of_memory.bias
                )
                scores.append(decoder.score.v.weight[0] @ torch.tanh(inner))
        weights = torch.stack(scores).softmax(0)
        all_weights.append(weights)
        return sum(w * m for w, m in zip(weights, memory, strict=True))

    for token in target:
        x = model.embed(token[None, None])[0, 0]
        if before:
            fed = context = look(state[-1][0])
        if decoder.fed:
            x = torch.cat((x, fed))
        new = []
        for i, own in enumerate(state):
            w, u, b, b_state = decoder.layers.weights(i)
            given = tuple(h[None] for h in own)
            if lstm:
                h, c = torch.lstm_cell(x[None], given, w, u, b, b_state)
                new.append((h[0], c[0]))
            else:
                new.append((torch.gru_cell(x[None], given[0], w, u, b, b_state)[0],))
            x = new[-1][0]
        state, out = new, x
        if decoder.score is not None:
            if not before:
                context = look(x)
            out = torch.tanh(decoder.combine.weight @ torch.cat((context, x)))
            if not before:
                fed = out
        logits.append(model.embed.weight @ out)
    return torch.stack(logits), all_weights


@pytest.mark.parametrize("cls", [LSTMSeq2Seq, GRUSeq2Seq])
@pytest.mark.parametrize("how", [{"score": "none"}, *ATTENTIVE])
def test_attention_of_recurrent_decoders_is_that_of_a_loop(cls, how):
    model = made(cls, **how)
    true, weights = by_loop(model, SOURCE[0], TARGET[0])
    out = model(SOURCE[:1], TARGET[:1])[0]
    torch.testing.assert_close(out, true)
    for grad, other in zip(
        *(torch.autograd.grad(y.sin().sum(), list(model.parameters())) for y in (out, true)), strict=True
    ):
        torch.testing.assert_close(grad, other)
    with record(model) as seen:
        model(SOURCE[:1], TARGET[:1])
    assert len(seen) == (how["score"] != "none")
    for each in seen:  # one matrix for all steps, whether they are one call or a loop
        torch.testing.assert_close(each.weights[0, 0], torch.stack(weights))
        assert each.error < 1e-12 and each.name == "decoder" and "cross-attention" in repr(each)


def test_recording_changes_nothing_and_shows_padding_as_nothing():
    for how in ATTENTIVE:
        model = made(GRUSeq2Seq, **how)
        plain = model(SOURCE, TARGET, SOURCE_REAL)
        with record(model) as seen:
            assert torch.equal(model(SOURCE, TARGET, SOURCE_REAL), plain)
        assert seen[0].weights.shape == (3, 1, 5, 6)
        assert not seen[0].weights.masked_fill(SOURCE_REAL[:, None, None], 0).any()
