"""What a bag of n-grams is told of a tokenizer and its texts, and that it learns from it what it must."""

from __future__ import annotations

import csv
import random

import numpy as np
import pytest
import torch

import regard
from regard.data import tokenizer as tokenizers
from regard.data.fast_tokenizers import Bytes, Words
from regard.data.learn_tokenizer import learn
from regard.nn.ngram_logistic import ALONE, ROWS, BagOfNGrams
from regard.recipes.base import problem_of_run
from regard.recipes.example import Example
from regard.recipes.request import TrainRequest
from regard.recipes.text.config import LabelledTextConfig
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.ngram_features import (
    STRENGTH,
    Spelling,
    TokenIds,
    character_ngrams,
    fill_bag,
    fold_tokens,
    hash_ngram,
    rarity,
    spell,
)
from regard.recipes.text.processor import TextsFitted, TextsProcessor
from regard.recipes.text.recipe import RECIPE
from regard.runs.load import load_model
from regard.training.config import TrainConfig
from regard.training.optimisers import make
from regard.training.progress import Observer

SYLLABLES = ("ba", "co", "du", "fe", "gi", "ho", "ku", "la", "mi", "no", "pa", "re")


def write(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return str(path)


def endings(start):
    """A word of each pair of syllables from this one on, and its label: how the word ends."""
    stems = [a + b for a in SYLLABLES[start::2] for b in SYLLABLES]
    return [(stem + ending, ending) for stem in stems for ending in ("ing", "ous")]


def test_ngrams_of_a_token():
    assert character_ngrams("Ab") == ["<a", "ab", "b>", "<ab", "ab>", "<ab>"]
    assert character_ngrams("  ") == []
    assert character_ngrams("a") == ["<a", "a>", "<a>"]
    assert max(map(len, character_ngrams("spelling"))) == 5


def test_rows_of_ngrams_are_the_same_in_every_process():
    assert [hash_ngram(each) for each in ("<a", "ab", "ä>")] == [19469, 1399, 25748]
    assert all(1 <= hash_ngram(str(each)) < ROWS for each in range(1000))


def texts_of(tokenizer, texts):
    """As a processor encodes them."""
    processor = TextsProcessor(LabelledTextConfig(), fitted_with(tokenizer))
    found = [processor.encode(Example({"text": text})) for text in texts]
    return processor, [TokenIds(each["ids"], each["unknown"]) for each in found]


def fitted_with(tokenizer):
    return TextsFitted(kind=tokenizer.name, vocabulary=tokenizer.size, spelled=True, tokenizer=tokenizer)


def filled(tokenizer, texts, **how):
    bag = BagOfNGrams(tokenizer.size + 1, 2)
    processor, found = texts_of(tokenizer, texts)
    fill_bag(bag, tokenizer, processor.spelling, found, **how)
    return bag


def test_tokens_that_differ_only_in_case_are_the_same_and_unknown_ones_are_not_spelled():
    words = Words(sorted([" ", "Cat", "cat", "dog"]))
    same, table = fold_tokens(words, words.size + 1), Spelling(words).table
    big, small, dog = (words.encode(each)[0] for each in ("Cat", "cat", "dog"))
    assert same[big] == same[small] != same[dog]
    assert np.array_equal(table[big], table[small]) and table[dog].any()
    assert not table[0].any() and not table[words.encode(" ")[0]].any()


def test_other_tokenizers_are_spelled_too():
    table = Spelling(Bytes()).table
    assert table[ord("a")].any() and not table[ord(" ")].any()


def test_rarity_counts_training_texts():
    texts = ["cat Cat dog", "cat", "dog sun", "sun"] * 4
    tokenizer = learn("words", texts)
    bag = filled(tokenizer, texts, share=ALONE)
    for word in ("cat", "dog", "sun"):
        found = bag.word_rarity[int(tokenizer.encode(word)[0])].item()
        assert found == pytest.approx(rarity(8, 16), rel=1e-6)
    # "cat Cat" counts once
    assert bag.part_rarity[hash_ngram("<cat")].item() == pytest.approx(rarity(8, 16), rel=1e-6)
    assert bag.part_rarity[0] == 0 and bag.part_rarity[hash_ngram("zzz")] == 0
    assert bag.word_rarity[tokenizer.unknown] == 0
    assert bag.penalty == pytest.approx(ALONE / (STRENGTH * 16))


def test_unknown_words_are_spelled_and_known_ones_are_as_in_the_vocabulary():
    texts = ["cat dog", "Zebra, cat", "zebra dog", "cat cat cat"]
    tokenizer = Words(sorted([" ", ",", "cat", "dog"]))
    processor, found = texts_of(tokenizer, texts)
    batch = processor.collate([{"ids": ids, "unknown": unknown} for ids, unknown in found])
    assert batch["spelling"].shape[:2] == batch["tokens"].shape
    assert batch["spelling"][1, 0].tolist() == spell(["zebra"])[0].tolist()
    assert torch.equal(batch["spelling"][1, 0], batch["spelling"][2, 0])
    known = batch["real"] & (batch["tokens"] != tokenizer.unknown)
    assert torch.equal(batch["spelling"][known], torch.from_numpy(processor.spelling.table)[batch["tokens"][known]])
    bag = filled(tokenizer, texts)
    assert bag.part_rarity[hash_ngram("<ze")].item() == pytest.approx(rarity(2, 4), rel=1e-6)


def test_it_learns_endings_from_words_that_it_is_not_asked_about():
    """Each word is known to the tokenizer, but the words of the other half have no label: only what they are
    made of tells."""
    labels = ["ing", "ous"]
    tokenizer = learn("words", [word for word, _ in endings(0) + endings(1)])
    bag = filled(tokenizer, [word for word, _ in endings(0)])
    optimiser = make(bag, TrainConfig(lr=0.001))
    tokens, other = (torch.tensor([[int(tokenizer.encode(word)[0])] for word, _ in endings(start)]) for start in (0, 1))
    target = torch.tensor([labels.index(label) for _, label in endings(0)])
    torch.manual_seed(0)
    for _ in range(20):
        torch.nn.functional.cross_entropy(bag(tokens), target).backward()
        optimiser.step(1.0)
    bag.eval()
    found = [labels[each] for each in bag(other).argmax(1).tolist()]
    assert found == [label for _, label in endings(1)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bag")
    options = {"model.dim": 16, "model.heads": 2, "data.validation": 0.2}
    data = write(folder / "a.csv", [(f"{a} {word}", label) for word, label in endings(0) for a in "abcd"])
    return regard.train("text", data=data, out=folder / "run", steps=40, options=options, report=False)


def test_a_run_learns_it_and_keeps_all_of_it(run):
    first, again = load_model(run), load_model(run)
    assert first.bag is not None and first.bag.spelling.any() and first.bag.words.any()
    assert all(torch.equal(a, b) for a, b in zip(first.bag.buffers(), again.bag.buffers(), strict=True))
    assert regard.evaluate(run.path).measures["accuracy"] > 0.9
    predicted = [next(iter(each.labels)) for each in regard.predict(run.path, ["a bacoing", "a bacoous"])]
    assert predicted == ["ing", "ous"]


def test_words_that_it_never_saw_are_known_by_their_endings(run, tmp_path):
    """In a table, in a prediction and on the page alike."""
    strange = [(f"a {word}", label) for word, label in endings(1)]
    assert tokenizers.load(run.path).unknowns(strange[0][0]) == (endings(1)[0][0],)
    found = regard.evaluate(run.path, data=write(tmp_path / "b.csv", strange))
    assert found.measures["accuracy"] > 0.9
    predicted = list(regard.predict(run.path, [text for text, _ in strange[:10]]))
    assert [next(iter(each.labels)) for each in predicted] == [label for _, label in strange[:10]]
    model = load_model(run)
    given = problem_of_run(run).reader(run, model).read(strange[0][0])
    shares = model(**given.inputs).softmax(-1)[0]
    assert max(predicted[0].labels.values()) == pytest.approx(shares.max().item(), abs=1e-5)
    moved = given.move([1, 0])
    assert torch.equal(moved.inputs["spelling"][0, 0], given.inputs["spelling"][0, 1])
    assert model(**given.with_ids(given.inputs["tokens"])).shape == (1, 2)


def test_blocks_are_let_in_where_only_the_order_of_words_tells(tmp_path):
    draw = random.Random(0)
    pairs = [draw.sample(["red", "blue"], 2) for _ in range(300)]
    rows = [(f"{first} {draw.choice('abcdefgh')} {last} {draw.choice('abcdefgh')}", first) for first, last in pairs]
    options = {"model.dim": 32, "model.heads": 2, "train.seed": 0}
    run = regard.train(
        "text", data=write(tmp_path / "a.csv", rows), out=tmp_path / "run", steps=120, options=options, report=False
    )
    model = load_model(run)
    assert model.gate.opened > 0.5
    assert regard.evaluate(run.path).measures["accuracy"] > 0.95


def test_default_steps_follow_the_size_of_the_table_and_minutes_replace_them(tmp_path):
    small = write(tmp_path / "a.csv", [("some words", "a"), ("other words", "b")] * 20)
    large = write(tmp_path / "b.csv", [("some words " * 20, "a"), ("other words", "b")] * 4000)

    def steps_of(data, **options):
        found = TrainRequest(
            recipe=RECIPE, data=data, options={f"train.{name}": each for name, each in options.items()}
        )
        return found.settings().train.steps

    assert steps_of(small, seed=3) == 300
    assert steps_of(small, minutes=3.0) is None and steps_of(large) is None


def test_laws_of_such_a_run_hold(run):
    report = regard.check(run.path)
    assert report.ok


class Killed(Exception):
    """What ends a run in its midst."""


class Killer(Observer):
    def stepped(self, step, loss, size, seconds):
        if step == 25:
            raise Killed


def test_a_killed_and_resumed_run_ends_with_the_same_weights(run, tmp_path):
    options = {"model.dim": 16, "model.heads": 2, "data.validation": 0.2, "train.save_every": 10}
    how = {"out": tmp_path / "run", "data": run.config.data["path"], "report": False}
    with pytest.raises(Killed):
        regard.train("text", steps=40, options=options, observers=[Killer()], **how)
    resumed = regard.train("text", resume=True, **how)
    whole, again = load_model(run).state_dict(), load_model(resumed).state_dict()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_another_classifier_can_start_from_it(run, tmp_path):
    data = write(tmp_path / "b.csv", [(f"a {word}", word[0]) for word, _ in endings(0)])
    started = regard.train("text", data=data, start=run.path, out=tmp_path / "run", steps=3, report=False)
    model = load_model(started)
    assert model.bag.words.shape[1] == len({word[0] for word, _ in endings(0)})
    assert model.bag.spelling.any()


def test_a_span_that_is_taken_out_takes_its_spelling_along():
    inputs = {"tokens": torch.arange(5)[None], "spelling": torch.arange(15).view(1, 5, 3)}
    given = TextInput(inputs=inputs, ids="tokens", spelling="spelling", answers="classes")
    left = given.without([1, 2]).inputs
    assert left["tokens"].tolist() == [[0, 3, 4]] and left["spelling"][0, :, 0].tolist() == [0, 9, 12]
