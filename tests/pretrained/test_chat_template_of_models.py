"""The chat template of a model of others comes along: from a directory and from a GGUF file."""

from __future__ import annotations

import json
import shutil

import pytest

from regard.data.chat_template import PLAIN, ChatTemplate
from regard.data.tokenizer import load
from regard.pretrained.gguf_template import read_gguf_template
from regard.recipes.text.chats import encode_chat, split_chat
from regard.targets.imported import import_weights, open_run
from regard.verbs.main import main
from tests.pretrained.theirs import save_random

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

SOURCE = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ABOUT = {"chat_template": SOURCE, "bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}}
CHAT = [
    {"role": "user", "content": "Who?"},
    {"role": "assistant", "content": "Me."},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "So."},
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random Llama with bytes as tokens, and two signs of its own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("chat") / "tiny"
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    save_random("LlamaForCausalLM", sizes | {"max_position_embeddings": 96, "vocab_size": 258}, folder)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={sign: i for i, sign in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(ABOUT))
    return folder


def test_a_conversation_has_the_ids_that_transformers_gives_it(model):
    from transformers import PreTrainedTokenizerFast

    run = open_run(model)
    template = ChatTemplate.from_json(run.read("chat_template.json"))
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(model / "tokenizer.json"), bos_token="<|im_start|>", eos_token="<|im_end|>"
    )
    assert template.render(CHAT[:1]) == theirs.apply_chat_template(
        CHAT[:1], chat_template=SOURCE, tokenize=False, add_generation_prompt=True
    )
    ours = encode_chat(split_chat(CHAT, template), load(run.verify("tokenizer.json")))
    whole = theirs.apply_chat_template(CHAT, chat_template=SOURCE, tokenize=False)
    assert ours.ids.tolist() == theirs(whole, add_special_tokens=False)["input_ids"]
    assert theirs.decode(ours.ids[ours.answer]) == "Me.<|im_end|>\nSo.<|im_end|>\n"
    assert template.end == "<|im_end|>"


def test_training_goes_on_with_the_template_of_the_model(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chats.jsonl").write_text((json.dumps({"messages": CHAT}) + "\n") * 6)
    words = ["train", "text", "--from", str(model), "--data", "chats.jsonl", "--out", "run", "--no-report"]
    assert main([*words, "--train.steps", "2", "--train.batch", "2", "--data.context", "96"]) == 0
    kept = json.loads((tmp_path / "run/chat_template.json").read_text())
    assert kept["template"] == SOURCE and kept["special"]["eos_token"] == "<|im_end|>"
    capsys.readouterr()
    for target in (str(model), "run"):
        assert main(["generate", target, "--chat", "Who?", "--max-new", "5", "--seed", "0"]) == 0
        assert "im_start" not in capsys.readouterr().out


def test_a_template_that_cannot_be_used_is_left_out_with_a_note(model, tmp_path, capsys):
    bad = tmp_path / "bad"
    shutil.copytree(model, bad)
    (bad / "chat_template.jinja").write_text("{{ messages.__class__.__mro__ }}")
    run, found = import_weights(bad, tmp_path / "run")
    assert run.read("chat_template.json") is None
    assert any("its chat template is left out" in note for note in found.notes)
    assert main(["generate", str(tmp_path / "run"), "--chat", "Who?"]) != 0
    assert "has no chat template" in capsys.readouterr().err


def test_the_template_of_a_gguf_file():
    facts = {
        "tokenizer.chat_template": SOURCE,
        "tokenizer.ggml.tokens": ["a", "<s>", "</s>"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 7,
    }
    found, notes = read_gguf_template(facts)
    assert found == ChatTemplate(SOURCE, {"bos_token": "<s>"}) and notes == ()
    assert found.render(CHAT[:1]).startswith("<s><|im_start|>user")
    assert read_gguf_template({}) == (None, ())
    left, notes = read_gguf_template(facts | {"tokenizer.chat_template": "{% for %}"})
    assert left is None and "left out" in notes[0]
    assert found != PLAIN
