"""Labelled text: rows of CSV and JSONL, a split that keeps the shares, padded batches, and rows that are wrong named."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import config as configs
from regard.data.learn_tokenizer import learn
from regard.data.splits import stratified_mask
from regard.data.targets import sort_labels
from regard.data.tokenizer import save
from regard.models.encoder import EncoderConfig
from regard.recipes.job import DataContext
from regard.recipes.settings import settings_of_kind
from regard.recipes.text.config import LabelledTextConfig
from regard.recipes.text.defaults import is_labelled
from regard.recipes.text.processor import TextsProcessor
from regard.recipes.text.recipe import RECIPE
from regard.training.config import TrainConfig

REVIEWS = [
    (f"a {'good' if i % 3 else 'bad'} film, number {i}" + " and so on" * (i % 5), "yes" if i % 3 else "no")
    for i in range(60)
]


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("label,text\n" + "".join(f'{label},"{text}"\n' for text, label in REVIEWS))
    return path


def write(tmp_path, content, name="rows.csv"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def prepared(path, **options):
    """A job for an encoder."""
    data = LabelledTextConfig(path=str(path), **options)
    model = EncoderConfig(vocab=1, context=1, classes=1)
    settings = settings_of_kind("encoder", LabelledTextConfig)(data=data, model=model, train=TrainConfig(batch=8))
    return RECIPE.problems["supervised"].prepare(settings, "encoder", DataContext(cache=path))


def rows_of(path, **options):
    found = TextsProcessor(LabelledTextConfig(path=path, **options)).read(path, want="learn")
    return [(example.inputs["text"], example.target) for example in found]


def texts_of(job, batch):
    real = batch.get("real", torch.ones_like(batch["tokens"]).bool())
    return [
        (job.processor.tokenizer.decode(row[keep]), job.labels[label])
        for row, keep, label in zip(batch["tokens"], real, batch.target, strict=True)
    ]


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
def test_every_row_comes_with_its_label(reviews, kind):
    job = prepared(reviews, tokens=kind, validation=0.2, vocabulary=300)
    held = [row for batch in job.source.validation() for row in texts_of(job, batch)]
    seen = [row for step in range(6) for row in texts_of(job, job.source.batch(step))]
    assert sorted(held + seen) == sorted(REVIEWS)
    assert len(held) == 12 and sum(label == "no" for _, label in held) == 4
    assert job.labels == ("no", "yes") and job.processor.fitted.kind == kind
    assert job.counts == {"rows": 60, "train": 48, "validation": 12, "test": 0}


def test_padding_and_cutting_off(reviews):
    job = prepared(reviews, tokens="bytes", context=30)
    for batch in [*map(job.source.batch, range(6)), *job.source.validation()]:
        assert batch["tokens"].shape[1] <= 30
        for text, _ in texts_of(job, batch):
            assert any(full.startswith(text) and len(text) == min(30, len(full)) for full, _ in REVIEWS)


def test_words_are_the_default_and_unknown_ones_may_come(tmp_path):
    path = write(tmp_path, "text,label\n" + "".join(f"word{i} common,{i % 2}\n" for i in range(20)))
    job = prepared(path, validation=0.4)
    tokenizer = job.processor.tokenizer
    assert tokenizer.name == "words" and len(tokenizer.words) == 13
    (batch,) = job.source.validation()
    assert batch["tokens"][:, 0].eq(tokenizer.unknown).all() and batch["tokens"][:, 1].ne(0).all()


def test_a_language_without_spaces_gets_characters(tmp_path):
    path = write(
        tmp_path, "text,label\n" + "".join(f"我们今天去看一部很好的电影{chr(0x4E00 + i)},{i % 2}\n" for i in range(9))
    )
    job = prepared(path, validation=0.4)
    assert job.processor.tokenizer.name == "characters"
    assert all("电影" in text for batch in job.source.validation() for text, _ in texts_of(job, batch))


def test_a_given_tokenizer(reviews, tmp_path):
    given = tmp_path / "tokenizer.json"
    save(learn("words", ["a film"]), given)
    assert prepared(reviews, tokenizer=str(given)).processor.tokenizer.words == ("a", "film")
    save(learn("characters", ["xyz"]), given)
    with pytest.raises(ValueError, match="2.*reviews.csv: unknown character 'a' .U.0061..*place 0"):
        prepared(reviews, tokenizer=str(given))


@settings(max_examples=60)
@given(
    classes=st.lists(st.integers(0, 4), min_size=2, max_size=60).filter(lambda each: len(set(each)) == max(each) + 1),
    share=st.floats(0, 0.99),
    seed=st.integers(-3, 3),
)
def test_the_split_keeps_the_shares(classes, share, seed):
    classes = np.array(classes)
    held = stratified_mask(classes, share, seed)
    assert np.array_equal(held, stratified_mask(classes, share, seed))
    counts = np.bincount(classes)
    taken = np.bincount(classes[held], minlength=len(counts))
    assert (taken < counts).all()  # training has all labels
    assert (np.abs(taken - np.minimum(counts * share, counts - 1)) <= 1).all()
    if share and counts.max() > 1:
        assert held.any()


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.csv", 'text,label\n"a, ""b""\nc",1\nd,2\n'),
        ("a.csv", '\ufefftext,label\r\n"a, ""b""\nc",1\r\n\r\nd,2'),
        ("a.CSV", 'label;id;text\n1;7;"a, ""b""\nc"\n2;8;d\n'),
        ("a.tsv", 'label \t text\n1\t"a, ""b""\nc"\n2\td\n'),
        ("a.jsonl", '{"text": "a, \\"b\\"\\nc", "label": 1}\n\n{"label": "2", "text": "d", "more": [1]}'),
        ("a.ndjson", '\ufeff{"text": "a, \\"b\\"\\nc", "label": "1 "}\n{"label": 2, "text": "d"}\n'),
    ],
)
def test_ways_to_write_the_same_rows(tmp_path, name, content):
    assert rows_of(write(tmp_path, content, name)) == [('a, "b"\nc', "1"), ("d", "2")]
    assert is_labelled(name)


def test_other_columns_and_long_texts(tmp_path):
    long = "x" * 200_000  # the csv module alone would refuse it
    path = write(tmp_path, f"body,stars\n{long},5\ny,4\n")
    assert rows_of(path, text="body", label="stars") == [(long, "5"), ("y", "4")]
    assert not is_labelled("a.txt") and not is_labelled(None)


def test_labels_are_sorted():
    assert sort_labels(["pos", "neg", "pos"]) == ("neg", "pos")
    assert sort_labels(["10", "9", "-1"]) == ("-1", "9", "10")
    assert sort_labels(["10", "9", "a"]) == ("10", "9", "a")


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("a.csv", "title,labels\na,b\n", "a.csv.*'text'.*title, labels.*--data.text.*--data.label"),
        ("a.csv", "text,labels\na,b\n", "'label'.*labels.*'labels'"),
        ("a.jsonl", '{"body": "a", "label": 1}', "a.jsonl.*'text'.*body, label"),
        ("a.csv", "text,label\na,1\n,2\nb,\n\nc,\nd,2\n", "a.csv.*'text'.*'label'.*lines 3, 4, 6"),
        ("a.csv", "text,label\n" + "a,\n" * 8, "in lines 2, 3, 4, 5, 6 and 3 more;"),
        ("a.csv", 'text,label\n"a\nb",1\n"c\n",2\n ,1\n', "in line 6;"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": null, "label": 1}\n{"text": "b"}\n', "in lines 2, 3;"),
        ("a.csv", "text,label\na,b,1\n", "line 2.*a.csv.*3.*2 columns.*','"),
        ("a.csv", 'text,label\na,1\n"b,2\nc,1\n', "line 3.*a.csv.*CSV.*end of data"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": ', "2.*a.jsonl.*JSON.*JSONL"),
        ("a.jsonl", "[1]\n", "line 1.*a.jsonl.*list.*object"),
        ("a.jsonl", '{"text": 5, "label": 1}\n', "1.*a.jsonl.*5.*'text'"),
        ("a.jsonl", '{"text": "a", "label": NaN}\n', "'label'.*line 1.*NaN"),
        ("a.jsonl", '{"text": ["EU", "rejects"], "label": ["B", "O"]}\n', "line 1.*a.jsonl.*list in column 'text'"),
        ("a.jsonl", '{"text": "EU", "label": ["B", "O"]}\n', "line 1.*a.jsonl.*'B', 'O'.*'label'"),
        ("a.jsonl", '{"text": "a\\ud800", "label": 1}\n', "1.*a.jsonl.*character '.ud800'.*1.*character"),
        ("a.csv", "text,label\n", "a.csv.*no rows"),
        ("a.csv", "\n", "a.csv is empty"),
        ("a.csv", "", "a.csv.*empty"),
        ("a.csv", "text,label\na,1\né,2\n".encode() + b"\xe9,2\n", "line 4.*a.csv.*UTF-8.*0xe9.*--data.encoding"),
        ("a.csv", b"text,label\na,1\n\0,2\n", "a.csv.*binary, not text.*NUL.*line 3"),
        ("a.txt", "text,label\na,1\n", "label.*--data"),
        ("a.csv", "text,label\na,1\nb,1\n", "a.csv.*'1'.*two"),
        ("a.csv", "text,label\na,1\nb,2\n", "a.csv.*rows.*--data.validation 0"),
    ],
)
def test_words_of_errors(tmp_path, name, content, words):
    with pytest.raises(ValueError, match=words) as error:
        prepared(write(tmp_path, content, name))
    assert "\n" not in str(error.value)


def test_labels_that_are_true_or_false(tmp_path):
    path = write(tmp_path, '{"text": "a", "label": true}\n{"text": "b", "label": false}\n', "a.jsonl")
    assert rows_of(path) == [("a", "true"), ("b", "false")]


def test_configs():
    config = LabelledTextConfig(path="a.csv", label="stars", tokens="words")
    assert configs.from_json(LabelledTextConfig, configs.to_json(config)) == config
    with pytest.raises(ValueError, match="label.*'text'.*both"):
        LabelledTextConfig(path="a.csv", label="text")
    with pytest.raises(ValueError, match="validation.*from 0 on and below 1"):
        LabelledTextConfig(path="a.csv", validation=-0.1)
    with pytest.raises(ValueError, match="tokens.*auto"):
        LabelledTextConfig(path="a.csv", tokens="letters")
