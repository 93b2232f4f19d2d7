"""A run can be sent to others: it tells on what it was computed, not by whom, where and with which words."""

import getpass
import json
import os
import platform

import numpy as np
import pytest

from regard.look.redact_paths import without_folders
from regard.runs.environment import environment
from regard.runs.run import Run
from regard.verbs import train

OWNER = "ada-lovelace"  # in the name of every folder around
DATA = {"text": "text", "sets": "sets.csv"}
TINY = {"model.depth": 1, "train.batch": 4, "train.evaluate_every": 1000}
KINDS = {
    "text": {"model.dim": 8, "model.heads": 2, "data.context": 16, "data.tokens": "bytes"},
    "sets": {"model.hidden": 8},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder whose name tells who owns it, with some data of each kind."""
    folder = tmp_path_factory.mktemp(OWNER) / OWNER
    folder.mkdir()
    (folder / "text").write_text("the cat sat on the mat. " * 60)
    chance = np.random.default_rng(0)
    rows = ["set,target,x,y"]
    for number in range(24):
        for _ in range(4):
            rows.append(f"s{number},{number % 2},{chance.normal() + number % 2:.3f},{chance.normal():.3f}")
    (folder / "sets.csv").write_text("\n".join(rows))
    return folder


def words_of_owner(home):
    return {OWNER, str(home), os.path.expanduser("~") + "/", f"/{getpass.getuser()}/", "pytest-of"}


@pytest.mark.parametrize("kind", ["text", "sets"])
@pytest.mark.parametrize("absolute", [True, False])
def test_no_file_but_config_tells_of_its_owner(home, monkeypatch, kind, absolute):
    monkeypatch.chdir(home)
    monkeypatch.setenv("REGARD_CACHE", str(home / "cache"))
    out = home / f"run-{kind}-{absolute}"
    data = DATA[kind]
    if absolute:
        data = str(home / data)
    run = train.train(
        kind, data=data, out=out if absolute else out.name, steps=2, options=TINY | KINDS[kind], observers=[]
    )
    told = []
    for path in run.path.rglob("*"):
        if path.is_file() and path.name != "config.json":
            content = path.read_bytes()
            told += [(path.name, word) for word in words_of_owner(home) if word.encode() in content]
    assert told == []
    assert not {"command", "folder", "user", "machine"} & {*run.environment()}
    config = json.loads((run.path / "config.json").read_text())
    assert config["data"].get("path") == data  # resuming needs it
    if absolute:
        assert "folder" not in config
    else:
        assert config["folder"] == ".." and OWNER not in json.dumps(config)


def test_data_is_found_again_from_anywhere(home, monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(home / "cache"))
    monkeypatch.chdir(home)
    for out, folder in ((home / "runs" / "deep" / "one", "../../.."), (tmp_path / "two", str(home))):
        how = {"options": TINY | KINDS["text"], "observers": [], "report": False}
        run = train.train("text", data="text", out=out, steps=2, **how)
        assert run.config.folder == folder
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "elsewhere")
        resumed = train.train("text", out=out, resume=True, observers=[], report=False)
        assert resumed.config.steps == 2
        monkeypatch.chdir(home)


def test_provenance_is_told_if_asked_for(home, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(home / "cache"))
    monkeypatch.chdir(home)
    options = TINY | KINDS["text"] | {"train.provenance": True}
    run = train.train("text", data="text", out="asked", steps=1, options=options, observers=[], report=False)
    told = run.environment()
    assert told["folder"] == str(home) and told["user"] == getpass.getuser() and told["command"]
    assert told["machine"] == platform.node()
    assert Run.open("asked").config.train["provenance"] is True
    assert {*environment()} == {*told} - {"command", "folder", "user", "machine"}


@pytest.mark.parametrize(
    "text, left",
    [
        ("/home/ada/reviews.csv", "reviews.csv"),
        ("/home/ada lovelace/my reviews.csv", "my reviews.csv"),
        ("~/reviews.csv", "reviews.csv"),
        ("~ada/reviews.csv", "reviews.csv"),
        ("../ada/reviews", "reviews"),
        ("/home/ada/", "ada"),
        ("data/reviews.csv", "data/reviews.csv"),
        ("there is no file /home/ada/x.txt; give one", "there is no file x.txt; give one"),
        ("cannot read '/home/ada/x.txt': gone", "cannot read 'x.txt': gone"),
        ("and/or, 3/4, n/a", "and/or, 3/4, n/a"),
        ("0.25", "0.25"),
    ],
)
def test_only_the_last_part_of_a_path_is_told(text, left):
    assert without_folders(text) == left
