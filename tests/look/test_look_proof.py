"""The proof of each head and row: what is wrong in one of them is found beside large values of others, and values that
cannot tell weights apart prove nothing."""

import itertools
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from regard.attention.additive_attention import mix
from regard.attention.attend import attend
from regard.attention.biases import Buckets
from regard.attention.masks import Dense
from regard.look.record import record
from regard.look.recording import fused
from regard.look.recording.fused import Fused
from regard.look.recording.proof import group_alike
from regard.look.recording.weighted_sum import TOLERANCE, RecordedWeights, Source

B, H, N, C = 2, 4, 6, 8


class Bare(nn.Module):
    """Attention of given queries, keys and values."""

    def __init__(self, fused=True):
        super().__init__()
        self.fused = fused

    def forward(self, q, k, v):
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v)
        return (q @ k.mT / C**0.5).softmax(-1) @ v


def random_inputs(dtype=torch.float32, n=N, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(B, H, n, C, generator=draw, dtype=torch.float64).to(dtype) for _ in range(3)]


def heard(model, *inputs, **options):
    with torch.no_grad(), record(model, **options) as seen:
        model(*inputs)
    (entry,) = seen
    return entry


@pytest.fixture(params=[True, False], ids=["fused", "eager"])
def model(request):
    return Bare(request.param)


def planted(monkeypatch, spoil):
    """Recorded weights are other than those that were used."""
    for kind in (Fused, RecordedWeights):
        true = kind.all_weights

        def wrong(self, rows, true=true):
            weights = true(self, rows).clone()
            spoil(weights)
            return weights

        monkeypatch.setattr(kind, "all_weights", wrong)


# ── what is wrong is found where it is ──────────────────────────────────────────────────────────────────────


def swap(weights, *where):
    weights[where] = weights[where].flip(-1)


WRONG = {
    "one head": lambda w: swap(w, slice(None), 2),
    "one row": lambda w: swap(w, 1, 2, 3),
    "a little in one row": lambda w: w[1, 2, 3].mul_(1 + 1e-3),
    "two weights of one row": lambda w: w[1, 2, 3, :2].copy_(w[1, 2, 3, :2].flip(-1)),
}


@pytest.mark.parametrize("scale", [1.0, 1e-6])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_weights_are_found_beside_large_values(model, wrong, scale, monkeypatch):
    q, k, v = random_inputs()
    v[:, 2] *= scale  # the other heads are up to a million times as large
    assert heard(model, q, k, v).proved
    planted(monkeypatch, WRONG[wrong])
    entry = heard(model, q, k, v)
    assert not entry.proved
    assert "head 2" in entry.reason and "1 of 4 heads: 2" in entry.reason
    if wrong != "one head":
        assert "row 3" in entry.reason
        bad = entry.errors > TOLERANCE[torch.float32]
        assert bad.nonzero().tolist() == [[1, 2, 3]]
    assert entry.errors.shape == (B, H, N) and entry.error == float(entry.errors.max())


def test_wrong_weights_are_found_beside_a_large_channel(model, monkeypatch):
    q, k, v = random_inputs()
    v[..., 0] = 1e6  # the same for all keys: it tells nothing and drowns the rest
    assert heard(model, q, k, v).proved
    planted(monkeypatch, WRONG["two weights of one row"])
    assert "head 2, row 3" in heard(model, q, k, v).reason


def test_rows_and_heads_of_a_part_have_their_own_numbers(model, monkeypatch):
    q, k, v = random_inputs()
    planted(monkeypatch, lambda w: swap(w))
    entry = heard(model, q, k, v, heads=[3, 1], rows=[4])
    assert entry.errors.shape == (B, 2, 1)
    assert "row 4" in entry.reason and "all 2 heads" in entry.reason


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("n", [6, 200])
def test_right_weights_are_proved_with_room_to_spare(model, dtype, n):
    """And a tenth of the weight in a wrong place is seen in every precision."""
    q, k, v = random_inputs(dtype, n)
    q = q * 3
    v[:, 1] *= 1e-3
    v[:, 2] += 5
    entry = heard(model, q, k, v)
    assert entry.proved and entry.error < TOLERANCE[dtype] / 2, entry


# ── values that cannot tell ─────────────────────────────────────────────────────────────────────────────────


def same(v):
    v[:] = v[:, :, :1]


def same_in_one_head(v):
    v[:, 1] = v[:, 1, :1]


def nothing(v):
    v[:, 1] = 0


def nearly_same(v):
    v[:, 1] = 1000 + 1e-3 * v[:, 1]


def of_two_kinds(v):
    v[:, 1, ::2] = v[:, 1, :1]
    v[:, 1, 1::2] = v[:, 1, 1:2]


def same_but_one(v):
    v[:, 1, 1:] = v[:, 1, 1:2]


@pytest.mark.parametrize("make", [same, same_in_one_head, nothing, nearly_same, same_but_one, of_two_kinds])
def test_values_that_are_alike_prove_nothing(model, make, monkeypatch):
    q, k, v = random_inputs(n=12)
    make(v)
    entry = heard(model, q, k, v)
    assert not entry.proved and "alike" in entry.reason
    assert ("all 4 heads" if make is same else "1 of 4 heads: 1") in entry.reason
    if make is not same:
        assert heard(model, q, k, v, heads=[0, 2, 3]).proved
    planted(monkeypatch, lambda w: w.copy_(w.roll(1, -1)) if make is same else w[:, 1].copy_(w[:, 1].roll(1, -1)))
    wrong = heard(model, q, k, v)
    assert not wrong.proved, "other weights give the same, or nearly"


def test_what_can_be_told_is_proved(model):
    q, k, v = random_inputs(n=12)
    assert heard(model, q[:, :, :1], k[:, :, :1], v[:, :, :1]).proved  # one key: its weight is 1
    repeated = v.clone()
    repeated[:, :, 3] = repeated[:, :, 0]  # a token that comes twice
    assert heard(model, q, k, repeated).proved
    assert heard(model, q, k, v[..., :1]).proved  # one channel
    assert heard(model, q, k, 100 + v).proved


def test_a_row_of_the_batch_in_which_values_are_alike_is_noted(model):
    """As in a window of padding: the head is proved by the others."""
    q, k, v = random_inputs(n=12)
    v[1] = v[1, :, :1]
    entry = heard(model, q, k, v)
    assert entry.proved and "1 of 2 rows of the batch (1)" in entry.note
    assert (entry.alike >= 0.5).all(1).tolist() == [False, True]
    assert heard(model, q[:1], k[:1], v[:1]).note is None
    assert not heard(model, q[1:], k[1:], v[1:]).proved


def test_groups_of_alike_values():
    v = torch.randn(9, 3)
    v[[1, 2, 4, 6, 8]] = v[0].clone()
    groups = group_alike(v, torch.float32)
    assert (groups > 0).tolist() == [True, True, True, False, True, False, True, False, True]
    v[[1, 2]] += 1  # a token that comes twice, and another that comes four times: most keys can be told
    assert not group_alike(v, torch.float32).any()
    v[1::2], v[::2] = v[1].clone(), v[0].clone()
    assert group_alike(v[:8], torch.float32).unique().numel() == 2, "two kinds"
    near = 1000 + 1e-3 * torch.randn(9, 3)
    assert len(set(group_alike(near, torch.float32).tolist())) == 1
    assert not group_alike(near.double(), torch.float64).any()
    assert not group_alike(torch.full((9, 3), torch.nan), torch.float32).any()
    assert group_alike(torch.zeros(0, 3), torch.float32).shape == (0,)


def test_what_is_nan_proves_nothing(model):
    q, k, v = random_inputs()
    v[1, 2, 3] = torch.nan
    entry = heard(model, q, k, v)
    assert not entry.proved and "NaN" in entry.reason
    assert heard(model, q, k, v, heads=[0, 1, 3]).proved


def test_a_source_must_say_its_weights():
    with pytest.raises(TypeError, match="all_weights"):
        Source()


# ── nested tensors ──────────────────────────────────────────────────────────────────────────────────────────


class Nested(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.way = way

    def forward(self, x):
        return self.way(self.q(x), self.k(x), self.v(x))


def jagged(q, k, v):
    q, k, v = (t.unflatten(-1, [2, 8]).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v)


def eager(q, k, v):
    return (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1) @ v


def halved(q, k, v):
    return (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1).mul_(0.5) @ v


def report_unsummed(q, k, v):
    (q @ k.transpose(-1, -2)).softmax(-1)
    return v


@pytest.mark.parametrize("around", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "way, layout, proved",
    [
        (jagged, torch.jagged, True),
        (eager, torch.strided, True),
        (halved, torch.strided, False),
        (report_unsummed, torch.strided, False),
    ],
)
def test_nested_tensors(way, layout, proved, around):
    torch.manual_seed(0)
    model, pieces = Nested(way).eval(), [torch.randn(3, 16), torch.randn(5, 16)]
    with warnings.catch_warnings(), around():
        warnings.simplefilter("ignore")  # nested tensors are a prototype, says PyTorch
        nested = torch.nested.nested_tensor(pieces, layout=layout)
        if way is halved and around is torch.enable_grad:
            return  # PyTorch refuses to write on what a gradient needs
        before = model(nested)
        with record(model) as seen:
            after = model(nested)
    assert all(torch.equal(*pair) for pair in zip(before.unbind(), after.unbind(), strict=True))
    (entry,) = seen
    assert entry.proved == proved and "nested" in entry.note
    heads = 2 if way is jagged else 1
    assert entry.shape == (2, heads, 5, 5)
    if not proved:
        assert "mul_" in entry.reason if way is halved else "no sum" in entry.reason
        return
    for piece, weights in zip(pieces, entry.weights, strict=True):
        q, k = (p(piece).unflatten(-1, (heads, -1)).transpose(0, 1) for p in (model.q, model.k))
        n = len(piece)
        torch.testing.assert_close(weights[:, :n, :n], (q @ k.mT / 8**0.5).softmax(-1), atol=1e-6, rtol=0)
        assert weights[:, n:].abs().sum() + weights[:, :, n:].abs().sum() == 0


def test_an_encoder_with_padding():
    """torch.nn makes a nested tensor of it in its fast path."""
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    x, padded = torch.randn(3, 5, 16), torch.zeros(3, 5, dtype=torch.bool)
    padded[1, 3:] = True
    with torch.no_grad(), record(model) as seen:
        model(x, src_key_padding_mask=padded)
    assert [entry.proved for entry in seen] == [True, True]
    assert seen[0].weights[1, :, :, 3:].abs().max() == 0


# ── a proof holds when it is read: what weights depend on is overwritten after the call


class Tables(nn.Module):
    """Attention that reads a mask, or a table, which is no copy of its own."""

    def __init__(self, kind, dtype):
        super().__init__()
        draw = torch.Generator().manual_seed(1)
        self.kind, self.float = kind, torch.randn(N, N, generator=draw).to(dtype)
        self.bool = torch.rand(N, N, generator=draw) > 0.4
        self.bool |= torch.eye(N, dtype=torch.bool)
        self.cached = torch.zeros(2, B, H, N, C, dtype=dtype)
        self.buckets = Buckets(H).to(dtype)
        self.mha = nn.MultiheadAttention(H * C, H, batch_first=True, dtype=dtype)
        nn.init.normal_(self.buckets.table, generator=draw)

    def forward(self, q, k, v):
        table = self.float
        match self.kind:
            case "sdpa float":
                return F.scaled_dot_product_attention(q, k, v, attn_mask=table)
            case "sdpa bool":
                return F.scaled_dot_product_attention(q, k, v, attn_mask=self.bool)
            case "sdpa expanded":
                return F.scaled_dot_product_attention(q, k, v, attn_mask=table[0].expand(B, H, N, N))
            case "sdpa cache":
                self.cached[0], self.cached[1] = k, v
                return F.scaled_dot_product_attention(q, self.cached[0], self.cached[1])
            case "flex score":
                return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + table[i, j])
            case "multihead":
                x = q.transpose(1, 2).flatten(2)
                return self.mha(x, x, x, attn_mask=~self.bool, need_weights=False)[0]
            case "written out":
                return (q @ k.mT / C**0.5 + table).softmax(-1) @ v
            case "attend mask":
                return attend(q, k, v, mask=Dense(self.bool))
            case "attend bias":
                return attend(q, k, v, bias=self.buckets)
            case "mix":
                return mix(q @ k.mT, v, mask=Dense(self.bool))

    def damage(self):
        for x in (self.float, self.cached, *self.parameters()):
            x.zero_()
        self.bool.fill_(True)


KINDS = (
    *("sdpa float", "sdpa bool", "sdpa expanded", "sdpa cache", "flex score", "multihead"),
    *("written out", "attend mask", "attend bias", "mix"),
)


def error_of(read):
    try:
        read()
    except ValueError as error:
        return str(error)
    return None


MODES = (torch.enable_grad, torch.no_grad, torch.inference_mode)
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
# FlexAttention has no backward and no float64 on processors
CASES = [
    case
    for case in itertools.product(KINDS, MODES, DTYPES)
    if not case[0].startswith("flex") or (case[1] is not torch.enable_grad and case[2] is not torch.float64)
]


@pytest.mark.parametrize("kind, mode, dtype", CASES)
@pytest.mark.parametrize("copied", [fused.COPIED, 0], ids=["copied", "kept"])
def test_weights_are_those_that_ran_or_an_error_after_what_they_depend_on_was_overwritten(
    kind, mode, dtype, copied, monkeypatch
):
    monkeypatch.setattr(fused, "COPIED", copied)
    with mode():
        model = Tables(kind, dtype)
        inputs = random_inputs(dtype)
        with record(model) as seen:
            model(*inputs)
        (entry,) = seen
        assert entry.proved
        true = entry.weights.clone()
        with torch.no_grad():
            model.damage()
            for x in inputs:
                x.zero_()
        said = error_of(lambda: entry.weights)
        assert said == error_of(lambda: entry.summary)
        assert torch.equal(entry.weights, true) if said is None else "changed in place since" in said
        if copied and kind.startswith(("sdpa", "multihead", "written")):  # nothing is lost where a copy is small
            assert torch.equal(entry.weights, true)


def test_a_proof_is_not_read_from_numbers_that_only_the_model_has():
    """The check can fail: without it, the same damage gives another map."""
    model = Tables("attend mask", torch.float32)
    with torch.no_grad(), record(model) as seen:
        model(*random_inputs())
    (entry,) = seen
    true = entry.weights.clone()
    with torch.no_grad():
        model.damage()
    with pytest.raises(ValueError, match="changed in place"):
        entry.get_weights()
    entry.source.errors = None
    assert not torch.allclose(entry.weights, true, atol=0.01)
