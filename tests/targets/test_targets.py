"""What a command is pointed at: runs, Hugging Face directories and functions become models with inputs, or one line."""

import json
import re
import sys

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from torch import nn

from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder
from regard.runs.new_run import create_run
from regard.symmetry.check import check
from regard.symmetry.groups import Permutations
from regard.symmetry.roles import Roles, Stream
from regard.targets.open import hugging_face, open_target
from regard.targets.promises import is_causal

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

TEXT = {"vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
GPT = {
    "vocab_size": 90,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 7,
    "eos_token_id": 8,
}
T5 = {
    "vocab_size": 90,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
VIT = {"image_size": 16, "patch_size": 4} | {key: value for key, value in TEXT.items() if key != "vocab_size"}


def built(name, config, **options):
    """A small one with random weights."""
    torch.manual_seed(0)
    return getattr(transformers, name)(getattr(transformers, config)(**options)).eval()


def gpt2():
    return built("GPT2LMHeadModel", "GPT2Config", **GPT)


def bert():
    return built("BertForMaskedLM", "BertConfig", max_position_embeddings=64, **TEXT)


def t5():
    return built("T5ForConditionalGeneration", "T5Config", **T5)


def vit():
    return built("ViTForImageClassification", "ViTConfig", **VIT)


def refused(text, **how):
    """The words with which a target is refused: one line."""
    with pytest.raises(ValueError, match="^[^\\n]+$") as caught:
        open_target(text, **how)
    return str(caught.value)


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────


def saved_run(folder, model, kind):
    run = create_run(folder, {"kind": kind, "model": model.config})
    run.publish(save(model.state_dict()))
    return folder


def test_a_run_is_its_model_with_ids_of_its_own(tmp_path):
    model = Decoder(DecoderConfig(vocab=5, context=8, dim=16, depth=1, heads=2))
    target = open_target(saved_run(tmp_path / "mine", model, "decoder"))
    assert target.name == "mine"
    assert target.symmetry == model.symmetry
    assert target.roles.stream.tokens == "tokens"
    tokens = target.inputs["tokens"]
    assert tokens.shape == (3, 8) and set(tokens.unique().tolist()) == set(range(5))
    torch.testing.assert_close(target.model(tokens), model.eval()(tokens))


def test_the_size_and_the_seed_of_inputs_can_be_chosen(tmp_path):
    model, _ = Encoder.tiny()
    saved_run(tmp_path / "mine", model, "encoder")
    first, again, other = (
        open_target(tmp_path / "mine", seed=seed, tokens=5, rows=2).inputs["tokens"] for seed in (0, 0, 1)
    )
    assert first.shape == (2, 5)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert refused(tmp_path / "mine", tokens=0) == "tokens must be at least 1, got 0"


def test_a_run_without_weights_says_so(tmp_path):
    model, _ = Decoder.tiny()
    create_run(tmp_path / "mine", {"kind": "decoder", "model": model.config})
    assert "has no model.safetensors yet" in refused(tmp_path / "mine")


# ── Hugging Face directories ────────────────────────────────────────────────────────────────────────────────


def test_a_directory_is_its_model_with_its_weights(tmp_path):
    model = gpt2()
    model.save_pretrained(tmp_path / "small")
    target = open_target(str(tmp_path / "small"))
    assert type(target.model) is type(model) and target.name == "small" and not target.model.training
    torch.testing.assert_close(target.model(**target.inputs).logits, model(**target.inputs).logits)


def test_without_weights_they_are_random_by_the_seed(tmp_path):
    model = gpt2()
    model.config.architectures = ["GPT2LMHeadModel"]
    model.config.save_pretrained(tmp_path)
    before = torch.get_rng_state()
    first, again, other = (open_target(tmp_path, seed=seed).model.transformer.wte.weight for seed in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_the_class_is_what_the_config_names_or_the_body(tmp_path):
    config = gpt2().config
    for name, expected in (("GPT2ForSequenceClassification", "GPT2ForSequenceClassification"), ("MyOwn", "GPT2Model")):
        config.architectures = [name]
        config.pad_token_id = 0
        config.save_pretrained(tmp_path / name)
        assert type(open_target(tmp_path / name).model).__name__ == expected


def directory(path, **config):
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_code_that_comes_with_a_model_is_never_run(tmp_path):
    path = directory(tmp_path / "theirs", model_type="theirs", auto_map={"AutoModel": "code.Model"})
    (path / "code.py").write_text("boom = 1 / 0")
    assert "needs code of its own ('auto_map' in its config.json), which is never run" in refused(tmp_path / "theirs")


def test_an_auto_map_that_is_not_needed_is_no_matter(tmp_path):
    config = gpt2().config.to_dict() | {"auto_map": {"AutoModel": "code.Model"}, "architectures": ["GPT2LMHeadModel"]}
    (directory(tmp_path / "known", **config) / "code.py").write_text("boom = 1 / 0")
    assert type(open_target(tmp_path / "known").model).__name__ == "GPT2LMHeadModel"


def test_pickled_weights_are_never_opened(tmp_path):
    gpt2().config.save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    assert "has its weights only in pytorch_model.bin, a pickle, which is never opened; save them as" in refused(
        tmp_path
    )


def renamed(tensors, old, new):
    return {name.replace(old, new): tensor for name, tensor in tensors.items()}


NO_FIT = [
    (gpt2, {"n_embd": 64}, None, ["mismatched", "transformer.h.0.attn.c_attn.bias (96,) in the file, (192,) in"]),
    (gpt2, {"n_layer": 3}, None, ["missing", "transformer.h.2.attn.c_attn.bias"]),
    (gpt2, {"n_layer": 1}, None, ["unexpected", "transformer.h.1.attn.c_attn.weight"]),
    (gpt2, {"architectures": ["GPT2ForSequenceClassification"]}, None, ["missing score.weight"]),
    (gpt2, {}, lambda found: renamed(found, "h.1.mlp.c_fc.bias", "h.1.mlp.c_fc.bais"), ["missing", "bias", "bais"]),
    (gpt2, {}, lambda found: {"x": torch.ones(2)}, ["missing", "and", "more", "unexpected x"]),
    (gpt2, {}, lambda found: found | {"transformer.wte.weight": torch.ones(3, 3)}, ["mismatched", "(3, 3) in the"]),
    (gpt2, {}, lambda found: found | {"transformer.wpe.weight": found["transformer.wpe.weight"] / 0}, ["wpe", "NaN"]),
    (bert, {"num_hidden_layers": 1}, None, ["unexpected", "bert.encoder.layer.1."]),
    (bert, {"vocab_size": 9}, None, ["mismatched", "bert.embeddings.word_embeddings.weight"]),
    (vit, {"qkv_bias": False}, None, ["unexpected", "bias"]),
    (vit, {"hidden_size": 64}, None, ["mismatched", "vit.embeddings.cls_token"]),
    (t5, {"num_layers": 1}, None, ["unexpected", "encoder.block.1."]),
]


@pytest.mark.parametrize("make, change, spoil, words", NO_FIT)
def test_weights_that_do_not_fit_are_refused_with_their_names(tmp_path, make, change, spoil, words):
    """Today's library fills what is missing with random numbers: what is measured would not be that model."""
    make().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    if spoil is not None:
        file = tmp_path / "model.safetensors"
        save_file(spoil(load_file(file)), file, {"format": "pt"})
    said = refused(tmp_path)
    assert str(tmp_path) in said and all(word in said for word in words), said


def test_weights_of_a_head_that_is_not_asked_for_are_left_out_and_told(tmp_path):
    """A body alone, and constants that older versions saved."""
    model = gpt2()
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    more = {"transformer.h.0.attn.masked_bias": torch.ones(1), "other_head.dense.weight": torch.ones(2, 2)}
    save_file(load_file(file) | more, file, {"format": "pt"})
    target = open_target(tmp_path)
    (note,) = target.notes
    assert "other_head.dense.weight" in note and "left out" in note
    assert torch.equal(target.model.lm_head.weight, model.lm_head.weight)


def test_transformers_that_are_not_installed_are_asked_for(tmp_path, monkeypatch):
    directory(tmp_path / "gpt", model_type="gpt2")
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert (
        refused(tmp_path / "gpt")
        == "a Hugging Face model needs transformers; install it with: pip install 'regard[hf]'"
    )


def test_directories_that_are_no_target_say_why(tmp_path):
    assert "knows no model_type 'lama'; did you mean 'llama'?" in refused(directory(tmp_path / "a", model_type="lama"))
    assert "is of no run (no 'regard' in it) and of no Hugging Face model" in refused(
        directory(tmp_path / "b", other=1)
    )
    (tmp_path / "c").mkdir()
    assert "has no config.json; give a run directory, a Hugging Face model directory, a GGUF file, or" in refused(
        tmp_path / "c"
    )
    (tmp_path / "c" / "config.json").write_text("{")
    assert "config.json is not JSON: line 1, column 2" in refused(tmp_path / "c")
    assert "config.json is a file; give a run directory" in refused(tmp_path / "c" / "config.json")
    assert refused("no/such/place").startswith("there is no directory 'no/such/place'; give a run directory")


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────

MODULE = """
import torch
from torch import nn
from regard.symmetry.groups import Permutations
from regard.symmetry.roles import Roles, Stream

model, x, not_a_function = nn.Linear(3, 2), torch.ones(4, 3), 7
def two(): return model, x
def three(): return model, (x,), Permutations()
def four(): return model, {"input": x}, None, Roles(streams=(Stream("input"),))
def one(): return model
def five(): return model, x, None, None, None
def no_model(): return 3, x
def no_inputs(): return model, None
def no_roles(): return model, x, None, "tokens"
def roles_too_early(): return model, x, Roles()
def fails(): return 1 / 0
def needs(size, other=2): return model, x
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module in the current directory, which is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "targets_of_mine.py").write_text(MODULE)
    (tmp_path / "targets_broken.py").write_text("import targets_not_there")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    yield "targets_of_mine"
    for name in ("targets_of_mine", "targets_broken"):
        sys.modules.pop(name, None)


def test_a_function_gives_a_model_with_all_that_is_known(mine):
    before = list(sys.path)
    two, three, four = (open_target(f"{mine}:{name}") for name in ("two", "three", "four"))
    assert sys.path == before
    for target in (two, three, four):
        assert isinstance(target.model, nn.Linear) and list(target.inputs) == ["input"]
    assert (two.symmetry, two.roles, two.name) == (None, None, "targets_of_mine:two")
    assert three.symmetry == Permutations()
    assert four.roles == Roles(streams=(Stream("input"),))


@pytest.mark.parametrize(
    "name, words",
    [
        ("one", r"Linear.*\(model, inputs\[, symmetry\[, roles\]\]\)"),
        ("five", r"5.*\(model, inputs"),
        ("no_model", r"model.*torch\.nn\.Module"),
        ("no_inputs", "NoneType.*inputs.*tensor"),
        ("no_roles", r"roles.*regard\.symmetry\.roles\.Roles"),
        ("roles_too_early", r"roles.*symmetry.*\(model, inputs, None, roles\)"),
        ("fails", "targets_of_mine:fails.*ZeroDivisionError"),
        ("needs", "targets_of_mine:needs.*size.*function.*arguments"),
        ("not_a_function", "targets_of_mine:not_a_function.*function"),
        ("fuor", "targets_of_mine.*function 'fuor'.*'four'"),
    ],
)
def test_a_function_that_is_no_target_says_why(mine, name, words):
    assert re.search(words, refused(f"{mine}:{name}"))


def test_modules_that_cannot_be_imported_say_why(mine):
    assert "nowhere.at_all:f: there is no module 'nowhere' in " in refused("nowhere.at_all:f")
    assert refused("targets_broken:f").startswith("targets_broken cannot be imported: ModuleNotFoundError")


# ── models of Hugging Face ──────────────────────────────────────────────────────────────────────────────────


def test_a_decoder_reads_ordinary_ids_and_promises_a_decoder_s_laws():
    target = hugging_face(gpt2())
    assert target.inputs["input_ids"].shape == (3, 12)
    assert not {7, 8} & set(target.inputs["input_ids"].unique().tolist())
    stream = target.roles.stream
    assert stream == Stream("input_ids", mask="attention_mask", places="position_ids", sides=("right", "left"))
    assert target.roles.promises["causality"] == "holds"
    assert target.roles.promises["permutation"] == "not promised"


def test_an_encoder_promises_no_causality_and_gets_types():
    target = hugging_face(bert(), tokens=9, rows=2)
    assert target.inputs["input_ids"].shape == target.inputs["token_type_ids"].shape == (2, 9)
    assert target.inputs["token_type_ids"].unique().tolist() == [0, 1]
    assert target.roles.stream.along == ("token_type_ids",)
    assert target.roles.step is None and target.roles.promises["causality"] == "not promised"


def test_an_encoder_decoder_follows_its_decoder():
    target = hugging_face(t5())
    assert [(stream.tokens, stream.mask) for stream in target.roles.streams] == [
        ("decoder_input_ids", "decoder_attention_mask"),
        ("input_ids", "attention_mask"),
    ]
    assert target.roles.promises["causality"] == "holds"


@pytest.mark.parametrize(
    "make, laws",
    [
        (gpt2, {"padding", "neighbours", "causality", "cache", "determinism", "reach"}),
        (bert, {"padding", "neighbours", "determinism", "reach"}),
        (t5, {"padding", "neighbours", "causality", "cache", "determinism", "reach"}),
        (vit, {"neighbours", "determinism"}),
    ],
)
def test_correct_models_keep_what_they_promise(make, laws):
    target = hugging_face(make())
    report = check(target.model, target.inputs, roles=target.roles, trials=2)
    assert report.ok
    assert laws <= {finding.law for finding in report if finding.declared == "holds" and finding.measured == "holds"}


def test_a_planted_break_is_seen():
    target = hugging_face(gpt2())
    target.model.transformer.h[1].ln_1.register_forward_hook(lambda module, args, out: out + out.mean(1, keepdim=True))
    report = check(target.model, target.inputs, roles=target.roles, trials=2, laws=["causality", "cache", "padding"])
    assert [finding.measured for finding in report if " in " not in finding.law] == ["broken", "broken", "broken"]
    assert report["causality"].layer == "transformer.h.1.ln_1"


def test_steps_carry_the_mask_and_the_past():
    """Left padding in the past must stay hidden from new tokens."""
    target = hugging_face(gpt2(), rows=1)
    model, ids = target.model, target.inputs["input_ids"]
    mask = torch.ones_like(ids)
    mask[:, :3] = 0
    places = (mask.cumsum(1) - 1).clamp(min=0)
    whole = model(input_ids=ids, attention_mask=mask, position_ids=places).logits
    state = None
    for part in (slice(0, 5), slice(5, 6), slice(6, None)):
        inputs = {"input_ids": ids[:, part], "attention_mask": mask[:, part], "position_ids": places[:, part]}
        out, state = target.roles.step(model, inputs, state)
        torch.testing.assert_close(out.logits[:, -1], whole[:, : part.stop][:, -1])


@pytest.mark.parametrize(
    "name, config, options, causal",
    [
        ("BertModel", "BertConfig", {}, False),
        ("BertLMHeadModel", "BertConfig", {"is_decoder": True}, True),
        ("GPTNeoXModel", "GPTNeoXConfig", {}, True),  # its configuration says is_decoder=False
        ("MambaModel", "MambaConfig", {}, True),  # no attention that could say so
        ("OpenAIGPTModel", "OpenAIGPTConfig", {"n_layer": 2, "n_embd": 32, "n_head": 4}, True),  # no cache
        ("DistilBertModel", "DistilBertConfig", {"n_layers": 2, "dim": 32, "n_heads": 4, "hidden_dim": 48}, False),
    ],
)
def test_which_look_back_only(name, config, options, causal):
    sizes = TEXT if name not in ("OpenAIGPTModel", "DistilBertModel") else {"vocab_size": 90}
    model = built(name, config, **sizes | options)
    assert is_causal(model) is causal
    target = hugging_face(model)
    broken = (
        check(model, target.inputs, roles=target.roles, laws=["causality"], trials=2)["causality"].measured == "broken"
    )
    assert broken is not causal


def test_a_text_with_an_image_is_read_as_what_each_became():
    """Their products would compare each row with every other one."""
    parts = {"text_config": TEXT | {"max_position_embeddings": 40}, "vision_config": VIT, "projection_dim": 16}
    target = hugging_face(built("CLIPModel", "CLIPConfig", **parts))
    assert set(target.inputs) == {"input_ids", "attention_mask", "pixel_values"}
    assert target.roles.read(target.model(**target.inputs)).shape == (3, 16 + 16)
    report = check(target.model, target.inputs, roles=target.roles, trials=2)
    assert report.ok and report["neighbours"].measured == "holds"


def test_a_pooled_output_has_no_cache_and_no_padding_at_the_left():
    target = hugging_face(built("BertForSequenceClassification", "BertConfig", max_position_embeddings=64, **TEXT))
    assert target.roles.stream.sides == ("right",)
    assert check(target.model, target.inputs, roles=target.roles, trials=2).ok
    target = hugging_face(built("GPT2ForSequenceClassification", "GPT2Config", pad_token_id=0, **GPT))
    assert target.roles.step is None
    assert target.roles.promises["padding"] == "not promised"  # it looks for the last id that is not padding


def test_an_order_drawn_at_random_is_shown_and_not_counted():
    """ViLT draws the order of its patches."""
    sizes = {"image_size": 16, "patch_size": 4, "hidden_size": 16, "intermediate_size": 24}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 40}
    target = hugging_face(built("ViltModel", "ViltConfig", **sizes, **layers))
    report = check(target.model, target.inputs, roles=target.roles, trials=2)
    assert report["determinism"].measured == "broken" and report["determinism"].declared == "not promised"
    assert report.ok


def test_a_leak_that_an_architecture_does_not_deny_is_shown_and_not_counted():
    """ConvBERT convolves over neighbouring tokens, padding among them."""
    target = hugging_face(
        built("ConvBertForMaskedLM", "ConvBertConfig", max_position_embeddings=64, embedding_size=32, **TEXT)
    )
    report = check(target.model, target.inputs, roles=target.roles, trials=2)
    assert report.ok and report["neighbours"].measured == "holds"
    assert (report["padding"].declared, report["padding"].measured) == ("not promised", "broken")


def test_sound_has_no_tokens():
    config = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "vocab_size": 30,
    }
    config |= {"conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2}
    config |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}
    target = hugging_face(built("Wav2Vec2ForCTC", "Wav2Vec2Config", **config))
    assert target.inputs["input_values"].shape == (3, 4000) and target.roles.streams == ()
    assert check(target.model, target.inputs, roles=target.roles, trials=2, laws=["neighbours"]).ok


def test_models_without_inputs_say_what_they_take():
    bros = built("BrosModel", "BrosConfig", **TEXT)
    with pytest.raises(ValueError, match="inputs.*BrosModel .*bbox.*; build model.*inputs"):
        hugging_face(bros)
    with pytest.raises(ValueError, match=r"Linear.*model.*Hugging Face.*check\(model, inputs\)"):
        hugging_face(nn.Linear(2, 2))
