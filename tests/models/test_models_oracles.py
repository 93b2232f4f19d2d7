"""GPT-2, Llama and BERT are choices of our parts: with their weights copied, the numbers are Hugging Face's."""

import pytest
import torch

from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.experts import PlainMLP

transformers = pytest.importorskip("transformers")

V, N, D, H, L = 17, 12, 24, 4, 2
TOKENS = torch.randint(V, (2, N), generator=torch.Generator().manual_seed(0))


def shaken(model):
    """All parameters random, biases and norms too, so that a forgotten one shows."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter) + (parameter.dim() == 1))
    return model.double().eval()


def fill(model, weights):
    """Every parameter of ours gets its tensor, and nothing is left over."""
    model.load_state_dict({name: tensor.detach() for name, tensor in weights.items()}, strict=True)
    return model


def linear(name, theirs, rows=slice(None)):
    """Weight and bias of a linear map (or of some rows of it)."""
    parts = {"weight": theirs.weight, "bias": theirs.bias}
    return {f"{name}.{part}": tensor[rows] for part, tensor in parts.items() if tensor is not None}


def conv(name, theirs, columns=slice(None)):
    """GPT-2 keeps its matrices the other way round."""
    return {f"{name}.weight": theirs.weight.T[columns], f"{name}.bias": theirs.bias[columns]}


def norm(name, theirs):
    shift = getattr(theirs, "bias", None)
    return {f"{name}.scale": theirs.weight} | ({} if shift is None else {f"{name}.shift": shift})


def test_gpt2():
    theirs = shaken(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=V,
                n_positions=N,
                n_embd=D,
                n_layer=L,
                n_head=H,
                activation_function="gelu",
                bos_token_id=0,
                eos_token_id=0,
            )
        )
    )
    ours = (
        Decoder(
            DecoderConfig(
                vocab=V,
                context=N,
                dim=D,
                depth=L,
                heads=H,
                position="learned",
                norm="layernorm",
                mlp=PlainMLP(activation="gelu"),
                offset=True,
                qk_norm=False,
                tied=True,
            )
        )
        .double()
        .eval()
    )
    body = theirs.transformer
    weights = {
        "embed.weight": body.wte.weight,
        "stack.position.of.table": body.wpe.weight,
        **norm("stack.norm", body.ln_f),
    }
    for i, block in enumerate(body.h):
        at = f"stack.blocks.{i}"
        for k, name in enumerate(("to_q", "to_k", "to_v")):
            weights |= conv(f"{at}.attention.f.{name}", block.attn.c_attn, slice(k * D, (k + 1) * D))
        weights |= conv(f"{at}.attention.f.mix", block.attn.c_proj) | norm(f"{at}.attention.norm", block.ln_1)
        weights |= conv(f"{at}.mlp.f.up", block.mlp.c_fc) | conv(f"{at}.mlp.f.down", block.mlp.c_proj)
        weights |= norm(f"{at}.mlp.norm", block.ln_2)
    torch.testing.assert_close(fill(ours, weights)(TOKENS), theirs(TOKENS).logits)


@pytest.mark.parametrize("kv_heads", [H, 2])
def test_llama(kv_heads):
    theirs = shaken(
        transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=V,
                hidden_size=D,
                intermediate_size=40,
                num_hidden_layers=L,
                num_attention_heads=H,
                num_key_value_heads=kv_heads,
                max_position_embeddings=N,
                rms_norm_eps=1e-6,
            )
        )
    )
    ours = (
        Decoder(
            DecoderConfig(
                vocab=V,
                context=N,
                dim=D,
                depth=L,
                heads=H,
                kv_heads=kv_heads,
                mlp=PlainMLP(activation="swiglu", hidden=40),
                qk_norm=False,
            )
        )
        .double()
        .eval()
    )
    body = theirs.model
    weights = {
        "embed.weight": body.embed_tokens.weight,
        "head.weight": theirs.lm_head.weight,
        **norm("stack.norm", body.norm),
    }
    for i, block in enumerate(body.layers):
        at = f"stack.blocks.{i}"
        names = {"to_q": "q_proj", "to_k": "k_proj", "to_v": "v_proj", "mix": "o_proj"}
        for ours_is, theirs_is in names.items():
            weights |= linear(f"{at}.attention.f.{ours_is}", getattr(block.self_attn, theirs_is))
        for name in ("gate", "up", "down"):
            weights |= linear(f"{at}.mlp.f.{name}", getattr(block.mlp, f"{name}_proj"))
        weights |= norm(f"{at}.attention.norm", block.input_layernorm) | norm(
            f"{at}.mlp.norm", block.post_attention_layernorm
        )
    their_angles_are_float32 = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(fill(ours, weights)(TOKENS), theirs(TOKENS).logits, **their_angles_are_float32)


def test_bert():
    """Its segment 0 is one vector for all tokens, so it goes into the table of places.

    Between its blocks and its head it has one more layer, and a bias after it, which we have not: they are taken out.
    """
    theirs = shaken(
        transformers.BertForMaskedLM(
            transformers.BertConfig(
                vocab_size=V,
                hidden_size=D,
                num_hidden_layers=L,
                num_attention_heads=H,
                intermediate_size=50,
                max_position_embeddings=N,
                layer_norm_eps=1e-5,
            )
        )
    )
    theirs.cls.predictions.transform = torch.nn.Identity()
    with torch.no_grad():
        theirs.cls.predictions.bias.zero_()
        theirs.cls.predictions.decoder.bias.zero_()
    ours = (
        Encoder(
            EncoderConfig(
                vocab=V,
                context=N,
                dim=D,
                depth=L,
                heads=H,
                position="learned",
                norm="layernorm",
                mlp=PlainMLP(activation="gelu", hidden=50),
                placement="post",
                offset=True,
                qk_norm=False,
                tied=True,
                embedding_norm=True,
            )
        )
        .double()
        .eval()
    )
    embeddings = theirs.bert.embeddings
    weights = {
        "embed.weight": embeddings.word_embeddings.weight,
        "stack.position.of.table": embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0],
        **norm("stack.position.norm", embeddings.LayerNorm),
    }
    for i, block in enumerate(theirs.bert.encoder.layer):
        at, attention = f"stack.blocks.{i}", block.attention
        for ours_is, theirs_is in {"to_q": "query", "to_k": "key", "to_v": "value"}.items():
            weights |= linear(f"{at}.attention.f.{ours_is}", getattr(attention.self, theirs_is))
        weights |= linear(f"{at}.attention.f.mix", attention.output.dense)
        weights |= norm(f"{at}.attention.norm", attention.output.LayerNorm)
        weights |= linear(f"{at}.mlp.f.up", block.intermediate.dense) | linear(f"{at}.mlp.f.down", block.output.dense)
        weights |= norm(f"{at}.mlp.norm", block.output.LayerNorm)
    fill(ours, weights)
    real = torch.arange(N) < torch.tensor([[N], [7]])
    found, true = ours(TOKENS, real=real), theirs(TOKENS, attention_mask=real.long()).logits
    torch.testing.assert_close(found[real], true[real])
