"""Text: windows by number, all of validation once, tokens made once and kept, and bad input named by file and byte."""

import hashlib
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import config as configs
from regard.data import text_files as reading
from regard.data.batch import IGNORE
from regard.data.fast_tokenizers import Bytes
from regard.data.learn_tokenizer import TOKENIZERS, learn
from regard.data.text_files import find, pieces, read
from regard.data.tokenizer import save
from regard.recipes.text import dataset as texts
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import TextSource, encode_corpus

ROOT = Path(__file__).parents[3]
STORY = "".join(
    f"{i}: the dog no. {i * i % 97} liked the naïve cat, didn't it?\n\n    Yes — twice.\n" for i in range(60)
)


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(STORY, "utf-8", newline="\n")
    return path


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def prepared(path, cache, seed=0, **options):
    extra = {name: options.pop(name) for name in ("note", "tokenizer", "workers") if name in options}
    given = {"context": 16, "vocabulary": 300, **options}
    corpus = encode_corpus(TextConfig(path=path and str(path), **given), cache=cache, seed=seed, **extra)
    corpus.check(given["context"])
    return corpus


def entries(cache):
    return sorted((each.name, each.stat().st_mtime_ns) for each in (cache / "tokens").iterdir())


# ── from text to ids ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [*TOKENIZERS, "auto"])
def test_a_text_becomes_ids_and_comes_back(story, cache, kind):
    corpus = prepared(story, cache, tokens=kind)
    known = corpus.tokenizer.unknowns(STORY) == ()
    assert not known or corpus.tokenizer.decode(corpus.ids) == STORY
    assert known or kind == "words"  # there are 300 of them at most
    assert isinstance(corpus.train, np.memmap) and isinstance(corpus.validation, np.memmap)
    assert len(corpus.train) == int(len(corpus.ids) * 0.9) == corpus.split
    assert corpus.ids.dtype == corpus.tokenizer.dtype
    about = corpus.counts
    assert corpus.tokenizer.name == (kind if kind != "auto" else "characters")
    assert (about["characters"], about["bytes"], about["files"]) == (len(STORY), len(STORY.encode()), 1)
    assert about["train"] + about["validation"] == about["tokens"] == len(corpus.ids)


def test_large_texts_get_bpe(story, cache, monkeypatch):
    monkeypatch.setattr(texts, "CHARACTERS_UP_TO", 1000)
    assert prepared(story, cache).tokenizer.name == "bpe"


def test_files_of_a_folder_are_joined_by_their_names(tmp_path, cache):
    folder = tmp_path / "books"
    (folder / "b" / ".git").mkdir(parents=True)
    for name, text in {
        "z.txt": "last",
        "b/a.txt": "\ufeffthird",
        "b/B.txt": "second\n",
        "a.txt": "first" * 9,
        "empty": "",
        ".hidden": "\0",
        "b/.git/x": "\0",
    }.items():
        (folder / name).write_text(text, "utf-8", newline="\n")
    corpus = prepared(folder, cache)
    assert corpus.tokenizer.decode(corpus.ids) == "first" * 9 + "\nsecond\nthird\nlast"
    assert corpus.counts["files"] == 4
    for pattern in ("books/*/*.txt", "books/**/[aB].txt"):
        found = [each.name for each in find(str(tmp_path / pattern))]
        assert found == (["B.txt", "a.txt"] if "**" not in pattern else ["a.txt", "b/B.txt", "b/a.txt"])
    (folder / "[ab].txt").write_text("a name that looks like a glob")
    assert [each.name for each in find(str(folder / "[ab].txt"))] == ["[ab].txt"]


def test_without_a_path_it_is_the_standard_library():
    found = find(None)
    names = [each.name for each in found]
    assert {"ast.py", "random.py", "typing.py"} <= set(names) and names == sorted(names)
    assert not any("/" in name or "test" in name.split("_") for name in names)
    assert 2e6 < sum(each.size for each in found) < texts.CHARACTERS_UP_TO
    assert find(None) == found


@settings(max_examples=30)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=80)
    | st.text("ab,' \n\té😀", min_size=1, max_size=80),
    size=st.integers(1, 20),
)
def test_pieces_together_are_the_text(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("pieces") / "text.txt"
    path.write_bytes(text.encode())
    assert "".join(map(read, pieces(find(str(path)), size))) == text.removeprefix("\ufeff")


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_pieces_have_the_tokens_of_the_whole(story, cache, kind, monkeypatch):
    whole = prepared(story, cache / "a", tokens=kind)
    monkeypatch.setattr(texts, "PIECE", 500)
    parts = prepared(story, cache / "b", tokens=kind)
    assert np.array_equal(whole.ids, parts.ids) and whole.tokenizer.to_json() == parts.tokenizer.to_json()


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
def test_threads_give_the_same_ids(story, cache, kind, monkeypatch):
    monkeypatch.setattr(texts, "PIECE", 600)
    alone = prepared(story, cache / "a", tokens=kind, workers=1)
    notes = []
    shared = prepared(story, cache / "b", tokens=kind, workers=3, note=lambda what, share: notes.append((what, share)))
    assert np.array_equal(alone.ids, shared.ids) and alone.counts == shared.counts
    assert ("reading", 1.0) in notes and notes[-1] == ("encoding", 1.0)
    assert all(share is None or 0 < share <= 1 for _, share in notes)


# ── made once ───────────────────────────────────────────────────────────────────────────────────────────────


def test_tokens_are_made_once(story, cache, monkeypatch):
    first = prepared(story, cache, tokens="bpe")
    before = entries(cache)
    monkeypatch.setattr(texts, "encode", None)  # to call it again would fail
    monkeypatch.setattr(texts, "learn_from_pieces", None)
    again = prepared(story, cache, tokens="bpe", seed=5, context=3)
    given = prepared(story, cache, tokenizer=first.tokenizer)
    moved = story.parent / "elsewhere" / story.name
    moved.parent.mkdir()
    story.rename(moved)
    for each in (again, given, prepared(moved, cache, tokens="bpe", validation=0.1)):
        assert np.array_equal(each.ids, first.ids)
        assert each.counts == first.counts
    assert entries(cache) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text(STORY.replace("dog", "god")),
        lambda path: path.write_text(STORY + "!"),
        lambda path: path.rename(path.with_name("other.txt")),
    ],
)
def test_another_text_is_made_anew(story, cache, change):
    prepared(story, cache, tokens="bytes")
    change(story)
    (now,) = story.parent.glob("*.txt")
    corpus = prepared(now, cache, tokens="bytes")
    assert corpus.tokenizer.decode(corpus.ids).encode() == now.read_bytes()
    assert len(entries(cache)) == 2


def test_the_seed_draws_what_bpe_is_learned_from(story, cache, monkeypatch):
    monkeypatch.setattr(texts, "LEARNED_PIECE", 1024)
    assert len(STORY) > 4000
    one, two, again = (prepared(story, cache, seed, tokens="bpe", sample=0.002, vocabulary=1000) for seed in (1, 2, 1))
    assert one.tokenizer.to_json() != two.tokenizer.to_json()
    assert one.tokenizer.to_json() == again.tokenizer.to_json()


def test_bpe_is_learned_from_the_training_part_only(tmp_path, cache):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat\n" * 500 + "quizzical\n" * 500)
    vocabulary = prepared(path, cache, tokens="bpe", validation=0.6).tokenizer.to_json()["model"]["vocab"]
    assert "Ġcat" in vocabulary and "quizzical" not in vocabulary


KILLED = """
import os, signal, sys
from pathlib import Path
from regard.data import cache, fast_tokenizers, learn_tokenizer, text_files
def note(what, share):
    if share > 0.5:
        os.kill(os.getpid(), signal.SIGKILL)
parts = text_files.pieces(text_files.find(sys.argv[1]), 300)
ids = fast_tokenizers.Bytes()
cache.ids(Path(sys.argv[2]), "name", ids.dtype, lambda out: learn_tokenizer.encode(parts, ids, out, 2, note))
"""


def test_what_a_killed_process_left_is_not_used(story, cache):
    done = subprocess.run([sys.executable, "-c", KILLED, str(story), str(cache)], cwd=ROOT, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (part,) = (cache / "tokens").iterdir()
    assert part.name.startswith(".name.") and part.name.endswith(".part") and (part / "ids").exists()
    corpus = prepared(story, cache, tokens="bytes")
    assert corpus.tokenizer.decode(corpus.ids) == STORY
    assert part.exists()  # somebody might still be writing it
    old = time.time() - 2 * 3600
    for each in (*part.iterdir(), part):
        os.utime(each, (old, old))
    prepared(story, cache, tokens="characters")
    assert not part.exists() and len(entries(cache)) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: (entry / "ids").write_bytes(b"short"),
        lambda entry: (entry / "about.json").write_text("{"),
        lambda entry: (entry / "ids").unlink(),
    ],
)
def test_a_damaged_entry_is_made_anew(story, cache, damage):
    prepared(story, cache, tokens="bytes")
    (entry,) = (cache / "tokens").iterdir()
    damage(entry)
    corpus = prepared(story, cache, tokens="bytes")
    assert corpus.tokenizer.decode(corpus.ids) == STORY
    assert [each.name for each in (cache / "tokens").iterdir()] == [entry.name]


def test_a_full_disk_leaves_nothing(story, cache, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.data.cache.os.fsync", full)
    with pytest.raises(OSError, match="^cannot write tokens.*disk.*full"):
        prepared(story, cache, tokens="bytes")
    assert entries(cache) == []


# ── windows ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_target_is_the_next_token(story, cache):
    corpus = prepared(story, cache)
    source = corpus.source(batch=5, context=16, seed=1)
    train = corpus.tokenizer.decode(corpus.train)
    for step in range(20):
        batch = source.batch(step)
        assert batch["tokens"].shape == batch.target.shape == (5, 16) and "real" not in batch and batch.size == 80
        assert torch.equal(batch["tokens"][:, 1:], batch.target[:, :-1])
        for tokenizer, target in zip(batch["tokens"], batch.target, strict=True):
            assert corpus.tokenizer.decode([*tokenizer, target[-1]]) in train


def test_all_of_the_training_part_is_seen():
    source = TextSource(np.arange(12), split=10, batch=500, context=4, seed=0)
    batch = source.batch(0)
    assert set(batch["tokens"][:, 0].tolist()) == set(range(6))  # the last window is 5 6 7 8, and asks for 9
    assert batch.target.max() == 9


def test_a_batch_depends_on_seed_and_step_alone(story, cache):
    corpus = prepared(story, cache)
    one, other = corpus.source(4, 8, seed=0), corpus.source(4, 8, seed=0)
    backwards = [other.batch(step)["tokens"] for step in reversed(range(6))][::-1]
    assert all(torch.equal(one.batch(step)["tokens"], backwards[step]) for step in range(6))
    assert not torch.equal(backwards[0], backwards[1])
    assert not torch.equal(backwards[0], corpus.source(4, 8, seed=1).batch(0)["tokens"])


BATCHES = """
import hashlib, sys
from pathlib import Path
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import encode_corpus
corpus = encode_corpus(TextConfig(path=sys.argv[1], tokens=sys.argv[3], vocabulary=300), cache=Path(sys.argv[2]), seed=0)
source = corpus.source(4, 8, seed=0)
print(hashlib.sha256(b"".join(source.batch(step)["tokens"].numpy().tobytes() for step in (7, 3))).hexdigest())
"""


def test_the_same_batches_in_every_process(story, tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", BATCHES, str(story), str(tmp_path / "1"), "words"],
        cwd=ROOT,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
    ).stdout.strip()
    source = prepared(story, tmp_path / "2", tokens="words").source(4, 8, seed=0)
    here = hashlib.sha256(b"".join(source.batch(step)["tokens"].numpy().tobytes() for step in (7, 3))).hexdigest()
    assert told == here


@given(length=st.integers(2, 60), split=st.integers(1, 60), batch=st.integers(1, 5), context=st.integers(1, 70))
def test_validation_asks_for_every_token_exactly_once(length, split, batch, context):
    split = min(split, length)
    source = TextSource(np.arange(1, length + 1, dtype=np.uint8), split, batch, context, seed=0)
    asked, given = [], []
    for each in source.validation():
        assert each["tokens"].shape[0] <= batch and each["tokens"].shape[1] == context
        real = torch.ones_like(each["tokens"]).bool() if "real" not in each else each["real"]
        assert torch.equal(each.target == IGNORE, ~real)
        asked += each.target[real].tolist()
        given += each["tokens"][real].tolist()
    assert asked == list(range(split + 1, length + 1))
    assert given == [each - 1 for each in asked]
    assert len(list(source.validation())) == math.ceil(math.ceil((length - split) / context) / batch)


def test_no_validation(story, cache):
    corpus = prepared(story, cache, validation=0.0)
    assert len(corpus.validation) == 0 and list(corpus.source(4, 8, 0).validation()) == []


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────────────

BIG = b"a line of text\n" * 300


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "text.txt.*empty"),
        (b"\xef\xbb\xbf", "text.txt holds no text"),
        (BIG + b"ab\0c", "text.txt.*NUL.*4502"),
        (BIG + "é".encode("latin-1") + b"a", "text.txt.*UTF-8.*4500.*0xE9.*Latin-1.*Windows-1252.*UTF-8"),
        ("hello".encode("utf-16"), "NUL.*3.*UTF-16.*UTF-8"),
        (b"\x1f\x8b\x08\x08abc", "not text.*UTF-8: byte 1.*0x8B.*packed by gzip; unpack.*first .gunzip."),
        (b"%PDF-1.7\n%\xe2\xe3\n", "not text.*UTF-8: byte 10.*0xE2.*PDF; take.*out.*first"),
        (b"short", r"text.txt.*5 tokens \(characters\), 4.*training.*context=16.*token.*--data.context 3"),
        (b"x", "1 tokens .characters., 0.*training"),
    ],
)
def test_bad_files(tmp_path, cache, content, words):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as error:
        prepared(path, cache)
    assert "\n" not in str(error.value)
    assert not (cache / "tokens").exists() or all("part" not in name for name, _ in entries(cache))


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_bad_bytes_whatever_the_tokens_and_whoever_reads(tmp_path, cache, kind, monkeypatch):
    monkeypatch.setattr(texts, "PIECE", 1000)
    path = tmp_path / "text.txt"
    path.write_bytes(BIG + b"\xff\n")
    with pytest.raises(ValueError, match="^[^\n]*text.txt is not text in UTF-8: byte 4500 is 0xFF; it may be[^\n]*$"):
        prepared(path, cache, tokens=kind, workers=2)


def test_paths_that_lead_nowhere(tmp_path, cache, monkeypatch):
    with pytest.raises(FileNotFoundError, match="missing.txt; give.*text file.*folder.*glob"):
        prepared(tmp_path / "missing.txt", cache)
    with pytest.raises(FileNotFoundError, match="b.txt.*nowhere"):
        prepared(tmp_path / "nowhere" / "b.txt", cache)
    with pytest.raises(ValueError, match="file matches .*[*].txt; try.*quote"):
        prepared(tmp_path / "*.txt", cache)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="folder.*.hidden.*count."):
        prepared(tmp_path / "folder", cache)
    (tmp_path / "folder" / "a").touch()
    (tmp_path / "folder" / "b").touch()
    with pytest.raises(ValueError, match="2.*folder.*empty"):
        prepared(tmp_path / "folder", cache)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="pipe.*not.*regular file.*device.*pipe."):
            prepared(tmp_path / "pipe", cache)


def test_a_file_that_may_not_be_read(story, cache, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reading, "open_regular", refuse)
    with pytest.raises(PermissionError, match="^cannot read .*story.txt: permission denied; chmod u.r gives it"):
        prepared(story, cache)


def test_a_file_that_changes_meanwhile(story, cache):
    def meddle(what, share):
        if what == "encoding":
            story.write_text(STORY[:-1] + "?")

    with pytest.raises(ValueError, match="story.txt changed.*run.*again.*writes"):
        prepared(story, cache, tokens="bytes", note=meddle)
    assert entries(cache) == []


def test_a_given_tokenizer_that_does_not_know_a_character(story, cache, tmp_path):
    save(learn("characters", [STORY.replace("ï", "i")]), tmp_path / "tokenizer.json")
    byte = STORY.encode().index("ï".encode())
    for mark in ("\ufeff", ""):
        story.write_text(mark + STORY, "utf-8", newline="\n")
        words = f"story.txt has the character 'ï' .U.00EF. at byte {byte + len(mark.encode())}, which the tokenizer"
        with pytest.raises(ValueError, match=words):
            prepared(story, cache, tokenizer=learn("characters", [STORY.replace("ï", "i")]))
    with pytest.raises(ValueError, match="data.tokens bytes"):
        encode_corpus(TextConfig(path=str(story), tokenizer=str(tmp_path / "tokenizer.json")), cache=cache, seed=0)


def test_configs():
    config = TextConfig(path="a.txt", tokens="words", validation=0.25)
    assert configs.from_json(TextConfig, configs.to_json(config)) == config
    for options, words in [
        ({"context": 0}, "context must be a whole number from 1 .*got 0"),
        ({"tokens": "letters"}, "tokens must be one of auto, characters, bytes, words, bpe, got 'letters'"),
        (
            {"tokens": "bpe", "tokenizer": "t.json"},
            "tokens='bpe' and a tokenizer are both given; leave one of them out",
        ),
        ({"validation": 1.0}, "validation.* got 1.0"),
    ]:
        with pytest.raises(ValueError, match=words):
            TextConfig(**options)
    corpus = texts.Corpus("a.txt", Bytes(), np.arange(50, dtype=np.uint8), 45, 1, 50, 50)
    words = "a.txt has 50 tokens .bytes., 45 of them for training, .* use --data.context 44 or less"
    with pytest.raises(ValueError, match=words):
        corpus.source(batch=2, context=45, seed=0)
    assert corpus.source(batch=2, context=44, seed=0).batch(0).target[:, -1].tolist() == [44, 44]
    with pytest.raises(ValueError, match="batch.*1.*0"):
        corpus.source(batch=0, context=4, seed=0)
