"""Pairs from tables, files and folders, and what is wrong with them."""

import gzip
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.errors import RegardError
from regard.recipes.job import DataContext
from regard.recipes.translation.config import PairsConfig, choose_defaults
from regard.recipes.translation.made_pairs import LONGEST
from regard.recipes.translation.pairs import pair_of
from regard.recipes.translation.problem import Translate
from regard.recipes.translation.processor import PairProcessor

SIDES = [("a dog", "ein Hund"), ("two cats", "zwei Katzen"), ("a red bus", "ein roter Bus")]


def read_pairs(path, beside=None, source=None, target=None):
    config = PairsConfig(path=path, beside=beside, source=source, target=target)
    return PairProcessor(config).read(path, want="learn")


def draw_pairs(name, count, share, seed):
    config = PairsConfig(path=name, pairs=count, validation=share, test=share)
    return PairProcessor(config).read(name, want="learn").draw(seed)


def prepare(config):
    """The job of a training on these pairs."""
    settings = choose_defaults(config, None, "transformer")
    return Translate().prepare(settings, "encoderdecoder", DataContext(cache=None))


def pairs_of(found):
    return [pair_of(found, i) for i in range(len(found))]


def sides_of(found):
    return found.about["sides"]


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
    found = read_pairs(path)
    assert pairs_of(found) == SIDES and sides_of(found) == ("en", "de")
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
    beside = read_pairs(str(tmp_path / "train.en"), str(tmp_path / "train.de.gz"))
    assert pairs_of(beside) == SIDES and sides_of(beside) == ("en", "de")
    found = read_pairs(str(tmp_path), None, "en", "de")
    assert np.bincount(found.splits).tolist() == [3, 3, 3] and not found.notes
    assert pairs_of(found)[-1][0].endswith("!") and found.splits[-1] == TEST
    guessed = read_pairs(str(tmp_path))
    assert sides_of(guessed)[0] == "de" and "from de to en" in guessed.notes[0]


def test_line_marks_inside_a_sentence_end_no_line(tmp_path):
    (tmp_path / "a.en").write_text("one\u2028two\nthree\n")
    write_side(tmp_path / "a.de.gz", ["eins\x85zwei", "drei"])
    found = read_pairs(str(tmp_path / "a.en"), str(tmp_path / "a.de.gz"))
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
    job = prepare(PairsConfig(path=str(tmp_path), context=30))
    assert (job.counts["train"], job.counts["validation"]) == (len(rows) - 3, 1)
    said = " ".join(job.notes)
    assert "1 of 36 pairs has an empty side (the first in line 5)" in said
    assert "more than 30 tokens" in said and "source of 1 training pair is" in said
    kept = prepare(PairsConfig(path=str(tmp_path), context=64, repeated="keep"))
    assert kept.counts["train"] == len(rows) - 1
    for wrong, words in (({}, "empty side"), ({"context": 64}, "empty side")):
        with pytest.raises(RegardError, match=words):
            prepare(PairsConfig(path=str(tmp_path), wrong="refuse", **wrong))


@pytest.mark.parametrize("tokens", ["characters", "words", "bytes", "bpe"])
@pytest.mark.parametrize("vocabularies", ["shared", "separate"])
def test_every_kind_of_tokens_gives_the_text_back(tokens, vocabularies, tmp_path):
    path = table(tmp_path, "pairs.tsv")
    config = PairsConfig(path=path, tokens=tokens, vocabulary=300, vocabularies=vocabularies, validation=0.0)
    source = prepare(config).source
    words = source.processor.vocabulary
    for i, pair in enumerate(source.pairs):
        target = pair["target"]
        assert words.decode(target.tolist()) == pair_of(source.examples, i)[1] and target[-1] == words.end
    assert words.shared == (vocabularies == "shared")
    assert source.pairs[0]["source"].max() < words.source_size
    assert max(pair["target"].max() for pair in source.pairs) < words.size


def test_reversed_numbers_are_as_joeys():
    found = draw_pairs("reverse", 2000, 0.1, seed=0)
    assert all(target.split() == source.split()[::-1] for source, target in pairs_of(found))
    assert np.bincount(found.splits).tolist() == [1600, 200, 200]
    lengths = np.array([len(source.split()) for source, _ in pairs_of(found)])
    for split in (TRAIN, VALIDATION, TEST):
        assert lengths[found.splits == split].max() == LONGEST[split]
    again = draw_pairs("reverse", 2000, 0.1, seed=0)
    assert pairs_of(found) == pairs_of(again) != pairs_of(draw_pairs("reverse", 2000, 0.1, seed=1))
    with pytest.raises(RegardError, match="2 made pairs leave none"):
        draw_pairs("reverse", 2, 0.3, seed=0)


def test_dates_are_written_by_babel():
    pytest.importorskip("babel")
    found = draw_pairs("dates", 300, 0.1, seed=0)
    assert len({source for source, _ in pairs_of(found)}) == 300
    assert all(len(target) == 10 and target[4] == "-" for _, target in pairs_of(found))
    # the same text never means two days
    assert len(dict(pairs_of(found))) == 300


def test_without_babel_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    monkeypatch.setitem(sys.modules, "babel.dates", None)
    with pytest.raises(ImportError, match=r"regard\[translate\].*--data reverse"):
        draw_pairs("dates", 10, 0.1, seed=0)


def test_pairs_in_memory_are_read_as_those_of_a_file():
    frames = [SIDES, [{"en": a, "de": b} for a, b in SIDES], {"en": [a for a, _ in SIDES], "de": [b for _, b in SIDES]}]
    for given in frames:
        found = PairProcessor(PairsConfig()).read(given, want="learn")
        assert pairs_of(found) == SIDES
    with pytest.raises(RegardError, match="a int is no table"):
        PairProcessor(PairsConfig()).read(3, want="learn")


def test_packed_tables_of_a_folder_are_read(tmp_path):
    for split, rows in (("train", "a\tb\nc\td\n"), ("val", "e\tf\n")):
        (tmp_path / f"{split}.tsv.gz").write_bytes(gzip.compress(f"en\tde\n{rows}".encode()))
    found = read_pairs(str(tmp_path))
    assert pairs_of(found) == [("a", "b"), ("c", "d"), ("e", "f")]
    assert sides_of(found) == ("en", "de") and found.splits.tolist() == [0, 0, 1]
    assert read_pairs(str(tmp_path / "val.tsv.gz")).names(0) == "line 2"


def test_one_pair_is_too_few_for_a_validation_split(tmp_path):
    (tmp_path / "one.tsv").write_text("en\tde\na\tb\n")
    config = PairsConfig(path=str(tmp_path / "one.tsv"))
    with pytest.raises(RegardError, match="there is 1 row, .*data.validation 0"):
        prepare(config)
    assert prepare(replace(config, validation=0.0)).counts["train"] == 1
