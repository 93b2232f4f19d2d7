"""Sets in one command: train on made sets, clouds and tables, resume, check, predict."""

import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.recipes.base import get_recipe, problem_of_run
from regard.recipes.job import DataContext
from regard.recipes.sets import made_sets as data
from regard.recipes.settings import apply_settings, kind_of
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.targets.open import open_target
from regard.training.progress import Observer
from regard.verbs import main, train
from regard.verbs.predict import predict

SMALL = {"train.batch": 8, "train.evaluate_every": 1000, "model.hidden": 16}
QUIET = [Observer()]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch, request):
    if "everything" not in request.fixturenames:
        request.getfixturevalue("no_report")
    monkeypatch.setattr(data, "JUDGED", 64)  # sets are enough to see that there is a measure
    monkeypatch.chdir(tmp_path)


def trained(out="run", steps=3, data=None, model=None, **options):
    how = SMALL | {name.replace("__", "."): value for name, value in options.items()}
    return train.train("sets", data=data, model=model, out=out, steps=steps, options=how, observers=QUIET)


@pytest.fixture
def clouds(tmp_path):
    random = np.random.default_rng(0)
    for kind, long in (("ball", 1.0), ("rod", 8.0)):
        (tmp_path / "clouds" / kind).mkdir(parents=True)
        for i in range(12):
            np.save(tmp_path / "clouds" / kind / f"{i}.npy", random.normal(size=(20 + i, 3)) * [1, 1, long])
    return str(tmp_path / "clouds")


@pytest.fixture
def baskets(tmp_path):
    """The target is the sum of price × amount over a basket."""
    random = np.random.default_rng(0)
    lines = ["basket,price,amount,total"]
    for i in range(120):
        things = [(round(random.uniform(1, 5), 2), int(random.integers(1, 4))) for _ in range(random.integers(1, 6))]
        total = sum(price * amount for price, amount in things)
        lines += [f"{i},{price},{amount},{total:.2f}" for price, amount in things]
    (tmp_path / "baskets.csv").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "baskets.csv")


BASKET = {"data__id": "basket", "data__target": "total"}


def test_empty_clouds_and_numbers_that_never_change_are_noted(clouds, tmp_path):
    def notes(path, **how):
        recipe = get_recipe("sets")
        settings = apply_settings(recipe.defaults(str(path)), {f"data.{name}": value for name, value in how.items()})
        return recipe.prepare(settings, DataContext(cache=tmp_path)).notes

    assert notes(clouds) == ()
    np.save(tmp_path / "clouds" / "rod" / "nothing.npy", np.zeros((0, 3)))
    path = f"{clouds}/rod/nothing.npy"
    assert notes(clouds) == (
        f"1 of 25 sets are empty, such as {path}; the model gives all empty sets the same prediction",
    )
    for file in (tmp_path / "clouds").rglob("*.npy"):
        flat = np.load(file) * [1, 1, 0]
        np.save(file, np.concatenate((flat, np.full((len(flat), 1), 7.0)), 1))
    assert notes(clouds)[1:] == (
        "z, number 4 each have the same value in the whole train split, so the model cannot learn from them",
    )
    rows = [f"{i // 2},{i},3,{'ab'[i // 2 % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["set,price,amount,target", *rows]))
    assert notes(tmp_path / "t.csv") == (
        "amount has the same value in the whole train split, so the model cannot learn from it",
    )


def test_a_run_ends_with_the_measure_the_laws_and_the_report(everything, capsys):
    words = [
        "sets",
        "--out",
        "run",
        "--train.steps",
        "4",
        "--train.batch",
        "4",
        "--data.points",
        "24",
        "--model.hidden",
        "16",
    ]
    assert main.main(["train", *words]) == 0
    told = capsys.readouterr().out
    assert "accuracy" in told and "laws that hold: permutation, " in told and told.endswith("next: regard look run\n")
    run = Run.open("run")
    assert run.config.kind == "pointnet" and all(
        (run.path / name).exists() for name in ("report.html", "confusion.png")
    )
    laws = json.loads((run.path / "laws.json").read_text())
    assert laws["ok"], laws
    permutation = next(law for law in laws["laws"] if law["law"] == "permutation")
    assert (permutation["declared"], permutation["measured"]) == ("invariant", "holds")


@pytest.mark.parametrize("kind", ["deepsets", "pointnet", "settransformer", "mlp"])
@pytest.mark.parametrize(
    "task, measure",
    [("max", "MAE"), ("statistics", "MAE entropy"), ("clusters", "log-likelihood"), ("solids", "accuracy")],
)
def test_every_kind_learns_every_task(kind, task, measure):
    points = {} if task in ("max", "statistics") else {"data__points": 12}
    run = trained(model=kind, data=task, steps=2, **points)
    looks = [
        event for event in run.metrics() if "accuracy" in str(event) or "MAE" in str(event) or "log-" in str(event)
    ]
    assert measure in str(looks[-1])


def test_a_run_that_stopped_goes_on_to_the_same_losses():
    class Stops(Observer):
        """Ctrl-C after three steps."""

        def stepped(self, step, loss, tokens, seconds):
            if step == 3:
                signal.raise_signal(signal.SIGINT)

    how = {"steps": 6, "options": SMALL, "data": "sum"}
    whole = train.train("sets", out="whole", observers=QUIET, **how)
    train.train("sets", out="half", observers=[Stops()], **how)
    assert len(losses(Run.open("half"))) == 3
    with pytest.raises(ValueError, match="max"):
        train.train("sets", out="half", data="max", resume=True, observers=QUIET)
    again = train.train("sets", out="half", data="sum", resume=True, observers=QUIET)
    assert len(losses(whole)) == 6 and losses(whole) == losses(again)


def test_a_command_that_was_stopped_says_so_to_a_script(monkeypatch, capsys):
    class Stops(Observer):
        def stepped(self, step, loss, tokens, seconds):
            signal.raise_signal(signal.SIGINT)

    words = ["sets", "--data", "sum", "--train.steps", "3", "--train.batch", "4", "--model.hidden", "16", "--out"]
    assert main.main(["train", *words, "whole"]) == 0
    monkeypatch.setattr("regard.verbs.train.watch", Stops)
    assert main.main(["train", *words, "half"]) == 130
    assert len(losses(Run.open("half"))) == 1


def losses(run):
    return [event["loss"] for event in run.metrics() if "tokens" in event]


def test_clouds_of_your_own(clouds, capsys):
    run = trained(data=clouds, steps=25, model="pointnet", data__validation=0.25, train__lr=0.01)
    best = max(event["accuracy"] for event in run.metrics() if "accuracy" in event)
    assert best >= 0.8
    assert main.main(["predict", str(run.path), f"{clouds}/rod/0.npy", f"{clouds}/ball/3.npy", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert next(iter(first["labels"])) == "rod" and next(iter(second["labels"])) == "ball"
    assert first["input"].endswith("rod/0.npy") and sum(first["labels"].values()) == pytest.approx(1, abs=1e-5)


def test_a_table_of_your_own_is_predicted_in_its_own_units(baskets, tmp_path, capsys):
    run = trained(
        data=baskets,
        model="deepsets",
        steps=150,
        model__pool="sum",
        model__layers="alone",
        train__lr=0.05,
        train__batch=16,
        model__hidden=32,
        **BASKET,
    )
    last = [event for event in run.metrics() if "MAE" in event][-1]
    assert last["MAE"] < 2  # totals are 15 on average, and differ by 10
    more = tmp_path / "more.csv"
    # other columns in another order, and no target
    more.write_text("price,basket,amount\n2,x,2\n2,y,2\n1,x,3\n")
    assert main.main(["predict", str(run.path), str(more)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["x", "y"] and all(line.startswith("total ") for line in lines)
    assert abs(float(lines[0].split()[1]) - 7) < 2 and abs(float(lines[1].split()[1]) - 4) < 2


def test_each_point_gets_an_answer(tmp_path, capsys):
    lines = ["set,x,target"] + [f"{i},{k},{'end' if k == 3 else 'inside'}" for i in range(20) for k in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    run = trained(data=str(tmp_path / "t.csv"), model="settransformer", steps=3)
    assert load_model(run).config.each
    (answer,) = predict(run.path, [str(tmp_path / "t.csv")])[:1]
    assert len(answer.each) == 4 and set(answer.each[0].labels) == {"end", "inside"}
    with pytest.raises(ValueError, match="mlp.*every element.*target"):
        trained("other", data=str(tmp_path / "t.csv"), model="mlp")


def test_a_target_of_each_thing_that_depends_on_its_set_is_learned_by_default(tmp_path):
    random = np.random.default_rng(0)
    lines = ["set,x,target"]
    for i in range(60):
        x = random.normal(3 * random.normal(), 1, random.integers(2, 9))
        lines += [f"{i},{each:.4f},{'high' if each > x.mean() else 'low'}" for each in x]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    run = trained(data="t.csv", steps=60, model__hidden=32, train__batch=32)
    assert [event for event in run.metrics() if "accuracy" in event][-1]["accuracy"] > 0.9  # alone: 0.7 at most


def test_clusters_are_told_with_their_shares(tmp_path):
    run = trained(data__task="clusters", model="settransformer", data__points=20)
    np.save(tmp_path / "points.npy", np.random.default_rng(0).normal(size=(30, 2)))
    (answer,) = predict(run.path, ["points.npy"])
    assert len(answer.each) == 4 and sum(each.values["share"] for each in answer.each) == pytest.approx(1, abs=1e-5)


def test_what_is_looked_at_is_read_as_it_was_learned(clouds, baskets):
    made, own, table = (
        trained("made", data__points=24, steps=1),
        trained("own", data=clouds, data__points=30, steps=1),
        trained("table", data=baskets, steps=1, **BASKET),
    )
    solid = open_target(made.path).reader.read()
    assert solid.inputs["x"].shape == (1, 24, 3) and solid.inputs["x"].norm(dim=-1).max() == pytest.approx(1, abs=1e-5)
    cloud = open_target(own.path).reader
    example, given = cloud.read(), cloud.read(f"{clouds}/rod/3.npy")
    assert example.inputs["x"].shape == (1, 20, 3) and given.inputs["x"].shape == (1, 23, 3)
    assert given.inputs["x"].norm(dim=-1).max() == pytest.approx(1, abs=1e-5) and given.called(1) == "rod"
    basket = open_target(table.path).reader.read()
    assert basket.columns == ("price", "amount") and basket.answers == "numbers"
    Path(baskets).unlink()
    # something to look at all the same
    assert open_target(table.path).reader.read().inputs["x"].shape[-1] == 2


def test_a_folder_stands_for_the_clouds_in_it_and_what_is_next_can_be_typed(clouds, baskets):
    run = trained(data=clouds, steps=1)
    answers = predict(run.path, [clouds])
    assert len(answers) == 24 and answers[0].input == f"{clouds}/ball/0.npy"
    assert problem_of_run(run).next_command(run) == f"regard predict run {clouds}/ball/0.npy"
    table = trained("table", data=baskets, steps=1, **BASKET)
    assert problem_of_run(table).next_command(table) == f"regard predict table {baskets}"
    (answer,) = predict(table.path, [clouds])
    assert answer.error.endswith("clouds is a folder; give files in the format of the training data")
    Path(clouds, "ball", "0.npy").write_text("no cloud")
    first, *others = predict(run.path, [clouds])
    assert "0.npy" in first.error and len(others) == 23 and all(each.labels for each in others)


def test_what_is_said_of_a_table_to_predict_can_be_done(baskets, tmp_path):
    run = trained(data=baskets, steps=1, **BASKET)
    more = tmp_path / "more.csv"
    for text, words in (
        (
            "basket,price\n1,2\n",
            "no column 'amount', it has: basket, price; the model was trained on the columns basket, price, amount",
        ),
        ("basket,price,amount\n1,2,x\n", "has 'x' in column 'amount', expected a number"),
    ):
        more.write_text(text)
        (answer,) = predict(run.path, [str(more)])
        advised = set(re.findall(r"--data\.(\w+)", answer.error))
        assert words in answer.error and advised <= set(get_recipe("sets").reading_options)


def test_a_run_finds_its_data_from_another_folder(baskets, tmp_path, monkeypatch):
    run = trained(data="baskets.csv", steps=2, **BASKET)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = train.train("sets", out=tmp_path / "run", resume=True, observers=QUIET)
    assert again.config.data["path"] == "baskets.csv" and len(losses(again)) == 2
    assert "of baskets.csv: prediction total " in open_target(tmp_path / "run").reader.read().notes[0]
    monkeypatch.chdir(tmp_path)
    assert problem_of_run(run).next_command(run).endswith("baskets.csv")


@pytest.mark.parametrize(
    "name, content, words",
    [("few.npy", np.zeros((4, 2)), r"few\.npy.*3.*\(x, y, z\).*2"), ("gone.npy", None, r"file gone\.npy")],
)
def test_what_cannot_be_predicted(name, content, words):
    run = trained(data__points=8, steps=1)
    if content is not None:
        np.save(name, content)
    np.save("good.npy", np.zeros((4, 3)))
    bad, good = predict(run.path, [name, "good.npy"])
    assert re.search(words, bad.error) and good.error is None and good.labels


def test_an_empty_cloud_has_an_answer():
    run = trained(data__points=8, steps=1)
    np.save("nothing.npy", np.zeros((0, 3)))
    (answer,) = predict(run.path, ["nothing.npy"])
    assert sum(answer.labels.values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "data, kind",
    [
        (None, "pointnet"),
        ("solids", "pointnet"),
        ("clusters", "settransformer"),
        ("max", "deepsets"),
        ("t.csv", "deepsets"),
        (".", "pointnet"),
    ],
)
def test_what_is_learned_with_what(data, kind):
    found = get_recipe("sets").defaults(data)
    assert kind_of(get_recipe("sets").models, found) == kind
    assert found.data.path == (data if data in ("t.csv", ".") else None)
    assert found.data.task == (data if data in ("clusters", "max") else "solids")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"model": "forest"}, "model.*sets.*'forest'.*deepsets"),
        ({"data": "nowhere"}, "nowhere; give.*folder.*point clouds.*table"),
        ({"data": "clustres"}, "there is no clustres .* clusters"),
        ({"model": "settransformer", "model__seeds": 3}, "one seed, got .*model.seeds.3"),
    ],
)
def test_what_cannot_be_trained(options, words):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        trained(**options)


def test_data_that_is_no_path():
    with pytest.raises(ValueError, match="Tensor.*table.*path"):
        train.train("sets", data=torch.zeros(3), observers=QUIET)
