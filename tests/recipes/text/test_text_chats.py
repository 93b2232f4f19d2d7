"""Conversations: only answers are learned, packed rows are as each conversation alone, bad rows are named."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from regard.attention.masks import Documents
from regard.data.batch import IGNORE, Batch, pack_rows
from regard.data.chat_template import PLAIN, ChatTemplate
from regard.data.fast_tokenizers import Bytes, Characters
from regard.data.splits import TRAIN
from regard.data.tokenizer import load
from regard.models import decoder as decoders
from regard.models.attentions import BigBirdAttention, LSHAttention, PerformerAttention, WindowAttention
from regard.models.conv import Conv, ConvConfig
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.ngrams import NGrams
from regard.models.recurrent import GRU, LSTM, GRUConfig, LSTMConfig
from regard.recipes.text.chats import (
    ChatSource,
    choose_template,
    encode_chat,
    looks_like_chats,
    prepare_chats,
    read_chats,
    split_chat,
)
from regard.recipes.text.config import ChatConfig
from regard.recipes.text.recipe import RECIPE
from regard.training.tasks import NextToken, call
from regard.verbs.main import main

ASKED = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "Sure?"},
    {"role": "assistant", "content": "Yes, 4."},
    {"role": "user", "content": "Thanks"},
]
SIZES = {"vocab": 256, "context": 128, "dim": 16, "depth": 2, "heads": 2}
# every way to know places and to look back: a sum over another text must show in one of them
MODELS = {
    "rotary and n-grams": {"ngrams": 3},
    "learned": {"position": "learned"},
    "alibi": {"position": "none", "bias": "alibi"},
    "window": {"attention": WindowAttention(width=9)},
    "bigbird": {"attention": BigBirdAttention(block=8)},
    "sparsemax": {"weights": "sparsemax"},
}


def write(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def sums(count, seed=0):
    """Questions of one or two turns, of different lengths."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        a, b = draw.randrange(100), draw.randrange(10**6)
        question, answer = f"{a}+{b}?", f"It is {a + b}."
        if number % 2:
            rows.append({"prompt": question, "answer": answer})
        else:
            first = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            more = [{"role": "user", "content": "Sure?"}, {"role": "assistant", "content": "Yes."}]
            rows.append({"messages": first + more})
    return rows


@pytest.fixture
def corpus(tmp_path):
    path = write(tmp_path / "chats.jsonl", sums(12))
    return prepare_chats(ChatConfig(path=path, context=128, validation=0.2), PLAIN, seed=0, tokenizer=Bytes())


def decoder(**options):
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(**SIZES | options)).double()
    for parameter in model.parameters():  # tables that start at zero would hide what they mix
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def learn_from(model, batches):
    """The sum of the losses, and its gradient."""
    model.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        loss, count = NextToken().loss(model, batch)
        total = total + loss * count
    total.backward()
    return total.item(), torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])


def packed_and_alone(model, corpus):
    rows = corpus.packed[TRAIN]
    assert max(map(len, rows)) > 1 and len({sum(len(corpus.chats[i].ids) - 1 for i in row) for row in rows}) > 1
    together = learn_from(model, [corpus.take(rows)])
    alone = []
    for number in (number for row in rows for number in row):
        chat = corpus.chats[number]
        target = np.where(chat.answer[1:], chat.ids[1:], IGNORE)
        alone.append(Batch({"tokens": torch.from_numpy(chat.ids[None, :-1])}, torch.from_numpy(target[None])))
    return together, learn_from(model, alone)


# ── packed rows


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_packed_conversations_have_the_losses_and_gradients_that_they_have_alone(corpus, options):
    (loss, gradient), (expected, wanted) = packed_and_alone(decoder(**options), corpus)
    assert loss == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-10)


def test_a_decoder_without_the_mask_is_caught(corpus, monkeypatch):
    monkeypatch.setattr(decoders, "Documents", lambda documents: Documents(torch.zeros_like(documents)))
    (loss, _), (expected, _) = packed_and_alone(decoder(), corpus)
    assert abs(loss - expected) > 1e-6 * expected  # a million times what is allowed above


def test_n_grams_that_look_into_another_document_are_caught(corpus, monkeypatch):
    forward = NGrams.forward
    monkeypatch.setattr(NGrams, "forward", lambda self, *given: forward(self, *given[:4]))
    (loss, _), (expected, _) = packed_and_alone(decoder(ngrams=3), corpus)
    assert abs(loss - expected) > 1e-6 * expected  # a million times what is allowed above


def test_models_that_would_mix_packed_texts_refuse_them(corpus):
    batch = corpus.take(corpus.packed[TRAIN][:1])
    for model in (
        LSTM(LSTMConfig(vocab=256, context=128, dim=8, depth=1)),
        GRU(GRUConfig(vocab=256, context=128, dim=8, depth=1)),
        Conv(ConvConfig(vocab=256, context=128, dim=8, depth=1)),
    ):
        with pytest.raises(ValueError, match="would mix the texts"):
            call(model, batch)
    for options in ({"attention": PerformerAttention()}, {"attention": LSHAttention()}, {"memory": 16}):
        with pytest.raises(ValueError, match="texts"):
            call(Decoder(DecoderConfig(**SIZES | options)), batch)
    model = Decoder(DecoderConfig(**SIZES))
    with pytest.raises(ValueError, match="caches hold one text"):
        model(batch["tokens"], documents=batch["documents"], caches=model.caches())


def test_rows_are_packed_once_each_and_never_too_long():
    draw = random.Random(1)
    lengths = [draw.randint(1, 64) for _ in range(300)]
    rows = pack_rows(lengths, 64, draw.sample(range(300), 300))
    assert sorted(each for row in rows for each in row) == list(range(300))
    filled = [sum(lengths[each] for each in row) for row in rows]
    assert max(filled) <= 64
    assert sum(lengths) / (64 * len(rows)) > 0.9
    assert pack_rows([5, 3, 4, 2], 8, range(4)) == [[0, 1], [2, 3]]


def test_a_batch_depends_on_the_seed_and_the_step_alone(tmp_path):
    path = write(tmp_path / "chats.jsonl", sums(40))
    config = ChatConfig(path=path, context=128)

    def source(seed):
        return ChatSource(prepare_chats(config, PLAIN, seed=seed, tokenizer=Bytes()), 3, seed)

    ahead, jumped = source(0), source(0)
    batches = [ahead.batch(step) for step in range(8)]
    assert torch.equal(jumped.batch(7)["tokens"], batches[7]["tokens"])
    assert torch.equal(jumped.batch(2).target, batches[2].target)
    other = source(1).batch(7)["tokens"]
    assert other.shape != batches[7]["tokens"].shape or not torch.equal(other, batches[7]["tokens"])


# ── answers alone are learned


@pytest.mark.parametrize("tokenizer", [Bytes(), Characters("".join(map(chr, range(10, 128))))])
def test_targets_are_the_answers_to_the_token(tokenizer):
    encoded = encode_chat(split_chat(ASKED, PLAIN), tokenizer)
    text = tokenizer.decode(encoded.ids)
    assert text == PLAIN.render(ASKED[:5], reply=False)
    assert tokenizer.decode(encoded.ids[encoded.answer]) == "4<|end|>\nYes, 4.<|end|>\n"
    assert not encoded.answer[0]


def test_what_prompts_would_have_as_targets_changes_nothing(corpus):
    batch = corpus.take(corpus.packed[TRAIN])
    answers = batch.target != IGNORE
    assert 0 < answers.sum() < answers.numel() / 2
    model = decoder()
    loss, count = NextToken().loss(model, batch)
    logits = call(model, batch)[answers]
    asked = batch.target[answers]
    by_hand = -logits.log_softmax(-1)[torch.arange(len(asked)), asked].mean()
    assert count == len(asked)
    torch.testing.assert_close(loss, by_hand, rtol=1e-12, atol=0)


def test_a_template_that_rewrites_earlier_messages_is_refused():
    source = "{{ messages | length }}{% for each in messages %}{{ each.content }}{% endfor %}"
    with pytest.raises(ValueError, match="in another way"):
        split_chat(ASKED, ChatTemplate(source))


# ── rows


def test_long_conversations_are_cut_and_counted(tmp_path):
    rows = [*sums(10), {"prompt": "x" * 500, "answer": "never seen"}, {"prompt": "why?", "answer": "y" * 500}]
    path = write(tmp_path / "chats.jsonl", rows)
    found = prepare_chats(ChatConfig(path=path, context=128, validation=0), PLAIN, seed=0, tokenizer=Bytes())
    assert found.counts["conversations"] == 11 and found.counts["cut"] == 2 and found.dropped == 1
    assert max(len(chat.ids) for chat in found.chats) == 129
    assert "2 of 12 conversations have more than 128 tokens" in found.notes[0]
    assert "1 of them left out" in found.notes[0]
    with pytest.raises(ValueError, match="no conversation of .* within 4 tokens.*data.context"):
        prepare_chats(ChatConfig(path=path, context=4, validation=0), PLAIN, seed=0, tokenizer=Bytes())


BAD = {
    "no answer": ({"messages": ASKED[:2]}, "has no answer"),
    "unknown role": ({"messages": [{"role": "usr", "content": "a"}]}, "unknown role 'usr'.*user"),
    "no list": ({"messages": "hello"}, "must be a list, got 'hello'"),
    "no messages": ({"messages": []}, "at least one"),
    "no message": ({"messages": ["hello"]}, "must have a role"),
    "no content": ({"messages": [{"role": "user", "content": None}]}, "must have a text"),
    "answer first": ({"messages": ASKED[2:]}, "nothing comes before it"),
    "answer only": ({"answer": "a"}, "has no 'prompt'"),
    "null": ({"prompt": "a", "answer": None}, "has no 'answer'"),
    "number": ({"prompt": "a", "answer": 4}, "'answer' must be a text, got '4'"),
    "empty": ({"prompt": "a", "answer": "  "}, "empty answer"),
    "half": ({"prompt": "a\ud800", "answer": "b"}, "half a character"),
    "no JSON": ("{", "is not JSON"),
}


@pytest.mark.parametrize("row, said", BAD.values(), ids=BAD)
def test_a_bad_row_is_one_line_with_its_place(tmp_path, row, said):
    path = write(tmp_path / "chats.jsonl", [*sums(2), row])
    with pytest.raises(ValueError, match=said) as caught:
        read_chats(path)
    assert f"line 3 of {path}" in str(caught.value) and "\n" not in str(caught.value)


def test_only_conversations_look_like_them(tmp_path):
    assert looks_like_chats(write(tmp_path / "a.jsonl", [{"messages": ASKED}]))
    assert looks_like_chats(write(tmp_path / "b.jsonl", [{"prompt": "a", "answer": "b", "id": 1}]))
    assert not looks_like_chats(write(tmp_path / "c.jsonl", [{"text": "a", "label": "b"}]))
    labelled = {"text": "a", "label": "b", "prompt": "a", "answer": "b"}
    assert not looks_like_chats(write(tmp_path / "d.jsonl", [labelled]))
    assert not looks_like_chats(write(tmp_path / "e.csv", ["prompt,answer", "a,b"]))
    assert not looks_like_chats(write(tmp_path / "f.jsonl", ["{"]))
    assert not looks_like_chats(str(tmp_path / "none.jsonl")) and not looks_like_chats(None)


def test_named_columns_keep_their_meaning(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"prompt": "a", "answer": "b"}] * 4)
    recipe = RECIPE
    assert isinstance(recipe.defaults(path).data, ChatConfig)
    early = {"data.text": "prompt", "data.label": "answer"}
    assert not isinstance(recipe.defaults(path, None, early).data, ChatConfig)
    with pytest.raises(ValueError, match="conversations called 'lstm'"):
        recipe.defaults(path, "lstm")
    with pytest.raises(ValueError, match="holds conversations"):
        recipe.choose_kind(None, "masked", path)
    assert recipe.choose_kind(None, "next", path) == "decoder"


# ── a run


def test_a_run_keeps_its_template_and_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "chats.jsonl", [{"prompt": f"{n % 7}?", "answer": f"= {n % 7}"} for n in range(60)])
    small = ["--model.dim", "16", "--model.depth", "1", "--model.heads", "2", "--data.context", "96"]
    how = ["--train.batch", "2", "--no-report"]
    code = main(["train", "text", "--data", "chats.jsonl", "--out", "run", "--train.steps", "10", *small, *how])
    said = capsys.readouterr()
    assert code == 0, said
    assert "60 conversations" in said.out + said.err and 'run --chat "..."' in said.out + said.err
    assert json.loads((tmp_path / "run/chat_template.json").read_text()) == PLAIN.to_json()
    assert main(["generate", "run", "--chat", "3?", "--seed", "0", "--max-new", "12"]) == 0
    answer = capsys.readouterr().out
    assert "<|" not in answer and "3?" not in answer
    unseen = ["generate", "run", "--chat", "Zoë 漢?", "--seed", "0", "--max-new", "12"]
    assert main(unseen) == 0, "letters that no conversation has"
    assert load(tmp_path / "run").name == "bytes"
    capsys.readouterr()
    assert main(["evaluate", "run", "--data", "chats.jsonl"]) == 0
    assert "tokens of answers" in capsys.readouterr().out
    again = ["--from", "run", "--out", "next", "--train.steps", "2", "--data.context", "96"]
    assert main(["train", "text", "--data", "chats.jsonl", *again, *how]) == 0
    assert (tmp_path / "next/chat_template.json").exists()
    capsys.readouterr()
    assert main(["generate", "run", "--chat", "3?", "--prompt", "3?"]) != 0
    assert "leave one of them out" in capsys.readouterr().err
    (tmp_path / "run/chat_template.json").write_text('{"template": "{{ 1 }}", "special": {}}')
    assert main(["generate", "run", "--chat", "3?"]) != 0
    assert "chat_template.json" in capsys.readouterr().err


def test_the_template_of_a_model_is_read_once_it_is_named(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    source = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    about = {"chat_template": source, "eos_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    path = write(tmp_path / "chats.jsonl", sums(4))
    template = choose_template(ChatConfig(path=path, template=str(folder)), None)
    assert template.end == "</s>"
    parts = split_chat(ASKED, template)
    assert [part.text for part in parts if part.answer] == ["4</s>", "Yes, 4.</s>"]
