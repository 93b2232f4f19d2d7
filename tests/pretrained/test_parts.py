"""Parts that weights of others need: they keep the laws that their models declare, and LoRA is one matrix again."""

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.experts import PlainMLP
from regard.models.sequence_model import RopeConfig
from regard.models.vit import ViT, ViTConfig
from regard.nn.lora import LoRA, merge
from regard.nn.pool import FirstToken
from regard.pretrained.export import export
from regard.symmetry.check import check
from regard.symmetry.groups import Permutations, Shifts
from regard.verbs.evaluate import evaluate
from regard.verbs.main import main
from regard.verbs.predict import embed
from tests.pretrained.theirs import save_random

SIZES = {"vocab": 13, "context": 64, "dim": 32, "depth": 2, "heads": 4}
FIRST = {"classes": 3, "pool": "first"}
CASES = {
    "parallel, partly turned": (
        Decoder,
        DecoderConfig(
            **SIZES,
            placement="parallel",
            rope=RopeConfig(channels=4),
            norm="layernorm",
            offsets="all",
            mlp=PlainMLP(activation="gelu"),
        ),
    ),
    "yarn, wide heads, lora": (
        Decoder,
        DecoderConfig(**SIZES, rope=RopeConfig(scaling="yarn", factor=4.0, original=16), head_dim=12, lora=3),
    ),
    "first token, learned places": (
        Encoder,
        EncoderConfig(**SIZES, **FIRST, position="learned", unused_places=2, token_types=2),
    ),
    "first token, rotary": (Encoder, EncoderConfig(**SIZES, **FIRST)),
    "head of BERT": (
        Encoder,
        EncoderConfig(**SIZES, head="transform", mlp=PlainMLP(activation="gelu"), placement="post"),
    ),
    "no head": (Encoder, EncoderConfig(**SIZES, head="none", pool="first")),
    "vit": (
        ViT,
        ViTConfig(
            classes=3,
            size=12,
            patch=4,
            dim=32,
            depth=2,
            heads=4,
            pool="class_and_mean",
            registers=1,
            placed=2,
            layer_scale=0.5,
        ),
    ),
}


def build(cls, config):
    torch.manual_seed(0)
    model = cls(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


@pytest.mark.parametrize("case", list(CASES))
def test_declared_laws_hold(case):
    model = build(*CASES[case])
    report = check(model, model.sample_inputs(), symmetry=model.symmetry, roles=model.roles, trials=2)
    assert report.ok, [(each.law, each.measured) for each in report.wrong]
    assert sum(each.measured == "holds" for each in report) >= 3


def test_the_first_token_is_the_one_with_the_first_place():
    pool, x = FirstToken(8), torch.randn(2, 5, 8)
    assert pool.keeps == Shifts() and not Permutations() <= pool.keeps
    wanted = pool(x)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(pool(x[:, order], where=order + 7), wanted)
    real = torch.tensor([[False, False, True, True, True], [True] * 5])
    torch.testing.assert_close(pool(x, real)[0], torch.tanh(pool.linear(x[0, 2])))


# ── LoRA


def test_lora_begins_as_the_map_it_was_made_of_and_merges_into_one():
    plain = Decoder(DecoderConfig(**SIZES)).eval()
    small = Decoder(DecoderConfig(**SIZES, lora=3)).eval()
    small.load_state_dict(plain.state_dict(), strict=False)
    ids = torch.randint(13, (2, 9))
    with torch.no_grad():
        assert torch.equal(small(ids), plain(ids))
        for name, parameter in small.named_parameters():
            if "lora" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        plain.load_state_dict(merge(small.state_dict()))
        torch.testing.assert_close(plain(ids), small(ids), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(plain(ids), Decoder(DecoderConfig(**SIZES)).eval()(ids))


def test_only_small_maps_and_a_new_head_learn():
    for model, more in (
        (Decoder(DecoderConfig(**SIZES, lora=2)), ()),
        (Encoder(EncoderConfig(**SIZES, lora=2, **FIRST)), ("head.", "pool.")),
    ):
        learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        assert learns == {
            name for name, _ in model.named_parameters() if "lora_" in name or name.startswith(more or ("-",))
        }
        maps = [part for part in model.stack.modules() if isinstance(part, LoRA)]
        assert len(maps) == 6 * SIZES["depth"]
        model(torch.randint(13, (2, 9))).sum().backward()
        assert all(part.lora_up.grad is not None and part.weight.grad is None for part in maps)


def test_export_merges_lora():
    config = DecoderConfig(**SIZES, mlp=PlainMLP(activation="swiglu"), qk_norm=False, lora=2)
    model = build(Decoder, config)
    plain, tensors = export("decoder", config, model.state_dict())
    assert plain["model_type"] == "llama" and not [name for name in tensors if "lora" in name]
    merged = merge(model.state_dict())["stack.blocks.0.attention.f.to_q.weight"]
    assert torch.equal(tensors["model.layers.0.self_attn.q_proj.weight"], merged)


# ── vectors of texts


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    pytest.importorskip("transformers")
    from tests.pretrained.test_import_export import SIZES as THEIRS
    from tests.pretrained.test_import_export import WORDS, framed_words

    folder = tmp_path_factory.mktemp("sentences") / "mini"
    model = save_random("BertModel", THEIRS | {"vocab_size": 5 + len(WORDS)}, folder)
    framed_words(folder)
    return model, folder


def test_vectors_are_means_over_tokens(sentences, tmp_path, monkeypatch, capsys):
    from transformers import PreTrainedTokenizerFast

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    model, folder = sentences
    texts = ["the king love the night", "death", "the day was long and the queen went home"]
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    wanted = []
    for text in texts:
        with torch.no_grad():
            wanted.append(model(torch.tensor([tokenizer(text)["input_ids"]])).last_hidden_state[0].mean(0))
    wanted = torch.nn.functional.normalize(torch.stack(wanted), dim=-1).numpy()
    names, vectors = embed(folder, texts)
    assert names == texts
    np.testing.assert_allclose(vectors, wanted, atol=1e-5)
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n\n")
    out = tmp_path / "out.npz"
    assert main(["predict", str(folder), str(tmp_path / "texts.txt"), "--embeddings", str(out)]) == 0
    kept = np.load(out, allow_pickle=False)
    np.testing.assert_array_equal(kept["embeddings"], vectors)
    assert kept["texts"].tolist() == texts
    (tmp_path / "rows.csv").write_text("body,label\n" + "".join(f"{text},x\n" for text in texts))
    words = ["predict", str(folder), str(tmp_path / "rows.csv"), "--embeddings", str(out), "--data.text", "body"]
    assert main(words) == 0
    np.testing.assert_array_equal(np.load(out)["embeddings"], vectors)
    with pytest.raises(RegardError, match="npz"):
        embed(folder, texts, tmp_path / "out.csv")
    with pytest.raises(RegardError, match="no head"):
        evaluate(folder, tmp_path / "texts.txt")
