"""How a table was read is told by predict of every kind, once, and the options that its notes name are there."""

import re
from dataclasses import fields
from inspect import getsource
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import regard
from regard.data import column_kinds, dialect, tables
from regard.data.dialect import TableConfig
from regard.runs.run import Run
from regard.verbs.main import main
from regard.verbs.predict import read_differently
from tests.recipes import tiny_data

TOKENS = {"data.tokens": "words", "data.context": 8}
SMALL = {"model.dim": 8, "model.heads": 1, "model.depth": 1, "data.validation": 0.25}
VALUES = {"decimal": "comma", "dates": "day", "header": "true", "separator": ";", "nulls": "-999"}


def comma(number):
    return f"{number:.2f}".replace(".", ",")


def rows_of(kind, folder):
    """The lines of a table with a decimal comma in each row."""
    half = [comma(i + 0.25) for i in range(24)]
    if kind == "sets":
        return ["set;x;target", *(f"s{i};{x};{'ab'[i % 2]}" for i, x in enumerate(half))]
    if kind == "series":
        days = [f"2024-01-{i + 1:02}" for i in range(24)]
        return ["time;load", *(f"{day};{x}" for day, x in zip(days, half, strict=True))]
    if kind == "text":
        return ["price;text;label", *(f"{x};film {i};{'ab'[i % 2]}" for i, x in enumerate(half))]
    if kind == "images":
        for i in range(24):
            Image.fromarray(np.full((8, 8), 9 * i, np.uint8)).save(folder / f"{i}.png")
        return ["price;file;label", *(f"{x};{i}.png;{'ab'[i % 2]}" for i, x in enumerate(half))]
    if kind == "translation":
        return ["price;source;target", *(f"{x};film {i};kino {i}" for i, x in enumerate(half))]
    if kind == "autoencoder":
        return ["x;y", *(f"{x};{comma(i % 5 + 0.5)}" for i, x in enumerate(half))]
    names = "observation_0;observation_1;action;reward;episode"
    return [names, *(f"{x};{comma(i % 5)};{i % 2};1,5;{i // 6}" for i, x in enumerate(half))]


OPTIONS = {
    "sets": {"model.hidden": 4},
    "series": {**SMALL, "data.horizon": 2, "data.context": 4},
    "text": {**SMALL, **TOKENS, "model.bag": False},
    "images": {"model.stem": 4, "model.widths": [4], "model.residual": [0], "data.image": "file"},
    "translation": {**SMALL, "data.tokens": "words", "data.source": "source", "data.target": "target"},
    "autoencoder": {},
    "world": {"data.context": 2, "train.policy": "none", "train.first_steps": 1, "train.world_steps": 1},
}


@pytest.fixture(scope="module", params=OPTIONS)
def read(request, tmp_path_factory):
    """A run of a kind, and a table of it."""
    kind = request.param
    folder = tmp_path_factory.mktemp(kind)
    table = folder / "table.csv"
    table.write_text("\n".join([*rows_of(kind, folder), ""]))
    how = {"report": False, "observers": [], "steps": 1, "options": OPTIONS[kind]}
    run = regard.train(kind, data=str(table), out=folder / "run", **how).path
    return SimpleNamespace(kind=kind, run=str(run), table=str(table))


def test_predict_tells_once_how_the_table_was_read(read, capsys):
    assert main(["predict", read.run, read.table]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "decimal comma" in line]
    assert len(told) == 1 and told[0].startswith(f"regard: {read.table}: ")


def test_the_options_that_notes_name_are_those_of_every_kind(read):
    check_options(read.run)
    decided = ["predict", read.run, read.table, "--data.decimal", "comma", "--data.separator", ";"]
    assert main(decided) == 0


@pytest.mark.parametrize("make", [tiny_data.edges, tiny_data.meshes])
def test_kinds_with_tables_beside_their_files_have_the_options_too(make, tmp_path):
    tiny = make(tmp_path)
    how = {"report": False, "observers": [], "steps": 1, "options": tiny.options}
    check_options(regard.train(tiny.recipe, data=tiny.data, out=tmp_path / "run", **how).path)


def check_options(path):
    run = Run.open(path)
    named = re.findall(r"--data\.(\w+)", "".join(map(getsource, (dialect, column_kinds, tables))))
    own = {each.name for each in fields(TableConfig)}
    assert set(named) <= own
    for name in own:
        value = VALUES.get(name, "none" if name == "quote" else "utf-8")
        found = read_differently(run, {f"data.{name}": value})
        assert found.config.data[name] is not None


def test_clouds_tell_how_each_was_read(tmp_path, capsys):
    draw = np.random.default_rng(0)
    for i in range(8):
        place = tmp_path / "clouds" / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        lines = [";".join(map(comma, point)) for point in draw.normal(size=(12, 3))]
        (place / f"{i}.csv").write_text("\n".join(["x;y;z", *lines, ""]))
    data = str(tmp_path / "clouds")
    for kind, options in (("sets", {"model.hidden": 4, "data.points": 6}), ("autoencoder", {"data.points": 8})):
        how = {"report": False, "observers": [], "steps": 1, "options": options}
        run = str(regard.train(kind, data=data, out=tmp_path / kind, **how).path)
        capsys.readouterr()
        files = [f"{data}/a/0.csv", f"{data}/b/1.csv"]
        assert main(["predict", run, *files, "--data.decimal", "comma"]) == 0
        told = [line for line in capsys.readouterr().err.splitlines() if "decimal comma" in line]
        assert [line.split(": ")[1] for line in told] == files


def test_embeddings_tell_how_their_table_was_read(tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_text("\n".join([*rows_of("text", tmp_path), ""]))
    how = {"report": False, "observers": [], "steps": 1, "options": OPTIONS["text"]}
    run = str(regard.train("text", data=str(table), out=tmp_path / "run", **how).path)
    capsys.readouterr()
    asked = ["predict", run, str(table), "--embeddings", str(tmp_path / "out.npz")]
    for options in ([], ["--data.separator", ";", "--data.decimal", "comma"]):
        assert main([*asked, *options]) == 0
        assert capsys.readouterr().err.count("decimal comma") == 1
    assert main([*asked, "--data.separatr", ";"]) == 2
    assert "did you mean" in capsys.readouterr().err
