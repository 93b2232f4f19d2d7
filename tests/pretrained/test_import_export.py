"""Weights of others as a run, and runs as directories of Hugging Face: by Python and by the command line."""

import csv
import json
import os

import numpy as np
import pytest
import torch

from regard import files
from regard.errors import RegardError
from regard.models.attentions import WindowAttention
from regard.models.decoder import DecoderConfig
from regard.models.experts import PlainMLP
from regard.models.swin import SwinConfig
from regard.models.vit import ViTConfig
from regard.pretrained.export import find_family
from regard.runs.run import Run
from regard.targets.imported import import_weights, open_run
from regard.verbs.evaluate import evaluate
from regard.verbs.generate import generate
from regard.verbs.load import load
from regard.verbs.main import main
from regard.verbs.predict import predict
from regard.verbs.pretrained import export_run
from regard.verbs.train import train
from tests.pretrained.theirs import save_random

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXT = "the king and the queen of the night went home and the day was long " * 60
WORDS = sorted({*TEXT.split(), "love", "death"})
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 48,
}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def byte_level(path):
    """A tokenizer of bytes, as a tokenizer.json."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={sign: i for i, sign in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(path / "tokenizer.json"))


def framed_words(path):
    """A tokenizer of words with [CLS] before and [SEP] after a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    signs = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*signs, *WORDS])}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(signs)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.save(str(path / "tokenizer.json"))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder") / "tiny"
    model = save_random("LlamaForCausalLM", SIZES | {"vocab_size": 260}, folder)  # four more than the tokenizer
    byte_level(folder)
    return model, folder


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2") / "gpt2"
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 48, "vocab_size": 256}
    model = save_random("GPT2LMHeadModel", sizes | {"bos_token_id": 0, "eos_token_id": 0}, folder)
    byte_level(folder)
    return model, folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier") / "stars"
    labels = {0: "bad", 1: "good", 2: "so"}
    sizes = SIZES | {"vocab_size": 5 + len(WORDS), "id2label": labels}
    model = save_random("BertForSequenceClassification", sizes, folder)
    framed_words(folder)
    return model, folder


def test_a_directory_is_a_target_of_every_command(decoder, tmp_path):
    model, folder = decoder
    ours = load(folder)
    ids = torch.tensor([[5, 200, 17]])
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), model(ids).logits, rtol=1e-5, atol=1e-5)
    text = "".join(generate(folder, "the king", max_new=6, seed=1))
    assert text == "".join(generate(ours, "the king", max_new=6, seed=1))
    greedy = ours.tokenizer.encode("the king").tolist()
    with torch.no_grad():
        for _ in range(6):
            greedy.append(int(model(torch.tensor([greedy])).logits[0, -1, :256].argmax()))
    expected = ours.tokenizer.decode(greedy)
    assert "the king" + "".join(generate(ours, "the king", max_new=6, temperature=0)) == expected
    (tmp_path / "mine.txt").write_text(TEXT)
    measured = evaluate(folder, tmp_path / "mine.txt").measures
    assert 0 < measured["loss"] < 20
    with pytest.raises(RegardError, match="give the data with data="):
        evaluate(folder)
    assert open_run(folder).path == open_run(folder).path  # imported once
    assert open_run(folder).config.imported == "llama"


def test_a_text_ends_where_the_model_ends_it(decoder, tmp_path):
    model, folder = decoder
    place = tmp_path / "ends"
    model.save_pretrained(place)
    plain = json.loads((folder / "tokenizer.json").read_text())
    ids = load(folder).tokenizer.encode("the king").tolist()
    with torch.no_grad():
        for _ in range(3):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1, :256].argmax()))
    sign = {"id": ids[-1], "content": "<end>", "special": True, "single_word": False, "lstrip": False}
    vocabulary = {token: id for token, id in plain["model"]["vocab"].items() if id != ids[-1]}
    plain["model"]["vocab"] = vocabulary | {"<end>": ids[-1]}
    files.write_json(
        place / "tokenizer.json", plain | {"added_tokens": [sign | {"rstrip": False, "normalized": False}]}
    )
    files.write_json(place / "generation_config.json", {"eos_token_id": [ids[-1]]})
    whole = "".join(generate(place, "the king", max_new=20, temperature=0))
    assert "<end>" not in whole and len(whole) < 20
    assert load(place).tokenizer.ends == ("<end>",)
    assert len("".join(generate(folder, "the king", max_new=20, temperature=0))) > len(whole)


def test_fine_tuning_begins_with_the_weights(gpt2, tmp_path):
    _, folder = gpt2
    (tmp_path / "mine.txt").write_text(TEXT)
    options = {"train.batch": 4, "train.precision": "float32", "data.context": 32}
    run = train(
        "text",
        data=tmp_path / "mine.txt",
        start=folder,
        out=tmp_path / "run",
        steps=25,
        options=options | {"train.lr": 0.003},
        observers=[],
        report=False,
    )
    assert run.config.train["optimiser"] == "adamw" and run.config.imported == "gpt2"
    before = evaluate(folder, tmp_path / "mine.txt").measures["loss"]
    after = evaluate(run.path, tmp_path / "mine.txt").measures["loss"]
    assert after < before - 0.5
    out, _ = export_run(run.path, tmp_path / "hf")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(out).eval()
    ids = torch.tensor([[5, 200, 17]])
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, load(run.path)(ids), rtol=1e-5, atol=1e-5)


def test_a_classifier_reads_texts_as_theirs_does_and_goes_back(classifier, tmp_path):
    model, folder = classifier
    text = "the king love the night"
    found = predict(folder, text)[0].labels
    ids = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))(text)["input_ids"]
    assert (ids[0], ids[-1]) == (2, 3)
    with torch.no_grad():
        wanted = model(torch.tensor([ids])).logits.softmax(-1)[0]
    assert {label: pytest.approx(float(wanted[i]), abs=1e-5) for i, label in model.config.id2label.items()} == dict(
        found
    )
    run, _ = import_weights(folder, tmp_path / "run")
    out, notes = export_run(run.path, tmp_path / "hf")
    assert notes == ()
    again = transformers.AutoModelForSequenceClassification.from_pretrained(out).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    assert again.config.id2label == model.config.id2label and tokenizer(text)["input_ids"] == ids
    with torch.no_grad():
        torch.testing.assert_close(again(torch.tensor([ids])).logits.softmax(-1)[0], wanted)
    assert "good" in (out / "README.md").read_text()


@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertModel"])
def test_an_encoder_is_a_start_for_a_classifier(name, tmp_path):
    folder = tmp_path / "bert"
    save_random(name, SIZES | {"vocab_size": 5 + len(WORDS)}, folder)
    framed_words(folder)
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        rows.writerows(
            [f"the {'love' if i % 2 else 'death'} of the king", "good" if i % 2 else "bad"] for i in range(40)
        )
    run = train(
        "text",
        data=tmp_path / "rows.csv",
        start=folder,
        out=tmp_path / "run",
        steps=30,
        options={"train.batch": 8, "train.lr": 0.003},
        observers=[],
        report=False,
    )
    assert next(iter(predict(run.path, "the love of the king")[0].labels)) == "good"
    assert next(iter(predict(run.path, "the death of the king")[0].labels)) == "bad"
    assert evaluate(run.path, tmp_path / "rows.csv").measures["accuracy"] == 1.0
    if name == "BertModel":  # a sentence encoder is pooled by the mean, which their classifier does not know
        with pytest.raises(RegardError, match="pool='mean'"):
            export_run(run.path, tmp_path / "hf")
        return
    out, _ = export_run(run.path, tmp_path / "hf")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(out).eval()
    ids = transformers.AutoTokenizer.from_pretrained(out)("the love of the king", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert theirs.config.id2label[int(theirs(ids).logits.argmax())] == "good"
    loss = evaluate(folder, _written(tmp_path / "plain.txt", TEXT)).measures["loss"]
    assert 0 < loss < 20


def _written(path, text):
    path.write_text(text)
    return path


def test_images_come_in_and_go_out(tmp_path):
    from PIL import Image

    folder = tmp_path / "vit"
    sizes = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
    options = sizes | {"image_size": 16, "patch_size": 4, "id2label": {0: "cat", 1: "dog"}}
    model = save_random("ViTForImageClassification", options, folder)
    light = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]}
    files.write_json(folder / "preprocessor_config.json", light | {"do_normalize": True})
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "one.png")
    found = dict(predict(folder, str(tmp_path / "one.png"))[0].labels)
    x = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    x = (x - torch.tensor(light["image_mean"]).view(3, 1, 1)) / torch.tensor(light["image_std"]).view(3, 1, 1)
    with torch.no_grad():
        wanted = model(x).logits.softmax(-1)[0]
    assert found == {"cat": pytest.approx(float(wanted[0]), abs=1e-5), "dog": pytest.approx(float(wanted[1]), abs=1e-5)}
    run, _ = import_weights(folder, tmp_path / "run")
    out, _ = export_run(run.path, tmp_path / "hf")
    settings = json.loads((out / "preprocessor_config.json").read_text())
    assert settings["image_mean"] == pytest.approx(light["image_mean"])
    again = transformers.AutoModelForImageClassification.from_pretrained(out).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(x).logits.softmax(-1)[0], wanted)


def test_models_without_a_head_are_loaded(tmp_path):
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 16, "patch_size": 4}
    model = save_random("Dinov2Model", sizes, tmp_path / "dino")
    x = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(load(tmp_path / "dino")(x), model(x).last_hidden_state[:, 0], rtol=1e-5, atol=1e-5)


def test_a_directory_without_tokenizer_says_what_is_missing(tmp_path, capsys):
    folder = tmp_path / "bare"
    model = save_random("LlamaForCausalLM", SIZES | {"vocab_size": 30}, folder)
    ids = torch.tensor([[5, 20, 17]])
    with torch.no_grad():
        torch.testing.assert_close(load(folder)(ids), model(ids).logits, rtol=1e-5, atol=1e-5)
    assert main(["import", str(folder), "--out", str(tmp_path / "run")]) == 0
    assert "tokenizer.json" in capsys.readouterr().err
    assert main(["generate", str(tmp_path / "run"), "--prompt", "x"]) == 2
    assert "tokenizer" in capsys.readouterr().err


def test_commands_say_what_they_did_and_refuse(decoder, tmp_path, capsys):
    _, folder = decoder
    run, out = str(tmp_path / "run"), str(tmp_path / "hf")
    assert main(["import", str(folder), "--out", run]) == 0
    assert "llama" in capsys.readouterr().out
    assert main(["export", run, "--to", "hf", "--out", out]) == 0
    assert sorted(each.name for each in (tmp_path / "hf").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    capsys.readouterr()
    for words, said in (
        (["import", str(folder), "--out", run], "holds a run already"),
        (["import", str(folder)], "--out"),
        (["import", str(tmp_path / "nothing"), "--out", out + "2"], "nothing"),
        (["export", run, "--out", out], "is there already"),
        (["export", run, "--to", "onnx", "--out", out + "2"], "hf"),
        (["export", str(folder), "--out", out + "2"], "not a run"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "hf2").exists()
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    assert Run.open(run).config.kind == "decoder"


def test_gguf_is_a_target_too(decoder, tmp_path, capsys):
    pytest.importorskip("gguf")
    from tests.pretrained.test_gguf import write_gguf

    model, _ = decoder
    path = write_gguf(tmp_path / "tiny.gguf", model)
    ids = torch.tensor([[5, 20, 17]])
    with torch.no_grad():
        torch.testing.assert_close(load(path)(ids), model(ids).logits, rtol=1e-5, atol=1e-5)
    assert main(["check", str(path), "--laws", "causality"]) == 0
    assert "causality" in capsys.readouterr().out


def test_the_cache_drops_what_was_used_longest_ago(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    sizes = SIZES | {"vocab_size": 30, "num_hidden_layers": 1}
    for i in range(3):
        save_random("LlamaForCausalLM", sizes, tmp_path / f"m{i}", seed=i)
    first = open_run(tmp_path / "m0")
    size = first.model_file.stat().st_size
    monkeypatch.setattr("regard.data.cache.MOST_BYTES", int(2.5 * size))
    os.utime(open_run(tmp_path / "m1").path / "config.json", (1, 1))
    os.utime(first.path / "config.json", (0, 0))
    open_run(tmp_path / "m0")  # it was used now
    open_run(tmp_path / "m2")
    left = sorted(each.name[:2] for each in (tmp_path / "cache" / "imported").iterdir())
    assert left == ["m0", "m2"]
    (tmp_path / "m0" / "config.json").write_text((tmp_path / "m0" / "config.json").read_text() + " ")
    assert open_run(tmp_path / "m0").path != first.path  # a changed file is another import


# ── what cannot be represented


@pytest.mark.parametrize(
    "name, value",
    [
        ("rope_scaling", {"rope_type": "dynamic", "factor": 2.0}),
        ("rope_scaling", {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}),
        ("hidden_act", "gelu"),
        ("quantization_config", {"bits": 4}),
        ("sliding_window", 12),
        ("something_new", 3),
        ("num_hidden_layers", 10**9),
        ("num_hidden_layers", "two"),
        ("architectures", ["LlamaForSequenceClassification"]),
        ("model_type", "mamba"),
        ("vocab_size", 99),
        ("vocab_size", -1),
        ("head_dim", 3),
        ("tie_word_embeddings", True),
        ("num_hidden_layers", 1),
        ("num_hidden_layers", 3),
    ],
)
def test_what_cannot_be_represented_is_refused_by_its_name(name, value, decoder, tmp_path):
    _, folder = decoder
    plain = json.loads((folder / "config.json").read_text())
    if name == "rope_scaling":
        del plain["rope_parameters"]
    if name in ("num_hidden_layers", "vocab_size", "head_dim", "tie_word_embeddings"):
        words = "layers|num_hidden|vocab|embed|head_dim|q_proj|lm_head|rotary"
    else:
        words = str(value[0] if name == "architectures" else value if name == "model_type" else name)
        words = value.get("rope_type", name) if isinstance(value, dict) else words
    files.write_json(tmp_path / "config.json", plain | {name: value})
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    with pytest.raises(RegardError, match=words) as refused:
        import_weights(tmp_path, tmp_path / "run")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_damaged_weights_are_refused(decoder, tmp_path):
    _, folder = decoder
    tensors = files.read_tensors(folder / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    changes = {
        "more": tensors | {"model.layers.0.mlp.extra.weight": torch.zeros(2)},
        "less": {key: value for key, value in tensors.items() if key != name},
        "shape": tensors | {name: torch.zeros(3, 3)},
        "nan": tensors | {name: tensors[name] * torch.nan},
    }
    words = {"more": "mlp.extra", "less": "up_proj", "shape": r"\(3, 3\)", "nan": "NaN"}
    for case, changed in changes.items():
        place = tmp_path / case
        place.mkdir()
        (place / "config.json").write_text((folder / "config.json").read_text())
        files.write_tensors(place / "model.safetensors", changed)
        with pytest.raises(RegardError, match=words[case]):
            load(place)
    whole = (folder / "model.safetensors").read_bytes()
    (tmp_path / "less" / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RegardError, match="model.safetensors"):
        load(tmp_path / "less")
    (tmp_path / "less" / "model.safetensors").rename(tmp_path / "less" / "pytorch_model.bin")
    with pytest.raises(RegardError, match="pickle"):
        load(tmp_path / "less")


def test_shards_are_put_together(decoder, tmp_path):
    model, _ = decoder
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ids = torch.tensor([[5, 20, 17]])
    with torch.no_grad():
        torch.testing.assert_close(load(tmp_path)(ids), model(ids).logits, rtol=1e-5, atol=1e-5)
    index = tmp_path / "model.safetensors.index.json"
    plain = json.loads(index.read_text())
    plain["weight_map"]["lm_head.weight"] = "../elsewhere.safetensors"
    files.write_json(index, plain)
    with pytest.raises(RegardError, match="elsewhere"):
        load(tmp_path)


@pytest.mark.parametrize(
    "kind, config, family",
    [
        ("decoder", DecoderConfig(vocab=9, mlp=PlainMLP(activation="swiglu"), qk_norm=False), "llama"),
        (
            "decoder",
            DecoderConfig(
                vocab=9, mlp=PlainMLP(activation="swiglu"), qk_norm=False, attention=WindowAttention(width=7)
            ),
            "mistral",
        ),
        (
            "decoder",
            DecoderConfig(vocab=9, mlp=PlainMLP(activation="swiglu"), qk_norm=True, kv_heads=2, tied=True),
            "qwen3",
        ),
        (
            "decoder",
            DecoderConfig(
                vocab=9,
                mlp=PlainMLP(activation="gelu"),
                norm="layernorm",
                qk_norm=False,
                position="learned",
                offset=True,
            ),
            "gpt2",
        ),
        ("swin", SwinConfig(classes=3), "swin"),
        ("vit", ViTConfig(classes=3, placed=1), "vit"),
    ],
)
def test_the_family_of_a_config_is_found(kind, config, family):
    assert find_family(kind, config).model_type == family


def test_a_model_that_nobody_else_has_is_refused_by_its_options():
    with pytest.raises(RegardError, match="mlp.activation='relu2'"):
        find_family("decoder", DecoderConfig(vocab=9))
    with pytest.raises(RegardError, match="ngrams=3"):
        find_family("decoder", DecoderConfig(vocab=9, mlp=PlainMLP(activation="swiglu"), ngrams=3))
    with pytest.raises(RegardError, match="lstm"):
        find_family("lstm", None)
