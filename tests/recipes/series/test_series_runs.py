"""Runs of series from the first step to their files: trained, killed, resumed, evaluated, predicted, looked at."""

import csv
import json

import numpy as np
import pytest
from pyarrow import csv as csv_tables

import regard
from regard.errors import RegardError
from regard.files import read_tensors
from regard.look.session import Session
from regard.recipes.base import problem_of_run
from regard.recipes.series.config import SampleOptions
from regard.recipes.series.task import ForecastTask, ImputeTask
from regard.runs.run import Run
from regard.training.progress import Observer
from regard.verbs.main import main
from tests.recipes.series.made import save_gestures, save_slopes, waves, write_long, write_months

SMALL = {
    "model.dim": 16,
    "model.depth": 1,
    "model.heads": 2,
    "model.patch": 3,
    "model.quantiles": [0.1, 0.5, 0.9],
    "data.horizon": 6,
    "train.batch": 8,
    "train.evaluate_every": 2,
    "train.save_every": 1,
}


CLASSES = {name: value for name, value in SMALL.items() if name != "data.horizon"}


class Killed(BaseException):
    """As a signal that nobody catches."""


class Killer(Observer):
    def stepped(self, step, loss, size, seconds):
        if step == 3:
            raise Killed


def train(out, data, observers=(), steps=4, options=None, **how):
    wanted = SMALL | {"train.steps": steps} | (options or {})
    return regard.train("series", data=data, out=out, options=wanted, observers=list(observers), report=False, **how)


def open_session(run):
    model = regard.load(run.path)
    reader = problem_of_run(run).reader(run, model)
    return Session(model, reader, "months", run=run, tsne=False)


def shown(run):
    return {view["view"]: view for view in open_session(run).show({})["views"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("series")


@pytest.fixture(scope="module")
def months(folder):
    return write_months(folder / "months.csv")


@pytest.fixture(scope="module")
def run(folder, months):
    return train(folder / "run", months)


def test_a_killed_run_goes_on_to_the_same_weights(folder, months, run):
    with pytest.raises(Killed):
        train(folder / "killed", months, observers=[Killer()])
    resumed = train(folder / "killed", months, resume=True)
    ours, theirs = (read_tensors(each.path / "model.safetensors") for each in (run, resumed))
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_the_test_split_is_evaluated_beside_its_rivals(run):
    found = regard.evaluate(run.path)
    assert found.split == "test" and set(found.rivals) == {"linear", "naive"}
    kept = next(event for event in run.metrics() if event["event"] == "test")
    assert kept["MAE"] == pytest.approx(found.measures["MAE"], rel=1e-6)
    assert json.loads(json.dumps(found.to_json()))["rivals"]["naive"]["MASE"] > 0


def test_a_forecast_as_a_table_with_dates_and_quantiles(folder, months, run, capsys):
    out = folder / "forecast.csv"
    assert main(["predict", str(run.path), months, "--horizon", "9", "--out", str(out)]) == 0
    assert "--data.horizon 9" in capsys.readouterr().err
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["time"] for row in rows[:2]] == ["2020-01-01", "2020-02-01"] and len(rows) == 9
    low, middle, high = ([float(row[f"answer(q{q})"]) for row in rows] for q in (0.1, 0.5, 0.9))
    assert (np.diff([low, middle, high], axis=0) > 0).all()
    np.testing.assert_allclose(middle[:6], [part.values["q0.5"] for part in regard.predict(run.path, months)[0].each])


def test_what_cannot_be_predicted_is_one_line(folder, run):
    other = folder / "other.csv"
    other.write_text("month,bought\n2020-01,1\n2020-02,2\n")
    empty = folder / "empty.csv"
    empty.write_text("month,sold\n2020-01,\n2020-02,NA\n")
    found = regard.predict(run.path, [str(other), str(empty), "none.csv"])
    for prediction, words in zip(found, ("sold", "no known value", "none.csv"), strict=True):
        assert words in prediction.error and "\n" not in prediction.error


def test_a_run_starts_from_another_with_its_sizes(folder, run):
    other = write_months(folder / "longer.csv", waves(200))
    started = regard.train(
        "series",
        data=other,
        start=run.path,
        out=folder / "started",
        options={"train.steps": 1, "train.batch": 4},
        observers=[],
        report=False,
    )
    ours, theirs = (regard.load(each.path).config for each in (started, run))
    assert (ours.horizon, ours.lags, ours.dim) == (theirs.horizon, theirs.lags, theirs.dim)


def test_sampled_futures_are_lines_of_csv(run, capsys):
    assert main(["generate", str(run.path), "--count", "2", "--horizon", "3"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0] == "future,time,sold" and len(lines) == 7 and lines[1].startswith("1,2020-01-01,")


def test_several_series_and_kinds_of_model(folder):
    path = write_long(folder / "long.csv")
    for kind in ("lstm", "conv"):
        options = {"data.id": "shop", "train.steps": 2}
        heads = SMALL.keys() - {"model.heads"}
        wanted = {name: SMALL[name] for name in heads} | options
        made = regard.train(
            "series", data=path, model=kind, out=folder / kind, options=wanted, observers=[], report=False
        )
        assert made.config.counts["series"] == 3 and made.config.kind == f"{kind}series"
    predictions = regard.predict(folder / "conv", path)
    assert [each.each[0].row["series"] for each in predictions] == ["s0", "s1", "s2"]
    other = regard.evaluate(folder / "conv", path)
    assert other.count > 20 and other.split == path


def test_classes_are_told_apart_and_held_out_by_series(folder):
    path = save_gestures(folder / "gestures.npz")
    options = {"data.test": 0.25, "train.steps": 60, "train.lr": 5e-3, "train.save_every": 100}
    how = {"data": path, "observers": [], "report": False}
    made = regard.train("series", out=folder / "classes", options=CLASSES | options, **how)
    found = regard.evaluate(made.path)
    assert found.unit == "series" and found.count == 10 and found.measures["accuracy"] >= 0.9
    predictions = regard.predict(made.path, path)
    assert len(predictions) == 40 and sum(bool(each.right) for each in predictions) >= 36
    options = CLASSES | {"data.folds": 2, "train.steps": 2}
    folds = regard.train("series", out=folder / "folds", options=options, **how)
    assert len(folds.runs) == 2
    series = shown(made)["series"]
    assert series["task"] == "classify" and series["effects"]["shape"] == [20]


def test_gaps_are_filled_where_values_are_missing(folder):
    values = waves()
    values[[30, 31, 70]] = np.nan
    path = write_months(folder / "gaps.csv", values)
    made = train(folder / "fill", path, task="fill", steps=3)
    found = regard.evaluate(made.path)
    assert set(found.rivals) == {"straight line", "naive"} and found.count > 0
    assert shown(made)["series"]["answer"]["shape"][1:] == [3, 1]
    (prediction,) = regard.predict(made.path, path)
    assert [part.row["time"] for part in prediction.each] == ["2012-07-01", "2012-08-01", "2015-11-01"]
    assert all(
        abs(part.values["q0.5"] - waves()[k]) < 12 for part, k in zip(prediction.each, (30, 31, 70), strict=True)
    )
    assert regard.predict(made.path, write_months(folder / "whole.csv"))[0].notes
    with pytest.raises(RegardError, match="--horizon.*fill"):
        regard.predict(made.path, path, options={"horizon": 3})


@pytest.mark.parametrize(
    "how, words",
    [
        ({"options": {"data.folds": 3}}, "3 folds"),
        ({"task": "guess"}, "forecast, classify, fill"),
        ({"task": "fill", "model": "classify-lstm"}, "classify"),
        ({"model": "rnn"}, "transformer"),
        ({"options": {"data.horizon": 500}}, "120 steps"),
        ({"options": {"data.columns": ["bought"]}}, "bought"),
    ],
)
def test_what_cannot_be_trained_is_one_line(folder, months, how, words):
    with pytest.raises(RegardError, match=words) as raised:
        train(folder / "never", months, **how)
    assert "\n" not in str(raised.value) and not (folder / "never").exists()


def test_series_without_labels_have_no_classes(folder, months):
    for data, words in ((months, "months.csv has no labels.*data.label"), (None, "made series.*no labels")):
        with pytest.raises(RegardError, match=words):
            regard.train("series", data=data, task="classify", out=folder / "never", options=CLASSES)


def test_numbers_of_series_are_predicted_in_their_units(folder):
    path = save_slopes(folder / "slopes.npz")
    options = {"data.test": 0.25, "train.steps": 100, "train.lr": 5e-3, "train.save_every": 100}
    made = regard.train(
        "series", data=path, out=folder / "slopes", options=CLASSES | options, observers=[], report=False
    )
    found = regard.evaluate(made.path)
    assert found.count == 10 and found.measures["MAE"] < 0.6  # of the mean alone it is 1
    (number,) = {name for each in regard.predict(made.path, path) for name in each.values}
    answers = [(each.answer, each.truth) for each in regard.predict(made.path, path)]
    assert number == "label" and np.corrcoef(np.array(answers).T)[0, 1] > 0.8
    assert regard.evaluate(made.path, path).count == 40
    series = shown(made)["series"]
    assert series["task"] == "classify" and series["adds"] == "label" and series["effects"]["shape"] == [20]


def test_memory_is_learned_from_as_files_are(folder, months):
    gestures = save_gestures(folder / "gestures.npz")
    arrays = dict(np.load(gestures))
    frame = csv_tables.read_csv(months)
    how = {"observers": [], "report": False}
    small = {"train.steps": 2, "train.save_every": 100}
    cases = [
        (gestures, (arrays["values"], arrays["labels"]), CLASSES, {}),
        (months, frame, SMALL, {}),
        (months, frame, SMALL, {"task": "fill"}),
    ]
    for number, (path, memory, options, task) in enumerate(cases):
        runs = [
            regard.train("series", data=data, out=folder / f"{name}{number}", options=options | small, **how, **task)
            for name, data in (("file", path), ("memory", memory))
        ]
        ours, theirs = ([event.get("loss") for event in run.metrics()] for run in runs)
        assert ours == theirs
        assert shown(runs[1])["series"]["count"] > 0  # of what is drawn at random
    (one,), (other,) = (regard.predict(folder / "memory1", data) for data in (months, frame))
    assert [part.values for part in one.each] == [part.values for part in other.each] and len(one.each) == 6
    for number, (data, memory) in enumerate(((gestures, cases[0][1]), (months, frame), (months, frame))):
        ours, theirs = (regard.evaluate(folder / f"memory{number}", each) for each in (data, memory))
        assert ours.measures == theirs.measures and ours.count == theirs.count
    with pytest.raises(RegardError, match="--data"):
        next(
            problem_of_run(Run.open(folder / "memory1")).generate(Run.open(folder / "memory1"), SampleOptions(), print)
        )


def test_other_data_is_judged_by_what_was_learned(folder, months, run):
    """Evaluations and comparisons of runs read other data in one way."""
    filled = train(folder / "judged", months, task="fill", steps=2)
    other = write_months(folder / "more.csv", waves(90, seed=3))
    found = regard.evaluate(filled.path, other)
    assert found.split == other and set(found.rivals) == {"straight line", "naive"}
    for made, rivals in ((run, ForecastTask), (filled, ImputeTask)):
        task, split, labels = problem_of_run(made).read_other(made, other, None)
        assert isinstance(task, rivals) and labels is None and next(iter(split.batches())).rows > 0
    with pytest.raises(RegardError, match="learned to fill.*to forecast"):
        train(folder / "never", months, start=filled.path)


def test_the_laws_of_a_run_are_measured(run):
    report = regard.check(run.path, laws=["causality", "scaling", "translation", "shift"])
    assert report.ok and [found.measured for found in report] == ["holds"] * 4


def test_the_page_shows_forecast_reasons_and_errors_and_takes_changes(run):
    session = open_session(run)
    data = session.show({})
    views = {view["view"]: view for view in data["views"]}
    series = views["series"]
    assert series["task"] == "forecast" and series["ahead"] == 6 and len(series["truth"]) == 6
    assert series["times"][series["count"]] == "2019-01-01" and series["held"] == series["origin"] == 108
    assert series["effects"]["shape"] == [series["count"], 6, 1] and len(series["attention"]) == 1
    assert [rival["name"] for rival in views["ahead"]["rivals"]] == ["this model", "linear part", "seasonal naive"]
    last = series["count"] - 1
    changed = session.show({"values": [last, 0, 3000]})
    after = next(view for view in changed["views"] if view["view"] == "series")
    assert after["changes"] == [[last, 0, 3000]]
    assert after["answer"]["numbers"] != series["answer"]["numbers"]
    earlier = session.show({"origin": 60})
    assert next(view for view in earlier["views"] if view["view"] == "series")["origin"] == 60
    for wrong in ({"values": [0, 0]}, {"values": [999, 0, 0]}, {"origin": 0}, {"series": 7}):
        with pytest.raises(RegardError):
            session.show(wrong)
