"""Several seeds or folds: complete runs in one folder, their mean and deviation, and what a stop leaves."""

import json
import shlex
import shutil
import signal
import statistics

import numpy as np
import pytest
import torch

import regard
from regard.errors import RegardError
from regard.runs.new_run import latest_run_path
from regard.runs.number_format import say_percent
from regard.runs.run import Run
from regard.runs.run_group import Repeats, say_spread, spread
from regard.training.progress import Observer
from regard.verbs import finish, train_run
from regard.verbs.main import main
from tests.recipes.tiny_data import KINDS


class Stopper(Observer):
    """Presses Ctrl-C, or raises, at a step of one of several runs, and remembers what was told."""

    def __init__(self, run="", step=0, error=None):
        self.run, self.step, self.error, self.now, self.lines = run, step, error, "", []

    def started(self, run, steps, first_step):
        self.now = run.path.name

    def stepped(self, step, loss, tokens, seconds):
        if (self.now, step) == (self.run, self.step):
            if self.error is not None:
                raise self.error
            signal.raise_signal(signal.SIGINT)

    def described(self, text):
        self.lines.append(text)

    concluded = described


def repeated(folder, out, observer=None, **options):
    tiny = KINDS["set_table"](folder)
    observers = [Stopper() if observer is None else observer]
    wanted = tiny.options | {name.replace("__", "."): value for name, value in options.items()}
    how = {"data": tiny.data, "out": out, "options": wanted, "observers": observers, "report": False}
    return regard.train(tiny.recipe, steps=4, **how)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    return repeated(folder, folder / "runs", data__test=0.2, train__seed=3, train__seeds=3)


def losses(run):
    return [event["loss"] for event in run.metrics() if event["event"] == "step"]


def test_each_seed_is_a_complete_run_and_the_summary_is_of_them(seeds):
    assert [run.path.name for run in seeds.runs] == seeds.names == ["seed-3", "seed-4", "seed-5"]
    measured = [regard.evaluate(run.path) for run in seeds.runs]
    assert {(each.split, each.count) for each in measured} == {("test", 8)}
    summary = json.loads((seeds.path / "summary.json").read_text())
    for name in ("loss", "accuracy"):
        values = [each.measures[name] for each in measured]
        assert summary["test"][name]["mean"] == pytest.approx(statistics.fmean(values), rel=1e-5)
        assert summary["test"][name]["deviation"] == pytest.approx(statistics.stdev(values), rel=1e-4, abs=1e-9)
        assert summary["test"][name]["runs"] == 3
    assert all(summary["runs"][run.path.name]["test"] == run.config.test for run in seeds.runs)
    assert "mean ± standard deviation of 3 seeds, test split" in seeds.say()


def test_seeds_change_the_training_and_not_the_splits(seeds):
    configs = [run.config for run in seeds.runs]
    assert [config.train["seed"] for config in configs] == [3, 4, 5]
    assert all(config.data["seed"] == 3 and config.counts == configs[0].counts for config in configs)
    assert len({losses(run)[0] for run in seeds.runs}) == 3


def test_the_first_seed_trains_as_a_run_of_its_own_does(seeds, tmp_path):
    alone = repeated(tmp_path, tmp_path / "alone", data__test=0.2, train__seed=3)
    assert isinstance(alone, Run) and losses(alone) == losses(seeds.runs[0])


@pytest.mark.parametrize("error", [None, RuntimeError("the light went out")])
def test_a_stopped_training_goes_on_with_what_is_not_finished(error, tmp_path):
    folds = {"data__folds": 3}
    whole = repeated(tmp_path, tmp_path / "whole", **folds)
    stopper = Stopper("fold-02", 2, error)
    if error is None:
        repeated(tmp_path, tmp_path / "runs", stopper, **folds)
        assert "1 of 3 runs are finished; --resume goes on with the others" in stopper.lines
    else:
        with pytest.raises(RuntimeError):
            repeated(tmp_path, tmp_path / "runs", stopper, **folds)
    half = Repeats.open(tmp_path / "runs")
    assert list(half.figures) == ["fold-01"] and half.runs[-1].path.name == "fold-02"
    assert half.runs[-1].config.test is None
    kept = (half.path / "fold-01" / "metrics.jsonl").stat().st_mtime_ns
    again = Stopper()
    done = regard.train("sets", out=half.path, resume=True, observers=[again], report=False)
    assert again.lines[0].startswith("1 of 3 are finished; 2 runs of 4 steps each: fold-02 … fold-03")
    assert (half.path / "fold-01" / "metrics.jsonl").stat().st_mtime_ns == kept
    assert list(map(losses, done.runs)) == list(map(losses, whole.runs))
    assert done.facts["test"] == whole.facts["test"]


def test_a_resumed_training_may_get_more_seeds_and_no_other_options(seeds, tmp_path):
    first = repeated(tmp_path, tmp_path / "runs", data__test=0.2, train__seeds=2)
    with pytest.raises(RegardError, match=r"data\.test was 0\.2 and is now 0\.3"):
        regard.train("sets", out=first.path, resume=True, options={"data.test": 0.3})
    with pytest.raises(RegardError, match=r"2 seeds.*got None"):
        regard.train("sets", out=first.path, resume=True, options={"train.seeds": None})
    how = {"observers": [], "report": False}
    more = regard.train("sets", out=first.path, resume=True, options={"train.seeds": 3}, **how)
    assert list(more.figures) == ["seed-0", "seed-1", "seed-2"]
    assert [run.config.data["seed"] for run in more.runs] == [0, 0, 0]
    with pytest.raises(RegardError, match="not by the recipe text"):
        regard.train("text", out=first.path, resume=True)


def test_a_budget_in_minutes_is_one_for_each_and_said_before(tmp_path):
    told = Stopper("seed-0", 1, KeyboardInterrupt())
    tiny = KINDS["set_table"](tmp_path)
    with pytest.raises(KeyboardInterrupt):
        regard.train(
            "sets",
            data=tiny.data,
            out=tmp_path / "runs",
            minutes=1.5,
            options=tiny.options | {"train.seeds": 4},
            observers=[told],
        )
    assert told.lines[0] == "4 runs of 1.5 minutes each, 6 minutes in all: seed-0 … seed-3"
    assert told.lines[1] == "── seed-0: 1 of 4 ──"


def test_a_start_that_fails_leaves_nothing_behind(tmp_path):
    with pytest.raises(RegardError, match="41 folds.*got 40"):
        repeated(tmp_path, tmp_path / "runs" / "here", data__folds=41)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"train__seeds": 2, "data__folds": 3}, "train.seeds.2 and .*data.folds.3.*6 runs"),
        ({"train__seeds": 1}, "seeds.* must be .* from 2 .*got 1"),
        ({"train__seeds": 10**9}, "seeds.* to 1,024"),
        ({"train__seeds": 2, "train__seed": 2**32 - 1}, "seed.* to 4,294,967,295"),
    ],
)
def test_what_cannot_be_repeated_is_one_line(options, words, tmp_path):
    with pytest.raises(RegardError, match=words) as raised:
        repeated(tmp_path, tmp_path / "runs", **options)
    assert "\n" not in str(raised.value) and not (tmp_path / "runs").exists()


def test_a_module_is_trained_once(tmp_path):
    data = (torch.randn(8, 2), torch.zeros(8, dtype=torch.long))
    with pytest.raises(RegardError, match="seeds=3 needs a recipe"):
        regard.train(model=torch.nn.Linear(2, 2), task="classify", data=data, options={"seeds": 3})


@pytest.mark.parametrize(
    "command", ["evaluate", "predict {} x", "look", "check", "verify", "generate", "train sets --from"]
)
def test_every_other_command_names_the_runs(command, seeds, capsys):
    words = shlex.split(command.format(seeds.path) if "{}" in command else f"{command} {seeds.path}")
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "holds 3 runs, seed-3 … seed-5" in said and str(seeds.path / "seed-3") in said
    assert said.count("\n") == 1


def test_the_latest_run_may_be_several(seeds, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "sets").symlink_to(seeds.path)
    assert latest_run_path("sets").name == "sets"


def test_the_command_trains_several_and_writes_a_page(tmp_path, monkeypatch, capsys):
    small = train_run.finish_run
    monkeypatch.setattr(train_run, "finish_run", lambda *what, **how: small(*what, **how | {"report": False}))
    tiny = KINDS["set_table"](tmp_path)
    words = f"train sets --data {tiny.data} --data.folds 2 --train.steps 2 --model.hidden 4 --out {tmp_path / '<b>'}"
    assert main(shlex.split(words)) == 0
    out = capsys.readouterr().out
    assert "2 runs of 2 steps each: fold-01 … fold-02" in out and "── fold-02: 2 of 2 ──" in out
    assert "mean ± standard deviation of 2 folds, test split" in out
    page = (tmp_path / "<b>" / "report.html").read_text()
    assert "<h1>&lt;b&gt;</h1>" in page and "<script" not in page and page.count("<polyline") == 4
    assert page.count('<th scope="row">fold-0') == 2 and "mean ± deviation" in page


def test_a_damaged_summary_is_named(seeds, tmp_path):
    shutil.copytree(seeds.path, tmp_path / "copy")
    file = tmp_path / "copy" / "summary.json"
    file.write_text(file.read_text().replace('"mean": 0.', '"mean": 1.'))
    with pytest.raises(RegardError, match=r"summary\.json was damaged or changed"):
        regard.train("sets", out=tmp_path / "copy", resume=True)


def test_figures_that_are_no_numbers_do_not_spoil_the_summary():
    assert spread([1.0, float("nan"), 3.0]) == {"mean": 2.0, "deviation": pytest.approx(2**0.5), "runs": 2}
    assert spread([float("inf")])["mean"] is None
    assert say_spread("accuracy", spread([0.5, 0.7])) == "60.0% ± 14.1%"
    assert say_spread("loss", spread([1.25])) == "1.2500"
    assert say_spread("accuracy", spread([0.9993])) == say_percent(0.9993) == "99.93%"
    assert say_spread("accuracy", {"mean": 0.8125, "deviation": 0.0004}) == "81.3% ± 0.04%"  # a half goes up
    assert say_spread("exact", {"mean": 0.5, "deviation": 0.1}) == "50.0% ± 10.0%"
    assert say_spread("MAE", spread([])) == "no number"


# ── one run


def test_a_stopped_run_does_not_look_at_its_test_split(tmp_path, monkeypatch):
    """Reports of a stopped run are made from the validation split; the test split is for the end alone."""
    seen, whole = [], finish.evaluate_finished
    for name in ("write_laws", "write_report", "target_of_run"):
        monkeypatch.setattr(finish, name, lambda *what, **how: None)
    for name in ("curves", "confusion", "save"):
        monkeypatch.setattr(finish.plot, name, lambda *what, **how: None)

    def evaluate(model, job, split):
        seen.append(split.name)
        return whole(model, job, split)

    monkeypatch.setattr(finish, "evaluate_finished", evaluate)
    tiny = KINDS["set_table"](tmp_path)
    how = {"data": tiny.data, "out": tmp_path / "run", "options": tiny.options | {"data.test": 0.2}}
    stopper = Stopper("run", 2)
    run = regard.train(
        "sets", steps=4, observers=[stopper], **how | {"options": how["options"] | {"train.evaluate_every": 1}}
    )
    assert seen == ["validation"] and run.config.test is None and not any("test" in line for line in stopper.lines[1:])
    assert not any(event["event"] == "test" for event in run.metrics())
    assert run.read("confusion.json")["split"] == "validation"
    told = Stopper()
    run = regard.train("sets", out=run.path, resume=True, observers=[told])
    assert seen == ["validation", "test"] and run.config.test["accuracy"] >= 0
    line = told.lines[-1]
    assert line.startswith("test accuracy ") and " of 8 sets (validation " in line
    assert line.endswith(" of 4, by which the weights were chosen)")


def test_without_a_test_split_the_end_says_what_the_figure_is(tmp_path):
    told = Stopper()
    repeated(tmp_path, tmp_path / "run", told, train__evaluate_every=2)
    assert told.lines[-1].startswith("validation accuracy ") and " of 4 sets" in told.lines[-1]
    assert "by which the weights were chosen" in told.lines[-1] and "--data.test 0.1" in told.lines[-1]
    told = Stopper()
    repeated(tmp_path, tmp_path / "other", told, data__validation=0.0, data__test=0.2)
    assert "there is no validation split" in told.lines[-1]


def test_who_was_evaluated_once_was_not_chosen(tmp_path):
    told = Stopper()
    repeated(tmp_path, tmp_path / "run", told)
    assert told.lines[-1].startswith("validation accuracy ") and told.lines[-1].endswith(" of 4 sets")
    told = Stopper()
    repeated(tmp_path, tmp_path / "other", told, data__test=0.2)
    assert told.lines[-1].startswith("test accuracy ") and told.lines[-1].endswith("; these are the last weights)")


def test_no_share_is_advised_where_the_data_has_its_own_splits(tmp_path):
    arrays = dict(np.load(KINDS["nodes"](tmp_path).data))
    np.savez(tmp_path / "own.npz", **arrays, train_idx=np.arange(30), val_idx=np.arange(30, 40))
    told = Stopper()
    how = {"steps": 2, "observers": [told], "report": False, "options": {"train.evaluate_every": 1}}
    regard.train("graphs", data=tmp_path / "own.npz", out=tmp_path / "run", **how)
    assert told.lines[-1].startswith("validation accuracy ") and "--data.test" not in told.lines[-1]
