"""A command does its work once: files are looked for once, settings resolved once, the trained model loaded once."""

import json

import numpy as np
import pytest
from PIL import Image

import regard
from regard import files
from regard.data.scan import once, scanning_once
from regard.recipes.images import read_images
from regard.recipes.images.recipe import ImagesRecipe
from regard.recipes.supervised import Supervised
from regard.recipes.text.language_model import LanguageModel
from regard.runs import new_run
from regard.verbs import main


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def counted(monkeypatch):
    """counted(owner, name): the list of calls of a function from now on."""

    def count(owner, name):
        calls, whole = [], getattr(owner, name)

        def counting(*what, **how):
            calls.append(what)
            return whole(*what, **how)

        monkeypatch.setattr(owner, name, counting)
        return calls

    return count


def test_a_training_of_images_from_beginning_to_report(tmp_path, counted):
    draw = np.random.default_rng(0)
    for i in range(12):
        place = tmp_path / "data" / ("bright" if i % 2 else "dark")
        place.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 120, (12, 12)) + 130 * (i % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{i}.png")
    scans, read = counted(read_images, "_of_folder"), counted(files, "read_tensors")
    asked = counted(new_run, "check_free")
    prepared = counted(ImagesRecipe, "prepare")
    words = ["train", "images", "--data", "data", "--model", "lenet", "--out", "run", "--train.steps", "2"]
    assert main.main([*words, "--data.validation", "0.3", "--model.hidden", "8"]) == 0
    assert len(scans) == len(prepared) == 1
    assert len(asked) == 2  # before anything is touched, and under the lock
    weights = [what for what in read if what[0].name == "model.safetensors"]
    assert len(weights) == 1  # for the confusion matrix, the laws and the report
    assert {"report.html", "laws.json", "confusion.png"} <= {path.name for path in (tmp_path / "run").iterdir()}
    assert json.loads((tmp_path / "run" / "laws.json").read_text())["ok"] is True


def test_check_builds_no_reader(tmp_path, monkeypatch, capsys):
    words = ["train", "sets", "--data", "max", "--out", "run", "--train.steps", "1", "--no-report"]
    assert main.main([*words, "--model.hidden", "8", "--model.depth", "1"]) == 0
    assert not (tmp_path / "run" / "report.html").exists() and not (tmp_path / "run" / "laws.json").exists()

    def fail(*what):
        raise AssertionError("a reader was built, which reads the data")

    monkeypatch.setattr(Supervised, "reader", fail)
    assert main.main(["check", "run", "--laws", "permutation"]) == 0
    assert "run: as declared" in capsys.readouterr().out


def test_without_a_report_nothing_is_loaded(tmp_path, counted):
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 40)
    read, loaded = counted(files, "read_tensors"), counted(LanguageModel, "load")
    options = {"model.dim": 16, "model.depth": 1, "model.heads": 2, "data.context": 8}
    run = regard.train("text", data="text.txt", out="run", steps=2, options=options, observers=[], report=False)
    assert not read and not loaded
    names = {
        "manifest.json",
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "model.safetensors",
        "tokenizer.json",
        "samples",
        "state",
    }
    assert {path.name for path in run.path.iterdir()} == names


def test_scanning_once_ends_with_its_block():
    calls = []

    @once
    def scan(path, deep=False):
        calls.append(path)
        return [path]

    scan("a")
    assert scan("a") is not scan("a") and len(calls) == 3
    with scanning_once():
        first = scan("a")
        with scanning_once():
            assert scan("a") is first
        assert scan("a") is first and scan("a", deep=True) is not first and scan("b") == ["b"]
    assert scan("a") is not first and len(calls) == 7
