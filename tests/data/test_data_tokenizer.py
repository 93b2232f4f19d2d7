"""Tokenizers: text comes back as it was, ids are the same everywhere, and what is unknown is named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Package

from regard.data import tokenizer as tokenizers
from regard.data.fast_tokenizers import Bytes, Characters, Words
from regard.data.learn_tokenizer import TOKENIZERS, learn
from regard.data.text_files import cuts
from regard.data.tokenizer import from_json, load, save

ROOT = Path(__file__).parents[2]
STORY = "It's a small world,\n  isn't it?  «Ja», said Zoë: 1,024 steps — 😀 and\tdogs, dogs like dogs.\r\n" * 4
LINES = "John likes movies", "Mary likes movies", "I like dogs"
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60) | st.text(
    "ab '’_1.\n\t\u3000\x1c\x85é", max_size=60
)
kinds = pytest.mark.parametrize("kind", TOKENIZERS)


@pytest.fixture(scope="module")
def learned():
    return {kind: learn(kind, [STORY], 300) for kind in TOKENIZERS}


def spelled_out(text):
    """A Hugging Face tokenizer of another kind, with an unknown token, a normaliser, and settings that cut and pad."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    words = dict.fromkeys(["[UNK]", *text.lower().split()])
    inner = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    inner.decoder = decoders.WordPiece()
    inner.enable_truncation(3)
    inner.enable_padding(length=8)
    return from_json(json.loads(inner.to_str()))


# ── there and back ──────────────────────────────────────────────────────────────────────────────────────────


@kinds
def test_a_text_comes_back(learned, kind):
    tokenizer = learned[kind]
    ids = tokenizer.encode(STORY)
    assert (
        tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == tokenizer.decode(torch.tensor(ids.tolist())) == STORY
    )
    assert ids.dtype == np.int64 and tokenizer.dtype == (np.uint16 if tokenizer.size > 256 else np.uint8)
    assert ids.max() < tokenizer.size
    assert tokenizer.name == kind
    assert tokenizer.decode([]) == "" and len(tokenizer.encode("")) == 0


@kinds
@settings(max_examples=40)
@given(text=texts)
def test_every_text_comes_back(kind, text):
    if not text and kind == "characters":
        return
    tokenizer = learn(kind, [text], 400)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unknowns(text) == ()


@kinds
@settings(max_examples=40)
@given(data=st.data())
def test_a_stream_says_what_decode_says(learned, kind, data):
    """Whatever the ids are, half characters too."""
    tokenizer = learned[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=12))
    stream = tokenizer.stream()
    assert "".join([*map(stream.add, ids), stream.rest()]) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_a_stream_holds_back_half_a_character(kind):
    tokenizer = learn(kind, ["a"], 300)
    stream = tokenizer.stream()
    assert [stream.add(int(id)) for id in tokenizer.encode("aé😀")] == ["a", "", "é", "", "", "", "😀"]
    assert stream.rest() == ""


@kinds
def test_to_a_file_and_back(learned, kind, tmp_path):
    tokenizer = learned[kind]
    save(tokenizer, tmp_path / "tokenizer.json")
    for path in (tmp_path / "tokenizer.json", tmp_path, str(tmp_path)):
        again = load(path)
        assert again.to_json() == tokenizer.to_json()
        assert (again.name, again.size, again.unknown) == (tokenizer.name, tokenizer.size, tokenizer.unknown)
        assert again.encode(STORY).tolist() == tokenizer.encode(STORY).tolist()


def test_the_same_in_every_process():
    code = (
        "import hashlib, sys; from regard.data.learn_tokenizer import TOKENIZERS, learn\n"
        "text = sys.stdin.buffer.read().decode()\n"
        "print([hashlib.sha256(learn(kind, [text], 320).encode(text).tobytes()).hexdigest()[:9] for kind in TOKENIZERS])"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            input=STORY.encode(),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert done[0] == done[1] and len(done[0]) > 40


def test_torch_is_not_needed():
    code = "import sys, regard.data.learn_tokenizer, regard.data.learn_tokenizer; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


# ── characters and bytes ────────────────────────────────────────────────────────────────────────────────────


def test_characters_are_sorted():
    tokenizer = learn("characters", ["hello", "wörld"])
    assert tokenizer.characters == "dehlorwö"
    assert tokenizer.encode("hö").tolist() == [2, 7]


def test_one_more_character_than_a_byte_holds():
    text = "".join(map(chr, range(1000, 1257)))
    assert Characters(text[:256]).dtype == np.uint8
    assert Characters(text).dtype == np.uint16
    assert Characters(text).encode(text).tolist() == list(range(257))


@pytest.mark.parametrize(
    "text, words",
    [
        ("dog, cat\n", "unknown character ',' .U.002C..*place 3.*text"),
        ("dogé", "unknown character 'é' .U.00E9..*place 3.*among.*8 characters.*--data.tokens bytes"),
        ("😀", "unknown character '😀' .U.1F600. at place 0"),
        ("d\udc80", "unknown character '.udc80' .U.DC80..*place 1"),
    ],
)
def test_an_unknown_character_is_named_with_its_place(text, words):
    with pytest.raises(ValueError, match=words) as error:
        learn("characters", ["dog cat\n"]).encode(text)
    assert "\n" not in str(error.value)


def test_what_is_unknown_can_be_asked_before():
    assert learn("characters", ["dog"]).unknowns("good, good") == (",", " ")
    assert learn("words", ["a dog"]).unknowns("a cat, a cat") == ("cat", ",")
    assert Bytes().unknowns("😀") == learn("bpe", ["a dog"], 300).unknowns("😀") == ()
    assert spelled_out("a dog").unknowns("A dog, a Cat") == (",", "Cat")


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_half_a_character_is_refused(kind):
    with pytest.raises(ValueError, match="character '.udc80'.*2.*character"):
        learn(kind, ["ab"], 300).encode("ab\udc80")


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_three_sentences_have_seven_words():
    tokenizer = learn("words", LINES)
    assert tokenizer.words == ("I", "John", "Mary", "dogs", "like", "likes", "movies")
    assert tokenizer.size == 7 + 2  # and the space, and the unknown
    assert tokenizer.vocabulary == (" ", *tokenizer.words)
    assert [len(tokenizer.encode(line)) for line in LINES] == [3, 3, 3]


def test_one_space_between_words_is_not_written_down():
    tokenizer = learn("words", ["yes, no  don't\n"])
    told = [["<unknown>", *tokenizer.vocabulary][id] for id in tokenizer.encode("yes no, no  don't don't\n yes ")]
    assert told == ["yes", "no", ",", " ", "no", "  ", "don't", "don't", "\n", " ", "yes", " "]


def test_unknown_words_become_the_unknown():
    tokenizer = learn("words", LINES)
    ids = tokenizer.encode("John likes cats like Mary")
    assert ids[2] == tokenizer.unknown == 0
    assert tokenizer.decode(ids) == "John likes <unknown> like Mary"


def test_a_word_known_in_other_case_only_has_the_id_of_that():
    words = Words(sorted([" ", "Cat", "cat", "Dog"]))
    assert words.decode(words.encode("CAT dog Cat cow")) == "cat Dog Cat <unknown>"
    assert words.unknowns("CAT dog Cat cow") == ("cow",)


def test_the_most_frequent_words_stay():
    tokenizer = learn("words", ["z d b a c a b a", "z b y y"], size=5)
    assert tokenizer.vocabulary == (" ", "a", "b", "y")  # y and z come twice: the first of them
    assert tokenizer.size == 5


def test_counting_forgets_the_rare_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("regard.data.learn_tokenizer.COUNTED", 5)
    tokenizer = learn("words", ["a a a b b b", "a b " + " ".join("cdefghij")], size=8192)
    assert tokenizer.words == ("a", "b")


# ── subwords ────────────────────────────────────────────────────────────────────────────────────────────────


ODD = "ab '’_1.!-\n\t\r\u3000\x1c\x85é"


@kinds
@settings(max_examples=60)
@given(text=texts | st.text(ODD, max_size=200) | st.text("'sld .re\x1c", max_size=200))
def test_the_package_gives_the_same_ids(kind, text):
    """Fast equals slow: the package's own answer from the saved file, for the whole text. And it decodes them."""
    tokenizer = learn(kind, [STORY, ODD, text], 400)
    package = Package.from_str(json.dumps(tokenizer.to_json()))
    found = tokenizer.encode(text).tolist()
    assert package.encode(text).ids == found
    assert package.decode(found) == tokenizer.decode(found) == text


@pytest.fixture(scope="module")
def greedy():
    """It has joined whatever may be joined, so that a border in the wrong place is seen."""
    draw = np.random.default_rng(0).choice
    pieces = "".join(draw(["'s", "'ll", "a", "'", " ", "."], 10_000))
    return learn("bpe", ["".join(draw(list(ODD), 20_000)) + pieces], 2000)


@settings(max_examples=100)
@given(text=texts | st.text(ODD, min_size=20, max_size=200) | st.text("'sld .re\x1c", min_size=20, max_size=200))
def test_encoding_each_piece_once_changes_nothing(learned, greedy, text):
    for tokenizer in (learned["bpe"], greedy):
        for each in (text, STORY + text):
            if each:
                assert tokenizer._encode_pieces(each).tolist() == tokenizer._inner.encode(each).ids


@pytest.mark.parametrize("wrong", ["'", "\u3000", " "])
def test_a_border_in_the_wrong_place_is_caught(greedy, monkeypatch, wrong):
    """Cutting before an apostrophe is right, after one or beside odd spaces is not."""
    text = "".join(np.random.default_rng(1).choice(list(ODD), 3000))
    expected = greedy._inner.encode(text).ids
    assert greedy._encode_pieces(text).tolist() == expected
    cut_after = [place + 1 for place, sign in enumerate(text) if sign == wrong]
    borders = np.unique([0, *cut_after, len(text)])
    monkeypatch.setattr("regard.data.fast_tokenizers.find_pieces", lambda text: borders)
    assert greedy._encode_pieces(text).tolist() != expected


def test_cutting_changes_nothing(learned, monkeypatch):
    tokenizer = learned["bpe"]
    expected = tokenizer.encode(STORY * 3).tolist()
    monkeypatch.setattr(tokenizers, "CHUNK", 100)
    assert tokenizer.encode(STORY * 3).tolist() == expected


@settings(max_examples=40)
@given(text=texts, size=st.integers(1, 30))
def test_cuts_are_inside_and_rising(text, size):
    found = list(cuts(text, size))
    assert found == sorted(set(found))
    assert all(0 < each < len(text) for each in found)


def test_a_given_tokenizer_is_used_as_it_is_but_never_cuts_or_pads():
    tokenizer = spelled_out("the dogs like small worlds")
    ids = tokenizer.encode("The dogs LIKE cats the worlds")
    assert ids.tolist() == [1, 2, 3, 0, 1, 5]
    assert (tokenizer.name, tokenizer.size, tokenizer.unknown) == ("wordpiece", 6, 0)
    assert tokenizer.decode(ids) == "the dogs like [UNK] the worlds"
    stream = tokenizer.stream()
    assert "".join([*map(stream.add, ids), stream.rest()]) == "the dogs like [UNK] the worlds"


def test_a_part_of_a_character_is_shown_as_its_bytes():
    for tokenizer in (Bytes(), learn("bpe", ["a dog"], 300)):
        ids = tokenizer.encode("aé").tolist()
        assert [tokenizer.called(id) for id in ids] == ["a", r"\xc3", r"\xa9"]
        assert tokenizer.decode(ids) == "aé"
    words = learn("words", ["a dog"])
    assert [words.called(id) for id in words.encode("a dog").tolist()] == ["a", "dog"]


def test_special_tokens_of_a_byte_level_tokenizer():
    data = learn("bpe", [STORY], 300).to_json()
    data["added_tokens"] = [
        {
            "id": 300,
            "content": "<|end|>",
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    ]
    tokenizer = from_json(data)
    assert tokenizer.size == 301
    assert tokenizer.encode("a<|end|>")[-1] == 300
    assert tokenizer.decode(tokenizer.encode("dogs<|end|> é")) == "dogs<|end|> é"


# ── words of errors ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "content, words",
    [
        ("{", "tokenizer.json.*JSON.*1"),
        ("[1, 2]", 'tokenizer.json.*tokenizer.json.*"model"'),
        ('{"kind": "letters"}', "tokenizer.json.*tokenizer.json"),
        ('{"model": {"type": "BPE", "vocab": ["a"]}}', "tokenizer.json.*tokenizer.json"),
        ('{"model": {"type": "WordLevel", "vocab": 3}}', "tokenizer.json.*tokenizer.json"),
        ('{"model": {"type": "BPE"}}', "tokenizer.json.*tokenizer.json"),
        ('{"model": null}', "tokenizer.json.*tokenizer.json"),
    ],
)
def test_a_file_that_is_no_tokenizer(tmp_path, content, words):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=words) as error:
        load(path)
    assert "\n" not in str(error.value)


def test_words_of_other_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="file .*tokenizer.json"):
        load(tmp_path)
    with pytest.raises(ValueError, match="tokens.*characters.*'word'.*'words'"):
        learn("word", [])
    with pytest.raises(ValueError, match="ids.*256 bytes.*vocabulary=256.*512"):
        learn("bpe", ["a"], 256)
    with pytest.raises(ValueError, match="vocabulary.*words.*2 ids"):
        learn("words", ["a"], 1)
    with pytest.raises(ValueError, match="ids.*0.*255.*256.*place 1.*tokenizer"):
        Bytes().decode([0, 256])
    with pytest.raises(ValueError, match="ids.*whole numbers.*float64"):
        Bytes().decode([0.5])
    with pytest.raises(ValueError, match=r"ids.*row.*whole numbers.*shape \(1, 2\)"):
        Bytes().decode([[1, 2]])
    with pytest.raises(ValueError, match="sorted, without repeats"):
        Words(["a"])
