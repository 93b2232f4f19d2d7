"""Token shards: the same ids as the text, whatever was there when a command was killed."""

import json

import numpy as np
import pytest

import regard
from regard.errors import RegardError
from regard.recipes.text.config import TextConfig
from regard.recipes.text.dataset import encode_corpus, make_shards
from regard.recipes.text.shards import ShardedIds, ShardOptions, open_shards
from regard.verbs.main import main


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.txt").write_text("".join(chr(97 + (i + j * j) % 23) for j in range(700_000)))
    return folder


def options(texts, out, **more):
    return ShardOptions(data=str(texts), out=str(out), megabytes=1, workers=1, **more)


def test_shards_hold_the_ids_of_the_text_and_go_on_after_a_kill(texts, tmp_path):
    made = make_shards(options(texts, tmp_path / "shards"), cache=tmp_path / "cache")
    assert (made["tokens"], len(made["shards"])) == (2_800_003, 4)  # a line between files
    whole = encode_corpus(TextConfig(path=str(texts)), cache=tmp_path / "cache", seed=0)
    ids, tokenizer, _ = open_shards(str(tmp_path / "shards"))
    assert np.array_equal(np.asarray(ids), whole.ids)
    assert tokenizer.to_json() == whole.tokenizer.to_json()

    shards = tmp_path / "shards"
    kept = (shards / "00000.ids").stat().st_mtime_ns
    for name in ("tokens.json", "00002.json"):  # as a kill in shard 2 leaves it
        (shards / name).unlink()
    (shards / "00003.part").write_bytes(b"half")
    with pytest.raises(RegardError, match="not finished"):
        open_shards(str(shards))
    make_shards(options(texts, shards), cache=tmp_path / "cache")
    assert (shards / "00000.ids").stat().st_mtime_ns == kept
    assert np.array_equal(np.asarray(open_shards(str(shards))[0]), whole.ids)

    with pytest.raises(RegardError, match="vocabulary"):
        make_shards(options(texts, shards, vocabulary=99), cache=tmp_path / "cache")
    (shards / "00001.ids").write_bytes(b"short")
    with pytest.raises(RegardError, match=r"00001\.ids"):
        open_shards(str(shards))


def test_a_run_on_shards_is_a_run_on_the_text(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("".join(chr(97 + j * j % 23) for j in range(3000)))
    make_shards(options(tmp_path / "text.txt", tmp_path / "shards"), cache=tmp_path / "cache")
    small = {"model.dim": 8, "model.heads": 1, "model.depth": 1, "model.ngrams": 1, "data.context": 8}
    how = {"steps": 2, "options": small, "observers": [], "report": False}
    losses = []
    for name in ("text.txt", "shards"):
        run = regard.train("text", data=str(tmp_path / name), out=tmp_path / f"of-{name}", **how)
        losses.append([each["loss"] for each in run.metrics() if "loss" in each])
    assert losses[0] == losses[1]
    with pytest.raises(RegardError, match="tokens"):
        regard.train("text", data=str(tmp_path / "shards"), **how | {"options": small | {"data.tokens": "bytes"}})


def test_ids_of_several_shards_are_one_row():
    ids = ShardedIds([np.arange(3), np.arange(3, 4), np.arange(4, 10)])
    places = np.array([[0, 3, 9], [2, 4, 5]])
    assert np.array_equal(ids[places], places)
    assert np.array_equal(np.asarray(ids[2:7]), np.arange(2, 7))
    assert np.array_equal(ids[2:7][1:3].tolist(), [3, 4])
    assert len(ids[5:2]) == 0


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.json").write_text(json.dumps({}))
    (tmp_path / "a.txt").write_text("abc")
    with pytest.raises(RegardError, match="not empty"):
        make_shards(options(tmp_path / "a.txt", tmp_path / "out"), cache=tmp_path / "cache")


def test_the_command_makes_shards_that_a_run_learns_from(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.txt").write_text("to be or not to be\n" * 400)
    assert main(["tokenize", "--data", "my.txt", "--out", "shards", "--workers", "1"]) == 0
    assert "shards" in capsys.readouterr().out
    assert len(open_shards(str(tmp_path / "shards"))[0]) == 7600
    assert main(["tokenize", "--data", "gone.txt", "--out", "others"]) == 2
    assert "gone.txt" in capsys.readouterr().err
    small = ["--model.dim", "16", "--model.heads", "2", "--model.depth", "1", "--data.context", "16"]
    assert main(["train", "text", "--data", "shards", "--out", "run", "--train.steps", "2", "--no-report", *small]) == 0
