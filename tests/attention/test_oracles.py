"""Other people's implementations as independent judges: torch's SDPA and MultiheadAttention, Hugging Face's positions."""

import pytest
import torch
import torch.nn.functional as F

from regard.attention import kernels
from regard.attention.attend import attend
from regard.attention.biases import ALiBi, Buckets, alibi_slopes
from regard.attention.masks import Causal, Dense, Padding
from regard.attention.places import sides
from regard.attention.positions import Rotary, Sinusoidal

KERNELS = ("reference", "plain", "fused", "tiled")


def tokens(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kernel", KERNELS)
def test_sdpa(kernel):
    q, k, v = (tokens(3, 2, 4, 20, 8)[i] for i in range(3))
    allowed = torch.rand(2, 1, 20, 20, generator=torch.Generator().manual_seed(1)) < 0.5
    with kernels.only(kernel):
        torch.testing.assert_close(attend(q, k, v), F.scaled_dot_product_attention(q, k, v))
        torch.testing.assert_close(
            attend(q, k, v, mask=Causal()), F.scaled_dot_product_attention(q, k, v, is_causal=True)
        )
        masked = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=0.3)
        torch.testing.assert_close(attend(q, k, v, mask=Dense(allowed), scale=0.3), masked)
        few = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
        torch.testing.assert_close(attend(q, k[:, :2], v[:, :2]), few)
        lower_right = torch.ones(5, 20, dtype=torch.bool).tril(15)
        last = F.scaled_dot_product_attention(q[:, :, -5:], k, v, attn_mask=lower_right)
        torch.testing.assert_close(attend(q[:, :, -5:], k, v, mask=Causal()), last)


def test_multihead_attention_with_padding():
    """torch's mask says True = hidden; ours says True = may attend."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True, dtype=torch.float64)
    x, lengths = tokens(2, 6, 16), torch.tensor([6, 4])
    hidden = torch.arange(6) >= lengths[:, None]
    out, weights = theirs(x, x, x, key_padding_mask=hidden, average_attn_weights=False)
    q, k, v = F.linear(x, theirs.in_proj_weight, theirs.in_proj_bias).chunk(3, -1)
    split = [y.unflatten(-1, (4, 4)).transpose(1, 2) for y in (q, k, v)]
    ours = attend(*split, mask=Padding(lengths))
    torch.testing.assert_close(theirs.out_proj(ours.transpose(1, 2).flatten(2)), out)
    identity = torch.eye(6, dtype=torch.float64).expand(2, 4, 6, 6)
    torch.testing.assert_close(attend(split[0], split[1], identity, mask=Padding(lengths)), weights)


def test_rotary_in_halves_is_llamas():
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(hidden_size=32, num_attention_heads=2, num_hidden_layers=1, vocab_size=8)
    q, k = tokens(2, 3, 2, 9, 16, dtype=torch.float32)
    where = torch.arange(9)[None] + 5
    cos, sin = LlamaRotaryEmbedding(config)(q, where)
    their_q, their_k = apply_rotary_pos_emb(q, k, cos, sin)
    torch.testing.assert_close(Rotary(16).turn(q, where), their_q)
    torch.testing.assert_close(Rotary(16).turn(k, None, first=5), their_k)


def test_rotary_interleaved_is_gptjs():
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    q = tokens(2, 3, 9, 16, dtype=torch.float32)
    sin, cos = create_sinusoidal_positions(20, 16)[4:13].chunk(2, -1)
    theirs = apply_rotary_pos_emb(q.transpose(1, 2), sin[None], cos[None]).transpose(1, 2)
    torch.testing.assert_close(Rotary(16, interleaved=True).turn(q, first=4), theirs)


@pytest.mark.parametrize("heads", [1, 2, 4, 6, 8, 12, 16, 20])
def test_alibi_slopes_are_blooms(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    # (b h) 1 m: slope · place of the key
    theirs = build_alibi_tensor(torch.ones(1, 10), heads, torch.float32)
    torch.testing.assert_close(torch.tensor(alibi_slopes(heads)), theirs[:, 0, 1])


def test_alibi_under_a_causal_mask_is_blooms():
    """Bloom adds slope·there, we add −slope·(here − there): a row's constant, which softmax does not see."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    q, k, v = (tokens(3, 2, 6, 10, 8)[i] for i in range(3))
    theirs = build_alibi_tensor(torch.ones(2, 10), 6, torch.float64).view(2, 6, 1, 10)
    scores = (q @ k.mT) * 8**-0.5 + theirs
    scores = scores.masked_fill(torch.ones(10, 10, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(attend(q, k, v, mask=Causal(), bias=ALiBi(6)), scores.softmax(-1) @ v)


@pytest.mark.parametrize("both_directions", [True, False])
def test_buckets_are_t5s(both_directions):
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=32, d_kv=8, num_heads=4, is_decoder=not both_directions)
    theirs = T5Attention(config, has_relative_attention_bias=True)
    ours = Buckets(4, both_directions=both_directions)
    with torch.no_grad():
        ours.table.copy_(theirs.relative_attention_bias.weight)
    here, there = sides(None, 300, 300, 1, torch.device("cpu"))
    expected = theirs.compute_bias(300, 300)
    torch.testing.assert_close(ours.scores(torch.zeros(1, 4, 300, 8), here, there), expected)


def test_sinusoidal_is_the_formula():
    code = Sinusoidal(6).code(torch.tensor([[0, 1, 50]]))[0]
    for i in range(3):
        angle = torch.tensor([0.0, 1.0, 50.0], dtype=torch.float64) / 10_000 ** (2 * i / 6)
        torch.testing.assert_close(code[:, 2 * i], angle.sin())
        torch.testing.assert_close(code[:, 2 * i + 1], angle.cos())
