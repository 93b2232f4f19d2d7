"""Pairs from tables, files and folders, and what is wrong with them."""

import gzip
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.errors import RegardError
from regard.recipes.translation.dataset import PairsConfig, prepare_pairs, read_other_pairs
from regard.recipes.translation.made_pairs import LONGEST, make_date_pairs, make_reverse_pairs
from regard.recipes.translation.read_pairs import read_pairs

SIDES = [("a dog", "ein Hund"), ("two cats", "zwei Katzen"), ("a red bus", "ein roter Bus")]


def pairs_of(found):
    return [(pair.source, pair.target) for pair in found.pairs]


def table(folder, name):
    path = folder / name
    if name.endswith(".parquet"):
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = {"en": [a for a, _ in SIDES], "de": [b for _, b in SIDES]}
        parquet.write_table(pyarrow.table(columns), path)
    elif name == "nested.jsonl":
        path.write_text("\n".join(json.dumps({"translation": {"en": a, "de": b}}) for a, b in SIDES))
    elif name.endswith(".jsonl"):
        path.write_text("\n".join(json.dumps({"en": a, "de": b}) for a, b in SIDES))
    else:
        mark = "\t" if name.endswith(".tsv") else ","
        path.write_text("\n".join(mark.join(row) for row in [("en", "de"), *SIDES]))
    return str(path)


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.csv", "pairs.jsonl", "nested.jsonl", "pairs.parquet"])
def test_tables(name, tmp_path):
    path = table(tmp_path, name)
    found = read_pairs(path, None, None, None)
    assert pairs_of(found) == SIDES and (found.source, found.target) == ("en", "de")
    back = read_pairs(path, None, "de", "en")
    assert pairs_of(back) == [(b, a) for a, b in SIDES]
    assert pairs_of(read_pairs(path, None, None, "en")) == pairs_of(back)


def write_side(path, lines):
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


def test_two_files_and_a_folder_packed_or_not(tmp_path):
    for name, side in (("train.en", 0), ("train.de.gz", 1), ("val.en.gz", 0), ("val.de", 1)):
        write_side(tmp_path / name, [pair[side] for pair in SIDES])
    for name, side in (("test2016.en", 0), ("test2016.de", 1)):
        write_side(tmp_path / name, [f"{pair[side]}!" for pair in SIDES])
    (tmp_path / "README.md").write_text("not a pair")
    beside = read_pairs(str(tmp_path / "train.en"), str(tmp_path / "train.de.gz"), None, None)
    assert pairs_of(beside) == SIDES and (beside.source, beside.target) == ("en", "de")
    found = read_pairs(str(tmp_path), None, "en", "de")
    assert np.bincount(found.splits).tolist() == [3, 3, 3] and not found.notes
    assert pairs_of(found)[-1][0].endswith("!") and found.splits[-1] == TEST
    guessed = read_pairs(str(tmp_path), None, None, None)
    assert guessed.source == "de" and "from de to en" in guessed.notes[0]


def test_line_marks_inside_a_sentence_end_no_line(tmp_path):
    (tmp_path / "a.en").write_text("one\u2028two\nthree\n")
    write_side(tmp_path / "a.de.gz", ["eins\x85zwei", "drei"])
    found = read_pairs(str(tmp_path / "a.en"), str(tmp_path / "a.de.gz"), None, None)
    assert pairs_of(found) == [("one two", "eins zwei"), ("three", "drei")]


def bad(folder, kind):
    write_side(folder / "x.en", ["a", "b", "c"])
    write_side(folder / "x.de", ["a", "b"])
    (folder / "cut.gz").write_bytes(gzip.compress(b"a\nb\nc\n" * 100)[:20])
    (folder / "one.tsv").write_text("one\na\n")
    (folder / "three.tsv").write_text("one\ttwo\tthree\na\tb\tc\n")
    (folder / "bare.tsv").write_text("A dog runs.\tEin Hund rennt.\nA cat.\tEine Katze.\n")
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "alone").mkdir(exist_ok=True)
    (folder / "odd").mkdir(exist_ok=True)
    for number in range(6):
        write_side(folder / "odd" / f"{number}.en", ["a"])
    write_side(folder / "alone" / "train.en", ["a"])
    write_side(folder / "alone" / "train.de", ["a"])
    write_side(folder / "alone" / "val.en", ["a"])
    paths = {
        "unequal": (folder / "x.en", folder / "x.de", None, None),
        "one side": (folder / "x.en", None, None, None),
        "missing": (folder / "nothing.tsv", None, None, None),
        "cut": (folder / "cut.gz", folder / "x.de", None, None),
        "one column": (folder / "one.tsv", None, None, None),
        "three": (folder / "three.tsv", None, None, None),
        "no column": (folder / "three.tsv", None, "on", "two"),
        "same column": (folder / "three.tsv", None, "one", "one"),
        "no header": (folder / "bare.tsv", None, None, None),
        "odd folder": (folder / "odd", None, "en", "de"),
        "no file": (folder / "nothing.en", folder / "x.de", None, None),
        "nothing beside": (folder / "x.en", folder / "nothing.de.gz", None, None),
        "empty folder": (folder / "empty", None, None, None),
        "no partner": (folder / "alone", None, "en", "de"),
        "no language": (folder / "alone", None, "en", "fr"),
    }
    path, beside, source, target = paths[kind]
    return str(path), None if beside is None else str(beside), source, target


@pytest.mark.parametrize(
    "kind, words",
    [
        ("unequal", "3 lines and .* 2"),
        ("one side", "--data.beside"),
        ("missing", "no .*nothing.tsv"),
        ("cut", "cut.gz is not a gzip file, or it is cut off"),
        ("one column", "only the column 'one', .*tab"),
        ("three", "3 columns: one, two, three"),
        ("no column", "'on'.*did you mean 'one'"),
        ("same column", "both 'one'"),
        ("no header", "A dog runs."),
        ("empty folder", "no training file, it is empty; .* train.en and train.de"),
        ("odd folder", "no training file, it holds 0.en, 1.en, 2.en, 3.en, 4.en and 1 more; .*train.tsv"),
        ("no file", r"no .*nothing.en, which --data names"),
        ("nothing beside", r"no .*nothing.de.gz, which --data.beside names"),
        ("no partner", "val.en and no val.de"),
        ("no language", "train.fr"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(kind, words, tmp_path):
    with pytest.raises((RegardError, OSError), match=words) as caught:
        read_pairs(*bad(tmp_path, kind))
    assert "\n" not in str(caught.value)


def test_empty_and_long_sides_and_repeats_are_counted(tmp_path):
    rows = [*SIDES, ("", "leer"), ("x" * 40, "lang")] + [(f"dog {i}", f"Hund {i}") for i in range(30)]
    (tmp_path / "train.tsv").write_text("\n".join("\t".join(row) for row in [("en", "de"), *rows]))
    (tmp_path / "val.tsv").write_text("en\tde\na dog\tHund\n")
    config = PairsConfig(path=str(tmp_path), context=30)
    corpus = prepare_pairs(config, seed=0)
    assert (corpus.info.train, corpus.info.validation) == (len(rows) - 3, 1)
    said = " ".join(corpus.notes)
    assert "1 of 36 pairs has an empty side (the first in line 5)" in said
    assert "more than 30 tokens" in said and "source of 1 training pair is" in said
    kept = prepare_pairs(PairsConfig(path=str(tmp_path), context=64, repeated="keep"), seed=0)
    assert kept.info.train == len(rows) - 1
    for wrong, words in (({}, "empty side"), ({"context": 64}, "empty side")):
        with pytest.raises(RegardError, match=words):
            prepare_pairs(PairsConfig(path=str(tmp_path), wrong="refuse", **wrong), seed=0)
    other = read_other_pairs(PairsConfig(path=str(tmp_path / "train.tsv"), context=30), kept.vocabulary, 0)
    assert other.info.test == len(rows) - 1  # nothing is left out of a figure because it is long


@pytest.mark.parametrize("tokens", ["characters", "words", "bytes", "bpe"])
@pytest.mark.parametrize("vocabularies", ["shared", "separate"])
def test_every_kind_of_tokens_gives_the_text_back(tokens, vocabularies, tmp_path):
    path = table(tmp_path, "pairs.tsv")
    config = PairsConfig(path=path, tokens=tokens, vocabulary=300, vocabularies=vocabularies, validation=0.0)
    corpus = prepare_pairs(config, seed=0)
    words = corpus.vocabulary
    for pair, target in zip(corpus.texts, corpus.targets, strict=True):
        assert words.decode(target.tolist()) == pair.target and target[-1] == words.end
    assert words.shared == (vocabularies == "shared")
    assert corpus.sources[0].max() < words.source_size and max(map(max, corpus.targets)) < words.size


def test_reversed_numbers_are_as_joeys():
    found = make_reverse_pairs(2000, (0.1, 0.1), seed=0)
    assert all(pair.target.split() == pair.source.split()[::-1] for pair in found.pairs)
    assert np.bincount(found.splits).tolist() == [1600, 200, 200]
    lengths = np.array([len(pair.source.split()) for pair in found.pairs])
    for split in (TRAIN, VALIDATION, TEST):
        assert lengths[found.splits == split].max() == LONGEST[split]
    again = make_reverse_pairs(2000, (0.1, 0.1), seed=0)
    assert pairs_of(found) == pairs_of(again) != pairs_of(make_reverse_pairs(2000, (0.1, 0.1), seed=1))
    with pytest.raises(RegardError, match="3 made pairs leave none"):
        make_reverse_pairs(3, (0.5, 0.5), seed=0)


def test_dates_are_written_by_babel():
    pytest.importorskip("babel")
    found = make_date_pairs(300, (0.1, 0.1), seed=0)
    assert len({pair.source for pair in found.pairs}) == 300
    assert all(len(pair.target) == 10 and pair.target[4] == "-" for pair in found.pairs)
    # the same text never means two days
    assert len(dict(pairs_of(found))) == 300


def test_without_babel_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    monkeypatch.setitem(sys.modules, "babel.dates", None)
    with pytest.raises(ImportError, match=r"regard\[translate\].*--data reverse"):
        make_date_pairs(10, (0.1, 0.1), seed=0)


def test_packed_tables_of_a_folder_are_read(tmp_path):
    for split, rows in (("train", "a\tb\nc\td\n"), ("val", "e\tf\n")):
        (tmp_path / f"{split}.tsv.gz").write_bytes(gzip.compress(f"en\tde\n{rows}".encode()))
    found = read_pairs(str(tmp_path), None, None, None)
    assert [pair[:2] for pair in found.pairs] == [("a", "b"), ("c", "d"), ("e", "f")]
    assert (found.source, found.target) == ("en", "de") and found.splits.tolist() == [0, 0, 1]
    assert read_pairs(str(tmp_path / "val.tsv.gz"), None, None, None).pairs == [("e", "f", 2)]


def test_one_pair_is_too_few_for_a_validation_split(tmp_path):
    (tmp_path / "one.tsv").write_text("en\tde\na\tb\n")
    config = PairsConfig(path=str(tmp_path / "one.tsv"))
    with pytest.raises(RegardError, match="there is 1 row, .*data.validation 0"):
        prepare_pairs(config, seed=0)
    assert prepare_pairs(replace(config, validation=0.0), seed=0).info.train == 1
