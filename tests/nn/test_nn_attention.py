"""The attention layer, blocks and stacks: torch's own as judges, and padding that does not matter."""

import pytest
import torch
from torch import nn

from regard.attention.biases import ALiBi, Buckets, Relative
from regard.attention.masks import Causal, Window
from regard.attention.positions import Concatenated, Learned, Rotary, Sinusoidal
from regard.nn.attention import Attention
from regard.nn.block import PLACEMENTS, Block, Stack, deepnorm_scales
from regard.symmetry.groups import EVERYTHING, Permutations, Shifts, Trivial

DIM, HEADS, B, N, M = 32, 4, 2, 9, 6


def tokens(n=N, d=DIM, seed=0):
    return torch.randn(B, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def copied(ours, theirs):
    """torch's MultiheadAttention with our weights."""
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat((ours.to_q.weight, ours.to_k.weight, ours.to_v.weight)))
        theirs.in_proj_bias.copy_(torch.cat((ours.to_q.bias, ours.to_k.bias, ours.to_v.bias)))
        theirs.out_proj.load_state_dict(ours.mix.state_dict())
    return theirs


def test_self_and_cross_attention_are_torchs():
    ours = Attention(DIM, HEADS).double()
    theirs = copied(ours, nn.MultiheadAttention(DIM, HEADS, batch_first=True, dtype=torch.float64))
    x, memory = tokens(), tokens(M, seed=1)
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0])
    torch.testing.assert_close(ours(x, memory), theirs(x, memory, memory)[0])
    hidden = torch.ones(N, N, dtype=torch.bool).triu(1)
    torch.testing.assert_close(ours(x, mask=Causal()), theirs(x, x, x, attn_mask=hidden)[0])
    real = torch.arange(M) < torch.tensor([M, 4])[:, None]
    torch.testing.assert_close(ours(x, memory, real=real), theirs(x, memory, memory, key_padding_mask=~real)[0])


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_block_is_torchs_encoder_layer(placement):
    ours = Block(DIM, HEADS, mlp="relu", hidden=50, placement=placement).double().eval()
    theirs = nn.TransformerEncoderLayer(
        DIM, HEADS, 50, dropout=0.0, batch_first=True, norm_first=placement == "pre", dtype=torch.float64
    ).eval()
    copied(ours.attention.f, theirs.self_attn)
    with torch.no_grad():
        for norm, other in ((ours.attention.norm, theirs.norm1), (ours.mlp.norm, theirs.norm2)):
            nn.init.normal_(norm.scale)
            other.weight.copy_(norm.scale)
            other.bias.copy_(norm.shift)
        theirs.linear1.load_state_dict(ours.mlp.f.up.state_dict())
        theirs.linear2.load_state_dict(ours.mlp.f.down.state_dict())
    torch.testing.assert_close(ours(tokens()), theirs(tokens()))


def test_a_block_with_memory_is_torchs_decoder_layer():
    ours = Block(DIM, HEADS, mlp="relu", hidden=50, memory_dim=DIM).double().eval()
    theirs = nn.TransformerDecoderLayer(
        DIM, HEADS, 50, dropout=0.0, batch_first=True, norm_first=True, dtype=torch.float64
    )
    copied(ours.attention.f, theirs.self_attn)
    copied(ours.cross.f, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.mlp.f.up.state_dict())
    theirs.linear2.load_state_dict(ours.mlp.f.down.state_dict())
    causal = torch.ones(N, N, dtype=torch.bool).triu(1)
    expected = theirs.eval()(tokens(), tokens(M, seed=1), tgt_mask=causal)
    torch.testing.assert_close(ours(tokens(), tokens(M, seed=1), mask=Causal()), expected)


def test_grouped_heads_share_keys_and_values():
    few = Attention(DIM, HEADS, kv_heads=2).double()
    many = Attention(DIM, HEADS).double()
    state = few.state_dict()
    for name in ("to_k.weight", "to_v.weight", "to_k.bias", "to_v.bias"):
        state[name] = state[name].unflatten(0, (2, -1)).repeat_interleave(2, 0).flatten(0, 1)
    many.load_state_dict(state)
    torch.testing.assert_close(few(tokens(), mask=Causal()), many(tokens(), mask=Causal()))
    assert few.to_k.weight.numel() == many.to_k.weight.numel() // 2


def test_qk_norm_bounds_the_scores():
    """However large the tokens, queries and keys keep their length: the output does not change with the scale of x."""
    layer = Attention(DIM, HEADS, qk_norm=True, offset=False).double()
    plain = Attention(DIM, HEADS, offset=False).double()
    x = 100 * tokens()  # large, or the eps of the norm is seen where a key happens to be short
    torch.testing.assert_close(layer(100 * x), 100 * layer(x), rtol=1e-4, atol=1e-4)
    assert (plain(x) - 100 * plain(x / 100)).abs().max() > 1


def options():
    yield "plain", {}
    for placement in PLACEMENTS:
        yield placement, {"placement": placement}
    yield "rms and swiglu", {"norm": "rmsnorm", "mlp": "swiglu", "qk_norm": True, "kv_heads": 2}
    yield "rotary and alibi", {"position": Rotary(DIM // HEADS), "bias": ALiBi(HEADS)}
    yield ("rotary and relative", {"position": Rotary(DIM // HEADS), "bias": lambda: Relative(DIM // HEADS, reach=4)})
    yield "learned and buckets", {"position": Learned(40, DIM), "bias": Buckets(HEADS)}
    yield (
        "sinusoidal, relative in each",
        {"position": Sinusoidal(DIM), "bias": lambda: Relative(DIM // HEADS, reach=4)},
    )


OPTIONS = [pytest.param(how, id=name) for name, how in options()]


def stack(how, depth=2):
    torch.manual_seed(0)
    return Stack(depth, DIM, HEADS, **how).double().eval()


@pytest.mark.parametrize("how", OPTIONS)
def test_padding_and_neighbours_do_not_matter(how):
    """Contents, amount and the other rows: outputs and gradients of real tokens are the same."""
    model, x = stack(how), tokens()
    real = torch.arange(N + 5) < torch.tensor([N, 5])[:, None]
    padded = torch.cat((x, torch.full((B, 5, DIM), torch.inf, dtype=x.dtype)), 1).masked_fill(
        ~real[..., None], torch.nan
    )
    out = model(padded, mask=Causal(), real=real)
    grads = torch.autograd.grad(out[real].sin().sum(), model.parameters(), allow_unused=True)
    alone = [model(x[i : i + 1, :length], mask=Causal()) for i, length in enumerate((N, 5))]
    true = torch.autograd.grad(sum(a.sin().sum() for a in alone), model.parameters(), allow_unused=True)
    for i, length in enumerate((N, 5)):
        torch.testing.assert_close(out[i, :length], alone[i][0])
    for found, expected in zip(grads, true, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("how", OPTIONS)
def test_what_a_stack_keeps_is_what_is_measured(how):
    model, x, order = stack(how), tokens(), torch.randperm(N, generator=torch.Generator().manual_seed(1))
    where = torch.arange(N)
    out = model(x, where=where)
    # moved with their places
    torch.testing.assert_close(model(x[:, order], where=where[order]), out[:, order])
    permuted = (model(x[:, order], where=where) - out[:, order]).abs().max() / out.abs().max()
    shifted = (model(x, where=where + 9) - out).abs().max() / out.abs().max()
    assert (permuted < 1e-10) == (Permutations() <= model.keeps)
    assert (shifted < 1e-10) == (Shifts() <= model.keeps)
    assert (permuted > 1e-5) or (Permutations() <= model.keeps)
    assert (shifted > 1e-5) or (Shifts() <= model.keeps)


def test_what_stacks_say():
    assert stack({}).keeps == EVERYTHING
    assert stack({"position": Rotary(8), "bias": ALiBi(HEADS)}).keeps == Shifts()
    assert stack({"position": Learned(9, DIM)}).keeps == Trivial()
    # a turned query says where it is
    assert stack({"position": Rotary(8), "bias": Relative(8)}).keeps == Trivial()


def test_tokens_without_a_place_are_seen_by_all():
    """A class token in front: moving all others moves the output, and the class token's stays."""
    model = stack({})
    x = tokens()
    where = torch.cat((torch.tensor([torch.nan], dtype=torch.float64), torch.arange(N - 1, dtype=torch.float64)))
    out = model(x, mask=Window(2), where=where)
    order = torch.cat((torch.zeros(1, dtype=torch.long), 1 + torch.randperm(N - 1)))
    torch.testing.assert_close(model(x[:, order], mask=Window(2), where=where[order]), out[:, order])


def test_a_layer_alone_is_safe_from_padding_too():
    layer = Attention(DIM, HEADS).double()
    real = torch.arange(N) < torch.tensor([N, 5])[:, None]
    x = tokens().masked_fill(~real[..., None], torch.nan)
    memory = tokens(seed=1).masked_fill(~real[..., None], torch.inf)
    for out in (layer(x, real=real)[real], layer(tokens(), memory, real=real)):
        assert torch.isfinite(out).all()
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(out.sum(), layer.parameters()))


def test_concatenated_positions_come_beside_the_tokens():
    model = stack({"position": Concatenated(Sinusoidal(8))})
    assert model(tokens(d=DIM - 8)).shape == (B, N, DIM)


def test_each_block_has_its_own_bias_or_all_share_one():
    shared = stack({"bias": Buckets(HEADS)}, depth=3)
    own = stack({"bias": lambda: Buckets(HEADS)}, depth=3)
    tables = [name for name in own.state_dict() if "table" in name]
    assert [name for name in shared.state_dict() if "table" in name] == ["bias.table"]  # once, not once a block
    assert tables == ["bias.0.table", "bias.1.table", "bias.2.table"]


def test_state_is_the_same_in_training_and_not():
    model = stack({"position": Rotary(8), "bias": ALiBi(HEADS)})
    names = set(model.train().state_dict())
    assert names == set(model.eval().state_dict()) == {name for name, _ in model.named_parameters()}


def test_deepnets_scales():
    """Wang et al. 2022, table 2: encoder-only and decoder-only, then an encoder-decoder of 18 and 6 blocks."""
    assert deepnorm_scales(200) == pytest.approx((400**0.25, 1600**-0.25))
    assert deepnorm_scales(18, 6) == pytest.approx((0.81 * (18**4 * 6) ** 0.0625, 0.87 * (18**4 * 6) ** -0.0625))
    assert deepnorm_scales(6, 18, decoder=True) == pytest.approx((18**0.25, 72**-0.25))


def test_deepnorm_starts_with_its_scales():
    depth = 8
    model = Stack(depth, 64, 4, placement="deepnorm")
    _, beta = deepnorm_scales(depth)
    stds = {name.split(".")[-2]: p.std().item() for name, p in model.blocks[3].named_parameters() if p.dim() == 2}
    xavier = (2 / 128) ** 0.5
    assert stds["to_q"] == pytest.approx(xavier, rel=0.1) and stds["to_k"] == pytest.approx(xavier, rel=0.1)
    assert stds["to_v"] == pytest.approx(beta * xavier, rel=0.1) and stds["mix"] == pytest.approx(
        beta * xavier, rel=0.1
    )
    assert stds["up"] == pytest.approx(beta * (2 / 320) ** 0.5, rel=0.1)
    assert model.blocks[0].attention.alpha == pytest.approx((2 * depth) ** 0.25)
    assert isinstance(model.norm, nn.Identity) and not isinstance(Stack(1, 64, 4).norm, nn.Identity)


def test_dropout_only_while_training():
    model = Stack(1, DIM, HEADS, dropout=0.5).double()
    x = tokens()
    assert not torch.equal(model.train()(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


COMPILED = {  # every part once: compiling takes as long as all other tests of a stack together
    "rotary, alibi": {
        "position": Rotary(8),
        "bias": ALiBi(HEADS),
        "norm": "rmsnorm",
        "mlp": "swiglu",
        "qk_norm": True,
        "kv_heads": 2,
    },
    "learned, buckets": {"position": Learned(40, DIM), "bias": Buckets(HEADS), "placement": "deepnorm"},
    "sinusoidal, relative": {"position": Sinusoidal(DIM), "bias": lambda: Relative(8, reach=4), "placement": "post"},
}


@pytest.mark.parametrize("how", COMPILED.values(), ids=COMPILED)
def test_a_stack_compiles_without_a_break(how):
    torch.compiler.reset()
    model, x = stack(how, depth=1), tokens()
    real = torch.arange(N) < torch.tensor([N, 5])[:, None]

    def run(x):
        return model(x, mask=Causal() & Window(4), real=real)

    compiled = torch.compile(run, fullgraph=True, backend="eager")(x)
    torch.testing.assert_close(compiled[real], run(x)[real])


def test_half_precision_by_autocast():
    model = Stack(1, DIM, HEADS, qk_norm=True, norm="rmsnorm", position=Rotary(8)).eval()
    x = tokens().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x, mask=Causal())
    torch.testing.assert_close(out.float(), model(x, mask=Causal()), rtol=0.05, atol=0.05)


def test_words_of_errors():
    with pytest.raises(ValueError, match="dim.*heads.*dim=10.*heads=4.*dim=12"):
        Attention(10, 4)
    with pytest.raises(ValueError, match="kv_heads.*heads.*kv_heads=3.*heads=4"):
        Attention(16, 4, kv_heads=3)
    with pytest.raises(ValueError, match=r"x.*'b n d'.*d=32.*shape \(2, 9, 8\)"):
        Attention(32, 4)(torch.zeros(2, 9, 8))
    with pytest.raises(ValueError, match="norm.*placement"):
        Block(32, 4, placement="sandwich")
    with pytest.raises(ValueError, match="block.*memory_dim="):
        Block(32, 4)(torch.zeros(1, 2, 32), torch.zeros(1, 3, 32))
    with pytest.raises(ValueError, match="real.*tensor .*True = real.*torch.int64"):
        Attention(32, 4)(torch.zeros(1, 2, 32), real=torch.ones(1, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="depth.*1.*0"):
        Stack(0, 32, 4)
