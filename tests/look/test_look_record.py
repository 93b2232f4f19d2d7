"""Recorded weights are those that were used: the same as Hugging Face's eager attention gives, as torch.nn's and
x-transformers' own, as our own kernels', and proved in every case; what is altered or dropped after the softmax is not.
"""

import contextlib
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.checkpoint import checkpoint

import regard
from regard.attention import kernels, tap
from regard.attention.kernels.reference import attention_weights
from regard.attention.masks import Causal, Padding
from regard.look.measure import attention_received, distance, entropy
from regard.look.record import NOTE_FAST, record
from regard.models.attentions import WindowAttention
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from tests.look.architectures import ARCHITECTURES, built, told
from tests.look.written import WRITTEN, Written, split


def close(mine, theirs, tolerance=1e-5):
    torch.testing.assert_close(mine, theirs, atol=tolerance, rtol=0)


# ── the weights that others give ────────────────────────────────────────────────────────────────────────────


def test_there_are_many_architectures():
    assert len(ARCHITECTURES) >= 15


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_are_those_of_hugging_face(name):
    model, inputs = built(name)
    with torch.no_grad():
        before = model(**inputs)
        with record(model) as seen:
            after = model(**inputs)
    for key, value in before.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, after[key]), f"recording changed {key}"
    theirs = told(model, inputs)
    mine = [
        entry for entry in seen if name != "Swin" or ".blocks.1." in entry.name
    ]  # Swin gives only the last of a stage
    assert len(mine) == len(theirs) >= 2
    real = inputs.get("attention_mask")
    for entry, weights in zip(mine, theirs, strict=True):
        assert entry.proved, entry
        assert weights.std() > 1e-3, "uniform attention would prove little"
        if real is None or "decoder_input_ids" in inputs:
            close(entry.weights, weights)
        else:  # a padded query may have nothing to look at, and then eager attention and SDPA differ
            rows = real.bool()[:, None, :, None].expand_as(weights)
            close(entry.weights[rows], weights[rows])


def test_encoder_decoder_names_and_kinds():
    model, inputs = built("T5")  # both texts have the same length, so shapes say nothing
    with torch.no_grad(), record(model) as seen:
        model(**inputs)
    assert [(e.name, e.kind) for e in seen][:4] == [
        ("encoder.block.0.layer.0.SelfAttention", "self"),
        ("encoder.block.1.layer.0.SelfAttention", "self"),
        ("decoder.block.0.layer.0.SelfAttention", "self"),
        ("decoder.block.0.layer.1.EncDecAttention", "cross"),
    ]
    assert [e.layer for e in seen] == list(range(6))


def test_a_layer_that_is_used_twice_is_one_place_called_twice():
    model, inputs = built("ALBERT")
    with torch.no_grad(), record(model) as seen:
        model(**inputs)
    assert [(e.layer, e.call) for e in seen] == [(0, 0), (0, 1)]
    assert seen.layers == 1


def test_decoding_with_a_cache_is_self_attention_of_the_last_query():
    model, inputs = built("Llama")
    ids = inputs["input_ids"]
    with torch.no_grad(), record(model) as whole:
        model(ids)
    with torch.no_grad(), record(model) as seen:
        past = model(ids[:, :-1], use_cache=True).past_key_values
        model(ids[:, -1:], past_key_values=past)
    last = seen[2]
    assert (last.shape, last.kind, last.call, last.layer) == ((2, 4, 1, 9), "self", 1, 0)
    close(last.weights, whole[0].weights[:, :, -1:])


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("need", [False, True])
def test_multihead_attention(need, cross):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x, memory = torch.randn(3, 7, 16), torch.randn(3, 7, 16)
    y = memory if cross else x
    hidden = torch.zeros(3, 7, dtype=torch.bool)
    hidden[1, 5:] = True
    with torch.no_grad():
        _, theirs = layer(x, y, y, key_padding_mask=hidden, average_attn_weights=False)
        with record(layer) as seen:
            layer(x, y, y, key_padding_mask=hidden, need_weights=need)
    (entry,) = seen
    assert entry.kind == ("cross" if cross else "self")
    assert entry.proved and NOTE_FAST in entry.note
    close(entry.weights, theirs)


def test_transformer_encoder():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    x = torch.randn(3, 7, 16)
    with torch.no_grad():
        before = model(x)  # its fast path, in which nothing can be heard
        with record(model) as seen:
            after = model(x)
        close(after, before, 1e-6)
        assert [e.name for e in seen] == ["layers.0.self_attn", "layers.1.self_attn"]
        for entry, layer in zip(seen, model.layers, strict=True):
            _, theirs = layer.self_attn(x, x, x, average_attn_weights=False)
            close(entry.weights, theirs)
            assert NOTE_FAST in entry.note
            x = layer(x)
    with record(model) as seen:  # with gradients there is no fast path to turn off
        model(x)
    assert seen[0].note is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rotary_pos_emb": True},
        {"alibi_pos_bias": True, "attn_kv_heads": 2},
        {"attn_num_mem_kv": 3},
        {"attn_qk_norm": True},
    ],
    ids=str,
)
def test_x_transformers_with_and_without_flash(options):
    import loguru
    import x_transformers

    loguru.logger.disable("x_transformers")
    ids = torch.randint(0, 23, (2, 9), generator=torch.Generator().manual_seed(0))
    models = []
    for flash in (False, True):
        layers = x_transformers.Decoder(
            dim=32, depth=2, heads=4, attn_dim_head=8, rotary_emb_dim=4, attn_flash=flash, **options
        )
        models.append(x_transformers.TransformerWrapper(num_tokens=23, max_seq_len=64, attn_layers=layers).eval())
    models[1].load_state_dict(models[0].state_dict())
    with torch.no_grad():
        _, inside = models[0](ids, return_intermediates=True)
        theirs = [each.post_softmax_attn for each in inside.attn_intermediates]
        for model in models:
            before = model(ids)
            with record(model) as seen:
                after = model(ids)
            assert torch.equal(before, after)
            assert len(seen) == len(theirs) == 2
            for entry, weights in zip(seen, theirs, strict=True):
                assert entry.proved and entry.kind == "self"
                close(entry.weights, weights)
    assert "flash" in seen[0].operator


# ── attention written out ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("around", [contextlib.nullcontext, torch.no_grad, torch.inference_mode])
def test_attention_written_out(name, around):
    case = WRITTEN[name]
    torch.manual_seed(0)
    model, inputs = case.model().eval(), case.inputs()
    with around():
        before = model(*inputs)
        with record(model) as seen:
            after = model(*inputs)
        theirs = case.weights(model, *inputs)
    assert torch.equal(before, after)
    (entry,) = seen
    assert entry.proved, entry
    assert entry.kind == case.kind
    assert not entry.weights.requires_grad and not entry.weights.is_inference()
    close(entry.weights, theirs.detach().float())
    assert (entry.note or "").startswith(case.note)
    if entry.q is not None:
        close(entry.out.float(), entry.weights @ entry.v.float(), 1e-2)
        assert entry.q.shape == (*theirs.shape[:3], entry.k.shape[-1])


class Quiet(nn.Module):
    """Softmaxes that are no attention: a router, a classifier, a learned mixture."""

    def __init__(self):
        super().__init__()
        self.route, self.back, self.classes = nn.Linear(16, 4), nn.Linear(4, 16), nn.Linear(16, 3)

    def forward(self, x):
        shares = self.route(x).softmax(-1)
        best = shares.topk(2, -1)
        x = self.back(shares) + x * best.values.sum(-1, keepdim=True)
        return self.classes(x).softmax(-1)


def test_other_softmaxes_are_no_attention():
    model = Quiet()
    with record(model) as seen:
        model(torch.randn(2, 5, 16))
    assert len(seen) == 0
    with pytest.raises(
        IndexError, match="0 attentions were heard, so there is no number 0; run the model inside the block"
    ):
        seen[0]


def test_a_scripted_module_has_the_name_of_the_module_around_it():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.jit.script(Written()), torch.jit.script(Written())

        def forward(self, x):
            return self.two(self.one(x))

    model, x = Two().eval(), torch.randn(2, 5, 16)
    before = model(x)
    with record(model) as seen:
        after = model(x)
    assert torch.equal(before, after)
    assert [(e.name, e.proved, e.kind) for e in seen] == [("one", True, "self"), ("two", True, "self")]
    with record(model.one) as seen:
        model.one(x)
    assert seen[0].proved and seen[0].name == ""


# ── our own models ──────────────────────────────────────────────────────────────────────────────────────────

SIZES = {"vocab": 17, "context": 16, "dim": 32, "depth": 2, "heads": 4}


@pytest.mark.parametrize("kernel", [name for name in kernels.NAMES if name != "edges"])  # sequences have none
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kv_heads": 2, "attention": WindowAttention(width=4)},
        {"bias": "alibi", "position": "none"},
        {"bias": "buckets", "position": "learned"},
        {"bias": "relative", "position": "none"},
    ],
    ids=str,
)
def test_our_own_models_with_every_kernel(options, kernel):
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(**SIZES, **options)).eval()
    ids = torch.randint(17, (2, 12))
    if kernel == "fused" and options.get("bias") == "relative":
        return  # adds to the values, which that kernel refuses
    if kernel == "stairs" and options:
        return  # it takes a plain causal mask and nothing else
    heard = []
    with torch.no_grad(), kernels.only(kernel):
        before = model(ids)
        with tap.listen(heard.append), record(model) as seen:
            after = model(ids)
    assert torch.equal(before, after)
    assert len(seen) == len(heard) == 2, "each attention is told once"
    for i, (entry, call) in enumerate(zip(seen, heard, strict=True)):
        assert entry.proved and entry.error < 1e-5
        assert (entry.operator, entry.kind, entry.layer) == (kernel, "self", i)
        assert entry.name.endswith(f"blocks.{i}.attention.f")
        close(entry.weights, attention_weights(call.q, call.k, call.terms))
        assert torch.equal(entry.weights.triu(1), torch.zeros_like(entry.weights))


def test_half_precision_of_our_own():
    torch.manual_seed(0)
    model = Encoder(EncoderConfig(**SIZES, classes=3, pool="attention")).eval().bfloat16()
    ids = torch.randint(17, (2, 12))
    with torch.no_grad(), record(model) as seen:
        model(ids)
    assert [e.kind for e in seen] == ["self", "self", "cross"]  # the pool asks with learned queries
    assert all(e.proved and e.weights.dtype == torch.float32 and e.dtype == torch.bfloat16 for e in seen)


def test_it_is_a_public_name():
    assert regard.record is record


# ── what cannot be proved ───────────────────────────────────────────────────────────────────────────────────


class Altered(Written):
    """Weights that are changed after the softmax, so that their sum of the values is another one."""

    def change(self, weights):
        return weights * torch.linspace(0.5, 1.0, weights.shape[-1])


class AlteredInPlace(Written):
    def change(self, weights):
        return weights.mul_(0.5)


class Harmless(Written):
    def change(self, weights):
        return (weights * 1.0).clone().contiguous()


@pytest.mark.parametrize("kind, words", [(Altered, "mul"), (AlteredInPlace, "mul_")])
def test_altered_weights_raise_with_the_reason(kind, words):
    model, x = kind().eval(), torch.randn(2, 5, 16)
    with torch.no_grad(), record(model) as seen:
        model(x)
    (entry,) = seen
    assert not entry.proved and entry.error > 0.01
    with pytest.raises(
        ValueError, match=rf"weights of the model \(layer 0, call 0\) are not proved.*went through {words}"
    ):
        entry.weights  # noqa: B018
    with pytest.raises(ValueError, match="not proved"):
        entry.summary  # noqa: B018
    # those of the softmax, before they were altered
    close(entry.get_weights(unproved=True), model.plain(x)[0])


def test_what_changes_nothing_is_proved():
    model = Harmless().eval()
    with record(model) as seen:
        model(torch.randn(2, 5, 16))
    assert seen[0].proved


class Dropping(Written):
    def __init__(self, in_place=False):
        super().__init__()
        self.drop = nn.Dropout(0.5, inplace=in_place)

    def change(self, weights):
        return self.drop(weights)


class DroppingInside(Written):
    def attended(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5 if self.training else 0.0)


@pytest.mark.parametrize(
    "make", [Dropping, lambda: Dropping(in_place=True), DroppingInside], ids=["out", "in place", "SDPA"]
)
@pytest.mark.parametrize("around", [contextlib.nullcontext, torch.no_grad, torch.inference_mode])
def test_dropout_gives_the_weights_before_it_without_proof(make, around):
    torch.manual_seed(0)
    model, x = make(), torch.randn(2, 5, 16)
    with around():
        torch.manual_seed(1)
        if not (around is contextlib.nullcontext and getattr(getattr(model, "drop", None), "inplace", False)):
            before = model(x)
            torch.manual_seed(1)
            with record(model) as seen:
                after = model(x)
            assert torch.equal(before, after), "recording draws no random numbers"
            (entry,) = seen
            with pytest.raises(
                ValueError, match="attention dropout was on: these are the weights before it.*model.eval()"
            ):
                entry.weights  # noqa: B018
            close(entry.get_weights(unproved=True), model.plain(x)[0].detach())
        model.eval()
        with record(model) as seen:
            model(x)
    assert seen[0].proved


def test_dropout_of_our_own():
    model = Decoder(DecoderConfig(**SIZES, dropout=0.3)).train()
    with record(model) as seen:
        model(torch.randint(17, (2, 12)))
    assert not seen[0].proved and "dropout" in seen[0].reason
    assert seen[0].get_weights(unproved=True).sum(-1).allclose(torch.ones(()))


# ── watching changes nothing ────────────────────────────────────────────────────────────────────────────────


def state_of_everything(model):
    names = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_always_called")
    hooks = sum(len(getattr(module, name)) for module in model.modules() for name in names)
    everywhere = len(nn.modules.module._global_forward_hooks) + len(nn.modules.module._global_forward_pre_hooks)
    return (hooks, everywhere, tap.listeners, _get_current_dispatch_mode(), torch.backends.mha.get_fastpath_enabled())


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.script = Written(), torch.jit.script(Written())

    def forward(self, x, fail):
        y = self.script(self.inner(x))
        if fail:
            raise KeyError("planted")
        return y


def test_nothing_is_left_behind_also_after_an_exception():
    model, x = Raises(), torch.randn(2, 5, 16)
    clean = state_of_everything(model)
    assert clean == (0, 0, (), None, True)
    with record(model) as seen:
        assert state_of_everything(model) != clean
        model(x, False)
    assert state_of_everything(model) == clean
    with pytest.raises(KeyError, match="planted"), record(model) as seen:
        model(x, True)
    assert state_of_everything(model) == clean
    assert len(seen) == 2, "what was heard before stays"
    with record(model) as seen:  # an exception that the caller catches inside the block
        with pytest.raises(KeyError):
            model(x, True)
        model(x, False)
    assert [(e.name, e.call) for e in seen] == [("inner", 0), ("script", 0), ("inner", 1), ("script", 1)]
    assert state_of_everything(model) == clean


def test_wrong_choices_leave_nothing_behind():
    model = Written()
    for wrong in ({"keep": "all"}, {"top": 0}, {"layers": 3}, {"heads": "01"}, {"heads": [-1]}, {"rows": 1.5}):
        with pytest.raises(ValueError, match="|".join(wrong)), record(model, **wrong):
            pass
    with pytest.raises(ValueError, match="record takes a torch.nn.Module, got function"), record(lambda x: x):
        pass
    for wrong, words in (({"heads": [9]}, "has 4, from 0 on"), ({"rows": [5]}, "has 5 queries")):
        with pytest.raises(ValueError, match=words), record(model, **wrong):
            model(torch.randn(2, 5, 16))
    assert state_of_everything(model) == (0, 0, (), None, True)


@pytest.mark.parametrize("kind", [Written, DroppingInside])
def test_gradients_are_the_same(kind):
    torch.manual_seed(0)
    model, x = kind().eval(), torch.randn(2, 5, 16, requires_grad=True)
    model(x).square().sum().backward()
    before, x.grad = x.grad, None
    with record(model) as seen:
        model(x).square().sum().backward()
    assert torch.equal(before, x.grad)
    assert len(seen) == 1 and not seen[0].weights.requires_grad and not seen[0].out.requires_grad


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_for_a_gradient_is_heard_once(reentrant):
    model, x = Written(), torch.randn(2, 5, 16, requires_grad=True)

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    around = Around()
    with record(around) as seen:
        around(x).sum().backward()
    assert x.grad is not None
    assert [(e.name, e.call) for e in seen] == [("inner", 0)]


@pytest.mark.parametrize("kind", [Written, DroppingInside])
def test_autocast(kind):
    torch.manual_seed(0)
    model, x = kind().eval(), torch.randn(2, 5, 16)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        before = model(x)
        with record(model) as seen:
            after = model(x)
        assert torch.equal(before, after)
    assert seen[0].proved and seen[0].dtype == torch.bfloat16
    assert seen[0].weights.dtype == torch.float32


def test_double_precision_is_kept():
    model = Written().double()
    with record(model) as seen:
        model(torch.randn(2, 5, 16, dtype=torch.float64))
    assert seen[0].weights.dtype == torch.float64 and seen[0].error < 1e-14


def test_what_was_recorded_cannot_be_changed_later():
    model, x = DroppingInside().eval(), torch.randn(2, 5, 16)
    with torch.no_grad(), record(model) as seen:
        out = model(x)
        before = seen[0].weights.clone()
        out.zero_()
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(seen[0].weights, before) and seen[0].out.abs().sum() > 0
    model = Decoder(DecoderConfig(**SIZES, bias="buckets", position="none")).eval()
    with torch.no_grad(), record(model) as seen:
        model(torch.randint(17, (2, 12)))
        for parameter in model.parameters():
            parameter.mul_(2)
    with pytest.raises(ValueError, match="bias.* was changed in place since the recording"):
        seen[0].weights  # noqa: B018


# ── choosing ────────────────────────────────────────────────────────────────────────────────────────────────


class Deep(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.blocks = nn.ModuleList(kind() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def ours():
    return Decoder(DecoderConfig(**SIZES | {"depth": 3}))


@pytest.mark.parametrize(
    "make", [lambda: Deep(Written), lambda: Deep(DroppingInside), ours], ids=["eager", "fused", "ours"]
)
def test_layers_heads_and_rows_are_parts_of_the_whole(make):
    torch.manual_seed(0)
    model = make().eval()
    x = torch.randint(17, (2, 5)) if isinstance(model, Decoder) else torch.randn(2, 5, 16)
    with torch.no_grad():
        with record(model) as whole:
            model(x)
        with record(model, layers=[0, 2], heads=[3, 1], rows=[-1, 0]) as part:
            model(x)
        with record(model, rows=slice(1, None, 2), keep="summary", top=2) as short:
            model(x)
    assert [e.layer for e in part] == [0, 2]
    for entry in part:
        all_of_it = whole[entry.layer]
        assert (entry.heads, entry.rows, entry.shape) == ((3, 1), (4, 0), all_of_it.shape)
        close(entry.weights, all_of_it.weights[:, [3, 1]][:, :, [4, 0]], 1e-6)
        close(entry.q, all_of_it.q[:, [3, 1]][:, :, [4, 0]], 0)
        close(entry.out, all_of_it.out[:, [3, 1]][:, :, [4, 0]], 0)
        assert entry.k.shape[1] == entry.v.shape[1] == 2
        assert entry.proved
    for entry, all_of_it in zip(short, whole, strict=True):
        summary, weights = entry.summary, all_of_it.weights[:, :, 1::2]
        assert entry.source is None, "nothing large is kept"
        close(summary.entropy, entropy(all_of_it)[:, :, 1::2])
        close(summary.distance, distance(all_of_it)[:, :, 1::2])
        close(summary.received, attention_received(weights))
        close(summary.top, weights.sort(-1, descending=True).values[..., :2])
        close(weights.gather(-1, summary.top_at), summary.top)
        with pytest.raises(ValueError, match="only a summary was kept; record with keep='weights'"):
            entry.weights  # noqa: B018


def test_layers_by_name():
    model, x = Deep(Written), torch.randn(2, 5, 16)
    with record(model, layers=["blocks.1"]) as seen:
        model(x)
    assert [(e.name, e.layer) for e in seen] == [("blocks.1", 1)]


@pytest.mark.parametrize("layers", [[9], ["block"]])
def test_layers_that_are_not_there_are_told(layers):
    model, x = Deep(Written), torch.randn(2, 5, 16)
    said = f"layers={layers} were asked for, and attention happened in others: 0 blocks.0, 1 blocks.1"
    with pytest.raises(ValueError, match=re.escape(said)), record(model, layers=layers):
        model(x)
    with record(nn.Linear(16, 3), layers=layers) as seen:  # nothing happened, so nothing was missed
        pass
    assert not seen


@pytest.mark.parametrize("kind", [Written, DroppingInside])
def test_a_proof_in_small_blocks_of_rows_is_the_same(kind, monkeypatch):
    torch.manual_seed(0)
    model, x = kind().eval(), torch.randn(2, 5, 16)
    with record(model, keep="summary") as whole:
        model(x)
    monkeypatch.setattr("regard.look.recording.weighted_sum.MOST", 50)
    with record(model, keep="summary") as parts:
        model(x)
    assert parts[0].proved
    close(parts[0].summary.entropy, whole[0].summary.entropy, 1e-6)
    close(parts[0].summary.received, whole[0].summary.received, 1e-6)
    model = Altered()
    with record(model) as altered:
        model(x)
    assert not altered[0].proved, "every block counts"


# ── hidden states ───────────────────────────────────────────────────────────────────────────────────────────


def test_states_are_what_blocks_put_out():
    model, inputs = built("BERT")
    with torch.no_grad(), record(model, states=True) as seen:
        out = model(**inputs, output_hidden_states=True)
    assert [s.name for s in seen.states] == ["encoder.layer.0", "encoder.layer.1"]
    for state, theirs in zip(seen.states, out.hidden_states[1:], strict=True):
        assert torch.equal(state.value, theirs)
    model = ours().eval()
    with torch.no_grad(), record(model, states=True) as seen:
        model(torch.randint(17, (2, 5)))
    assert [s.name.rpartition(".")[2] for s in seen.states] == ["0", "1", "2"]
    assert all(s.value.shape == (2, 5, 32) for s in seen.states)
    with record(model) as seen:
        model(torch.randint(17, (2, 5)))
    assert seen.states == []


def test_padding_and_a_mask_object():
    q = torch.randn(2, 4, 6, 8)

    class Bare(nn.Module):
        def forward(self, q):
            return regard.attend(q, q, q, mask=Causal() & Padding([6, 3]))

    with record(Bare()) as seen:
        Bare()(q)
    assert len(seen) == 0, "another model than the one that is recorded"
    model = Bare()
    with record(model) as seen:
        model(q)
    assert seen[0].proved and seen[0].weights[1, :, :, 3:].abs().max() == 0


def test_split_is_what_the_written_models_use():
    assert split(torch.zeros(2, 5, 16)).shape == (2, 4, 5, 4)
