"""Tables in and out of predict, for every kind of data: each row is answered, and answers are a table."""

import csv
import json
import random
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import regard
from regard.data.tables import is_empty, is_missing, open_table, place_of
from regard.data.targets import read_names
from regard.recipes.answers import write_answers
from regard.recipes.prediction import Prediction
from regard.runs.run import Run
from regard.verbs.main import main

TEXT = {"model.dim": 16, "model.depth": 1, "model.heads": 2, "data.context": 8, "data.tokens": "words"}
STEPS = {"observers": [], "report": False, "steps": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A small run of each kind of data, and a table of it (of graphs: an edge list) with labels."""
    place = tmp_path_factory.mktemp("runs")
    found = SimpleNamespace(place=place)
    draw = random.Random(0)
    words = [(f"{draw.choice(['a', 'the'])} {word} film, {i}", word) for i in range(12) for word in ("good", "bad")]
    write(place / "reviews.csv", [("id", "text", "label"), *((i, *row) for i, row in enumerate(words))])
    found.text = train("text", place / "reviews.csv", place / "text", TEXT)

    baskets = [(f"b{i}", round(draw.random() + i % 2, 3), i % 3, ("dear", "cheap")[i % 2]) for i in range(20)]
    rows = [row for row in baskets for _ in range(2)]
    write(place / "baskets.csv", [("basket", "price", "amount", "kind"), *rows])
    sets = {"model.hidden": 8, "data.id": "basket", "data.target": "kind"}
    found.sets = train("sets", place / "baskets.csv", place / "sets", sets)

    write(place / "net.csv", [("source", "target"), *((f"v{i}", f"v{(i + 2) % 20}") for i in range(20))])
    nodes = [(f"v{i}", round(draw.random() + i % 2, 3), ("odd", "even")[i % 2]) for i in range(20)]
    write(place / "net.nodes.csv", [("id", "x", "kind"), *nodes])
    graphs = {"model.hidden": 8, "model.depth": 1, "data.label": "kind"}
    found.graphs = train("graphs", place / "net.csv", place / "graphs", graphs)

    pixels = np.random.default_rng(0).integers(0, 255, (24, 8, 8)).astype(np.uint8)
    np.savez(place / "shades.npz", images=pixels, labels=np.arange(24) % 2)
    from PIL import Image

    for i in range(3):
        Image.fromarray(pixels[i]).save(place / f"{i}.png")
    write(place / "photos.csv", [("file", "label"), ("0.png", "dark"), ("gone.png", "light"), ("2.png", "")])
    images = {"data.names": ["dark", "light"], "model.stem": 4, "model.widths": [4], "model.residual": [0]}
    found.images = train("images", place / "shades.npz", place / "images", images)
    return found


def train(recipe, data, out, options):
    return regard.train(recipe, data=str(data), out=out, options=options, **STEPS).path


def write(path, rows, mark=","):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=mark).writerows(rows)
    return str(path)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_any(path):
    return [cells for _, cells in open_table(path).records()]


KINDS = ("text", "sets", "graphs", "images")
TABLES = {"text": "reviews.csv", "sets": "baskets.csv", "graphs": "net.csv", "images": "photos.csv"}
COUNTS = {"text": 24, "sets": 20, "graphs": 20, "images": 3}
COLUMNS = {
    "text": ["id", "text", "label"],
    "sets": ["basket", "kind"],
    "graphs": ["node", "kind"],
    "images": ["file", "label"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_answers_of_every_kind_are_a_table_with_all_digits(runs, kind, ending, tmp_path):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"answers{ending}"
    found = regard.predict(getattr(runs, kind), runs.place / TABLES[kind], out=out)
    parts = [part for each in found for part in (each.each or (each,))]
    rows = read_any(out)
    assert len(rows) == len(parts) == COUNTS[kind]
    assert list(rows[0])[: len(COLUMNS[kind]) + 2] == [*COLUMNS[kind], "answer", "right"]
    for row, part in zip(rows, parts, strict=True):
        assert {name: str(row[name] or "") for name in part.row} == {n: str(v or "") for n, v in part.row.items()}
        shares = {label: row[f"p({label})"] for label in part.labels}
        assert {label: float(share) for label, share in shares.items()} == part.labels
        assert (row["answer"] or None) == part.answer and str(row["right"] or "").lower() in ("", "true", "false")
        assert (row.get("error") or None) == part.error
        if part.error is None and part.truth is not None:
            assert part.right is (part.answer == part.truth) and part.truth == row[COLUMNS[kind][-1]]
    assert [each.name for each in tmp_path.iterdir()] == [out.name]  # no half-written file beside it


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_writes_what_json_prints(runs, kind, tmp_path, capsys):
    table, out = str(runs.place / TABLES[kind]), tmp_path / "a.jsonl"
    code = main(["predict", str(getattr(runs, kind)), table, "--json", "--out", str(out)])
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    parts = [part for each in printed for part in each.get("each", [each])]
    for row, part in zip(read_any(out), parts, strict=True):
        assert all(row[f"p({label})"] == share for label, share in part.get("labels", {}).items())
    assert code == (kind == "images")  # one of its images is gone
    assert main(["predict", str(getattr(runs, kind)), table, "--out", str(tmp_path / "a.csv")]) == code
    shown = capsys.readouterr()
    assert f"a.csv: {COUNTS[kind]} rows" in shown.out and "right: " in shown.out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_an_evaluation_is_a_table_of_its_examples_too(runs, kind, ending, tmp_path):
    path, out = getattr(runs, kind), tmp_path / f"judged{ending}"
    found = regard.evaluate(path, out=out)
    rows = read_any(out)
    assert len(rows) == found.count and not any(row.get("error") for row in rows)
    assert {row["truth"] for row in rows} <= set(found.labels)
    right = [str(row["right"]).lower() == "true" for row in rows]
    assert right == [row["answer"] == row["truth"] for row in rows]
    assert sum(right) / len(rows) == pytest.approx(found.measures["accuracy"])
    assert all(sum(float(row[f"p({label})"]) for label in found.labels) == pytest.approx(1) for row in rows)
    with pytest.raises(ValueError, match=r"out=.*\.csv.*a.doc"):
        regard.evaluate(path, out=tmp_path / "a.doc")


def test_a_comparison_is_a_table_too(runs, tmp_path, capsys):
    out = tmp_path / "compared.csv"
    runs_of_text = [str(runs.text), str(train("text", runs.place / "reviews.csv", tmp_path / "other", TEXT))]
    assert main(["compare", *runs_of_text, "--out", str(out)]) == 0
    rows = read(out)
    assert {"run", "against", "measure", "difference", "low", "high", "count"} <= set(rows[0]) and len(rows) >= 2
    capsys.readouterr()
    assert main(["compare", *runs_of_text, "--out", str(tmp_path / "a.doc")]) == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_where_answers_cannot_be_written(runs, kind, tmp_path):
    path, table = getattr(runs, kind), runs.place / TABLES[kind]
    for out, words in (
        (tmp_path / "a.doc", r"out=.*\.csv.*\.jsonl.*a.doc"),
        (tmp_path / "none" / "a.csv", "no folder.*none"),
        (table, f"{TABLES[kind]} is one of the inputs"),
    ):
        with pytest.raises((ValueError, OSError), match=words):
            regard.predict(path, table, out=out)
    with pytest.raises(ValueError, match="no option data.txet.*takes data"):
        regard.predict(path, table, options={"data.txet": "a"})


def test_rows_in_memory(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(runs.place)
    one, none = regard.predict(runs.text, [{"text": "a good film", "n": 1.5}, {"text": None}])
    assert one.row == {"text": "a good film", "n": 1.5} and one.source == "rows" and not one.error
    assert none.error == "line 2 of rows has no text in column 'text'; fill it in"
    (image,) = regard.predict(runs.images, {"file": "0.png"})
    assert image.error is None and image.labels == regard.predict(runs.images, "0.png")[0].labels
    rows = [{"basket": "a", "price": 1, "amount": 2}, {"basket": "b", "price": "x", "amount": 2}]
    good, bad = regard.predict(runs.sets, rows)
    assert good.input == "rows: a" and good.labels and "'x' in column 'price'" in bad.error
    frame = pa.table({"text": ["a bad film"]})
    assert regard.predict(runs.text, frame)[0].input == "a bad film"


def test_odd_tables_of_texts(runs, tmp_path):
    odd = tmp_path / "odd.csv"
    odd.write_bytes(
        b"\xef\xbb\xbfanswer;text;label;x;x\r\n"
        b'1;"a; ""good""\nfilm";good;1;2\r\n\r\n2;;bad;;\r\n3;?;;NA;\r\n4;\xe6\x98\xa0\xe7\x94\xbb;bad;;'
    )
    found = regard.predict(runs.text, odd, out=tmp_path / "a.csv")
    assert [each.truth for each in found] == ["good", None, None, "bad"] and found[1].row["label"] == "bad"
    assert found[0].input == 'a; "good"\nfilm' and "line 5" in found[1].error and found[2].labels
    rows = read(tmp_path / "a.csv")
    assert list(rows[0])[:6] == ["answer", "text", "label", "x", "x_2", "answer_2"]
    assert [row["answer"] for row in rows] == ["1", "2", "3", "4"] and rows[3]["text"] == "映画"
    again = regard.predict(runs.text, tmp_path / "a.csv", out=tmp_path / "b.csv")
    assert "answer_3" in read(tmp_path / "b.csv")[0] and again[0].labels == found[0].labels


@pytest.mark.parametrize(
    "content, words",
    [
        ("", "empty"),
        ("text,label\n", "no rows"),
        ("review,label\na,good\n", "'text'.*review, label.*--data.text.*did you mean 'review'"),
        ("a,b,text,text\n1,2,3,4\n", "several columns called 'text'"),
        ('text,label\na,good\n"b', "line 3.*not CSV"),
        ("text,label\na,good\nb,c,d\n", "line 3.*3 values.*2 columns"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line_before_any_answer(runs, tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_text(content)
    (found,) = regard.predict(runs.text, path, out=tmp_path / "a.csv")
    assert re.search(words, found.error) and "\n" not in found.error and not (tmp_path / "a.csv").exists()


def test_other_names_of_columns_are_said_to_predict_and_evaluate(runs, tmp_path):
    rows = [("body", "stars"), ("a good film", "good"), ("bad", "bad")]
    path, options = write(tmp_path / "t.csv", rows), {"data.text": "body", "data.label": "stars"}
    assert [each.truth for each in regard.predict(runs.text, path, options=options)] == ["good", "bad"]
    assert regard.evaluate(runs.text, path, options=options).count == 2
    assert Run.open(runs.text).config.data["text"] == "text"  # the run itself is as it was
    with pytest.raises(ValueError, match="data.text.*data="):
        regard.evaluate(runs.text, options={"data.text": "body"})


def test_a_hint_never_names_a_column_that_is_something_else():
    with pytest.raises(ValueError, match="'text'") as raised:
        place_of("text", ["texts", "x"], "t.csv", "advice", ("texts",))
    assert "did you mean 'x'" in str(raised.value)
    with pytest.raises(ValueError, match="'labels'.*did you mean 'label'"):
        place_of("labels", ["text", "label"], "t.csv", "advice", ("text",))
    with pytest.raises(ValueError, match="advice$"):
        place_of("kind", ["kinds", "xx", "yy"], "t.csv", "advice", ("kinds",))


def test_several_inputs_are_told_apart_and_numbers_have_a_column_each(tmp_path):
    both = [
        Prediction(input="a.csv: 1", source="a.csv", row={"id": 7}, values={"mean": 0.1, "spread": 1e-300}),
        Prediction(input="b.npy", each=(Prediction(input="point 1", values={"mean": 2.0, "spread": 3.0}),)),
        Prediction(input="c\ud800.npy", error="it is\ndamaged"),
    ]
    assert list(write_answers(both, tmp_path / "a.csv")) == both
    first, second, third = read(tmp_path / "a.csv")
    assert list(first) == ["input", "part", "id", "answer(mean)", "answer(spread)", "error"]
    assert first["input"] == "a.csv" and float(first["answer(spread)"]) == 1e-300 and second["part"] == "point 1"
    assert third["input"] == "c?.npy" and third["error"] == "it is\ndamaged"


def test_errors_name_keyword_arguments_in_python(runs):
    with pytest.raises(FileExistsError, match="holds a run already.*resume=True.*out="):
        regard.train("text", data=str(runs.place / "reviews.csv"), out=runs.text, **STEPS)


# ── missing cells ───────────────────────────────────────────────────────────────────────────────────────────


def test_which_cells_are_missing():
    assert all(map(is_missing, ("", " ", "NA", "N/A", "NaN", "nan", "null", "?", None, float("nan"))))
    assert not any(map(is_missing, ("0", 0, "none", "Na", "-", False, "missing")))
    assert is_empty(None) and is_empty(" ") and not is_empty("?") and not is_empty("NA")


def holes(runs, word):
    rows = [line.split(",") for line in (runs.place / "baskets.csv").read_text().splitlines()]
    rows[3][1] = rows[5][2] = rows[9][1] = word
    return rows


@pytest.mark.parametrize("word", ["", "NA", "?", "NaN", "null"])
def test_missing_cells_of_sets_are_refused_by_name(runs, word, tmp_path):
    path = write(tmp_path / "t.csv", holes(runs, word))
    options = {"model.hidden": 8, "data.id": "basket", "data.target": "kind"}
    with pytest.raises(
        ValueError, match=r"t.csv.*'price' has 2 .*line 4; .*'amount' has a .*line 6.*data.missing fill.*drop"
    ):
        train("sets", path, tmp_path / "run", options)
    bad = [each.error for each in regard.predict(runs.sets, path) if each.error]
    assert len(bad) == 3 and "line 4" in bad[0] and "'price'" in bad[0]


def test_missing_cells_of_sets_are_dropped_or_filled_as_in_training(runs, tmp_path):
    path = write(tmp_path / "t.csv", holes(runs, "NA"))
    options = {"model.hidden": 8, "data.id": "basket", "data.target": "kind"}
    notes = {}
    for how in ("drop", "fill"):
        run = train("sets", path, tmp_path / how, {**options, "data.missing": how})
        found = regard.predict(run, path)
        assert not [each for each in found if each.error] and len(found) == 20
        notes[how] = found[-1].notes + regard.evaluate(run, path).notes
    assert sum("left out 3 rows" in note for note in notes["drop"]) == 2
    fill = Run.open(tmp_path / "fill").config.processor["fitted"]["fill"]
    assert sum(f"price 2 × {fill[0]:.6g}, amount 1 × {fill[1]:.6g}" in note for note in notes["fill"]) == 2
    one = [{"basket": "z", "price": None, "amount": 1}]
    same = [{"basket": "z", "price": fill[0], "amount": 1}]
    assert regard.predict(tmp_path / "fill", one)[0].labels == regard.predict(tmp_path / "fill", same)[0].labels
    with pytest.raises(ValueError, match="knows no values to fill in"):
        regard.evaluate(runs.sets, path, options={"data.missing": "fill"})


def test_a_target_may_stand_in_one_row_of_its_set(tmp_path):
    rows = [("set", "x", "target")]
    rows += [(i, k + i % 2, ("a", "b")[i % 2] if k == 0 else "") for i in range(8) for k in range(2)]
    path = write(tmp_path / "t.csv", [*rows, (99, 1, "")])
    run = train("sets", path, tmp_path / "run", {"model.hidden": 8, "data.missing": "drop"})
    assert regard.evaluate(run, path).count == 8


def test_missing_rows_of_texts_are_refused_or_dropped(tmp_path):
    rows = [("text", "label"), *[("good", "a"), ("bad", "b")] * 6, ("", "a"), ("x", "NA"), ("y", "?")]
    path = write(tmp_path / "t.csv", rows)
    with pytest.raises(ValueError, match="3 rows.*'text'.*'label'.*lines 14, 15, 16.*data.missing drop"):
        train("text", path, tmp_path / "run", TEXT)
    run = train("text", path, tmp_path / "run", TEXT | {"data.missing": "drop"})
    evaluated = regard.evaluate(run, path)
    assert evaluated.count == 12 and "3 rows" in " ".join(evaluated.notes)


def test_missing_features_of_nodes(runs, tmp_path):
    (tmp_path / "net.csv").write_text((runs.place / "net.csv").read_text())
    text = (runs.place / "net.nodes.csv").read_text().splitlines()
    text[4] = "v3,?,even"
    (tmp_path / "net.nodes.csv").write_text("\n".join(text))
    options, path = {"model.hidden": 8, "model.depth": 1, "data.label": "kind"}, tmp_path / "net.csv"
    with pytest.raises(ValueError, match=r"net.nodes.csv.*'x'.*line 5.*data.missing fill"):
        train("graphs", path, tmp_path / "run", options)
    run = train("graphs", path, tmp_path / "run", options | {"data.missing": "fill"})
    (found,) = regard.predict(run, path)
    assert len(found.each) == 20 and "1 missing feature" in found.notes[0].replace("features", "feature")
    (refused,) = regard.predict(runs.graphs, path)
    assert "line 5" in refused.error
    with pytest.raises(ValueError, match=r"no column 'knid'.*id, x, kind.*data.label kind"):
        train("graphs", runs.place / "net.csv", tmp_path / "other", options | {"data.label": "knid"})


# ── names of classes ────────────────────────────────────────────────────────────────────────────────────────


def test_names_of_classes_are_everywhere(runs):
    config = Run.open(runs.images).config
    assert config.labels == ("dark", "light") and config.processor["fitted"]["unnamed"] == ["0", "1"]
    found = regard.evaluate(runs.images, runs.place / "shades.npz")
    assert found.labels == ("dark", "light") and found.count == 24


def test_ways_to_give_names(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text("tench, Tinca tinca\r\n goldfish \n\n")
    assert read_names((str(file),)) == ("tench, Tinca tinca", "goldfish")
    assert read_names(("cat, dog",)) == read_names(("cat", "dog")) == ("cat", "dog")
    for given, words in (
        (("cat,dog,cat",), "'cat'.*name 3"),
        (("cat,,dog",), "empty.*name 2"),
        (("cats.txt",), "'cats.txt'.*no file"),
    ):
        with pytest.raises(ValueError, match=words):
            read_names(given)


def test_wrong_names_are_one_line(runs, tmp_path):
    for names, words in ((["a", "b", "c"], "2 classes.*3 names"), (["a", "a"], "'a' a second time")):
        with pytest.raises(ValueError, match=words):
            train("images", runs.place / "shades.npz", tmp_path / "x", {"data.names": names})
    table = write(runs.place / "two.csv", [("file", "label"), ("0.png", "dark"), ("1.png", "light")])
    with pytest.raises(ValueError, match="'dark'; leave data.names out"):
        train("images", table, tmp_path / "x", {"data.names": ["a", "b"]})


def with_comma(i):
    return f"{i + 0.25:.2f}".replace(".", ",")


TINY = {"model.hidden": 8, "model.depth": 1, "data.features": "degree", "data.label": "y"}
WITH_COMMAS = {  # where the target of a kind is, and what to train
    "text": ("t.csv", ("text", "label"), lambda i: (f"film {i % 3}", with_comma(i)), TEXT | {"model.bag": False}),
    "sets": ("t.csv", ("set", "x", "target"), lambda i: (i, i % 3, with_comma(i)), {"model.hidden": 8}),
    "nodes": ("t.nodes.csv", ("id", "y"), lambda i: (i, with_comma(i)), TINY),
    "edges": ("t.csv", ("source", "target", "y"), lambda i: (i, i // 2, with_comma(i)), TINY),
    "graphs": ("labels.csv", ("graph", "y"), lambda i: (f"g{i}", with_comma(i)), TINY),
    "images": (
        "t.csv",
        ("file", "label"),
        lambda i: (f"{i}.png", with_comma(i)),
        {"model.stem": 4, "model.widths": [4], "model.residual": [0]},
    ),
    "series": ("t.csv", ("label", "1", "2"), lambda i: (with_comma(i), i, i % 3), {"model.dim": 8, "model.depth": 1}),
}


@pytest.mark.parametrize("kind", WITH_COMMAS)
def test_targets_with_a_decimal_comma_are_numbers(kind, tmp_path):
    from PIL import Image

    name, header, row, options = WITH_COMMAS[kind]
    if kind == "images":
        for i in range(24):
            Image.new("L", (8, 8), 9 * i).save(tmp_path / f"{i}.png")
    if kind == "nodes":
        write(tmp_path / "t.csv", [("source", "target"), *((i, i // 2) for i in range(24))], ";")
    if kind == "graphs":
        for i in range(24):
            write(tmp_path / f"g{i}.csv", [("source", "target"), (0, 1), (1, 2 + i % 2)], ";")
    write(tmp_path / name, [header, *map(row, range(24))], ";")
    data = tmp_path if kind == "graphs" else tmp_path / "t.csv"
    recipe = "graphs" if kind in ("nodes", "edges") else kind
    run = train(recipe, data, tmp_path / "run", options)
    assert not Run.open(run).config.labels
    found = regard.evaluate(run, data)  # its own data as other data
    assert "MAE" in found.measures and found.count == 24


def test_columns_in_memory_may_be_arrays(tmp_path):
    columns = {"set": [i // 2 for i in range(24)], "price": np.arange(24) / 4, "target": np.arange(24) // 2 % 2}
    lists = {name: list(map(float, each)) for name, each in columns.items()}
    runs = [
        regard.train("sets", data=each, out=tmp_path / out, options={"model.hidden": 8}, **STEPS)
        for out, each in (("arrays", columns), ("lists", lists))
    ]
    first, second = (regard.evaluate(run.path, columns) for run in runs)
    assert first.measures == second.measures and first.count == 12
    with pytest.raises(ValueError, match="'price'.*arrays of shape \\(3,\\)"):
        regard.train("sets", data={**columns, "price": np.zeros((24, 3))}, out=tmp_path / "no", **STEPS)


def test_two_tables_of_a_graph_in_memory(tmp_path):
    edges = {"source": [f"v{i}" for i in range(20)], "target": [f"v{(i + 2) % 20}" for i in range(20)]}
    nodes = {"id": [f"v{i}" for i in range(20)], "x": np.arange(20) % 2 / 2, "label": ["odd", "even"] * 10}
    run = regard.train("graphs", data=(edges, nodes), out=tmp_path / "run", options={"model.hidden": 8}, **STEPS)
    assert run.config.labels == ("even", "odd")
    (found,) = regard.predict(run.path, (edges, nodes))
    assert len(found.each) == 20


def test_rows_of_an_evaluation_are_found_in_the_data(runs, tmp_path):
    for kind, names in (
        ("text", {f"line {i + 2} of reviews.csv" for i in range(24)}),
        ("sets", {f"b{i}" for i in range(20)}),
    ):
        regard.evaluate(getattr(runs, kind), runs.place / TABLES[kind], out=tmp_path / "e.csv")
        assert {row["input"].replace(f"{runs.place}/", "") for row in read(tmp_path / "e.csv")} == names


def test_labels_that_are_no_classes_give_no_figure(runs, tmp_path, capsys):
    table = write(tmp_path / "t.csv", [("text", "label"), ("a good film", "gut"), ("a bad film", "schlecht")])
    assert main(["predict", str(runs.text), table]) == 0
    shown = capsys.readouterr().out
    assert "right:" not in shown and "'gut'" in shown and "bad, good" in shown
